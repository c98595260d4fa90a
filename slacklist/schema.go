package slacklist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"otm/pipeline"
)

// A role says which column serves a field.
type role struct {
	field pipeline.Field
	name  string // of the column, unless the configuration names another
	// types are the column types that can serve, best first: of two columns with one name,
	// the one whose type comes first counts. A list in todo mode has an assignee column of
	// its own, whose name may be the same.
	types    []string
	required bool
	extra    bool // that it is missing is not told
}

var (
	texts   = []string{"text", "rich_text"}
	selects = []string{"select", "multi_select"}
	people  = []string{"user", "assignee", "todo_assignee"}
	checks  = []string{"todo_completed", "completed"} // the column of FieldChecked is found by its type

	// kinds are the types for derived fields.
	kinds = map[pipeline.Kind][]string{
		pipeline.KindText: texts, pipeline.KindLink: texts, pipeline.KindNumber: append([]string{"number"}, texts...),
		pipeline.KindTime: {"date", "text", "rich_text", "number"}, pipeline.KindChoice: slices.Concat(selects, texts),
	}
)

// roles lists the fields that are found by the names of columns.
var roles = func() []role {
	all := []role{
		{field: pipeline.FieldTitle, name: "Title", types: texts, required: true},
		{field: pipeline.FieldTaskID, name: "Task ID", types: texts, required: true},
		{field: pipeline.FieldType, name: "Type", types: selects, required: true},
		{field: pipeline.FieldAssignee, name: "Assignee", types: slices.Concat(selects, people), required: true},
		{field: pipeline.FieldProject, name: "Project 2", types: slices.Concat(texts, selects), required: true},
		{field: pipeline.FieldPriority, name: "Priority", types: selects, required: true},
		{field: pipeline.FieldStatus, name: "Status", types: selects, required: true},
		{field: pipeline.FieldReason, name: "Reason", types: texts},
		{field: pipeline.FieldResult, name: "Result", types: texts},
	}
	for _, f := range pipeline.DerivedFields {
		all = append(all, role{field: f.Field, name: f.Column, types: kinds[f.Kind], extra: f.Extra})
	}
	return all
}()

// derived returns a derived field; nil: the field is none.
func derived(field pipeline.Field) *pipeline.DerivedField {
	return pipeline.Find(pipeline.DerivedFields, func(f *pipeline.DerivedField) bool { return f.Field == field })
}

// columnNames returns the names of the columns, with those of the configuration.
func columnNames(configured map[pipeline.Field]string) map[pipeline.Field]string {
	names := map[pipeline.Field]string{}
	for _, r := range roles {
		names[r.field] = r.name
	}
	maps.Copy(names, configured)
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
	return pipeline.Find(s.Columns, func(c *Column) bool { return id != "" && c.ID == id })
}

// complete reports whether each required field has a column.
func (s *Schema) complete() bool {
	return !slices.ContainsFunc(roles, func(r role) bool { return r.required && s.Column(r.field) == nil })
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

func (c *Column) isSelect() bool { return slices.Contains(selects, c.Type) }

func (c *Column) isUser() bool { return slices.Contains(people, c.Type) }

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
	for _, r := range roles {
		id, missing := s.find(r, names[r.field])
		if other := s.fieldOf(id); missing == nil && other != "" {
			missing = s.lacks(names[r.field], fmt.Sprintf("is to be %s and %s at once: each needs a column of its own", other, r.field),
				fmt.Sprintf("name another column for one of them in [slack.columns] of otm.toml: %s or %s", other, r.field))
		}
		if missing == nil {
			s.Fields[r.field] = id
			continue
		}
		if absent := missing.Problem == problemMissing; !absent || !r.extra {
			found = append(found, Finding{missing, !r.required && absent})
		}
	}
	for _, kind := range checks {
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
func (s *Schema) find(r role, name string) (string, *pipeline.MissingError) {
	folded := pipeline.FoldName(name)
	var best []Column
	for _, c := range s.Columns {
		switch {
		case c.ID == name:
			return c.ID, s.checkType(r, c)
		case pipeline.FoldName(c.Name) != folded:
		case len(best) == 0 || r.rank(c) < r.rank(best[0]):
			best = []Column{c}
		case r.rank(c) == r.rank(best[0]):
			best = append(best, c)
		}
	}
	if len(best) == 0 {
		e := s.lacks(name, problemMissing, "")
		e.Type = r.types[0]
		return "", e
	}
	if e := s.checkType(r, best[0]); e != nil || len(best) == 1 {
		return best[0].ID, e
	}
	ids := pipeline.Map(best, func(c Column) string { return c.ID })
	return "", &pipeline.MissingError{Column: name, Problem: "stands more than once with a fitting type: configure one by its id", Have: ids,
		Mend: fmt.Sprintf("%s = %q   # or another of these ids, in [slack.columns] of otm.toml", r.field, ids[0])}
}

// rank is the place of the column's type among those that can serve; after the last one if
// it cannot. Text and selects have two names each, which rank the same: only a difference
// of kind decides between columns.
func (r role) rank(c Column) int {
	kind := c.Type
	switch kind {
	case "rich_text":
		kind = "text"
	case "multi_select":
		kind = "select"
	}
	if i := slices.Index(r.types, kind); i >= 0 {
		return i
	}
	return len(r.types)
}

func (s *Schema) checkType(r role, c Column) *pipeline.MissingError {
	if slices.Contains(r.types, c.Type) {
		return nil
	}
	return s.lacks(c.Name, fmt.Sprintf("has the type %s, needs %s", c.Type, strings.Join(r.types, " or ")),
		fmt.Sprintf("make a column of the type %s, and name it as %s in [slack.columns] of otm.toml", r.types[0], r.field))
}

// schemas reads the list's columns, at most once a batch unless they are
// missing.
type schemas struct {
	*batch
	names map[pipeline.Field]string // of the columns, or their ids
	read  bool                      // in this batch

	marked *bool // the mark of our store was written to the list, or refused, by this client
}

func (s *schemas) encoder() *encoder {
	return &encoder{schema: &s.snap.Schema, embedded: s.opts.OpenAssignees}
}

// ensure reads the schema if there is none, or a part of one: without a column,
// a row would be made that nobody finds again.
func (s *schemas) ensure(ctx context.Context) error {
	if s.snap.Schema.complete() {
		return nil
	}
	return s.fetch(ctx)
}

func (s *schemas) fetch(ctx context.Context) error {
	var list *wireList
	err := s.gate.do(ctx, filesMethod, func() (err error) {
		list, err = s.api.fileInfo(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return s.take(ctx, list)
}

// take makes a list object the schema of the snapshot, if the list is our store's.
func (s *schemas) take(ctx context.Context, list *wireList) error {
	if err := s.owned(ctx, list); err != nil {
		return err
	}
	schema, err := parseSchema(list, s.names)
	if err != nil {
		return err
	}
	s.snap.Schema = *schema
	s.dirty, s.read = true, true
	return nil
}

// retry runs a write of cells, with a complete schema, and once more with the schema read anew if the
// board or the encoder finds that a column or an option is not what the cached
// schema says: people rename and rebuild them.
func (s *schemas) retry(ctx context.Context, cells []pipeline.Cell, write func() error) error {
	if err := s.ensure(ctx); err != nil {
		return err
	}
	err := write()
	refused := schemaRefusal(err)
	if refused == nil && !errors.As(err, new(*pipeline.MissingError)) {
		return err
	}
	if !s.read {
		if err := s.fetch(ctx); err != nil {
			return err
		}
		err = write()
		refused = schemaRefusal(err)
	}
	if refused != nil {
		return s.refused(refused, cells)
	}
	return err
}

// schemaRefusal returns the refusal of a column, an option or a person in err;
// nil if there is none.
func schemaRefusal(err error) *pipeline.BoardError {
	if e, ok := errors.AsType[*pipeline.BoardError](err); ok && slices.Contains(schemaCodes, e.Code) {
		return e
	}
	return nil
}

// refused is the error if the board refuses a column, an option or a person
// although the schema has just been read: a person has to act, as with one that
// is missing. The board does not say which of the cells it means.
func (s *schemas) refused(by *pipeline.BoardError, cells []pipeline.Cell) error {
	var names []string
	for _, cell := range cells {
		c := s.snap.Schema.Column(cell.Field)
		if c == nil || by.Code == "invalid_option_id" && !c.isSelect() || by.Code == "user_not_found" && !c.isUser() {
			continue
		}
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return s.snap.Schema.lacks(strings.Join(names, ", "), "is refused: "+by.Error(), "")
}
