package safe

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestEncodeJSON: nothing in it moves a cursor, and it means the same.
func TestEncodeJSON(t *testing.T) {
	t.Parallel()
	want := map[string]string{"title": "a\x1b[31m\u009b31m\u0085\x7f\u202eb\n\ufffd\u2028 é 漢 😀 <b>\u200b\U000e0041👩\u200d🚀"}
	var out bytes.Buffer
	if err := EncodeJSON(&out, want); err != nil {
		t.Fatal(err)
	}
	if line, ok := strings.CutSuffix(out.String(), "\n"); !ok || inertJSON(line) != line || !strings.Contains(line, `\u200b\udb40\udc41👩`+"\u200d🚀") {
		t.Errorf("printed %q", out.String())
	}
	got := map[string]string{}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["title"] != want["title"] {
		t.Errorf("means %q, %v; want %q", got, err, want)
	}
	if err := EncodeJSON(&out, make(chan int)); err == nil {
		t.Error("encoded what JSON cannot hold")
	}
}
