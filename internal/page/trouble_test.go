package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"otm/internal/crash/crashtest"
	"otm/internal/view"
)

// At whichever step of signing in the disk refuses, the person is told, and gets no
// pass.
func TestSignInWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		s, _ := newServer(t)
		code, err := NewLink(s.opts.Dir, noon)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("POST", "http://127.0.0.1/page/session", strings.NewReader(fmt.Sprintf(`{"code":%q}`, code)))
		r.Header.Set("Origin", "http://127.0.0.1")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		refused, _ := refuse(s.opts.Dir, func() error {
			s.Handler().ServeHTTP(w, r)
			return nil
		})
		want := http.StatusOK
		if refused.Came() {
			want = http.StatusServiceUnavailable
		}
		if w.Code != want || strings.Contains(w.Body.String(), `"pass"`) != (want == http.StatusOK) {
			t.Errorf("refused %q: status %d, %s", refused, w.Code, w.Body)
		}
	})
}

// A state that cannot be sent is told of like one that cannot be read, and is over
// with the next good one.
func TestStateThatCannotBeSent(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := newTestHub(f)
	page, _ := subscribed(t, h)
	never := time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC) // JSON has no such year
	for name, spoil := range map[string]func(*State, time.Time){
		"task":      func(s *State, at time.Time) { s.Tasks[0].Updated = at },
		"component": func(s *State, at time.Time) { s.Components = []view.ComponentSummary{{LastRun: at}} },
	} {
		f.set(func(f *fake) { spoil(&f.state, never) })
		if err := h.look(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
		if e := next(t, page); e.name != "trouble" || e.data["trouble"] == "" {
			t.Errorf("%s: %+v", name, e)
		}
		f.set(func(f *fake) { spoil(&f.state, noon) })
		look(t, h)
		if e := next(t, page); e.name != "change" {
			t.Errorf("%s: %+v", name, e)
		}
		if e := next(t, page); e.name != "trouble" || e.data["trouble"] != "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// wire is a client that takes so many writes.
type wire struct {
	*httptest.ResponseRecorder
	left    int
	refused bool
}

func (w *wire) Write(data []byte) (int, error) {
	if w.left--; w.left < 0 {
		w.refused = true
		return 0, errors.New("broken pipe")
	}
	return w.ResponseRecorder.Write(data)
}

// A stream ends where nothing can be sent any more, at whichever event, where the
// session is over, and where the page goes; between events it says that it is alive.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	const never = 1000
	for _, c := range []struct {
		name   string
		writes int  // that the client takes
		goes   bool // it hangs up after a minute
		after  time.Duration
		want   []string // in what it got
	}{
		{"nothing is taken", 0, false, 0, nil},
		{"the first event is not taken", 1, false, 0, []string{"\n"}},
		{"the first sign of life is not taken", 2, false, heartbeat, []string{`"all":true`}},
		{"the third is not taken", 4, false, 3 * heartbeat, []string{"}\n\n\n"}},
		{"it goes", never, true, time.Minute - time.Second, []string{`"all":true`, "}\n\n\n"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newServer(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, "GET", "http://127.0.0.1/page/events", nil)
			r.Header.Set("Authorization", "Bearer "+s.pass)
			w := &wire{ResponseRecorder: httptest.NewRecorder(), left: c.writes}
			if c.goes {
				time.AfterFunc(c.after, cancel)
			}
			began := time.Now()
			s.Handler().ServeHTTP(w, r)
			if took := time.Since(began); took != c.after {
				t.Errorf("%s: it ended after %v, want %v", c.name, took, c.after)
			}
			for _, want := range c.want {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("%s: it got %q, want %q in it", c.name, w.Body, want)
				}
			}
			if len(c.want) == 0 && w.Body.Len() > 0 {
				t.Errorf("%s: it got %q", c.name, w.Body)
			}
			if s.hub.watched() {
				t.Errorf("%s: the hub still takes it for there", c.name)
			}
		})
	}
}

// A stream that cannot begin says why.
func TestStreamWithoutBoard(t *testing.T) {
	t.Parallel()
	s, f := newServer(t)
	f.err = errors.New("no board")
	if w := ask(s, "GET", "/page/events", "", nil); w.Code != 503 || !strings.Contains(w.Body.String(), "no board") {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}

// The hub ends while it waits to look, and does not look any more.
func TestHubEndsInItsRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		h := newTestHub(f)
		subscribed(t, h)
		before := f.count()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.run(ctx) }()
		h.hint()
		synctest.Wait() // it rests
		cancel()
		if err := <-ended; err != nil || f.count() != before {
			t.Errorf("it ended with %v, after %d more looks", err, f.count()-before)
		}
		// Whoever waits for his turn to look, does not wait for ever either.
		h.turn <- struct{}{}
		if err := h.look(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("waited for his turn: %v", err)
		}
	})
}
