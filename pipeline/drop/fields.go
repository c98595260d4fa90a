package drop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"otm/internal/ordered"
	"otm/pipeline"
)

// InvalidError is why a JSON object is no usable drop.
type InvalidError struct {
	Field      string // as it stands in the file
	Reason     string // follows the field's name in a sentence
	Correction string // the value that was probably meant; "" if there is none
	Hint       string // a command that helps; "" if there is none
}

func (e *InvalidError) Error() string { return e.Field + " " + e.Reason }

// Name is the field without the place in its array.
func (e *InvalidError) Name() string {
	name, _, _ := strings.Cut(e.Field, "[")
	return name
}

// reader reads fields from an object and keeps the first error.
type reader struct {
	object *Object
	err    error
}

func (r *reader) fail(err error) {
	if r.err == nil && err != nil {
		r.err = err
	}
}

// has reports whether the field has a value; null is none.
func (r *reader) has(field string) bool {
	raw := r.object.Get(field)
	return raw != nil && !bytes.Equal(raw, []byte("null"))
}

// text reads a string; "" if the field is missing or null.
func (r *reader) text(field string, limit int) string {
	if !r.has(field) {
		return ""
	}
	var s string
	if err := json.Unmarshal(r.object.Get(field), &s); err != nil {
		r.fail(&InvalidError{Field: field, Reason: "must be a string, is " + kind(r.object.Get(field))})
		return ""
	}
	r.fail(checkText(field, s, limit))
	return s
}

// trace reads the traceparent; absent gives the default. One that is not valid is none.
func (r *reader) trace(other pipeline.Trace) pipeline.Trace {
	if !r.has("traceparent") {
		return other
	}
	var s string
	if json.Unmarshal(r.object.Get("traceparent"), &s) != nil {
		return ""
	}
	return pipeline.ParseTrace(s)
}

// textInto reads a string, if the field has a value.
func (r *reader) textInto(field string, s *string, limit int) {
	if r.has(field) {
		*s = r.text(field, limit)
	}
}

// number reads a number of at least 1.
func (r *reader) number(field string) (n int) {
	if err := json.Unmarshal(r.object.Get(field), &n); err != nil || n < 1 {
		r.fail(&InvalidError{Field: field, Reason: "must be a number of at least 1"})
	}
	return n
}

func (r *reader) flag(field string) (yes bool) {
	if err := json.Unmarshal(r.object.Get(field), &yes); err != nil {
		r.fail(&InvalidError{Field: field, Reason: "must be true or false, is " + kind(r.object.Get(field))})
	}
	return yes
}

// unknown lists the keys of an object that are not among the known ones and not
// added by OTM itself.
func (o *Object) unknown(known []string) []string {
	var keys []string
	for _, m := range o.members {
		if !slices.Contains(known, m.Key) && m.Key != "_result" && m.Key != "_skipped_duplicate" {
			keys = append(keys, m.Key)
		}
	}
	return keys
}

// refuseUnknown refuses a key that no line may have, and names the one that was
// probably meant.
func (r *reader) refuseUnknown(known []string) {
	for _, key := range r.object.unknown(known) {
		reason := "is an unknown key: the keys are " + strings.Join(known, ", ")
		if near := pipeline.Nearest(key, known); near != "" {
			reason = fmt.Sprintf("is an unknown key: use %q", near)
		}
		r.fail(&InvalidError{Field: key, Reason: reason})
	}
}

// newReader reads an object with these keys. A key that differs from one of them only in
// case is refused: ignoring it would lose its value.
func newReader(data []byte, known ...string) (*reader, error) {
	o, err := ParseObject(data)
	if err != nil {
		return nil, err
	}
	r := &reader{object: o}
	for _, field := range known {
		k, ok := o.folded[foldKey(field)]
		if ok && k != field {
			r.fail(&InvalidError{Field: k, Reason: fmt.Sprintf("must be written %q", field)})
		}
	}
	return r, nil
}

// textsInto reads an array of strings, if the field has a value.
func (r *reader) textsInto(field string, list *[]string) {
	if !r.has(field) {
		return
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(r.object.Get(field), &raws); err != nil {
		r.fail(&InvalidError{Field: field, Reason: "must be an array of strings, is " + kind(r.object.Get(field))})
	}
	*list = nil
	for i, raw := range raws {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil || kind(raw) != "a string" {
			r.fail(&InvalidError{Field: fmt.Sprintf("%s[%d]", field, i), Reason: "must be a string, is " + kind(raw)})
		}
		*list = append(*list, s)
	}
}

// time reads a time, in whole seconds. A value of a wrong type is refused. A text
// that is not RFC 3339 counts as absent: nothing depends on it. So does a year
// that cannot be written again.
func (r *reader) time(field string) time.Time {
	t, err := time.Parse(time.RFC3339, r.text(field, pipeline.MaxText))
	t = t.UTC().Truncate(time.Second)
	if err != nil || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// taskID reads the id of a task; 0 after an error.
func (r *reader) taskID(field string, parse func(string) (pipeline.TaskID, error)) pipeline.TaskID {
	s := r.text(field, pipeline.MaxText)
	if r.err != nil {
		return 0
	}
	if s == "" {
		r.fail(&InvalidError{Field: field, Reason: "is missing"})
		return 0
	}
	id, err := parse(s)
	if err != nil {
		r.fail(&InvalidError{Field: field, Reason: "is no " + err.Error()})
	}
	return id
}

// enum reads a field that has a closed list of values.
func enum[T ~string](r *reader, field string, parse func(string) (T, bool), all []T) T {
	label := r.text(field, pipeline.MaxText)
	v, ok := parse(label)
	if !ok && r.err == nil {
		r.fail(&InvalidError{Field: field, Reason: fmt.Sprintf("is %q: it is one of %s", label, strings.Join(pipeline.Texts(all), ", "))})
	}
	return v
}

func checkTitle(field, s string) error {
	if strings.TrimSpace(s) == "" {
		if s == "" {
			return &InvalidError{Field: field, Reason: "is missing"}
		}
		return &InvalidError{Field: field, Reason: "is blank"}
	}
	return checkText(field, s, pipeline.MaxText)
}

func checkText(field, s string, limit int) error {
	if !utf8.ValidString(s) {
		return &InvalidError{Field: field, Reason: "is not UTF-8"}
	}
	if n := utf8.RuneCountInString(s); n > limit {
		return &InvalidError{Field: field, Reason: fmt.Sprintf("has %d characters, more than %d", n, limit)}
	}
	return nil
}

func kind(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// stamp is the form of times in files: RFC 3339, UTC, whole seconds.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// encode writes one line of JSON.
func encode(v any) []byte {
	line, err := ordered.Encode(v)
	if err != nil {
		panic("internal error: " + err.Error()) // strings and slices of strings always marshal
	}
	return append(line, '\n')
}
