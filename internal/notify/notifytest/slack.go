package notifytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Slack plays the part of the Web API that is about messages: one app in some channels. It
// is an http.Handler.
type Slack struct {
	Token    string
	Channels []string
	Now      func() time.Time   // nil: there is no limit of messages
	NoRead   bool               // the app lacks the scope channels:history
	Took     func(SlackMessage) // is called with each message; may be nil

	mu   sync.Mutex // guards what follows
	all  []SlackMessage
	last map[string]time.Time // of the last message in each channel
	next []http.HandlerFunc
	lost int // answers to posts that are to be lost, after the post
}

// SlackMessage is a message in a channel. Text is as people see it.
type SlackMessage struct {
	Channel string          `json:"-"`
	Thread  string          `json:"thread_ts,omitempty"`
	TS      string          `json:"ts"`
	Text    string          `json:"text"`
	Meta    json.RawMessage `json:"metadata,omitempty"`
}

// Messages are those of a thread, or those of a channel that are in none ("").
func (s *Slack) Messages(channel, thread string) (all []SlackMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.all {
		if m.Channel == channel && m.Thread == thread {
			all = append(all, m)
		}
	}
	return all
}

// Next has handlers answer the next posts in place of the API.
func (s *Slack) Next(all ...http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = append(s.next, all...)
}

// Lose loses the answers to the next posts.
func (s *Slack) Lose(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = n
}

// SlackError answers with a code.
func SlackError(code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"ok":false,"error":%q}`, code)
	}
}

// SlackLimit answers that there were too many calls.
func SlackLimit(seconds int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", fmt.Sprint(seconds))
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"ok":false,"error":"ratelimited"}`)
	}
}

func (s *Slack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	if method == "chat.postMessage" && len(s.next) > 0 {
		answer := s.next[0]
		s.next = s.next[1:]
		answer(w, r)
		return
	}
	channel := r.FormValue("channel")
	known := false
	for _, c := range s.Channels {
		known = known || c == channel
	}
	switch {
	case r.Header.Get("Authorization") != "Bearer "+s.Token:
		SlackError("invalid_auth")(w, r)
	case !known:
		SlackError("channel_not_found")(w, r)
	case method == "chat.postMessage":
		s.post(w, r, channel)
	case method == "chat.getPermalink":
		answer(w, map[string]any{"ok": true, "permalink": "https://x.slack.com/archives/" + channel + "/p" + strings.ReplaceAll(r.FormValue("message_ts"), ".", "")})
	case s.NoRead:
		answer(w, map[string]any{"ok": false, "error": "missing_scope", "needed": "channels:history", "provided": "chat:write"})
	case method == "conversations.history", method == "conversations.replies":
		s.read(w, r, method, channel)
	default:
		SlackError("unknown_method")(w, r)
	}
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the caller hung up
}

// link is what Slack takes for a link or a mention.
var link = regexp.MustCompile(`<[^>]*>`)

func (s *Slack) post(w http.ResponseWriter, r *http.Request, channel string) {
	text, thread := r.FormValue("text"), r.FormValue("thread_ts")
	begun := thread == ""
	for _, m := range s.all {
		begun = begun || m.TS == thread && m.Thread == ""
	}
	now := time.Now()
	if s.Now != nil {
		now = s.Now()
		if now.Sub(s.last[channel]) < time.Second {
			SlackLimit(1)(w, r)
			return
		}
	}
	switch {
	case text == "":
		SlackError("no_text")(w, r)
		return
	case !begun:
		SlackError("thread_not_found")(w, r)
		return
	}
	if s.last == nil {
		s.last = map[string]time.Time{}
	}
	s.last[channel] = now
	text = link.ReplaceAllString(text, "LINK")
	text = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text)
	if cut := []rune(text); len(cut) > 40000 {
		text = string(cut[:40000])
	}
	m := SlackMessage{Channel: channel, Thread: thread, TS: fmt.Sprintf("%d.%06d", now.Unix(), len(s.all)+1), Text: text}
	if meta := r.FormValue("metadata"); meta != "" {
		m.Meta = json.RawMessage(meta)
	}
	s.all = append(s.all, m)
	if s.Took != nil {
		s.Took(m)
	}
	if s.lost > 0 {
		s.lost--
		panic(http.ErrAbortHandler)
	}
	answer(w, map[string]any{"ok": true, "channel": channel, "ts": m.TS})
}

// read answers two messages a page. Without include_all_metadata it shows no metadata.
func (s *Slack) read(w http.ResponseWriter, r *http.Request, method, channel string) {
	var all []SlackMessage
	for _, m := range s.all {
		in, recent := m.Thread == "", m.TS >= r.FormValue("oldest")
		if method == "conversations.replies" {
			in = m.Thread == r.FormValue("ts")
		}
		in = in && recent || method == "conversations.replies" && m.TS == r.FormValue("ts")
		if r.FormValue("include_all_metadata") != "true" {
			m.Meta = nil
		}
		if m.Channel == channel && in {
			all = append(all, m)
		}
	}
	from := 0
	fmt.Sscan(r.FormValue("cursor"), &from)
	to := min(from+2, len(all))
	next := ""
	if to < len(all) {
		next = fmt.Sprint(to)
	}
	answer(w, map[string]any{"ok": true, "messages": all[min(from, to):to], "response_metadata": map[string]string{"next_cursor": next}})
}
