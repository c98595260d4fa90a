package board

import (
	"encoding/json"
	"fmt"
	"strconv"
)

type itemJSON struct {
	ID        string   `json:"id"`
	ListID    string   `json:"list_id"`
	Created   int64    `json:"date_created"`
	CreatedBy string   `json:"created_by"`
	UpdatedBy string   `json:"updated_by"`
	Fields    []object `json:"fields"`
	Parent    string   `json:"parent_record_id,omitempty"`
	Archived  bool     `json:"archived,omitempty"`
	Updated   string   `json:"updated_timestamp"`
}

// renderItem encodes the row, without Slack's second forms of a cell (value, text), which
// our client does not read. Empty cells are absent; only the checkbox of a todo list
// shows as false.
func renderItem(l *List, r *Row) json.RawMessage {
	item := itemJSON{
		ID: r.ID, ListID: l.ID, Created: r.Created.Unix(), CreatedBy: r.CreatedBy, UpdatedBy: r.UpdatedBy,
		Fields: []object{}, Parent: r.Parent, Archived: r.Archived, Updated: strconv.FormatInt(r.Updated.Unix(), 10),
	}
	for i := range l.Columns {
		c := &l.Columns[i]
		cell := r.Cells[c.ID]
		if cell == nil && c.Type == typeTodoCompleted {
			cell = json.RawMessage("false")
		}
		if key := keyOf(c.Type); cell != nil && key != "" {
			item.Fields = append(item.Fields, object{"key": c.Key, "column_id": c.ID, key: cell})
		}
	}
	raw, err := marshal(item)
	if err != nil {
		panic(fmt.Sprintf("internal error: row %s does not encode: %v", r.ID, err)) // cells are valid JSON
	}
	return raw
}
