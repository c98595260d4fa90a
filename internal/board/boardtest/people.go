package boardtest

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"otm/internal/board"
)

// A Cell is one cell of an edit, as the API takes it: column_id and one typed
// value, such as {"column_id":"Col…","select":["done"]}.
type Cell map[string]any

// TextCell sets a text column; an empty text clears it.
func TextCell(columnID, text string) Cell {
	return Cell{"column_id": columnID, "rich_text": []any{map[string]any{
		"type": "rich_text",
		"elements": []any{map[string]any{
			"type":     "rich_text_section",
			"elements": []any{map[string]any{"type": "text", "text": text}},
		}},
	}}}
}

// Text is the text of a cell's rich_text blocks, a line for each section.
func Text(blocks json.RawMessage) string {
	type element struct {
		Text     string
		Elements []struct{ Text string }
	}
	var parsed []struct{ Elements []element }
	if err := json.Unmarshal(blocks, &parsed); err != nil {
		return ""
	}
	var lines []string
	for _, b := range parsed {
		for _, section := range b.Elements {
			line := section.Text
			for _, e := range section.Elements {
				line += e.Text
			}
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// SelectCell sets a select column to the options' values; none clears it.
func SelectCell(columnID string, values ...string) Cell {
	return Cell{"column_id": columnID, "select": append([]string{}, values...)}
}

// UserCell sets a column of people to the user ids; none clears it.
func UserCell(columnID string, users ...string) Cell {
	return Cell{"column_id": columnID, "user": append([]string{}, users...)}
}

// DateCell sets a date column to days written YYYY-MM-DD; none clears it.
func DateCell(columnID string, days ...string) Cell {
	return Cell{"column_id": columnID, "date": append([]string{}, days...)}
}

// NumberCell sets a number column; no number clears it.
func NumberCell(columnID string, numbers ...float64) Cell {
	return Cell{"column_id": columnID, "number": append([]float64{}, numbers...)}
}

// CheckboxCell ticks a checkbox or takes the tick away.
func CheckboxCell(columnID string, ticked bool) Cell {
	return Cell{"column_id": columnID, "checkbox": ticked}
}

// A Server is a board with what people can do in Slack and our client cannot.
// Their edits need no token and know no limits of calls; cells are checked like
// the API's. Each edit is marked with the person's user id (board.HumanUser if
// empty), and is durable and visible when it returns. A refusal is a
// *board.Error with Slack's code, and changes nothing.
type Server struct {
	*board.Server
	double double
	quirks atomic.Pointer[Quirks]

	mu      sync.Mutex // guards deleted
	deleted map[string][]*board.Row
}

// Options are those of the board, and what only the double has.
type Options struct {
	board.Options

	// Quirks can be changed later with SetQuirks.
	Quirks Quirks

	// FixedAssignees makes the default list's Assignee column refuse names it
	// does not have (invalid_option_id), as Slack would. Otherwise the board
	// adds an option for every well-formed name it is sent.
	FixedAssignees bool

	// Scopes are those that a token is granted. A token that is not named has
	// all.
	Scopes map[string][]string
}

// Open opens a board without a network. The caller must Close it.
func Open(o Options) (*Server, error) {
	opened, err := board.Open(o.Options)
	if err != nil {
		return nil, err
	}
	s := &Server{Server: opened, deleted: make(map[string][]*board.Row)}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	s.double = double{server: s, next: opened.Handler(), scopes: o.Scopes, now: now}
	s.SetQuirks(o.Quirks)
	if o.FixedAssignees {
		err = s.editList("", s.ListID(), func(t *board.Tx, l *board.List) error {
			l.OpenColumn = ""
			t.PutList(l)
			return nil
		})
	}
	return s, err
}

// Handler serves the API and the page.
func (s *Server) Handler() http.Handler { return &s.double }

// SetQuirks replaces the quirks; calls that have begun keep theirs.
func (s *Server) SetQuirks(q Quirks) { s.quirks.Store(&q) }

// EditRow sets cells of one row, all or none.
func (s *Server) EditRow(user, listID, rowID string, cells ...Cell) error {
	named := make([]Cell, len(cells))
	for i, c := range cells {
		named[i] = Cell{"row_id": rowID}
		maps.Copy(named[i], c)
	}
	return s.editList(user, listID, func(t *board.Tx, l *board.List) error { return t.Update(l, encode(named)) })
}

// AddRow adds a row and returns its id.
func (s *Server) AddRow(user, listID string, cells ...Cell) (string, error) {
	return s.AddStep(user, listID, "", cells...)
}

// AddStep adds a subtask of the row parentID and returns its id.
func (s *Server) AddStep(user, listID, parentID string, cells ...Cell) (id string, err error) {
	err = s.editList(user, listID, func(t *board.Tx, l *board.List) error {
		r, err := t.Create(l, parentID, encode(cells))
		if err == nil {
			id = r.ID
		}
		return err
	})
	return id, err
}

// DeleteRow deletes a row and its subtasks.
func (s *Server) DeleteRow(user, listID, rowID string) error {
	return s.editRow(user, listID, rowID, func(t *board.Tx, r *board.Row) error {
		s.remember(t, r)
		t.Delete(r)
		return nil
	})
}

// remember keeps a row that is about to be deleted, and its subtasks.
func (s *Server) remember(t *board.Tx, r *board.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted[r.ID] = append([]*board.Row{r}, t.Steps(r.List, r.ID)...)
}

// RestoreRow brings a row back that DeleteRow or the API deleted, under its id,
// with the subtasks that were deleted with it.
func (s *Server) RestoreRow(user, listID, rowID string) error {
	s.mu.Lock()
	rows := s.deleted[rowID]
	delete(s.deleted, rowID)
	s.mu.Unlock()
	return s.editList(user, listID, func(t *board.Tx, _ *board.List) error {
		if len(rows) == 0 || t.Row(listID, rowID) != nil {
			return &board.Error{Code: "record_not_found"}
		}
		for _, r := range rows {
			restored := r.Clone()
			t.Touch(restored)
			t.PutRow(restored)
		}
		return nil
	})
}

// ArchiveRow takes a row and its subtasks out of the normal listing; Slack has
// no API for it. Archiving an archived row is a success.
func (s *Server) ArchiveRow(user, listID, rowID string) error {
	return s.setArchived(user, listID, rowID, true)
}

// UnarchiveRow brings a row and its subtasks back.
func (s *Server) UnarchiveRow(user, listID, rowID string) error {
	return s.setArchived(user, listID, rowID, false)
}

func (s *Server) setArchived(user, listID, rowID string, archived bool) error {
	return s.editRow(user, listID, rowID, func(t *board.Tx, r *board.Row) error {
		for _, r := range append(t.Steps(listID, rowID), r) {
			changed := r.Clone()
			changed.Archived = archived
			t.Touch(changed)
			t.PutRow(changed)
		}
		return nil
	})
}

// RenameColumn gives a column another name; its key stays.
func (s *Server) RenameColumn(user, listID, columnID, name string) error {
	return s.editColumn(user, listID, columnID, func(_ *board.Tx, _ *board.List, c *board.Column) error {
		c.Name = name
		return nil
	})
}

// Describe gives a list a description of rich_text blocks.
func (s *Server) Describe(user, listID, blocks string) error {
	return s.editList(user, listID, func(t *board.Tx, l *board.List) error {
		l.Description = json.RawMessage(blocks)
		t.PutList(l)
		return nil
	})
}

// Description returns the blocks of a list's description.
func (s *Server) Description(listID string) (blocks string, err error) {
	err = s.look(listID, func(_ *board.Tx, l *board.List) { blocks = string(l.Description) })
	return blocks, err
}

// AddOption adds an option to a select column. An empty value makes one as
// Slack's own page does: Opt and eight random characters.
func (s *Server) AddOption(user, listID, columnID, value, label string) error {
	if value == "" {
		value = newOptionValue()
	}
	return s.editColumn(user, listID, columnID, func(_ *board.Tx, _ *board.List, c *board.Column) error {
		switch {
		case !c.IsSelect():
			return &board.Error{Code: "invalid_column_type"}
		case c.HasChoice(value):
			return &board.Error{Code: "invalid_arguments", Messages: []string{"the option exists"}}
		}
		c.AddChoice(value, label)
		return nil
	})
}

// RemoveOption removes an option of a select column. Cells that hold it keep
// it; it cannot be written again.
func (s *Server) RemoveOption(user, listID, columnID, value string) error {
	return s.editColumn(user, listID, columnID, func(_ *board.Tx, _ *board.List, c *board.Column) error {
		if !c.HasChoice(value) {
			return &board.Error{Code: "invalid_option_id"}
		}
		c.Options.Choices = slices.DeleteFunc(c.Options.Choices, func(o board.Choice) bool { return o.Value == value })
		return nil
	})
}

// RemoveColumn removes a column with its cells. The primary column stays.
func (s *Server) RemoveColumn(user, listID, columnID string) error {
	return s.editColumn(user, listID, columnID, func(t *board.Tx, l *board.List, c *board.Column) error {
		if c.Primary {
			return &board.Error{Code: "invalid_primary_column"}
		}
		l.Columns = slices.DeleteFunc(l.Columns, func(o board.Column) bool { return o.ID == columnID })
		t.PutList(l)
		for _, r := range t.Rows(listID) {
			r = r.Clone() // it counts as no change of the row
			delete(r.Cells, columnID)
			t.PutRow(r)
		}
		return nil
	})
}

// look calls fn with the list, which must not be changed.
func (s *Server) look(listID string, fn func(*board.Tx, *board.List)) error {
	return s.View(func(t *board.Tx) error {
		l := t.List(listID)
		if l == nil {
			return &board.Error{Code: "list_not_found"}
		}
		fn(t, l)
		return nil
	})
}

func (s *Server) edit(user string, fn func(*board.Tx) error) error {
	if user == "" {
		user = board.HumanUser
	}
	return s.Edit(user, fn)
}

// editList calls fn with a copy of the list.
func (s *Server) editList(user, listID string, fn func(*board.Tx, *board.List) error) error {
	return s.edit(user, func(t *board.Tx) error {
		l := t.List(listID)
		if l == nil {
			return &board.Error{Code: "list_not_found"}
		}
		return fn(t, l.Clone())
	})
}

func (s *Server) editRow(user, listID, rowID string, fn func(*board.Tx, *board.Row) error) error {
	return s.editList(user, listID, func(t *board.Tx, _ *board.List) error {
		r := t.Row(listID, rowID)
		if r == nil {
			return &board.Error{Code: "row_not_found"}
		}
		return fn(t, r)
	})
}

func (s *Server) editColumn(user, listID, columnID string, fn func(*board.Tx, *board.List, *board.Column) error) error {
	return s.editList(user, listID, func(t *board.Tx, l *board.List) error {
		c := l.Column(columnID)
		if c == nil {
			return &board.Error{Code: "column_not_found"}
		}
		if err := fn(t, l, c); err != nil {
			return err
		}
		t.PutList(l)
		return nil
	})
}

// encode turns cells into what a request would have carried.
func encode(cells []Cell) json.RawMessage {
	raw, err := json.Marshal(cells)
	if err != nil {
		panic("internal error: cells do not encode: " + err.Error())
	}
	return raw
}

// newOptionValue is an option's value as Slack's own page makes them.
func newOptionValue() string { return "Opt" + rand.Text()[:8] }
