package board

import (
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// A Cell is one cell of a person's edit, as the API takes it: column_id and
// one typed value, such as {"column_id":"Col…","select":["done"]}.
type Cell map[string]any

// TextCell sets a text column; an empty text clears it.
func TextCell(columnID, text string) Cell {
	return Cell{"column_id": columnID, "rich_text": textBlocks(text)}
}

// SelectCell sets a select column to the options' values; none clears it.
func SelectCell(columnID string, values ...string) Cell {
	return Cell{"column_id": columnID, "select": orEmpty(values)}
}

// UserCell sets a column of people to the user ids; none clears it.
func UserCell(columnID string, users ...string) Cell {
	return Cell{"column_id": columnID, "user": orEmpty(users)}
}

// DateCell sets a date column to days written YYYY-MM-DD; none clears it.
func DateCell(columnID string, days ...string) Cell {
	return Cell{"column_id": columnID, "date": orEmpty(days)}
}

// NumberCell sets a number column; no number clears it.
func NumberCell(columnID string, numbers ...float64) Cell {
	if numbers == nil {
		numbers = []float64{}
	}
	return Cell{"column_id": columnID, "number": numbers}
}

// CheckboxCell ticks a checkbox or takes the tick away.
func CheckboxCell(columnID string, ticked bool) Cell {
	return Cell{"column_id": columnID, "checkbox": ticked}
}

func orEmpty(values []string) []string {
	if values == nil {
		return []string{}
	}
	return values
}

// The edits below are a person's. They need no token and know no grants or
// limits of calls; the cells are checked like the API's. Each is marked with
// the person's user id (HumanUser if empty), is durable and visible when it
// returns, and is followed by a call of Options.OnPeopleEdit. A refusal is a
// *Error with Slack's code, and changes nothing.

// EditRow sets cells of one row, all or none.
func (s *Server) EditRow(user, listID, rowID string, cells ...Cell) error {
	inputs, err := parsePeopleCells(rowID, cells)
	if err != nil {
		return err
	}
	return s.editList(user, listID, func(t *tx, l *list) error {
		return s.updateCells(t, l, inputs, s.quirksNow())
	})
}

// AddRow adds a row and returns its id.
func (s *Server) AddRow(user, listID string, cells ...Cell) (string, error) {
	return s.addRow(user, listID, "", cells)
}

// AddStep adds a subtask of the row parentID and returns its id.
func (s *Server) AddStep(user, listID, parentID string, cells ...Cell) (string, error) {
	if parentID == "" {
		return "", refuse("invalid_args", "a step needs a parent")
	}
	return s.addRow(user, listID, parentID, cells)
}

func (s *Server) addRow(user, listID, parentID string, cells []Cell) (string, error) {
	inputs, err := parsePeopleCells("", cells)
	if err != nil {
		return "", err
	}
	var id string
	err = s.editList(user, listID, func(t *tx, l *list) error {
		r, err := s.createRow(t, l, rowInput{parent: parentID, cells: inputs}, s.quirksNow())
		if err != nil {
			return err
		}
		id = r.ID
		return nil
	})
	return id, err
}

// DeleteRow deletes a row and its subtasks.
func (s *Server) DeleteRow(user, listID, rowID string) error {
	return s.editRow(user, listID, rowID, func(t *tx, r *row) error {
		deleteRow(t, r)
		return nil
	})
}

// RestoreRow brings a deleted row back under its id, with the subtasks that
// were deleted with it or before. A deleted row is remembered until the log is
// compacted; after that the code is record_deleted.
func (s *Server) RestoreRow(user, listID, rowID string) error {
	return s.editList(user, listID, func(t *tx, _ *list) error {
		rows, err := t.deleted(listID, rowID)
		if err != nil {
			return err
		}
		if err := t.checkParent(listID, rows[0].Parent); err != nil {
			return err
		}
		for _, r := range rows {
			restored := r.clone()
			restored.Updated, restored.UpdatedBy = t.now, t.actor
			t.putRow(restored)
		}
		return nil
	})
}

// ArchiveRow takes a row and its subtasks out of the normal listing; there is
// no API for it. Archiving an archived row is a success.
func (s *Server) ArchiveRow(user, listID, rowID string) error {
	return s.setArchived(user, listID, rowID, true)
}

// UnarchiveRow brings a row and its subtasks back.
func (s *Server) UnarchiveRow(user, listID, rowID string) error {
	return s.setArchived(user, listID, rowID, false)
}

func (s *Server) setArchived(user, listID, rowID string, archived bool) error {
	return s.editRow(user, listID, rowID, func(t *tx, r *row) error {
		for _, r := range append(t.children(listID, rowID), r) {
			changed := r.clone()
			changed.Archived = archived
			changed.Updated, changed.UpdatedBy = t.now, t.actor
			t.putRow(changed)
		}
		return nil
	})
}

// RenameColumn gives a column another name; its key stays.
func (s *Server) RenameColumn(user, listID, columnID, name string) error {
	if name == "" {
		return refuse("invalid_arguments", "a column needs a name")
	}
	return s.editColumn(user, listID, columnID, func(_ *tx, _ *list, c *column) error {
		c.Name = name
		return nil
	})
}

// AddOption adds an option to a select column. An empty value makes one as
// Slack's own page does: Opt and eight random characters.
func (s *Server) AddOption(user, listID, columnID, value, label string) error {
	if value == "" {
		value = newOptionValue()
	}
	return s.editColumn(user, listID, columnID, func(_ *tx, _ *list, c *column) error {
		switch {
		case !c.isSelect():
			return refuse("invalid_column_type")
		case label == "" || utf8.RuneCountInString(label) > maxTitleLength:
			return refuse("invalid_arguments", "an option needs a label of at most 255 characters")
		case c.hasChoice(value):
			return refuse("invalid_arguments", "the option exists")
		}
		addChoice(c, value, label)
		return nil
	})
}

// RemoveOption removes an option of a select column. Cells that hold it keep
// it; it cannot be written again.
func (s *Server) RemoveOption(user, listID, columnID, value string) error {
	return s.editColumn(user, listID, columnID, func(_ *tx, _ *list, c *column) error {
		if !c.hasChoice(value) {
			return refuse("invalid_option_id")
		}
		c.Options.Choices = slices.DeleteFunc(c.Options.Choices, func(o choice) bool { return o.Value == value })
		return nil
	})
}

// RemoveColumn removes a column with its cells. The primary column stays.
func (s *Server) RemoveColumn(user, listID, columnID string) error {
	return s.editColumn(user, listID, columnID, func(t *tx, l *list, c *column) error {
		if c.Primary {
			return refuse("invalid_primary_column", "the primary column stays")
		}
		for _, r := range t.allRows(listID) {
			if r.Cells[columnID] != nil {
				r = r.clone() // it counts as no change of the row
				delete(r.Cells, columnID)
				t.putRow(r)
			}
		}
		l.Columns = slices.DeleteFunc(l.Columns, func(o column) bool { return o.ID == columnID })
		l.Subtask = slices.DeleteFunc(l.Subtask, func(id string) bool { return id == columnID })
		l.Rev++
		return nil
	})
}

// editBoard runs a person's edit and tells OnPeopleEdit.
func (s *Server) editBoard(user string, fn func(*tx) error) error {
	if user == "" {
		user = HumanUser
	}
	err := s.store.do(user, fn)
	if err == nil && s.opts.OnPeopleEdit != nil {
		s.opts.OnPeopleEdit()
	}
	return err
}

func (s *Server) editList(user, listID string, fn func(*tx, *list) error) error {
	return s.editBoard(user, func(t *tx) error {
		l := t.findList(listID)
		if l == nil {
			return refuse("list_not_found")
		}
		return fn(t, l)
	})
}

func (s *Server) editRow(user, listID, rowID string, fn func(*tx, *row) error) error {
	return s.editList(user, listID, func(t *tx, l *list) error {
		r := t.findRow(listID, rowID)
		if r == nil {
			return refuse("row_not_found")
		}
		return fn(t, r)
	})
}

// editColumn edits a column of a clone of the list.
func (s *Server) editColumn(user, listID, columnID string, fn func(*tx, *list, *column) error) error {
	return s.editList(user, listID, func(t *tx, found *list) error {
		l := found.clone()
		c := l.column(columnID)
		if c == nil {
			return refuse("column_not_found")
		}
		if err := fn(t, l, c); err != nil {
			return err
		}
		t.putList(l)
		return nil
	})
}

// parsePeopleCells turns cells into what a request would have carried.
func parsePeopleCells(rowID string, cells []Cell) ([]cellInput, error) {
	inputs := make([]cellInput, 0, len(cells))
	for _, cell := range cells {
		raw, err := json.Marshal(cell)
		if err != nil {
			return nil, refuse("invalid_arguments", err.Error())
		}
		in, err := parseCell(raw)
		if err != nil {
			return nil, err
		}
		in.row = rowID
		inputs = append(inputs, in)
	}
	return inputs, nil
}
