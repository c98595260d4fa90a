package json5

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"otm/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// TestUnmarshal: what JSON5 adds to JSON is read, and what is neither is refused with the
// number of its line.
func TestUnmarshal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"\ufeff{}", `{}`},
		{"// one\n{ /* two */ a: 1, 'b': [2,], $c_1: true, } // three", `{"a":1,"b":[2],"$c_1":true}`},
		{`{null: null, true: false, 'it\'s': "a'b"}`, `{"null":null,"true":false,"it's":"a'b"}`},
		{`[0x1F, +1, .5, 5., -.5, -0xa, 1e3, Infinity, -Infinity, NaN, 5.e1]`, `[31,1,0.5,5,-0.5,-10,1000,null,null,null,50]`},
		{`'\x41\u00e9\ud83d\ude00\v\0\q\
b"//no"'`, `"Aé😀\u000b\u0000qb\"//no\""`},
		{"'\\€\t\\x4'", `"€\tx4"`},
		{`"\ud83dx"`, `"\ufffdx"`},
		{`{"url":"http://x/*y*/"}`, `{"url":"http://x/*y*/"}`},
		{"{ä: 1}", `{"ä":1}`},
	} {
		var got, want any
		if err := Unmarshal([]byte(tt.in), &got); err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, want %#v", tt.in, got, want)
		}
	}
	for _, tt := range []struct{ in, want string }{
		{"", "unexpected end"}, {"{a: 1", "unexpected end"}, {"{a 1}", "line 1"}, {"[1,,2]", "line 1: two commas"},
		{"\n\n{a: /* no", "line 3: unexpected '/'"}, {"{\n'a", `line 2: unexpected '\''`}, {"'a\nb'", "line 1"},
		{`'\`, "line 1"}, {"[--1]", "line 1"}, {"[0x]", "line 1"}, {"[0x-1]", "line 1"}, {"[.]", "line 1"}, {"[nul]", "line 1"}, {"{a: #}", `unexpected '#'`},
		{"{} {}", "after top-level value"},
	} {
		var got any
		if err := Unmarshal([]byte(tt.in), &got); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.in, err, tt.want)
		}
	}
}

// FuzzUnmarshal: whatever is JSON means the same here, and nothing panics.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"a":[1,-2.5e3,"\u00e9\n",null,true]}`))
	f.Add([]byte("{a:'b',}//"))
	f.Add([]byte(`0x`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want any
		err := Unmarshal(data, &got)
		if json.Unmarshal(data, &want) != nil {
			return
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, %v, want %#v", data, got, err, want)
		}
	})
}

// An error tells nothing of the text, which may hold secrets. Of keys that stand twice the
// last one counts, whole. Two values in a row are none.
func TestSecretsAndTwice(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{token: sk-SECRET-abc}`, `{token: 0xSECRET}`, `{a: 1 2}`, `{a: true false}`, `{a:0x` + strings.Repeat("f", 3<<20) + `}`} {
		var v any
		if err := Unmarshal([]byte(text), &v); err == nil || strings.Contains(err.Error(), "SECRET") || len(err.Error()) > 200 {
			t.Errorf("%.40s: %v, %v", text, v, err)
		}
	}
	var v struct{ L []struct{ A, B string } }
	if err := Unmarshal([]byte(`{l: [{a: "1", b: "2"}], l: [{a: "3"}]}`), &v); err != nil || len(v.L) != 1 || v.L[0].A != "3" || v.L[0].B != "" {
		t.Errorf("%+v, %v", v, err)
	}
}
