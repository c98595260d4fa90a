package board

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Limits of a schema (facts 2.1, 4).
const (
	maxColumns     = 30
	maxChoices     = 100
	maxSelected    = 50
	maxAttachments = 10
	maxTitleLength = 255 // characters; Slack's is unpublished
)

// Types of the three columns of a todo list, and their fixed ids.
const (
	typeTodoCompleted = "todo_completed"
	typeTodoAssignee  = "todo_assignee"
	typeTodoDueDate   = "todo_due_date"

	idTodoCompleted = "Col00"
	idTodoAssignee  = "Col01"
	idTodoDueDate   = "Col02"
)

// A column is a column as it is stored, and as list_metadata shows it.
type column struct {
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	Key     string         `json:"key"`
	Type    string         `json:"type"`
	Primary bool           `json:"is_primary_column"`
	Options *columnOptions `json:"options,omitempty"`

	// Hidden columns are those of a todo mode that was switched off. They are
	// stored, never shown.
	Hidden bool `json:"hidden,omitempty"`
}

type columnOptions struct {
	Choices           []choice        `json:"choices,omitzero"`
	Format            string          `json:"format,omitempty"`
	Precision         *int            `json:"precision,omitempty"`
	DateFormat        string          `json:"date_format,omitempty"`
	Emoji             string          `json:"emoji,omitempty"`
	EmojiTeamID       string          `json:"emoji_team_id,omitempty"`
	Max               *int            `json:"max,omitempty"`
	DefaultValueTyped json.RawMessage `json:"default_value_typed,omitempty"`
	DefaultValue      json.RawMessage `json:"default_value,omitempty"`
	NotifyUsers       *bool           `json:"notify_users,omitempty"`
	ShowMemberName    bool            `json:"show_member_name"`
}

type choice struct {
	Value string `json:"value"`
	Label string `json:"label"`
	Color string `json:"color"`
}

func (o *columnOptions) clone() *columnOptions {
	if o == nil {
		return nil
	}
	c := *o
	c.Choices = slices.Clone(o.Choices)
	return &c
}

func (c *column) isSelect() bool { return c.Type == "select" || c.Type == "multi_select" }

func (c *column) hasChoice(value string) bool {
	return c.Options != nil && slices.ContainsFunc(c.Options.Choices, func(o choice) bool { return o.Value == value })
}

// single says whether a cell of the column holds at most one of several
// possible values.
func (c *column) single() bool {
	if c.Options == nil {
		return c.Type != "multi_select"
	}
	return !strings.HasPrefix(c.Options.Format, "multi_")
}

var (
	choiceColors = []string{"indigo", "blue", "cyan", "pink", "yellow", "green", "gray", "red", "purple", "orange", "brown"}
	dateFormats  = []string{"default", "DD/MM/YYYY", "MM/DD/YYYY", "YYYY/MM/DD", "MMMM DD, YYYY", "DD MMMM YYYY"}

	// creatableTypes can stand in the schema of slackLists.create; the todo_
	// types come from todo_mode only, and timestamp is no column type.
	creatableTypes = []string{
		"text", "rich_text", "message", "number", "select", "multi_select",
		"date", "due_date", "user", "assignee", "attachment", "checkbox", "completed",
		"email", "phone", "channel", "rating", "created_by", "last_edited_by",
		"created_time", "last_edited_time", "vote", "canvas", "reference", "link",
	}
)

// parseSchema checks the schema argument of slackLists.create and returns its
// columns with ids.
func parseSchema(raw json.RawMessage) ([]column, error) {
	var defs []json.RawMessage
	if err := json.Unmarshal(raw, &defs); err != nil {
		return nil, refuse("invalid_schema", "schema must be an array of column definitions")
	}
	if len(defs) > maxColumns {
		return nil, refuse("over_column_maximum")
	}
	cols := make([]column, 0, len(defs))
	for i, def := range defs {
		c, err := parseColumn(def)
		if err != nil {
			return nil, err
		}
		if c.Key == "" {
			c.Key = uniqueKey(cols, foldName(c.Name))
		}
		if hasKey(cols, c.Key) {
			return nil, refuse("invalid_schema", fmt.Sprintf("column %d: key %q stands twice", i, c.Key))
		}
		cols = append(cols, c)
	}
	return cols, checkPrimary(cols)
}

func checkPrimary(cols []column) error {
	primaries := 0
	for _, c := range cols {
		if !c.Primary {
			continue
		}
		primaries++
		if c.Type != "text" {
			return refuse("invalid_primary_column", "the primary column must be of type text")
		}
	}
	if primaries != 1 {
		return refuse("invalid_primary_column", "exactly one column must be primary")
	}
	return nil
}

func parseColumn(def json.RawMessage) (column, error) {
	var in struct {
		Key     string          `json:"key"`
		Name    string          `json:"name"`
		Type    string          `json:"type"`
		Primary bool            `json:"is_primary_column"`
		Options json.RawMessage `json:"options"`
	}
	if err := json.Unmarshal(def, &in); err != nil {
		return column{}, refuse("invalid_schema", "malformed column definition")
	}
	if in.Name == "" {
		return column{}, refuse("invalid_schema", "a column needs a name")
	}
	if !slices.Contains(creatableTypes, in.Type) {
		return column{}, refuse("invalid_column_type", fmt.Sprintf("unknown column type %q", in.Type))
	}
	options, err := parseOptions(in.Type, in.Options)
	if err != nil {
		return column{}, err
	}
	return column{ID: newColumnID(), Name: in.Name, Key: in.Key, Type: in.Type, Primary: in.Primary, Options: options}, nil
}

// parseOptions checks the options of a column of the type and adds what
// Slack's echo adds. The result is nil for a column without any.
func parseOptions(colType string, raw json.RawMessage) (*columnOptions, error) {
	var o *columnOptions
	if err := json.Unmarshal(orNull(raw), &o); err != nil {
		return nil, refuse("invalid_schema", "malformed column options")
	}
	formats := entityFormats(colType)
	if o == nil {
		if formats == nil {
			return nil, nil
		}
		o = new(columnOptions)
	}
	o.ShowMemberName = true
	if formats != nil {
		if o.Format == "" {
			o.Format = formats[0]
		} else if !slices.Contains(formats, o.Format) {
			return nil, refuse("invalid_schema", fmt.Sprintf("format %q does not fit type %q", o.Format, colType))
		}
	}
	if o.DateFormat != "" && !slices.Contains(dateFormats, o.DateFormat) {
		return nil, refuse("invalid_schema", fmt.Sprintf("unknown date_format %q", o.DateFormat))
	}
	if o.Max != nil && (*o.Max < 1 || *o.Max > 10) {
		return nil, refuse("invalid_schema", "max must be between 1 and 10")
	}
	if colType != "select" && colType != "multi_select" {
		o.Choices = nil
		return o, nil
	}
	if o.Choices == nil {
		o.Choices = []choice{}
	}
	setMissingColors(o.Choices, raw)
	return o, checkChoices(o.Choices)
}

// setMissingColors gives choices without the member a colour. One that is
// there and empty is left to be refused: a client always has to set one.
func setMissingColors(choices []choice, raw json.RawMessage) {
	var given struct {
		Choices []struct {
			Color *string `json:"color"`
		} `json:"choices"`
	}
	if json.Unmarshal(orNull(raw), &given) != nil {
		return // it was decoded before
	}
	for i := range given.Choices {
		if given.Choices[i].Color == nil {
			choices[i].Color = "gray"
		}
	}
}

// entityFormats are the formats a type allows, the default first.
func entityFormats(colType string) []string {
	switch colType {
	case "select":
		return []string{"single_select", "multi_select"}
	case "multi_select":
		return []string{"multi_select"}
	case "user", "assignee", "channel":
		return []string{"single_entity", "multi_entity"}
	}
	return nil
}

func checkChoices(choices []choice) error {
	if len(choices) > maxChoices {
		return refuse("invalid_schema", fmt.Sprintf("more than %d choices", maxChoices))
	}
	seen := make(map[string]bool)
	for i := range choices {
		c := &choices[i]
		if c.Value == "" || c.Label == "" {
			return refuse("invalid_schema", "a choice needs a value and a label")
		}
		if seen[c.Value] {
			return refuse("invalid_schema", fmt.Sprintf("choice %q stands twice", c.Value))
		}
		seen[c.Value] = true
		if !slices.Contains(choiceColors, c.Color) {
			return refuse("invalid_schema", fmt.Sprintf("unknown color %q", c.Color))
		}
	}
	return nil
}

// foldName makes a key of a column's name: "In Progress" is in_progress.
func foldName(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r):
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	if key := strings.Trim(b.String(), "_"); key != "" {
		return key
	}
	return "column"
}

func uniqueKey(cols []column, key string) string {
	for n, base := 2, key; hasKey(cols, key); n++ {
		key = fmt.Sprintf("%s_%d", base, n)
	}
	return key
}

func hasKey(cols []column, key string) bool {
	return slices.ContainsFunc(cols, func(c column) bool { return c.Key == key })
}

// todoColumns are the three columns that todo_mode adds. Their names depend on
// the workspace's language in Slack; only their types are sure.
func todoColumns() []column {
	return []column{
		{ID: idTodoCompleted, Name: "Completed", Key: typeTodoCompleted, Type: typeTodoCompleted},
		{
			ID: idTodoAssignee, Name: "Assignee", Key: typeTodoAssignee, Type: typeTodoAssignee,
			Options: &columnOptions{Format: "multi_entity", DefaultValue: json.RawMessage("null"), ShowMemberName: true},
		},
		{ID: idTodoDueDate, Name: "Due date", Key: typeTodoDueDate, Type: typeTodoDueDate},
	}
}

// setTodo switches the todo mode of a list that is not published yet.
func (l *list) setTodo(on bool) {
	l.Todo = on
	for _, todo := range todoColumns() {
		i := slices.IndexFunc(l.Columns, func(c column) bool { return c.ID == todo.ID })
		if i < 0 && on {
			l.Columns = append(l.Columns, todo)
			l.Subtask = append(l.Subtask, todo.ID)
		} else if i >= 0 {
			l.Columns[i].Hidden = !on
		}
	}
	l.Rev++
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}
