package complete

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/core/store"
	"otm/core/store/storetest"
	"otm/heartbeat"
	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
	"otm/internal/engine"
	"otm/internal/explain"
	"otm/internal/lock"
	"otm/pipeline"
	"otm/slacklist"
)

const (
	listMethod   = "slackLists.items.list"
	updateMethod = "slackLists.items.update"
)

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

// world is a board with tasks, and a detector.
type world struct {
	*boardtest.Board
	t     *testing.T
	clock *clock
	dir   string
	store *store.Store
	eng   *engine.Engine // of d
	d     *Detector
	next  pipeline.TaskID
}

var agents = pipeline.Agents{{Name: "devdas", Label: "devdas"}}

func newWorld(t *testing.T, options ...boardtest.Option) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), clock: &clock{at: time.Now().Round(0).Truncate(time.Second)}}
	w.Board = boardtest.Start(t, append(options, func(o *boardtest.Options) { o.Now = w.clock.Now })...)
	w.store = storetest.OpenIn(t, w.dir)
	w.restart()
	return w
}

// restart makes w.d another process's detector.
func (w *world) restart() {
	w.eng = w.newEngine()
	w.d = &Detector{Engine: looks{w.eng}, Log: slog.New(slog.DiscardHandler), Now: w.clock.Now}
}

func (w *world) newEngine() *engine.Engine {
	return &engine.Engine{
		Store: w.store, Outbox: w.store, Board: w.client(), Agents: agents, Times: pipeline.DefaultTimes, By: core.Component(Who),
		Log: slog.New(slog.DiscardHandler), Now: w.clock.Now, Counter: noCounter{}, Render: nothing{}, Entries: nothing{},
	}
}

// looks is the engine as the detector sees it.
type looks struct{ *engine.Engine }

func (e looks) Look(ctx context.Context, maxAge time.Duration) (int, error) {
	looked, err := e.Engine.Look(ctx, maxAge)
	return looked.Drifted, err
}

// nothing is a sink that has every task as it is.
type nothing struct{}

func (nothing) Deliver(_ context.Context, effects []core.Pending) []outbox.Result {
	return make([]outbox.Result, len(effects))
}

// noCounter is a counter that nobody asks for ids.
type noCounter struct{}

func (noCounter) TakeOne(context.Context) (pipeline.TaskID, error) { return 0, errors.New("no ids") }
func (noCounter) Raise(context.Context, ...pipeline.TaskID) error  { return nil }
func (noCounter) RaiseAbove(context.Context, pipeline.Batch) error { return nil }

func (w *world) client() *slacklist.Client {
	return slacklist.New(slacklist.Options{
		Dir: w.dir, URL: w.URL, ListID: w.ListID, Token: w.Token, Now: w.clock.Now, OpenAssignees: true,
	})
}

// made is a task on the board.
type made struct {
	id    pipeline.TaskID
	row   string
	steps []string
}

// task puts a task on the board whose progress is right. Of its steps, so many
// are done.
func (w *world) task(status pipeline.Status, steps, done int) *made {
	w.t.Helper()
	w.next++
	m := &made{id: w.next}
	task := pipeline.Task{ID: m.id, Title: m.id.String(), Agent: "devdas", Priority: pipeline.Normal, Type: pipeline.Action}
	for i := range steps {
		task.Steps = append(task.Steps, fmt.Sprint("step ", i))
	}
	w.do(m.id, core.Request{Task: task, CreatedAt: w.clock.Now()})
	w.deliver()
	state := w.state(m.id)
	m.row = state.RowID
	edits := core.Edits{Status: &status}
	ticked := true
	for i, s := range state.Steps {
		m.steps = append(m.steps, s.RowID)
		if i < done {
			edits.Steps = append(edits.Steps, core.StepEdit{Row: s.RowID, Done: &ticked})
		}
	}
	w.do(m.id, edits)
	w.deliver()
	return m
}

// do carries a command out for a person, doAs for anybody.
func (w *world) do(id pipeline.TaskID, do core.Action) {
	w.t.Helper()
	w.doAs(core.ByPerson("mani"), id, do)
}

func (w *world) doAs(by core.Actor, id pipeline.TaskID, do core.Action) {
	w.t.Helper()
	outcomes, err := w.store.Do(w.t.Context(), core.Command{At: w.clock.Now(), By: by, Task: id, Do: do})
	if err == nil {
		err = outcomes[0].Err
	}
	if err != nil {
		w.t.Fatalf("%T: %v", do, err)
	}
}

// deliver delivers all effects, as another component does.
func (w *world) deliver() {
	w.t.Helper()
	if left, err := w.newEngine().Deliver(w.t.Context()); err != nil || len(left) > 0 {
		w.t.Fatal(left, err)
	}
}

func (w *world) state(id pipeline.TaskID) *core.Task {
	w.t.Helper()
	t, err := w.store.Task(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// person edits a row on the board's page.
func (w *world) person(row string, cells ...boardtest.Cell) {
	w.t.Helper()
	if err := w.Server.EditRow("U0PERSON", w.ListID, row, cells...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) ticked() boardtest.Cell { return boardtest.CheckboxCell("Col00", true) }

func (w *world) cell(name string, value any) boardtest.Cell {
	w.t.Helper()
	switch v := value.(type) {
	case float64:
		return boardtest.NumberCell(w.Column(w.t, name, "number"), v)
	case string:
		return boardtest.SelectCell(w.Column(w.t, name, "select"), v)
	}
	panic("internal error: no such cell")
}

const (
	known  = -1 * time.Second // whatever is known will do
	walked = 0
)

// passed is a report with its failures as text.
type passed struct {
	*heartbeat.Report
	Promoted, Repaired int
	Failed             []string
}

func spoken(r *heartbeat.Report) passed {
	p := passed{Report: r, Promoted: r.Did[0].N, Repaired: r.Did[1].N}
	for _, f := range r.Failed {
		p.Failed = append(p.Failed, explain.Sentence(&f, time.Time{}))
	}
	return p
}

// pass makes a pass and returns the calls that it took, those of the board
// alone.
func (w *world) pass(maxAge time.Duration) (r passed, lists, updates int) {
	w.t.Helper()
	w.Faults.Reset()
	report, err := w.d.Pass(w.t.Context(), maxAge)
	if err != nil {
		w.t.Fatal(err)
	}
	return spoken(report), w.Faults.Count(listMethod), w.Faults.Count(updateMethod)
}

// row is a row as the board has it now.
func (w *world) row(id string) pipeline.Row {
	w.t.Helper()
	fresh := slacklist.New(slacklist.Options{Dir: w.t.TempDir(), URL: w.URL, ListID: w.ListID, Token: w.Token, Now: w.clock.Now})
	b, err := fresh.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer b.End()
	if err := b.Refresh(w.t.Context(), 0); err != nil {
		w.t.Fatal(err)
	}
	if r := b.Row(id); r != nil {
		return *r
	}
	w.t.Fatalf("no row %s", id)
	return pipeline.Row{}
}

// B49: a task in progress whose steps are all done is promoted, with its time, and
// its record says so.
func TestPromotion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		done func(w *world, m *made)
	}{
		{"by updates", func(w *world, m *made) {
			w.doAs(core.ByAgent("devdas"), m.id, core.Report{Drop: "u.json", Dropped: w.clock.Now(), Steps: []string{"2"}})
		}},
		{"ticked by a person", func(w *world, m *made) { w.person(m.steps[1], w.ticked()) }},
		{"set to done by a person", func(w *world, m *made) { w.person(m.steps[1], w.cell("Status", "done")) }},
		{"the last open one set to agent_done", func(w *world, m *made) { w.person(m.steps[1], w.cell("Status", "agent_done")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := w.task(pipeline.InProgress, 2, 1)
			w.clock.Advance(time.Minute)
			c.done(w, m)
			r, lists, updates := w.pass(walked)
			if r.Promoted != 1 || r.Repaired != 0 || len(r.Failed) != 0 || r.Trouble != nil || lists != 1 || updates != 1 {
				t.Errorf("report %+v, %d lists, %d updates", r, lists, updates)
			}
			row := w.row(m.row)
			if row.Status != pipeline.AgentDone || row.Derived[pipeline.FieldCompletedAt] != w.clock.Now().UTC().Format(time.RFC3339) || row.Derived[pipeline.FieldRemaining] != "0" || row.Derived[pipeline.FieldCompletion] != "100" || row.Checked {
				t.Errorf("row %+v", row)
			}
			if state := w.state(m.id); state.Status != pipeline.AgentDone || state.StepsDone() != 2 || state.StatusBy != core.Component(Who) || state.Previous != pipeline.InProgress {
				t.Errorf("task %+v", state)
			}
			if r, lists, updates := w.pass(known); r.Promoted+r.Repaired != 0 || lists+updates != 0 {
				t.Errorf("again: %+v, %d lists, %d updates", r, lists, updates)
			}
		})
	}
}

// What is not promoted.
func TestNotPromoted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range pipeline.Statuses {
		if s != pipeline.InProgress {
			w.task(s, 2, 2)
		}
	}
	w.task(pipeline.InProgress, 2, 1)
	w.task(pipeline.InProgress, 0, 0)   // no steps
	ended := w.task(pipeline.New, 2, 2) // handed out with all steps ticked: it ends when the agent says so
	w.doAs(core.Component("otm-dispatcher"), ended.id, core.HandOut{Agent: "devdas", Workspace: "/w"})
	moved := pipeline.InProgress
	w.do(ended.id, core.Edits{Status: &moved})
	w.deliver()
	r, _, updates := w.pass(walked)
	if r.Promoted != 0 || len(r.Failed) != 0 || r.Trouble != nil {
		t.Errorf("report %+v, %v", r, w.state(ended.id))
	}
	if r.Repaired != 0 || updates != 0 {
		t.Errorf("report %+v, %d updates", r, updates)
	}
}

// cells are the fields that the last update wrote, by row.
func (w *world) cells() map[string][]string {
	w.t.Helper()
	columns, err := w.Server.Columns(w.ListID)
	if err != nil {
		w.t.Fatal(err)
	}
	written := map[string][]string{}
	for _, call := range w.Faults.Calls() {
		var cells []struct {
			Row    string `json:"row_id"`
			Column string `json:"column_id"`
		}
		if call.Method != updateMethod {
			continue
		}
		if err := json.Unmarshal([]byte(call.Args.Get("cells")), &cells); err != nil {
			w.t.Fatal(err)
		}
		for _, c := range cells {
			i := slices.IndexFunc(columns, func(col boardtest.Column) bool { return col.ID == c.Column })
			written[c.Row] = append(written[c.Row], columns[i].Name)
		}
	}
	return written
}

// Progress is repaired, and only what differs.
func TestRepair(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		edits map[string]any
		tick  int // steps ticked by a person
		want  []string
	}{
		{"all is right", nil, 0, nil},
		{"remaining", map[string]any{"Subtasks remaining": 7.0}, 0, []string{"Subtasks remaining"}},
		{"completion", map[string]any{"Completion": 7.0}, 0, []string{"Completion"}},
		{"both, by a tick", nil, 1, []string{"Subtasks remaining", "Completion"}},
	} {
		for _, status := range []pipeline.Status{pipeline.New, pipeline.Assigned, pipeline.InProgress, pipeline.Blocked, pipeline.Dormant, pipeline.AgentDone, pipeline.Rejected} {
			t.Run(c.name+" "+string(status), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				m := w.task(status, 3, 1)
				w.clock.Advance(time.Minute)
				for name, v := range c.edits {
					w.person(m.row, w.cell(name, v))
				}
				for i := range c.tick {
					w.person(m.steps[1+i], w.ticked())
				}
				r, lists, updates := w.pass(walked)
				got := slices.Sorted(slices.Values(w.cells()[m.row]))
				if !slices.Equal(got, slices.Sorted(slices.Values(c.want))) || len(w.cells()) > 1 {
					t.Errorf("wrote %v, want %v", w.cells(), c.want)
				}
				repaired := len(c.edits) // a tick is meant, and no drift
				if lists != 1 || updates != min(1, len(c.want)) || r.Repaired != repaired || r.Promoted != 0 {
					t.Errorf("report %+v, %d lists, %d updates", r, lists, updates)
				}
				row := w.row(m.row)
				if want := fmt.Sprint(2-c.tick, 100*(1+c.tick)/3); fmt.Sprint(row.Derived[pipeline.FieldRemaining], " ", row.Derived[pipeline.FieldCompletion]) != want || row.Status != status {
					t.Errorf("row %+v", row)
				}
				if r, _, updates := w.pass(walked); r.Repaired != 0 || updates != 0 {
					t.Errorf("again: %+v, %d updates", r, updates)
				}
			})
		}
	}
}

// What a person cancelled or archived is left alone.
func TestFinishedAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range []pipeline.Status{pipeline.Cancelled, pipeline.Archived} {
		w.person(w.task(s, 2, 1).row, w.cell("Completion", 7.0))
	}
	if r, _, updates := w.pass(walked); r.Repaired != 0 || updates != 0 {
		t.Errorf("report %+v, %d updates", r, updates)
	}
}

// Done ticks the task's own checkbox; agent_done does not, as somebody still
// has to look at it.
func TestTicks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reviewed, waiting := w.task(pipeline.AgentDone, 1, 1), w.task(pipeline.AgentDone, 1, 1)
	w.clock.Advance(time.Minute)
	w.person(reviewed.row, w.cell("Status", "done"))
	if r, _, updates := w.pass(walked); r.Repaired != 0 || updates != 1 {
		t.Errorf("report %+v, %d updates", r, updates)
	}
	if got := w.cells(); len(got) != 1 || !slices.Equal(got[reviewed.row], []string{"Completed"}) {
		t.Errorf("wrote %v", got)
	}
	if !w.row(reviewed.row).Checked || w.row(waiting.row).Checked {
		t.Error("ticked the wrong one")
	}
	if r, _, updates := w.pass(walked); r.Repaired != 0 || updates != 0 {
		t.Errorf("again: %+v, %d updates", r, updates)
	}
}

// Without the optional columns there is nothing to keep right, and nothing is
// written for ever.
func TestOptionalColumnsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"Subtasks remaining", "Completion", "Completed at"} {
		columns, err := w.Server.Columns(w.ListID)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(columns, func(c boardtest.Column) bool { return c.Name == name })
		if err := w.Server.RemoveColumn("", w.ListID, columns[i].ID); err != nil {
			t.Fatal(err)
		}
	}
	m, open := w.task(pipeline.InProgress, 2, 2), w.task(pipeline.InProgress, 2, 1)
	r, _, updates := w.pass(walked)
	if r.Promoted != 1 || r.Repaired != 0 || updates != 1 || w.row(m.row).Status != pipeline.AgentDone || w.row(open.row).Status != pipeline.InProgress {
		t.Errorf("report %+v, %d updates", r, updates)
	}
	if r, _, updates := w.pass(walked); r.Promoted+r.Repaired+updates != 0 {
		t.Errorf("again: %+v, %d updates", r, updates)
	}
}

// Where the grouped call is refused, each goes by itself, and the one at fault
// stops no other.
func TestOneIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	several := func() []*made {
		return []*made{w.task(pipeline.InProgress, 1, 1), w.task(pipeline.InProgress, 1, 1), w.task(pipeline.InProgress, 1, 1)}
	}
	several()
	if r, _, _ := w.pass(walked); r.Promoted != 3 {
		t.Fatalf("report %+v", r)
	}
	tasks := several()
	no := boardtest.ErrorCode("invalid_arguments")
	w.Faults.Next(updateMethod, no, no, boardtest.Pass(), no, boardtest.Pass()) // all together, the first of them, and each by itself
	r, _, updates := w.pass(known)
	if r.Promoted != 3 || len(r.Failed) != 1 || !strings.Contains(r.Failed[0], "invalid_arguments") || r.Trouble != nil || updates != 5 {
		t.Errorf("report %+v, %d updates", r, updates)
	}
	if !strings.Contains(r.Details(), "Promoted 3 tasks, repaired 0 rows, 1 failure; T-") {
		t.Errorf("summary %q", r.Details())
	}
	w.clock.Advance(time.Minute) // the pause after a try that failed
	if r, _, _ := w.pass(known); r.Promoted != 0 || len(r.Failed) != 0 {
		t.Errorf("then: %+v", r)
	}
	for _, m := range tasks {
		if got := w.row(m.row).Status; got != pipeline.AgentDone {
			t.Errorf("%v is %s", m.id, got)
		}
	}
}

// A row that a person deletes at that moment holds up no other.
func TestRowGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone, there := w.task(pipeline.InProgress, 1, 1), w.task(pipeline.InProgress, 1, 1)
	if err := w.Server.DeleteRow("", w.ListID, gone.row); err != nil {
		t.Fatal(err)
	}
	r, _, _ := w.pass(known)
	if r.Promoted != 2 || r.Trouble != nil || w.row(there.row).Status != pipeline.AgentDone {
		t.Errorf("report %+v", r)
	}
	for range 2 {
		w.clock.Advance(pipeline.DefaultTimes.SettleAfter)
		r, _, _ = w.pass(walked)
	}
	if len(r.Failed) != 0 || r.Trouble != nil || w.state(gone.id).GoneAt.IsZero() {
		t.Errorf("then: %+v, task %+v", r, w.state(gone.id))
	}
}

// An option that the board lacks keeps back what needs it, and nothing else.
func TestOptionMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, wrong := w.task(pipeline.InProgress, 1, 1), w.task(pipeline.InProgress, 2, 1)
	if err := w.Server.RemoveOption("", w.ListID, w.Column(t, "Status", "select"), "agent_done"); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Minute)
	w.person(wrong.row, w.cell("Completion", 7.0))
	r, _, _ := w.pass(walked)
	if r.Promoted != 1 || r.Repaired != 1 || len(r.Failed) != 1 || !strings.Contains(r.Failed[0], `option "agent_done"`) || r.Trouble != nil {
		t.Errorf("report %+v", r)
	}
	if err := w.Server.AddOption("", w.ListID, w.Column(t, "Status", "select"), "", "Agent Done"); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Minute)
	if r, _, _ := w.pass(known); len(r.Failed) != 0 || w.row(m.row).Status != pipeline.AgentDone {
		t.Errorf("then: %+v", r)
	}
}

// A status on which a promotion hangs is read again where it is too old: a person's
// choice is never overwritten.
func TestStaleStatusIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.task(pipeline.InProgress, 1, 0)
	w.pass(walked)
	ticked := true
	w.do(m.id, core.Edits{Steps: []core.StepEdit{{Row: m.steps[0], Done: &ticked}}})
	w.deliver()
	w.clock.Advance(6 * time.Second)
	w.person(m.row, w.cell("Status", "blocked"))
	if _, lists, _ := w.pass(known); lists != 1 {
		t.Errorf("%d lists", lists)
	}
	if got := w.row(m.row); got.Status != pipeline.Blocked || w.state(m.id).Status != pipeline.Blocked {
		t.Errorf("row %+v", got)
	}
}

// Where the board is in trouble, the pass says so and when to come back, and
// the next one heals it, whatever became of the write.
func TestTroubleHeals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		method string
		fault  boardtest.Fault
		due    time.Duration
	}{
		{"not applied", updateMethod, boardtest.Reset(), 0},
		{"applied, answer lost", updateMethod, boardtest.ApplyThenReset(), 0},
		{"applied, 502", updateMethod, boardtest.ApplyThenStatus(502), 0},
		{"update limited", updateMethod, boardtest.RateLimited("20"), 20 * time.Second},
		{"walk fails", listMethod, boardtest.Status(500), 0},
		{"walk cut off", listMethod, boardtest.Truncated(), 0},
		{"walk limited", listMethod, boardtest.RateLimited("30"), 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := w.task(pipeline.InProgress, 1, 1)
			w.Faults.Next(c.method, c.fault)
			r, _, _ := w.pass(walked)
			promoted := r.Promoted
			if r.Trouble == nil || (promoted == 1) != (c.method == updateMethod) || len(r.Failed) != 0 || !strings.Contains(r.Details(), c.method) {
				t.Errorf("report %+v, summary %q", r, r.Details())
			}
			if want := w.clock.Now().Add(c.due); c.due != 0 && !r.Due.Equal(want) || c.due == 0 && !r.Due.IsZero() {
				t.Errorf("due %v, want %v", r.Due, want)
			}
			w.clock.Advance(max(c.due, 10*time.Second))
			again := 1
			if strings.HasPrefix(c.name, "applied") {
				again = 0 // the walk shows what was written
			}
			if r, _, updates := w.pass(walked); r.Trouble != nil || promoted+r.Promoted != 1 || updates != again {
				t.Errorf("then: %+v, %d updates", r, updates)
			}
			if got := w.row(m.row); got.Status != pipeline.AgentDone || got.Derived[pipeline.FieldCompletedAt] == "" {
				t.Errorf("row %+v", got)
			}
		})
	}
}

// An idle pass reads once at most, and a hint's not even that; neither writes.
func TestIdlePass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		w.task(pipeline.InProgress, 2, 1)
		w.task(pipeline.AgentDone, 2, 2)
	}
	w.pass(walked)
	w.clock.Advance(20 * time.Second)
	for _, c := range []struct {
		maxAge time.Duration
		lists  int
	}{{known, 0}, {10 * time.Minute, 0}, {30 * time.Second, 0}, {10 * time.Second, 1}, {walked, 1}} {
		r, lists, updates := w.pass(c.maxAge)
		if r.Promoted+r.Repaired+updates != 0 || lists != c.lists || w.Faults.Count("") != lists {
			t.Errorf("rows up to %v old: %+v, %d calls of which %d lists", c.maxAge, r, w.Faults.Count(""), lists)
		}
	}
}

// A board that others hold, and a context that ends.
func TestBoardHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l, err := lock.Acquire(t.Context(), filepath.Join(w.dir, "locks", "board"), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := w.d.Pass(ctx, walked)
	if err != nil || !errors.Is(r.Trouble, context.Canceled) {
		t.Errorf("report %+v, error %v", r, err)
	}
	l.Release()
	if r, err := w.d.Pass(t.Context(), walked); err != nil || r.Trouble != nil {
		t.Errorf("report %+v, error %v", r, err)
	}
}

// An error of our own files ends the pass.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.task(pipeline.InProgress, 1, 1)
	crashtest.Below(t, w.dir, func(step, path string) error {
		if step == "commit" {
			return syscall.EIO
		}
		return nil
	})
	if r, err := w.d.Pass(t.Context(), walked); !errors.Is(errors.Join(err, r.Trouble), syscall.EIO) {
		t.Errorf("report %+v, error %v", r, err)
	}
}
