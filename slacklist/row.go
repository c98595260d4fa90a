package slacklist

import (
	"strconv"
	"strings"

	"otm/pipeline"
)

// A row is a row of the snapshot, and how stale it is.
type row struct {
	pipeline.Row
	Known stamp `json:"known,omitempty"` // as of when Status is known
	// Wrote is when we wrote the row last; 0 once a walk has caught up. Was are
	// the statuses that a walk may still show, WasBy the users who had touched
	// the row last then, and Last is the row before the last write.
	Wrote stamp             `json:"wrote,omitempty"`
	Was   []pipeline.Status `json:"was,omitempty"`
	WasBy []string          `json:"wasBy,omitempty"`
	Last  *pipeline.Row     `json:"last,omitempty"`
}

// Unreadable is the status of a row with an unreadable cell that may have been
// its status. It is not empty, because a row without a status is a new task, and
// nothing acts on a status that OTM does not know.
const Unreadable pipeline.Status = "unreadable"

// A decoder turns items of an answer into rows.
type decoder struct {
	uses map[string]*use // by column id
}

// A use is the field that a column serves.
type use struct {
	field  pipeline.Field
	column *Column
	labels map[string]label // of a select, by value
}

// A label is the label of an option, plain and folded.
type label struct{ plain, folded string }

func newDecoder(schema *Schema) *decoder {
	d := &decoder{uses: map[string]*use{}}
	for field, id := range schema.Fields {
		u := &use{field: field, column: schema.Column(field)}
		if u.column == nil {
			continue
		}
		if u.column.isSelect() {
			u.labels = map[string]label{}
			for _, o := range u.column.Options {
				u.labels[o.Value] = newLabel(u.column.label(o.Value))
			}
		}
		d.uses[id] = u
	}
	return d
}

func newLabel(s string) label { return label{s, pipeline.FoldName(s)} }

// row turns an item into a row. An item without an id is no row.
func (d *decoder) row(item []byte) (pipeline.Row, bool) {
	var r pipeline.Row
	var fields []byte
	whole := eachMember(item, func(key, value []byte) {
		switch string(key) {
		case "id":
			r.ID = looseString(value)
		case "parent_record_id":
			r.Parent = looseString(value)
		case "date_created":
			r.Created = looseDate(value)
		case "created_by":
			r.CreatedBy = looseString(value)
		case "updated_by":
			r.UpdatedBy = looseString(value)
		case "updated_timestamp":
			r.Updated = looseDate(value)
		case "fields":
			fields = value
		}
	})
	if !whole || r.ID == "" {
		return pipeline.Row{}, false
	}
	if !eachElement(fields, func(value []byte) { d.cell(&r, value) }) {
		r.Odd = true
	}
	if r.Odd && r.Status == "" {
		r.Status = Unreadable // the unreadable cell may have been it
	}
	return r, true
}

// A cell is a cell of an item, cut into the values that a column may hold.
type cell struct {
	text, richText, choice, user, number, date, checkbox []byte
}

// cell reads one field of an item into the row.
func (d *decoder) cell(r *pipeline.Row, value []byte) {
	var id string
	var c cell
	whole := eachMember(value, func(key, value []byte) {
		switch string(key) {
		case "column_id":
			id = looseString(value)
		case "text":
			c.text = value
		case "rich_text":
			c.richText = value
		case "select":
			c.choice = value
		case "user":
			c.user = value
		case "number":
			c.number = value
		case "date":
			c.date = value
		case "checkbox":
			c.checkbox = value
		}
	})
	if !whole {
		r.Odd = true
		return
	}
	if u := d.uses[id]; u != nil {
		c.put(r, u)
	}
}

// put puts a cell into the row.
func (c *cell) put(r *pipeline.Row, u *use) {
	switch u.field {
	case pipeline.FieldTitle:
		r.Title = c.plain()
	case pipeline.FieldTaskID:
		r.TaskID = strings.TrimSpace(c.plain())
	case pipeline.FieldReason:
		r.Reason = c.plain()
	case pipeline.FieldResult:
		r.Result = c.plain()
	case pipeline.FieldRemaining:
		r.Remaining = c.numeric()
	case pipeline.FieldCompletion:
		r.Completion = c.numeric()
	case pipeline.FieldAssignedAt:
		r.AssignedAt = c.when()
	case pipeline.FieldCompletedAt:
		r.CompletedAt = c.when()
	case pipeline.FieldChecked:
		var ok bool
		if r.Checked, ok = looseBool(c.checkbox); !ok {
			r.Odd = true
		}
	default:
		c.putLabel(r, u)
	}
}

// putLabel puts the cell of a select, or of a field that may have one, into the
// row.
func (c *cell) putLabel(r *pipeline.Row, u *use) {
	l, ok := c.label(u)
	if !ok {
		r.Odd = true
	}
	switch u.field {
	case pipeline.FieldProject:
		r.Project = l.plain
	case pipeline.FieldAssignee:
		r.Assignee = l.plain
	case pipeline.FieldType:
		r.Type = l.folded
	case pipeline.FieldPriority:
		r.Priority, _ = pipeline.ParsePriority(l.folded)
	case pipeline.FieldStatus:
		r.Status = pipeline.Status(l.folded)
	}
}

// label returns the first value of a select, by its label, or of a user cell, or
// the text of a text cell. It is not ok if the cell has not the form of its
// column.
func (c *cell) label(u *use) (l label, ok bool) {
	switch {
	case u.column.isSelect():
		value, ok := firstString(c.choice)
		if l, known := u.labels[value]; known {
			return l, true
		}
		return newLabel(value), ok
	case u.column.isUser():
		value, ok := firstString(c.user)
		return label{plain: value}, ok
	}
	return label{plain: c.plain()}, true
}

// firstString is the first string of an array, or the string itself; "" if the
// array is empty. It is not ok for any other value.
func firstString(value []byte) (s string, ok bool) {
	v := first(value)
	switch {
	case len(v) == 0:
		return "", len(value) > 0
	case v[0] == '"':
		return looseString(v), true
	}
	return "", string(v) == "null"
}

// plain returns the exact text, from the rich text, because the plain one next to
// it is a rendering with marks. Without rich text, it returns the plain one.
func (c *cell) plain() string {
	var b strings.Builder
	blocks := 0
	eachElement(c.richText, func(block []byte) {
		if blocks > 0 {
			b.WriteByte('\n')
		}
		blocks++
		writeRich(&b, block, maxRichDepth)
	})
	if blocks == 0 {
		return looseString(c.text)
	}
	return b.String()
}

// maxRichDepth is how deep rich text is read; Slack nests four deep.
const maxRichDepth = 16

// writeRich writes the text of a block, a section or an element of rich text.
func writeRich(b *strings.Builder, element []byte, depth int) {
	var kind, text, ref string
	var elements []byte
	eachMember(element, func(key, value []byte) {
		switch string(key) {
		case "type":
			kind = looseString(value)
		case "text":
			text = looseString(value)
		case "url", "user_id", "channel_id", "usergroup_id", "name", "range", "fallback":
			ref = looseString(value)
		case "elements":
			elements = value
		}
	})
	if text == "" && ref != "" {
		text = reference(kind, ref)
	}
	b.WriteString(text)
	if depth == 0 {
		return
	}
	n := 0
	eachElement(elements, func(e []byte) {
		if n > 0 && (kind == "rich_text" || kind == "rich_text_list") {
			b.WriteByte('\n')
		}
		n++
		writeRich(b, e, depth-1)
	})
}

// reference writes an element that stands for something else as text.
func reference(kind, ref string) string {
	switch kind {
	case "user":
		return "<@" + ref + ">"
	case "channel":
		return "<#" + ref + ">"
	case "usergroup":
		return "<!subteam^" + ref + ">"
	case "emoji":
		return ":" + ref + ":"
	case "broadcast":
		return "@" + ref
	}
	return ref // a link's address, a date's fallback
}

// numeric reads a number, also one that stands in a column of text.
func (c *cell) numeric() *float64 {
	if v, ok := parseFinite(strings.Trim(string(first(c.number)), `"`)); ok {
		return &v
	}
	if v, ok := parseFinite(strings.TrimSpace(c.plain())); ok {
		return &v
	}
	return nil
}

// when returns a time as the cell holds it, for any type of column.
func (c *cell) when() string {
	if d, _ := firstString(c.date); d != "" {
		return d
	}
	if t := c.plain(); t != "" {
		return t
	}
	if n := c.numeric(); n != nil {
		return strconv.FormatFloat(*n, 'f', -1, 64)
	}
	return ""
}
