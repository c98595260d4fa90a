package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"otm/heartbeat"
	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/explain"
	"otm/pipeline"
	files "otm/pipeline/task"
	"otm/slacklist"
)

// clock is the real one with an offset, so that it never stands still.
type clock struct{ offset atomic.Int64 }

func (c *clock) Now() time.Time { return time.Now().UTC().Add(time.Duration(c.offset.Load())) }

func (c *clock) Advance(d time.Duration) { c.offset.Add(int64(d)) }

// world is a data directory, a real board in front of it, and a dispatcher.
type world struct {
	*testing.T
	dir    string
	clock  *clock
	board  *boardtest.Board
	client *slacklist.Client
	store  *files.Store
	agents pipeline.Agents
	waker  *recorder
	log    *logBuffer
	d      *Dispatcher
	last   pipeline.TaskID
}

// newWorld makes a world with agents of the given names, each with a workspace
// of its own and woken by the recorder over "the gateway"; a name with a "+" in
// front is a person's.
func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir(), clock: &clock{}, board: boardtest.Start(t), waker: &recorder{}, log: &logBuffer{}}
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

// restart replaces client and dispatcher by new ones, as a new process does.
func (w *world) restart() {
	w.client = slacklist.New(slacklist.Options{
		Dir: w.dir, URL: w.board.URL, ListID: w.board.ListID, Token: w.board.Token, OpenAssignees: true, Now: w.clock.Now,
	})
	w.store = files.Open(w.dir, nil)
	w.d = &Dispatcher{
		Dir: w.dir, Board: w.client, Records: w.store, Agents: w.agents, Times: pipeline.DefaultTimes, Now: w.clock.Now,
		Wakers: map[pipeline.Trigger]Waker{pipeline.TriggerGateway: w.waker}, NewID: newID(w.store),
		files: &workspaces{dir: w.dir, wait: 10 * time.Minute}, // nothing hangs, however busy the machine is
		Log:   slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// newID takes ids from the counter.
func newID(store *files.Store) func(context.Context) (pipeline.TaskID, error) {
	return func(ctx context.Context) (pipeline.TaskID, error) {
		counter, err := store.Counter(ctx)
		if err != nil {
			return 0, err
		}
		defer counter.Release()
		return counter.Take(1)
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

// pass makes one pass with a fresh snapshot of the board.
func (w *world) pass() spoken {
	w.Helper()
	r, err := w.d.Pass(w.Context(), 0)
	if err != nil {
		w.Fatalf("pass: %v", err)
	}
	return speak(r, w.clock.Now())
}

// onBoard does something in a batch.
func (w *world) onBoard(f func(b pipeline.Batch) error) {
	w.Helper()
	b, err := w.client.Begin(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if err := errors.Join(f(b), b.End()); err != nil {
		w.Fatal(err)
	}
}

// create puts a task on the board and writes its record, as the injector does.
func (w *world) create(title, agent string, priority pipeline.Priority, steps ...string) pipeline.TaskID {
	w.Helper()
	return w.createAs(w.last+1, title, agent, priority, steps...)
}

func (w *world) createAs(id pipeline.TaskID, title, agent string, priority pipeline.Priority, steps ...string) pipeline.TaskID {
	w.Helper()
	if len(steps) == 0 {
		steps = []string{pipeline.DefaultStep}
	}
	rec := pipeline.Record{
		TaskID: id, DropID: fmt.Sprintf("drop-%d", id), Title: title, Agent: agent, Priority: priority,
		Type: pipeline.Action, Status: pipeline.New, CreatedAt: w.clock.Now(),
	}
	w.onBoard(func(b pipeline.Batch) (err error) {
		rec.RowID, err = b.Create(w.Context(), "",
			pipeline.Cell{Field: pipeline.FieldTitle, Text: title}, pipeline.Cell{Field: pipeline.FieldTaskID, Text: id.String()},
			pipeline.Cell{Field: pipeline.FieldType, Text: "action"}, pipeline.Cell{Field: pipeline.FieldAssignee, Text: agent},
			pipeline.Cell{Field: pipeline.FieldPriority, Text: string(priority)}, pipeline.Cell{Field: pipeline.FieldStatus, Text: "new"},
			pipeline.Cell{Field: pipeline.FieldRemaining, Number: float64(len(steps))})
		for _, step := range steps {
			if err != nil {
				return err
			}
			s := pipeline.StepRecord{Title: step}
			s.RowID, err = b.Create(w.Context(), rec.RowID,
				pipeline.Cell{Field: pipeline.FieldTitle, Text: step}, pipeline.Cell{Field: pipeline.FieldStatus, Text: "new"})
			rec.Steps = append(rec.Steps, s)
		}
		return err
	})
	w.change(id, func(r *pipeline.Record) { *r = rec })
	w.last = max(w.last, id)
	return id
}

func (w *world) change(id pipeline.TaskID, f func(*pipeline.Record)) {
	w.Helper()
	if _, err := w.store.Change(w.Context(), id, func(r *pipeline.Record) error {
		f(r)
		return nil
	}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) record(id pipeline.TaskID) *pipeline.Record {
	w.Helper()
	r, err := w.store.Load(id)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// report applies an agent's update to the board and the record, as the
// injector does. Steps are numbers, from 1.
func (w *world) report(id pipeline.TaskID, status pipeline.Status, steps ...int) {
	w.Helper()
	rec := w.record(id)
	changes := []pipeline.Change{{Row: rec.RowID, Cells: []pipeline.Cell{{Field: pipeline.FieldStatus, Text: string(status)}}}}
	for _, n := range steps {
		changes = append(changes, pipeline.Change{Row: rec.Steps[n-1].RowID, Cells: []pipeline.Cell{
			{Field: pipeline.FieldStatus, Text: "done"}, {Field: pipeline.FieldChecked, Checked: true}}})
	}
	w.onBoard(func(b pipeline.Batch) error { return b.Update(w.Context(), changes...) })
	now := w.clock.Now()
	w.change(id, func(r *pipeline.Record) { applied(r, now, status, steps...) })
}

// applied notes an update in a record as the injector does.
func applied(r *pipeline.Record, now time.Time, status pipeline.Status, steps ...int) {
	who := pipeline.WhoAgent(r.Agent)
	r.Hear(r.Agent, now, func(h *pipeline.Heard) {
		if len(steps) > 0 {
			h.Progress = now
		}
		if status != r.Status && status != pipeline.InProgress {
			h.Ended = now
		}
		if d := r.Dispatch; d != nil && d.TakenAt == nil {
			h.Took = now
		}
	})
	for _, n := range steps {
		r.Steps[n-1].Done = true
		r.Note(now, who, "step done", r.Steps[n-1].Title)
	}
	if status != r.Status {
		r.Note(now, who, pipeline.EventStatus, fmt.Sprintf("%s to %s", r.Status, status))
		r.Status = status
	}
	if d := r.Dispatch; d != nil && d.TakenAt == nil {
		d.TakenAt, d.TakenBy = &now, "update"
	}
}

// edit is a person's edit of a task's row.
func (w *world) edit(id pipeline.TaskID, cells ...boardtest.Cell) {
	w.Helper()
	if err := w.board.Server.EditRow("", w.board.ListID, w.record(id).RowID, cells...); err != nil {
		w.Fatal(err)
	}
	if err := slacklist.TouchEdited(w.dir); err != nil {
		w.Fatal(err)
	}
}

func (w *world) status(s pipeline.Status) boardtest.Cell {
	return boardtest.SelectCell(w.board.Column(w, "Status", "select"), string(s))
}

// assignee is the cell that assigns a task; "": to nobody.
func (w *world) assignee(name string) boardtest.Cell {
	column := w.board.Column(w, "Assignee", "select")
	if name == "" {
		return boardtest.SelectCell(column)
	}
	if err := w.board.Server.AddOption("", w.board.ListID, column, name, name); err != nil {
		var refused *board.Error
		if !errors.As(err, &refused) { // it may be one already
			w.Fatal(err)
		}
	}
	return boardtest.SelectCell(column, name)
}

// boardStatus is the status of a task's row on the board itself.
func (w *world) boardStatus(id pipeline.TaskID) (s pipeline.Status) {
	w.Helper()
	w.onBoard(func(b pipeline.Batch) error {
		if err := b.Refresh(w.Context(), 0); err != nil {
			return err
		}
		if row := b.TaskRow(id); row != nil {
			s = row.CurrentStatus()
		}
		return nil
	})
	return s
}

// desk is where the agents of the world take their tasks, with nothing in the
// inbox.
func (w *world) desk() *Desk {
	return &Desk{
		Dir: w.dir, Records: w.store, Agents: w.agents, Now: w.clock.Now,
		Said:  func(pipeline.TaskID) ([]Said, error) { return nil, nil },
		Known: func(*pipeline.Agent) ([]pipeline.TaskID, error) { return w.store.IDs() },
		Warn:  func(string) {},
	}
}

// next takes a task for an agent; 0: none waits.
func (w *world) next(agent string) pipeline.TaskID {
	w.Helper()
	taken, err := w.desk().Next(w.Context(), w.agent(agent), false)
	if err != nil {
		w.Fatal(err)
	}
	if taken == nil {
		return 0
	}
	return taken.Entry.TaskID
}

// edit changes a dispatch file as a program of OTM does.
func edit(ctx context.Context, dir, workspace string, now time.Time, f func(*File) error) error {
	return (&workspaces{dir: dir}).edit(ctx, workspace, now, fileWait, f)
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

	answer func(Request) error                    // if set, decides; nil accepts
	ended  func(key string) (RunEnd, bool, error) // if set, what Ended says; else not ended
	busy   map[string]bool
}

func (r *recorder) Wake(_ context.Context, req Request) error {
	r.mu.Lock()
	r.requests = append(r.requests, req)
	answer := r.answer
	r.mu.Unlock()
	var err error
	if answer != nil {
		err = answer(req)
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

func (r *recorder) Ended(_ context.Context, key string) (RunEnd, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, key)
	if r.ended == nil {
		return RunEnd{}, false, nil
	}
	return r.ended(key)
}

func (r *recorder) Running(agent string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy[agent]
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
	r.answer = answer
}

// memRecords are records in memory, with the semantics of package task.
type memRecords struct {
	mu   sync.Mutex
	recs map[pipeline.TaskID]*pipeline.Record
	fail func(pipeline.TaskID) error // if set, what Change fails with
}

func newMemRecords() *memRecords { return &memRecords{recs: map[pipeline.TaskID]*pipeline.Record{}} }

// copyOf copies a record. It shares the times behind pointers, which nobody
// changes.
func copyOf(r *pipeline.Record) *pipeline.Record {
	c := *r
	c.Steps, c.Wakes, c.History, c.Updates = slices.Clone(r.Steps), slices.Clone(r.Wakes), slices.Clone(r.History), slices.Clone(r.Updates)
	c.Heard = maps.Clone(r.Heard)
	if r.Dispatch != nil {
		d := *r.Dispatch
		c.Dispatch = &d
	}
	return &c
}

func (m *memRecords) Load(id pipeline.TaskID) (*pipeline.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.recs[id]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return copyOf(r), nil
}

func (m *memRecords) IDs() ([]pipeline.TaskID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.recs)), nil
}

func (m *memRecords) Change(_ context.Context, id pipeline.TaskID, f func(*pipeline.Record) error) (*pipeline.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &pipeline.Record{TaskID: id}
	if old, ok := m.recs[id]; ok {
		r = copyOf(old)
	}
	if err := f(r); errors.Is(err, pipeline.ErrUnchanged) {
		return r, nil
	} else if err != nil {
		return nil, err
	}
	if m.fail != nil {
		if err := m.fail(id); err != nil {
			return nil, err
		}
	}
	m.recs[id] = r
	return copyOf(r), nil
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
