package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/crash"
	"otm/internal/durable"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/pipeline"
	"otm/slacklist"
)

// slackFlags are those of otm init that go with --slack.
type slackFlags struct {
	tokenStdin bool
	tokenFile  string
	list       string   // an id, or a link that ends in one
	create     string   // the name of a list to make
	shareWith  []string // users and channels
	asJSON     bool
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
	Changed []string `json:"changed"`          // what was written
	TOML    string   `json:"toml,omitempty"`   // lines that a person has to put into otm.toml
	Shared  []string `json:"shared,omitempty"` // who was given access; Slack does not say who had it
	// Unshared: a run of ours made the list and shared it with nobody, so that only
	// the app sees it.
	Unshared bool     `json:"unshared,omitempty"`
	Missing  []string `json:"missing"` // what a person has to add to the list
	Advised  []string `json:"advised"` // optional things that the list lacks
}

// slackInit is one run of otm init --slack. It can be run again after each
// repair: a step that is done already changes nothing.
type slackInit struct {
	slackFlags
	h      *Home
	token  slackToken
	self   slacklist.Identity // of the token
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
	for _, step := range []func(context.Context) error{o.identify, o.chooseList, o.inspect, o.keepToken, o.keepList, o.share, o.raiseCounter} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if o.asJSON {
		err = safe.EncodeJSON(o.h.Out, o.report)
	} else {
		o.print()
	}
	if err == nil && len(o.report.Missing) > 0 {
		return cli.Exit(cli.Partial)
	}
	return err
}

func (o *slackInit) client(list string) *slacklist.Client {
	options := o.h.boards().configured()
	options.Token, options.ListID, options.Budget = o.token.text, list, 0
	return slacklist.New(options)
}

// identify checks the token and its scopes.
func (o *slackInit) identify(ctx context.Context) error {
	id, err := o.client("").Identify(ctx)
	var be *pipeline.BoardError
	if errors.As(err, &be) && be.Credentials {
		return cli.Errorf(cli.Credentials, "the board refuses the token: %w", be).Hint("%s", o.withToken())
	}
	if err != nil {
		return err
	}
	if lacks := id.MissingScopes(); len(lacks) > 0 {
		return cli.Errorf(cli.Credentials, "the token of %s lacks the scopes %s", id.Name, strings.Join(lacks, ", ")).
			Hint("add them to the Slack app under OAuth & Permissions, install it anew, and run this again with the new token")
	}
	o.self = *id
	o.report.Team, o.report.User = id.Team, id.Name
	return nil
}

// isListID reports whether a text looks like the id of a list.
func isListID(id string) bool {
	return len(id) > 8 && id[0] == 'F' && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// chooseList takes the list that the flags or otm.toml name, or makes one.
func (o *slackInit) chooseList(ctx context.Context) error {
	configured := o.h.Config.Slack.ListID
	switch {
	case o.list != "":
		parts := strings.Split(strings.TrimRight(strings.SplitN(o.list, "?", 2)[0], "/"), "/")
		o.report.ListID = parts[len(parts)-1]
		if !isListID(o.report.ListID) {
			return cli.Errorf(cli.Usage, "%q is not the id of a list: take the last part of its link, which begins with F", o.report.ListID).
				Hint("%s", o.line(o.tokenFlags(), " --list F0123456789"))
		}
		return nil
	case configured == "" && o.create == "":
		example := "F0123456789"
		if made := o.ownMadeList(); made.ListID != "" {
			example = made.ListID
		}
		return cli.Errorf(cli.Usage, "say which list: an existing one, or a new one").
			Hint("%s", o.line(o.tokenFlags(), " --list "+example)).
			Hint("%s --share-with U0123456789", o.line(o.tokenFlags(), " --create-list 'Agent tasks'"))
	case o.create == "":
		o.report.ListID = configured
		return nil
	}
	made := o.ownMadeList().ListID
	for _, list := range []string{configured, made} {
		if list == "" {
			continue
		}
		in, err := o.client(list).Inspect(ctx, o.h.Config.Agents)
		if list == made && list != configured && isNotThere(err) {
			o.h.Note("the list %s, which %s names, is not there any more; another one is made", list, safe.Quote(o.madeListFile()))
			continue
		}
		if err != nil {
			return err
		}
		if in.Title == o.create { // a former run made it
			o.report.ListID = list
			return nil
		}
		if list == configured {
			return cli.Errorf(cli.Usage, "the list %s %q is configured already", list, in.Title).
				Hint("otm init --slack   # checks that list").Hint("remove slack.list_id from otm.toml to make another list")
		}
	}
	return o.makeList(ctx)
}

// madeList is the list that we made last. If otm.toml does not name it yet, the next
// run uses it and does not make another one.
type madeList struct {
	ListID string `json:"listId"` // "": we made none
	// Team and User are those of the token that made it; "": not known, as files
	// of former versions hold only the id.
	Team string `json:"team,omitempty"`
	User string `json:"user,omitempty"`
	// Unshared: it was shared with nobody yet.
	Unshared bool `json:"unshared,omitempty"`
}

func (o *slackInit) madeListFile() string { return filepath.Join(o.h.Dir, "board", "made-list") }

// madeList reads which list we made last. If the file cannot be read, we made none.
func (o *slackInit) madeList() (made madeList) {
	data, _ := durable.ReadFile(o.madeListFile())
	if json.Unmarshal(data, &made) != nil {
		made = madeList{ListID: strings.TrimSpace(string(data))}
	}
	if !isListID(made.ListID) {
		return madeList{}
	}
	return made
}

// ownMadeList is madeList if our token made the list: a token of another workspace
// or app does not see it.
func (o *slackInit) ownMadeList() madeList {
	made := o.madeList()
	if made.User != "" && (made.Team != o.self.Team || made.User != o.self.User) {
		return madeList{}
	}
	return made
}

// keepMade replaces what madeList reads. It is durable on return.
func (o *slackInit) keepMade(made madeList) error {
	data, err := json.Marshal(made)
	if err != nil {
		return err
	}
	return durable.Replace(o.madeListFile(), append(data, '\n'))
}

// isNotThere reports whether the board says that it has no such list.
func isNotThere(err error) bool {
	var be *pipeline.BoardError
	return errors.As(err, &be) && (be.Code == "list_not_found" || be.Code == "file_not_found")
}

// makeList makes the list and notes its id at once. If we crash between the two,
// nobody knows of the list; it stays empty.
func (o *slackInit) makeList(ctx context.Context) error {
	var labels []string
	for _, a := range o.h.Config.Agents {
		labels = append(labels, a.Label)
	}
	if len(labels) == 0 {
		o.h.Warn("no agents are named in otm.toml: the new list will lack their options, which have to be added by hand")
	}
	id, err := o.client("").CreateList(ctx, o.create, labels)
	var be *pipeline.BoardError
	if errors.As(err, &be) && slices.Contains([]string{"", "internal_error", "fatal_error"}, be.Code) {
		return cli.Errorf(cli.TryLater, "make the list: %w: whether it was made is not known", err).
			Hint("run this again; if a list was made, nobody sees it, and it stays empty")
	}
	if err != nil {
		return fmt.Errorf("make the list: %w", err)
	}
	o.report.ListID = id
	o.report.Changed = append(o.report.Changed, "the list "+o.create)
	if err := o.keepMade(madeList{ListID: id, Team: o.self.Team, User: o.self.User, Unshared: true}); err != nil {
		return cli.Errorf(cli.Failed, "the list %s was made, but its id could not be kept: %w", id, err).
			Hint("%s   # goes on with this list", o.line(o.tokenFlags(), " --list "+id))
	}
	return nil
}

// inspect compares the list with what OTM needs.
func (o *slackInit) inspect(ctx context.Context) error {
	in, err := o.client(o.report.ListID).Inspect(ctx, o.h.Config.Agents)
	if err != nil {
		return err
	}
	r := &o.report
	r.Title, r.Rows, r.Limit = in.Title, in.Rows, in.Limit
	for _, f := range in.Findings {
		text := f.Error() + ": " + missingHint(f.MissingError)
		if f.Optional {
			r.Advised = append(r.Advised, text)
		} else {
			r.Missing = append(r.Missing, text)
		}
	}
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
	if lines == "" {
		return nil
	}
	info, err := durable.Lstat(path)
	linked := err == nil && !info.Mode().IsRegular()
	if linked || !isOurConfig(string(text), c) {
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

// withToken is the same command with a token to be pasted.
func (o *slackInit) withToken() string {
	list := ""
	if o.list != "" {
		list = " --list " + safe.Quote(o.list)
	}
	if o.create != "" {
		list += " --create-list " + safe.Quote(o.create)
	}
	return o.line(" --token-stdin", list) + "   # paste the xoxb- token of the app, then Enter"
}

func (o *slackInit) tokenFlags() string {
	switch {
	case o.tokenStdin:
		return " --token-stdin"
	case o.tokenFile != "":
		return " --token-file " + safe.Quote(o.tokenFile)
	}
	return ""
}

// line is a command line that gives access to the same people and channels.
func (o *slackInit) line(token, list string) string {
	line := "otm init --slack" + token + list
	for _, who := range o.shareWith {
		line += " --share-with " + who
	}
	return line
}

// share gives people and channels access, and notes whether anybody has it.
func (o *slackInit) share(ctx context.Context) error {
	for _, who := range o.shareWith {
		if err := o.client(o.report.ListID).Share(ctx, who); err != nil {
			return cli.Errorf(cli.Failed, "share the list with %s: %w", who, err).
				Hint("a person's id begins with U, a channel's with C: both stand in their profile or details in Slack")
		}
		o.report.Shared = append(o.report.Shared, who)
	}
	made := o.madeList()
	if made.ListID != o.report.ListID || !made.Unshared {
		return nil
	}
	if len(o.shareWith) > 0 {
		made.Unshared = false
		return o.keepMade(made)
	}
	o.report.Unshared = true
	return nil
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
		var missing *pipeline.MissingError
		if errors.As(err, &missing) {
			return nil // the report says so, and nothing can be written there yet
		}
		return err
	}
	return o.h.Store.RaiseAbove(ctx, b)
}

func (o *slackInit) print() {
	r, out := &o.report, o.h.Out
	fmt.Fprintf(out, "workspace %s, as %s\n", safe.Escape(r.Team), safe.Escape(r.User))
	room := ""
	if r.Limit > 0 && r.Limit < view.ManyRows {
		room = fmt.Sprintf(" of %d", r.Limit)
	}
	fmt.Fprintf(out, "list      %s %s, %d rows%s\n", r.ListID, safe.Escape(r.Title), r.Rows, room)
	for _, part := range []struct {
		word string
		all  []string
	}{{"written   ", r.Changed}, {"shared    with ", r.Shared}, {"missing   ", r.Missing}, {"optional  ", r.Advised}} {
		for _, text := range part.all {
			fmt.Fprintf(out, "%s%s\n", part.word, safe.Escape(text))
		}
	}
	here := dirFlag(o.h.Dir, o.h.Getenv)
	path := safe.Quote(filepath.Join(o.h.Dir, config.FileName))
	if r.Unshared {
		o.h.Note("nobody but the app can see the list yet; share it with yourself (your member ID stands in your Slack profile under ⋮): otm init --slack%s --share-with U0123456789", here)
	}
	if r.TOML != "" {
		o.h.Note("you have edited %s, so it stays as it is; put these lines into it, in its table [slack] if it has one:", path)
		fmt.Fprintf(out, "\n%s\n", r.TOML)
	}
	switch {
	case len(r.Missing) > 0:
		o.h.Note("add what is missing on the list, then run this again: otm init --slack%s", here)
	case len(o.h.Config.Agents) == 0:
		o.h.Note("edit %s to name your agents, then run this again to see what the list lacks for them: otm init --slack%s", path, here)
	case r.TOML != "", r.Unshared:
		o.h.Note("then run: otm up%s", here)
	default:
		o.h.Note("all is set; run: otm up%s", here)
	}
}

// shareable is the id of a person or of a channel.
var shareable = regexp.MustCompile(`^[UWCG][A-Z0-9]+$`)

// check refuses flags that do not go together.
func (f *slackFlags) check(forSlack bool) error {
	given := f.tokenStdin || f.tokenFile != "" || f.list != "" || f.create != "" || len(f.shareWith) > 0
	switch {
	case given && !forSlack:
		return cli.Errorf(cli.Usage, "these flags are for --slack").Hint("otm init --slack --token-stdin --list F0123456789")
	case f.tokenStdin && f.tokenFile != "":
		return cli.Errorf(cli.Usage, "give either --token-stdin or --token-file").Hint("otm init --slack --token-stdin")
	case slices.ContainsFunc(f.shareWith, func(who string) bool { return !shareable.MatchString(who) }):
		return cli.Errorf(cli.Usage, "--share-with %s: a person's id begins with U, a channel's with C", strings.Join(f.shareWith, ", ")).
			Hint("both stand in their profile or details in Slack: otm init --slack --create-list 'Agent tasks' --share-with U0123456789")
	case f.list != "" && f.create != "":
		return cli.Errorf(cli.Usage, "give either --list or --create-list").Hint("otm init --slack --list F0123456789")
	}
	return nil
}
