package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/pipeline"
	"otm/slacklist"
)

// slackSetup is what otm init --slack was asked for.
type slackSetup struct {
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
	Shared  []string `json:"shared,omitempty"` // who was given access; Slack does not say who had it
	Missing []string `json:"missing"`          // what a person has to add
	Advised []string `json:"advised"`          // what OTM works without
}

// run sets a data directory up for a Slack List. Each step that is right
// already changes nothing, so it can be run again after each mend.
func (o *slackSetup) run(ctx context.Context, h *Home) error {
	kept, err := o.token(h)
	if err != nil {
		return err
	}
	token := kept.text
	id, err := h.setupClient(token, "").Identify(ctx)
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
	r := &slackReport{Dir: h.Dir, Team: id.Team, User: id.Name, Changed: []string{}, Missing: []string{}, Advised: []string{}}
	if err := o.chooseList(ctx, h, kept, r); err != nil {
		return err
	}
	if err := o.inspect(ctx, h, token, r); err != nil {
		return err
	}
	// Token and list fit each other. If we crash between the two, the token is
	// there, and the next run finds it and names its file.
	if err := h.keepToken(kept, r); err != nil {
		return err
	}
	if err := h.keepList(kept, r); err != nil {
		return err
	}
	if err := o.share(ctx, h, token, r); err != nil {
		return err
	}
	if err := h.raiseAboveList(ctx, token, r.ListID); err != nil {
		return err
	}
	if o.asJSON {
		if err := safe.EncodeJSON(h.Out, r); err != nil {
			return err
		}
	} else {
		r.print(h)
	}
	if len(r.Missing) > 0 {
		return cli.Exit(cli.Partial)
	}
	return nil
}

// isListID tells whether a text looks like the id of a list.
func isListID(id string) bool {
	return len(id) > 8 && id[0] == 'F' && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// chooseList takes the list that was named, the one that is configured, or
// makes one.
func (o *slackSetup) chooseList(ctx context.Context, h *Home, token slackToken, r *slackReport) error {
	switch {
	case o.list != "":
		parts := strings.Split(strings.TrimRight(strings.SplitN(o.list, "?", 2)[0], "/"), "/")
		r.ListID = parts[len(parts)-1]
	case h.Config.Slack.ListID != "":
		r.ListID = h.Config.Slack.ListID
	case o.create == "":
		return cli.Errorf(cli.Usage, "say which list: an existing one, or a new one").
			Hint("%s", o.goOn("F0123456789")).
			Hint("%s --share-with U0123456789", o.line(o.tokenFlags(), " --create-list 'Agent tasks'"))
	}
	if r.ListID != "" && !isListID(r.ListID) {
		return cli.Errorf(cli.Usage, "%q is no list: want the last part of its link, which begins with F", r.ListID).
			Hint("%s", o.goOn("F0123456789"))
	}
	if err := h.canKeep(token, r.ListID); err != nil {
		return err
	}
	switch {
	case r.ListID == "":
		return o.makeList(ctx, h, token, r)
	case o.create != "":
		return o.madeBefore(ctx, h, token.text, r)
	}
	return nil
}

// makeList makes the list and writes it down at once: what fails later does not
// make the next run make another. Only if we crash between the two is there a
// list that nobody knows.
func (o *slackSetup) makeList(ctx context.Context, h *Home, token slackToken, r *slackReport) error {
	if len(h.Config.Agents) == 0 {
		h.Warn("no agents are named in otm.toml: the new list will lack their options, which have to be added by hand")
	}
	var err error
	if r.ListID, err = h.setupClient(token.text, "").CreateList(ctx, o.create, h.labels()); err != nil {
		return unmade(err)
	}
	r.Changed = append(r.Changed, "the list "+o.create)
	if err := h.keepList(token, r); err != nil {
		return cli.Errorf(cli.Failed, "the list %s was made, but could not be written down: %w", r.ListID, err).
			Hint("%s   # once that is mended: it goes on with this list", o.goOn(r.ListID))
	}
	return nil
}

// unmade says that a list was not made, or that nobody knows: then the next run
// may make a second one, and only the person can tell whether that is worse.
func unmade(err error) error {
	var be *pipeline.BoardError
	if errors.As(err, &be) && slices.Contains([]string{"", "internal_error", "fatal_error"}, be.Code) {
		return cli.Errorf(cli.TryLater, "make the list: %w: whether it was made is not known", err).
			Hint("run this again; if there was one made already, nobody sees it, and it stays empty")
	}
	return fmt.Errorf("make the list: %w", err)
}

// withToken is the same command with a token to be pasted.
func (o *slackSetup) withToken() string {
	list := ""
	if o.list != "" {
		list = " --list " + safe.Quote(o.list)
	}
	if o.create != "" {
		list += " --create-list " + safe.Quote(o.create)
	}
	return o.line(" --token-stdin", list) + "   # paste the xoxb- token of the app, then Enter"
}

// goOn is the command that does what was asked for with a list that is there.
func (o *slackSetup) goOn(list string) string { return o.line(o.tokenFlags(), " --list "+list) }

func (o *slackSetup) tokenFlags() string {
	switch {
	case o.tokenStdin:
		return " --token-stdin"
	case o.tokenFile != "":
		return " --token-file " + safe.Quote(o.tokenFile)
	}
	return ""
}

// line is a command that gives access to the same people and channels.
func (o *slackSetup) line(token, list string) string {
	line := "otm init --slack" + token + list
	for _, who := range o.shareWith {
		line += " --share-with " + who
	}
	return line
}

// madeBefore goes on with the list that is configured, where it is the one that
// is to be made: a run before this one made it.
func (o *slackSetup) madeBefore(ctx context.Context, h *Home, token string, r *slackReport) error {
	in, err := h.setupClient(token, r.ListID).Inspect(ctx, h.Config.Agents)
	if err != nil {
		return err
	}
	if in.Title == o.create {
		return nil
	}
	return cli.Errorf(cli.Usage, "the list %s %q is configured already", r.ListID, in.Title).
		Hint("otm init --slack   # looks whether it fits").Hint("remove slack.list_id from otm.toml to make another one")
}

// share gives people and channels access.
func (o *slackSetup) share(ctx context.Context, h *Home, token string, r *slackReport) error {
	for _, who := range o.shareWith {
		if err := h.setupClient(token, r.ListID).Share(ctx, who); err != nil {
			return cli.Errorf(cli.Failed, "share the list with %s: %w", who, err).
				Hint("a person's id begins with U, a channel's with C: both stand in their profile or details in Slack")
		}
		r.Shared = append(r.Shared, who)
	}
	return nil
}

func (h *Home) labels() []string {
	var labels []string
	for _, a := range h.Config.Agents {
		labels = append(labels, a.Label)
	}
	return labels
}

func (h *Home) setupClient(token, list string) *slacklist.Client {
	o := h.boards().configured()
	o.Token, o.ListID, o.Budget = token, list, 0
	return slacklist.New(o)
}

// inspect holds the list against what is needed.
func (o *slackSetup) inspect(ctx context.Context, h *Home, token string, r *slackReport) error {
	in, err := h.setupClient(token, r.ListID).Inspect(ctx, h.Config.Agents)
	if err != nil {
		return err
	}
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

// raiseAboveList brings the counter above the ids on the list, which may have
// been used by others.
func (h *Home) raiseAboveList(ctx context.Context, token, list string) (err error) {
	client := h.setupClient(token, list)
	b, err := client.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.End()) }()
	if err := b.Refresh(ctx, 0); err != nil {
		var missing *pipeline.MissingError
		if errors.As(err, &missing) {
			return nil // the report says so, and nothing is brought there yet
		}
		return err
	}
	return h.Store.RaiseAbove(ctx, b)
}

func (r *slackReport) print(h *Home) {
	fmt.Fprintf(h.Out, "workspace %s, as %s\n", safe.Escape(r.Team), safe.Escape(r.User))
	room := ""
	if r.Limit > 0 && r.Limit < view.ManyRows {
		room = fmt.Sprintf(" of %d", r.Limit)
	}
	fmt.Fprintf(h.Out, "list      %s %s, %d rows%s\n", r.ListID, safe.Escape(r.Title), r.Rows, room)
	for _, c := range r.Changed {
		fmt.Fprintf(h.Out, "written   %s\n", safe.Escape(c))
	}
	for _, who := range r.Shared {
		fmt.Fprintf(h.Out, "shared    with %s\n", safe.Escape(who))
	}
	for _, m := range r.Missing {
		fmt.Fprintf(h.Out, "missing   %s\n", safe.Escape(m))
	}
	for _, a := range r.Advised {
		fmt.Fprintf(h.Out, "optional  %s\n", safe.Escape(a))
	}
	here := dirFlag(h.Dir, h.Getenv)
	switch {
	case len(r.Missing) > 0:
		h.Note("add what is missing on the list, then run this again: otm init --slack%s", here)
	case len(h.Config.Agents) == 0:
		h.Note("edit %s to name your agents, then run this again, which says what the list lacks for them: otm init --slack%s", safe.Quote(filepath.Join(h.Dir, config.FileName)), here)
	default:
		h.Note("all is there; run: otm up%s", here)
	}
}

// shareable is the id of a person or of a channel.
var shareable = regexp.MustCompile(`^[UWCG][A-Z0-9]+$`)

// check refuses flags that do not go together.
func (o *slackSetup) check(forSlack bool) error {
	given := o.tokenStdin || o.tokenFile != "" || o.list != "" || o.create != "" || len(o.shareWith) > 0
	switch {
	case given && !forSlack:
		return cli.Errorf(cli.Usage, "these flags are for --slack").Hint("otm init --slack --token-stdin --list F0123456789")
	case o.tokenStdin && o.tokenFile != "":
		return cli.Errorf(cli.Usage, "give either --token-stdin or --token-file").Hint("otm init --slack --token-stdin")
	case slices.ContainsFunc(o.shareWith, func(who string) bool { return !shareable.MatchString(who) }):
		return cli.Errorf(cli.Usage, "--share-with %s: a person's id begins with U, a channel's with C", strings.Join(o.shareWith, ", ")).
			Hint("both stand in their profile or details in Slack: otm init --slack --create-list 'Agent tasks' --share-with U0123456789")
	case o.list != "" && o.create != "":
		return cli.Errorf(cli.Usage, "give either --list or --create-list").Hint("otm init --slack --list F0123456789")
	}
	return nil
}
