package board

import (
	"encoding/json"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// A list is one List with its columns and grants. It is immutable once
// published; a change clones it.
type list struct {
	ID          string          `json:"id"`
	Num         int64           `json:"num"` // internal number, seen in cursors only
	Name        string          `json:"name"`
	Description json.RawMessage `json:"description_blocks,omitempty"`
	Columns     []column        `json:"columns"`
	Subtask     []string        `json:"subtask"` // ids of the columns a subtask has
	Todo        bool            `json:"todo,omitempty"`
	View        string          `json:"view"`
	CopiedFrom  string          `json:"copied_from,omitempty"`

	Owner    string            `json:"owner"`
	Users    map[string]string `json:"users,omitempty"`    // user id → read, write
	Channels map[string]string `json:"channels,omitempty"` // channel id → read, write

	// Default marks the list made at first open, which cannot be deleted;
	// OpenColumn is its column that takes new names as options.
	Default    bool   `json:"default,omitempty"`
	OpenColumn string `json:"open_column,omitempty"`

	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
	Edited    time.Time `json:"edited"`  // last change of the list itself
	Updated   time.Time `json:"updated"` // last change of anything in it, as of this record
	Editor    string    `json:"editor"`

	// Rev counts the changes that alter how rows look.
	Rev int `json:"rev,omitempty"`
}

func (l *list) clone() *list {
	c := *l
	c.Columns = slices.Clone(l.Columns)
	for i := range c.Columns {
		c.Columns[i].Options = c.Columns[i].Options.clone()
	}
	c.Subtask = slices.Clone(l.Subtask)
	c.Users = maps.Clone(l.Users)
	c.Channels = maps.Clone(l.Channels)
	return &c
}

// column returns the visible column with the id, or nil. The pointer leads
// into the list: only a clone's may be written through.
func (l *list) column(id string) *column {
	for i := range l.Columns {
		if c := &l.Columns[i]; c.ID == id && !c.Hidden {
			return c
		}
	}
	return nil
}

func (l *list) hasOnSubtask(columnID string) bool {
	return slices.Contains(l.Subtask, columnID)
}

// visible returns the columns that are not hidden, in order.
func (l *list) visible() []column {
	cols := make([]column, 0, len(l.Columns))
	for _, c := range l.Columns {
		if !c.Hidden {
			cols = append(cols, c)
		}
	}
	return cols
}

// A row is one item, immutable once published.
type row struct {
	List      string                     `json:"list"`
	ID        string                     `json:"id"`
	Num       int64                      `json:"num"` // random; orders rows of one second
	Parent    string                     `json:"parent,omitempty"`
	Created   time.Time                  `json:"created"`
	CreatedBy string                     `json:"created_by"`
	Updated   time.Time                  `json:"updated"`
	UpdatedBy string                     `json:"updated_by"`
	Archived  bool                       `json:"archived,omitempty"`
	Cells     map[string]json.RawMessage `json:"cells"` // column id → value as it is read

	cache atomic.Pointer[renderedRow]
}

func (r *row) clone() *row {
	return &row{
		List: r.List, ID: r.ID, Num: r.Num, Parent: r.Parent,
		Created: r.Created, CreatedBy: r.CreatedBy,
		Updated: r.Updated, UpdatedBy: r.UpdatedBy,
		Archived: r.Archived, Cells: maps.Clone(r.Cells),
	}
}

// compareRows orders as items.list does: newest second first, then by the
// internal number. That number is random, as the order within a second says
// nothing in Slack either.
func compareRows(a, b *row) int {
	return comparePlace(placeOf(a), placeOf(b))
}

// A place is a row's position in the listing, and what a cursor holds.
type place struct {
	second, num int64
}

func placeOf(r *row) place { return place{r.Created.Unix(), r.Num} }

func comparePlace(a, b place) int {
	switch {
	case a.second > b.second, a.second == b.second && a.num > b.num:
		return -1
	case a == b:
		return 0
	}
	return 1
}
