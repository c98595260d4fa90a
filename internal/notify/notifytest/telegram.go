// Package notifytest has doubles of Telegram's Bot API and of Slack's Web API. They are built
// from their documentation, and refuse what these refuse.
package notifytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// Telegram plays the Bot API: one bot in one chat. It is an http.Handler.
type Telegram struct {
	Token, Chat string
	Took        func(text string) // is called with each message; may be nil

	mu    sync.Mutex // guards what follows
	texts []string
	calls int
	next  []http.HandlerFunc
}

// Texts are the messages in the chat, as people see them: without marks.
func (t *Telegram) Texts() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.texts...)
}

// Calls is how often the API was called.
func (t *Telegram) Calls() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls
}

// Next has handlers answer the next calls in place of the API.
func (t *Telegram) Next(all ...http.HandlerFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = append(t.next, all...)
}

// Reset has the API answer again.
func (t *Telegram) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = nil
}

// Refuse answers as the Bot API does when it refuses a request. parameters may be "".
func Refuse(code int, description, parameters string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if parameters != "" {
			parameters = `,"parameters":` + parameters
		}
		fmt.Fprintf(w, `{"ok":false,"error_code":%d,"description":%q%s}`, code, description, parameters)
	}
}

// HTML answers with a page, as a proxy does.
func HTML(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(code)
		fmt.Fprint(w, "<html><body>Bad Gateway</body></html>")
	}
}

// Drip answers a byte at a time, slowly, until the caller hangs up.
func Drip(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for r.Context().Err() == nil {
		if _, err := fmt.Fprint(w, " "); err != nil {
			return
		}
		http.NewResponseController(w).Flush()
		time.Sleep(50 * time.Millisecond) // drips are slow
	}
}

func (t *Telegram) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	t.calls++
	answer := t.send
	if len(t.next) > 0 {
		answer, t.next = t.next[0], t.next[1:]
	}
	t.mu.Unlock()
	answer(w, r)
}

func (t *Telegram) send(w http.ResponseWriter, r *http.Request) {
	var m struct {
		Chat string `json:"chat_id"`
		Text string `json:"text"`
		Mode string `json:"parse_mode"`
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		Refuse(400, "Bad Request: can't parse the request", "")(w, r)
		return
	}
	text, bad := m.Text, ""
	switch m.Mode {
	case "":
	case "MarkdownV2":
		text, bad = parseMarkdown(m.Text)
	default:
		bad = "unsupported parse_mode"
	}
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/bot"+t.Token+"/sendMessage":
		Refuse(401, "Unauthorized", "")(w, r)
	case m.Chat != t.Chat:
		Refuse(400, "Bad Request: chat not found", "")(w, r)
	case !utf8.ValidString(m.Text):
		Refuse(400, "Bad Request: strings must be encoded in UTF-8", "")(w, r)
	case bad != "":
		Refuse(400, "Bad Request: can't parse entities: "+bad, "")(w, r)
	case strings.TrimSpace(text) == "":
		Refuse(400, "Bad Request: message text is empty", "")(w, r)
	case len(utf16.Encode([]rune(text))) > 4096:
		Refuse(400, "Bad Request: message is too long", "")(w, r)
	default:
		t.mu.Lock()
		defer t.mu.Unlock()
		t.texts = append(t.texts, text)
		if t.Took != nil {
			t.Took(text)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"ok":true,"result":{"message_id":%d,"chat":{"id":%q},"text":%q}}`, len(t.texts), t.Chat, text)
	}
}

// parseMarkdown reads MarkdownV2 of which only bold is used. bad is what it refuses.
func parseMarkdown(s string) (text, bad string) {
	var b strings.Builder
	bold, escaped := false, false
	for _, r := range s {
		switch {
		case escaped:
			escaped = false
			if r == 0 || r > 126 {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		case r == '\\':
			escaped = true
		case r == '*':
			bold = !bold
		case strings.ContainsRune("_[]()~`>#+-=|{}.!", r):
			return "", fmt.Sprintf("Character '%c' is reserved and must be escaped with the preceding '\\'", r)
		default:
			b.WriteRune(r)
		}
	}
	if bold {
		return "", "Can't find end of Bold entity"
	}
	return b.String(), ""
}
