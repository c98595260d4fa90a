package drop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxSize is how large a drop may be, in bytes.
const MaxSize = 1 << 20

// Object is a JSON object with its keys in the order of the file and its
// values as they were written, so that what OTM does not know is kept.
type Object struct {
	keys   []string
	values map[string]json.RawMessage
	folded map[string]string // folded key → key
}

// ParseObject reads one JSON object. The error is a *SyntaxError, whose text
// tells a person what to change. A key that stands twice is refused, also in
// two cases ("status", "Status"): decoders disagree on which one counts.
func ParseObject(data []byte) (*Object, error) {
	text, err := plainText(data)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	start, err := dec.Token()
	if err != nil {
		return nil, syntaxError(text, err)
	}
	if start != json.Delim('{') {
		return nil, &SyntaxError{Reason: notAnObject(start)}
	}
	o := &Object{values: map[string]json.RawMessage{}, folded: map[string]string{}}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, syntaxError(text, err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, syntaxError(text, err)
		}
		if err := o.add(key.(string), value); err != nil {
			return nil, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, syntaxError(text, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, &SyntaxError{Reason: "something follows the JSON object: one object a file"}
	}
	return o, nil
}

func (o *Object) add(key string, value json.RawMessage) error {
	folded := strings.ToLower(strings.ToUpper(key))
	if other, taken := o.folded[folded]; taken {
		if other == key {
			return &SyntaxError{Reason: fmt.Sprintf("key %q stands twice", key)}
		}
		return &SyntaxError{Reason: fmt.Sprintf("keys %q and %q differ only in case", other, key)}
	}
	o.folded[folded] = key
	o.keys = append(o.keys, key)
	o.values[key] = value
	return nil
}

// Get returns the value of a key as it was written; nil where it is missing.
func (o *Object) Get(key string) json.RawMessage { return o.values[key] }

// Set gives a key a value, at its old place or at the end.
func (o *Object) Set(key string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = raw
	return nil
}

// Delete removes a key.
func (o *Object) Delete(key string) {
	delete(o.values, key)
	o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == key })
}

// Bytes returns the object with one key a line and a line feed at the end.
func (o *Object) Bytes() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(k) // a string always marshals
		b.WriteString("\n  ")
		b.Write(key)
		b.WriteString(": ")
		b.Write(o.values[k])
	}
	b.WriteString("\n}\n")
	return b.Bytes()
}

// SyntaxError says why bytes are not the JSON object that a drop is. A file
// that gives one may still be in the middle of being written.
type SyntaxError struct{ Reason string }

func (e *SyntaxError) Error() string { return e.Reason }

// plainText takes the UTF-8 byte order mark away and refuses what no JSON
// parser should be asked about.
func plainText(data []byte) ([]byte, error) {
	reason := ""
	text := bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	trimmed := bytes.TrimSpace(text)
	switch {
	case len(data) > MaxSize:
		reason = fmt.Sprintf("file is larger than the %d bytes that a drop may have", MaxSize)
	case len(trimmed) == 0:
		reason = "file is empty"
	case len(bytes.Trim(data, "\x00")) == 0:
		reason = "file holds only NUL bytes: the machine of its writer crashed before the data was on disk"
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")), looksUTF16(data):
		reason = "file is UTF-16: write it as UTF-8"
	case bytes.IndexByte(data, 0) >= 0:
		reason = fmt.Sprintf("file has a NUL byte at offset %d", bytes.IndexByte(data, 0))
	case !utf8.Valid(text):
		reason = fmt.Sprintf("file is not UTF-8: bad byte at offset %d", invalidAt(data))
	case bytes.HasPrefix(trimmed, []byte("```")):
		reason = "file is wrapped in a Markdown fence (```): write the bare JSON object"
	case bytes.HasPrefix(trimmed, []byte("//")), bytes.HasPrefix(trimmed, []byte("/*")), bytes.HasPrefix(trimmed, []byte("#")):
		reason = "file begins with a comment: JSON has none"
	}
	if reason != "" {
		return nil, &SyntaxError{Reason: reason}
	}
	return text, nil
}

// looksUTF16 recognises UTF-16 without a byte order mark by the NUL in one of
// the two bytes of its first character, which is { in a drop.
func looksUTF16(data []byte) bool {
	return len(data) >= 2 && (data[0] == '{' && data[1] == 0 || data[0] == 0 && data[1] == '{')
}

func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

func notAnObject(start json.Token) string {
	switch start.(type) {
	case json.Delim:
		return "file holds a JSON array: write one object a file"
	case string:
		return "file holds a JSON string, not an object"
	case nil:
		return "file holds null, not an object"
	default:
		return fmt.Sprintf("file holds %v, not an object", start)
	}
}

// syntaxError words what encoding/json found, with the line it was found in.
func syntaxError(text []byte, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &SyntaxError{Reason: "file ends in the middle of the JSON object: it was cut off, or its writer has not finished"}
	}
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return &SyntaxError{Reason: "not JSON: " + err.Error()}
	}
	if strings.Contains(syntax.Error(), "unexpected end") {
		return syntaxError(text, io.ErrUnexpectedEOF)
	}
	offset := min(max(int(syntax.Offset), 0), len(text))
	before := text[:offset]
	line := 1 + bytes.Count(before, []byte("\n"))
	rest := bytes.TrimLeft(text[max(0, offset-1):], " \t\r\n")
	if bytes.HasPrefix(rest, []byte("/")) || bytes.HasPrefix(rest, []byte("#")) {
		return &SyntaxError{Reason: fmt.Sprintf("line %d: a comment: JSON has none", line)}
	}
	return &SyntaxError{Reason: fmt.Sprintf("line %d: not JSON: %v", line, syntax)}
}
