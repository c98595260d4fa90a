package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Value is a text to set in a table of otm.toml.
type Value struct{ Key, Text string }

// ErrUnusual is returned where a file is not understood well enough to be
// edited: the table is inline, say, or has dotted keys.
var ErrUnusual = errors.New("it is written in a way that is not edited here")

// Set sets values of a table in the text of otm.toml and leaves all else as it
// is, comments and line ends as well. The parser is the judge: what it reads
// from the result differs from before in these values alone, or the error is
// ErrUnusual.
func Set(data []byte, table string, values []Value) ([]byte, error) {
	after := edit(data, table, values)
	was, now := map[string]any{}, map[string]any{}
	if toml.Unmarshal(data, &was) != nil || toml.Unmarshal(after, &now) != nil {
		return nil, ErrUnusual
	}
	if was[table] == nil {
		was[table] = map[string]any{}
	}
	t, ok := was[table].(map[string]any)
	if !ok {
		return nil, ErrUnusual
	}
	for _, v := range values {
		t[v.Key] = v.Text
	}
	if !reflect.DeepEqual(was, now) {
		return nil, ErrUnusual
	}
	return after, nil
}

// edit does it line by line, for files as people write them.
func edit(data []byte, table string, values []Value) []byte {
	text := string(data)
	end := "\n"
	if strings.Contains(text, "\r\n") {
		end = "\r\n"
	}
	lines := strings.SplitAfter(text, "\n")
	head := lineOf(`\[\s*`+named(table)+`\s*\]`, ``)
	start := slices.IndexFunc(lines, func(l string) bool { return head.MatchString(l) })
	if start < 0 {
		lines = append(ended(lines, end), end, "["+table+"]"+end)
		start = len(lines) - 1
	}
	lines = ended(lines, end)
	last := start + 1
	for last < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[last]), "[") {
		last++
	}
	body := slices.Clone(lines[start+1 : last])
	var added []string
	for _, v := range values {
		old := lineOf(named(v.Key)+`\s*=\s*`, `("(?:[^"\\]|\\.)*"|'[^']*')`)
		i := slices.IndexFunc(body, old.MatchString)
		if i < 0 {
			added = append(added, fmt.Sprintf("%s = %q%s", v.Key, v.Text, end))
			continue
		}
		place := old.FindStringSubmatchIndex(body[i])
		body[i] = body[i][:place[2]] + fmt.Sprintf("%q", v.Text) + body[i][place[3]:]
	}
	return []byte(strings.Join(slices.Concat(lines[:start+1], added, body, lines[last:]), ""))
}

// lineOf matches a line that is this and then a value, and maybe a comment.
func lineOf(before, value string) *regexp.Regexp {
	return regexp.MustCompile(`^\s*` + before + value + `\s*(?:#.*)?\s*$`)
}

// named matches a key, bare or quoted.
func named(key string) string {
	k := regexp.QuoteMeta(key)
	return `(?:` + k + `|"` + k + `"|'` + k + `')`
}

// ended gives the last line an end.
func ended(lines []string, end string) []string {
	if n := len(lines); n > 0 && lines[n-1] == "" {
		return lines[:n-1]
	}
	if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") {
		lines[n-1] += end
	}
	return lines
}
