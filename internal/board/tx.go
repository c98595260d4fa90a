package board

import (
	"fmt"
	"slices"
	"time"
)

// A layer is changes on top of a state that are not made yet: those of one
// transaction, or those of all transactions of one commit.
type layer struct {
	base   *state
	under  *layer           // the layer between this one and the base, or nil
	lists  map[string]*list // nil: deleted
	rows   map[rowRef]*row  // nil: deleted
	active map[string]int   // list id → change of the number of active rows
}

func newLayer(base *state, under *layer) *layer {
	return &layer{
		base:   base,
		under:  under,
		lists:  make(map[string]*list),
		rows:   make(map[rowRef]*row),
		active: make(map[string]int),
	}
}

func (l *layer) findList(id string) *list {
	for cur := l; cur != nil; cur = cur.under {
		if found, ok := cur.lists[id]; ok {
			return found
		}
	}
	return l.base.findList(id)
}

func (l *layer) findRow(listID, id string) *row {
	for cur := l; cur != nil; cur = cur.under {
		if r, ok := cur.rows[rowRef{listID, id}]; ok {
			return r
		}
	}
	return l.base.findRow(listID, id)
}

// countLists is how many lists there are.
func (l *layer) countLists() int {
	n := len(l.base.shelves)
	for cur := l; cur != nil; cur = cur.under {
		for id, found := range cur.lists {
			switch there := l.base.shelves[id] != nil; {
			case found == nil && there:
				n--
			case found != nil && !there:
				n++
			}
		}
	}
	return n
}

// countActive is how many rows of the list are not archived.
func (l *layer) countActive(listID string) int {
	n := 0
	if sh := l.base.shelves[listID]; sh != nil {
		n = sh.active
	}
	for cur := l; cur != nil; cur = cur.under {
		n += cur.active[listID]
	}
	return n
}

// allRows are the rows of the list, oldest first.
func (l *layer) allRows(listID string) []*row {
	ids := make(map[string]struct{})
	if sh := l.base.shelves[listID]; sh != nil {
		for id := range sh.rows {
			ids[id] = struct{}{}
		}
	}
	for cur := l; cur != nil; cur = cur.under {
		for ref := range cur.rows {
			if ref.List == listID {
				ids[ref.ID] = struct{}{}
			}
		}
	}
	return l.sorted(listID, ids)
}

// children are the row's subtasks, oldest first.
func (l *layer) children(listID, parent string) []*row {
	ids := make(map[string]struct{})
	if sh := l.base.shelves[listID]; sh != nil {
		for _, id := range sh.kids[parent] {
			ids[id] = struct{}{}
		}
	}
	for cur := l; cur != nil; cur = cur.under {
		for ref, r := range cur.rows {
			if r != nil && ref.List == listID && r.Parent == parent {
				ids[ref.ID] = struct{}{}
			}
		}
	}
	return l.sorted(listID, ids)
}

func (l *layer) sorted(listID string, ids map[string]struct{}) []*row {
	rows := make([]*row, 0, len(ids))
	for id := range ids {
		if r := l.findRow(listID, id); r != nil {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, byCreation)
	return rows
}

func byCreation(a, b *row) int {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	return -comparePlace(placeOf(a), placeOf(b))
}

func (l *layer) setRow(ref rowRef, r *row) {
	was := l.findRow(ref.List, ref.ID)
	l.rows[ref] = r
	if was != nil && !was.Archived {
		l.active[ref.List]--
	}
	if r != nil && !r.Archived {
		l.active[ref.List]++
	}
}

// absorb takes over the changes of a layer that lies on this one.
func (l *layer) absorb(top *layer) {
	for id, found := range top.lists {
		l.lists[id] = found
	}
	for ref, r := range top.rows {
		l.rows[ref] = r
	}
	for id, n := range top.active {
		l.active[id] += n
	}
}

// A tx is one transaction: it reads through to what will be, and collects
// changes. The committer runs transactions one at a time; if the function of
// one returns an error, its changes are forgotten.
type tx struct {
	*layer
	now   time.Time
	actor string
	quiet bool // see entry.Quiet

	rowOrder  []rowRef
	listOrder []string
}

func newTx(batch *layer, now time.Time, actor string) *tx {
	return &tx{layer: newLayer(batch.base, batch), now: now.Round(0).UTC(), actor: actor}
}

func (t *tx) putList(l *list) {
	if _, ok := t.lists[l.ID]; !ok {
		t.listOrder = append(t.listOrder, l.ID)
	}
	l.Updated, l.Editor, l.Edited = t.now, t.actor, t.now
	t.lists[l.ID] = l
}

func (t *tx) dropList(id string) {
	if _, ok := t.lists[id]; !ok {
		t.listOrder = append(t.listOrder, id)
	}
	t.lists[id] = nil
}

func (t *tx) putRow(r *row) { t.set(rowRef{r.List, r.ID}, r) }

func (t *tx) deleteRow(r *row) { t.set(rowRef{r.List, r.ID}, nil) }

func (t *tx) set(ref rowRef, r *row) {
	if _, ok := t.rows[ref]; !ok {
		t.rowOrder = append(t.rowOrder, ref)
	}
	t.setRow(ref, r)
}

// entry is what the transaction changed.
func (t *tx) entry() *entry {
	e := &entry{At: t.now, By: t.actor, Quiet: t.quiet}
	for _, id := range t.listOrder {
		if l := t.lists[id]; l != nil {
			e.Lists = append(e.Lists, l)
		} else {
			e.Dropped = append(e.Dropped, id)
		}
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

// run calls fn, turning a panic into an error: one hostile request must not
// take the committer, and with it the board, down.
func (t *tx) run(fn func(*tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: transaction panicked: %v", p)
		}
	}()
	return fn(t)
}
