package board

import (
	"fmt"
	"slices"
	"time"
)

// A Tx is one transaction on top of a state: it reads through to what will be,
// and collects changes. If its function returns an error, they are forgotten.
// Lists and rows that it returns must not be changed: clone and put them.
type Tx struct {
	base     *state
	now      time.Time
	actor    string
	rowLimit int // 0 is none

	lists     map[string]*List
	listOrder []string
	rows      map[rowRef]*Row // nil: deleted
	rowOrder  []rowRef
	active    map[string]int // list id → change of the number of active rows
}

func newTx(base *state, o *Options, actor string) *Tx {
	return &Tx{
		base: base, now: o.Now().Round(0).UTC(), actor: actor, rowLimit: o.RowLimit,
		lists: make(map[string]*List), rows: make(map[rowRef]*Row), active: make(map[string]int),
	}
}

// List returns the list, or nil.
func (t *Tx) List(id string) *List {
	if l := t.lists[id]; l != nil {
		return l
	}
	if sh := t.base.shelves[id]; sh != nil {
		return sh.list
	}
	return nil
}

// Row returns the row, or nil.
func (t *Tx) Row(listID, id string) *Row {
	if r, ok := t.rows[rowRef{listID, id}]; ok {
		return r
	}
	if sh := t.base.shelves[listID]; sh != nil {
		return sh.rows[id]
	}
	return nil
}

// isGone reports whether a row of that id was deleted.
func (t *Tx) isGone(listID, id string) bool {
	if r, ok := t.rows[rowRef{listID, id}]; ok {
		return r == nil
	}
	sh := t.base.shelves[listID]
	return sh != nil && sh.gone[id]
}

// countActive is how many rows of the list are not archived.
func (t *Tx) countActive(listID string) int {
	n := t.active[listID]
	if sh := t.base.shelves[listID]; sh != nil {
		n += sh.active
	}
	return n
}

// Rows returns the rows of the list, oldest first.
func (t *Tx) Rows(listID string) []*Row {
	var rows []*Row
	if sh := t.base.shelves[listID]; sh != nil {
		for id := range sh.rows {
			if _, changed := t.rows[rowRef{listID, id}]; !changed {
				rows = append(rows, sh.rows[id])
			}
		}
	}
	for ref, r := range t.rows {
		if r != nil && ref.List == listID {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, byCreation)
	return rows
}

// Steps returns the row's subtasks, oldest first.
func (t *Tx) Steps(listID, parent string) []*Row {
	return slices.DeleteFunc(t.Rows(listID), func(r *Row) bool { return r.Parent != parent })
}

// PutList adds a list, or replaces one.
func (t *Tx) PutList(l *List) {
	if t.lists[l.ID] == nil {
		t.listOrder = append(t.listOrder, l.ID)
	}
	l.Updated, l.Editor, l.Edited = t.now, t.actor, t.now
	t.lists[l.ID] = l
}

// PutRow adds a row, or replaces one.
func (t *Tx) PutRow(r *Row) { t.set(rowRef{r.List, r.ID}, r) }

// Touch marks the row as changed now by the actor; put it afterwards.
func (t *Tx) Touch(r *Row) { r.Updated, r.UpdatedBy = t.now, t.actor }

// Delete deletes the row and its subtasks.
func (t *Tx) Delete(r *Row) {
	if r.Parent == "" {
		for _, kid := range t.Steps(r.List, r.ID) {
			t.set(rowRef{kid.List, kid.ID}, nil)
		}
	}
	t.set(rowRef{r.List, r.ID}, nil)
}

func (t *Tx) set(ref rowRef, r *Row) {
	if _, ok := t.rows[ref]; !ok {
		t.rowOrder = append(t.rowOrder, ref)
	}
	t.active[ref.List] += activeRows(r) - activeRows(t.Row(ref.List, ref.ID))
	t.rows[ref] = r
}

// entry is what the transaction changed, or nil.
func (t *Tx) entry() *entry {
	if len(t.listOrder)+len(t.rowOrder) == 0 {
		return nil
	}
	e := &entry{At: t.now, By: t.actor}
	for _, id := range t.listOrder {
		e.Lists = append(e.Lists, t.lists[id])
	}
	for _, ref := range t.rowOrder {
		if r := t.rows[ref]; r != nil {
			e.Rows = append(e.Rows, r)
		} else {
			e.Deleted = append(e.Deleted, ref)
		}
	}
	return e
}

// run calls fn and turns a panic into an error: one hostile request must not
// take the board down.
func (t *Tx) run(fn func(*Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: transaction panicked: %v", p)
		}
	}()
	return fn(t)
}
