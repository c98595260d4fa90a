package board

import (
	"encoding/json"
	"fmt"
	"testing"
)

// The short way to a text must say what decoding says, for both orders of
// members and for texts and block ids that look like JSON.
func TestPlainTextAgreesWithDecoding(t *testing.T) {
	t.Parallel()
	texts := []string{
		"x", "Build the login page", "é\U0001F600", `say "hi"`, `back\slash`, `"}]}]}]`, `","type":"text"}],"x":[`,
		"a\nb\tc\x1b\x00", "<script>&amp;", "\u2028", `{"type":"rich_text"}`,
	}
	ids := []string{"", "08jc0", `","elements":[`, `\`, `x\","elements":[`, "é"}
	spellings := []string{
		`{"type":"rich_text_section","elements":[{"type":"text","text":%s}]}`,
		`{"elements":[{"text":%s,"type":"text"}],"type":"rich_text_section"}`,
		`{"type":"rich_text_section","elements":[{"text":%s,"type":"text"}]}`,
		`{ "type" : "rich_text_section", "elements" : [ { "type" : "text", "text" : %s } ] }`,
		`{"type":"rich_text_section","elements":[{"type":"text","text":%s,"style":{}}]}`,
	}
	for _, text := range texts {
		for _, id := range ids {
			for _, spelling := range spellings {
				block := fmt.Sprintf(`{"elements":[`+spelling+`],"block_id":%s,"type":"rich_text"}`, quote(t, text), quote(t, id))
				stored, err := normalizeBlocks([]json.RawMessage{json.RawMessage(block)})
				if err != nil {
					t.Fatal(err)
				}
				if got := mrkdwn(stored); got != text {
					t.Errorf("mrkdwn(%s) = %q, want %q", stored, got, text)
				}
			}
		}
	}
}

func TestAppendString(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "<b>&</b>\u2028é\U0001F600"} {
		raw := appendString(nil, text)
		var got string
		if err := json.Unmarshal(raw, &got); err != nil || got != text {
			t.Errorf("appendString(%q) = %s, which decodes to %q, %v", text, raw, got, err)
		}
	}
}

func TestIsAgentName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "7": true, "½": true, "Ünï.co_de-7 x": true, "名前": true,
		"": false, " a": false, ".a": false, "-a": false, "a/b": false, "a\x00": false, "a\u202e": false, "a\u00a0b": false,
	} {
		if got := isAgentName(name); got != want {
			t.Errorf("isAgentName(%q) = %t, want %t", name, got, want)
		}
	}
}

func quote(t *testing.T, s string) string {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
