package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/internal/view"
)

// fake is a source that shows what it is told to. Its fields are guarded by mu.
type fake struct {
	mu     sync.Mutex
	state  State
	err    error
	looks  int
	looked chan struct{} // gets a value after each look
	gate   chan struct{} // if not nil, looks wait for a value
	done   []Action
	refuse error
}

func newFake() *fake {
	return &fake{looked: make(chan struct{}, 1000), state: State{Tasks: []view.Card{{Row: "Rec1", TaskID: 1, Title: "one"}}}}
}

func (f *fake) State(ctx context.Context) (*State, error) {
	f.mu.Lock()
	f.looks++
	gate, err := f.gate, f.err
	s := f.state
	s.Tasks = append([]view.Card{}, f.state.Tasks...)
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.looked <- struct{}{}
	return &s, err
}

func (f *fake) Detail(_ context.Context, row string) (*Detail, error) {
	if row != "Rec1" {
		return nil, &Refusal{Reason: "gone", Hint: "look"}
	}
	return &Detail{Why: "because"}, nil
}

func (f *fake) Do(ctx context.Context, a Action) (*Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, a)
	return &Answer{ID: "T-00002"}, errors.Join(f.refuse, ctx.Err())
}

func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.looks
}

// newServer serves a fake source.
func newServer(t *testing.T) (*Server, *fake) {
	t.Helper()
	f := newFake()
	return New(Options{Source: f, Dir: filepath.Join(t.TempDir(), "page"), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}), f
}

// ask makes a request of its own page, with a session; change makes it another.
func ask(s *Server, method, path, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:18780"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+s.pass)
	if method == http.MethodPost {
		r.Header.Set("Origin", "http://127.0.0.1:18780")
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func TestGuards(t *testing.T) {
	t.Parallel()
	header := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Del(pairs[i])
				if pairs[i+1] != "" {
					r.Header.Set(pairs[i], pairs[i+1])
				}
			}
		}
	}
	host := func(h string) func(*http.Request) {
		return func(r *http.Request) {
			r.Host = h
			if r.Method == http.MethodPost {
				r.Header.Set("Origin", "http://"+h)
			}
		}
	}
	const do = `{"do":"accept","row":"Rec1"}`
	for _, tt := range []struct {
		name         string
		method, path string
		body         string
		change       func(*http.Request)
		want         int
	}{
		{"read", "GET", "/page/state", "", nil, 200},
		{"read, localhost", "GET", "/page/state", "", host("localhost:18780"), 200},
		{"read, IPv6", "GET", "/page/state", "", host("[::1]:18780"), 200},
		{"read, no port", "GET", "/page/state", "", host("LOCALHOST"), 200},
		{"read, a foreign name", "GET", "/page/state", "", host("evil.test:18780"), 403},
		{"read, a name that looks like ours", "GET", "/page/state", "", host("127.0.0.1.evil.test"), 403},
		{"read, no host", "GET", "/page/state", "", host(""), 403},
		{"page, a foreign name", "GET", "/", "", host("evil.test"), 403},
		{"script, a foreign name", "GET", "/page/app.js", "", host("evil.test"), 403},
		{"read, no session", "GET", "/page/state", "", header("Authorization", ""), 401},
		{"read, a wrong pass", "GET", "/page/state", "", header("Authorization", "Bearer x"), 401},
		{"read, an empty pass", "GET", "/page/state", "", header("Authorization", "Bearer "), 401},
		{"read, of another port", "GET", "/page/state", "", header("Origin", "http://127.0.0.1:9999"), 403},
		{"events, of another port", "GET", "/page/events", "", header("Origin", "http://127.0.0.1:9999"), 403},
		{"task, of another site", "GET", "/page/task?row=Rec1", "", header("Origin", "http://evil.test"), 403},
		{"page, of another site", "GET", "/", "", header("Origin", "http://evil.test"), 403},
		{"task", "GET", "/page/task?row=Rec1", "", nil, 200},
		{"task, gone", "GET", "/page/task?row=Rec9", "", nil, 422},
		{"task, no session", "GET", "/page/task?row=Rec1", "", header("Authorization", ""), 401},
		{"events, no session", "GET", "/page/events", "", header("Authorization", ""), 401},
		{"write", "POST", "/page/do", do, nil, 200},
		{"write, no session", "POST", "/page/do", do, header("Authorization", ""), 401},
		{"write, no origin, a wrong token", "POST", "/page/do", do, header("Origin", "", "Authorization", "Bearer x"), 401},
		{"write, no origin, no pass", "POST", "/page/do", do, header("Origin", "", "Authorization", ""), 401},
		{"write, of another port", "POST", "/page/do", do, header("Origin", "http://127.0.0.1:9999"), 403},
		{"write, another scheme", "POST", "/page/do", do, header("Origin", "https://127.0.0.1:18780"), 403},
		{"write, null", "POST", "/page/do", do, header("Origin", "null"), 403},
		{"write, two origins", "POST", "/page/do", do, func(r *http.Request) { r.Header.Add("Origin", "http://evil.test") }, 403},
		{"write, rebound name", "POST", "/page/do", do, host("evil.test:18780"), 403},
		{"write, as a form", "POST", "/page/do", do, header("Content-Type", "application/x-www-form-urlencoded"), 415},
		{"write, as text", "POST", "/page/do", do, header("Content-Type", "text/plain"), 415},
		{"write, no type", "POST", "/page/do", do, header("Content-Type", ""), 415},
		{"write, with a charset", "POST", "/page/do", do, header("Content-Type", "application/json; charset=utf-8"), 200},
		{"write, no JSON", "POST", "/page/do", "{", nil, 400},
		{"write, too large", "POST", "/page/do", `{"title":"` + strings.Repeat("x", maxBody) + `"}`, nil, 400},
		{"write, more than JSON", "POST", "/page/do", do + do, nil, 400},
		{"write, a field that nobody reads", "POST", "/page/do", `{"do":"accept","comment":"x"}`, nil, 400},
		{"write by GET", "GET", "/page/do", "", nil, 405},
		{"session, of another page", "POST", "/page/session", `{"code":"x"}`, header("Origin", "http://evil.test"), 403},
		{"session, no JSON", "POST", "/page/session", "{", header("Authorization", ""), 400},
		{"session, as a form", "POST", "/page/session", "code=x", header("Authorization", "", "Content-Type", "application/x-www-form-urlencoded"), 415},
		{"session, too large", "POST", "/page/session", `{"code":"` + strings.Repeat("x", maxSignInBody) + `"}`, header("Authorization", ""), 400},
		{"session, a wrong code", "POST", "/page/session", `{"code":"x"}`, header("Authorization", ""), 401},
		{"page", "GET", "/", "", header("Authorization", ""), 200},
		{"permalink", "GET", "/lists/T1/F1", "", header("Authorization", ""), 200},
		{"style", "GET", "/page/app.css", "", header("Authorization", ""), 200},
		{"icon", "GET", "/page/icon.svg", "", header("Authorization", ""), 200},
		{"nothing", "GET", "/page/nothing", "", nil, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, f := newServer(t)
			w := ask(s, tt.method, tt.path, tt.body, tt.change)
			if w.Code != tt.want {
				t.Errorf("status %d, want %d: %s", w.Code, tt.want, w.Body)
			}
			for name, want := range map[string]string{
				"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
				"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %q", name, got)
				}
			}
			if w.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Error("another origin is let in")
			}
			if tt.want != 200 && len(f.done) > 0 {
				t.Errorf("it was done all the same: %+v", f.done)
			}
		})
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	s, _ := newServer(t)
	code, err := NewLink(s.opts.Dir, noon)
	if err != nil {
		t.Fatal(err)
	}
	exchange := func() *httptest.ResponseRecorder {
		return ask(s, "POST", "/page/session", fmt.Sprintf(`{"code":%q}`, code), func(r *http.Request) { r.Header.Del("Authorization") })
	}
	w := exchange()
	var in struct{ Pass string }
	if err := json.Unmarshal(w.Body.Bytes(), &in); err != nil {
		t.Fatal(err)
	}
	if w.Code != 200 || in.Pass != s.pass || len(w.Result().Cookies()) > 0 {
		t.Fatalf("status %d, %s, cookies %v", w.Code, w.Body, w.Result().Cookies())
	}
	if again := exchange(); again.Code != 401 || strings.Contains(again.Body.String(), "pass") {
		t.Errorf("the second time: status %d, %s", again.Code, again.Body)
	}
}

// unread fails the test when a body is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// C36: a local user without a token made the server read large bodies before
// it looked at the token. It looks at the headers first, reads no body of a
// stranger, and closes the connection.
func TestC36StrangersBodyIsNotRead(t *testing.T) {
	t.Parallel()
	s, _ := newServer(t)
	for name, change := range map[string]func(*http.Request){
		"no pass":        func(r *http.Request) { r.Header.Del("Authorization") },
		"wrong pass":     func(r *http.Request) { r.Header.Set("Authorization", "Bearer 1.2") },
		"another origin": func(r *http.Request) { r.Header.Set("Origin", "http://evil.test") },
		"another name":   func(r *http.Request) { r.Host = "evil.test" },
	} {
		w := ask(s, "POST", "/page/do", "", func(r *http.Request) {
			change(r)
			r.Body = io.NopCloser(unread{t})
		})
		if w.Code != 401 && w.Code != 403 || w.Header().Get("Connection") != "close" {
			t.Errorf("%s: status %d, header %v", name, w.Code, w.Header())
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	s, f := newServer(t)
	answer := func(w *httptest.ResponseRecorder) map[string]string {
		t.Helper()
		var m map[string]string
		if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		return m
	}
	if m := answer(ask(s, "POST", "/page/do", `{"do":"create","title":"x"}`, nil)); m["id"] != "T-00002" || f.done[0].Title != "x" {
		t.Errorf("answer %v, done %+v", m, f.done)
	}
	f.refuse = &Refusal{Reason: "no", Hint: "yes"}
	w := ask(s, "POST", "/page/do", `{"do":"create"}`, nil)
	if m := answer(w); w.Code != 422 || m["error"] != "no" || m["hint"] != "yes" {
		t.Errorf("status %d, answer %v", w.Code, m)
	}
	f.refuse = errors.New("disk full")
	w = ask(s, "POST", "/page/do", `{"do":"create"}`, nil)
	if m := answer(w); w.Code != 503 || m["error"] != "disk full" {
		t.Errorf("status %d, answer %v", w.Code, m)
	}
	f.err = errors.New("no board")
	if w := ask(s, "GET", "/page/state", "", nil); w.Code != 503 || answer(w)["error"] != "no board" {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	if w := ask(s, "GET", "/page/task?row=Rec1", "", nil); !strings.Contains(w.Body.String(), `"history":[]`) {
		t.Errorf("a task without a history: %s", w.Body)
	}
}

// Who asks for an edit and goes away still asked.
func TestGoneAfterAsking(t *testing.T) {
	t.Parallel()
	s, f := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := ask(s, "POST", "/page/do", `{"do":"accept","row":"Rec1"}`, func(r *http.Request) { *r = *r.WithContext(ctx) })
	if w.Code != 200 || len(f.done) != 1 {
		t.Errorf("status %d, done %+v", w.Code, f.done)
	}
}

// Browsers run a script and use a style only if the server names its kind.
func TestStaticFiles(t *testing.T) {
	t.Parallel()
	s, _ := newServer(t)
	for path, kind := range map[string]string{
		"/": "text/html; charset=utf-8", "/lists/T1/F1": "text/html; charset=utf-8",
		"/page/app.js": "text/javascript; charset=utf-8", "/page/app.css": "text/css; charset=utf-8", "/page/icon.svg": "image/svg+xml",
	} {
		if w := ask(s, "GET", path, "", nil); w.Code != 200 || w.Header().Get("Content-Type") != kind || w.Body.Len() == 0 {
			t.Errorf("%s: status %d, %q, %d bytes", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
	}
}
