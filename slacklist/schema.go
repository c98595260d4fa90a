package slacklist

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"otm/pipeline"
)

// fits lists the column types that can serve each field, best first: of two
// columns with one name, the one whose type comes first counts. A list in todo
// mode has an assignee column of its own, whose name may be the same.
var fits = map[pipeline.Field][]string{
	pipeline.FieldTitle:    {"text", "rich_text"},
	pipeline.FieldTaskID:   {"text", "rich_text"},
	pipeline.FieldType:     {"select", "multi_select"},
	pipeline.FieldAssignee: {"select", "multi_select", "user", "assignee", "todo_assignee"},
	pipeline.FieldProject:  {"text", "rich_text", "select", "multi_select"},
	pipeline.FieldPriority: {"select", "multi_select"},
	pipeline.FieldStatus:   {"select", "multi_select"},
	pipeline.FieldReason:   {"text", "rich_text"},
	pipeline.FieldResult:   {"text", "rich_text"},
	pipeline.FieldChecked:  {"todo_completed", "completed"}, // found by its type
}

// fitsKind are the column types that can serve a derived field, best first.
var fitsKind = map[pipeline.Kind][]string{
	pipeline.KindText:   {"text", "rich_text"},
	pipeline.KindLink:   {"text", "rich_text"},
	pipeline.KindNumber: {"number", "text", "rich_text"},
	pipeline.KindTime:   {"date", "text", "rich_text", "number"},
	pipeline.KindChoice: {"select", "multi_select", "text", "rich_text"},
}

var required = []pipeline.Field{pipeline.FieldTitle, pipeline.FieldTaskID, pipeline.FieldType, pipeline.FieldAssignee,
	pipeline.FieldProject, pipeline.FieldPriority, pipeline.FieldStatus}

// derived returns a derived field; nil: the field is none.
func derived(field pipeline.Field) *pipeline.DerivedField {
	i := slices.IndexFunc(pipeline.DerivedFields, func(f pipeline.DerivedField) bool { return f.Field == field })
	if i < 0 {
		return nil
	}
	return &pipeline.DerivedFields[i]
}

// fitting returns the column types that can serve a field, best first.
func fitting(field pipeline.Field) []string {
	if d := derived(field); d != nil {
		return fitsKind[d.Kind]
	}
	return fits[field]
}

// DefaultColumns are the names of the columns that the configuration does not
// change.
func DefaultColumns() map[pipeline.Field]string {
	names := map[pipeline.Field]string{
		pipeline.FieldTitle: "Title", pipeline.FieldTaskID: "Task ID", pipeline.FieldType: "Type",
		pipeline.FieldAssignee: "Assignee", pipeline.FieldProject: "Project 2", pipeline.FieldPriority: "Priority",
		pipeline.FieldStatus: "Status", pipeline.FieldReason: "Reason", pipeline.FieldResult: "Result",
	}
	for _, f := range pipeline.DerivedFields {
		names[f.Field] = f.Column
	}
	return names
}

// Column is a column of the list.
type Column struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Options []Option `json:"options,omitempty"`
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

// statusOption returns the status that the board shows for a status: itself, or if its
// option is missing, the one that stands for it.
func (c *Column) statusOption(text string) string {
	for s := pipeline.Status(text); ; s = s.Instead() {
		if _, has := c.option(string(s)); has {
			return string(s)
		}
		if s == s.Instead() {
			return text
		}
	}
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
	Title    string `json:"title"`
	Metadata struct {
		Schema []struct {
			ID      string `json:"id"`
			Name    string `json:"name"`
			Type    string `json:"type"`
			Options struct {
				Choices []Option `json:"choices"`
			} `json:"options"`
		} `json:"schema"`
		Description string            `json:"description"`
		Blocks      []json.RawMessage `json:"description_blocks"`
	} `json:"list_metadata"`
	Limits struct {
		RowCountLimit int `json:"row_count_limit"`
		RowCount      int `json:"row_count"`
	} `json:"list_limits"`
}

// parseSchema returns the schema of a list that OTM can work with. The error is
// a *pipeline.MissingError, or says that the answer has no list.
func parseSchema(list *wireList, names map[pipeline.Field]string) (*Schema, error) {
	s, found, err := inspect(list, names)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		if !f.Optional {
			return nil, f.MissingError
		}
	}
	return s, nil
}

// Finding is something that the list lacks and a person has to add.
type Finding struct {
	*pipeline.MissingError
	Optional bool // OTM works without it
}

// inspect finds the columns of the fields, and what they lack.
func inspect(list *wireList, names map[pipeline.Field]string) (*Schema, []Finding, error) {
	if list == nil || len(list.Metadata.Schema) == 0 {
		return nil, nil, errors.New("list object has no columns")
	}
	s := &Schema{Fields: map[pipeline.Field]string{}, Limit: list.Limits.RowCountLimit, Count: list.Limits.RowCount}
	for _, c := range list.Metadata.Schema {
		s.Columns = append(s.Columns, Column{ID: c.ID, Name: c.Name, Type: c.Type, Options: c.Options.Choices})
	}
	var found []Finding
	fields := slices.Concat(required, []pipeline.Field{pipeline.FieldReason, pipeline.FieldResult})
	for _, f := range pipeline.DerivedFields {
		fields = append(fields, f.Field)
	}
	for _, field := range fields {
		id, missing := s.find(field, names[field])
		if other := s.fieldOf(id); missing == nil && other != "" {
			missing = s.lacks(names[field], fmt.Sprintf("is to be %s and %s at once: each needs a column of its own", other, field),
				fmt.Sprintf("name another column for one of them in [slack.columns] of otm.toml: %s or %s", other, field))
		}
		if missing == nil {
			s.Fields[field] = id
			continue
		}
		absent := missing.Problem == problemMissing
		if d := derived(field); d == nil || !d.Extra || !absent {
			found = append(found, Finding{missing, !slices.Contains(required, field) && absent})
		}
	}
	for _, kind := range fitting(pipeline.FieldChecked) {
		i := slices.IndexFunc(s.Columns, func(c Column) bool { return c.Type == kind })
		if i >= 0 && s.Fields[pipeline.FieldChecked] == "" {
			s.Fields[pipeline.FieldChecked] = s.Columns[i].ID
		}
	}
	if s.Fields[pipeline.FieldChecked] == "" {
		found = append(found, Finding{s.lacks("Completed", "is missing: steps get no check mark",
			"turn on the list's task columns in Slack"), true})
	}
	return s, found, nil
}

// lacks is the error of a column that a person has to mend.
func (s *Schema) lacks(column, problem, mend string) *pipeline.MissingError {
	e := &pipeline.MissingError{Column: column, Problem: problem, Mend: mend}
	for _, c := range s.Columns {
		e.Have = append(e.Have, c.Name)
	}
	return e
}

const problemMissing = "is missing"

// find returns the id of the column with the given name or id. Of several with
// one name, the one whose type fits best serves.
func (s *Schema) find(field pipeline.Field, name string) (string, *pipeline.MissingError) {
	folded := pipeline.FoldName(name)
	var best []Column
	for _, c := range s.Columns {
		switch {
		case c.ID == name:
			return c.ID, s.checkType(field, c)
		case pipeline.FoldName(c.Name) != folded:
		case len(best) == 0 || fitRank(field, c) < fitRank(field, best[0]):
			best = []Column{c}
		case fitRank(field, c) == fitRank(field, best[0]):
			best = append(best, c)
		}
	}
	if len(best) == 0 {
		e := s.lacks(name, problemMissing, "")
		e.Type = fitting(field)[0]
		return "", e
	}
	if e := s.checkType(field, best[0]); e != nil || len(best) == 1 {
		return best[0].ID, e
	}
	var ids []string
	for _, c := range best {
		ids = append(ids, c.ID)
	}
	return "", &pipeline.MissingError{Column: name, Problem: "stands more than once with a fitting type: configure one by its id", Have: ids,
		Mend: fmt.Sprintf("%s = %q   # or another of these ids, in [slack.columns] of otm.toml", field, ids[0])}
}

// fitRank is the place of the column's type among those that can serve the
// field; after the last one if it cannot. Text and selects have two names each,
// which rank the same: only a difference of kind decides between columns.
func fitRank(field pipeline.Field, c Column) int {
	kind := c.Type
	switch kind {
	case "rich_text":
		kind = "text"
	case "multi_select":
		kind = "select"
	}
	if i := slices.Index(fitting(field), kind); i >= 0 {
		return i
	}
	return len(fitting(field))
}

func (s *Schema) checkType(field pipeline.Field, c Column) *pipeline.MissingError {
	if slices.Contains(fitting(field), c.Type) {
		return nil
	}
	return s.lacks(c.Name, fmt.Sprintf("has the type %s, needs %s", c.Type, strings.Join(fitting(field), " or ")),
		fmt.Sprintf("make a column of the type %s, and name it as %s in [slack.columns] of otm.toml", fitting(field)[0], field))
}
