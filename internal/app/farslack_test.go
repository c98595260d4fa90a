package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

// farSlack is a Slack in virtual time: the embedded board with Slack's limits,
// at the far end of a line that takes its time. It has no sockets, as time
// stands still in a bubble of testing/synctest while anybody waits for one.
type farSlack struct {
	*boardtest.Server
	called chan struct{} // gets a value with each call

	mu    sync.Mutex // guards what follows
	dice  *rand.Rand
	calls map[string]*tally
}

// tally is what is known of the calls of one method.
type tally struct {
	total   int
	atWork  float64     // of them, those in people's hours
	refused int         // by the rate limit
	most    int         // within any minute
	recent  []time.Time // within the last minute
}

// How long a call is under way to Slack, and its answer back: 200 to 500 ms
// together.
const (
	wayMin    = 100 * time.Millisecond
	waySpread = 150 * time.Millisecond
)

// newFarSlack makes one whose list holds up to rowLimit rows, 0 meaning any
// number, and knows the agents. All calls of this process lead there until the
// test ends, so that the test must not be parallel.
func newFarSlack(t *testing.T, dir string, rowLimit int, agents []string) *farSlack {
	t.Helper()
	server, err := boardtest.Open(boardtest.Options{
		Options: board.Options{Dir: filepath.Join(dir, "far"), Limits: &board.Limits{}, RowLimit: rowLimit},
		Quirks:  boardtest.Quirks{VisibleAfter: 2 * time.Second}, FixedAssignees: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &farSlack{Server: server, called: make(chan struct{}, 1), dice: rand.New(rand.NewPCG(1, 2)), calls: map[string]*tally{}}
	for _, name := range agents {
		if err := server.AddOption("", server.ListID(), f.column(t, "Assignee"), name, name); err != nil {
			t.Fatal(err)
		}
	}
	l := &wire{conns: make(chan net.Conn), closed: make(chan struct{})}
	web := &http.Server{Handler: f}
	var served sync.WaitGroup
	served.Go(func() { web.Serve(l) })
	usual := http.DefaultTransport
	http.DefaultTransport = &http.Transport{DialContext: l.dial, DisableKeepAlives: true} // clients of the board copy it
	t.Cleanup(func() {
		http.DefaultTransport = usual
		web.Close()
		served.Wait()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *farSlack) column(t *testing.T, name string) string {
	t.Helper()
	columns, err := f.Columns(f.ListID())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(columns, func(c boardtest.Column) bool { return c.Name == name && c.Type != "todo_assignee" })
	if i < 0 {
		t.Fatalf("no column %q", name)
	}
	return columns[i].ID
}

// ServeHTTP is one call, with its way there and back.
func (f *farSlack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(f.way()) // in virtual time, in which nobody waits
	answer := httptest.NewRecorder()
	f.Handler().ServeHTTP(answer, r)
	f.count(path.Base(r.URL.Path), answer.Code == http.StatusTooManyRequests)
	time.Sleep(f.way()) // the same
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

// rows is how many rows the list holds, as seen from the far end.
func (f *farSlack) rows(t *testing.T) int {
	form := url.Values{"file": {f.ListID()}}
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/api/files.info", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+f.Token())
	answer := httptest.NewRecorder()
	f.Handler().ServeHTTP(answer, r)
	var info struct {
		File struct {
			Limits struct {
				Rows int `json:"row_count"`
			} `json:"list_limits"`
		} `json:"file"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &info); err != nil || info.File.Limits.Rows == 0 && !strings.Contains(answer.Body.String(), `"ok":true`) {
		t.Errorf("files.info: %v: %.200s", err, answer.Body)
	}
	return info.File.Limits.Rows
}

func (f *farSlack) way() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return wayMin + time.Duration(f.dice.Int64N(int64(waySpread)))
}

func (f *farSlack) count(method string, refused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.calls[method]
	if c == nil {
		c = &tally{}
		f.calls[method] = c
	}
	now := time.Now()
	c.total++
	if untilWork() == 0 {
		c.atWork++
	}
	if refused {
		c.refused++
	}
	c.recent = append(slices.DeleteFunc(c.recent, func(at time.Time) bool { return now.Sub(at) >= time.Minute }), now)
	c.most = max(c.most, len(c.recent))
	select {
	case f.called <- struct{}{}:
	default:
	}
}

// slacksLimits are the calls a minute of the methods that OTM calls often
// (facts/slack-lists.md, 1.1).
var slacksLimits = map[string]int{
	"slackLists.items.create": 50, "slackLists.items.update": 50, "slackLists.items.list": 20, "slackLists.items.deleteMultiple": 20,
}

// overLimits says which methods were called more often than Slack allows, as
// the board counts, whose bucket fills evenly, and within any minute, which is
// how a stricter server might count; "": none.
func (f *farSlack) overLimits() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	said := ""
	for method, c := range f.calls {
		if limit := slacksLimits[method]; c.refused > 0 || limit > 0 && c.most > limit {
			said += fmt.Sprintf(" %s: %d of %d refused, %d in one minute;", method, c.refused, c.total, c.most)
		}
	}
	return said
}

// wire is a listener without sockets.
type wire struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, errors.New("the far end is closed")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *wire) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *wire) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *wire) Addr() net.Addr { return &net.TCPAddr{} }
