package slacklist

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"otm/pipeline"
)

// An encoder turns cells into arguments of a call. The snapshot is patched with the same
// arguments.
type encoder struct {
	schema   *Schema
	embedded bool
}

// encode returns the arguments for cells, without those of optional columns that
// the list lacks. The error is a *pipeline.MissingError.
func (e *encoder) encode(cells []pipeline.Cell) ([]slack.ListItemField, error) {
	var fields []slack.ListItemField
	for _, cell := range cells {
		column := e.schema.Column(cell.Field)
		if column == nil {
			continue
		}
		field, err := e.value(column, cell)
		if err != nil {
			return nil, err
		}
		field.ColumnID = column.ID
		fields = append(fields, field)
	}
	return fields, nil
}

func (e *encoder) value(c *Column, cell pipeline.Cell) (slack.ListItemField, error) {
	if d := derived(cell.Field); d != nil {
		if d.Kind == pipeline.KindLink && cell.Text != "" {
			return richField(slack.NewRichTextSectionLinkElement(cell.Text, "", nil)), nil
		}
		return derivedField(c, c.form(d.Kind, cell.Text)), nil
	}
	switch cell.Field {
	case pipeline.FieldChecked:
		return slack.ListItemField{Checkbox: &cell.Checked}, nil
	case pipeline.FieldAssignee:
		return e.assignee(c, cell)
	}
	if !c.isSelect() {
		return textField(cell.Text), nil
	}
	if cell.Text == "" {
		return slack.ListItemField{Select: []string{}}, nil
	}
	return e.choice(c, cell)
}

// assignee is an option of a select, or a user if the column holds people. A cell with
// neither clears it; so does the shared queue, where the list has no option for it.
func (e *encoder) assignee(c *Column, cell pipeline.Cell) (slack.ListItemField, error) {
	nobody := cell.Text == "" && cell.User == ""
	if pipeline.IsSharedQueue(cell.Text) && !e.embedded {
		_, has := c.option(cell.Text)
		nobody = c.isUser() || !has
	}
	switch {
	case nobody && c.isUser():
		return slack.ListItemField{User: []string{}}, nil
	case nobody:
		return slack.ListItemField{Select: []string{}}, nil
	case !c.isUser():
		return e.choice(c, cell)
	}
	if cell.User == "" {
		return slack.ListItemField{}, &pipeline.MissingError{Column: c.Name, Option: cell.Text,
			Problem: "needs a user: set slack_user for this agent, as the column holds people", Have: []string{"people"},
			Mend: fmt.Sprintf("slack_user = \"U…\"   # in the [agents] table of otm.toml whose label is %q: the id of the user who stands for it", cell.Text)}
	}
	return slack.ListItemField{User: []string{cell.User}}, nil
}

// choice finds the value behind a label. Normal and medium are one priority.
func (e *encoder) choice(c *Column, cell pipeline.Cell) (slack.ListItemField, error) {
	if cell.Field == pipeline.FieldStatus {
		cell.Text = c.statusOption(cell.Text)
	}
	value, ok := c.option(cell.Text)
	if !ok && cell.Field == pipeline.FieldPriority && cell.Text == string(pipeline.Normal) {
		value, ok = c.option("medium")
	}
	if !ok && e.embedded && (cell.Field == pipeline.FieldAssignee || cell.Field == pipeline.FieldType) {
		value, ok = cell.Text, true
	}
	if !ok {
		return slack.ListItemField{}, missingOption(c, cell.Text)
	}
	return slack.ListItemField{Select: []string{value}}, nil
}

func missingOption(c *Column, option string) *pipeline.MissingError {
	labels := pipeline.Map(c.Options, func(o Option) string { return o.Label })
	return &pipeline.MissingError{Column: c.Name, Option: option, Problem: problemMissing, Have: labels}
}

// textField is the only form in which Slack takes text; no block clears the cell.
func textField(s string) slack.ListItemField {
	if s == "" {
		return slack.ListItemField{RichText: []slack.RichTextBlock{}}
	}
	return richField(slack.NewRichTextSectionTextElement(s, nil))
}

func richField(e slack.RichTextSectionElement) slack.ListItemField {
	return slack.ListItemField{RichText: []slack.RichTextBlock{*slack.NewRichTextBlock("", slack.NewRichTextSection(e))}}
}

// form returns a text of a derived field as the column shows it: a date (UTC), Unix
// seconds, RFC 3339 in whole seconds, or the option of a select; "" if there is none.
func (c *Column) form(kind pipeline.Kind, text string) string {
	if at, err := time.Parse(time.RFC3339, text); kind == pipeline.KindTime && err == nil {
		switch c.Type {
		case "date":
			return at.UTC().Format(time.DateOnly)
		case "number":
			return strconv.FormatInt(at.Unix(), 10)
		}
		return at.UTC().Format(time.RFC3339)
	}
	if !c.isSelect() {
		return text
	}
	if _, ok := c.option(text); !ok {
		return ""
	}
	return pipeline.FoldName(text)
}

// derivedField encodes a form. "" clears the cell.
func derivedField(c *Column, form string) (f slack.ListItemField) {
	value, isOption := c.option(form)
	number, isNumber := parseFinite(form)
	switch {
	case c.Type == "date":
		if f.Date = []string{}; form != "" {
			f.Date = append(f.Date, form)
		}
	case c.Type == "number":
		if f.Number = []float64{}; isNumber {
			f.Number = append(f.Number, number)
		}
	case c.isSelect():
		if f.Select = []string{}; isOption {
			f.Select = append(f.Select, value)
		}
	default:
		return textField(form)
	}
	return f
}

// patch puts encoded cells into a row, as a walk would show them.
func (d decoder) patch(r *pipeline.Row, fields []slack.ListItemField) {
	r.Derived = maps.Clone(r.Derived) // others share it
	for _, f := range fields {
		c := &cell{}
		decode([]byte(asJSON(f)), c)
		d.put(r, c)
	}
}

// A row is a row of the snapshot, and how stale it is.
type row struct {
	pipeline.Row
	Known stamp `json:"known,omitempty"` // as of when Status is known
	// Wrote is when we wrote the row last; 0 once a walk has caught up. Was are
	// the statuses that a walk may still show, WasBy the users who had touched
	// the row last then.
	Wrote stamp             `json:"wrote,omitempty"`
	Was   []pipeline.Status `json:"was,omitempty"`
	WasBy []string          `json:"wasBy,omitempty"`
}

// Unreadable is the status of a row with an unreadable cell that may have been
// its status. It is not empty, because a row without a status is a new task, and
// nothing acts on a status that OTM does not know.
const Unreadable pipeline.Status = "unreadable"

// An item is a row as the board answers it.
type item struct {
	ID        string `json:"id"`
	Parent    string `json:"parent_record_id"`
	Created   date   `json:"date_created"`
	CreatedBy string `json:"created_by"`
	Updated   date   `json:"updated_timestamp"`
	UpdatedBy string `json:"updated_by"`
	Fields    []cell `json:"fields"` // nil: unreadable
}

// A date is in seconds since 1970. The board writes it as a number or as a
// string. 0 is none, or one that JSON cannot hold.
type date int64

// endOfTime is the last second that RFC 3339 can write, in the year 9999.
const endOfTime = 253402300799

// UnmarshalJSON implements json.Unmarshaler. An error would end the decoding of
// the page, so it returns none.
func (d *date) UnmarshalJSON(data []byte) error {
	f, ok := parseFinite(strings.Trim(string(data), `"`))
	if *d = 0; ok && f >= 0 && f <= endOfTime {
		*d = date(f)
	}
	return nil
}

// parseFinite reads a number. It refuses NaN and infinities, which Go parses and
// JSON cannot write.
func parseFinite(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// A cell is a cell of an item: the values that a column may hold.
type cell struct {
	Column   string     `json:"column_id"`
	Text     string     `json:"text"`
	RichText []richText `json:"rich_text"`
	Select   any        `json:"select"` // this and the rest are arrays, as a rule
	User     any        `json:"user"`
	Number   any        `json:"number"`
	Date     any        `json:"date"`
	Checkbox any        `json:"checkbox"`
}

// A decoder turns items into rows.
type decoder map[string]use // by column id

// A use is the field that a column serves.
type use struct {
	field  pipeline.Field
	column *Column
}

func newDecoder(schema *Schema) decoder {
	d := decoder{}
	for field, id := range schema.Fields {
		if c := schema.Column(field); c != nil {
			d[id] = use{field, c}
		}
	}
	return d
}

// row turns an item into a row. An item without an id is no row.
func (d decoder) row(it *item) (r pipeline.Row, ok bool) {
	r = pipeline.Row{
		ID: it.ID, Parent: it.Parent, Created: int64(it.Created), CreatedBy: it.CreatedBy,
		Updated: int64(it.Updated), UpdatedBy: it.UpdatedBy, Odd: it.Fields == nil,
	}
	for i := range it.Fields {
		d.put(&r, &it.Fields[i])
	}
	if r.Odd && r.Status == "" {
		r.Status = Unreadable // the unreadable cell may have been it
	}
	return r, r.ID != ""
}

// put puts a cell into the row.
func (d decoder) put(r *pipeline.Row, c *cell) {
	u, ok := d[c.Column]
	switch u.field {
	case pipeline.FieldTitle:
		r.Title = c.plain()
	case pipeline.FieldTaskID:
		r.TaskID = strings.TrimSpace(c.plain())
	case pipeline.FieldReason:
		r.Reason = c.plain()
	case pipeline.FieldResult:
		r.Result = c.plain()
	case pipeline.FieldChecked:
		v := first(c.Checkbox)
		r.Checked, ok = v.(bool)
		ok = ok || v == nil
	case pipeline.FieldProject:
		r.Project, ok = c.label(u.column)
	case pipeline.FieldAssignee:
		r.Assignee, ok = c.label(u.column)
	case pipeline.FieldType:
		r.Type, ok = c.folded(u.column)
	case pipeline.FieldPriority:
		var name string
		name, ok = c.folded(u.column)
		r.Priority, _ = pipeline.ParsePriority(name)
	case pipeline.FieldStatus:
		var name string
		name, ok = c.folded(u.column)
		r.Status = pipeline.Status(name)
	case "":
		ok = c.Column != "" // else it is no cell
	default:
		if r.Derived == nil {
			r.Derived = map[pipeline.Field]string{}
		}
		if r.Derived[u.field] = c.derived(u.column); r.Derived[u.field] == "" {
			delete(r.Derived, u.field)
		}
	}
	r.Odd = r.Odd || !ok
}

// first is the first element of an array, nil if it is empty, or the value itself
// if it is no array.
func first(v any) any {
	list, ok := v.([]any)
	switch {
	case !ok:
		return v
	case len(list) == 0:
		return nil
	}
	return list[0]
}

// firstString is the first string of an array, or the string itself; "" if the
// array is empty. It is not ok for any other value.
func firstString(v any) (s string, ok bool) {
	s, ok = first(v).(string)
	return s, ok || first(v) == nil && v != nil
}

// label returns the first value of a select, by its label, or of a user cell, or
// the text of a text cell. It is not ok if the cell has not the form of its
// column.
func (c *cell) label(column *Column) (label string, ok bool) {
	switch {
	case column.isSelect():
		value, ok := firstString(c.Select)
		return column.label(value), ok
	case column.isUser():
		return firstString(c.User)
	}
	return c.plain(), true
}

func (c *cell) folded(column *Column) (name string, ok bool) {
	label, ok := c.label(column)
	return pipeline.FoldName(label), ok
}

// richText is a block, a section or an element of rich text.
type richText struct {
	Type     string     `json:"type"`
	Text     string     `json:"text"`
	Elements []richText `json:"elements"`

	// What an element without text stands for: one of these.
	URL      string `json:"url"`
	User     string `json:"user_id"`
	Channel  string `json:"channel_id"`
	Group    string `json:"usergroup_id"`
	Name     string `json:"name"`     // of an emoji
	Range    string `json:"range"`    // of a broadcast
	Fallback string `json:"fallback"` // of a date
}

// plain returns the exact text, from the rich text, because the plain one next to
// it is a rendering with marks. Without rich text, it returns the plain one.
func (c *cell) plain() string {
	if len(c.RichText) == 0 {
		return c.Text
	}
	return joined(c.RichText, "\n")
}

func joined(elements []richText, between string) string {
	return strings.Join(pipeline.Map(elements, func(e richText) string { return e.plain() }), between)
}

func (e *richText) plain() string {
	between := ""
	if e.Type == "rich_text" || e.Type == "rich_text_list" {
		between = "\n"
	}
	own := cmp.Or(e.Text, e.URL, e.User, e.Channel, e.Group, e.Name, e.Range, e.Fallback)
	return own + joined(e.Elements, between)
}

// derived returns the value of a derived field in the form of its column; "" if it
// cannot be read.
func (c *cell) derived(column *Column) string {
	form := c.plain()
	switch column.Type {
	case "select", "multi_select":
		form, _ = c.folded(column)
	case "date":
		form, _ = firstString(c.Date)
	case "number":
		n, isNumber := first(c.Number).(float64)
		if !isNumber {
			return ""
		}
		form = strconv.FormatFloat(n, 'f', -1, 64)
	}
	return form
}
