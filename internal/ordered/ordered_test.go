package ordered

import (
	"errors"
	"testing"
)

// TestParse: members keep their order and their bytes, and what is no single
// object is refused.
func TestParse(t *testing.T) {
	t.Parallel()
	o, err := Parse([]byte(` { "b" : 1.0 , "\u0061":{"x": [ ]}, "b":"<&>" } `))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(o.Get("b")); got != `"<&>"` {
		t.Errorf("Get(b) = %s, want the last one", got)
	}
	if !o.Has("a") || o.Has("x") || o.Get("x") != nil {
		t.Errorf("the object has the members %q", o)
	}
	m, err := New("c", "<é>")
	if err != nil {
		t.Fatal(err)
	}
	o = append(o, m)
	line, err := o.Line()
	if want := `{"b":1.0,"\u0061":{"x":[]},"b":"<&>","c":"<é>"}`; string(line) != want || err != nil {
		t.Errorf("Line = %s, %v; want %s", line, err, want)
	}
	if want := "{\n  \"b\": 1.0,\n  \"\\u0061\": {\"x\": [ ]},\n  \"b\": \"<&>\",\n  \"c\": \"<é>\"\n}\n"; string(o.Lines()) != want {
		t.Errorf("Lines = %s, want %s", o.Lines(), want)
	}
	for _, text := range []string{"[1]", `"a"`, "null"} {
		if _, err := Parse([]byte(text)); !errors.Is(err, ErrNoObject) {
			t.Errorf("Parse(%s): %v", text, err)
		}
	}
	if _, err := Parse([]byte("{} {}")); !errors.Is(err, ErrMore) {
		t.Errorf("Parse of two objects: %v", err)
	}
	for _, text := range []string{"", "{", `{"a"`, `{"a":1`, `{"a":1,}`, `{1:2}`} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("Parse(%s) gave no error", text)
		}
	}
}
