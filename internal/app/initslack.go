package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	if err := o.keepToken(h, token, r); err != nil {
		return err
	}
	if err := o.chooseList(ctx, h, token, r); err != nil {
		return err
	}
	if err := o.inspect(ctx, h, token, r); err != nil {
		return err
	}
	if err := h.keepList(r); err != nil {
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

// keepToken keeps the token for the daemons, for the user's eyes only.
func (o *slackSetup) keepToken(h *Home, token string, r *slackReport) error {
	if kept, err := h.Config.SlackToken(h.Getenv); err == nil && kept == token && h.Config.Slack.TokenFile != "" {
		return nil
	}
	path := h.Config.Slack.TokenFile
	if path == "" {
		path = filepath.Join(h.Dir, slackTokenFile)
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

// chooseList takes the list that was named, makes one, or takes the one that is
// configured.
func (o *slackSetup) chooseList(ctx context.Context, h *Home, token string, r *slackReport) error {
	switch {
	case o.list != "":
		parts := strings.Split(strings.TrimRight(strings.SplitN(o.list, "?", 2)[0], "/"), "/")
		r.ListID = parts[len(parts)-1]
	case h.Config.Slack.ListID != "":
		r.ListID = h.Config.Slack.ListID
		if o.create != "" {
			return cli.Errorf(cli.Usage, "the list %s is configured already", r.ListID).
				Hint("otm init --slack   # looks whether it fits").Hint("remove slack.list_id from otm.toml to make another one")
		}
	case o.create != "":
		var err error
		if r.ListID, err = h.setupClient(token, "").CreateList(ctx, o.create, h.labels()); err != nil {
			return fmt.Errorf("make the list: %w", err)
		}
		r.Changed = append(r.Changed, "the list "+o.create)
	default:
		return cli.Errorf(cli.Usage, "say which list: an existing one, or a new one").
			Hint("otm init --slack --list F0123456789").
			Hint("otm init --slack --create-list 'Agent tasks' --share-with U0123456789")
	}
	if !isListID(r.ListID) {
		return cli.Errorf(cli.Usage, "%q is no list: want the last part of its link, which begins with F", r.ListID).
			Hint("otm init --slack --list F0123456789")
	}
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

// keepList writes the list into otm.toml, if it is not there.
func (h *Home) keepList(r *slackReport) error {
	if h.Config.Slack.ListID == r.ListID && h.Config.Slack.TokenFile != "" {
		return nil
	}
	path := filepath.Join(h.Dir, config.FileName)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	after := setKeys(data, "slack", []keyValue{{"list_id", r.ListID}, {"token_file", slackTokenFile}})
	if err := durable.Replace(path, after); err != nil {
		return err
	}
	c, err := config.Load(h.Dir, h.Getenv)
	if err == nil && c.Slack.ListID != r.ListID {
		err = errors.New("the list was not taken over")
	}
	if err != nil { // an unusual file: leave it as it was, and say what to write
		return errors.Join(durable.Replace(path, data), cli.Errorf(cli.BadConfig, "otm.toml could not be changed: %w", err).
			Hint("add to [slack] of otm.toml: list_id = %q, token_file = %q", r.ListID, slackTokenFile))
	}
	h.Config = c
	r.Changed = append(r.Changed, path)
	return nil
}

type keyValue struct{ key, value string }

// setKeys sets keys of a table of a TOML file and leaves every other line as it
// is: where the table is missing, it comes last.
func setKeys(data []byte, table string, keys []keyValue) []byte {
	lines := strings.SplitAfter(string(data), "\n")
	head := regexp.MustCompile(`^\s*\[\s*` + table + `\s*\]\s*(#.*)?$`)
	start := slices.IndexFunc(lines, func(l string) bool { return head.MatchString(strings.TrimRight(l, "\r\n")) })
	if start < 0 {
		var b bytes.Buffer
		b.Write(data)
		if len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "\n[%s]\n", table)
		for _, k := range keys {
			fmt.Fprintf(&b, "%s = %q\n", k.key, k.value)
		}
		return b.Bytes()
	}
	end := start + 1
	for end < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[end]), "[") {
		end++
	}
	body := slices.Clone(lines[start+1 : end])
	var set []string
	for _, k := range keys {
		line := fmt.Sprintf("%s = %q\n", k.key, k.value)
		old := regexp.MustCompile(`^\s*` + k.key + `\s*=`)
		if i := slices.IndexFunc(body, old.MatchString); i >= 0 {
			body[i] = line
			continue
		}
		set = append(set, line)
	}
	return []byte(strings.Join(slices.Concat(lines[:start+1], set, body, lines[end:]), ""))
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

// check refuses flags that do not go together.
func (o *slackSetup) check(forSlack bool) error {
	given := o.tokenStdin || o.tokenFile != "" || o.list != "" || o.create != "" || len(o.shareWith) > 0
	switch {
	case given && !forSlack:
		return cli.Errorf(cli.Usage, "these flags are for --slack").Hint("otm init --slack --token-stdin --list F0123456789")
	case o.tokenStdin && o.tokenFile != "":
		return cli.Errorf(cli.Usage, "give either --token-stdin or --token-file").Hint("otm init --slack --token-stdin")
	case o.list != "" && o.create != "":
		return cli.Errorf(cli.Usage, "give either --list or --create-list").Hint("otm init --slack --list F0123456789")
	}
	return nil
}
