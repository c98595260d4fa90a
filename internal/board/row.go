package board

import (
	"encoding/json"
	"maps"
	"time"
)

// A Row is one item. A change clones it.
type Row struct {
	List      string                     `json:"list"`
	ID        string                     `json:"id"`
	Num       int64                      `json:"num"` // random; orders rows of one second
	Parent    string                     `json:"parent,omitempty"`
	Created   time.Time                  `json:"created"`
	CreatedBy string                     `json:"created_by"`
	Updated   time.Time                  `json:"updated"`
	UpdatedBy string                     `json:"updated_by"`
	Archived  bool                       `json:"archived,omitempty"`
	Cells     map[string]json.RawMessage `json:"cells"` // column id → value as the API shows it
}

// Clone returns a copy to change.
func (r *Row) Clone() *Row {
	c := *r
	c.Cells = maps.Clone(r.Cells)
	return &c
}
