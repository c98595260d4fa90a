package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/safe"
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

// slackTokenFile is where the token is kept, relative to the data directory.
const slackTokenFile = "secrets/slack"

// maxToken bounds what is read as a token, in bytes.
const maxToken = 4 << 10

// slackReport is what otm init --slack found and did.
type slackReport struct {
	Dir     string   `json:"dir"`
	Team    string   `json:"team"`
	User    string   `json:"user"`
	ListID  string   `json:"listId"`
	Title   string   `json:"title"`
	Rows    int      `json:"rows"`
	Limit   int      `json:"limit,omitempty"`
	Changed []string `json:"changed"` // what was written
	Missing []string `json:"missing"` // what a person has to add
	Advised []string `json:"advised"` // what OTM works without
}

// run sets a data directory up for a Slack List. Each step that is right
// already changes nothing, so it can be run again after each mend.
func (o *slackSetup) run(ctx context.Context, h *Home) error {
	token, err := o.token(h)
	if err != nil {
		return err
	}
	client := h.setupClient(token, "")
	id, err := client.Identify(ctx)
	if err != nil {
		return err
	}
	if lacks := id.MissingScopes(); len(lacks) > 0 {
		return cli.Errorf(cli.Credentials, "the token of %s lacks the scopes %s", id.Name, strings.Join(lacks, ", ")).
			Hint("add them to the Slack app under OAuth & Permissions, install it anew, and run this again with the new token")
	}
	r := &slackReport{Dir: h.Dir, Team: id.Team, User: id.Name, Changed: []string{}, Missing: []string{}, Advised: []string{}}
	if err := o.chooseList(ctx, h, token, r); err != nil {
		return err
	}
	if err := o.inspect(ctx, h, token, r); err != nil {
		return err
	}
	if err := h.keep(token, r); err != nil {
		return err
	}
	if err := o.share(ctx, h, token, r); err != nil {
		return err
	}
	if err := h.raiseAboveList(ctx, token, r.ListID); err != nil {
		return err
	}
	if o.asJSON {
		if err := json.NewEncoder(h.Out).Encode(r); err != nil {
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

// token is the one that was given now, or the one that is kept.
func (o *slackSetup) token(h *Home) (string, error) {
	var data []byte
	var err error
	switch {
	case o.tokenStdin:
		data, err = io.ReadAll(io.LimitReader(h.In, maxToken))
	case o.tokenFile != "":
		data, err = os.ReadFile(o.tokenFile)
	default:
		kept, err := h.Config.SlackToken(h.Getenv)
		if kept == "" && err == nil {
			data, err = os.ReadFile(filepath.Join(h.Dir, slackTokenFile))
			kept = strings.TrimSpace(string(data))
		}
		if kept == "" || err != nil {
			return "", cli.Errorf(cli.Credentials, "no token is kept yet").
				Hint("otm init --slack --token-stdin   # paste the xoxb- token of the app, then Ctrl-D")
		}
		return kept, nil
	}
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if !strings.HasPrefix(token, "xox") || strings.ContainsAny(token, " \t\r\n") {
		return "", cli.Errorf(cli.Usage, "that is no Slack token: it begins with xoxb-").
			Hint("copy the Bot User OAuth Token of the app from OAuth & Permissions")
	}
	return token, nil
}

// keep writes down the list, and the token for the daemons. If we crash between
// the two, the list is configured, and the next run with the token goes on.
func (h *Home) keep(token string, r *slackReport) error {
	if err := h.keepList(r); err != nil {
		return err
	}
	return h.keepToken(token, r)
}

// keepToken keeps the token where the configuration says, for the user's eyes
// only.
func (h *Home) keepToken(token string, r *slackReport) error {
	path, err := filepath.EvalSymlinks(h.Config.Slack.TokenFile)
	if err != nil {
		path = h.Config.Slack.TokenFile // not there yet
	}
	if data, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(data)) == token {
		return nil
	}
	if err := durable.Replace(path, []byte(token+"\n")); err != nil {
		return err
	}
	r.Changed = append(r.Changed, path)
	return nil
}

// isListID tells whether a text looks like the id of a list.
func isListID(id string) bool {
	return len(id) > 8 && id[0] == 'F' && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// chooseList takes the list that was named, the one that is configured, or
// makes one. What is made is written down at once: a run that fails later does
// not make another.
func (o *slackSetup) chooseList(ctx context.Context, h *Home, token string, r *slackReport) error {
	switch {
	case o.list != "":
		parts := strings.Split(strings.TrimRight(strings.SplitN(o.list, "?", 2)[0], "/"), "/")
		r.ListID = parts[len(parts)-1]
	case h.Config.Slack.ListID != "":
		r.ListID = h.Config.Slack.ListID
	case o.create == "":
		return cli.Errorf(cli.Usage, "say which list: an existing one, or a new one").
			Hint("otm init --slack --list F0123456789").
			Hint("otm init --slack --create-list 'Agent tasks' --share-with U0123456789")
	}
	switch {
	case r.ListID == "":
		return o.makeList(ctx, h, token, r)
	case !isListID(r.ListID):
		return cli.Errorf(cli.Usage, "%q is no list: want the last part of its link, which begins with F", r.ListID).
			Hint("otm init --slack --list F0123456789")
	case o.create != "":
		return o.madeBefore(ctx, h, token, r)
	}
	return h.canKeep(r.ListID)
}

func (o *slackSetup) makeList(ctx context.Context, h *Home, token string, r *slackReport) error {
	if err := h.canKeep(""); err != nil {
		return err
	}
	var err error
	if r.ListID, err = h.setupClient(token, "").CreateList(ctx, o.create, h.labels()); err != nil {
		return fmt.Errorf("make the list: %w", err)
	}
	r.Changed = append(r.Changed, "the list "+o.create)
	return h.keep(token, r)
}

// madeBefore goes on with the list that is configured, where it is the one that
// is to be made: a run before this one made it.
func (o *slackSetup) madeBefore(ctx context.Context, h *Home, token string, r *slackReport) error {
	in, err := h.setupClient(token, r.ListID).Inspect(ctx, h.labels())
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
		r.Changed = append(r.Changed, "access of "+who)
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
	o := h.listOptions()
	o.Token, o.ListID, o.Budget = token, list, 0
	return slacklist.New(o)
}

// inspect holds the list against what is needed.
func (o *slackSetup) inspect(ctx context.Context, h *Home, token string, r *slackReport) error {
	in, err := h.setupClient(token, r.ListID).Inspect(ctx, h.labels())
	if err != nil {
		return err
	}
	r.Title, r.Rows, r.Limit = in.Title, in.Rows, in.Limit
	for _, f := range in.Findings {
		text := f.Error()
		if f.Optional {
			r.Advised = append(r.Advised, text)
			continue
		}
		r.Missing = append(r.Missing, text+": "+missingHint(f.MissingError))
	}
	return nil
}

// keepList writes the list into otm.toml, and where the token is, if that is
// not there. A file of one's own stays.
func (h *Home) keepList(r *slackReport) error {
	path, before, err := h.configText()
	if err != nil {
		return err
	}
	after, c, err := h.withList(before, r.ListID)
	if err != nil {
		return err
	}
	if !bytes.Equal(before, after) {
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
func (h *Home) canKeep(list string) error {
	_, before, err := h.configText()
	if err == nil {
		_, _, err = h.withList(before, list)
	}
	return err
}

// configText is otm.toml, and where it is: it may be a link to where a person
// keeps it.
func (h *Home) configText() (path string, text []byte, err error) {
	path = filepath.Join(h.Dir, config.FileName)
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	text, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return path, text, err
}

// withList is the text of otm.toml with a list in it, and how it reads.
func (h *Home) withList(text []byte, list string) ([]byte, *config.Config, error) {
	values := []config.Value{{Key: "list_id", Text: list}}
	if h.Config.Slack.TokenFile == "" {
		values = append(values, config.Value{Key: "token_file", Text: slackTokenFile})
	}
	if h.Config.Slack.ListID == list && len(values) == 1 {
		return text, h.Config, nil
	}
	after, err := config.Set(text, "slack", values)
	var c *config.Config
	if err == nil {
		c, err = config.Parse(h.Dir, after, h.Getenv)
	}
	if err != nil {
		e := cli.Errorf(cli.BadConfig, "otm.toml was left as it is: %w", err)
		if list == "" {
			return nil, nil, e.Hint("write slack in otm.toml as a table of its own, below a line [slack], then run this again")
		}
		for _, v := range values {
			e.Hint("set %s = %q of slack in otm.toml by hand, then run this again", v.Key, v.Text)
		}
		return nil, nil, e
	}
	return after, c, nil
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
		if Explain(err) != nil && exitCode(err) == cli.BadConfig {
			return nil // columns are missing: the report says so, and nothing is brought there yet
		}
		return err
	}
	return h.Store.RaiseAbove(ctx, b)
}

func (r *slackReport) print(h *Home) {
	fmt.Fprintf(h.Out, "workspace %s, as %s\n", safe.Escape(r.Team), safe.Escape(r.User))
	room := ""
	if r.Limit > 0 {
		room = fmt.Sprintf(" of %d", r.Limit)
	}
	fmt.Fprintf(h.Out, "list      %s %s, %d rows%s\n", r.ListID, safe.Escape(r.Title), r.Rows, room)
	for _, c := range r.Changed {
		fmt.Fprintf(h.Out, "written   %s\n", safe.Escape(c))
	}
	for _, m := range r.Missing {
		fmt.Fprintf(h.Out, "missing   %s\n", safe.Escape(m))
	}
	for _, a := range r.Advised {
		fmt.Fprintf(h.Out, "optional  %s\n", safe.Escape(a))
	}
	switch {
	case len(r.Missing) > 0:
		h.Note("add what is missing on the list, then run this again: otm init --slack")
	case len(h.Config.Agents) == 0:
		h.Note("edit %s to name your agents, then run: otm up", safe.Quote(filepath.Join(h.Dir, config.FileName)))
	default:
		h.Note("all is there; run: otm up")
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
