package inject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/core/store"
	"otm/core/store/storetest"
	"otm/heartbeat"
	"otm/internal/board/boardtest"
	"otm/internal/engine"
	"otm/pipeline"
	"otm/pipeline/counter"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

const (
	listMethod   = "slackLists.items.list"
	createMethod = "slackLists.items.create"
	updateMethod = "slackLists.items.update"
	infoMethod   = "slackLists.items.info"
)

// clock is a clock that only moves when it is told to. It begins now, as the
// times of files are the machine's.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now().Round(0)} }

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

// agents are two AI agents and a person.
var agents = pipeline.Agents{
	{Name: "devdas", Label: "devdas"}, {Name: "archibald", Label: "archibald"}, {Name: "olga", Label: "olga", Person: true},
}

// world is a data directory, a board and an injector between them.
type world struct {
	*boardtest.Board
	t     *testing.T
	clock *clock
	dir   string
	box   *inbox.Box
	store *store.Store
	eng   *engine.Engine // of w.in
	in    *Injector
	times pipeline.Times
	drops int
	log   *strings.Builder
	eye   *slacklist.Client // of those who look at the board
}

func newWorld(t *testing.T, options ...boardtest.Option) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), clock: newClock(), times: pipeline.DefaultTimes, log: &strings.Builder{}}
	w.Board = boardtest.Start(t, append(options, func(o *boardtest.Options) { o.Now = w.clock.Now })...)
	w.box = inbox.Open(w.dir)
	w.store = storetest.OpenIn(t, w.dir)
	w.restart()
	return w
}

// newInjector returns an injector as another process would have it, with its engine.
func (w *world) newInjector(now func() time.Time) (*Injector, *engine.Engine) {
	log := slog.New(slog.NewTextHandler(w.log, nil))
	e := newEngine(w.dir, w.store, w.clientAt(now), w.times, log, now)
	return &Injector{Box: w.box, Engine: e, Agents: agents, Times: w.times, Log: log, Now: now}, e
}

func newEngine(dir string, s *store.Store, b pipeline.Board, times pipeline.Times, log *slog.Logger, now func() time.Time) *engine.Engine {
	return &engine.Engine{
		Store: selective{s}, Outbox: s, Board: b, Agents: agents, Times: times, By: core.Component(Who), Log: log, Now: now,
		Counter: counter.Open(dir, nil), Drops: func() (map[pipeline.TaskID]pipeline.Dropped, error) { return inbox.Drops(dir) },
		Render: &outbox.Render{Dir: dir, Store: s}, Entries: noEntries{},
	}
}

// selective is a store that panics if somebody asks for all its tasks: a sweep takes no
// longer for the finished ones.
type selective struct{ *store.Store }

func (s selective) Tasks(ctx context.Context, f core.Filter) ([]*core.Task, error) {
	if f.IDs == nil && f.Rows == nil && !f.Live && f.Agent == "" {
		panic("all tasks are asked for")
	}
	return s.Store.Tasks(ctx, f)
}

// noEntries are dispatch files in which everything stands already.
type noEntries struct{}

func (noEntries) Deliver(_ context.Context, effects []core.Pending) []outbox.Result {
	return make([]outbox.Result, len(effects))
}

func (w *world) client() *slacklist.Client { return w.clientAt(w.clock.Now) }

func (w *world) clientAt(now func() time.Time) *slacklist.Client {
	return slacklist.New(slacklist.Options{
		Dir: w.dir, URL: w.URL, ListID: w.ListID, Token: w.Token, OpenAssignees: true,
		SettleAfter: w.times.SettleAfter, Now: now,
	})
}

// restart makes w.in another process's injector.
func (w *world) restart() { w.in, w.eng = w.newInjector(w.clock.Now) }

// swept is a report with its findings as text.
type swept struct {
	*heartbeat.Report
	Processed, Failed int
	Kept              []string // what needs a person
}

func spoken(r *heartbeat.Report) swept {
	s := swept{Report: r, Processed: r.Did[0].N, Failed: len(r.Failed)}
	for _, f := range r.NeedsPerson {
		s.Kept = append(s.Kept, f.Text(time.Time{}))
	}
	return s
}

func (w *world) sweep() swept {
	w.t.Helper()
	r, err := w.in.Sweep(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return spoken(r)
}

// sweepTo is sweep where so many files are to be processed, fail and wait.
func (w *world) sweepTo(processed, failed, waiting int) swept {
	w.t.Helper()
	r := w.sweep()
	if r.Processed != processed || r.Failed != failed || r.Waiting != waiting || waiting == 0 && r.Trouble != nil {
		w.t.Fatalf("swept to %+v, want %d processed, %d failed, %d waiting; log:\n%s", r, processed, failed, waiting, w.log)
	}
	return r
}

// name is the name of the next drop; names sort in the order of their making.
func (w *world) name() string {
	w.drops++
	return inbox.NewName(w.clock.Now().Add(time.Duration(w.drops)), pipeline.NewDropID())
}

// put delivers a file.
func (w *world) put(kind inbox.Kind, name string, data []byte) string {
	w.t.Helper()
	if err := w.box.Publish(kind, name, data); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// create drops a create as otm-create does and returns the file's name.
func (w *world) create(id pipeline.TaskID, title string, steps ...string) string {
	w.t.Helper()
	return w.createFor("devdas", id, title, steps...)
}

func (w *world) createFor(agent string, id pipeline.TaskID, title string, steps ...string) string {
	w.t.Helper()
	name := w.name()
	c := w.drop(agent, id, title, steps...)
	c.ID = pipeline.DropIDInName(name)
	return w.put(inbox.NewTasks, name, c.Encode())
}

// drop is a create without an id of its own.
func (w *world) drop(agent string, id pipeline.TaskID, title string, steps ...string) *drop.Create {
	w.t.Helper()
	c := &drop.Create{CreatedAt: w.clock.Now(), Task: pipeline.Task{
		ID: id, Title: title, Agent: agent, Priority: pipeline.High, Project: "prj-012", Type: pipeline.Review, Steps: steps,
	}}
	if err := drop.CheckTask(&c.Task); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// report is what an update says.
type report struct {
	status         pipeline.Status
	steps          []string
	reason, result string
	by             string
	run            int
}

// update drops an update as otm-update does and returns the file's name.
func (w *world) update(id pipeline.TaskID, r report) string {
	w.t.Helper()
	name := w.name()
	u := &drop.Update{ID: pipeline.DropIDInName(name), TaskID: id, CreatedAt: w.clock.Now(), Status: r.status, StepsDone: r.steps, Reason: r.reason, Result: r.result, By: r.by, Run: r.run}
	return w.put(inbox.TaskUpdates, name, u.Encode())
}

// task is the state of a task.
func (w *world) task(id pipeline.TaskID) *core.Task {
	w.t.Helper()
	t, err := w.store.Task(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// events are what happened to a task, without what OTM wrote to the board.
func (w *world) events(id pipeline.TaskID) []string {
	w.t.Helper()
	var all []string
	for _, e := range w.eventsOf(id) {
		if _, written := e.Data.(core.BoardWritten); !written {
			all = append(all, e.By.String()+": "+e.Type())
		}
	}
	return all
}

func (w *world) eventsOf(id pipeline.TaskID) []core.Event {
	w.t.Helper()
	events, err := w.store.Events(w.t.Context(), core.EventFilter{Task: id})
	if err != nil {
		w.t.Fatal(err)
	}
	return events
}

// reports are the drops of the reports that were applied to a task, in their order.
func (w *world) reports(id pipeline.TaskID) []string {
	w.t.Helper()
	var drops []string
	for _, e := range w.eventsOf(id) {
		if noted, ok := e.Data.(core.Noted); ok {
			drops = append(drops, noted.Drop)
		}
	}
	return drops
}

// do carries a command out, as another component does.
func (w *world) do(id pipeline.TaskID, by core.Actor, do core.Action) {
	w.t.Helper()
	outcomes, err := w.store.Do(w.t.Context(), core.Command{At: w.clock.Now(), By: by, Task: id, Do: do})
	if err == nil {
		err = outcomes[0].Err
	}
	if err != nil {
		w.t.Fatalf("%T on %v: %v", do, id, err)
	}
}

// deliver delivers all effects, as another component does.
func (w *world) deliver() {
	w.t.Helper()
	_, e := w.newInjector(w.clock.Now)
	if left, err := e.Deliver(w.t.Context()); err != nil || len(left) > 0 {
		w.t.Fatal(left, err)
	}
}

// batch works on the board as another component does.
func (w *world) batch(f func(b pipeline.Batch)) {
	w.t.Helper()
	b, err := w.client().Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	f(b)
	if err := b.End(); err != nil {
		w.t.Fatal(err)
	}
}

// dispatch hands tasks out, as the dispatcher does.
func (w *world) dispatch(ids ...pipeline.TaskID) {
	w.t.Helper()
	for _, id := range ids {
		w.do(id, core.Component("otm-dispatcher"), core.HandOut{Agent: w.task(id).Agent, Workspace: "/work"})
	}
	w.deliver()
}

// person edits a row on the board's page, some time after what was before.
func (w *world) person(row string, cells ...boardtest.Cell) {
	w.t.Helper()
	w.clock.Advance(pipeline.StatusAge + time.Second)
	if err := w.Server.EditRow("U0PERSON", w.ListID, row, cells...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) statusCell(s pipeline.Status) boardtest.Cell {
	return boardtest.SelectCell(w.Column(w.t, "Status", "select"), string(s))
}

// rows are all rows of the board as it has them now, by id, oldest first.
func (w *world) rows() []pipeline.Row {
	w.t.Helper()
	if w.eye == nil { // which neither faults meet nor counts
		web := httptest.NewServer(w.Server.Handler())
		w.t.Cleanup(web.Close)
		w.eye = slacklist.New(slacklist.Options{Dir: w.t.TempDir(), URL: web.URL + "/api/", ListID: w.ListID, Token: w.Token})
	}
	b, err := w.eye.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer b.End()
	if err := b.Refresh(w.t.Context(), 0); err != nil {
		w.t.Fatal(err)
	}
	var rows []pipeline.Row
	for r := range b.Rows() {
		rows = append(rows, *r)
	}
	return rows
}

// row is the one row of a task; the test ends where there are none or several.
func (w *world) row(id pipeline.TaskID) pipeline.Row {
	w.t.Helper()
	return w.rowIn(w.rows(), id)
}

func (w *world) rowIn(rows []pipeline.Row, id pipeline.TaskID) pipeline.Row {
	w.t.Helper()
	var found []pipeline.Row
	for _, r := range rows {
		if r.Task() == id {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		w.t.Fatalf("%d rows of %v, want 1", len(found), id)
	}
	return found[0]
}

// steps are the rows of the steps of a task, in their order.
func (w *world) steps(id pipeline.TaskID) []pipeline.Row {
	w.t.Helper()
	return w.stepsIn(w.rows(), id)
}

func (w *world) stepsIn(rows []pipeline.Row, id pipeline.TaskID) []pipeline.Row {
	w.t.Helper()
	byID := map[string]pipeline.Row{}
	for _, r := range rows {
		byID[r.ID] = r
	}
	var steps []pipeline.Row
	for _, s := range w.task(id).Steps {
		steps = append(steps, byID[s.RowID])
	}
	return steps
}

// checkTask holds a task on the board against what was dropped: one row, all
// steps once and in order, nothing else below it.
func (w *world) checkTask(id pipeline.TaskID, title string, steps ...string) {
	w.t.Helper()
	rows := w.rows()
	row := w.rowIn(rows, id)
	if row.Title != title {
		w.t.Errorf("%v has the title %q, want %q", id, row.Title, title)
	}
	var titles []string
	seen := map[string]bool{}
	for _, s := range w.stepsIn(rows, id) {
		if s.Parent != row.ID || seen[s.ID] {
			w.t.Errorf("step %+v of %v", s, id)
		}
		seen[s.ID] = true
		titles = append(titles, s.Title)
	}
	if !slices.Equal(titles, steps) {
		w.t.Errorf("%v has the steps %q, want %q", id, titles, steps)
	}
	below := 0
	for _, r := range rows {
		if r.Parent == row.ID {
			below++
		}
	}
	if below != len(steps) {
		w.t.Errorf("%d rows below %v, want %d", below, id, len(steps))
	}
}

// settled are the names in processed/ or failed/, without the files beside
// others.
func (w *world) settled(dir string) []string {
	w.t.Helper()
	names, err := w.box.SettledNames(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return names
}

// result is the result of a settled drop.
func (w *world) result(dir, name string) inbox.Result {
	w.t.Helper()
	s, err := w.box.ReadSettled(dir, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Result
}

// processed and failed are the result of a drop that must have settled there.
func (w *world) processed(name string) inbox.Result {
	w.t.Helper()
	return w.result(inbox.ProcessedDir, name)
}

func (w *world) failed(name string, class inbox.Class, parts ...string) inbox.Result {
	w.t.Helper()
	r := w.result(inbox.FailedDir, name)
	if r.Class != class {
		w.t.Errorf("%s failed as %q (%s), want %q", name, r.Class, r.Error, class)
	}
	for _, p := range parts {
		if !strings.Contains(r.Error+"\n"+r.Hint, p) {
			w.t.Errorf("error %q, hint %q: want %q in it", r.Error, r.Hint, p)
		}
	}
	return r
}

// waiting are the names in both inboxes.
func (w *world) waiting() []string {
	w.t.Helper()
	var names []string
	for _, kind := range inbox.Kinds {
		files, err := w.box.List(kind)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range files {
			names = append(names, f.Name)
		}
	}
	return names
}

// age makes a file in an inbox look as if it came earlier, by the world's clock.
func (w *world) age(kind inbox.Kind, name string, by time.Duration) {
	w.t.Helper()
	at := w.clock.Now().Add(-by)
	if err := os.Chtimes(filepath.Join(w.box.Dir(kind), name), at, at); err != nil {
		w.t.Fatal(err)
	}
}

// cellsOf are the cells that a call sent, as JSON by the names of their columns.
func (w *world) cellsOf(call boardtest.Call) map[string]string {
	w.t.Helper()
	columns, err := w.Server.Columns(w.ListID)
	if err != nil {
		w.t.Fatal(err)
	}
	var cells []map[string]json.RawMessage
	raw := call.Args.Get("initial_fields")
	if call.Method == updateMethod {
		raw = call.Args.Get("cells")
	}
	if err := json.Unmarshal([]byte(raw), &cells); err != nil {
		w.t.Fatal(err)
	}
	named := map[string]string{}
	for _, cell := range cells {
		var id, row string
		json.Unmarshal(cell["column_id"], &id)
		json.Unmarshal(cell["row_id"], &row)
		i := slices.IndexFunc(columns, func(c boardtest.Column) bool { return c.ID == id })
		for key, value := range cell {
			if key != "column_id" && key != "row_id" {
				named[strings.TrimSpace(row+" "+columns[i].Name)] = plain(value)
			}
		}
	}
	return named
}

// plain shows a value of the wire: rich text as its text.
func plain(raw json.RawMessage) string {
	var blocks []struct {
		Elements []struct {
			Elements []struct{ Text string }
		}
	}
	if json.Unmarshal(raw, &blocks) == nil && len(blocks) == 1 {
		return blocks[0].Elements[0].Elements[0].Text
	}
	return string(raw)
}

// calls are the methods called so far, with their numbers.
func (w *world) calls() map[string]int {
	n := map[string]int{}
	for _, c := range w.Faults.Calls() {
		n[c.Method]++
	}
	return n
}

// counter is the next id that would be given out.
func (w *world) counter() pipeline.TaskID {
	w.t.Helper()
	id, err := counter.Open(w.dir, nil).TakeOne(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func idsOf(n int) []pipeline.TaskID {
	var ids []pipeline.TaskID
	for i := range n {
		ids = append(ids, pipeline.TaskID(i+1))
	}
	return ids
}

func titleOf(id pipeline.TaskID) string { return fmt.Sprint("Task ", int(id)) }

// begun brings a task to its agent, which says that it works on it.
func (w *world) begun(id pipeline.TaskID, title string, steps ...string) {
	w.create(id, title, steps...)
	w.sweepTo(1, 0, 0)
	w.dispatch(id)
	w.update(id, report{status: pipeline.InProgress})
	w.sweepTo(1, 0, 0)
}

// oneByOne makes one row at a time, as on a board with limits.
type oneByOne struct{ pipeline.Batch }

func (oneByOne) AtOnce() int { return 1 }

// bent is a board whose batches are other ones.
type bent struct {
	pipeline.Board
	bend func(pipeline.Batch) pipeline.Batch
}

func (b bent) Begin(ctx context.Context) (pipeline.Batch, error) {
	batch, err := b.Board.Begin(ctx)
	return b.bend(batch), err
}

// panickingBatch panics where a row with a certain title is made.
type panickingBatch struct {
	pipeline.Batch
	title string
}

func (p panickingBatch) Create(ctx context.Context, parent string, cells ...pipeline.Cell) (string, error) {
	if cells[0].Text == p.title {
		panic("poison")
	}
	return p.Batch.Create(ctx, parent, cells...)
}

func titleCell(w *world, title string) boardtest.Cell {
	return boardtest.TextCell(w.Column(w.t, "Title", "text"), title)
}

// stalePage is a fault that answers with the page as it is now.
func (w *world) stalePage() boardtest.Fault {
	w.t.Helper()
	raw, err := json.Marshal(w.Must(w.t, listMethod, map[string]any{"list_id": w.ListID, "limit": 1000, "include_list": true}))
	if err != nil {
		w.t.Fatal(err)
	}
	return boardtest.Body("stale page", string(raw))
}

// manyRows says whether the board takes several rows in one call, and forgets the
// calls so far.
func (w *world) manyRows(works bool) {
	w.Server.SetQuirks(boardtest.Quirks{RefuseMultiRow: !works})
	w.Faults.Reset()
}
