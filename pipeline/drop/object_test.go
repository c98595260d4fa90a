package drop

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf16"
)

const good = `{"id":"d1","taskId":"T-00035","title":"Build login page","agent":"devdas","createdAt":"2026-03-14T08:20:19Z",` +
	`"priority":"high","project":null,"subtasks":["Create form","Add validation"],"type":"action","status":"pending"}` + "\n"

// utf16Bytes is text as UTF-16 in the given byte order, without a mark.
func utf16Bytes(order binary.AppendByteOrder, text string) []byte {
	var data []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		data = order.AppendUint16(data, unit)
	}
	return data
}

// C51: an object that ends early is one that was cut off, wherever that is; an error in
// its last byte is not.
func TestC51CutOff(t *testing.T) {
	t.Parallel()
	whole := strings.TrimSpace(good)
	for n := 1; n < len(whole); n++ {
		if _, err := ParseObject([]byte(whole[:n])); err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Errorf("%s: %v", whole[:n], err)
		}
	}
	for _, text := range []string{`{"a":1,]`, `{"a":tx`, `{"a":"\x`, "{]"} {
		if _, err := ParseObject([]byte(text)); err == nil || !strings.Contains(err.Error(), "not JSON: invalid character") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestNoObject is every kind of file that is not the JSON object of a drop.
// The reason is for a person: each is held against what it must say.
func TestNoObject(t *testing.T) {
	t.Parallel()
	deep := func(open string) string { return strings.Repeat(open, 100_000) }
	tests := []struct{ name, data, want string }{
		{"empty", "", "file is empty"},
		{"blank", " \n\t\r\n", "file is empty"},
		{"mark alone", "\xef\xbb\xbf\n", "file is empty"},
		{"one byte too large", `{"a":"` + strings.Repeat("x", MaxSize+1-8) + `"}`, "larger than the 1048576 bytes"},
		{"text", "taskId: T-00035", "line 1, column 2: not JSON"},
		{"array", "[" + good + "]", "JSON that is no object: write one object a file"},
		{"string", `"T-00035"`, "JSON that is no object"},
		{"number", "35", "JSON that is no object"},
		{"true", "true", "JSON that is no object"},
		{"null", "null", "JSON that is no object"},
		{"two objects", good + good, "something follows the JSON object: one object a file"},
		{"text behind", good + "done", "something follows the JSON object"},
		{"bracket behind", `{"a":1}}`, "something follows the JSON object"},
		{"comment behind", `{"a":1} // done`, "something follows the JSON object"},
		{"trailing comma", `{"a":1,}`, "line 1, column 8: not JSON: invalid character '}'"},
		{"trailing comma in an array", `{"a":[1,]}`, "line 1, column 9: not JSON: invalid character ']'"},
		{"single quotes", `{'a':1}`, `line 1, column 2: not JSON: invalid character '\''`},
		{"bare key", `{a:1}`, "line 1, column 2: not JSON: invalid character 'a'"},
		{"number as key", `{1:2}`, "line 1, column 2: not JSON: invalid character '1'"},
		{"missing colon", `{"a" 1}`, "after object key"},
		{"missing comma", `{"a":1 "b":2}`, "after object key:value pair"},
		{"zero in front", `{"a":01}`, "not JSON"},
		{"line feed in a string", "{\"a\":\n\"x\ny\"}", "line 2, column 3: not JSON: invalid character '\\n' in string literal"},
		{"bad escape", `{"a":"\x"}`, "in string escape code"},
		{"place after blank lines", "{\n\n\n\"a\": 1,\n\n\n\n\"b\": tru}", "line 8, column 9: not JSON"},
		{"key twice", `{"status":"new","status":"done"}`, `key "status" stands twice`},
		{"key twice by escape", `{"a":1,"\u0061":2}`, `key "a" stands twice`},
		{"key in two cases", `{"status":"new","Status":"done"}`, `keys "status" and "Status" differ only in case`},
		{"unknown key in two cases", `{"x":1,"X":1}`, `keys "x" and "X" differ only in case`},
		{"key in two cases beyond ASCII", `{"tasks":1,"ta\u017fks":2}`, "differ only in case"},
		{"very long key twice", `{"` + strings.Repeat("k", 1000) + `":1,"` + strings.Repeat("k", 1000) + `":1}`, "stands twice"},
		{"NUL bytes", strings.Repeat("\x00", 500), `line 1, column 1: not JSON: invalid character '\x00'`},
		{"NUL inside", "{\"a\":\x00}", `line 1, column 6: not JSON: invalid character '\x00'`},
		{"NUL behind", good + "\x00", "something follows"},
		{"UTF-16 little-endian with mark", "\xff\xfe" + string(utf16Bytes(binary.LittleEndian, good)), "file is UTF-16"},
		{"UTF-16 big-endian with mark", "\xfe\xff" + string(utf16Bytes(binary.BigEndian, good)), "file is UTF-16"},
		{"UTF-16 little-endian", string(utf16Bytes(binary.LittleEndian, good)), "file is UTF-16"},
		{"UTF-16 big-endian", string(utf16Bytes(binary.BigEndian, good)), "file is UTF-16"},
		{"invalid UTF-8 in a string", "{\"a\":\"\xff\"}", "file is not UTF-8"},
		{"invalid UTF-8 in a key", "{\"\xc3\":1}", "file is not UTF-8"},
		{"invalid UTF-8 after a mark", "\xef\xbb\xbf{\"\xff\":1}", "file is not UTF-8"},
		{"overlong UTF-8", "{\"a\":\"\xc0\x80\"}", "not UTF-8"},
		{"half of a pair in UTF-8", "{\"a\":\"\xed\xa0\x80\"}", "not UTF-8"},
		{"100,000 arrays at the top", deep("["), "JSON that is no object"},
		{"100,000 objects at the top", deep(`{"a":`), "exceeded max depth"},
		{"100,000 arrays in a value", `{"a":` + deep("["), "exceeded max depth"},
		{"100,000 arrays in a value, closed", `{"a":` + deep("[") + deep("]") + "}", "exceeded max depth"},
		{"100,000 closing brackets", deep("]"), "not JSON"},
		{"comment in front", "// a task\n" + good, "line 1, column 1: not JSON: invalid character '/'"},
		{"block comment in front", "/* a task */" + good, "line 1, column 1: not JSON: invalid character '/'"},
		{"hash in front", "# a task\n" + good, "line 1, column 1: not JSON: invalid character '#'"},
		{"comment inside", "{\"a\":1,\n// the title\n\"b\":2}", "line 2, column 1: not JSON: invalid character '/'"},
		{"comment behind a value", "{\"a\":1 /* one */}", "line 1, column 8: not JSON: invalid character '/'"},
		{"hash inside", "{\n\n# no\n}", "line 3, column 1: not JSON: invalid character '#'"},
		// C51: the reason names the place and what stands there.
		{"C51 smart quotes", "{\n  “a”: 1}", "line 2, column 3: not JSON: '“' stands"},
		{"C51 smart quote behind umlauts", `{"ä": ‘b’}`, "line 1, column 7: not JSON: '‘' stands"},
		{"C51 other letters", `{"a": é}`, "line 1, column 7: not JSON: 'é' stands"},
		{"fence", "```json\n" + good + "```\n", "line 1, column 1: not JSON: invalid character '`'"},
		{"fence after blanks", "\n\n```\n" + good + "```", "line 3, column 1: not JSON: invalid character '`'"},
		{"text around", "Here is the task:\n" + good, "not JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, err := ParseObject([]byte(tt.data))
			var syntax *SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("ParseObject(%.60q) = %v, %v; want a *SyntaxError", tt.data, o, err)
			}
			if !strings.Contains(syntax.Error(), tt.want) {
				t.Errorf("ParseObject(%.60q): %q, want it to say %q", tt.data, syntax.Reason, tt.want)
			}
			if len(syntax.Reason) > 400 {
				t.Errorf("ParseObject(%.60q): the reason is %d bytes long", tt.data, len(syntax.Reason))
			}
		})
	}
}

// TestObjectCutAnywhere is a drop in the middle of being written: whatever is
// there of it is no object yet, so that it is left alone for a while.
func TestObjectCutAnywhere(t *testing.T) {
	t.Parallel()
	whole := "\xef\xbb\xbf" + `{"taskId":"T-00035","title":"Grüße 🦊 \u00e9","n":[1,{"a":null}],"agent":"devdas"}`
	for n := range len(whole) {
		_, err := ParseObject([]byte(whole[:n]))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("the first %d bytes gave %v, want a *SyntaxError", n, err)
		}
	}
	if _, err := ParseObject([]byte(whole)); err != nil {
		t.Errorf("the whole gave %v", err)
	}
}

func TestObjectAccepts(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, data, key, want string }{
		{"plain", `{"a":1}`, "a", "1"},
		{"empty", `{}`, "a", ""},
		{"mark", "\xef\xbb\xbf{\"a\":1}", "a", "1"},
		{"CRLF", "{\r\n\"a\":\r\n1\r\n}\r\n", "a", "1"},
		{"blanks around", "\n\n {\"a\":1}\n\n", "a", "1"},
		{"escaped NUL", `{"a":"\u0000"}`, "a", `"\u0000"`},
		{"exactly as large as may be", `{"a":"` + strings.Repeat("x", MaxSize-8) + `"}`, "b", ""},
		{"nested", `{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "b", ""},
		{"empty key", `{"":2}`, "", "2"},
		{"same key deeper", `{"a":{"a":1,"A":2}}`, "a", `{"a":1,"A":2}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, err := ParseObject([]byte(tt.data))
			if err != nil {
				t.Fatalf("ParseObject(%.60q): %v", tt.data, err)
			}
			if got := string(o.Get(tt.key)); got != tt.want {
				t.Errorf("ParseObject(%.60q) has %q = %s, want %s", tt.data, tt.key, got, tt.want)
			}
		})
	}
}

// TestCaseB22ByteOrderMark is about the editors of Windows.
func TestCaseB22ByteOrderMark(t *testing.T) {
	t.Parallel()
	if _, err := ParseCreate([]byte("\xef\xbb\xbf" + good)); err != nil {
		t.Errorf("a drop with a byte order mark: %v", err)
	}
	_, err := ParseCreate([]byte("\xff\xfe" + string(utf16Bytes(binary.LittleEndian, good))))
	if err == nil || !strings.Contains(err.Error(), "file is UTF-16") {
		t.Errorf("a drop in UTF-16: %v, want it to say so", err)
	}
}

func TestCaseB23DuplicateKey(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`{"taskId":"T-00033","status":"blocked","status":"agent_done","reason":"x"}`,
		`{"taskId":"T-00033","status":"blocked","Status":"agent_done","reason":"x"}`,
	} {
		u, err := ParseUpdate([]byte(data))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(syntax.Reason, `"status"`) {
			t.Errorf("ParseUpdate(%s) = %+v, %v; want it refused with the key's name", data, u, err)
		}
	}
	// One key alone, in another case, would say nothing to a strict reader and
	// everything to a lax one.
	_, err := ParseUpdate([]byte(`{"taskId":"T-00033","Status":"agent_done","result":"x"}`))
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "Status" || !strings.Contains(invalid.Reason, `"status"`) {
		t.Errorf("a key in another case: %v, want it refused with the right spelling", err)
	}
}

// TestObjectKeepsWhatItDoesNotKnow sets and deletes keys around values that
// must come out byte for byte.
func TestObjectKeepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"number": "1.50e+02", "big": "123456789012345678901234567890", "text": `"<b>\u003c\/é\u0000&"`, "null": "null",
		"list": "[ 1,\n\t{\"a\" : 1 , \"a\" : 2} ]", "<&>": "true", "\u2028": "false",
	}
	var text strings.Builder
	text.WriteString(`{"_result":{"old":1},"first":0`)
	for k, v := range values {
		key, _ := json.Marshal(k)
		text.WriteString("," + string(key) + ":" + v)
	}
	text.WriteString("}")
	o, err := ParseObject([]byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	o.Delete("_result")
	o.Delete("not there")
	if err := o.Set("_result", map[string]string{"error": "<&>"}); err != nil {
		t.Fatal(err)
	}
	if err := o.Set("first", 1); err != nil {
		t.Fatal(err)
	}
	again, err := ParseObject(o.Bytes())
	if err != nil {
		t.Fatalf("Bytes gave\n%s\nwhich does not parse: %v", o.Bytes(), err)
	}
	for k, v := range values {
		if got := string(again.Get(k)); got != v {
			t.Errorf("value of %q is %s, want %s", k, got, v)
		}
	}
	if got := string(again.Get("first")); got != "1" {
		t.Errorf("first = %s, want 1", got)
	}
	if want := "\"_result\": {\"error\":\"<&>\"}\n}\n"; !bytes.HasSuffix(o.Bytes(), []byte(want)) {
		t.Errorf("Bytes ends with %q, want %q", o.Bytes()[max(0, len(o.Bytes())-60):], want)
	}
	if !bytes.HasPrefix(o.Bytes(), []byte("{\n  \"first\": 1")) {
		t.Errorf("Bytes begins with %.40q, want the old first key", o.Bytes())
	}
}

// TestObjectSetReplacesOtherCases is about a foreign drop with a key such as
// _RESULT: with two of them the settled file could never be read again.
func TestObjectSetReplacesOtherCases(t *testing.T) {
	t.Parallel()
	o, err := ParseObject([]byte(`{"_RESULT":1,"a":2}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Set("_result", 3); err != nil {
		t.Fatal(err)
	}
	if got, want := string(o.Bytes()), "{\n  \"a\": 2,\n  \"_result\": 3\n}\n"; got != want {
		t.Errorf("Bytes = %q, want %q", got, want)
	}
	o.Delete("_result")
	if err := o.Set("_Result", 4); err != nil {
		t.Fatal(err)
	}
	if _, err := ParseObject(o.Bytes()); err != nil {
		t.Errorf("after Delete and Set the object is %q: %v", o.Bytes(), err)
	}
	if err := o.Set("bad", make(chan int)); err == nil {
		t.Error("Set of a channel gave no error")
	}
}

// TestParseGrown reads a drop that its result made larger than a drop may be.
func TestParseGrown(t *testing.T) {
	t.Parallel()
	o, err := ParseObject([]byte(`{"a":"` + strings.Repeat("x", MaxSize-8) + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Set("_result", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := ParseObject(o.Bytes()); err == nil {
		t.Error("ParseObject took a file that is too large")
	}
	if _, err := ParseGrown(o.Bytes()); err != nil {
		t.Errorf("ParseGrown: %v", err)
	}
}
