package app

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"otm/internal/cli"
	"otm/internal/crash"
	"otm/internal/durable"
	"otm/internal/safe"
)

// slackTokenFile is where the token is kept, relative to the data directory.
const slackTokenFile = "secrets/slack"

// maxToken bounds what is read as a token, in bytes.
const maxToken = 4 << 10

// slackToken is the token to work with.
type slackToken struct {
	text string
	// keep: it was handed in, and is to be written down. One that a person keeps,
	// in a file of one's own or in the environment, stays there alone.
	keep bool
}

// token is the one that is handed in now, or the one that is kept.
func (o *slackSetup) token(h *Home) (slackToken, error) {
	var data []byte
	var err error
	switch {
	case o.tokenStdin:
		// The first line: who pastes it ends it with Enter, and need know no more.
		data, err = bufio.NewReader(io.LimitReader(h.In, maxToken)).ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
	case o.tokenFile != "":
		data, err = os.ReadFile(o.tokenFile)
	default:
		return o.keptToken(h)
	}
	if err != nil {
		return slackToken{}, cli.Errorf(cli.Credentials, "the token cannot be read: %w", err).Hint("%s", o.withToken())
	}
	token := slackToken{text: strings.TrimSpace(string(data)), keep: true}
	if !strings.HasPrefix(token.text, "xox") || strings.ContainsAny(token.text, " \t\r\n") {
		return slackToken{}, cli.Errorf(cli.Usage, "that is no Slack token: it begins with xoxb-").
			Hint("copy the Bot User OAuth Token of the app from OAuth & Permissions")
	}
	return token, h.mayReplace(token.text)
}

// keptToken is the one that the daemons use, or one that a run kept which
// crashed before otm.toml named its file.
func (o *slackSetup) keptToken(h *Home) (slackToken, error) {
	text, err := h.Config.SlackToken(h.Getenv)
	file := h.Config.Slack.TokenFile
	left := file == "" && text == ""
	if left {
		file = filepath.Join(h.Dir, slackTokenFile)
		var data []byte
		data, err = durable.ReadFile(file)
		text = strings.TrimSpace(string(data))
	}
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return slackToken{}, cli.Errorf(cli.Credentials, "the token cannot be read: %w", err).
			Hint("mend %s, or put the token in again: %s", safe.Quote(file), o.withToken())
	case text == "":
		return slackToken{}, cli.Errorf(cli.Credentials, "no token is kept yet in %q", file).
			Hint("%s", o.withToken())
	}
	return slackToken{text: text, keep: left}, nil
}

// tokenPath is where a token that is handed in goes, behind all links.
func (h *Home) tokenPath() string {
	if h.Config.Slack.TokenFile != "" {
		return followLinks(h.Config.Slack.TokenFile)
	}
	return followLinks(filepath.Join(h.Dir, slackTokenFile))
}

// mayReplace refuses to put a token in the place of another that stands in a
// file of the person's own: somebody else may need it, or write it.
func (h *Home) mayReplace(token string) error {
	path := h.tokenPath()
	data, err := durable.ReadFile(path)
	old := strings.TrimSpace(string(data))
	if errors.Is(err, fs.ErrNotExist) || err == nil && (old == "" || old == token) || h.isOurs(path) {
		return nil
	}
	return cli.Errorf(cli.Usage, "the token is kept in %q, a file of your own that holds another one", path).
		Hint("put the new token there, then run: otm init --slack").
		Hint("or set token_file = %q in [slack] of otm.toml, then run this again", slackTokenFile)
}

// isOurs tells whether a file, behind all links, stands in the data directory, or in secrets/ where
// that is a link to somewhere else.
func (h *Home) isOurs(path string) bool {
	at := filepath.Dir(path) // without links
	for _, root := range []string{h.Dir, filepath.Join(h.Dir, "secrets")} {
		real, err := filepath.EvalSymlinks(root)
		if err == nil && (at == real || strings.HasPrefix(at, real+string(filepath.Separator))) {
			return true
		}
	}
	return false
}

// keepToken writes a token down that was handed in, for the user's eyes only.
func (h *Home) keepToken(token slackToken, r *slackReport) error {
	if !token.keep {
		return nil
	}
	path := h.tokenPath()
	if data, err := durable.ReadFile(path); err == nil && strings.TrimSpace(string(data)) == token.text {
		return nil
	}
	crash.Point("init.token")
	if err := durable.Replace(path, []byte(token.text+"\n")); err != nil {
		return err
	}
	r.Changed = append(r.Changed, path)
	return nil
}
