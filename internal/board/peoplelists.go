package board

import (
	"fmt"
)

// A Column describes a column of a list.
type Column struct {
	ID, Name, Key, Type string
	Primary             bool
	// Options are the options of a select column, in order.
	Options []Option
}

// An Option is one option of a select column. Its value is its id.
type Option struct{ Value, Label string }

// Columns returns the columns of a list in order, or a *Error with code
// list_not_found.
func (s *Server) Columns(listID string) ([]Column, error) {
	var l *list
	s.store.view(func(st *state) { l = st.findList(listID) })
	if l == nil {
		return nil, refuse("list_not_found")
	}
	var cols []Column
	for _, c := range l.visible() {
		out := Column{ID: c.ID, Name: c.Name, Key: c.Key, Type: c.Type, Primary: c.Primary}
		if c.Options != nil {
			for _, o := range c.Options.Choices {
				out.Options = append(out.Options, Option{o.Value, o.Label})
			}
		}
		cols = append(cols, out)
	}
	return cols, nil
}

// AddList makes a todo list as a person does on Slack's own page: the keys of
// its columns are their ids, and options have values such as OptH3VBLLXV, of
// which only the labels say anything. Of each column the name, the type and
// the options' labels count; the first must be a text and is the primary one.
// The person owns the list, and shares it with the bot.
func (s *Server) AddList(user, name string, columns ...Column) (string, error) {
	made := make([]column, 0, len(columns))
	for i, in := range columns {
		c, err := handMade(in)
		if err != nil {
			return "", err
		}
		c.Primary = i == 0
		made = append(made, c)
	}
	if err := checkPrimary(made); err != nil {
		return "", err
	}
	var id string
	err := s.editBoard(user, func(t *tx) error {
		l := t.newList(listInput{name: name, columns: made, todo: true})
		for i := range l.Columns {
			if c := &l.Columns[i]; c.Key != c.Type {
				c.Key = c.ID // the todo columns keep theirs
			}
		}
		if t.actor != BotUser {
			l.Users = granted(l.Users, BotUser, levelWrite)
		}
		t.putList(l)
		id = l.ID
		return nil
	})
	return id, err
}

func handMade(in Column) (column, error) {
	formats := entityFormats(in.Type)
	c := column{ID: newColumnID(), Name: in.Name, Type: in.Type}
	if keyOf(in.Type) == "" || in.Name == "" {
		return c, refuse("invalid_column_type", fmt.Sprintf("column %q of type %q", in.Name, in.Type))
	}
	if formats != nil {
		c.Options = &columnOptions{Format: formats[0], ShowMemberName: true}
	}
	if c.isSelect() {
		c.Options.Choices = []choice{}
	}
	for _, o := range in.Options {
		addChoice(&c, newOptionValue(), o.Label)
	}
	return c, nil
}

// newOptionValue is an option's value as Slack's own page makes them.
func newOptionValue() string { return newID("Opt", upperAlnum, 8) }
