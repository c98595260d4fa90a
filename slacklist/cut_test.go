package slacklist

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestLooseValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{`"plain"`, "plain"}, {`"a\"b\\c\nd"`, "a\"b\\c\nd"}, {`"😀 \ud83d\ude00"`, "😀 😀"},
		{`""`, ""}, {`null`, ""}, {`7`, ""}, {`["a"]`, ""}, {`"`, ""}, {``, ""},
		{"\"bad \xff byte\"", "bad \ufffd byte"}, {`"bad \x escape"`, ""}, {`"nul \u0000 here"`, "nul \x00 here"},
	} {
		if got := looseString([]byte(c.in)); got != c.want {
			t.Errorf("looseString(%s) = %q, want %q", c.in, got, c.want)
		}
	}
	for in, want := range map[string]int64{
		`1758744346`: 1758744346, `"1758744346"`: 1758744346, `2.5`: 2, `"x"`: 0, `null`: 0, ``: 0,
		`1e300`: 0, `"NaN"`: 0, `[1]`: 0, `-3`: -3,
	} {
		if got := looseInt([]byte(in)); got != want {
			t.Errorf("looseInt(%s) = %d, want %d", in, got, want)
		}
	}
	for in, want := range map[string]int64{
		`1758744346`: 1758744346, `1758744346000`: 0, `-62167219201`: 0, `253402300799`: 253402300799, `9007199254740992`: 0, `"x"`: 0,
	} {
		got := looseDate([]byte(in))
		if _, err := json.Marshal(time.Unix(got, 0).UTC()); got != want || err != nil {
			t.Errorf("looseDate(%s) = %d, want %d, %v", in, got, want, err)
		}
		item := []byte(`{"id":"Rec1","date_created":` + in + `,"updated_timestamp":` + in + `,"fields":[]}`)
		if r, ok := newDecoder(&Schema{}).row(item); !ok || r.Created != want || r.Updated != want {
			t.Errorf("%s is read as %+v, %t", item, r, ok)
		}
	}
	for in, want := range map[string][2]bool{
		`true`: {true, true}, `false`: {false, true}, `[true]`: {true, true}, `[ true ]`: {true, true},
		`[false]`: {false, true}, `[]`: {false, true}, `null`: {false, true}, ``: {false, true},
		`"yes"`: {false, false}, `1`: {false, false}, `{"a":true}`: {false, false},
	} {
		b, ok := looseBool([]byte(in))
		if b != want[0] || ok != want[1] {
			t.Errorf("looseBool(%s) = %t, %t, want %v", in, b, ok, want)
		}
	}
}

// No depth of brackets overflows a stack or takes more than one look at each
// byte.
func TestCutDeepBrackets(t *testing.T) {
	t.Parallel()
	const deep = 100_000
	nested := strings.Repeat(`{"elements":[`, deep) + strings.Repeat(`]}`, deep)
	var b strings.Builder
	writeRich(&b, []byte(nested), maxRichDepth)
	for _, broken := range []string{strings.Repeat("[", deep), strings.Repeat(`{"a":`, deep), strings.Repeat("]", deep)} {
		if eachElement([]byte(broken), func([]byte) {}) || eachMember([]byte(broken), func(_, _ []byte) {}) {
			t.Errorf("%.10s… was cut", broken)
		}
	}
}

// split is what cutting makes of an object, for comparison.
func split(data []byte) (members map[string]string, ok bool) {
	members = map[string]string{}
	ok = eachMember(data, func(key, value []byte) { members[string(key)] = string(value) })
	return members, ok
}

// FuzzCut holds cutting against encoding/json: what that takes as an object or
// an array is cut into the same parts, and nothing makes it fail or hang.
func FuzzCut(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, ` { "a" : 1 , "b":[1,{"c":"}"}] } `, `{"a\u0062":"x\"y","é":null}`, `[1,"a",[],{},true]`,
		`{"a":1}x`, `{"a":1`, `{"a" 1}`, `{"a":1 "b":2}`, `[1 2]`, `["a]`, `{"a":}`, `{,}`, `[1,]`, `["\\"]`, `["\`, `{"ok":true}<html>`, `{"":""}`,
		`{"ok":true,"items":[{"id":"Rec1","fields":[{"column_id":"Col1","select":["new"]}]}],"response_metadata":{"next_cursor":""}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		members, isObject := split(data)
		var elements []string
		isArray := eachElement(data, func(v []byte) { elements = append(elements, string(v)) })
		newDecoder(&Schema{}).row(data)
		openEnvelope(data)
		if !json.Valid(data) || !utf8.Valid(data) {
			return // of keys that are no UTF-8, encoding/json makes others
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(data, &object) == nil && object != nil {
			want := map[string]string{}
			for k, v := range object {
				want[k] = string(v)
			}
			if !isObject || !maps.Equal(members, want) {
				t.Errorf("cut into %q, %t; want %q", members, isObject, want)
			}
		} else if isObject {
			t.Errorf("%q was cut as an object", data)
		}
		var array []json.RawMessage
		if json.Unmarshal(data, &array) == nil && array != nil {
			same := slices.EqualFunc(elements, array, func(a string, b json.RawMessage) bool { return a == string(b) })
			if !isArray || !same {
				t.Errorf("cut into %q, %t; want %q", elements, isArray, array)
			}
		} else if isArray {
			t.Errorf("%q was cut as an array", data)
		}
		var s string
		if trimmed := bytes.TrimSpace(data); json.Unmarshal(trimmed, &s) == nil && len(trimmed) > 0 && trimmed[0] == '"' {
			if got := looseString(trimmed); got != s {
				t.Errorf("read %q as %q, want %q", trimmed, got, s)
			}
		}
	})
}
