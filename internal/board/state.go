package board

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// An entry is what one transaction changed. It is one line of the store, and
// the only way to change a state, at run time and at recovery.
type entry struct {
	Seq uint64 `json:"seq"` // one more than the line before

	// At and By say when the change was made and by whom. They are absent in
	// the lines of a compaction.
	At time.Time `json:"at,omitzero"`
	By string    `json:"by,omitempty"`

	Lists   []*List  `json:"lists,omitempty"`
	Rows    []*Row   `json:"rows,omitempty"`
	Deleted []rowRef `json:"deleted,omitempty"`
	Dropped []string `json:"dropped,omitempty"` // lists deleted, in files of former versions
}

// size is how many objects the entry puts into the log.
func (e *entry) size() int {
	return len(e.Lists) + len(e.Rows) + len(e.Deleted) + len(e.Dropped)
}

type rowRef struct {
	List string `json:"list"`
	ID   string `json:"id"`
}

// A state is every list with its rows. Its owner decides about locking.
type state struct {
	shelves map[string]*shelf
}

func newState() *state { return &state{shelves: make(map[string]*shelf)} }

// A shelf is a list with its rows.
type shelf struct {
	list    *List
	rows    map[string]*Row
	order   []*Row              // sorted by compareRows, archived ones too
	kids    map[string][]string // row id → ids of its subtasks, oldest first
	gone    map[string]bool     // ids of deleted rows
	active  int                 // rows that are not archived, subtasks counted
	updated time.Time
	editor  string
}

// apply makes the entry's changes. An error means that the entry contradicts
// the state; the state is then half changed and must not be used.
func (s *state) apply(e *entry) error {
	for _, l := range e.Lists {
		s.putList(l)
	}
	for _, r := range e.Rows {
		sh := s.shelves[r.List]
		if sh == nil {
			return fmt.Errorf("row %q of list %q, which does not exist", r.ID, r.List)
		}
		sh.put(r)
		sh.touch(e)
	}
	for _, ref := range e.Deleted {
		sh := s.shelves[ref.List]
		if sh == nil {
			return fmt.Errorf("deletion in list %q, which does not exist", ref.List)
		}
		sh.delete(ref.ID)
		sh.touch(e)
	}
	for _, id := range e.Dropped {
		delete(s.shelves, id)
	}
	return nil
}

func (s *state) putList(l *List) {
	sh := s.shelves[l.ID]
	if sh == nil {
		sh = &shelf{
			rows: make(map[string]*Row),
			kids: make(map[string][]string),
			gone: make(map[string]bool),
		}
		s.shelves[l.ID] = sh
	}
	sh.list, sh.updated, sh.editor = l, l.Updated, l.Editor
}

// lists returns all lists, oldest first.
func (s *state) lists() []*shelf {
	return slices.SortedFunc(maps.Values(s.shelves), func(a, b *shelf) int {
		if c := a.list.Created.Compare(b.list.Created); c != 0 {
			return c
		}
		return cmp.Compare(a.list.ID, b.list.ID)
	})
}

func (sh *shelf) touch(e *entry) {
	if !e.At.IsZero() {
		sh.updated, sh.editor = e.At, e.By
	}
}

func (sh *shelf) put(r *Row) {
	old := sh.rows[r.ID]
	sh.rows[r.ID] = r
	delete(sh.gone, r.ID) // it may have been restored
	i, found := slices.BinarySearchFunc(sh.order, r, compareRows)
	if found {
		sh.order[i] = r
	} else {
		sh.order = slices.Insert(sh.order, i, r)
	}
	sh.active += activeRows(r) - activeRows(old)
	if old == nil && r.Parent != "" {
		sh.kids[r.Parent] = append(sh.kids[r.Parent], r.ID)
	}
}

func (sh *shelf) delete(id string) {
	r := sh.rows[id]
	sh.gone[id] = true
	if r == nil {
		return // deleted before the log was compacted
	}
	delete(sh.rows, id)
	if i, found := slices.BinarySearchFunc(sh.order, r, compareRows); found {
		sh.order = slices.Delete(sh.order, i, i+1)
	}
	sh.active -= activeRows(r)
	if r.Parent == "" {
		delete(sh.kids, id)
		return
	}
	kids := slices.DeleteFunc(sh.kids[r.Parent], func(k string) bool { return k == id })
	if sh.kids[r.Parent] = kids; len(kids) == 0 {
		delete(sh.kids, r.Parent)
	}
}

// activeRows is 1 for a row that counts towards the row limit, else 0; the row
// may be nil.
func activeRows(r *Row) int {
	if r == nil || r.Archived {
		return 0
	}
	return 1
}
