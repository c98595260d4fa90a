package board

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// maxSelected is how many values a cell holds (facts 4).
const maxSelected = 50

// A List is one List with its columns. A change clones it.
type List struct {
	ID      string   `json:"id"`
	Num     int64    `json:"num"` // internal number, seen in cursors only
	Name    string   `json:"name"`
	Columns []Column `json:"columns"`

	Description json.RawMessage `json:"description,omitempty"` // rich_text blocks

	// Default marks the list made at first open; OpenColumn is its column that
	// takes new names as options.
	Default    bool   `json:"default,omitempty"`
	OpenColumn string `json:"open_column,omitempty"`
}

// Clone returns a copy to change.
func (l *List) Clone() *List {
	c := *l
	c.Columns = slices.Clone(l.Columns)
	for i, column := range c.Columns {
		if column.Options != nil {
			options := *column.Options
			options.Choices = slices.Clone(options.Choices)
			c.Columns[i].Options = &options
		}
	}
	return &c
}

// Column returns the column with the id, or nil. The pointer leads into the
// list: only that of a clone may be written through.
func (l *List) Column(id string) *Column {
	i := slices.IndexFunc(l.Columns, func(c Column) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &l.Columns[i]
}

// A Column is a column as it is stored, and as list_metadata shows it.
type Column struct {
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	Key     string         `json:"key"`
	Type    string         `json:"type"`
	Primary bool           `json:"is_primary_column"`
	Options *ColumnOptions `json:"options,omitempty"`
}

// ColumnOptions are the options of a select or a column of people.
type ColumnOptions struct {
	Choices []Choice `json:"choices,omitzero"`
	Format  string   `json:"format,omitempty"`
}

// A Choice is one option of a select. Its value is its id.
type Choice struct {
	Value string `json:"value"`
	Label string `json:"label"`
}

// IsSelect reports whether the column holds options.
func (c *Column) IsSelect() bool { return c.Type == "select" || c.Type == "multi_select" }

// HasChoice reports whether the column has an option of that value.
func (c *Column) HasChoice(value string) bool {
	return c.Options != nil && slices.ContainsFunc(c.Options.Choices, func(o Choice) bool { return o.Value == value })
}

// AddChoice adds an option to a column of a list that is not published yet.
func (c *Column) AddChoice(value, label string) {
	if c.Options == nil {
		c.Options = &ColumnOptions{}
	}
	c.Options.Choices = append(c.Options.Choices, Choice{value, label})
}

// Types of the three columns of a todo list.
const (
	typeTodoCompleted = "todo_completed"
	typeTodoAssignee  = "todo_assignee"
	typeTodoDueDate   = "todo_due_date"
)

// AddTodoColumns adds the three columns of a todo list to a list that is not published
// yet. Their ids are the same in every list. In Slack their names depend on the
// workspace's language; only their types are sure.
func (l *List) AddTodoColumns() {
	l.Columns = append(l.Columns,
		Column{ID: "Col00", Name: "Completed", Key: typeTodoCompleted, Type: typeTodoCompleted},
		Column{ID: "Col01", Name: "Assignee", Key: typeTodoAssignee, Type: typeTodoAssignee, Options: &ColumnOptions{Format: "multi_entity"}},
		Column{ID: "Col02", Name: "Due date", Key: typeTodoDueDate, Type: typeTodoDueDate})
}

// isAgentName reports whether the name may become an option by being sent:
// ^[\p{L}\p{N}][\p{L}\p{N}\p{M} ._-]{0,63}$
func isAgentName(name string) bool {
	runes := []rune(name)
	if len(runes) == 0 || len(runes) > 64 {
		return false
	}
	alnum := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
	return alnum(runes[0]) && !slices.ContainsFunc(runes, func(r rune) bool {
		return !alnum(r) && !unicode.IsMark(r) && !strings.ContainsRune(" ._-", r)
	})
}
