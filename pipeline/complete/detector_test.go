package complete

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/heartbeat"
	"otm/internal/board/boardtest"
	"otm/internal/explain"
	"otm/internal/lock"
	"otm/pipeline"
	"otm/pipeline/task"
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
	store *task.Store
	d     *Detector
	next  pipeline.TaskID
}

func newWorld(t *testing.T, options ...boardtest.Option) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), clock: &clock{at: time.Now().Round(0).Truncate(time.Second)}}
	w.Board = boardtest.Start(t, append(options, func(o *boardtest.Options) { o.Now = w.clock.Now })...)
	w.store = task.Open(w.dir, nil)
	w.d = &Detector{Board: w.client(), Records: w.store, Log: slog.New(slog.DiscardHandler), Now: w.clock.Now}
	return w
}

func (w *world) client() *slacklist.Client {
	return slacklist.New(slacklist.Options{
		Dir: w.dir, URL: w.URL, ListID: w.ListID, Token: w.Token, Now: w.clock.Now, OpenAssignees: w.ListID == w.Server.ListID(),
	})
}

func (w *world) batch(f func(b pipeline.Batch)) {
	w.t.Helper()
	b, err := w.d.Board.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	f(b)
	if err := b.End(); err != nil {
		w.t.Fatal(err)
	}
}

// made is a task on the board, with its record.
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
	w.batch(func(b pipeline.Batch) {
		create := func(parent string, cells ...pipeline.Cell) string {
			row, err := b.Create(w.t.Context(), parent, cells...)
			if err != nil {
				w.t.Fatal(err)
			}
			return row
		}
		cells := []pipeline.Cell{
			{Field: pipeline.FieldTitle, Text: m.id.String()}, {Field: pipeline.FieldTaskID, Text: m.id.String()},
			{Field: pipeline.FieldType, Text: "action"}, {Field: pipeline.FieldAssignee, Text: "devdas"},
			{Field: pipeline.FieldStatus, Text: string(status)},
		}
		if steps > 0 {
			cells = append(cells, pipeline.Cell{Field: pipeline.FieldRemaining, Number: float64(steps - done)},
				pipeline.Cell{Field: pipeline.FieldCompletion, Number: float64(100 * done / steps)})
		}
		m.row = create("", cells...)
		for i := range steps {
			state := pipeline.New
			if i < done {
				state = pipeline.Done
			}
			m.steps = append(m.steps, create(m.row, pipeline.Cell{Field: pipeline.FieldTitle, Text: fmt.Sprint("step ", i)},
				pipeline.Cell{Field: pipeline.FieldStatus, Text: string(state)}, pipeline.Cell{Field: pipeline.FieldChecked, Checked: i < done}))
		}
	})
	w.record(m, func(r *pipeline.Record) {
		r.DropID, r.Title, r.Agent, r.RowID, r.Status = "d", m.id.String(), "devdas", m.row, status
		for i, s := range m.steps {
			r.Steps = append(r.Steps, pipeline.StepRecord{Title: fmt.Sprint("step ", i), RowID: s, Done: i < done})
		}
	})
	return m
}

func (w *world) record(m *made, f func(*pipeline.Record)) *pipeline.Record {
	w.t.Helper()
	r, err := w.store.Change(w.t.Context(), m.id, func(r *pipeline.Record) error { f(r); return nil })
	if err != nil {
		w.t.Fatal(err)
	}
	return r
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
	p := passed{Report: r, Promoted: r.Did[promoted].N, Repaired: r.Did[repaired].N}
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
			w.batch(func(b pipeline.Batch) {
				cells := []pipeline.Cell{{Field: pipeline.FieldStatus, Text: "done"}, {Field: pipeline.FieldChecked, Checked: true}}
				if err := b.Update(t.Context(), pipeline.Change{Row: m.steps[1], Cells: cells}); err != nil {
					t.Fatal(err)
				}
			})
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
			if row.Status != pipeline.AgentDone || row.CompletedAt != w.clock.Now().UTC().Format(time.RFC3339) || *row.Remaining != 0 || *row.Completion != 100 || row.Checked {
				t.Errorf("row %+v", row)
			}
			rec, err := w.store.Load(m.id)
			if err != nil || rec.Status != pipeline.AgentDone || rec.StepsDone() != 2 {
				t.Errorf("record %+v, %v", rec, err)
			}
			if last := rec.History[len(rec.History)-1]; last.Who != Who || last.Detail != "in_progress to agent_done" {
				t.Errorf("history %+v", rec.History)
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
	if err := w.Server.AddOption("", w.ListID, w.Column(t, "Status", "select"), "", "On Hold"); err != nil {
		t.Fatal(err)
	}
	w.task("on_hold", 2, 2) // a state of a person's own
	w.task(pipeline.InProgress, 2, 1)
	w.task(pipeline.InProgress, 0, 0) // no steps
	for name, edit := range map[string]func(*pipeline.Record){
		"a step without a row": func(r *pipeline.Record) { r.Steps = append(r.Steps, pipeline.StepRecord{Title: "more"}) },
		"a step that is not there": func(r *pipeline.Record) {
			r.Steps = append(r.Steps, pipeline.StepRecord{Title: "more", RowID: "Rec0GONE"})
		},
		"a row that is still asked for": func(r *pipeline.Record) { r.RowID = "" },
		"another row":                   func(r *pipeline.Record) { r.RowID = "Rec0OTHER" },
	} {
		m := w.task(pipeline.InProgress, 2, 2)
		w.record(m, edit)
		t.Logf("%v has %s", m.id, name)
	}
	r, _, updates := w.pass(walked)
	if r.Promoted != 0 || len(r.Failed) != 0 || r.Trouble != nil {
		t.Errorf("report %+v", r)
	}
	// The one at done is ticked; nothing else is touched.
	if r.Repaired != 1 || updates != 1 {
		t.Errorf("report %+v, %d updates", r, updates)
	}
}

// A record that was lost or is not there is no reason to stop.
func TestWithoutRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store = task.Open(t.TempDir(), nil)
	m := w.task(pipeline.InProgress, 1, 1)
	r, _, _ := w.pass(walked)
	if r.Promoted != 1 || w.row(m.row).Status != pipeline.AgentDone {
		t.Errorf("report %+v", r)
	}
	if _, err := w.d.Records.Load(m.id); err == nil {
		t.Error("a record was made")
	}
}

// TestRecordNotRead: a task whose record cannot be read is told of, and the
// others go on.
func TestRecordNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad, good := w.task(pipeline.InProgress, 2, 2), w.task(pipeline.InProgress, 1, 1)
	path := filepath.Join(w.dir, "tasks", bad.id.String()+".json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, _, _ := w.pass(0)
	if r.Promoted != 1 || w.record(good, func(*pipeline.Record) {}).Status != pipeline.AgentDone || len(r.Failed) != 1 || !strings.HasPrefix(r.Failed[0], bad.id.String()+": its record: ") {
		t.Errorf("the report is %+v", r)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, _, _ := w.pass(0); r.Promoted != 1 || len(r.Failed) != 0 {
		t.Errorf("the report is %+v", r)
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
		for _, status := range []pipeline.Status{pipeline.New, pipeline.Assigned, pipeline.InProgress, pipeline.Blocked, pipeline.Pending, pipeline.AgentDone, pipeline.Rejected} {
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
				if got := w.cells()[m.row]; !slices.Equal(got, c.want) || len(w.cells()) > 1 {
					t.Errorf("wrote %v, want %v", w.cells(), c.want)
				}
				if lists != 1 || updates != min(1, len(c.want)) || r.Repaired != updates || r.Promoted != 0 {
					t.Errorf("report %+v, %d lists, %d updates", r, lists, updates)
				}
				row := w.row(m.row)
				if want := 2 - float64(c.tick); *row.Remaining != want || *row.Completion != float64(100*(1+c.tick)/3) || row.Status != status {
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
	if r, _, updates := w.pass(walked); r.Repaired != 1 || updates != 1 {
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
	if r.Promoted != 2 || len(r.Failed) != 1 || !strings.Contains(r.Failed[0], "invalid_arguments") || r.Trouble != nil || updates != 5 {
		t.Errorf("report %+v, %d updates", r, updates)
	}
	if !strings.Contains(r.Details(), "Promoted 2 tasks, repaired 0 tasks, 1 failure; T-") {
		t.Errorf("summary %q", r.Details())
	}
	if r, _, _ := w.pass(known); r.Promoted != 1 || len(r.Failed) != 0 {
		t.Errorf("then: %+v", r)
	}
	for _, m := range tasks {
		if got := w.row(m.row).Status; got != pipeline.AgentDone {
			t.Errorf("%v is %s", m.id, got)
		}
	}
}

// A row that a person deletes at that moment is no failure.
func TestRowGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone, there := w.task(pipeline.InProgress, 1, 1), w.task(pipeline.InProgress, 1, 1)
	w.pass(known) // the snapshot is there; both are promoted
	for _, m := range []*made{gone, there} {
		w.batch(func(b pipeline.Batch) {
			if err := b.Update(t.Context(), pipeline.Change{Row: m.row, Cells: []pipeline.Cell{{Field: pipeline.FieldStatus, Text: "in_progress"}}}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := w.Server.DeleteRow("", w.ListID, gone.row); err != nil {
		t.Fatal(err)
	}
	r, _, _ := w.pass(known)
	if r.Promoted != 1 || len(r.Failed) != 0 || r.Trouble != nil || w.row(there.row).Status != pipeline.AgentDone {
		t.Errorf("report %+v", r)
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
	if r.Promoted != 0 || r.Repaired != 1 || len(r.Failed) != 1 || !strings.Contains(r.Failed[0], `option "agent_done"`) || r.Trouble != nil {
		t.Errorf("report %+v", r)
	}
	if err := w.Server.AddOption("", w.ListID, w.Column(t, "Status", "select"), "", "Agent Done"); err != nil {
		t.Fatal(err)
	}
	if r, _, _ := w.pass(known); r.Promoted != 1 || w.row(m.row).Status != pipeline.AgentDone {
		t.Errorf("then: %+v", r)
	}
}

// A status on which a promotion hangs is read again where it is too old.
func TestStaleStatusIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.task(pipeline.InProgress, 1, 0)
	w.pass(walked)
	w.batch(func(b pipeline.Batch) {
		if err := b.Update(t.Context(), pipeline.Change{Row: m.steps[0], Cells: []pipeline.Cell{{Field: pipeline.FieldStatus, Text: "done"}}}); err != nil {
			t.Fatal(err)
		}
	})
	w.clock.Advance(6 * time.Second)
	w.person(m.row, w.cell("Status", "blocked"))
	if r, lists, updates := w.pass(known); r.Promoted != 0 || lists != 1 {
		t.Errorf("report %+v, %d lists, %d updates", r, lists, updates)
	}
	if got := w.row(m.row); got.Status != pipeline.Blocked || got.CompletedAt != "" {
		t.Errorf("row %+v", got)
	}
	w.person(m.row, w.cell("Status", "in_progress"))
	w.clock.Advance(6 * time.Second)
	if r, _, _ := w.pass(walked); r.Promoted != 1 {
		t.Errorf("then: %+v", r)
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
		then   int // promotions of the next pass
	}{
		{"not applied", updateMethod, boardtest.Reset(), 0, 1},
		{"applied, answer lost", updateMethod, boardtest.ApplyThenReset(), 0, 0},
		{"applied, 502", updateMethod, boardtest.ApplyThenStatus(502), 0, 0},
		{"update limited", updateMethod, boardtest.RateLimited("20"), 20 * time.Second, 1},
		{"walk fails", listMethod, boardtest.Status(500), 0, 1},
		{"walk cut off", listMethod, boardtest.Truncated(), 0, 1},
		{"walk limited", listMethod, boardtest.RateLimited("30"), 30 * time.Second, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := w.task(pipeline.InProgress, 1, 1)
			w.Faults.Next(c.method, c.fault)
			r, _, _ := w.pass(walked)
			if r.Trouble == nil || r.Promoted != 0 || len(r.Failed) != 0 || !strings.Contains(r.Details(), c.method) {
				t.Errorf("report %+v, summary %q", r, r.Details())
			}
			if want := w.clock.Now().Add(c.due); c.due != 0 && !r.Due.Equal(want) || c.due == 0 && !r.Due.IsZero() {
				t.Errorf("due %v, want %v", r.Due, want)
			}
			w.clock.Advance(max(c.due, 10*time.Second))
			if r, _, updates := w.pass(walked); r.Trouble != nil || r.Promoted != c.then || updates != c.then {
				t.Errorf("then: %+v, %d updates", r, updates)
			}
			if got := w.row(m.row); got.Status != pipeline.AgentDone || got.CompletedAt == "" {
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

// An error of our own files ends the pass, also where each task is written by
// itself.
func TestRecordNotWritten(t *testing.T) {
	t.Parallel()
	for _, faults := range [][]boardtest.Fault{nil, {boardtest.ErrorCode("invalid_arguments")}} {
		w := newWorld(t)
		w.task(pipeline.InProgress, 1, 1)
		w.d.Records = brokenRecords{w.store}
		w.Faults.Next(updateMethod, faults...)
		if _, err := w.d.Pass(t.Context(), walked); !errors.Is(err, errBroken) {
			t.Errorf("error %v", err)
		}
	}
}

// A record that somebody else brings up to the board at that moment stays as it is.
func TestRecordChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.task(pipeline.InProgress, 2, 1)
	w.clock.Advance(time.Minute)
	w.person(m.steps[1], w.ticked())
	w.d.Records = meanwhileRecords{w.store, func() {
		w.record(m, func(r *pipeline.Record) {
			w.d.Records = w.store
			r.Steps[1].Done = true
			r.Note(w.clock.Now(), "another", "step done", "step 1")
		})
	}}
	if r, _, _ := w.pass(walked); r.Promoted != 1 || w.row(m.row).Status != pipeline.AgentDone {
		t.Errorf("report %+v", r)
	}
	var who []string
	for _, e := range w.record(m, func(*pipeline.Record) {}).History {
		who = append(who, e.Who+": "+e.What)
	}
	if want := []string{"another: step done", Who + ": status"}; !slices.Equal(who, want) {
		t.Errorf("history %q, want %q", who, want)
	}
}

// meanwhileRecords are records to which something happens before they are changed.
type meanwhileRecords struct {
	pipeline.Records
	happens func()
}

func (m meanwhileRecords) Change(ctx context.Context, id pipeline.TaskID, f func(*pipeline.Record) error) (*pipeline.Record, error) {
	m.happens()
	return m.Records.Change(ctx, id, f)
}

var errBroken = errors.New("disk full")

type brokenRecords struct{ pipeline.Records }

func (brokenRecords) Change(context.Context, pipeline.TaskID, func(*pipeline.Record) error) (*pipeline.Record, error) {
	return nil, errBroken
}
