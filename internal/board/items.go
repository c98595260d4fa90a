package board

import (
	"encoding/json"
	"fmt"
)

// maxCells is how many cells one items.update carries (facts 1.7).
const maxCells = 100

// edit runs fn as a transaction of the caller on the list, if the arguments are
// right.
func (c *call) edit(listID string, fn func(*Tx, *List) error) error {
	if c.err != nil {
		return c.err
	}
	return c.store.do(c.who.UserID, func(t *Tx) error {
		l := t.List(listID)
		if l == nil {
			return refuse("list_not_found")
		}
		return fn(t, l)
	})
}

// listUpdate changes the description of a list; our client changes nothing else.
func listUpdate(c *call) (any, error) {
	listID := c.required("id")
	var raws []json.RawMessage
	if json.Unmarshal(orNull(c.raw("description_blocks")), &raws) != nil || raws == nil {
		c.problem("must be an array of rich_text blocks: description_blocks")
	}
	blocks, err := checkBlocks(raws)
	if err != nil {
		return nil, err
	}
	return okAnswer, c.edit(listID, func(t *Tx, l *List) error {
		changed := l.Clone()
		changed.Description = blocks
		t.PutList(changed)
		return nil
	})
}

func itemsCreate(c *call) (any, error) {
	listID, parent, fields := c.required("list_id"), c.text("parent_item_id"), c.raw("initial_fields")
	var item json.RawMessage
	err := c.edit(listID, func(t *Tx, l *List) error {
		r, err := t.Create(l, parent, fields)
		if err == nil {
			item = t.item(listID, r.ID)
		}
		return err
	})
	return answerJSON{OK: true, Item: item}, err
}

func itemsUpdate(c *call) (any, error) {
	listID, raw := c.required("list_id"), c.raw("cells")
	var cells []json.RawMessage
	if json.Unmarshal(orNull(raw), &cells) != nil || len(cells) == 0 || len(cells) > maxCells {
		c.problem("must be an array of 1 to %d elements: cells", maxCells)
	}
	return okAnswer, c.edit(listID, func(t *Tx, l *List) error { return t.Update(l, raw) })
}

// itemsDeleteMultiple deletes those of the rows that exist and says nothing
// about the others.
func itemsDeleteMultiple(c *call) (any, error) {
	listID := c.required("list_id")
	var ids []string
	if json.Unmarshal(orNull(c.raw("ids")), &ids) != nil || len(ids) == 0 {
		c.problem("must be an array of strings: ids")
	}
	return okAnswer, c.edit(listID, func(t *Tx, _ *List) error {
		for _, id := range ids {
			if r := t.Row(listID, id); r != nil {
				t.Delete(r)
			}
		}
		return nil
	})
}

// Create adds a row to the list, below the parent unless that is "". The cells
// are an array as initial_fields carries it; nil is none.
func (t *Tx) Create(l *List, parent string, cells json.RawMessage) (*Row, error) {
	inputs, err := parseCells(cells)
	if err != nil {
		return nil, err
	}
	if limit := t.store.opts.RowLimit; limit > 0 && t.count(l.ID) >= limit {
		return nil, refuse("over_row_maximum")
	}
	if err := t.checkParent(l.ID, parent); err != nil {
		return nil, err
	}
	r := &Row{
		List: l.ID, ID: newID("Rec"), Num: newNum(), Parent: parent,
		Created: t.now, CreatedBy: t.actor, Updated: t.now, UpdatedBy: t.actor,
		Cells: make(map[string]json.RawMessage),
	}
	w := cellWriter{t: t, list: l}
	for _, in := range inputs {
		if err := w.write(r, in); err != nil {
			return nil, err
		}
	}
	w.finish()
	t.PutRow(r)
	return r, nil
}

// checkParent allows one level of subtasks, under rows that exist.
func (t *Tx) checkParent(listID, parent string) error {
	if parent == "" {
		return nil
	}
	p := t.Row(listID, parent)
	switch {
	case p == nil:
		return refuse("invalid_args", "parent_item_id names no row")
	case p.Parent != "":
		return refuse("invalid_args", "parent_item_id names a subtask")
	case p.Archived:
		return refuse("invalid_args", "parent_item_id names an archived row")
	}
	return nil
}

// Update sets cells of one row or of several, in order, each replacing what was
// there. They are an array as items.update carries it. All are checked; if one
// is refused, none counts.
func (t *Tx) Update(l *List, cells json.RawMessage) error {
	inputs, err := parseCells(cells)
	if err != nil {
		return err
	}
	w := cellWriter{t: t, list: l}
	changed := make(map[string]*Row)
	var order []*Row
	for _, in := range inputs {
		switch {
		case in.row == "":
			return refuse("row_id_not_provided")
		case in.column == "":
			return refuse("column_id_not_provided")
		case !isID(in.row, "Rec"):
			return refuse("invalid_row_id", fmt.Sprintf("%q is no row id", in.row))
		}
		r := changed[in.row]
		if r == nil {
			stored := t.Row(l.ID, in.row)
			if stored == nil {
				return refuse("row_not_found", fmt.Sprintf("no row %s", in.row))
			}
			r = stored.Clone()
			t.Touch(r)
			changed[in.row], order = r, append(order, r)
		}
		if err := w.write(r, in); err != nil {
			return err
		}
	}
	w.finish()
	for _, r := range order {
		t.PutRow(r)
	}
	return nil
}

// A cellWriter writes checked cells into rows that are not published yet. It
// may add options to the list, which finish hands to the transaction.
type cellWriter struct {
	t     *Tx
	list  *List
	grown bool
}

func (w *cellWriter) write(r *Row, in cellInput) error {
	c := w.list.Column(in.column)
	if c == nil {
		return refuse("invalid_column_id", fmt.Sprintf("no column %q", in.column))
	}
	value, err := checkCell(c, in, w.newChoice)
	if err != nil {
		return err
	}
	if value == nil {
		delete(r.Cells, c.ID)
	} else {
		r.Cells[c.ID] = value
	}
	return nil
}

// newChoice adds the value as an option, if the column is one that takes new names,
// as do those for assignees and types, and this is one.
func (w *cellWriter) newChoice(c *Column, value string) bool {
	open := c.ID == w.list.OpenColumn || w.list.Default && c.Key == "type"
	if !open || !c.IsSelect() || !isAgentName(value) {
		return false
	}
	if !w.grown {
		w.list = w.list.Clone()
		w.grown = true
	}
	w.list.Column(c.ID).AddChoice(value, value)
	return true
}

func (w *cellWriter) finish() {
	if w.grown {
		w.t.PutList(w.list)
	}
}
