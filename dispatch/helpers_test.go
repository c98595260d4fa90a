package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"otm/core"
	"otm/core/store/storetest"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/pipeline"
)

// clock is the real one with an offset, so that it never stands still.
type clock struct{ offset atomic.Int64 }

func (c *clock) Now() time.Time { return time.Now().UTC().Add(time.Duration(c.offset.Load())) }

func (c *clock) Advance(d time.Duration) { c.offset.Add(int64(d)) }

// world is a data directory with a real store, a board that the tests play, and a
// dispatcher.
type world struct {
	*testing.T
	dir    string
	clock  *clock
	store  engine
	board  *board
	agents pipeline.Agents
	waker  *recorder
	log    *logBuffer
	d      *Dispatcher
	last   pipeline.TaskID
	drops  int
}

// newWorld makes a world with agents of the given names, each with a workspace
// of its own and woken by the recorder over "the gateway"; a name with a "+" in
// front is a person's.
func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	dir := t.TempDir()
	return newWorldOn(t, dir, storetest.OpenIn(t, dir), names...)
}

// newWorldOn is newWorld on a store, for a data directory.
func newWorldOn(t *testing.T, dir string, s engine, names ...string) *world {
	t.Helper()
	w := &world{T: t, dir: dir, clock: &clock{}, store: s, waker: &recorder{}, log: &logBuffer{}}
	w.board = &board{store: w.store, now: w.clock.Now}
	for _, name := range names {
		a := pipeline.Agent{Name: name, Label: name, GatewayAgent: name, Trigger: pipeline.TriggerGateway}
		if person, ok := strings.CutPrefix(name, "+"); ok {
			a = pipeline.Agent{Name: person, Label: person, Person: true, Trigger: pipeline.TriggerNone}
		} else {
			a.Workspace = filepath.Join(t.TempDir(), "work space of "+name)
			if err := os.Mkdir(a.Workspace, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		w.agents = append(w.agents, a)
	}
	w.restart()
	return w
}

// restart replaces the dispatcher by a new one, as a new process does.
func (w *world) restart() {
	w.d = newDispatcher(w.dir, w.store, w.board, w.agents, w.clock.Now, slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	w.d.Entries.patience = 10 * time.Minute // nothing hangs, however busy the machine is
	w.d.Wakers[pipeline.TriggerGateway] = w.waker
}

// engine is a store with its outbox.
type engine interface {
	core.Store
	core.Outbox
}

func newDispatcher(dir string, s engine, b *board, agents pipeline.Agents, now func() time.Time, log *slog.Logger) *Dispatcher {
	entries := &Entries{Dir: dir, Store: s, Times: pipeline.DefaultTimes, Now: now, Log: log}
	return &Dispatcher{
		Dir: dir, Store: s, Outbox: s, Entries: entries, Agents: agents, Times: pipeline.DefaultTimes, Now: now, Log: log,
		Wakers: map[pipeline.Trigger]Waker{}, Look: b.look, Deliver: newRunner(s, entries, b, now).Run,
		Carry: func(context.Context, *pipeline.Agent) (bool, error) { return false, nil }, Held: func() bool { return false }, Answered: func() {}, Progress: func() {},
	}
}

func (w *world) agent(name string) *pipeline.Agent {
	a := w.agents.Named(name)
	if a == nil {
		w.Fatalf("no agent %q", name)
	}
	return a
}

// spoken is a report whose findings are text: failures without the next step.
type spoken struct {
	*heartbeat.Report
	Dispatched, Woken int
	Failed, Given     []string // Given is what needs a person
}

func speak(r *heartbeat.Report, now time.Time) spoken {
	s := spoken{Report: r, Dispatched: r.Did[dispatched].N, Woken: r.Did[woken].N, Given: sentences(r.NeedsPerson, now)}
	for _, f := range r.Failed {
		text := f.Text(now)
		if f.Task != 0 {
			text = f.Task.String() + ": " + text
		}
		s.Failed = append(s.Failed, text)
	}
	return s
}

func sentences(found []explain.Finding, now time.Time) (list []string) {
	for _, f := range found {
		list = append(list, explain.Line(&f, now))
	}
	return list
}

// pass makes one pass.
func (w *world) pass() spoken {
	w.Helper()
	r, err := w.d.Pass(w.Context(), 0)
	if err != nil {
		w.Fatalf("pass: %v", err)
	}
	return speak(r, w.clock.Now())
}

// do carries out a command, which nothing may refuse.
func (w *world) do(c core.Command) core.Outcome {
	w.Helper()
	if c.At.IsZero() {
		c.At = w.clock.Now()
	}
	outcomes, err := w.store.Do(context.Background(), c)
	if err == nil {
		err = outcomes[0].Err
	}
	if err != nil {
		w.Fatalf("%+v: %v", c, err)
	}
	return outcomes[0]
}

// request makes a task that does not stand on the board yet.
func (w *world) request(title, agent string, priority pipeline.Priority, steps ...string) pipeline.TaskID {
	w.Helper()
	if len(steps) == 0 {
		steps = []string{pipeline.DefaultStep}
	}
	w.last++
	w.do(core.Command{ID: fmt.Sprint("create-", w.last), By: core.Actor{Kind: core.Creator}, Task: w.last, Do: core.Request{
		Task: pipeline.Task{ID: w.last, Title: title, Agent: agent, Priority: priority, Type: pipeline.Action, Steps: steps},
		Drop: "a.json", CreatedAt: w.clock.Now(),
	}})
	return w.last
}

// create makes a task that stands on the board, as injector and board sink do.
func (w *world) create(title, agent string, priority pipeline.Priority, steps ...string) pipeline.TaskID {
	w.Helper()
	id := w.request(title, agent, priority, steps...)
	w.board.write(w.Context(), w.record(id))
	if _, err := w.d.Deliver(w.Context(), id); err != nil {
		w.Fatal(err)
	}
	w.board.writes.Store(0)
	return id
}

// record is a task as the store has it.
func (w *world) record(id pipeline.TaskID) *core.Task {
	w.Helper()
	t, err := w.store.Task(context.Background(), id)
	if err != nil {
		w.Fatal(err)
	}
	return t
}

// count counts the events of a type of a task.
func (w *world) count(id pipeline.TaskID, typ string) int {
	w.Helper()
	events, err := w.store.Events(w.Context(), core.EventFilter{Task: id, Types: []string{typ}})
	if err != nil {
		w.Fatal(err)
	}
	return len(events)
}

// report is an agent's report that was applied. Steps are numbers, from 1.
func (w *world) report(id pipeline.TaskID, status pipeline.Status, steps ...int) {
	w.Helper()
	w.do(w.reported(id, status, steps...))
}

func (w *world) reported(id pipeline.TaskID, status pipeline.Status, steps ...int) core.Command {
	w.Helper()
	w.drops++
	return reportOf(w.record(id), w.clock.Now(), w.drops, status, steps...)
}

func reportOf(t *core.Task, now time.Time, drop int, status pipeline.Status, steps ...int) core.Command {
	r := core.Report{Drop: fmt.Sprint("report-", drop), Dropped: now, Status: status}
	for _, n := range steps {
		r.Steps = append(r.Steps, strconv.Itoa(n))
	}
	if status == pipeline.Blocked {
		r.Reason = "no key"
	}
	return core.Command{ID: r.Drop, At: now, By: core.ByAgent(t.Dispatch.Agent), Task: t.ID, Do: r}
}

// edit is a person's edit of a task's row, as the differ finds it.
func (w *world) edit(id pipeline.TaskID, edits ...func(*core.Edits)) {
	w.Helper()
	e := core.Edits{Seen: true}
	for _, f := range edits {
		f(&e)
	}
	w.do(core.Command{By: core.ByPerson("robin"), Task: id, Do: e})
}

func (w *world) status(s pipeline.Status) func(*core.Edits) {
	return func(e *core.Edits) { e.Status = &s }
}

// assignee assigns a task; "": to nobody.
func (w *world) assignee(name string) func(*core.Edits) {
	return func(e *core.Edits) { e.Agent = &name }
}

// deleteRow deletes the row of a task, as the differ finds it.
func (w *world) deleteRow(id pipeline.TaskID) {
	w.Helper()
	w.do(core.Command{By: core.ByPerson(""), Task: id, Do: core.LoseRow{Row: w.record(id).RowID}})
}

// boardStatus is the status that the board shows.
func (w *world) boardStatus(id pipeline.TaskID) pipeline.Status {
	w.Helper()
	return w.record(id).Shown.Status
}

// desk is where the agents of the world take their tasks.
func (w *world) desk() *Desk {
	return &Desk{Dir: w.dir, Store: w.store, Agents: w.agents, Now: w.clock.Now, Warn: func(string) {}}
}

// next takes a task for an agent; 0: none waits.
func (w *world) next(agent string) pipeline.TaskID {
	w.Helper()
	taken, err := w.desk().Next(context.Background(), w.agent(agent), false)
	if err != nil {
		w.Fatal(err)
	}
	if taken == nil {
		return 0
	}
	return taken.Task.ID
}

// edit changes a dispatch file as a program of OTM does.
func edit(ctx context.Context, dir, workspace string, now time.Time, f func(*File) error) error {
	return (&workspaces{dir: dir, lockWait: fileWait, aside: func(string, string) {}}).edit(ctx, workspace, now, f)
}

func (w *world) statePath(agent string) string {
	return (&workspaces{}).statePath(w.agents, w.agent(agent))
}

func (w *world) path(agent string) string { return filepath.Join(w.agent(agent).Workspace, FileName) }

// entries reads an agent's dispatch file as plain JSON.
func (w *world) entries(agent string) []map[string]any {
	w.Helper()
	return entriesIn(w, w.path(agent))
}

func entriesIn(t testing.TB, path string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Dispatched []map[string]any `json:"dispatched"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, data)
	}
	return file.Dispatched
}

// ids are the tasks in an agent's dispatch file, in its order.
func (w *world) ids(agent string) string {
	w.Helper()
	var ids []string
	for _, e := range w.entries(agent) {
		ids = append(ids, fmt.Sprint(e["taskId"]))
	}
	return strings.Join(ids, " ")
}

// entry is the only entry of a task in an agent's file.
func (w *world) entry(agent string, id pipeline.TaskID) map[string]any {
	w.Helper()
	var found map[string]any
	for _, e := range w.entries(agent) {
		if e["taskId"] == id.String() {
			if found != nil {
				w.Fatalf("%v stands twice in the file of %s", id, agent)
			}
			found = e
		}
	}
	if found == nil {
		w.Fatalf("%v is not in the file of %s: %v", id, agent, w.entries(agent))
	}
	return found
}

// rewrite changes an agent's file without the lock.
func (w *world) rewrite(agent string, f func(file map[string]any)) {
	w.Helper()
	data, err := os.ReadFile(w.path(agent))
	if err != nil {
		w.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		w.Fatal(err)
	}
	f(file)
	if data, err = json.MarshalIndent(file, "", "  "); err != nil {
		w.Fatal(err)
	}
	w.write(w.path(agent), data)
}

func (w *world) write(path string, data []byte) {
	w.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		w.Fatal(err)
	}
}

// want compares two values by their printed form.
func want(t testing.TB, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// words joins values with spaces.
func words(values ...any) string { return strings.TrimSuffix(fmt.Sprintln(values...), "\n") }

// recorder is a waker that records its wakes. An accepted key wakes once, as at
// the gateway.
type recorder struct {
	mu       sync.Mutex
	requests []Request
	executed []string // keys, each once
	asked    []string // keys of Ended

	answer func(context.Context, Request) error          // if set, decides; nil accepts
	ready  func()                                        // if set, called before each wake
	ended  func(key string) (core.EndStart, bool, error) // if set, what Ended says; else not ended
}

func (r *recorder) Wake(ctx context.Context, req Request) error {
	r.mu.Lock()
	r.requests = append(r.requests, req)
	answer := r.answer
	r.mu.Unlock()
	var err error
	if answer != nil {
		err = answer(ctx, req)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if (err == nil || errors.Is(err, errQueued)) && !slices.Contains(r.executed, req.Key) {
		r.executed = append(r.executed, req.Key)
	}
	return err
}

// errQueued: the wake was queued and its answer was lost.
var errQueued = fmt.Errorf("%w: it was queued", ErrLost)

func (r *recorder) Ended(_ context.Context, _ *pipeline.Agent, key string) (core.EndStart, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, key)
	if r.ended == nil {
		return core.EndStart{}, false, nil
	}
	return r.ended(key)
}

func (r *recorder) Ready(context.Context, *pipeline.Agent) error {
	if r.ready != nil {
		r.ready()
	}
	return nil
}

// keys are the keys of executed wakes.
func (r *recorder) keys() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.executed, " ")
}

func (r *recorder) set(answer func(Request) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answer = nil; answer != nil {
		r.answer = func(_ context.Context, req Request) error { return answer(req) }
	}
}

// logBuffer collects a log.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// count counts the lines at a level that hold a text.
func (b *logBuffer) count(level slog.Level, text string) int {
	n := 0
	for _, line := range strings.Split(b.String(), "\n") {
		if strings.Contains(line, "level="+level.String()) && strings.Contains(line, text) {
			n++
		}
	}
	return n
}
