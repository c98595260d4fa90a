package board

import (
	"encoding/json"
	"maps"
	"sync/atomic"
	"time"
)

// A Row is one item, immutable once published; a change clones it.
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

	cache atomic.Pointer[renderedRow]
}

// Clone returns a copy to change.
func (r *Row) Clone() *Row {
	return &Row{
		List: r.List, ID: r.ID, Num: r.Num, Parent: r.Parent,
		Created: r.Created, CreatedBy: r.CreatedBy,
		Updated: r.Updated, UpdatedBy: r.UpdatedBy,
		Archived: r.Archived, Cells: maps.Clone(r.Cells),
	}
}

// A place is a row's position in the listing, and what a cursor holds.
type place struct {
	second, num int64
}

func placeOf(r *Row) place { return place{r.Created.Unix(), r.Num} }

// comparePlace orders as items.list does: newest second first, then by the
// internal number. That number is random, because the order within a second
// says nothing in Slack either.
func comparePlace(a, b place) int {
	switch {
	case a.second > b.second, a.second == b.second && a.num > b.num:
		return -1
	case a == b:
		return 0
	}
	return 1
}

func compareRows(a, b *Row) int { return comparePlace(placeOf(a), placeOf(b)) }

// byCreation orders rows oldest first.
func byCreation(a, b *Row) int {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	return -compareRows(a, b)
}
