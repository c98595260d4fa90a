package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/core"
	"otm/core/store"
	"otm/internal/loopback"
	"otm/internal/tokens"
)

// stream is an open stream of events.
type stream struct {
	t     testing.TB
	lines *bufio.Reader
	close func()
}

// follow opens a stream. last is the Last-Event-ID; "": none is sent.
func (c *client) follow(query, last string) *stream {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address+Prefix+"/events/stream"+query, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	if kind := w.Header.Get("Content-Type"); w.StatusCode != http.StatusOK || kind != "text/event-stream" {
		c.t.Fatalf("status %d, %s", w.StatusCode, kind)
	}
	s := &stream{t: c.t, lines: bufio.NewReader(w.Body), close: func() { cancel(); w.Body.Close() }}
	c.t.Cleanup(s.close)
	if first := s.frame(); first != ": begins\n" {
		c.t.Fatalf("the stream begins with %q", first)
	}
	return s
}

// frame is the next event, or comment.
func (s *stream) frame() string {
	s.t.Helper()
	var text strings.Builder
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the stream ended: %v", err)
		}
		if line == "\n" {
			return text.String()
		}
		text.WriteString(line)
	}
}

// next is the number and the type of the next event.
func (s *stream) next() (int64, string) {
	s.t.Helper()
	for {
		frame := s.frame()
		if strings.HasPrefix(frame, ":") {
			continue
		}
		var id int64
		var kind, data string
		if n, err := fmt.Sscanf(frame, "id: %d\nevent: %s\ndata: %s", &id, &kind, &data); n != 3 || err != nil {
			s.t.Fatalf("frame %q: %v", frame, err)
		}
		return id, kind
	}
}

func (c *client) create(n int) {
	c.t.Helper()
	for range n {
		ask[answer](c, "POST", "/tasks", object{"title": "Build it", "agent": "devdas"})
	}
}

// allEvents are the numbers of all events there are.
func (c *client) allEvents() (all []int64) {
	c.t.Helper()
	page := struct {
		Events []struct{ Sequence int64 }
		Next   int64
	}{}
	for {
		page = ask[typeOf](c, "GET", fmt.Sprintf("/events?limit=7&after=%d", page.Next), nil)
		for _, e := range page.Events {
			all = append(all, e.Sequence)
		}
		if len(page.Events) < 7 {
			return all
		}
	}
}

type typeOf = struct {
	Events []struct{ Sequence int64 }
	Next   int64
}

// A reader that loses its connection again and again, and comes back with the number of the
// last event that it got, sees each event once.
func TestReconnect(t *testing.T) {
	t.Parallel()
	c, _ := served(t, newHome(t, ""))
	const tasks = 40
	var wg sync.WaitGroup
	wg.Go(func() { c.create(tasks) })
	var seen []int64
	last := "0"
	for requested := 0; requested < tasks; {
		s := c.follow("?type=TaskRequested", last)
		for range 1 + requested%5 {
			id, kind := s.next()
			if kind != "TaskRequested" {
				t.Fatalf("event %d is %s", id, kind)
			}
			seen, last = append(seen, id), strconv.FormatInt(id, 10)
			if requested++; requested == tasks {
				break
			}
		}
		s.close()
	}
	wg.Wait()
	if all := c.allEvents(); !slices.Equal(seen, all) {
		t.Errorf("seen %v of %v", seen, all)
	}
}

// Without a number, a stream begins with what happens next; and it says now and then that it
// lives.
func TestFollow(t *testing.T) {
	t.Parallel()
	c, s := served(t, newHome(t, ""))
	c.create(3)
	s.beat = time.Millisecond
	follow, other := c.follow("", ""), c.follow("?task=T-3", "")
	if frame := follow.frame(); frame != ": still here\n" {
		t.Errorf("frame %q", frame)
	}
	c.create(1)
	ask[answer](c, "POST", "/tasks/3/say", object{"text": "hello"})
	if id, kind := follow.next(); id != 4 || kind != "TaskRequested" {
		t.Errorf("event %d, %s", id, kind)
	}
	for _, f := range []*stream{follow, other} {
		if id, kind := f.next(); id != 5 || kind != "Said" {
			t.Errorf("event %d, %s", id, kind)
		}
	}
	c.with("Last-Event-ID", "x").refused(http.StatusUnprocessableEntity, "GET", "/events/stream", nil, "header.Last-Event-ID")
	c.refused(http.StatusUnprocessableEntity, "GET", "/events?type=Nothing", nil, "query.type", "TaskMoved")
}

// A stream after 0 begins with the first event.
func TestFollowFromFirst(t *testing.T) {
	t.Parallel()
	c, _ := served(t, newHome(t, ""))
	c.create(2)
	f := c.follow("?after=0", "")
	for want := int64(1); want <= 2; want++ {
		if id, _ := f.next(); id != want {
			t.Errorf("event %d, want %d", id, want)
		}
	}
}

// A stream ends when its token is revoked.
func TestFollowRevoked(t *testing.T) {
	t.Parallel()
	c, s := served(t, newHome(t, ""))
	s.beat = time.Millisecond
	gone, stays := c.as("gone", tokens.Viewer).follow("", ""), c.follow("", "")
	if err := tokens.Open(c.home.Dir).Revoke(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, gone.lines); err != nil { // it ends
		t.Error(err)
	}
	if frame := stays.frame(); frame != ": still here\n" {
		t.Errorf("frame %q", frame)
	}
}

// Streams do not use up the connections: one too many is told to come again, and has room
// when another one has ended.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	c, s := served(t, newHome(t, ""))
	first := c.follow("", "")
	for range maxStreams - 1 {
		c.follow("", "")
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.address+Prefix+"/events/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	if kind := w.Header.Get("Content-Type"); w.StatusCode != http.StatusServiceUnavailable || w.Header.Get("Retry-After") == "" || kind != "application/problem+json" {
		t.Errorf("one too many: status %d, %s, %v", w.StatusCode, kind, w.Header)
	}
	c.create(1) // requests go on
	first.close()
	for len(s.open) == maxStreams {
		select {
		case <-t.Context().Done():
			t.Fatal("the stream never ends")
		case <-time.After(10 * time.Millisecond):
		}
	}
	c.follow("", "")
}

// Events that were archived are read as others are. An archive that is damaged is named.
func TestArchivedEvents(t *testing.T) {
	t.Parallel()
	c, s := served(t, newHome(t, ""))
	c.create(2)
	db, err := s.back.Home.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(48 * time.Hour)
	if days, err := store.Archive(t.Context(), db, now, time.Hour, core.Producer{Service: "otm", Version: "1"}); len(days) == 0 || err != nil {
		t.Fatalf("archived %v, %v", days, err)
	}
	if live, err := db.Events(t.Context(), core.EventFilter{}); len(live) != 0 || err != nil {
		t.Fatalf("not archived: %v, %v", live, err)
	}
	if all := c.allEvents(); !slices.Equal(all, []int64{1, 2}) {
		t.Errorf("events %v", all)
	}
	f := c.follow("?after=0", "")
	for want := int64(1); want <= 2; want++ {
		if id, _ := f.next(); id != want {
			t.Errorf("event %d, want %d", id, want)
		}
	}
	files, err := filepath.Glob(filepath.Join(c.home.Dir, store.ArchiveDir, "events-*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte("edited"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/events", "/events/stream?after=0"} {
		c.refused(http.StatusServiceUnavailable, "GET", path, nil, "is damaged", `"hints":["put `)
	}
	c.follow("", "") // what is new needs no archive
}

// pipes is a listener with connections that buffer nothing.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A reader that stalls holds up neither another one nor who asks for changes, and is dropped
// after a while.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	c, s := served(t, newHome(t, ""))
	s.sendTime = 50 * time.Millisecond
	listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- loopback.Serve(ctx, listener, s.guard(), slog.New(slog.DiscardHandler))
	}()
	here, there := net.Pipe()
	listener.conns <- there
	defer here.Close()
	follow := c.follow("", "")
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+Prefix+"/events/stream", nil)
	r.Header.Set("Authorization", "Bearer "+c.token)
	if err := r.Write(here); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReaderSize(here, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	// From here on, it reads nothing.
	c.create(5)
	for want := int64(1); want <= 5; want++ {
		if id, _ := follow.next(); id != want {
			t.Errorf("event %d, want %d", id, want)
		}
	}
	for len(s.open) > 1 {
		select {
		case <-t.Context().Done():
			t.Fatal("the stalled reader is never dropped")
		case <-time.After(10 * time.Millisecond):
		}
	}
	io.Copy(io.Discard, here) // the server closed it
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
