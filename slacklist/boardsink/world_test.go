package boardsink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/core"
	"otm/core/coretest"
	"otm/internal/board/boardtest"
	"otm/pipeline"
	"otm/slacklist"
	"otm/slacklist/differ"
)

const (
	apiList   = "slackLists.items.list"
	apiCreate = "slackLists.items.create"
	apiUpdate = "slackLists.items.update"
	apiDelete = "slackLists.items.deleteMultiple"
	apiInfo   = "slackLists.items.info"
)

// clock is a clock that only moves when it is told to. It begins now, as the times of
// the board's edits are the machine's.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

var agents = pipeline.Agents{
	{Name: "devdas", Label: "Dev Das", User: "U0DEVDAS"}, {Name: "archibald", Label: "archibald"}, {Name: "olga", Label: "olga", Person: true},
}

// world is a store and a board, with a sink and a differ between them.
type world struct {
	*boardtest.Board
	t      testing.TB
	clock  *clock
	dir    string
	store  *coretest.Store
	client pipeline.Board
	sink   *Sink
	differ *differ.Differ
	found  differ.Found // of the last comparison
	lastID pipeline.TaskID
	drops  map[pipeline.TaskID]pipeline.Dropped
	log    *strings.Builder
	eye    *slacklist.Client // of those who look at the board
	wrap   func(pipeline.Board) pipeline.Board
}

func newWorld(t testing.TB, options ...boardtest.Option) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), clock: &clock{at: time.Now().Round(0)}, store: &coretest.Store{}, lastID: 100, drops: map[pipeline.TaskID]pipeline.Dropped{}, log: &strings.Builder{}}
	w.Board = boardtest.Start(t, append(options, func(o *boardtest.Options) { o.Now = w.clock.Now })...)
	w.restart()
	return w
}

// restart makes the sink and the differ those of another process.
func (w *world) restart() {
	w.client = slacklist.New(slacklist.Options{
		Dir: w.dir, URL: w.URL, ListID: w.ListID, Token: w.Token, OpenAssignees: true, SettleAfter: pipeline.DefaultTimes.SettleAfter, Now: w.clock.Now,
	})
	if w.wrap != nil {
		w.client = w.wrap(w.client)
	}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	w.differ = &differ.Differ{
		Store: w.store, Agents: agents, Times: pipeline.DefaultTimes, By: core.Component("otm-dispatcher"), Log: log, Now: w.clock.Now,
		NewID: func(context.Context) (pipeline.TaskID, error) { w.lastID++; return w.lastID, nil },
		Drops: func() (map[pipeline.TaskID]pipeline.Dropped, error) { return w.drops, nil },
	}
	w.sink = &Sink{
		Store: w.store, Agents: agents, Times: pipeline.DefaultTimes, By: core.Component("otm-injector"), Log: log, Now: w.clock.Now,
		Look: func(ctx context.Context, b pipeline.Batch) error {
			found, err := w.differ.Run(ctx, b)
			if err == nil {
				w.found = found
			}
			return err
		},
	}
}

// deliver delivers what is due, as a runner does, and returns what is not delivered, by
// task.
func (w *world) deliver(ctx context.Context) (map[pipeline.TaskID]Result, error) {
	b, err := w.client.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer b.End()
	return w.deliverIn(ctx, b)
}

func (w *world) deliverIn(ctx context.Context, b pipeline.Batch) (map[pipeline.TaskID]Result, error) {
	effects, err := w.store.Lease(ctx, core.SinkBoard, "test", w.clock.Now(), 15*time.Second, 0)
	if err != nil {
		return nil, err
	}
	results := w.sink.Deliver(ctx, b, effects)
	left := map[pipeline.TaskID]Result{}
	var done, later []core.Pending
	for i, r := range results {
		p := effects[i]
		if r.Err == nil {
			done = append(done, p)
			continue
		}
		left[p.Task] = r
		p.Due, p.Error, p.Code = r.Due, r.Err.Error(), r.Code
		if r.Asked.After(p.AskedAt) {
			p.AskedAt = r.Asked
		}
		p.Tries++
		later = append(later, p)
	}
	ctx = context.WithoutCancel(ctx)
	return left, errors.Join(w.store.Delivered(ctx, done...), w.store.Postponed(ctx, later...))
}

// delivers is deliver where the store works.
func (w *world) delivers() map[pipeline.TaskID]Result {
	w.t.Helper()
	left, err := w.deliver(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return left
}

// compare walks the board and compares it with the store.
func (w *world) compare() differ.Found {
	w.t.Helper()
	b, err := w.client.Begin(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	defer b.End()
	if err := b.Refresh(context.Background(), 0); err != nil {
		w.t.Fatal(err)
	}
	if w.found, err = w.differ.Run(context.Background(), b); err != nil {
		w.t.Fatal(err)
	}
	return w.found
}

func (w *world) pending() []core.Pending {
	w.t.Helper()
	p, err := w.store.Pending(context.Background(), core.SinkBoard)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// create asks for a task, as a drop does.
func (w *world) create(id pipeline.TaskID, title string, steps ...string) {
	w.t.Helper()
	w.drops[id] = pipeline.Dropped{Steps: steps}
	w.store.Request(context.Background(), w.clock.Now(), pipeline.Task{
		ID: id, Title: title, Agent: "devdas", Priority: pipeline.High, Project: "prj", Type: pipeline.Review, Steps: steps,
	})
}

// do carries one command out.
func (w *world) do(by core.Actor, id pipeline.TaskID, do core.Action) {
	w.t.Helper()
	o, err := w.store.Do(context.Background(), core.Command{At: w.clock.Now(), By: by, Task: id, Do: do})
	if err == nil {
		err = o[0].Err
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) handOut(id pipeline.TaskID) {
	w.t.Helper()
	w.do(core.Component("otm-dispatcher"), id, core.HandOut{Agent: "devdas", Workspace: "/w"})
}

func (w *world) report(id pipeline.TaskID, r core.Report) {
	w.t.Helper()
	r.Dropped = w.clock.Now()
	w.do(core.ByAgent("devdas"), id, r)
}

func (w *world) task(id pipeline.TaskID) *core.Task {
	w.t.Helper()
	t, err := w.store.Task(context.Background(), id)
	if err != nil {
		w.t.Fatal(id, err)
	}
	return t
}

// person edits a row on the board's page, some time after what was before.
func (w *world) person(row string, cells ...boardtest.Cell) {
	w.t.Helper()
	w.clock.Advance(pipeline.StatusAge + time.Second)
	if err := w.Server.EditRow("U0ROB", w.ListID, row, cells...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) statusCell(s pipeline.Status) boardtest.Cell {
	return boardtest.SelectCell(w.Column(w.t, "Status", "select"), string(s))
}

func (w *world) text(column, text string) boardtest.Cell {
	return boardtest.TextCell(w.Column(w.t, column, "text"), text)
}

// rows are all rows as the board has them now, by id, oldest first.
func (w *world) rows() []pipeline.Row {
	w.t.Helper()
	if w.eye == nil { // which neither faults meet nor counts
		web := httptest.NewServer(w.Server.Handler())
		w.t.Cleanup(web.Close)
		w.eye = slacklist.New(slacklist.Options{Dir: w.t.TempDir(), URL: web.URL + "/api/", ListID: w.ListID, Token: w.Token})
	}
	s, err := w.eye.Look(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Rows
}

// row is the one row with a Task ID.
func (w *world) row(id pipeline.TaskID) pipeline.Row {
	w.t.Helper()
	var found []pipeline.Row
	for _, r := range w.rows() {
		if r.Task() == id {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		w.t.Fatalf("%d rows of %v, want 1", len(found), id)
	}
	return found[0]
}

// check holds all rows against all tasks: each has one row, with its steps once and in
// order and nothing else below it, and every cell that OTM writes shows the task.
func (w *world) check() {
	w.t.Helper()
	rows := map[string]pipeline.Row{}
	left := map[string]bool{}
	for _, r := range w.rows() {
		rows[r.ID], left[r.ID] = r, true
	}
	tasks, err := w.store.Tasks(context.Background(), core.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, t := range tasks {
		if t.Away() {
			continue
		}
		row, there := rows[t.RowID]
		if !there {
			w.t.Errorf("%v has no row (%q)", t.ID, t.RowID)
			continue
		}
		delete(left, row.ID)
		shown, view := differ.Showing(&row, agents), t.View()
		if t.Status == pipeline.Cancelled { // what a person cancelled is left alone
			shown.Derived = view.Derived
		}
		for field, text := range shown.Derived { // an empty text leaves the cell as it is, so a time whose answer was lost may stand there
			if view.Derived[field] == "" && slices.Contains(w.times(t.ID), text) {
				delete(shown.Derived, field)
			}
		}
		if got, want := fmt.Sprint(said(shown)), fmt.Sprint(said(view)); got != want {
			w.t.Errorf("%v shows\n%s\nwant\n%s", t.ID, got, want)
		}
		for _, s := range t.Steps {
			step, there := rows[s.RowID]
			if !there || step.Parent != row.ID || step.Title != s.Title || step.StepDone() != s.Done || !left[step.ID] {
				w.t.Errorf("%v: step %+v shows %+v", t.ID, s, step)
			}
			delete(left, step.ID)
		}
	}
	for id := range left {
		w.t.Errorf("no task has the row %+v", rows[id])
	}
	w.rebuilt(tasks)
}

// times are the times, as the board shows them, at which something happened to a task.
func (w *world) times(id pipeline.TaskID) (all []string) {
	events, err := w.store.Events(context.Background(), core.EventFilter{Task: id})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range events {
		all = append(all, e.At.UTC().Format(time.RFC3339))
	}
	return all
}

// said is what a row shows, without pointers.
func said(s core.Shown) string {
	derived := map[pipeline.Field]string{} // of the columns that the embedded board has
	for _, field := range []pipeline.Field{pipeline.FieldRemaining, pipeline.FieldCompletion, pipeline.FieldAssignedAt, pipeline.FieldCompletedAt} {
		derived[field], _, _ = strings.Cut(s.Derived[field], ".") // without parts of seconds
		derived[field] = strings.TrimSuffix(derived[field], "Z")
	}
	return fmt.Sprint(s.TaskID, "|", s.Title, "|", s.Agent, "|", s.Priority, "|", s.Project, "|", s.Type, "|", s.Status, "|", s.Reason, "|", s.Result, "|", derived, "|", s.Checked)
}

// rebuilt checks that the states follow from the events.
func (w *world) rebuilt(tasks []*core.Task) {
	w.t.Helper()
	again := w.store.Rebuilt()
	for _, t := range tasks {
		if r := again[t.ID]; r == nil || fmt.Sprintf("%+v", r.View()) == "" || r.Version != t.Version || said(r.Shown) != said(t.Shown) {
			w.t.Errorf("%v, rebuilt from its events: %+v, is %+v", t.ID, r, t)
		}
	}
}

// calls are the methods called since the last Faults.Reset, with their numbers.
func (w *world) calls() string {
	n := map[string]int{}
	for _, c := range w.Faults.Calls() {
		n[strings.TrimPrefix(c.Method, "slackLists.items.")]++
	}
	var parts []string
	for _, m := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprint(m, " ", n[m]))
	}
	return strings.Join(parts, ", ")
}

func titleOf(id pipeline.TaskID) string { return fmt.Sprint("Task ", int(id)) }

// codes are the codes of results, by task.
func codes(left map[pipeline.TaskID]Result) string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(left)) {
		code := left[id].Code
		if left[id].Person {
			code += " (person)"
		}
		parts = append(parts, fmt.Sprint(int(id), " ", code))
	}
	return strings.Join(parts, ", ")
}
