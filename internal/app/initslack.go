package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/crash"
	"otm/internal/durable"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/slacklist"
)

// slackFlags are those of otm init that go with --slack.
type slackFlags struct {
	tokenStdin bool
	list       string // an id, or a link that ends in one
}

// slackReport is what otm init --slack found and did.
type slackReport struct {
	Dir     string   `json:"dir"`
	Team    string   `json:"team"`
	User    string   `json:"user"`
	ListID  string   `json:"listId"`
	Title   string   `json:"title"`
	Rows    int      `json:"rows"`
	Limit   int      `json:"limit,omitempty"`
	Changed []string `json:"changed"`        // files that were written
	TOML    string   `json:"toml,omitempty"` // lines that a person has to put into otm.toml
	Missing []string `json:"missing"`        // what a person has to add to the list
	Advised []string `json:"advised"`        // optional things that the list lacks
}

// slackInit is one run of otm init --slack. It can be run again after each
// repair: a step that is done already changes nothing.
type slackInit struct {
	slackFlags
	h      *Home
	token  slackToken
	report slackReport
}

func (o *slackInit) run(ctx context.Context) error {
	var err error
	if o.token, err = o.findToken(); err != nil {
		return err
	}
	o.report = slackReport{Dir: o.h.Dir, Changed: []string{}, Missing: []string{}, Advised: []string{}}
	// If we crash between keeping the token and keeping the list, the next run
	// finds the token.
	for _, step := range []func(context.Context) error{o.identify, o.chooseList, o.inspect, o.keepToken, o.keepList, o.raiseCounter} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err = o.h.answer(o.report, o.print); err == nil && len(o.report.Missing) > 0 {
		return cli.Exit(cli.Partial)
	}
	return err
}

// slackTokenFile is where we keep the token, relative to the data directory.
const slackTokenFile = "secrets/slack"

// slackToken is the token to work with.
type slackToken struct {
	text string
	// keep: the token belongs into our file. A token that a person keeps in another
	// file or in the environment stays there alone.
	keep bool
}

// findToken returns the token that is handed in now, or the one that is kept.
func (o *slackInit) findToken() (slackToken, error) {
	if !o.tokenStdin {
		return o.keptToken()
	}
	// One line: a person who pastes the token need know Enter only.
	data, err := bufio.NewReader(o.h.In).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return slackToken{}, &tokenError{err}
	}
	token := slackToken{text: strings.TrimSpace(string(data)), keep: true}
	if !strings.HasPrefix(token.text, "xox") || strings.ContainsAny(token.text, " \t\r\n") {
		return slackToken{}, cli.Errorf(cli.Usage, "this is not a Slack token, which begins with xoxb-").
			Hint("copy the Bot User OAuth Token of the app from OAuth & Permissions")
	}
	if own := o.h.Config.Slack.TokenFile; own != "" && own != o.tokenPath() {
		return slackToken{}, cli.Errorf(cli.Usage, "otm.toml keeps the token in %q, a file of your own", own).
			Hint("put the new token there, then run: otm init --slack").
			Hint("or set token_file = %q in [slack] of otm.toml, then run this again", slackTokenFile)
	}
	return token, nil
}

// keptToken returns the token that the daemons use, or one that a former run kept
// while otm.toml does not name its file yet.
func (o *slackInit) keptToken() (slackToken, error) {
	text, err := o.h.Config.Slack.ReadToken(o.h.Getenv)
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
		return slackToken{}, &tokenError{err}
	case text == "":
		return slackToken{}, &tokenError{fmt.Errorf("none is kept yet in %q", file)}
	}
	return slackToken{text: text, keep: left}, nil
}

func (o *slackInit) tokenPath() string { return filepath.Join(o.h.Dir, slackTokenFile) }

func (o *slackInit) client(list string) *slacklist.Client {
	options := configuredBoard(o.h)
	options.Token, options.ListID, options.Budget = o.token.text, list, 0
	return slacklist.New(options)
}

// identify checks the token and its scopes.
func (o *slackInit) identify(ctx context.Context) error {
	id, err := o.client("").Identify(ctx)
	if err != nil {
		return err
	}
	if lacks := id.MissingScopes(); len(lacks) > 0 {
		return cli.Errorf(cli.Credentials, "the token of %s lacks the scopes %s", id.Name, strings.Join(lacks, ", ")).
			Hint("add them to the Slack app under OAuth & Permissions, install it anew, and run this again with the new token")
	}
	o.report.Team, o.report.User = id.Team, id.Name
	return nil
}

// isListID reports whether a text looks like the id of a list.
func isListID(id string) bool {
	return len(id) > 8 && id[0] == 'F' && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// chooseList takes the list that --list or otm.toml names.
func (o *slackInit) chooseList(context.Context) error {
	o.report.ListID = o.h.Config.Slack.ListID
	if o.list != "" {
		parts := strings.Split(strings.TrimRight(strings.SplitN(o.list, "?", 2)[0], "/"), "/")
		o.report.ListID = parts[len(parts)-1]
	}
	const example = "otm init --slack --token-stdin --list F0123456789"
	switch {
	case o.report.ListID == "" && !o.tokenStdin: // it was run before, and otm.toml was the user's own
		here := dirFlag(o.h.Dir, o.h.Getenv)
		return cli.Errorf(cli.Usage, "otm.toml names no list yet: put the lines into it that otm init --slack printed, or name the list again").
			Hint("otm init --slack%s --list F0123456789   # prints the lines again; the list's link will do as well", here)
	case o.report.ListID == "":
		return cli.Errorf(cli.Usage, "no list is named: make an empty one in Slack, share it with the app for editing, and copy its link").Hint(example)
	case o.list != "" && !isListID(o.report.ListID):
		return cli.Errorf(cli.Usage, "%q is not the id of a list: take the last part of its link, which begins with F", o.report.ListID).Hint(example)
	}
	return nil
}

// inspect compares the list with what OTM needs. The options that one column lacks
// make one line.
func (o *slackInit) inspect(ctx context.Context) error {
	in, err := o.client(o.report.ListID).Inspect(ctx, o.h.Config.Agents, o.h.Config.Types)
	if err != nil {
		return err
	}
	r := &o.report
	r.Title, r.Rows, r.Limit = in.Title, in.Rows, in.Limit
	column := "" // to which the last line adds options
	for _, f := range in.Findings {
		list := &r.Missing
		if f.Optional {
			list = &r.Advised
		}
		switch {
		case f.Option == "":
			*list, column = append(*list, f.Error()+": "+missingHint(f.MissingError)), ""
		case f.Column == column:
			(*list)[len(*list)-1] += ", " + f.Option
		default:
			*list, column = append(*list, fmt.Sprintf("options of the column %q: %s", f.Column, f.Option)), f.Column
		}
	}
	return nil
}

// keepToken writes our file of the token, readable by its user alone.
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

// keepList writes otm.toml if nobody has edited it. Otherwise the report has the
// lines that a person has to put into it.
func (o *slackInit) keepList(context.Context) error {
	path := filepath.Join(o.h.Dir, config.FileName)
	text, err := durable.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c, err := config.Parse(o.h.Dir, text, o.h.Getenv) // now: a person may have edited it meanwhile
	if err != nil {
		return err
	}
	var lines string
	if c.Slack.ListID != o.report.ListID {
		lines += fmt.Sprintf("list_id    = %q\n", o.report.ListID)
	}
	nameFile := o.token.keep && c.Slack.TokenFile == ""
	if nameFile {
		lines += fmt.Sprintf("token_file = %q\n", slackTokenFile)
	}
	switch {
	case lines == "":
		return nil
	case !isOurConfig(string(text), c):
		o.report.TOML = "[slack]\n" + lines
		return nil
	}
	crash.Point("init.list")
	if err := durable.Replace(path, []byte(slackConfig(o.report.ListID, nameFile || c.Slack.TokenFile != ""))); err != nil {
		return err
	}
	o.report.Changed = append(o.report.Changed, path)
	return nil
}

// isOurConfig reports whether an otm.toml is as we wrote it.
func isOurConfig(text string, c *config.Config) bool {
	return text == "" || text == string(configTemplate) || text == slackConfig(c.Slack.ListID, c.Slack.TokenFile != "")
}

// slackConfig is the otm.toml for a list: the template with its table [slack] in
// force.
func slackConfig(list string, tokenFile bool) string {
	text := string(configTemplate)
	text = strings.Replace(text, "# [slack]\n# list_id    = \"F0123456789\" ", fmt.Sprintf("[slack]\nlist_id    = %q ", list), 1)
	if tokenFile {
		text = strings.Replace(text, "# token_file = \""+slackTokenFile+"\"", "token_file = \""+slackTokenFile+"\"", 1)
	}
	return text
}

// raiseCounter raises the counter above the ids on the list, which others may
// have used.
func (o *slackInit) raiseCounter(ctx context.Context) (err error) {
	b, err := o.client(o.report.ListID).Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.End()) }()
	if err := b.Refresh(ctx, 0); err != nil {
		if _, ok := errors.AsType[*pipeline.MissingError](err); ok {
			return nil // the report says so, and nothing can be written there yet
		}
		return err
	}
	return o.h.Counter.RaiseAbove(ctx, b)
}

func (o *slackInit) print() error {
	r, out := &o.report, o.h.Out
	fmt.Fprintf(out, "workspace %s, as %s\n", safe.Escape(r.Team), safe.Escape(r.User))
	fmt.Fprintf(out, "list      %s %s, %d rows\n", r.ListID, safe.Escape(r.Title), r.Rows)
	for _, part := range []struct {
		word string
		all  []string
	}{{"written", r.Changed}, {"missing", r.Missing}, {"optional", r.Advised}} {
		for _, text := range part.all {
			fmt.Fprintf(out, "%-9s %s\n", part.word, safe.Escape(text))
		}
	}
	here := dirFlag(o.h.Dir, o.h.Getenv)
	path := safe.Quote(filepath.Join(o.h.Dir, config.FileName))
	if r.TOML != "" {
		o.h.Note("you have edited %s, so it stays as it is; put these lines into it, in its table [slack] if it has one:", path)
		fmt.Fprintf(out, "\n%s\n", r.TOML)
	}
	switch {
	case len(r.Missing) > 0:
		o.h.Note("add what is missing on the list, then run this again: otm init --slack%s", here)
	case len(o.h.Config.Agents) == 0:
		o.h.Note("edit %s to name your agents, then run this again to see what the list lacks for them: otm init --slack%s", path, here)
	case r.TOML != "":
		o.h.Note("then run: otm up%s", here)
	default:
		o.h.Note("all is set; run: otm up%s", here)
	}
	return nil
}

// check refuses the flags without --slack.
func (f *slackFlags) check(forSlack bool) error {
	if forSlack || !f.tokenStdin && f.list == "" {
		return nil
	}
	return cli.Errorf(cli.Usage, "these flags are for --slack").Hint("otm init --slack --token-stdin --list F0123456789")
}
