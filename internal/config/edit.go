package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/pelletier/go-toml/v2"
)

// Value is a text to set in a table of otm.toml.
type Value struct{ Key, Text string }

// ErrUnusual is returned where a file is not understood well enough to be
// edited: a value of another type stands there, say.
var ErrUnusual = errors.New("it is written in a way that is not edited here")

// Set sets values of a table in the text of otm.toml and leaves all else as it
// is, comments and line ends as well. The parser is the judge: what it reads
// from the result differs from before in these values alone, or the error is
// ErrUnusual.
func Set(data []byte, table string, values []Value) ([]byte, error) {
	text, hadMark := bytes.CutPrefix(data, byteOrderMark)
	was, err := read(text)
	if err != nil {
		return nil, ErrUnusual
	}
	after := edit(text, table, values)
	now, err := read(after)
	if err != nil || !setIn(was, table, values) || !reflect.DeepEqual(was, now) {
		return nil, ErrUnusual
	}
	if hadMark {
		after = slices.Concat(byteOrderMark, after)
	}
	return after, nil
}

func read(text []byte) (map[string]any, error) {
	all := map[string]any{}
	err := toml.Unmarshal(text, &all)
	return all, err
}

// setIn sets values in what was read; false where the table is none.
func setIn(all map[string]any, table string, values []Value) bool {
	if all[table] == nil {
		all[table] = map[string]any{}
	}
	t, ok := all[table].(map[string]any)
	for _, v := range values {
		if ok {
			t[v.Key] = v.Text
		}
	}
	return ok
}

// edit puts each value where its key has one, and the others where the table
// takes them.
func edit(text []byte, table string, values []Value) []byte {
	l := layoutOf(text, table)
	var changes []change
	var added []string
	for _, v := range values {
		if at, ok := l.values[v.Key]; ok {
			changes = append(changes, change{int(at.Offset), int(at.Offset + at.Length), fmt.Sprintf("%q", v.Text)})
			continue
		}
		added = append(added, fmt.Sprintf("%s = %q", v.Key, v.Text))
	}
	if len(added) > 0 {
		changes = append(changes, l.insertion(text, table, added))
	}
	return apply(text, changes)
}

// A change puts a text in the place of the bytes from one offset to another.
type change struct {
	from, to int
	text     string
}

func apply(text []byte, changes []change) []byte {
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(b.from, a.from) })
	for _, c := range changes { // the last first: the offsets of the others stay
		text = slices.Concat(text[:c.from], []byte(c.text), text[c.to:])
	}
	return text
}
