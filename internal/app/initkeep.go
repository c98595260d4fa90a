package app

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/crash"
	"otm/internal/durable"
	"otm/internal/safe"
)

// keepList writes the list into otm.toml, and where the token is, if it is kept
// and no file is named. The new text was read before it takes the old one's
// place, in one step: if we crash, one or the other is there.
func (h *Home) keepList(token slackToken, r *slackReport) error {
	path, before, err := h.configText()
	if err != nil {
		return err
	}
	after, c, err := h.withList(before, token, r.ListID)
	if err != nil {
		return err
	}
	if !bytes.Equal(before, after) {
		crash.Point("init.list")
		if err := durable.Replace(path, after); err != nil {
			return err
		}
		r.Changed = append(r.Changed, path)
	}
	h.Config = c
	return nil
}

// canKeep tells whether keepList could, before anything is done. list is "" for
// one that is still to be made.
func (h *Home) canKeep(token slackToken, list string) error {
	path, before, err := h.configText()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return cli.Errorf(cli.BadConfig, "otm.toml is a link into a folder that is not there: %w", err).
			Hint("mkdir -p %s", safe.Quote(filepath.Dir(path)))
	}
	_, _, err = h.withList(before, token, list)
	return err
}

// configText is otm.toml, and where it is: it may be a link to where a person
// keeps it.
func (h *Home) configText() (path string, text []byte, err error) {
	path = followLinks(filepath.Join(h.Dir, config.FileName))
	text, err = durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return path, text, err
}

// followLinks is where a path leads, also when nothing is there yet.
func followLinks(path string) string {
	for range 40 { // as many as systems follow
		to, err := os.Readlink(path)
		if err != nil {
			break // no link
		}
		if !filepath.IsAbs(to) {
			to = folder(path) + to
		}
		path = to
	}
	// The folder without links, or taking x/.. out of it would lead elsewhere
	// where x is one.
	if at, err := filepath.EvalSymlinks(folder(path)); err == nil {
		return filepath.Join(at, filepath.Base(path))
	}
	return path
}

// folder is a path without its last part, as it is written.
func folder(path string) string {
	return path[:strings.LastIndexByte(path, filepath.Separator)+1]
}

// someList stands for a list that is still to be made.
const someList = "F0123456789"

// withList is the text of otm.toml with a list in it, and how it reads.
func (h *Home) withList(text []byte, token slackToken, list string) ([]byte, *config.Config, error) {
	c, err := config.Parse(h.Dir, text, h.Getenv) // now: a person may have edited it meanwhile
	if err != nil {
		return nil, nil, err
	}
	want := list
	if list == "" {
		want = someList
	}
	var values []config.Value
	if c.Slack.ListID != want {
		values = append(values, config.Value{Key: "list_id", Text: want})
	}
	if token.keep && c.Slack.TokenFile == "" {
		values = append(values, config.Value{Key: "token_file", Text: slackTokenFile})
	}
	if len(values) == 0 {
		return text, c, nil
	}
	after, err := config.Set(text, "slack", values)
	if err == nil {
		c, err = config.Parse(h.Dir, after, h.Getenv)
	}
	if err == nil && (c.Slack.ListID != want || token.keep && c.Slack.TokenFile == "") {
		err = errors.New("[slack] or its keys stand there in other letters too, and those would win")
	}
	if err != nil {
		return nil, nil, byHand(err, values, list != "")
	}
	return after, c, nil
}

// byHand says what a person has to write, where we cannot.
func byHand(err error, values []config.Value, known bool) error {
	e := cli.Errorf(cli.BadConfig, "otm.toml was left as it is: %w", err)
	if !known {
		return e.Hint("write slack in otm.toml as one table, below a line [slack], then run this again")
	}
	for _, v := range values {
		e.Hint("set %s in the table slack of otm.toml by hand, then run this again", fmt.Sprintf("%s = %q", v.Key, v.Text))
	}
	return e
}
