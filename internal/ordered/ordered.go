// Package ordered reads and writes JSON objects whose members keep their order
// and their bytes: what others wrote is given back as it was.
package ordered

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// Object is a JSON object. A key may stand in it twice.
type Object []Member

// Member is a key with its value.
type Member struct {
	Key   string
	Name  json.RawMessage // the key as it was written, in quotes
	Value json.RawMessage // as it was written
}

// ErrNoObject says that JSON text holds something else than an object.
var ErrNoObject = errors.New("not a JSON object")

// ErrMore says that something follows the object.
var ErrMore = errors.New("something follows the JSON object")

// Parse reads one object and nothing else. The error matches ErrNoObject or
// ErrMore, or is one of encoding/json.
func Parse(data []byte) (Object, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	start, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if start != json.Delim('{') {
		return nil, ErrNoObject
	}
	var o Object
	for dec.More() {
		before := dec.InputOffset()
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, ErrNoObject
		}
		name := data[before:dec.InputOffset()] // with the comma and white space before the key
		m := Member{Key: key, Name: name[bytes.IndexByte(name, '"'):]}
		if err := dec.Decode(&m.Value); err != nil {
			return nil, err
		}
		o = append(o, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, ErrMore
	}
	return o, nil
}

// New returns a member with a value that is encoded here.
func New(key string, value any) (Member, error) {
	name, err := Encode(key)
	if err != nil {
		return Member{}, err
	}
	raw, err := Encode(value)
	return Member{Key: key, Name: name, Value: raw}, err
}

// Encode is json.Marshal without escaping <, > and &: people and models read
// these files.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// Get returns the last value of a key, as readers of JSON do; nil if there is
// none.
func (o Object) Get(key string) json.RawMessage {
	for _, m := range slices.Backward(o) {
		if m.Key == key {
			return m.Value
		}
	}
	return nil
}

// Has reports whether a key stands in the object.
func (o Object) Has(key string) bool {
	return slices.ContainsFunc(o, func(m Member) bool { return m.Key == key })
}

// Line writes the object on one line, without white space.
func (o Object) Line() ([]byte, error) {
	b := bytes.NewBufferString("{")
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(m.Name)
		b.WriteByte(':')
		if err := json.Compact(b, m.Value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Lines writes the object with one member a line, each as it was written, and a
// line feed at the end.
func (o Object) Lines() []byte {
	b := bytes.NewBufferString("{")
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  ")
		b.Write(m.Name)
		b.WriteString(": ")
		b.Write(m.Value)
	}
	b.WriteString("\n}\n")
	return b.Bytes()
}
