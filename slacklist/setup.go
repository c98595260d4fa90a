package slacklist

import (
	"context"
	"errors"
	"slices"
	"strings"

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
	return pipeline.Filter(Scopes, func(s string) bool { return id.Scopes != nil && !slices.Contains(id.Scopes, s) })
}

// Identify asks the board for the user of the token.
func (c *Client) Identify(ctx context.Context) (*Identity, error) {
	r, err := c.api.call(ctx, authMethod, nil)
	if err != nil {
		return nil, err
	}
	id := &Identity{User: r.UserID, Name: r.User, Team: r.Team}
	if scopes := r.header.Get("X-OAuth-Scopes"); scopes != "" {
		for _, s := range strings.Split(scopes, ",") {
			id.Scopes = append(id.Scopes, strings.TrimSpace(s))
		}
	}
	return id, nil
}

// Inspection describes a list, with the columns and options that it lacks.
type Inspection struct {
	Title    string
	Rows     int // steps counted
	Limit    int // 0 if unknown
	Findings []Finding
}

// Inspect reads the list's columns and options and compares them with what OTM
// needs, options for the agents included.
func (c *Client) Inspect(ctx context.Context, agents []pipeline.Agent, types pipeline.Types) (*Inspection, error) {
	list, err := c.api.fileInfo(ctx)
	if err != nil {
		return nil, err
	}
	s, found, err := inspect(list, c.columns)
	if err != nil {
		return nil, err
	}
	found = append(found, s.missingOptions(c.opts.OpenAssignees, agents, types)...)
	return &Inspection{Title: list.Title, Rows: s.Count, Limit: s.Limit, Findings: found}, nil
}

// optional are the statuses whose options a list may lack: OTM shows another status
// instead, or a reviewer alone sets them.
var optional = []pipeline.Status{pipeline.Pending, pipeline.Rejected, pipeline.Cancelled, pipeline.Dormant, pipeline.Archived}

// missingOptions returns the options that the selects lack.
func (s *Schema) missingOptions(embedded bool, agents []pipeline.Agent, types pipeline.Types) []Finding {
	var cells []pipeline.Cell
	for _, p := range pipeline.Priorities {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldPriority, Text: string(p)})
	}
	for _, t := range types.All() {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldType, Text: string(t)})
	}
	for _, a := range agents {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldAssignee, Text: a.Label, User: a.User})
	}
	e := &encoder{schema: s, embedded: embedded}
	var found []Finding
	for _, status := range pipeline.Statuses {
		if c := s.Column(pipeline.FieldStatus); c != nil && c.isSelect() {
			if _, has := c.option(string(status)); !has {
				found = append(found, Finding{missingOption(c, string(status)), slices.Contains(optional, status)})
			}
		}
	}
	for _, cell := range cells {
		_, err := e.encode([]pipeline.Cell{cell})
		if m, ok := errors.AsType[*pipeline.MissingError](err); ok {
			found = append(found, Finding{m, false})
		}
	}
	return found
}
