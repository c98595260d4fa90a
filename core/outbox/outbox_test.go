package outbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/core/store"
	"otm/core/store/storetest"
	"otm/internal/explain"
	"otm/internal/leak"
	"otm/pipeline"
	"otm/pipeline/rendering"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirEnv); dir != "" {
		if err := runProcess(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(leak.Main(m))
}

var t0 = time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)

// fake is a sink that notes what it was given.
type fake struct {
	deliver func(p core.Pending) Result // nil: it works

	mu    sync.Mutex // guards given
	given []string
}

func (f *fake) Deliver(_ context.Context, effects []core.Pending) []Result {
	results := make([]Result, len(effects))
	for i, p := range effects {
		f.mu.Lock()
		f.given = append(f.given, fmt.Sprint(p.Sink, " ", p.Task))
		f.mu.Unlock()
		if f.deliver != nil {
			results[i] = f.deliver(p)
		}
	}
	return results
}

func (f *fake) taken() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := strings.Join(f.given, ", ")
	f.given = nil
	return s
}

// world has a store with tasks, whose board is a fake.
type world struct {
	*testing.T
	store *store.Store
	board *fake
	now   time.Time
	dir   string
}

func newWorld(t *testing.T, tasks ...pipeline.TaskID) *world {
	dir := t.TempDir()
	w := &world{T: t, store: storetest.OpenIn(t, dir), board: &fake{}, now: t0, dir: dir}
	for _, id := range tasks {
		w.do(core.Command{Task: id, At: t0, By: core.Component("otm-injector"), Do: core.Request{
			Task:      pipeline.Task{ID: id, Title: "build", Agent: "devdas", Priority: pipeline.Normal, Type: pipeline.Action, Steps: []string{"one"}},
			CreatedAt: t0,
		}})
	}
	return w
}

func (w *world) do(c core.Command) {
	w.Helper()
	o, err := w.store.Do(context.Background(), c)
	if err = errors.Join(err, o[0].Err); err != nil {
		w.Fatal(err)
	}
}

func (w *world) retitle(id pipeline.TaskID, title string) {
	w.Helper()
	w.do(core.Command{Task: id, At: t0, By: core.ByPerson("Ada"), Do: core.Edits{Title: &title}})
}

func (w *world) runner() *Runner {
	return &Runner{
		Outbox: w.store, Now: func() time.Time { return w.now }, Wait: time.Minute,
		Sinks: map[core.Sink]Deliverer{core.SinkRender: &Render{Dir: w.dir, Store: w.store}, core.SinkBoard: w.board},
	}
}

func (w *world) run(tasks ...pipeline.TaskID) map[pipeline.TaskID]error {
	w.Helper()
	left, err := w.runner().Run(context.Background(), tasks...)
	if err != nil {
		w.Fatal(err)
	}
	return left
}

func (w *world) checkTitle(id pipeline.TaskID, want string) {
	w.Helper()
	r, err := rendering.Read(w.dir, id)
	if err != nil || r.Title != want {
		w.Errorf("the rendering of %v has title %q, want %q (%v)", id, r.Title, want, err)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2, 3)
	if left := w.run(2); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if got := w.board.taken(); got != "board T-00002" {
		t.Errorf("the board was given %q", got)
	}
	w.checkTitle(2, "build")
	if left := w.run(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if got := w.board.taken(); got != "board T-00001, board T-00003" {
		t.Errorf("the board was given %q", got)
	}
	w.retitle(1, "test")
	w.run()
	w.checkTitle(1, "test")
	if w.run(); w.board.taken() != "board T-00001" {
		t.Error("the board was given something else")
	}
}

// A sink that fails for one task holds no other up, and is tried again after a pause
// that grows. What is tried now says why.
func TestFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2)
	away := errors.New("board is away")
	w.board.deliver = func(p core.Pending) Result {
		if p.Task == 1 {
			return Result{Err: away, Code: "away"}
		}
		return Result{}
	}
	if left := w.run(); len(left) != 1 || !errors.Is(left[1], away) {
		t.Errorf("left: %v", left)
	}
	w.board.taken()
	left := w.run()
	if got := w.board.taken(); got != "" || left[1] == nil || !strings.Contains(left[1].Error(), "board is away") {
		t.Errorf("before its time, the board was given %q, left: %v", got, left)
	}
	if left := w.run(1); w.board.taken() != "board T-00001" || !errors.Is(left[1], away) {
		t.Errorf("named, it was not tried again: %v", left)
	}
	pending, err := w.store.Pending(t.Context(), core.SinkBoard)
	if err != nil || len(pending) != 1 || pending[0].Tries != 2 || pending[0].Code != "away" || !pending[0].Due.Equal(t0.Add(2*time.Second)) || pending[0].Owner != "" {
		t.Errorf("pending: %+v, %v", pending, err)
	}
	w.now = t0.Add(2 * time.Second)
	w.board.deliver = nil
	if left := w.run(); len(left) > 0 || w.board.taken() != "board T-00001" {
		t.Errorf("left: %v", left)
	}
}

// A file that a sink may not write, or whose directory is missing, waits for a person: who
// waits for the effect does not wait for its next try.
func TestClosedFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	for closed, want := range map[error]bool{fs.ErrPermission: true, syscall.EACCES: true, fs.ErrNotExist: true, syscall.ENOSPC: false} {
		w.board.deliver = func(core.Pending) Result { return Result{Err: &fs.PathError{Op: "open", Path: "f", Err: closed}} }
		var left *LeftError
		if err := w.run(1)[1]; !errors.As(err, &left) || left.Person != want {
			t.Errorf("%v: left %+v, want one for a person: %t", closed, err, want)
		}
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 9: 256 * time.Second, 10: longestPause, 1000: longestPause} {
		if got := pause(tries); got != want {
			t.Errorf("after %d tries: %v, want %v", tries, got, want)
		}
	}
}

// A sink may ask for a time, and leave a try open.
func TestDueAndAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	due, asked := t0.Add(time.Minute), t0.Add(-time.Second)
	w.board.deliver = func(core.Pending) Result {
		return Result{Err: errors.New("no answer"), Due: due, Asked: asked}
	}
	w.run()
	var got core.Pending
	w.board.deliver = func(p core.Pending) Result {
		got = p
		return Result{}
	}
	w.now = due
	w.run()
	if !got.AskedAt.Equal(asked) || got.Tries != 1 {
		t.Errorf("the second try was given %+v", got)
	}
}

// An earlier sink that fails keeps the later ones of its task waiting.
func TestOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2)
	r := w.runner()
	r.Sinks[core.SinkRender] = &fake{deliver: func(p core.Pending) Result {
		if p.Task == 1 {
			return Result{Err: errors.New("disk full")}
		}
		return Result{}
	}}
	left, err := r.Run(t.Context(), 1, 2)
	if err != nil || len(left) != 1 || left[1] == nil {
		t.Errorf("left: %v, %v", left, err)
	}
	if got := w.board.taken(); got != "board T-00002" {
		t.Errorf("the board was given %q", got)
	}
}

// The task changes while it is delivered: it is delivered again.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	changes := 0
	w.board.deliver = func(core.Pending) Result {
		if changes++; changes < 3 {
			w.retitle(1, fmt.Sprint("title ", changes))
		}
		return Result{}
	}
	if left := w.run(1); len(left) > 0 || changes != 3 {
		t.Errorf("left: %v after %d deliveries", left, changes)
	}
	w.checkTitle(1, "title 2")
	w.board.deliver = func(core.Pending) Result {
		changes++
		w.retitle(1, fmt.Sprint("title ", changes))
		return Result{}
	}
	w.retitle(1, "endless")
	if left := w.run(1); !errors.Is(left[1], errChanging) {
		t.Errorf("left: %v", left)
	}
}

// Another process delivers to a task: Run waits for it, and takes over if it died.
func TestOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	other, err := w.store.Lease(t.Context(), core.SinkRender, "other", t0, time.Minute, 0)
	if err != nil || len(other) != 1 {
		t.Fatalf("leased: %v, %v", other, err)
	}
	ran := make(chan map[pipeline.TaskID]error)
	go func() { ran <- w.run(1) }()
	w.retitle(1, "meanwhile")
	if err := w.store.Delivered(t.Context(), other...); err != nil {
		t.Fatal(err)
	}
	if left := <-ran; len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	w.checkTitle(1, "meanwhile")

	w.retitle(1, "it dies")
	if _, err := w.store.Lease(t.Context(), core.SinkRender, "other", t0, time.Minute, 0); err != nil {
		t.Fatal(err)
	}
	w.now = t0.Add(time.Hour)
	if left := w.run(1); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	w.checkTitle(1, "it dies")
}

// A long delivery keeps its lease.
func TestRenewal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.run() // the rendering is delivered
	w.retitle(1, "again")
	r := w.runner()
	r.Lease, r.Now = 300*time.Millisecond, time.Now
	r.Sinks[core.SinkRender] = nil
	delete(r.Sinks, core.SinkRender)
	if err := w.store.Delivered(t.Context(), mustLease(t, w, core.SinkRender)...); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	w.board.deliver = func(p core.Pending) Result {
		for time.Since(begun) < 2*r.Lease {
			renewed, err := w.store.Pending(context.Background(), core.SinkBoard)
			if err != nil || len(renewed) != 1 || renewed[0].Owner != p.Owner {
				t.Errorf("the lease: %+v, %v", renewed, err)
			}
		}
		return Result{}
	}
	if _, err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func mustLease(t *testing.T, w *world, sink core.Sink) []core.Pending {
	t.Helper()
	leased, err := w.store.Lease(context.Background(), sink, "test", w.now, time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	return leased
}

// A run that is stopped counts no failure.
func TestStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	w.board.deliver = func(core.Pending) Result {
		cancel()
		return Result{Err: context.Canceled, Asked: t0}
	}
	if _, err := w.runner().Run(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("the run ended with %v", err)
	}
	pending, err := w.store.Pending(t.Context(), core.SinkBoard)
	if err != nil || len(pending) != 1 || pending[0].Tries != 0 || pending[0].Owner != "" || !pending[0].AskedAt.Equal(t0) {
		t.Errorf("pending: %+v, %v", pending, err)
	}
}

// A sink that has no time goes on at once, and that is no failed try.
func TestAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	n := 0
	w.board.deliver = func(core.Pending) Result {
		if n++; n <= 3*maxTimes {
			return Result{Err: fmt.Errorf("short: %w", ErrAgain)}
		}
		return Result{}
	}
	if left := w.run(); len(left) > 0 || n != 3*maxTimes+1 {
		t.Errorf("left: %v after %d deliveries", left, n)
	}
}

// A sink that fails for all is left alone for the rest of the run.
func TestStop(t *testing.T) {
	t.Parallel()
	var ids []pipeline.TaskID
	for id := range pipeline.TaskID(2*batch + 1) {
		ids = append(ids, id+1)
	}
	w := newWorld(t, ids...)
	w.board.deliver = func(core.Pending) Result { return Result{Err: errors.New("away"), Stop: true} }
	left := w.run(ids...)
	if len(left) != len(ids) || left[ids[batch]] == nil || left[ids[batch]].Error() != "away" {
		t.Errorf("left: %v", left)
	}
	if n := len(w.board.given); n != batch {
		t.Errorf("%d effects were tried", n)
	}
	w.checkTitle(ids[len(ids)-1], "build")
}

// People are told of an effect that fails for a minute, or that nobody tries. A board
// that is away fails for all tasks, and is told of once.
func TestLate(t *testing.T) {
	t.Parallel()
	fails := core.Pending{Task: 1, Sink: core.SinkBoard, Since: t0, Tries: 3, Error: "board is away", Code: "away"}
	waits := core.Pending{Task: 2, Sink: core.SinkEntry, Since: t0}
	later, other := fails, fails
	later.Task, later.Since = 3, t0.Add(time.Second)
	other.Task, other.Code, other.Error = 4, "no_option", "there is no option x"
	for name, c := range map[string]struct {
		after   time.Duration
		pending []core.Pending
		want    string
	}{
		"at once":        {time.Second, []core.Pending{fails, waits}, ""},
		"after a minute": {time.Minute, []core.Pending{fails, waits}, "T-00001: the board does not show it as it is since 2026-11-29T09:00:00Z, after 3 tries: board is away"},
		"after an hour": {time.Hour, []core.Pending{fails, waits}, "T-00001: the board does not show it as it is since 2026-11-29T09:00:00Z, after 3 tries: board is away; " +
			"T-00002: the dispatch file does not show it as it is since 2026-11-29T09:00:00Z, and its turn has not come"},
		"several": {time.Hour, []core.Pending{later, fails, other}, "the board does not show 2 tasks as they are, the first since 2026-11-29T09:00:00Z: board is away; " +
			"T-00004: the board does not show it as it is since 2026-11-29T09:00:00Z, after 3 tries: there is no option x"},
		"several wait": {time.Hour, []core.Pending{waits, {Task: 9, Sink: core.SinkEntry, Since: t0}},
			"the dispatch file does not show 2 tasks as they are, the first since 2026-11-29T09:00:00Z, and their turn has not come"},
	} {
		var texts []string
		for _, f := range Late(c.pending, t0.Add(c.after)) {
			texts = append(texts, explain.Sentence(&f, t0.Add(c.after)))
		}
		if got := strings.Join(texts, "; "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A sink that fails before it could look for an unanswered try leaves the question open.
func TestAskedIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	asked := t0.Add(-time.Second)
	var got []time.Time
	w.board.deliver = func(p core.Pending) Result {
		got = append(got, p.AskedAt)
		switch len(got) {
		case 1:
			return Result{Err: errors.New("no answer"), Asked: asked}
		case 2:
			return Result{Err: errors.New("board held")}
		case 3:
			return Result{Err: fmt.Errorf("short: %w", ErrAgain)}
		}
		return Result{}
	}
	for range 3 {
		w.run(1)
	}
	if len(got) != 4 || !got[0].IsZero() || !got[1].Equal(asked) || !got[2].Equal(asked) || !got[3].Equal(asked) {
		t.Errorf("the tries were given %v", got)
	}
}
