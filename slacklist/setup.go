package slacklist

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/slack-go/slack"

	"otm/pipeline"
)

// Scopes that the token needs.
var Scopes = []string{"lists:read", "lists:write", "files:read"}

// Identity is the user of a token.
type Identity struct {
	User string // "U…", a bot's as well
	Name string
	Team string
	// Scopes are those of the token; nil if the board does not say. Slack names
	// them in a header of each answer.
	Scopes []string
}

// MissingScopes returns the scopes that the token is known to lack.
func (id *Identity) MissingScopes() []string {
	var lacks []string
	for _, s := range Scopes {
		if id.Scopes != nil && !slices.Contains(id.Scopes, s) {
			lacks = append(lacks, s)
		}
	}
	return lacks
}

// Identify asks the board for the user of the token.
func (c *Client) Identify(ctx context.Context) (*Identity, error) {
	r, err := c.api.call(ctx, authMethod, nil)
	if err != nil {
		return nil, err
	}
	id := &Identity{
		User: looseString(member(r.body, "user_id")), Name: looseString(member(r.body, "user")), Team: looseString(member(r.body, "team")),
	}
	if scopes := r.header.Get("X-OAuth-Scopes"); scopes != "" {
		for _, s := range strings.Split(scopes, ",") {
			id.Scopes = append(id.Scopes, strings.TrimSpace(s))
		}
	}
	return id, nil
}

// Finding is something that the list lacks and a person has to add.
type Finding struct {
	*pipeline.MissingError
	Optional bool // OTM works without it
}

// Inspection says what a list has and lacks.
type Inspection struct {
	Title    string
	Rows     int // steps counted
	Limit    int // 0 if unknown
	Findings []Finding
}

// Inspect reads the list's columns and options and compares them with what OTM
// needs, options for the agents included.
func (c *Client) Inspect(ctx context.Context, agents []pipeline.Agent) (*Inspection, error) {
	raw, err := c.api.fileInfo(ctx)
	if err != nil {
		return nil, err
	}
	var list wireList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("list object: %w", err)
	}
	s := newSchema(&list)
	in := &Inspection{Title: looseString(member(raw, "title")), Rows: s.Count, Limit: s.Limit}
	for _, field := range append(slices.Clone(required), optional...) {
		id, err := s.find(field, c.columns[field])
		var e *pipeline.MissingError
		switch {
		case asMissing(err, &e):
			in.Findings = append(in.Findings, Finding{e, slices.Contains(optional, field) && isMissing(err)})
		case s.fieldOf(id) != "":
			in.Findings = append(in.Findings, Finding{twice(c.columns[field], s.fieldOf(id), field, s), false})
		default:
			s.Fields[field] = id
		}
	}
	if !slices.ContainsFunc(s.Columns, func(c Column) bool { return slices.Contains(fits[pipeline.FieldChecked], c.Type) }) {
		in.Findings = append(in.Findings, Finding{&pipeline.MissingError{Column: "Completed", Problem: "is missing: steps get no check mark", Have: s.names(),
			Mend: "turn on the list's task columns in Slack, or have a list made: otm init --slack --create-list 'Agent tasks'"}, true})
	}
	in.Findings = append(in.Findings, s.missingOptions(c.opts.OpenAssignees, agents)...)
	return in, nil
}

func asMissing(err error, e **pipeline.MissingError) bool {
	m, ok := err.(*pipeline.MissingError)
	*e = m
	return ok
}

// byPeople are the statuses that people alone set: OTM works without them.
var byPeople = []pipeline.Status{pipeline.Pending, pipeline.Rejected, pipeline.Failed, pipeline.Cancelled, pipeline.Archived}

// missingOptions returns the options that the selects lack.
func (s *Schema) missingOptions(openAssignees bool, agents []pipeline.Agent) []Finding {
	need := map[pipeline.Field][]pipeline.Cell{}
	want := func(c pipeline.Cell) { need[c.Field] = append(need[c.Field], c) }
	for _, status := range pipeline.Statuses {
		want(pipeline.Cell{Field: pipeline.FieldStatus, Text: string(status)})
	}
	for _, p := range pipeline.Priorities {
		want(pipeline.Cell{Field: pipeline.FieldPriority, Text: string(p)})
	}
	for _, t := range pipeline.Types {
		want(pipeline.Cell{Field: pipeline.FieldType, Text: string(t)})
	}
	for _, a := range agents {
		if c := s.Column(pipeline.FieldAssignee); !openAssignees || c != nil && c.isUser() {
			want(pipeline.Cell{Field: pipeline.FieldAssignee, Text: a.Label, User: a.User})
		}
	}
	e := &encoder{schema: s}
	var found []Finding
	for _, field := range []pipeline.Field{pipeline.FieldStatus, pipeline.FieldPriority, pipeline.FieldType, pipeline.FieldAssignee} {
		c := s.Column(field)
		if c == nil || !c.isSelect() && !c.isUser() {
			continue
		}
		for _, cell := range need[field] {
			_, err := e.encode([]pipeline.Cell{cell})
			var m *pipeline.MissingError
			if asMissing(err, &m) {
				found = append(found, Finding{m, field == pipeline.FieldStatus && slices.Contains(byPeople, pipeline.Status(cell.Text))})
			}
		}
	}
	return found
}

// colours of the options.
var colours = map[string]slack.ListChoiceColor{
	"new": "blue", "assigned": "indigo", "pending": "gray", "in_progress": "yellow", "blocked": "red", "agent_done": "purple",
	"done": "green", "rejected": "red", "failed": "red", "cancelled": "gray", "archived": "gray",
	"critical": "red", "high": "orange", "normal": "blue", "low": "gray", "batchable": "gray",
	"action": "blue", "decision": "purple", "review": "orange",
}

// CreateList makes a list with all columns and options, in task mode, and
// returns its id. People see nothing of it until it is shared (facts 1.2). It
// is not idempotent: after a lost answer, there may be one list more.
func (c *Client) CreateList(ctx context.Context, name string, assignees []string) (string, error) {
	form := url.Values{"name": {name}, "schema": {asJSON(c.newColumns(assignees))}, "todo_mode": {"true"}}
	r, err := c.api.call(ctx, makeMethod, form)
	if err != nil {
		return "", err
	}
	id := looseString(member(r.body, "list_id"))
	if id == "" {
		return "", unsure(makeMethod, "the answer has no list id", nil)
	}
	return id, nil
}

// newColumns are the columns of a list that we make.
func (c *Client) newColumns(assignees []string) []slack.ListColumn {
	options := map[pipeline.Field][]string{pipeline.FieldAssignee: assignees}
	for _, s := range pipeline.Statuses {
		options[pipeline.FieldStatus] = append(options[pipeline.FieldStatus], string(s))
	}
	for _, p := range pipeline.Priorities {
		options[pipeline.FieldPriority] = append(options[pipeline.FieldPriority], string(p))
	}
	for _, t := range pipeline.Types {
		options[pipeline.FieldType] = append(options[pipeline.FieldType], string(t))
	}
	var columns []slack.ListColumn
	for _, field := range append(slices.Clone(required), optional...) {
		col := slack.ListColumn{Key: string(field), Name: c.columns[field], Type: slack.ListColumnText}
		switch field {
		case pipeline.FieldTitle:
			primary := true
			col.IsPrimaryColumn = &primary
		case pipeline.FieldRemaining, pipeline.FieldCompletion:
			col.Type = slack.ListColumnNumber
		case pipeline.FieldStatus, pipeline.FieldPriority, pipeline.FieldType, pipeline.FieldAssignee:
			col.Type = slack.ListColumnSelect
			col.Options = &slack.ListColumnOptions{Format: slack.ListColumnFormatSingleSelect, Choices: choices(options[field], field == pipeline.FieldAssignee)}
		}
		columns = append(columns, col)
	}
	return columns
}

// choices are options as the list shows them: a name as it is, a word of ours
// as people write it.
func choices(values []string, names bool) []slack.ListColumnChoice {
	var out []slack.ListColumnChoice
	for _, v := range values {
		label := v
		if !names {
			words := strings.Split(v, "_")
			for i, w := range words {
				words[i] = strings.ToUpper(w[:1]) + w[1:]
			}
			label = strings.Join(words, " ")
		}
		colour := colours[v]
		if colour == "" {
			colour = "blue" // an empty one would be sent as such (facts about slack-go)
		}
		out = append(out, slack.ListColumnChoice{Value: pipeline.FoldName(v), Label: label, Color: colour})
	}
	return out
}

// Share lets a user (U…, W…) or the members of a channel (C…, G…) write to the
// list. One id a call: a bulk grant with one bad id grants nobody (facts 1.4).
func (c *Client) Share(ctx context.Context, id string) error {
	form := url.Values{"list_id": {c.opts.ListID}, "access_level": {"write"}}
	if strings.HasPrefix(id, "C") || strings.HasPrefix(id, "G") {
		form.Set("channel_ids", asJSON([]string{id}))
	} else {
		form.Set("user_ids", asJSON([]string{id}))
	}
	r, err := c.api.call(ctx, shareMethod, form)
	if err != nil {
		return err
	}
	// The answer may be ok and nobody granted (facts 1.4).
	for _, key := range []string{"failed_to_update_user_ids", "failed_to_update_channel_ids"} {
		if failed := member(r.body, key); len(failed) > 2 {
			return fmt.Errorf("share the list with %s: the board says it did not", id)
		}
	}
	return nil
}
