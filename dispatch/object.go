package dispatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// object is a JSON object with its members in the order in which they stand,
// each as it stands: what others write is given back as it was.
type object []member

type member struct {
	key  string
	name json.RawMessage // the key as it stands
	raw  json.RawMessage
}

var errNoObject = errors.New("not a JSON object")

// parseObject reads one object and nothing else.
func parseObject(data []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, errNoObject
	}
	var o object
	for dec.More() {
		before := dec.InputOffset()
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, errNoObject
		}
		name := data[before:dec.InputOffset()] // what stands in front of the key is a comma and white space
		m := member{key: key, name: name[bytes.IndexByte(name, '"'):]}
		if err := dec.Decode(&m.raw); err != nil {
			return nil, err
		}
		o = append(o, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errNoObject // something follows it
	}
	return o, nil
}

// get returns the last value of a key, as all of JSON's readers do; nil where
// there is none.
func (o object) get(key string) json.RawMessage {
	for _, m := range slices.Backward(o) {
		if m.key == key {
			return m.raw
		}
	}
	return nil
}

func (o object) has(key string) bool {
	return slices.ContainsFunc(o, func(m member) bool { return m.key == key })
}

// encode writes the object on one line.
func (o object) encode() ([]byte, error) {
	b := bytes.NewBufferString("{")
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(m.name)
		b.WriteByte(':')
		if err := json.Compact(b, m.raw); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// ours is a member that OTM writes.
func ours(key string, v any) (member, error) {
	raw, err := encode(v)
	return member{key: key, name: json.RawMessage(`"` + key + `"`), raw: raw}, err
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
