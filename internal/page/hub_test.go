package page

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"otm/internal/view"
)

// event is what a page gets.
type event struct {
	name string
	data map[string]any
}

func parseEvent(t *testing.T, raw string) event {
	t.Helper()
	var e event
	if err := json.Unmarshal([]byte(raw), &e.data); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	switch {
	case e.data["trouble"] != nil:
		e.name = "trouble"
	case e.data["all"] == true:
		e.name = "state"
	default:
		e.name = "change"
	}
	return e
}

// next is the next event of a page that was subscribed.
func next(t *testing.T, page chan []byte) event {
	t.Helper()
	select {
	case data, ok := <-page:
		if !ok {
			t.Fatal("the page was dropped")
		}
		return parseEvent(t, string(data))
	case <-t.Context().Done():
		t.Fatal("no event came")
	}
	return event{}
}

func newTestHub(f *fake) *hub {
	return newHub(f, func() time.Time { return noon }, slog.New(slog.DiscardHandler))
}

// subscribed is a page that has the whole state.
func subscribed(t *testing.T, h *hub) (chan []byte, event) {
	t.Helper()
	page, err := h.subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := next(t, page)
	if first.name != "state" {
		t.Fatalf("first event %+v", first)
	}
	return page, first
}

func look(t *testing.T, h *hub) {
	t.Helper()
	if err := h.look(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := newTestHub(f)
	page, first := subscribed(t, h)
	if tasks := first.data["cards"].([]any); len(tasks) != 1 || tasks[0].(map[string]any)["title"] != "one" {
		t.Errorf("tasks %v", tasks)
	}
	look(t, h)
	if len(page) != 0 {
		t.Error("nothing changed, and the page was told")
	}
	f.set(func(f *fake) { f.state.Tasks = append(f.state.Tasks, view.Card{Row: "Rec2", Title: "two"}) })
	look(t, h)
	e := next(t, page)
	if tasks := e.data["cards"].([]any); e.name != "change" || len(tasks) != 1 || tasks[0].(map[string]any)["slackItemId"] != "Rec2" || e.data["gone"] != nil || e.data["board"] != nil {
		t.Errorf("a new task: %+v", e)
	}
	f.set(func(f *fake) { f.state.Tasks = f.state.Tasks[1:]; f.state.Board.Rows = 1 })
	look(t, h)
	e = next(t, page)
	if gone := e.data["gone"].([]any); len(gone) != 1 || gone[0] != "Rec1" || e.data["cards"] != nil || e.data["board"].(map[string]any)["rows"] != 1.0 {
		t.Errorf("a task that went: %+v", e)
	}
	if e.data["now"] != "2026-03-14T12:00:00Z" {
		t.Errorf("now %v", e.data["now"])
	}
}

// A page that does not keep up is dropped, and the others are not held up.
func TestSlowPage(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := newTestHub(f)
	slow, _ := subscribed(t, h)
	quick, _ := subscribed(t, h)
	for i := range backlog + 1 {
		f.set(func(f *fake) { f.state.Tasks[0].Title = fmt.Sprint("title ", i) })
		look(t, h)
		next(t, quick)
	}
	for range backlog {
		<-slow
	}
	if _, ok := <-slow; ok {
		t.Error("the slow page was not dropped")
	}
	if len(h.pages) != 1 {
		t.Errorf("%d pages", len(h.pages))
	}
	h.unsubscribe(slow) // as its handler does
	_, again := subscribed(t, h)
	if title := again.data["cards"].([]any)[0].(map[string]any)["title"]; title != fmt.Sprint("title ", backlog) {
		t.Errorf("it begins anew with %v", title)
	}
}

// While nobody watches, nobody looks; between two looks there is a rest; a
// change is looked at soon; and the hub ends with its context.
func TestRhythm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := &Server{hub: newTestHub(f)}
		h := s.hub
		changed, closed := make(chan struct{}, 1), make(chan struct{})
		close(closed)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, changed, closed) }()
		changed <- struct{}{}
		time.Sleep(time.Minute)
		if f.count() != 0 {
			t.Fatalf("%d looks while nobody watches", f.count())
		}
		page, _ := subscribed(t, h)
		synctest.Wait()
		time.Sleep(time.Second)
		before := f.count() // of the subscription, and for what came before it
		began := time.Now()
		f.set(func(f *fake) { f.state.Tasks[0].Title = "changed" })
		changed <- struct{}{}
		next(t, page)
		if took := time.Since(began); took != quiet {
			t.Errorf("a change was told of after %v", took)
		}
		// A board that changes all the time is looked at ten times a second.
		for range 1000 {
			changed <- struct{}{}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(rest)
		if n := f.count() - before; n < 8 || n > 13 {
			t.Errorf("%d looks in a second of changes", n)
		}
		h.unsubscribe(page)
		before = f.count()
		time.Sleep(time.Minute)
		if n := f.count() - before; n != 0 {
			t.Errorf("%d looks after the page went", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What happens after a page's state was read and before it is subscribed is told
// as well, also where nobody else watches.
func TestNothingFallsBetween(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := newTestHub(f)
	f.gate = make(chan struct{}) // the first look is under way
	between := func() {
		f.gate <- struct{}{}
		f.set(func(f *fake) { f.state.Tasks[0].Title, f.gate = "between", nil })
	}
	go between()
	page, err := h.subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next(t, page) // the state as it was
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go h.run(ctx)
	if e := next(t, page); e.data["cards"].([]any)[0].(map[string]any)["title"] != "between" {
		t.Errorf("event %+v", e)
	}
}

// Pages that ask at the same time share one look; while some watch, those that
// come cost none.
func TestSharedLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.gate = make(chan struct{})
		h := newTestHub(f)
		ask := func() {
			if _, err := h.whole(t.Context()); err != nil {
				t.Error(err)
			}
		}
		go ask()
		synctest.Wait()
		for range 20 {
			go ask()
		}
		synctest.Wait()
		close(f.gate)
		synctest.Wait()
		if n := f.count(); n != 2 {
			t.Errorf("one page, and 20 that came during its look, cost %d looks", n)
		}
		subscribed(t, h)
		before := f.count()
		for range 20 {
			ask()
		}
		if n := f.count() - before; n != 0 {
			t.Errorf("20 pages beside one that watches cost %d looks", n)
		}
	})
}

// A source that fails is told of once, and told of again when it works; a page
// that comes meanwhile is refused.
func TestTrouble(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := newTestHub(f)
	page, _ := subscribed(t, h)
	f.set(func(f *fake) { f.err = errors.New("no board") })
	for range 3 {
		if err := h.look(t.Context()); err == nil {
			t.Fatal("no error")
		}
	}
	if e := next(t, page); e.name != "trouble" || e.data["trouble"] != "no board" || len(page) != 0 {
		t.Errorf("event %+v, %d more", e, len(page))
	}
	if _, err := h.whole(t.Context()); err == nil {
		t.Error("a state is served although there is none")
	}
	if _, err := h.subscribe(t.Context()); err == nil {
		t.Error("a page subscribes to a source that cannot be read")
	}
	f.set(func(f *fake) { f.err = nil })
	look(t, h)
	if e := next(t, page); e.name != "trouble" || e.data["trouble"] != "" {
		t.Errorf("event %+v", e)
	}
	// A page that goes away in the middle of a look is no trouble.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	f.set(func(f *fake) { f.gate = make(chan struct{}) })
	h.look(gone)
	if h.trouble != "" || len(page) != 0 {
		t.Errorf("trouble %q", h.trouble)
	}
}

// The stream over HTTP: the state, and then what changes.
func TestEventStream(t *testing.T) {
	t.Parallel()
	s, f := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed := make(chan struct{}, 1)
	go s.Run(ctx, changed)
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	open := func() (*bufio.Reader, func()) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", web.URL+"/page/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+s.pass)
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if w.StatusCode != 200 || w.Header.Get("Content-Type") != "application/jsonl" || w.Header.Get("Content-Security-Policy") != policy {
			t.Fatalf("status %d, header %v", w.StatusCode, w.Header)
		}
		b := bufio.NewReader(w.Body)
		if hello, err := b.ReadString('\n'); hello != "\n" || err != nil {
			t.Fatalf("it begins with %q, %v", hello, err)
		}
		return b, func() { w.Body.Close() }
	}
	stream, closeFirst := open()
	first := parseEvent(t, line(t, stream))
	if first.name != "state" {
		t.Fatalf("event %+v", first)
	}
	closeFirst()
	stream, closeSecond := open()
	defer closeSecond()
	line(t, stream) // the whole state again
	f.set(func(f *fake) { f.state.Tasks[0].Title = "changed" })
	changed <- struct{}{}
	if e := parseEvent(t, line(t, stream)); e.name != "change" {
		t.Errorf("after the state: %+v", e)
	}
}

// line is the next line that says something.
func line(t *testing.T, b *bufio.Reader) string {
	t.Helper()
	for {
		text, err := b.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if text != "\n" {
			return text
		}
	}
}
