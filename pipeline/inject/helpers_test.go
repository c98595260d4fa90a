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

	"otm/heartbeat"
	"otm/internal/board/boardtest"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/pipeline/task"
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
	store *task.Store
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
	w.store = task.Open(w.dir, func(s string) { w.t.Log("store:", s) })
	w.in = w.newInjector()
	return w
}

// newInjector returns an injector as another process would have it.
func (w *world) newInjector() *Injector {
	return &Injector{
		Box: w.box, Store: task.Open(w.dir, nil), Board: w.client(), Agents: agents, Times: w.times,
		Log: slog.New(slog.NewTextHandler(w.log, nil)), Now: w.clock.Now,
	}
}

func (w *world) client() *slacklist.Client { return w.clientAt(w.clock.Now) }

func (w *world) clientAt(now func() time.Time) *slacklist.Client {
	return slacklist.New(slacklist.Options{
		Dir: w.dir, URL: w.URL, ListID: w.ListID, Token: w.Token, OpenAssignees: true,
		SettleAfter: w.times.SettleAfter, Now: now,
	})
}

// restart makes w.in another process's injector.
func (w *world) restart() { w.in = w.newInjector() }

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
}

// update drops an update as otm-update does and returns the file's name.
func (w *world) update(id pipeline.TaskID, r report) string {
	w.t.Helper()
	name := w.name()
	u := &drop.Update{ID: pipeline.DropIDInName(name), TaskID: id, CreatedAt: w.clock.Now(), Status: r.status, StepsDone: r.steps, Reason: r.reason, Result: r.result}
	return w.put(inbox.TaskUpdates, name, u.Encode())
}

// rec is the record of a task.
func (w *world) rec(id pipeline.TaskID) *pipeline.Record {
	w.t.Helper()
	r, err := w.store.Load(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
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

// dispatch sets a task to assigned, as the dispatcher does.
func (w *world) dispatch(ids ...pipeline.TaskID) {
	w.t.Helper()
	for _, id := range ids {
		w.write(id, pipeline.Assigned)
	}
}

// write sets the status of a task on the board and in its record, as another
// component does.
func (w *world) write(id pipeline.TaskID, status pipeline.Status) {
	w.t.Helper()
	w.batch(func(b pipeline.Batch) {
		cell := pipeline.Cell{Field: pipeline.FieldStatus, Text: string(status)}
		if err := b.Update(w.t.Context(), pipeline.Change{Row: w.rec(id).RowID, Cells: []pipeline.Cell{cell}}); err != nil {
			w.t.Fatal(err)
		}
		_, err := w.store.Change(w.t.Context(), id, func(r *pipeline.Record) error {
			r.Status = status
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	})
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

// steps are the rows of the steps of a task in the order of its record.
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
	for _, s := range w.rec(id).Steps {
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
	c, err := w.store.Counter(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Release()
	id, err := c.Take(1)
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

// panicking is a board on which making a row with a certain title panics.
type panicking struct {
	pipeline.Board
	title string
}

func (p panicking) Begin(ctx context.Context) (pipeline.Batch, error) {
	b, err := p.Board.Begin(ctx)
	return panickingBatch{b, p.title}, err
}

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

// meanwhile is a board on which something happens while we wait for it.
type meanwhile struct {
	pipeline.Board
	happens func()
}

func (m meanwhile) Begin(ctx context.Context) (pipeline.Batch, error) {
	m.happens()
	return m.Board.Begin(ctx)
}

// lookingBoard is a board on which something happens whenever it is walked.
type lookingBoard struct {
	pipeline.Board
	happens func()
}

func (l lookingBoard) Begin(ctx context.Context) (pipeline.Batch, error) {
	b, err := l.Board.Begin(ctx)
	return lookingBatch{b, l.happens}, err
}

type lookingBatch struct {
	pipeline.Batch
	happens func()
}

func (l lookingBatch) Refresh(ctx context.Context, maxAge time.Duration) error {
	l.happens()
	return l.Batch.Refresh(ctx, maxAge)
}
