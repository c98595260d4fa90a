// Package json5 reads JSON5, the JSON with comments, trailing commas, unquoted keys and
// single quotes in which people write openclaw.json.
package json5

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Unmarshal is json.Unmarshal for JSON5. Infinity and NaN are read as null. Of keys that
// stand twice in an object, the last one counts. Errors hold nothing of the text, as it may
// have secrets, but a line and a character.
func Unmarshal(data []byte, v any) error {
	plain, err := toJSON(data)
	if err != nil {
		return err
	}
	var tree any // an object that is read twice would keep what it had
	if err := json.Unmarshal(plain, &tree); err != nil {
		return err
	}
	if plain, err = json.Marshal(tree); err != nil {
		return err
	}
	return json.Unmarshal(plain, v)
}

// The parts of a text of JSON5. A word is a name or a number. They are compiled when they are
// used first: most commands start and read no JSON5.
var (
	space = compiled(`^(?:[\s\v\p{Z}\x{feff}]|//[^\n\r]*|/\*(?s:.*?)\*/)+`)
	token = compiled(`^(?:[{}\[\]:,]|"(?:[^"\\\n\r]|\\(?s:.))*"|'(?:[^'\\\n\r]|\\(?s:.))*'|[\p{L}\p{N}$_+.-]+)`)
	// special are the parts of a text in quotes that JSON writes otherwise.
	special = compiled(`\\(?:x[0-9a-fA-F]{2}|\r\n|(?s:.))|["\x00-\x1f]`)
)

func compiled(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// toJSON rewrites the tokens of a text of JSON5 as those of JSON. Their order is checked
// when the result is parsed.
func toJSON(data []byte) ([]byte, error) {
	in, out := string(data), new(bytes.Buffer)
	comma := false // one was read, and is written unless a bracket closes
	for rest := in[len(space().FindString(in)):]; rest != ""; {
		fail := func(what string) ([]byte, error) {
			return nil, fmt.Errorf("line %d: %s", 1+strings.Count(in[:len(in)-len(rest)], "\n"), what)
		}
		t := token().FindString(rest)
		if t == "" {
			first, _ := utf8.DecodeRuneInString(rest)
			return fail(fmt.Sprintf("unexpected %q", first))
		}
		next := rest[len(t):]
		next = next[len(space().FindString(next)):]
		switch {
		case t == "," && comma:
			return fail("two commas")
		case comma && t != "}" && t != "]":
			out.WriteByte(',')
		}
		if comma = t == ","; !comma {
			value, ok := rewritten(t, strings.HasPrefix(next, ":"))
			if !ok {
				return fail("a word that is no value: put texts into quotes")
			}
			out.WriteString(value + " ") // two in a row are none
		}
		rest = next
	}
	return out.Bytes(), nil
}

// rewritten returns a token as JSON writes it; false: it is no value. JSON5 permits numbers
// to be hexadecimal, to have a plus, and to begin or end with their point.
func rewritten(t string, isKey bool) (string, bool) {
	switch {
	case t[0] == '"' || t[0] == '\'':
		return `"` + special().ReplaceAllStringFunc(t[1:len(t)-1], escaped) + `"`, true
	case isKey && !strings.Contains("{}[]:", t):
		return strconv.Quote(t), true
	case json.Valid([]byte(t)) || strings.Contains("{}[]:", t):
		return t, true
	}
	if n, err := strconv.ParseInt(t, 0, 64); err == nil {
		return strconv.FormatInt(n, 10), true
	}
	f, err := strconv.ParseFloat(t, 64)
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return "null", err == nil
	}
	return strconv.FormatFloat(f, 'g', -1, 64), err == nil
}

// escaped writes a special part of a text in quotes as JSON does.
func escaped(part string) string {
	switch c := part[len(part)-1]; {
	case part[0] != '\\' && c == '"':
		return `\"`
	case part[0] != '\\':
		return fmt.Sprintf(`\u%04x`, c)
	case part[1] == 'x' && len(part) == len(`\x41`):
		return `\u00` + part[len(`\x`):]
	case c == '\n' || c == '\r': // the text goes on
		return ""
	case c == 'v' || c == '0':
		return map[byte]string{'v': `\u000b`, '0': `\u0000`}[c]
	case strings.IndexByte(`"\/bfnrtu`, c) >= 0:
		return part
	}
	return part[1:]
}
