package slacklist

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"otm/pipeline"
)

// fits lists the column types that can serve each field, best first: of two
// columns with one name, the one whose type comes first counts. A list in todo
// mode has an assignee column of its own, whose name may be the same.
var fits = map[pipeline.Field][]string{
	pipeline.FieldTitle:       {"text", "rich_text"},
	pipeline.FieldTaskID:      {"text", "rich_text"},
	pipeline.FieldType:        {"select", "multi_select"},
	pipeline.FieldAssignee:    {"select", "multi_select", "user", "assignee", "todo_assignee"},
	pipeline.FieldProject:     {"text", "rich_text", "select", "multi_select"},
	pipeline.FieldPriority:    {"select", "multi_select"},
	pipeline.FieldStatus:      {"select", "multi_select"},
	pipeline.FieldRemaining:   {"number", "text", "rich_text"},
	pipeline.FieldCompletion:  {"number", "text", "rich_text"},
	pipeline.FieldAssignedAt:  {"date", "text", "rich_text", "number"},
	pipeline.FieldCompletedAt: {"date", "text", "rich_text", "number"},
	pipeline.FieldReason:      {"text", "rich_text"},
	pipeline.FieldResult:      {"text", "rich_text"},
	pipeline.FieldChecked:     {"todo_completed", "completed"}, // found by its type
}

var required = []pipeline.Field{pipeline.FieldTitle, pipeline.FieldTaskID, pipeline.FieldType, pipeline.FieldAssignee,
	pipeline.FieldProject, pipeline.FieldPriority, pipeline.FieldStatus}

var optional = []pipeline.Field{pipeline.FieldRemaining, pipeline.FieldCompletion, pipeline.FieldAssignedAt,
	pipeline.FieldCompletedAt, pipeline.FieldReason, pipeline.FieldResult}

// DefaultColumns are the names of the columns that the configuration does not
// change.
func DefaultColumns() map[pipeline.Field]string {
	return map[pipeline.Field]string{
		pipeline.FieldTitle: "Title", pipeline.FieldTaskID: "Task ID", pipeline.FieldType: "Type",
		pipeline.FieldAssignee: "Assignee", pipeline.FieldProject: "Project 2", pipeline.FieldPriority: "Priority",
		pipeline.FieldStatus: "Status", pipeline.FieldRemaining: "Subtasks remaining",
		pipeline.FieldCompletion: "Completion", pipeline.FieldAssignedAt: "Assigned at",
		pipeline.FieldCompletedAt: "Completed at", pipeline.FieldReason: "Reason", pipeline.FieldResult: "Result",
	}
}

// Column is a column of the list.
type Column struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Options []Option `json:"options,omitempty"`

	folded string // Name, while the columns are looked for
}

// Option is an option of a select. Its value is its id.
type Option struct {
	Value string `json:"value"`
	Label string `json:"label"`
}

// Schema is the columns of the list, and which of them serves which field.
type Schema struct {
	Columns []Column                  `json:"columns"`
	Fields  map[pipeline.Field]string `json:"fields"` // column ids
	Limit   int                       `json:"limit"`  // rows the list may hold, steps counted; 0 if unknown
	Count   int                       `json:"count"`  // rows it held when last read
	ReadAt  stamp                     `json:"readAt"` // when the schema was read
}

// Column returns the column that serves a field; nil if there is none.
func (s *Schema) Column(field pipeline.Field) *Column {
	id := s.Fields[field]
	if id == "" {
		return nil
	}
	i := slices.IndexFunc(s.Columns, func(c Column) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Columns[i]
}

// complete reports whether each required field has a column.
func (s *Schema) complete() bool {
	return !slices.ContainsFunc(required, func(f pipeline.Field) bool { return s.Column(f) == nil })
}

// fieldOf returns the field that a column serves, or "".
func (s *Schema) fieldOf(columnID string) pipeline.Field {
	for field, id := range s.Fields {
		if id == columnID {
			return field
		}
	}
	return ""
}

// option returns the value of the option with the given label.
func (c *Column) option(label string) (string, bool) {
	folded := pipeline.FoldName(label)
	for _, o := range c.Options {
		if pipeline.FoldName(o.Label) == folded || o.Label == "" && pipeline.FoldName(o.Value) == folded {
			return o.Value, true
		}
	}
	return "", false
}

// label returns the label of the option with the given value, or the value if
// there is no such option.
func (c *Column) label(value string) string {
	for _, o := range c.Options {
		if o.Value == value && o.Label != "" {
			return o.Label
		}
	}
	return value
}

func (c *Column) labels() []string {
	var labels []string
	for _, o := range c.Options {
		labels = append(labels, o.Label)
	}
	return labels
}

func (c *Column) isSelect() bool { return c.Type == "select" || c.Type == "multi_select" }

func (c *Column) isUser() bool {
	return c.Type == "user" || c.Type == "assignee" || c.Type == "todo_assignee"
}

// wireList is the list object, as files.info and items.list give it.
type wireList struct {
	ListMetadata struct {
		Schema []wireColumn `json:"schema"`
	} `json:"list_metadata"`
	ListLimits struct {
		RowCountLimit int `json:"row_count_limit"`
		RowCount      int `json:"row_count"`
	} `json:"list_limits"`
}

type wireColumn struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Type    string          `json:"type"`
	Options json.RawMessage `json:"options"`
}

// parseSchema reads the list object and finds the columns. The error is a
// *pipeline.MissingError, or that of the decoder.
func parseSchema(raw json.RawMessage, names map[pipeline.Field]string) (*Schema, error) {
	var list wireList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("list object: %w", err)
	}
	s := newSchema(&list)
	if len(s.Columns) == 0 {
		return nil, fmt.Errorf("list object has no columns")
	}
	for _, field := range append(slices.Clone(required), optional...) {
		id, err := s.find(field, names[field])
		if err != nil {
			if slices.Contains(optional, field) && id == "" && isMissing(err) {
				continue
			}
			return nil, err
		}
		if other := s.fieldOf(id); other != "" {
			return nil, twice(names[field], other, field, s)
		}
		s.Fields[field] = id
	}
	for _, kind := range fits[pipeline.FieldChecked] {
		i := slices.IndexFunc(s.Columns, func(c Column) bool { return c.Type == kind })
		if i >= 0 && s.Fields[pipeline.FieldChecked] == "" {
			s.Fields[pipeline.FieldChecked] = s.Columns[i].ID
		}
	}
	return s, nil
}

// newSchema reads the columns without finding those of the fields.
func newSchema(list *wireList) *Schema {
	s := &Schema{Fields: map[pipeline.Field]string{}, Limit: list.ListLimits.RowCountLimit, Count: list.ListLimits.RowCount}
	for _, w := range list.ListMetadata.Schema {
		s.Columns = append(s.Columns, Column{ID: w.ID, Name: w.Name, Type: w.Type, Options: parseOptions(w.Options), folded: pipeline.FoldName(w.Name)})
	}
	return s
}

// twice is the error of a column that would serve two fields.
func twice(column string, a, b pipeline.Field, s *Schema) *pipeline.MissingError {
	return &pipeline.MissingError{Column: column, Problem: fmt.Sprintf("is to be %s and %s at once: each needs a column of its own", a, b), Have: s.names(),
		Mend: fmt.Sprintf("name another column for one of them in [slack.columns] of otm.toml: %s or %s", a, b)}
}

// parseOptions reads the choices of a select. The options of other columns may
// have any shape.
func parseOptions(raw json.RawMessage) []Option {
	var options struct {
		Choices []Option `json:"choices"`
	}
	if json.Unmarshal(raw, &options) != nil {
		return nil
	}
	return options.Choices
}

const problemMissing = "is missing"

func isMissing(err error) bool {
	e, ok := err.(*pipeline.MissingError)
	return ok && e.Problem == problemMissing
}

// find returns the id of the column with the given name or id.
func (s *Schema) find(field pipeline.Field, name string) (string, error) {
	for _, c := range s.Columns {
		if c.ID == name {
			return c.ID, s.checkType(field, &c)
		}
	}
	var named []Column
	folded := pipeline.FoldName(name)
	for _, c := range s.Columns {
		if c.folded == folded {
			named = append(named, c)
		}
	}
	if len(named) == 0 {
		return "", &pipeline.MissingError{Column: name, Type: fits[field][0], Problem: problemMissing, Have: s.names()}
	}
	best := slices.MinFunc(named, func(a, b Column) int { return fitRank(field, a) - fitRank(field, b) })
	if err := s.checkType(field, &best); err != nil {
		return "", err
	}
	var doubt []string
	for _, c := range named {
		if fitRank(field, c) == fitRank(field, best) {
			doubt = append(doubt, c.ID)
		}
	}
	if len(doubt) > 1 {
		return "", &pipeline.MissingError{Column: name, Problem: "stands more than once with a fitting type: configure one by its id", Have: doubt,
			Mend: fmt.Sprintf("%s = %q   # or another of these ids, in [slack.columns] of otm.toml", field, doubt[0])}
	}
	return best.ID, nil
}

func fitRank(field pipeline.Field, c Column) int {
	i := slices.Index(fits[field], c.Type)
	if i < 0 {
		return len(fits[field])
	}
	// Text and selects have two names each, which rank the same: only a
	// difference of kind decides between columns.
	switch c.Type {
	case "rich_text":
		return slices.Index(fits[field], "text")
	case "multi_select":
		return slices.Index(fits[field], "select")
	}
	return i
}

func (s *Schema) checkType(field pipeline.Field, c *Column) error {
	if slices.Contains(fits[field], c.Type) {
		return nil
	}
	return &pipeline.MissingError{Column: c.Name, Problem: fmt.Sprintf("has the type %s, needs %s", c.Type, strings.Join(fits[field], " or ")), Have: s.names(),
		Mend: fmt.Sprintf("make a column of the type %s, and name it as %s in [slack.columns] of otm.toml", fits[field][0], field)}
}

func (s *Schema) names() []string {
	var names []string
	for _, c := range s.Columns {
		names = append(names, c.Name)
	}
	return names
}
