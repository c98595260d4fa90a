package slacklist

import (
	"encoding/json"
	"strconv"
	"strings"

	"otm/pipeline"
)

// row is a row of the snapshot, and how well it is known.
type row struct {
	pipeline.Row
	Known stamp `json:"known,omitempty"` // as of when Status is known
	// Wrote is when we wrote the row last, and Was are the states it had
	// before, while a walk may still show one of them. Wrote is 0 once a walk
	// has caught up.
	Wrote stamp             `json:"wrote,omitempty"`
	Was   []pipeline.Status `json:"was,omitempty"`
}

// wireItem is an item as it stands on the wire, decoded so late that no single
// cell can spoil the rest.
type wireItem struct {
	ID        string          `json:"id"`
	Parent    string          `json:"parent_record_id"`
	Created   json.RawMessage `json:"date_created"`
	CreatedBy json.RawMessage `json:"created_by"`
	UpdatedBy json.RawMessage `json:"updated_by"`
	Updated   json.RawMessage `json:"updated_timestamp"`
	Fields    json.RawMessage `json:"fields"`
}

type wireField struct {
	ColumnID string          `json:"column_id"`
	Text     json.RawMessage `json:"text"`
	RichText json.RawMessage `json:"rich_text"`
	Select   json.RawMessage `json:"select"`
	User     json.RawMessage `json:"user"`
	Number   json.RawMessage `json:"number"`
	Date     json.RawMessage `json:"date"`
	Stamp    json.RawMessage `json:"timestamp"`
	Checkbox json.RawMessage `json:"checkbox"`
}

// decodeRow turns an item into a row. An item without an id is no row.
func decodeRow(raw json.RawMessage, schema *Schema) (pipeline.Row, bool) {
	var item wireItem
	if err := json.Unmarshal(raw, &item); err != nil || item.ID == "" {
		return pipeline.Row{}, false
	}
	row := pipeline.Row{
		ID: item.ID, Parent: item.Parent,
		Created: looseInt(item.Created), Updated: looseInt(item.Updated),
		CreatedBy: looseString(item.CreatedBy), UpdatedBy: looseString(item.UpdatedBy),
	}
	var fields []json.RawMessage
	if len(item.Fields) > 0 && json.Unmarshal(item.Fields, &fields) != nil {
		row.Odd = true
	}
	for _, raw := range fields {
		var f wireField
		if json.Unmarshal(raw, &f) != nil {
			row.Odd = true
			continue
		}
		if field, column := schema.fieldOf(f.ColumnID); column != nil {
			setCell(&row, field, column, &f)
		}
	}
	return row, true
}

// setCell puts a cell into the row.
func setCell(r *pipeline.Row, field pipeline.Field, column *Column, f *wireField) {
	switch field {
	case pipeline.FieldTitle:
		r.Title = f.text()
	case pipeline.FieldTaskID:
		r.TaskID = strings.TrimSpace(f.text())
	case pipeline.FieldProject:
		r.Project = f.label(column)
	case pipeline.FieldReason:
		r.Reason = f.text()
	case pipeline.FieldResult:
		r.Result = f.text()
	case pipeline.FieldType:
		r.Type = pipeline.FoldName(f.label(column))
	case pipeline.FieldAssignee:
		r.Assignee = f.label(column)
	case pipeline.FieldPriority:
		r.Priority, _ = pipeline.ParsePriority(f.label(column))
	case pipeline.FieldStatus:
		r.Status = pipeline.Status(pipeline.FoldName(f.label(column)))
	case pipeline.FieldRemaining:
		r.Remaining = f.number()
	case pipeline.FieldCompletion:
		r.Completion = f.number()
	case pipeline.FieldAssignedAt:
		r.AssignedAt = f.when()
	case pipeline.FieldCompletedAt:
		r.CompletedAt = f.when()
	case pipeline.FieldChecked:
		var ok bool
		if r.Checked, ok = looseBool(f.Checkbox); !ok {
			r.Odd = true
		}
	}
}

// text returns exact text: the rich text walked, as the plain one next to it
// is a rendering with marks. Where there is no rich text, the plain one.
func (f *wireField) text() string {
	var blocks []richBlock
	if json.Unmarshal(f.RichText, &blocks) == nil && len(blocks) > 0 {
		var b strings.Builder
		for i, block := range blocks {
			if i > 0 {
				b.WriteByte('\n')
			}
			block.writeTo(&b)
		}
		return b.String()
	}
	return looseString(f.Text)
}

// richBlock is a block, a section or an element of rich text.
type richBlock struct {
	Type     string      `json:"type"`
	Text     string      `json:"text"`
	URL      string      `json:"url"`
	UserID   string      `json:"user_id"`
	Name     string      `json:"name"`
	Elements []richBlock `json:"elements"`
}

func (r *richBlock) writeTo(b *strings.Builder) {
	switch {
	case r.Text != "":
		b.WriteString(r.Text)
	case r.Type == "link":
		b.WriteString(r.URL)
	case r.Type == "user":
		b.WriteString("<@" + r.UserID + ">")
	case r.Type == "emoji":
		b.WriteString(":" + r.Name + ":")
	}
	lines := r.Type == "rich_text" || r.Type == "rich_text_list"
	for i := range r.Elements {
		if lines && i > 0 {
			b.WriteByte('\n')
		}
		r.Elements[i].writeTo(b)
	}
}

// label returns the first value of a select or a user cell, selects by their
// label; of a text cell, the text.
func (f *wireField) label(column *Column) string {
	switch {
	case column.isSelect():
		return column.label(firstString(f.Select))
	case column.isUser():
		return firstString(f.User)
	}
	return f.text()
}

func (f *wireField) number() *float64 {
	var values []json.RawMessage
	if json.Unmarshal(f.Number, &values) == nil && len(values) > 0 {
		if v, err := strconv.ParseFloat(string(values[0]), 64); err == nil {
			return &v
		}
	}
	if v, err := strconv.ParseFloat(strings.TrimSpace(f.text()), 64); err == nil {
		return &v
	}
	return nil
}

// when returns a time as it stands in the cell, whatever the column's type.
func (f *wireField) when() string {
	if d := firstString(f.Date); d != "" {
		return d
	}
	if t := f.text(); t != "" {
		return t
	}
	if n := f.number(); n != nil {
		return strconv.FormatFloat(*n, 'f', -1, 64)
	}
	var values []json.RawMessage
	if json.Unmarshal(f.Stamp, &values) == nil && len(values) > 0 && string(values[0]) != "-1" {
		return string(values[0])
	}
	return ""
}

func firstString(raw json.RawMessage) string {
	var values []json.RawMessage
	if json.Unmarshal(raw, &values) != nil || len(values) == 0 {
		return looseString(raw)
	}
	return looseString(values[0])
}

// looseString reads a string; "" where the value is none.
func looseString(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// looseInt reads a whole number, also from a string ("1758744346") or with a
// fraction; 0 where there is none.
func looseInt(raw json.RawMessage) int64 {
	v, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil {
		return 0
	}
	return int64(v)
}

// looseBool reads a boolean, also as the only value of an array.
func looseBool(raw json.RawMessage) (value, ok bool) {
	switch strings.Trim(string(raw), "[] \n\t") {
	case "true":
		return true, true
	case "false", "null", "":
		return false, true
	}
	return false, false
}
