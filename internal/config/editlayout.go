package config

import (
	"bytes"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// form is how a table is written.
type form int

const (
	absent form = iota // it gets a header at the end
	headed             // [slack]
	dotted             // slack.list_id = "F1"
	inline             // slack = { list_id = "F1" }
)

// layout is where a table stands in a text, and where in it a new key goes.
type layout struct {
	form   form
	at     int                       // of a new key
	empty  bool                      // an inline table without a key
	values map[string]unstable.Range // of the texts that are set, by key
}

// layoutOf looks for a table with the parser's own eyes: what looks like one in
// a comment or in a text over lines is none, and names may be quoted.
func layoutOf(text []byte, table string) *layout {
	l := &layout{values: map[string]unstable.Range{}}
	var p unstable.Parser
	p.Reset(text)
	var under []string // the header above
	for p.NextExpression() {
		e := p.Expression()
		path, last := pathOf(e)
		if e.Kind != unstable.KeyValue {
			under = path
			if e.Kind == unstable.Table && slices.Equal(path, []string{table}) {
				l.form, l.at = headed, lineEnd(text, last)
			}
			continue
		}
		l.see(text, table, under, path, e)
	}
	return l
}

// see takes a line with a value into account.
func (l *layout) see(text []byte, table string, under, path []string, e *unstable.Node) {
	full := slices.Concat(under, path)
	if full[0] != table {
		return
	}
	if len(full) == 1 && e.Value().Kind == unstable.InlineTable {
		l.seeInline(e.Value())
		return
	}
	if len(under) == 0 && l.form == absent {
		l.form, l.at = dotted, lineStart(text, offsetOf(e))
	}
	if len(full) == 2 && e.Value().Kind == unstable.String {
		l.values[full[1]] = e.Value().Raw
	}
}

func (l *layout) seeInline(v *unstable.Node) {
	l.form, l.at, l.empty = inline, int(v.Raw.Offset)+1, true
	for it := v.Children(); it.Next(); {
		e := it.Node()
		if e.Kind != unstable.KeyValue {
			continue // a comment
		}
		l.empty = false
		if path, _ := pathOf(e); len(path) == 1 && e.Value().Kind == unstable.String {
			l.values[path[0]] = e.Value().Raw
		}
	}
}

// insertion is the change that adds keys, each given with its value.
func (l *layout) insertion(text []byte, table string, keys []string) change {
	end := endLike(text, l.at)
	switch l.form {
	case inline:
		added := " " + strings.Join(keys, ", ")
		if !l.empty {
			added += ","
		} else if text[l.at] == '}' {
			added += " "
		}
		return change{l.at, l.at, added}
	case dotted:
		prefix := table + "."
		return change{l.at, l.at, prefix + strings.Join(keys, end+prefix) + end}
	case absent:
		l.at = len(text)
		end = endLike(text, l.at)
		head := "[" + table + "]" + end
		if len(text) > 0 {
			head = end + head // a blank line
		}
		return change{l.at, l.at, missingEnd(text, l.at, end) + head + strings.Join(keys, end) + end}
	}
	return change{l.at, l.at, missingEnd(text, l.at, end) + strings.Join(keys, end) + end}
}

// pathOf is the key of a header or of a value, and where its last part ends.
func pathOf(e *unstable.Node) (path []string, end int) {
	for it := e.Key(); it.Next(); {
		k := it.Node()
		path = append(path, string(k.Data))
		end = int(k.Raw.Offset + k.Raw.Length)
	}
	return path, end
}

// offsetOf is where the key of a value begins.
func offsetOf(e *unstable.Node) int {
	it := e.Key()
	it.Next()
	return int(it.Node().Raw.Offset)
}

func lineStart(text []byte, at int) int { return bytes.LastIndexByte(text[:at], '\n') + 1 }

// lineEnd is behind the end of the line, or of the text.
func lineEnd(text []byte, at int) int {
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

// endLike is the line end that is used around a place.
func endLike(text []byte, at int) string {
	n := bytes.LastIndexByte(text[:at], '\n')
	if n < 0 {
		n = lineEnd(text, at) - 1
	}
	if n > 0 && text[n] == '\n' && text[n-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// missingEnd is the line end that the text before a place lacks.
func missingEnd(text []byte, at int, end string) string {
	if at > 0 && text[at-1] != '\n' {
		return end
	}
	return ""
}
