package board

import (
	"encoding/json"
	"fmt"
	"strconv"
)

type itemJSON struct {
	ID        string           `json:"id"`
	ListID    string           `json:"list_id"`
	Created   int64            `json:"date_created"`
	CreatedBy string           `json:"created_by"`
	UpdatedBy string           `json:"updated_by"`
	Fields    []map[string]any `json:"fields"`
	Parent    string           `json:"parent_record_id,omitempty"`
	Archived  bool             `json:"archived,omitempty"`
	Updated   string           `json:"updated_timestamp"`
}

// renderItem encodes the row. Empty cells are absent; only the checkbox of a
// todo list shows as false.
func renderItem(l *List, r *Row) json.RawMessage {
	item := itemJSON{
		ID: r.ID, ListID: l.ID, Created: r.Created.Unix(), CreatedBy: r.CreatedBy, UpdatedBy: r.UpdatedBy,
		Fields: []map[string]any{}, Parent: r.Parent, Archived: r.Archived, Updated: strconv.FormatInt(r.Updated.Unix(), 10),
	}
	for i := range l.Columns {
		c := &l.Columns[i]
		cell := r.Cells[c.ID]
		if cell == nil && c.Type == typeTodoCompleted {
			cell = json.RawMessage("false")
		}
		if cell != nil && keyOf(c.Type) != "" {
			item.Fields = append(item.Fields, field(c, cell))
		}
	}
	raw, err := marshal(item)
	if err != nil {
		panic(fmt.Sprintf("internal error: row %s does not encode: %v", r.ID, err)) // cells are valid JSON
	}
	return raw
}

// field is a cell as items show it: the typed member, and the legacy "value"
// for the types for which the facts show one.
func field(c *Column, cell json.RawMessage) map[string]any {
	key := keyOf(c.Type)
	f := map[string]any{"key": c.Key, "column_id": c.ID, key: cell}
	switch {
	case key == "rich_text":
		f["value"], f["text"] = string(cell), plainText(cell)
	case key == "checkbox":
		f["value"] = cell
	case key == "number", c.single() && (key == "select" || c.Type == "date" || c.Type == "user"):
		f["value"] = cell[1 : len(cell)-1] // the one element of a compact array
	}
	if key == "date" {
		f["timestamp"] = []int{-1}
	}
	return f
}
