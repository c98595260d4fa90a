package slacklist

import (
	"fmt"
	"maps"
	"strconv"
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
	return &pipeline.MissingError{Column: c.Name, Option: option, Problem: problemMissing, Have: c.labels()}
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
