package drop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
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

// verdict is what is wrong with a drop: the first thing counts.
type verdict struct{ err error }

func (v *verdict) fail(err error) {
	if v.err == nil {
		v.err = err
	}
}

// refuse fails a field where something is wrong with it.
func (v *verdict) refuse(wrong bool, field, reason string, args ...any) {
	if wrong && v.err == nil {
		v.err = &InvalidError{Field: field, Reason: fmt.Sprintf(reason, args...)}
	}
}

// title refuses a text that is missing or too long.
func (v *verdict) title(field, s string) {
	v.refuse(s == "", field, "is missing")
	v.refuse(strings.TrimSpace(s) == "", field, "is blank")
	v.text(field, s, pipeline.MaxText)
}

// text refuses a text that is too long.
func (v *verdict) text(field, s string, limit int) {
	v.refuse(!utf8.ValidString(s), field, "is not UTF-8")
	n := utf8.RuneCountInString(s)
	v.refuse(n > limit, field, "has %d characters, more than %d", n, limit)
}

// several refuses a list that is too long. what names its elements in the reason.
func (v *verdict) several(field string, n int, what string) {
	v.refuse(n > pipeline.MaxSteps, field, "has %d %s, more than %d", n, what, pipeline.MaxSteps)
}

// place names an element of a list.
func place(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// reader reads fields from an object and keeps the first error.
type reader struct {
	verdict
	object *Object
}

// has reports whether the field has a value; null is none.
func (r *reader) has(field string) bool {
	raw := r.object.Get(field)
	return raw != nil && !bytes.Equal(raw, []byte("null"))
}

// text reads a string; "" if the field is missing or null.
func (r *reader) text(field string, limit int) (s string) {
	if r.has(field) {
		r.value(field, &s, "must be a string")
		r.verdict.text(field, s, limit)
	}
	return s
}

// value reads a value of a type.
func (r *reader) value(field string, into any, must string) {
	raw := r.object.Get(field)
	if json.Unmarshal(raw, into) != nil {
		r.refuse(true, field, "%s, is %s", must, kind(raw))
	}
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
	err := json.Unmarshal(r.object.Get(field), &n)
	r.refuse(err != nil || n < 1, field, "must be a number of at least 1")
	return n
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
		near := pipeline.Nearest(key, known)
		r.refuse(near != "", key, "is an unknown key: use %q", near)
		r.refuse(true, key, "is an unknown key: the keys are %s", strings.Join(known, ", "))
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
		r.refuse(ok && k != field, k, "must be written %q", field)
	}
	return r, nil
}

// textsInto reads an array of strings, if the field has a value. Where it may name things by
// their numbers, a number counts as its digits.
func (r *reader) textsInto(field string, list *[]string, numbers bool) {
	if !r.has(field) {
		return
	}
	var raws []json.RawMessage
	r.value(field, &raws, "must be an array of strings")
	*list = nil
	for i, raw := range raws {
		var s string
		if _, err := strconv.ParseUint(string(raw), 10, 32); err == nil && numbers {
			raw = json.RawMessage(strconv.Quote(string(raw)))
		}
		err := json.Unmarshal(raw, &s)
		r.refuse(err != nil || kind(raw) != "a string", place(field, i), "must be a string, is %s", kind(raw))
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
	r.refuse(s == "", field, "is missing")
	id, err := parse(s)
	r.refuse(err != nil, field, "is no %v", err)
	return id
}

// enum reads a field that has a closed list of values.
func enum[T ~string](r *reader, field string, parse func(string) (T, bool), all []T) T {
	label := r.text(field, pipeline.MaxText)
	v, ok := parse(label)
	r.refuse(!ok, field, "is %q: it is one of %s", label, strings.Join(pipeline.Texts(all), ", "))
	return v
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
