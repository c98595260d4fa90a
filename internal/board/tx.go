package board

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"otm/internal/sqlite"
)

// A Tx is one transaction on the lists and rows. If its function returns an error,
// its changes are undone. Lists and rows that it returns must not be changed: clone
// and put them.
//
// After a statement has failed, the methods return nothing, and the transaction
// fails with the statement's error.
type Tx struct {
	statements
	store *store
	now   time.Time
	actor string
	lists map[string]*List
}

func (s *store) newTx(q *sqlite.Tx, actor string) *Tx {
	return &Tx{statements: statements{sql: q}, store: s, now: s.opts.Now().Round(0).UTC(), actor: actor, lists: make(map[string]*List)}
}

// run calls fn and turns a panic into an error: one hostile request must not
// take the board down.
func (t *Tx) run(fn func(*Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: transaction panicked: %v", p)
		}
		if t.err != nil {
			err = t.err
		}
	}()
	return fn(t)
}

// List returns the list, or nil.
func (t *Tx) List(id string) *List {
	if l := t.lists[id]; l != nil {
		return l
	}
	var text string
	if !t.one(&text, "SELECT list FROM lists WHERE id = $1", id) {
		return nil
	}
	l, err := t.store.decodeList(text)
	if t.err = err; err == nil {
		t.lists[id] = l
	}
	return l
}

// Row returns the row, or nil.
func (t *Tx) Row(listID, id string) *Row {
	for _, r := range t.selectRows("SELECT row FROM rows WHERE list = $1 AND id = $2", listID, id) {
		return r
	}
	return nil
}

// Rows returns the rows of the list, oldest first.
func (t *Tx) Rows(listID string) []*Row {
	return t.selectRows("SELECT row FROM rows WHERE list = $1 ORDER BY seq", listID)
}

// Steps returns the row's subtasks, oldest first.
func (t *Tx) Steps(listID, parent string) []*Row {
	return t.selectRows("SELECT row FROM rows WHERE list = $1 AND parent = $2 ORDER BY seq", listID, parent)
}

func (t *Tx) selectRows(query string, args ...any) (all []*Row) {
	t.each(func(rows *sql.Rows) error {
		var text sql.RawBytes
		if err := rows.Scan(&text); err != nil {
			return err
		}
		r := new(Row)
		all = append(all, r)
		return json.Unmarshal(text, r)
	}, query, args...)
	return all
}

// item returns the row as the API shows it, or nil.
func (t *Tx) item(listID, id string) (item json.RawMessage) {
	t.one((*[]byte)(&item), "SELECT item FROM rows WHERE list = $1 AND id = $2", listID, id)
	return item
}

// count is how many rows the list has that are not archived.
func (t *Tx) count(listID string) (n int) {
	t.one(&n, "SELECT count(*) FROM rows WHERE list = $1 AND archived = 0", listID)
	return n
}

// PutList adds a list, or replaces one.
func (t *Tx) PutList(l *List) {
	t.exec("INSERT INTO lists (id, list) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET list = excluded.list", l.ID, t.encode(l))
	t.lists[l.ID] = l
}

// PutRow adds a row, or replaces one.
func (t *Tx) PutRow(r *Row) {
	l := t.List(r.List)
	if l == nil {
		return // a statement has failed
	}
	item := renderItem(l, r)
	t.exec(`INSERT INTO rows (list, id, parent, archived, created, num, item, row) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (list, id) DO UPDATE SET archived = excluded.archived, row = excluded.row, item = excluded.item`,
		r.List, r.ID, r.Parent, r.Archived, r.Created.Unix(), r.Num, string(item), t.encode(r))
}

// Touch marks the row as changed now by the actor; put it afterwards.
func (t *Tx) Touch(r *Row) { r.Updated, r.UpdatedBy = t.now, t.actor }

// Delete deletes the row and its subtasks.
func (t *Tx) Delete(r *Row) {
	t.exec("DELETE FROM rows WHERE list = $1 AND (id = $2 OR parent = $2)", r.List, r.ID)
}
