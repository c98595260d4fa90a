package board

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// An entry is one mutation: what a transaction changed, whole. It is one line
// of the store, and the only way by which a state changes, at run time and at
// recovery alike.
type entry struct {
	Seq    uint64 `json:"seq"`    // one more than the line before
	Synced uint64 `json:"synced"` // the last line known durable when this one was written

	// At and By say who changed something when; absent in the lines that
	// compaction writes, which change nothing.
	At time.Time `json:"at,omitzero"`
	By string    `json:"by,omitempty"`

	// Quiet leaves the list's updated time alone.
	Quiet bool `json:"quiet,omitempty"`

	Lists   []*list  `json:"lists,omitempty"`
	Rows    []*row   `json:"rows,omitempty"`
	Deleted []rowRef `json:"deleted,omitempty"`
	Dropped []string `json:"dropped,omitempty"` // lists deleted
}

func (e *entry) empty() bool {
	return len(e.Lists)+len(e.Rows)+len(e.Deleted)+len(e.Dropped) == 0
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
	list     *list
	rows     map[string]*row
	order    []*row              // sorted by compareRows, archived ones too
	kids     map[string][]string // row id → ids of its subtasks, oldest first
	gone     map[string]*row     // deleted rows by id; nil where only the id is left
	active   int                 // rows that are not archived, subtasks counted
	archived int
	updated  time.Time
	editor   string
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

func (s *state) putList(l *list) {
	sh := s.shelves[l.ID]
	if sh == nil {
		sh = &shelf{
			rows: make(map[string]*row),
			kids: make(map[string][]string),
			gone: make(map[string]*row),
		}
		s.shelves[l.ID] = sh
	}
	sh.list, sh.updated, sh.editor = l, l.Updated, l.Editor
}

func (s *state) findList(id string) *list {
	if sh := s.shelves[id]; sh != nil {
		return sh.list
	}
	return nil
}

func (s *state) findRow(listID, id string) *row {
	if sh := s.shelves[listID]; sh != nil {
		return sh.rows[id]
	}
	return nil
}

// defaultList is the list made at first open.
func (s *state) defaultList() (*list, error) {
	for _, sh := range s.shelves {
		if sh.list.Default {
			return sh.list, nil
		}
	}
	return nil, errors.New("no default list")
}

// lists returns all lists, newest first.
func (s *state) lists() []*shelf {
	all := make([]*shelf, 0, len(s.shelves))
	for _, sh := range s.shelves {
		all = append(all, sh)
	}
	slices.SortFunc(all, func(a, b *shelf) int {
		if c := b.list.Created.Compare(a.list.Created); c != 0 {
			return c
		}
		return cmp.Compare(a.list.ID, b.list.ID)
	})
	return all
}

func (sh *shelf) touch(e *entry) {
	if !e.At.IsZero() && !e.Quiet {
		sh.updated, sh.editor = e.At, e.By
	}
}

func (sh *shelf) put(r *row) {
	old := sh.rows[r.ID]
	sh.rows[r.ID] = r
	delete(sh.gone, r.ID) // it may have been restored
	i, found := slices.BinarySearchFunc(sh.order, r, compareRows)
	if found {
		sh.order[i] = r
	} else {
		sh.order = slices.Insert(sh.order, i, r)
	}
	sh.count(old, -1)
	sh.count(r, +1)
	if old == nil && r.Parent != "" {
		sh.kids[r.Parent] = append(sh.kids[r.Parent], r.ID)
	}
}

func (sh *shelf) delete(id string) {
	r := sh.rows[id]
	sh.gone[id] = r
	if r == nil {
		return // the tombstone of a row that compaction has forgotten
	}
	delete(sh.rows, id)
	if i, found := slices.BinarySearchFunc(sh.order, r, compareRows); found {
		sh.order = slices.Delete(sh.order, i, i+1)
	}
	sh.count(r, -1)
	if r.Parent == "" {
		delete(sh.kids, id)
		return
	}
	kids := slices.DeleteFunc(sh.kids[r.Parent], func(k string) bool { return k == id })
	if sh.kids[r.Parent] = kids; len(kids) == 0 {
		delete(sh.kids, r.Parent)
	}
}

func (sh *shelf) count(r *row, by int) {
	switch {
	case r == nil:
	case r.Archived:
		sh.archived += by
	default:
		sh.active += by
	}
}

// children are the row's subtasks, oldest first.
func (sh *shelf) children(id string) []*row {
	kids := make([]*row, 0, len(sh.kids[id]))
	for _, k := range sh.kids[id] {
		kids = append(kids, sh.rows[k])
	}
	return kids
}
