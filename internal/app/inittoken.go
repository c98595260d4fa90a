package app

import (
	"bufio"
	"cmp"
	"context"
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

// slackTokenFile is where we keep the token, relative to the data directory.
const slackTokenFile = "secrets/slack"

// maxToken bounds what is read as a token, in bytes.
const maxToken = 4 << 10

// slackToken is the token to work with.
type slackToken struct {
	text string
	// keep: the token was handed in and is to be written down. A token that a
	// person keeps in a file or in the environment stays there alone.
	keep bool
}

// findToken returns the token that is handed in now, or the one that is kept.
func (o *slackInit) findToken() (slackToken, error) {
	var data []byte
	var err error
	switch {
	case o.tokenStdin:
		// One line: a person who pastes the token need know Enter only.
		data, err = bufio.NewReader(io.LimitReader(o.h.In, maxToken)).ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
	case o.tokenFile != "":
		data, err = os.ReadFile(o.tokenFile)
	default:
		return o.keptToken()
	}
	if err != nil {
		return slackToken{}, cli.Errorf(cli.Credentials, "the token cannot be read: %w", err).Hint("%s", o.withToken())
	}
	token := slackToken{text: strings.TrimSpace(string(data)), keep: true}
	if !strings.HasPrefix(token.text, "xox") || strings.ContainsAny(token.text, " \t\r\n") {
		return slackToken{}, cli.Errorf(cli.Usage, "this is not a Slack token, which begins with xoxb-").
			Hint("copy the Bot User OAuth Token of the app from OAuth & Permissions")
	}
	return token, o.mayReplace(token.text)
}

// keptToken returns the token that the daemons use, or one that a run kept which
// crashed before otm.toml named its file.
func (o *slackInit) keptToken() (slackToken, error) {
	text, err := o.h.Config.SlackToken(o.h.Getenv)
	file := o.h.Config.Slack.TokenFile
	left := file == "" && text == ""
	if left {
		file = o.tokenPath()
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

// tokenPath is the file for a token that is handed in; a link to it stays.
func (o *slackInit) tokenPath() string {
	path := cmp.Or(o.h.Config.Slack.TokenFile, filepath.Join(o.h.Dir, slackTokenFile))
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// mayReplace refuses to overwrite another token in a file of the person's own:
// somebody else may need that token.
func (o *slackInit) mayReplace(token string) error {
	path := o.tokenPath()
	data, err := durable.ReadFile(path)
	old := strings.TrimSpace(string(data))
	ours := cmp.Or(o.h.Config.Slack.TokenFile, filepath.Join(o.h.Dir, slackTokenFile)) == filepath.Join(o.h.Dir, slackTokenFile)
	if ours || errors.Is(err, fs.ErrNotExist) || err == nil && (old == "" || old == token) {
		return nil
	}
	return cli.Errorf(cli.Usage, "the token is kept in %q, a file of your own that holds another one", path).
		Hint("put the new token there, then run: otm init --slack").
		Hint("or set token_file = %q in [slack] of otm.toml, then run this again", slackTokenFile)
}

// keepToken writes a token down that was handed in, readable by its user alone.
func (o *slackInit) keepToken(context.Context) error {
	path := o.tokenPath()
	if data, err := durable.ReadFile(path); !o.token.keep || err == nil && strings.TrimSpace(string(data)) == o.token.text {
		return nil
	}
	crash.Point("init.token")
	if err := durable.Replace(path, []byte(o.token.text+"\n")); err != nil {
		return err
	}
	o.report.Changed = append(o.report.Changed, path)
	return nil
}
