package board

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// A renderedRow is a row as JSON, kept while the list's columns stay the same.
type renderedRow struct {
	rev  int
	json json.RawMessage
}

// itemBytes is the row as the API shows it, from the row's cache where the
// columns have not changed since.
func itemBytes(l *list, r *row) json.RawMessage {
	if c := r.cache.Load(); c != nil && c.rev == l.Rev {
		return c.json
	}
	raw := json.RawMessage(appendItem(nil, l, r))
	r.cache.Store(&renderedRow{rev: l.Rev, json: raw})
	return raw
}

// appendItem writes the row. Empty cells are absent; only the checkbox of a
// todo list shows as false. It is written by hand, as a page of 1,000 rows has
// to be there in milliseconds.
func appendItem(b []byte, l *list, r *row) []byte {
	b = slices.Grow(b, 4096)
	b = appendMember(b, `{"id":`, r.ID)
	b = appendMember(b, `,"list_id":`, l.ID)
	b = append(b, `,"date_created":`...)
	b = strconv.AppendInt(b, r.Created.Unix(), 10)
	b = appendMember(b, `,"created_by":`, r.CreatedBy)
	b = appendMember(b, `,"updated_by":`, r.UpdatedBy)
	b = append(b, `,"fields":[`...)
	first := true
	for i := range l.Columns {
		c := &l.Columns[i]
		cell := shownCell(l, c, r.Cells[c.ID])
		if cell == nil {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendField(b, c, cell)
	}
	b = append(b, ']')
	if r.Parent != "" {
		b = appendMember(b, `,"parent_record_id":`, r.Parent)
	}
	if r.Archived {
		b = append(b, `,"archived":true`...)
	}
	b = append(b, `,"updated_timestamp":"`...)
	b = strconv.AppendInt(b, r.Updated.Unix(), 10)
	return append(b, `"}`...)
}

// shownCell is the cell as it is shown, or nil if it is not.
func shownCell(l *list, c *column, cell json.RawMessage) json.RawMessage {
	switch {
	case c.Hidden:
		return nil
	case cell == nil && (c.Type == typeTodoCompleted || c.Type == "completed" && l.Todo):
		return json.RawMessage("false")
	}
	return cell
}

// appendField writes a cell: the legacy value where Slack has one, the typed
// member, and where it belongs.
func appendField(b []byte, c *column, cell json.RawMessage) []byte {
	b = appendMember(b, `{"key":`, c.Key)
	key := keyOf(c.Type)
	if value := legacyValue(c, key, cell); value != nil {
		b = append(b, `,"value":`...)
		b = append(b, value...)
	}
	if key == "rich_text" {
		b = appendMember(b, `,"value":`, string(cell))
		b = appendMember(b, `,"text":`, mrkdwn(cell))
	}
	b = append(b, `,"`...)
	b = append(b, key...)
	b = append(b, `":`...)
	b = append(b, cell...)
	if key == "date" {
		b = append(b, `,"timestamp":[-1]`...)
	}
	b = appendMember(b, `,"column_id":`, c.ID)
	return append(b, '}')
}

// legacyValue is the member value of the types for which the facts show one,
// text apart.
func legacyValue(c *column, key string, cell json.RawMessage) json.RawMessage {
	switch {
	case key == "checkbox":
		return cell
	case key == "number", key == "select" && c.single(), c.Type == "date", c.Type == "user" && c.single():
		return cell[1 : len(cell)-1] // the one element of a compact array
	case c.Type == "user":
		return firstOf(cell)
	}
	return nil
}

func firstOf(cell json.RawMessage) json.RawMessage {
	var values []json.RawMessage
	if json.Unmarshal(cell, &values) != nil || len(values) == 0 {
		return nil
	}
	return values[0]
}

func appendMember(b []byte, name, value string) []byte {
	return appendString(append(b, name...), value)
}

// appendString writes s as a JSON string, without escaping HTML. Invalid UTF-8
// does not get this far.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// A metadataJSON is list_metadata.
type metadataJSON struct {
	Schema            []column        `json:"schema"`
	Views             []viewJSON      `json:"views,omitempty"`
	Integrations      []string        `json:"integrations,omitzero"`
	Icon              *string         `json:"icon,omitempty"`
	Description       *string         `json:"description,omitempty"`
	DescriptionBlocks json.RawMessage `json:"description_blocks,omitempty"`
	IsTrial           *bool           `json:"is_trial,omitempty"`
	SubtaskSchema     []column        `json:"subtask_schema"`
	CreationSource    *sourceJSON     `json:"creation_source,omitempty"`
	TodoMode          *bool           `json:"todo_mode,omitempty"`
	DefaultView       *string         `json:"default_view,omitempty"`
}

type sourceJSON struct {
	Type        string `json:"type"`
	ReferenceID string `json:"reference_id,omitempty"`
}

type viewJSON struct {
	ID             string           `json:"id"`
	Name           string           `json:"name"`
	Type           string           `json:"type"`
	IsLocked       bool             `json:"is_locked"`
	Position       string           `json:"position"`
	Columns        []viewColumnJSON `json:"columns"`
	DateCreated    int64            `json:"date_created"`
	CreatedBy      string           `json:"created_by"`
	StickLeft      bool             `json:"stick_column_left"`
	IsAllItems     bool             `json:"is_all_items_view"`
	DefaultViewKey string           `json:"default_view_key"`
	ShowCompleted  bool             `json:"show_completed_items"`
}

type viewColumnJSON struct {
	Visible  bool   `json:"visible"`
	Key      string `json:"key"`
	ID       string `json:"id"`
	Position string `json:"position"`
}

// schemaOf is list_metadata as slackLists.create echoes it.
func schemaOf(l *list) *metadataJSON {
	m := &metadataJSON{Schema: l.visible(), SubtaskSchema: []column{}}
	for _, c := range m.Schema {
		if l.hasOnSubtask(c.ID) {
			m.SubtaskSchema = append(m.SubtaskSchema, c)
		}
	}
	return m
}

// metadataOf is list_metadata as the list object holds it.
func metadataOf(l *list) *metadataJSON {
	m := schemaOf(l)
	var icon, defaultView string
	var trial bool
	description := mrkdwn(orNull(l.Description))
	m.Views = []viewJSON{viewOf(l)}
	m.Integrations = []string{}
	m.Icon, m.DefaultView, m.IsTrial = &icon, &defaultView, &trial
	m.Description, m.DescriptionBlocks = &description, l.Description
	if l.Description == nil {
		m.DescriptionBlocks = json.RawMessage("[]")
	}
	m.CreationSource = &sourceJSON{Type: "blank"}
	if l.CopiedFrom != "" {
		m.CreationSource = &sourceJSON{Type: "copy_from_list", ReferenceID: l.CopiedFrom}
	}
	m.TodoMode = &l.Todo
	return m
}

// viewOf is the one view every list has.
func viewOf(l *list) viewJSON {
	created := l.Created.Unix()
	v := viewJSON{
		ID: l.View, Name: "All items", Type: "table", Position: strconv.FormatInt(created, 10),
		Columns: []viewColumnJSON{}, DateCreated: created, CreatedBy: l.CreatedBy,
		IsAllItems: true, DefaultViewKey: "all_items", ShowCompleted: true,
	}
	for i, c := range l.visible() {
		v.Columns = append(v.Columns, viewColumnJSON{true, c.Key, c.ID, strconv.Itoa((i + 1) * 1000)})
	}
	return v
}

// unixOf is the latest of the times, in seconds.
func unixOf(times ...time.Time) int64 {
	var latest int64
	for _, t := range times {
		latest = max(latest, t.Unix())
	}
	return latest
}
