package board

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// These are the mutations of rows, inside a transaction. The API and people's
// edits share them; access has been checked.

// A rowInput is what a new row is made of.
type rowInput struct {
	parent     string
	duplicated string
	cells      []cellInput
}

// createRow adds a row to the list.
func (s *Server) createRow(t *tx, l *list, in rowInput, q Quirks) (*row, error) {
	if s.opts.RowLimit > 0 && t.countActive(l.ID) >= s.opts.RowLimit {
		return nil, refuse("over_row_maximum")
	}
	r := &row{
		List: l.ID, ID: t.freeRowID(l.ID), Num: newNum(), Parent: in.parent,
		Created: t.now, CreatedBy: t.actor, Updated: t.now, UpdatedBy: t.actor,
		Cells: make(map[string]json.RawMessage),
	}
	if in.duplicated != "" {
		original := t.findRow(l.ID, in.duplicated)
		if original == nil {
			return nil, refuse("duplicated_item_not_found")
		}
		if r.Parent == "" {
			r.Parent = original.Parent
		}
		for id, cell := range original.Cells {
			r.Cells[id] = cell
		}
	}
	if err := t.checkParent(l.ID, r.Parent); err != nil {
		return nil, err
	}
	w := s.newCellWriter(t, l, q)
	for _, cell := range in.cells {
		if err := w.write(r, cell); err != nil {
			return nil, err
		}
	}
	w.finish()
	t.putRow(r)
	return r, nil
}

func (t *tx) freeRowID(listID string) string {
	for {
		id := newRowID()
		if t.findRow(listID, id) == nil && !t.isGone(listID, id) {
			return id
		}
	}
}

// isGone says whether a row of that id was deleted.
func (t *tx) isGone(listID, id string) bool {
	for cur := t.layer; cur != nil; cur = cur.under {
		if r, ok := cur.rows[rowRef{listID, id}]; ok {
			return r == nil
		}
	}
	sh := t.base.shelves[listID]
	if sh == nil {
		return false
	}
	_, gone := sh.gone[id]
	return gone
}

// deleted returns a deleted row that is remembered, and after it its deleted
// subtasks, oldest first.
func (t *tx) deleted(listID, id string) ([]*row, error) {
	if t.findRow(listID, id) != nil || !t.isGone(listID, id) {
		return nil, refuse("record_not_found")
	}
	sh := t.base.shelves[listID]
	if sh == nil || sh.gone[id] == nil {
		return nil, refuse("record_deleted")
	}
	var kids []*row
	for kid, r := range sh.gone {
		if r != nil && r.Parent == id && t.findRow(listID, kid) == nil {
			kids = append(kids, r)
		}
	}
	slices.SortFunc(kids, byCreation)
	return append([]*row{sh.gone[id]}, kids...), nil
}

// checkParent allows one level of subtasks, under rows that are there.
func (t *tx) checkParent(listID, parent string) error {
	if parent == "" {
		return nil
	}
	p := t.findRow(listID, parent)
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

// updateCells sets the cells, in order, each replacing what was there. All are
// checked; if one is refused, none counts.
func (s *Server) updateCells(t *tx, l *list, cells []cellInput, q Quirks) error {
	w := s.newCellWriter(t, l, q)
	changed := make(map[string]*row)
	var order []string
	onlyCheckboxes := true
	for _, in := range cells {
		switch {
		case in.row == "":
			return refuse("row_id_not_provided")
		case in.column == "":
			return refuse("column_id_not_provided")
		case !isRowID(in.row):
			return refuse("invalid_row_id", fmt.Sprintf("%q is no row id", in.row))
		}
		r := changed[in.row]
		if r == nil {
			stored := t.findRow(l.ID, in.row)
			if stored == nil {
				return refuse("row_not_found", fmt.Sprintf("no row %s", in.row))
			}
			r = stored.clone()
			changed[in.row] = r
			order = append(order, in.row)
		}
		if err := w.write(r, in); err != nil {
			return err
		}
		onlyCheckboxes = onlyCheckboxes && in.key == "checkbox"
	}
	w.finish()
	for _, id := range order {
		r := changed[id]
		r.Updated, r.UpdatedBy = t.now, t.actor
		t.putRow(r)
	}
	t.quiet = q.QuietCheckbox && onlyCheckboxes
	return nil
}

// deleteRow deletes the row and its subtasks.
func deleteRow(t *tx, r *row) {
	for _, kid := range t.children(r.List, r.ID) {
		t.deleteRow(kid)
	}
	t.deleteRow(r)
}

// A cellWriter writes checked cells into rows that are not published yet. It
// may add options to the list, which finish hands to the transaction.
type cellWriter struct {
	t       *tx
	list    *list
	strict  bool // drop cells outside subtask_schema
	checker cellChecker
	grown   bool
}

func (s *Server) newCellWriter(t *tx, l *list, q Quirks) *cellWriter {
	w := &cellWriter{t: t, list: l, strict: q.StrictSubtaskSchema}
	w.checker.file = func(id string) bool { return t.findList(id) != nil }
	if !q.FixedAssignees {
		w.checker.newChoice = w.openChoice
	}
	return w
}

func (w *cellWriter) write(r *row, in cellInput) error {
	c := w.list.column(in.column)
	if c == nil {
		return refuse("invalid_column_id", fmt.Sprintf("no column %q", in.column))
	}
	value, err := w.checker.check(c, in)
	if err != nil {
		return err
	}
	switch {
	case w.strict && r.Parent != "" && !w.list.hasOnSubtask(c.ID):
	case value == nil:
		delete(r.Cells, c.ID)
	default:
		r.Cells[c.ID] = value
	}
	return nil
}

// openChoice adds the value as an option, if the column is the one that takes
// new names and this is one.
func (w *cellWriter) openChoice(c *column, value string) bool {
	if c.ID != w.list.OpenColumn || !c.isSelect() || !isAgentName(value) {
		return false
	}
	if !w.grown {
		w.list = w.list.clone()
		w.grown = true
	}
	addChoice(w.list.column(c.ID), value, value)
	return true
}

func (w *cellWriter) finish() {
	if w.grown {
		w.t.putList(w.list)
	}
}

// addChoice adds an option to a column of a list that is not published yet.
func addChoice(c *column, value, label string) {
	if c.Options == nil {
		c.Options = &columnOptions{ShowMemberName: true}
	}
	color := choiceColors[len(c.Options.Choices)%len(choiceColors)]
	c.Options.Choices = append(c.Options.Choices, choice{value, label, color})
}

// isAgentName says whether the name may become an option by being sent:
// ^[\p{L}\p{N}][\p{L}\p{N}\p{M} ._-]{0,63}$
func isAgentName(name string) bool {
	runes := []rune(name)
	if len(runes) == 0 || len(runes) > 64 {
		return false
	}
	alnum := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
	return alnum(runes[0]) && !slices.ContainsFunc(runes, func(r rune) bool {
		return !alnum(r) && !unicode.IsMark(r) && !strings.ContainsRune(" ._-", r)
	})
}
