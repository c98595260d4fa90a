package slacklist

import (
	"fmt"
	"strconv"
	"time"

	"github.com/slack-go/slack"

	"otm/pipeline"
)

// An encoder turns cells into arguments of a call, and into what the snapshot
// shows after it.
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
	switch cell.Field {
	case pipeline.FieldChecked:
		return slack.ListItemField{Checkbox: &cell.Checked}, nil
	case pipeline.FieldRemaining, pipeline.FieldCompletion:
		if c.Type == "number" {
			return slack.ListItemField{Number: []float64{cell.Number}}, nil
		}
		return textField(numberText(cell.Number)), nil
	case pipeline.FieldAssignedAt, pipeline.FieldCompletedAt:
		return timeField(c, cell.At), nil
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
// neither clears it.
func (e *encoder) assignee(c *Column, cell pipeline.Cell) (slack.ListItemField, error) {
	nobody := cell.Text == "" && cell.User == ""
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
	value, ok := c.option(cell.Text)
	if !ok && cell.Field == pipeline.FieldPriority && cell.Text == string(pipeline.Normal) {
		value, ok = c.option("medium")
	}
	if !ok && cell.Field == pipeline.FieldAssignee && e.embedded {
		value, ok = cell.Text, true
	}
	if !ok {
		return slack.ListItemField{}, &pipeline.MissingError{Column: c.Name, Option: cell.Text, Problem: problemMissing, Have: c.labels()}
	}
	return slack.ListItemField{Select: []string{value}}, nil
}

// textField is the only form in which Slack takes text; no block clears the cell.
func textField(s string) slack.ListItemField {
	blocks := []slack.RichTextBlock{}
	if s != "" {
		blocks = append(blocks, *slack.NewRichTextBlock("", slack.NewRichTextSection(slack.NewRichTextSectionTextElement(s, nil))))
	}
	return slack.ListItemField{RichText: blocks}
}

// timeField is a time in the form of the column: a date (UTC), Unix seconds, or
// RFC 3339. The zero time clears the cell.
func timeField(c *Column, t time.Time) slack.ListItemField {
	switch {
	case c.Type == "date" && t.IsZero():
		return slack.ListItemField{Date: []string{}}
	case c.Type == "date":
		return slack.ListItemField{Date: []string{t.UTC().Format(time.DateOnly)}}
	case c.Type == "number" && t.IsZero():
		return slack.ListItemField{Number: []float64{}}
	case c.Type == "number":
		return slack.ListItemField{Number: []float64{float64(t.Unix())}}
	case t.IsZero():
		return textField("")
	}
	return textField(t.UTC().Format(time.RFC3339))
}

func numberText(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// patch puts encoded cells into a row, as a walk would show them.
func (d decoder) patch(r *pipeline.Row, fields []slack.ListItemField) {
	for _, f := range fields {
		c := &cell{}
		decode([]byte(asJSON(f)), c)
		d.put(r, c)
	}
}
