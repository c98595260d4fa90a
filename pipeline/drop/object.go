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

	"otm/internal/ordered"
)

// MaxSize is how large a drop may be, in bytes.
const MaxSize = 1 << 20

// Object is a JSON object with its keys in the order of the file and its values
// as they were written, so that unknown ones are kept. No key stands twice.
type Object struct {
	members ordered.Object
	folded  map[string]string // folded key → key
}

// ParseObject reads one JSON object of at most MaxSize bytes. The error is a
// *SyntaxError. A key that stands twice is refused, also in two cases ("status",
// "Status"): decoders disagree on which one counts.
func ParseObject(data []byte) (*Object, error) {
	if len(data) > MaxSize {
		return nil, &SyntaxError{Reason: fmt.Sprintf("file is larger than the %d bytes that a drop may have", MaxSize)}
	}
	return ParseGrown(data)
}

// ParseGrown is ParseObject without a limit, for files that OTM wrote: a drop
// grows when its result is added.
func ParseGrown(data []byte) (*Object, error) {
	text, err := plainText(data)
	if err != nil {
		return nil, err
	}
	members, err := ordered.Parse(text)
	switch {
	case errors.Is(err, ordered.ErrMore):
		return nil, &SyntaxError{Reason: "something follows the JSON object: one object a file"}
	case errors.Is(err, ordered.ErrNoObject):
		return nil, &SyntaxError{Reason: "file holds JSON that is no object: write one object a file"}
	case err != nil:
		return nil, syntaxError(text, err)
	}
	o := &Object{members: members, folded: map[string]string{}}
	for _, m := range members {
		folded := foldKey(m.Key)
		if other, taken := o.folded[folded]; taken && other == m.Key {
			return nil, &SyntaxError{Reason: fmt.Sprintf("key %.80q stands twice", m.Key)}
		} else if taken {
			return nil, &SyntaxError{Reason: fmt.Sprintf("keys %.80q and %.80q differ only in case", other, m.Key)}
		}
		o.folded[folded] = m.Key
	}
	return o, nil
}

// foldKey maps keys that a decoder may confuse to one form.
func foldKey(key string) string { return strings.ToLower(strings.ToUpper(key)) }

// Get returns the value of a key as it was written; nil if there is none.
func (o *Object) Get(key string) json.RawMessage { return o.members.Get(key) }

// Set gives a key a value, at its old place or at the end. It removes a key that
// differs only in case: no reader could tell them apart.
func (o *Object) Set(key string, value any) error {
	m, err := ordered.New(key, value)
	if err != nil {
		return err
	}
	if other, ok := o.folded[foldKey(key)]; ok && other != key {
		o.Delete(other)
	}
	o.folded[foldKey(key)] = key
	if i := slices.IndexFunc(o.members, func(m ordered.Member) bool { return m.Key == key }); i >= 0 {
		o.members[i] = m
	} else {
		o.members = append(o.members, m)
	}
	return nil
}

// Delete removes a key.
func (o *Object) Delete(key string) {
	if o.members.Has(key) {
		delete(o.folded, foldKey(key))
		o.members = slices.DeleteFunc(o.members, func(m ordered.Member) bool { return m.Key == key })
	}
}

// Bytes returns the object with one key a line and a line feed at the end.
func (o *Object) Bytes() []byte { return o.members.Lines() }

// Size is how many bytes the object takes without white space and without the
// keys that are named.
func (o *Object) Size(without ...string) int {
	n := len("{}")
	for _, m := range o.members {
		if !slices.Contains(without, m.Key) {
			n += len(m.Name) + len(":") + len(m.Value) + len(",")
		}
	}
	return n
}

// SyntaxError is why bytes are not the JSON object of a drop. The file may still
// be in the middle of being written.
type SyntaxError struct {
	Reason       string
	Line, Column int // of what is wrong, from 1; 0: not known
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Reason)
}

// plainText removes the UTF-8 byte order mark, and refuses other encodings.
func plainText(data []byte) ([]byte, error) {
	text := bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return nil, &SyntaxError{Reason: "file is empty"}
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")), looksUTF16(data):
		return nil, &SyntaxError{Reason: "file is UTF-16: write it as UTF-8"}
	case !utf8.Valid(text):
		return nil, &SyntaxError{Reason: "file is not UTF-8"}
	}
	return text, nil
}

// looksUTF16 recognises UTF-16 without a byte order mark by the NUL in one of
// the two bytes of its first character, which is { in a drop.
func looksUTF16(data []byte) bool {
	return len(data) >= 2 && (data[0] == '{' && data[1] == 0 || data[0] == 0 && data[1] == '{')
}

// syntaxError words what encoding/json found, with its place.
func syntaxError(text []byte, err error) error {
	// A decoder that has read tokens counts its offsets without the blanks between
	// them. Decoding the text at once gives the place.
	var whole json.RawMessage
	if again := json.NewDecoder(bytes.NewReader(text)).Decode(&whole); again != nil {
		err = again
	}
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &SyntaxError{Reason: "file ends in the middle of the JSON object: it was cut off, or its writer has not finished"}
	case !errors.As(err, &syntax):
		return &SyntaxError{Reason: "not JSON: " + err.Error()}
	}
	at := min(max(int(syntax.Offset)-1, 0), len(text)) // the byte that is wrong
	before := text[:at]
	what := syntax.Error()
	if r, _ := utf8.DecodeRune(text[at:]); r >= utf8.RuneSelf { // encoding/json names its first byte
		what = fmt.Sprintf("%q stands where JSON allows no such character", r)
	}
	return &SyntaxError{
		Reason: "not JSON: " + what, Line: 1 + bytes.Count(before, []byte("\n")),
		Column: 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]),
	}
}
