package boardtest

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	"otm/internal/board"
)

// A Column describes a column of a list.
type Column struct {
	ID, Name, Key, Type string
	Primary             bool
	// Options are the options of a select column, in order.
	Options []Choice
}

// A Choice is one option of a select column. Its value is its id.
type Choice struct{ Value, Label string }

// Columns returns the columns of a list in order, or a *board.Error with code
// list_not_found.
func (s *Server) Columns(listID string) (columns []Column, err error) {
	err = s.look(listID, func(_ *board.Tx, l *board.List) {
		for _, c := range l.Columns {
			out := Column{ID: c.ID, Name: c.Name, Key: c.Key, Type: c.Type, Primary: c.Primary}
			if c.Options != nil {
				for _, o := range c.Options.Choices {
					out.Options = append(out.Options, Choice{o.Value, o.Label})
				}
			}
			columns = append(columns, out)
		}
	})
	return columns, err
}

// AddList makes a todo list as a person does on Slack's own page: the keys of
// its columns are their ids, and options have values such as OptH3VBLLXV, of
// which only the labels say anything. Of each column the name, the type and
// the options' labels count; the first must be a text and is the primary one.
func (s *Server) AddList(user, name string, columns ...Column) (string, error) {
	made := make([]board.Column, len(columns))
	for i, in := range columns {
		c := board.Column{ID: newID("Col"), Name: in.Name, Type: in.Type, Primary: i == 0}
		c.Key = c.ID
		switch in.Type {
		case "select":
			c.Options = &board.ColumnOptions{Choices: []board.Choice{}, Format: "single_select"}
		case "multi_select":
			c.Options = &board.ColumnOptions{Choices: []board.Choice{}, Format: "multi_select"}
		case "user", "assignee":
			c.Options = &board.ColumnOptions{Format: "single_entity"}
		}
		for _, o := range in.Options {
			c.AddChoice(newOptionValue(), o.Label)
		}
		made[i] = c
	}
	return s.addList(user, name, made, true)
}

// addList makes a list with these columns.
func (s *Server) addList(user, name string, columns []board.Column, todo bool) (id string, err error) {
	if len(columns) == 0 || columns[0].Type != "text" {
		return "", &board.Error{Code: "invalid_primary_column"}
	}
	err = s.edit(user, func(t *board.Tx) error {
		l := &board.List{ID: newID("F"), Num: s.double.now().UnixNano(), Name: name, Columns: columns}
		if todo {
			l.AddTodoColumns()
		}
		t.PutList(l)
		id = l.ID
		return nil
	})
	return id, err
}

func newID(prefix string) string { return prefix + strings.ToUpper(rand.Text()[:10]) }

// makeList is slackLists.create, as far as our client uses it: name, schema
// and todo_mode.
func (s *Server) makeList(user string, args map[string]string) (map[string]any, error) {
	var columns []board.Column
	if json.Unmarshal([]byte(args["schema"]), &columns) != nil || args["name"] == "" {
		return nil, &board.Error{Code: "invalid_arguments"}
	}
	for i := range columns {
		c := &columns[i]
		c.ID = newID("Col")
		noName := func(o board.Choice) bool { return o.Value == "" || o.Label == "" }
		if c.Options != nil && slices.ContainsFunc(c.Options.Choices, noName) || c.Primary != (i == 0) {
			return nil, &board.Error{Code: "invalid_schema"}
		}
	}
	id, err := s.addList(user, args["name"], columns, args["todo_mode"] == "true")
	return map[string]any{"ok": true, "list_id": id}, err
}

// share is slackLists.access.set. It grants nothing, because every token may
// use every list here; it refuses ids that name nobody.
func (s *Server) share(_ string, args map[string]string) (map[string]any, error) {
	if err := s.look(args["list_id"], func(*board.Tx, *board.List) {}); err != nil {
		return nil, err
	}
	var ids []string
	if json.Unmarshal([]byte(args["user_ids"]+args["channel_ids"]), &ids) != nil || len(ids) != 1 {
		return nil, &board.Error{Code: "invalid_parameters"}
	}
	if id := ids[0]; id == "" || !strings.ContainsRune("UWCG", rune(id[0])) || id != strings.ToUpper(id) {
		return nil, &board.Error{Code: "user_not_found"}
	}
	return map[string]any{"ok": true}, nil
}
