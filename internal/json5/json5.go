// Package json5 reads JSON5, the JSON with comments, trailing commas, unquoted keys and
// single quotes in which people write openclaw.json.
package json5

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"unicode"
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

// toJSON rewrites the tokens of a text of JSON5 as those of JSON. It does not look at
// their order: who parses the result does.
func toJSON(data []byte) ([]byte, error) {
	r := &rewriter{in: string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))}
	for {
		if err := r.skip(); err != nil {
			return nil, err
		}
		if r.rest() == "" {
			return r.out.Bytes(), nil
		}
		if err := r.token(); err != nil {
			return nil, err
		}
	}
}

type rewriter struct {
	in    string
	at    int // in bytes
	out   bytes.Buffer
	comma bool // a comma was read, and is written unless a bracket closes
}

func (r *rewriter) rest() string { return r.in[r.at:] }

func (r *rewriter) fail(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", 1+strings.Count(r.in[:r.at], "\n"), fmt.Sprintf(format, args...))
}

// skip skips space and comments.
func (r *rewriter) skip() error {
	for {
		trimmed := strings.TrimLeftFunc(r.rest(), func(c rune) bool {
			return unicode.IsSpace(c) || c == '\u2028' || c == '\u2029' || c == '\ufeff'
		})
		r.at = len(r.in) - len(trimmed)
		switch {
		case strings.HasPrefix(trimmed, "//"):
			end := strings.IndexAny(trimmed, "\n\r\u2028\u2029")
			if end < 0 {
				end = len(trimmed)
			}
			r.at += end
		case strings.HasPrefix(trimmed, "/*"):
			end := strings.Index(trimmed[2:], "*/")
			if end < 0 {
				return r.fail("the comment does not end")
			}
			r.at += end + 4
		default:
			return nil
		}
	}
}

// token rewrites one token.
func (r *rewriter) token() error {
	c := r.in[r.at]
	if c == ',' {
		if r.comma {
			return r.fail("two commas")
		}
		r.comma = true
		r.at++
		return nil
	}
	if r.comma && c != '}' && c != ']' {
		r.out.WriteByte(',')
	}
	r.comma = false
	switch {
	case strings.IndexByte("{}[]:", c) >= 0:
		r.out.WriteByte(c)
		r.at++
		return nil
	case c == '"' || c == '\'':
		return r.text(c)
	}
	word := r.word()
	if word == "" {
		return r.fail("unexpected %q", []rune(r.rest())[0])
	}
	r.at += len(word)
	if err := r.skip(); err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(r.rest(), ":"):
		return r.write(word)
	case word == "true" || word == "false" || word == "null":
		r.out.WriteString(word)
		return nil
	}
	return r.number(word)
}

// word returns the name or the number that begins here; "": none does.
func (r *rewriter) word() string {
	end := strings.IndexFunc(r.rest(), func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("$_+-.", c)
	})
	if end < 0 {
		return r.rest()
	}
	return r.rest()[:end]
}

func (r *rewriter) write(text string) error {
	quoted, err := json.Marshal(text)
	r.out.Write(quoted)
	return err
}

// number writes a number, which JSON5 permits to be hexadecimal, to have a plus, and to
// begin or end with its point.
func (r *rewriter) number(word string) error {
	digits := strings.TrimLeft(word, "+-")
	if len(word)-len(digits) > 1 {
		return r.fail("a word that is no value: put texts into quotes")
	}
	if digits == "Infinity" || digits == "NaN" {
		r.out.WriteString("null")
		return nil
	}
	if lower := strings.ToLower(digits); strings.HasPrefix(lower, "0x") {
		n, ok := new(big.Int).SetString(lower[2:min(len(lower), maxHex)], 16)
		if !ok || len(lower) > maxHex || lower[2] == '+' || lower[2] == '-' {
			return r.fail("a number that is none")
		}
		digits = n.String()
	}
	whole, part, point := strings.Cut(digits, ".")
	if point && whole+part != "" {
		if whole == "" {
			whole = "0"
		}
		if part == "" || part[0] == 'e' || part[0] == 'E' {
			part = "0" + part
		}
		digits = whole + "." + part
	}
	if word[0] == '-' {
		digits = "-" + digits
	}
	if !json.Valid([]byte(digits)) || strings.Trim(digits, "0123456789+-.eE") != "" {
		return r.fail("a word that is no value: put texts into quotes")
	}
	r.out.WriteString(digits + " ") // two in a row are none
	return nil
}

// maxHex bounds the characters of a hexadecimal number.
const maxHex = 64

// escapes are those of one character that stand for another one.
var escapes = map[rune]rune{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '0': 0}

// text writes a text in quotes.
func (r *rewriter) text(quote byte) error {
	var b strings.Builder
	for i := r.at + 1; i < len(r.in); {
		c, size := utf8.DecodeRuneInString(r.in[i:])
		i += size
		switch {
		case c == rune(quote):
			r.at = i
			return r.write(b.String())
		case c == '\n' || c == '\r':
			return r.fail("the text does not end on its line")
		case c != '\\':
			b.WriteRune(c)
			continue
		case i == len(r.in):
			return r.fail("the text does not end")
		}
		c, size = utf8.DecodeRuneInString(r.in[i:])
		i += size
		switch {
		case c == 'x' || c == 'u':
			n := 2
			if c == 'u' {
				n = 4
			}
			text, used := escaped(r.in[i:], n)
			if used == 0 {
				return r.fail("an escape lacks its %d hexadecimal digits", n)
			}
			b.WriteString(text)
			i += used
		case c == '\r' && strings.HasPrefix(r.in[i:], "\n"):
			i++ // the line goes on
		case c == '\n' || c == '\r' || c == '\u2028' || c == '\u2029':
		default:
			if known, ok := escapes[c]; ok {
				c = known
			}
			b.WriteRune(c)
		}
	}
	return r.fail("the text does not end")
}

// escaped reads n hexadecimal digits, and the second half of a pair of \u, and returns
// what they mean and how many bytes they are; 0: they are none.
func escaped(in string, n int) (text string, used int) {
	digits := in[:min(n, len(in))]
	if len(digits) < n || strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return "", 0
	}
	literal := `\u` + strings.Repeat("0", 4-n) + digits
	if n == 4 && len(in) >= 10 && in[4:6] == `\u` && strings.Trim(in[6:10], "0123456789abcdefABCDEF") == "" {
		var pair string
		if json.Unmarshal([]byte(`"`+literal+in[4:10]+`"`), &pair) == nil && utf8.RuneCountInString(pair) == 1 {
			return pair, 10
		}
	}
	json.Unmarshal([]byte(`"`+literal+`"`), &text) // hexadecimal digits always decode
	return text, n
}
