package inject

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/core"
	"otm/core/store/storetest"
	"otm/internal/board/boardtest"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// A task becomes a row with all its cells in the creating call, then its steps
// in order; the store has each step of it, and the drop is settled.
func TestCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.create(35, "Build the login page", "Create form", "Add validation", "Create form")
	r := w.sweepTo(1, 0, 0)
	if got := r.Details(); got != "Processed 1 task, 0 failures" {
		t.Errorf("summary %q", got)
	}
	w.checkTask(35, "Build the login page", "Create form", "Add validation", "Create form")
	if want := map[string]int{"auth.test": 1, listMethod: 1, createMethod: 4}; !maps.Equal(w.calls(), want) {
		t.Errorf("calls %v, want %v", w.calls(), want)
	}
	var made []map[string]string
	var parents []string
	for _, c := range w.Faults.Calls() {
		if c.Method == createMethod {
			made = append(made, w.cellsOf(c))
			parents = append(parents, c.Args.Get("parent_item_id"))
		}
	}
	wantRow := map[string]string{
		"Title": "Build the login page", "Task ID": "T-00035", "Type": `["review"]`, "Assignee": `["devdas"]`, "Project 2": "prj-012",
		"Priority": `["high"]`, "Status": `["new"]`, "Subtasks remaining": "[3]", "Completion": "[0]",
	}
	if !maps.Equal(made[0], wantRow) {
		t.Errorf("row made with %v\nwant %v", made[0], wantRow)
	}
	row := w.row(35).ID
	for i, title := range []string{"Create form", "Add validation", "Create form"} {
		if want := map[string]string{"Title": title, "Status": `["new"]`}; !maps.Equal(made[i+1], want) || parents[i+1] != row {
			t.Errorf("step %d made with %v below %s", i+1, made[i+1], parents[i+1])
		}
	}
	task := w.task(35)
	if task.DropID != pipeline.DropIDInName(name) || task.Drop != name || task.Title != "Build the login page" || task.Agent != "devdas" ||
		task.Priority != pipeline.High || task.Project != "prj-012" || task.Type != pipeline.Review || task.RowID != row ||
		task.Status != pipeline.New || task.Unverified || !task.OnBoard() || task.Unshown() {
		t.Errorf("task %+v", task)
	}
	if want := []string{"otm-create: TaskRequested"}; !slices.Equal(w.events(35), want) {
		t.Errorf("events %q, want %q", w.events(35), want)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "tasks", "T-00035.json")); err != nil {
		t.Errorf("rendering: %v", err)
	}
	settled := w.processed(name)
	if settled.SlackItemID != row || len(settled.SubtaskItemIDs) != 3 || settled.SkippedDuplicate || settled.DedupUnverified ||
		settled.Attempts != 1 || settled.Inbox != inbox.NewTasks || settled.Error != "" {
		t.Errorf("result %+v", settled)
	}
	if files := w.waiting(); len(files) != 0 {
		t.Errorf("inbox %v", files)
	}
	// And again: nothing is asked, nothing is called.
	w.Faults.Reset()
	w.sweepTo(0, 0, 0)
	if n := len(w.calls()); n != 0 {
		t.Errorf("calls %v", w.calls())
	}
}

// Many creates need one look at the board.
func TestOneSnapshotServesABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id := range pipeline.TaskID(5) {
		w.create(id+1, titleOf(id+1))
	}
	w.sweepTo(5, 0, 0)
	w.create(6, titleOf(6))
	w.clock.Advance(createAge - time.Second)
	w.sweepTo(1, 0, 0)
	if n := w.Faults.Count(listMethod); n != 1 {
		t.Errorf("%d walks", n)
	}
	w.create(7, titleOf(7))
	w.clock.Advance(2 * time.Second)
	w.sweepTo(1, 0, 0)
	if n := w.Faults.Count(listMethod); n != 2 {
		t.Errorf("%d walks, the last of which is too old", n)
	}
	for _, id := range idsOf(7) {
		w.checkTask(id, titleOf(id), pipeline.DefaultStep)
	}
}

// Two tasks with the same title live independent lives (only the id counts).
func TestCaseB47EqualTitles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range idsOf(10) {
		w.create(id, "Same title", "same step")
	}
	w.sweepTo(10, 0, 0)
	for _, id := range idsOf(10) {
		w.checkTask(id, "Same title", "same step")
	}
	w.dispatch(3)
	w.update(3, report{status: pipeline.AgentDone, steps: []string{"same step"}})
	w.sweepTo(1, 0, 0)
	for _, id := range idsOf(10) {
		if done := w.row(id).Status == pipeline.AgentDone; done != (id == 3) {
			t.Errorf("%v is %s", id, w.row(id).Status)
		}
	}
}

// forget makes the store as it was before the task came: it was restored from an old
// backup.
func (w *world) forget() {
	w.t.Helper()
	dir := w.t.TempDir()
	w.store = storetest.OpenIn(w.t, dir)
	w.restart()
}

// TestSameTask: what the same task is, and what another one is, by store, row and
// processed/.
func TestSameTask(t *testing.T) {
	t.Parallel()
	lose := func(w *world, paths ...string) {
		t.Helper()
		for _, p := range paths {
			if err := os.RemoveAll(filepath.Join(w.dir, p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const id, title = 5, "Build the login page"
	again := func(w *world, c *drop.Create) string { return w.put(inbox.NewTasks, "again.json", c.Encode()) }
	for i, c := range []struct {
		name   string
		before func(w *world)
		second func(w *world, first *drop.Create) string // the file that comes after
		want   string                                    // "skipped", "made", or a class
	}{
		{"the same drop under another name", nil, again, "skipped"},
		{"another drop with the same title", nil, func(w *world, _ *drop.Create) string { return w.create(id, title, "x", "y") }, "skipped"},
		{"the title in another form", nil, func(w *world, _ *drop.Create) string { return w.create(id, "  build THE  login page", "x") }, "skipped"},
		{"another title", nil, func(w *world, _ *drop.Create) string { return w.create(id, "Something else") }, "conflict"},
		{"the same drop with another title", nil, func(w *world, c *drop.Create) string {
			c.Task.Title = "Something else"
			return w.put(inbox.NewTasks, "edited.json", c.Encode())
		}, "skipped"},
		{"task forgotten, same drop", (*world).forget, again, "skipped"},
		{"task forgotten, another drop of that title", (*world).forget, func(w *world, _ *drop.Create) string { return w.create(id, title, "x", "y") }, "skipped"},
		{"task forgotten, another title", (*world).forget, func(w *world, _ *drop.Create) string { return w.create(id, "Something else") }, "conflict"},
		{"task forgotten and title edited by a person, same drop", func(w *world) {
			w.forget()
			w.person(w.row(id).ID, boardtest.TextCell(w.Column(t, "Title", "text"), "Login page, please"))
			w.clock.Advance(createAge)
		}, again, "skipped"},
		{"title edited by a person, same drop", func(w *world) {
			w.person(w.row(id).ID, boardtest.TextCell(w.Column(t, "Title", "text"), "Login page, please"))
		}, again, "skipped"},
		{"task and row lost, processed file left", func(w *world) {
			if err := w.Server.DeleteRow("", w.ListID, w.row(id).ID); err != nil {
				t.Fatal(err)
			}
			lose(w, "board")
			w.forget()
		}, again, "skipped"},
		{"task, row and processed file lost", func(w *world) {
			if err := w.Server.DeleteRow("", w.ListID, w.row(id).ID); err != nil {
				t.Fatal(err)
			}
			lose(w, "board", "processed")
			w.forget()
		}, again, "made"},
		{"row deleted by a person, same drop", func(w *world) {
			if err := w.Server.DeleteRow("", w.ListID, w.row(id).ID); err != nil {
				t.Fatal(err)
			}
			w.clock.Advance(createAge + time.Minute)
		}, again, "skipped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			name := w.create(id, title, "x", "y")
			w.sweepTo(1, 0, 0)
			first := w.drop("devdas", id, title, "x", "y")
			first.ID = pipeline.DropIDInName(name)
			made := w.calls()[createMethod]
			before := w.rows()
			if c.before != nil {
				c.before(w)
				before = w.rows()
			}
			second := c.second(w, first)
			if i%2 == 0 || c.want == "made" { // a resident remembers what it has settled
				w.restart()
			}
			switch c.want {
			case "made":
				w.sweepTo(1, 0, 0)
				if r := w.processed(second); r.SkippedDuplicate || r.SlackItemID == "" {
					t.Errorf("result %+v", r)
				}
				w.checkTask(id, title, "x", "y")
				return
			case "skipped":
				w.sweepTo(1, 0, 0)
				if r := w.processed(second); !r.SkippedDuplicate {
					t.Errorf("result %+v", r)
				}
				data, err := os.ReadFile(filepath.Join(w.dir, "processed", second))
				if err != nil || !strings.Contains(string(data), `"_skipped_duplicate": true`) {
					t.Errorf("settled as %s, %v", data, err)
				}
			default:
				w.sweepTo(0, 1, 0)
				w.failed(second, inbox.Class(c.want), "T-00005 is another task", title, "otm retry --new-id "+second)
			}
			if after := w.rows(); len(after) != len(before) || w.calls()[createMethod] != made {
				t.Errorf("%d rows, before %d; %d creates, before %d", len(after), len(before), w.calls()[createMethod], made)
			}
		})
	}
}

// A copy of a drop that only has another task id may be meant once or twice: a person
// decides.
func TestCopyUnderAnotherID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.create(5, "Build it", "x")
	w.sweepTo(1, 0, 0)
	copied := w.drop("devdas", 6, "Build it", "x")
	copied.ID = pipeline.DropIDInName(name)
	second := w.put(inbox.NewTasks, "copy.json", copied.Encode())
	w.sweepTo(0, 1, 0)
	w.failed(second, inbox.Conflict, "its id belongs to another drop", name, "otm retry --new-id "+second)
}

// A row that somebody else made, with the id and the title, is taken over: its
// steps are found by their titles, those that are missing are made.
func TestHalfMadeElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	title := func(s string) boardtest.Cell { return boardtest.TextCell(w.Column(t, "Title", "text"), s) }
	row, err := w.Server.AddRow("", w.ListID, title("Build it"), boardtest.TextCell(w.Column(t, "Task ID", "text"), "T-5"), w.statusCell(pipeline.InProgress))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"b", "SAME", "same"} {
		if _, err := w.Server.AddStep("", w.ListID, row, title(step), w.statusCell(pipeline.Done)); err != nil {
			t.Fatal(err)
		}
	}
	name := w.create(5, "Build it", "a", "same", "b", "same")
	w.sweepTo(1, 0, 0)
	w.checkTaskFolded(5, "a", "same", "b", "same")
	if n := w.calls()[createMethod]; n != 1 {
		t.Errorf("%d creates, want the one step that was missing", n)
	}
	if task := w.task(5); task.Status != pipeline.InProgress || task.StepsDone() != 3 || task.Steps[0].Done {
		t.Errorf("task %+v", task)
	}
	if r := w.processed(name); !r.SkippedDuplicate || r.SlackItemID != row {
		t.Errorf("result %+v", r)
	}
}

func (w *world) checkTaskFolded(id pipeline.TaskID, steps ...string) {
	w.t.Helper()
	var titles []string
	seen := map[string]bool{}
	for _, s := range w.steps(id) {
		titles = append(titles, pipeline.FoldTitle(s.Title))
		seen[s.ID] = true
	}
	if !slices.Equal(titles, steps) || len(seen) != len(steps) {
		w.t.Errorf("steps %q, want %q", titles, steps)
	}
}

// What one drop began, another of the same task finishes, and says that it
// came twice.
func TestHalfMadeByAnotherDrop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.create(5, "Build it", "a", "b")
	w.Faults.Next(createMethod, boardtest.Pass(), boardtest.Pass(), boardtest.RateLimited("30"))
	w.sweepTo(0, 0, 1)
	if err := os.Remove(filepath.Join(w.box.Dir(inbox.NewTasks), first)); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Minute)
	again := w.create(5, "Build it", "a", "b")
	w.sweepTo(1, 0, 0)
	w.checkTask(5, "Build it", "a", "b")
	if r := w.processed(again); !r.SkippedDuplicate || len(r.SubtaskItemIDs) != 2 {
		t.Errorf("result %+v", r)
	}
}

// Of several rows that bear the id, the one with the title is the task's.
func TestSeveralRowsBearTheID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var rows []string
	for i := range 6 { // whichever of them the ids put first
		title := "Other " + fmt.Sprint(i)
		if i == 3 {
			title = "Build it"
		}
		row, err := w.Server.AddRow("", w.ListID, boardtest.TextCell(w.Column(t, "Title", "text"), title), boardtest.TextCell(w.Column(t, "Task ID", "text"), "T-00005"))
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	name := w.create(5, "Build it")
	w.sweepTo(1, 0, 0)
	if r := w.processed(name); r.SlackItemID != rows[3] {
		t.Errorf("taken for %s of %v", r.SlackItemID, rows)
	}
}

// Foreign drops that all have the same simple id are different tasks.
func TestForeignIDsAreSimple(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range idsOf(3) {
		c := w.drop("devdas", id, titleOf(id))
		c.ID = "1"
		name := w.put(inbox.NewTasks, fmt.Sprintf("task %d.json", id), c.Encode())
		w.restart()
		w.sweepTo(1, 0, 0)
		if r := w.processed(name); r.SkippedDuplicate || r.SlackItemID == "" {
			t.Errorf("%v: result %+v", id, r)
		}
	}
	for _, id := range idsOf(3) {
		w.checkTask(id, titleOf(id), pipeline.DefaultStep)
	}
}

// A drop without an id of its own keeps the one that it was given over a
// crash: it is not taken for another one.
func TestForeignDropKeepsItsIdentity(t *testing.T) {
	t.Parallel()
	uuid := pipeline.NewDropID()
	for file, want := range map[string]string{"mine.json": "", "2026-" + uuid + ".json": uuid} {
		w := newWorld(t)
		w.put(inbox.NewTasks, file, w.drop("devdas", 5, "Build it", "x", "y").Encode())
		w.Faults.Next(createMethod, boardtest.Pass(), boardtest.ApplyThenReset())
		w.sweepTo(0, 0, 1)
		first := w.task(5).DropID
		if first == "" || want != "" && first != want {
			t.Errorf("%s: id %q", file, first)
		}
		w.restart()
		w.clock.Advance(20 * time.Second)
		w.sweepTo(1, 0, 0)
		if r := w.processed(file); r.SkippedDuplicate || w.task(5).DropID != first {
			t.Errorf("%s: result %+v, id %q before %q", file, r, w.task(5).DropID, first)
		}
		w.checkTask(5, "Build it", "x", "y")
	}
}

// The counter is raised above every id seen, in drops and on the board.
func TestCounterIsRaised(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, cell := range []string{"T-00040", "t-50", "60", "T-1234567890", "not an id", ""} {
		if _, err := w.Server.AddRow("", w.ListID, boardtest.TextCell(w.Column(t, "Task ID", "text"), cell)); err != nil {
			t.Fatal(err)
		}
	}
	w.create(7, "Small")
	w.sweepTo(1, 0, 0)
	if got := w.counter(); got != 61 {
		t.Errorf("next id %v, want T-00061", got)
	}
	w.create(70, "Large")
	w.sweepTo(1, 0, 0)
	if got := w.counter(); got != 71 {
		t.Errorf("next id %v, want T-00071", got)
	}
	w.create(100_000, "Six digits") // B74
	w.sweepTo(1, 0, 0)
	w.checkTask(100_000, "Six digits", pipeline.DefaultStep)
	if got := w.counter(); got != 100_001 {
		t.Errorf("next id %v", got)
	}
}

// Others walk the board as well: what a person typed there is above the counter
// as soon as we have a look, though the rows are fresh and we need no walk.
func TestCounterIsRaisedAfterOthersWalk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.sweepTo(1, 0, 0)
	type_ := func(id string) {
		if _, err := w.Server.AddRow("", w.ListID, boardtest.TextCell(w.Column(t, "Task ID", "text"), id)); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(time.Second)
		w.batch(func(b pipeline.Batch) {
			if err := b.Refresh(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		})
		w.Faults.Reset()
	}
	type_("T-00040")
	w.create(2, "A")
	w.sweepTo(1, 0, 0)
	if got := w.counter(); got != 41 || w.Faults.Count(listMethod) != 0 {
		t.Errorf("next id %v after %d walks of ours, want T-00041 and none", got, w.Faults.Count(listMethod))
	}
	type_("T-00050")
	w.update(1, report{steps: []string{"x"}})
	w.sweepTo(1, 0, 0)
	if got := w.counter(); got != 51 {
		t.Errorf("next id %v, want T-00051", got)
	}
}

// slowBoard is a board on which the making of a row takes a while.
type slowBoard struct {
	pipeline.Board
	takes func()
	began func()
}

func (s slowBoard) Begin(ctx context.Context) (pipeline.Batch, error) {
	b, err := s.Board.Begin(ctx)
	s.began()
	var one sync.Mutex // rows of several tasks may be made at a time
	return slowBatch{b, func() {
		one.Lock()
		defer one.Unlock()
		s.takes()
	}}, err
}

type slowBatch struct {
	pipeline.Batch
	takes func()
}

func (s slowBatch) Create(ctx context.Context, parent string, cells ...pipeline.Cell) (string, error) {
	s.takes()
	return s.Batch.Create(ctx, parent, cells...)
}

// A task with many steps gives the board back when a batch has lasted its time,
// and goes on in the next one.
func TestManyStepsTakeManyBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var steps []string
	for i := range pipeline.MaxSteps {
		steps = append(steps, fmt.Sprint("step ", i))
	}
	file := w.create(1, "Long", steps...)
	var ended []time.Time
	rows := 0
	w.eng.Board = slowBoard{w.eng.Board, func() { rows++; w.clock.Advance(time.Second) }, func() { ended = append(ended, w.clock.Now()) }}
	w.sweepTo(1, 0, 0)
	w.checkTask(1, "Long", steps...)
	if r := w.processed(file); r.SkippedDuplicate || r.Attempts != 1 {
		t.Errorf("result %+v", r)
	}
	if rows != len(steps)+1 || len(ended) < 6 {
		t.Errorf("%d batches, %d rows; want 6 or more of 10 s for 51 rows", len(ended), rows)
	}
	for i := range ended[1:] {
		if d := ended[i+1].Sub(ended[i]); d > 11*time.Second {
			t.Errorf("batch %d took %v", i+1, d)
		}
	}
}

// The row of a task was deleted before all its steps were made: the row is not
// made again, and the drop says what happened.
func TestRowDeletedWhileStepsAreMade(t *testing.T) {
	t.Parallel()
	for _, restored := range []bool{false, true} {
		w := newWorld(t)
		file := w.create(1, "Half", "x", "y", "z")
		w.Faults.Next(createMethod, boardtest.Pass(), boardtest.Pass(), boardtest.RateLimited("30"))
		w.sweepTo(0, 0, 1)
		row := w.row(1).ID
		if err := w.Server.DeleteRow("", w.ListID, row); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(time.Minute)
		w.update(1, report{steps: []string{"x"}})
		w.create(2, "Another")
		silent := w.Faults.Always(infoMethod, boardtest.Status(500))
		w.sweepTo(1, 0, 2)
		silent()
		if restored {
			if err := w.Server.RestoreRow("", w.ListID, row); err != nil {
				t.Fatal(err)
			}
			w.clock.Advance(time.Minute)
			w.sweepTo(1, 0, 1) // the update waits for the dispatcher
			w.checkTask(1, "Half", "x", "y", "z")
			continue
		}
		made := w.calls()[createMethod]
		for range 3 {
			w.clock.Advance(w.times.SettleAfter + time.Second)
			w.sweep()
		}
		if n := w.calls()[createMethod]; n != made {
			t.Errorf("the board was asked %d times for steps of a row that has gone", n-made)
		}
		w.failed(file, inbox.Conflict, "the row of T-00001 is no longer on the board: somebody deleted or archived it", "otm show T-00001")
		if got := w.waiting(); len(got) != 0 {
			t.Errorf("left in the inbox: %v", got)
		}
		for _, r := range w.rows() {
			if r.Task() == 1 {
				t.Errorf("the row was made again: %+v", r)
			}
		}
	}
}

// A name that is taken in processed/ gets the next suffix; nothing is
// overwritten.
func TestSettledNamesAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range idsOf(3) {
		w.put(inbox.NewTasks, "task.json", w.drop("devdas", id, titleOf(id)).Encode())
		w.sweepTo(1, 0, 0)
	}
	want := []string{"task-2.json", "task-3.json", "task.json"}
	if got := w.settled(inbox.ProcessedDir); !slices.Equal(got, want) {
		t.Errorf("processed %v, want %v", got, want)
	}
	for i, name := range []string{"task.json", "task-2.json", "task-3.json"} {
		if r := w.processed(name); r.SlackItemID != w.row(pipeline.TaskID(i+1)).ID {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// While the board cannot be looked at, creates wait. After dedup_give_up they
// are made unseen, and say so.
func TestDedupGivesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.create(5, "Build it", "x")
	w.age(inbox.NewTasks, name, time.Minute)
	stop := w.Faults.Always(listMethod, boardtest.Status(503))
	for range 3 {
		r := w.sweepTo(0, 0, 1)
		if r.Trouble == nil || !strings.Contains(r.Details(), "HTTP status 503") || !r.Due.Equal(w.clock.Now().Add(retryBoard)) {
			t.Errorf("report %+v", r)
		}
		w.clock.Advance(8 * time.Minute)
	}
	if n := w.calls()[createMethod]; n != 0 {
		t.Errorf("%d creates", n)
	}
	w.clock.Advance(8 * time.Minute)
	w.sweepTo(1, 0, 0)
	if r := w.processed(name); !r.DedupUnverified || r.SkippedDuplicate || r.SlackItemID == "" {
		t.Errorf("result %+v", r)
	}
	w.checkTask(5, "Build it", "x")
	if !w.task(5).Unverified {
		t.Error("the store does not say that it is unverified")
	}
	stop()
	next := w.create(6, "Seen again")
	w.sweepTo(1, 0, 0)
	if r := w.processed(next); r.DedupUnverified {
		t.Errorf("result %+v", r)
	}
}

// Nor does giving up make a second row of one whose answer was lost.
func TestDedupDoesNotGiveUpOnWhatWasAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.create(5, "Build it", "x")
	w.Faults.Next(createMethod, boardtest.ApplyThenReset())
	w.sweepTo(0, 0, 1)
	stop := w.Faults.Always(listMethod, boardtest.Status(503))
	w.clock.Advance(time.Hour)
	w.sweepTo(0, 0, 1)
	stop()
	w.sweepTo(1, 0, 0)
	w.checkTask(5, "Build it", "x")
	if r := w.processed(name); r.DedupUnverified || r.SkippedDuplicate {
		t.Errorf("result %+v", r)
	}
}

// B104: what the board refuses fails that one file, at once; the next goes on.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.eng.Board = bent{w.eng.Board, func(b pipeline.Batch) pipeline.Batch { return oneByOne{b} }}
	bad, step, good := w.create(1, "Bad"), w.create(2, "Bad step", "x", "y"), w.create(3, "Good")
	w.Faults.Next(createMethod, boardtest.ErrorCode("invalid_blocks"), // the first row
		boardtest.Pass(), boardtest.Pass(), boardtest.ErrorCode("invalid_text_block")) // a step of the second
	w.sweepTo(1, 2, 0)
	w.failed(bad, inbox.Rejected, "the board refuses it", "invalid_blocks")
	w.failed(step, inbox.Rejected, "step 2", "invalid_text_block")
	if r := w.processed(good); r.SlackItemID == "" {
		t.Errorf("result %+v", r)
	}
	if task := w.task(1); task.RowID != "" {
		t.Errorf("task %+v", task)
	}
	// Sent again, they are made, and finished.
	for _, name := range []string{bad, step} {
		if _, _, err := w.box.Retry(name, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.sweepTo(2, 0, 0)
	w.checkTask(1, "Bad", pipeline.DefaultStep)
	w.checkTask(2, "Bad step", "x", "y")
}

// A missing option keeps the file and says what to add; when it is there, the
// file goes on by itself. Others are not held up.
func TestMissingOptionKeepsTheFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	column := w.Column(t, "Priority", "select")
	if err := w.Server.RemoveOption("", w.ListID, column, "high"); err != nil {
		t.Fatal(err)
	}
	name := w.create(1, "High")
	low := w.drop("devdas", 2, "Low")
	low.Task.Priority = pipeline.Low
	w.put(inbox.NewTasks, "low.json", low.Encode())
	r := w.sweepTo(1, 0, 1)
	if len(r.Kept) != 1 || !strings.Contains(r.Kept[0], `option "high" of column "Priority" is missing`) || r.Trouble != nil {
		t.Errorf("report %+v", r)
	}
	if !strings.Contains(r.Details(), "Processed 1 task, 0 failures, 1 waiting; T-00001: the drop ") {
		t.Errorf("summary %q", r.Details())
	}
	w.sweepTo(0, 0, 1)
	if got := w.waiting(); !slices.Equal(got, []string{name}) {
		t.Errorf("inbox %v", got)
	}
	if n := strings.Count(w.log.String(), "level=WARN msg=\"kept drop\""); n != 1 {
		t.Errorf("said %d times that it is kept", n)
	}
	if err := w.Server.AddOption("", w.ListID, column, "", "High"); err != nil {
		t.Fatal(err)
	}
	w.sweepTo(1, 0, 0)
	w.checkTask(1, "High", pipeline.DefaultStep)
}

// A missing column keeps all, as a person has to act on the board.
func TestMissingColumnKeepsTheFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.Server.RenameColumn("", w.ListID, w.Column(t, "Status", "select"), "State"); err != nil {
		t.Fatal(err)
	}
	w.create(1, "A")
	if r := w.sweepTo(0, 0, 1); len(r.Kept) != 1 || !strings.Contains(r.Kept[0], `column "Status" is missing`) {
		t.Errorf("report %+v", r)
	}
}

// A full list keeps creates, and one call a sweep finds out. Updates go on, and
// what was half made is finished when there is room.
func TestFullListKeepsTheFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *boardtest.Options) { o.RowLimit = 5 })
	w.createFor("olga", 1, "Fits", "x")
	w.create(2, "Too large", "x", "y", "z")
	w.create(3, "Fits too")
	w.create(4, "Too late")
	w.update(1, report{status: pipeline.InProgress})
	r := w.sweepTo(3, 0, 2)
	if len(r.Kept) != 1 || r.Kept[0] != "the list is full" || r.Trouble != nil {
		t.Errorf("report %+v", r)
	}
	if n := w.calls()[createMethod]; n != 4 { // nothing is made by halves
		t.Errorf("%d creates", n)
	}
	if got := w.row(1).Status; got != pipeline.InProgress {
		t.Errorf("T-00001 is %s", got)
	}
	for _, row := range []string{w.steps(1)[0].ID, w.task(3).RowID} {
		if err := w.Server.DeleteRow("", w.ListID, row); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Advance(time.Minute)
	w.sweepTo(1, 0, 1)
	w.checkTask(2, "Too large", "x", "y", "z")
}

// Where creates are limited, updates go on, and the creates come when they may.
func TestLimitedCreatesLetUpdatesGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.sweepTo(1, 0, 0)
	w.create(2, "A", "x", "y")
	w.create(3, "B")
	w.update(1, report{steps: []string{"x"}})
	w.Faults.Reset()
	w.Faults.Next(createMethod, boardtest.Pass(), boardtest.RateLimited("30"))
	r := w.sweepTo(1, 0, 2)
	if r.Due.Sub(w.clock.Now().Add(30*time.Second)).Abs() > time.Second || r.Trouble != nil {
		t.Errorf("report %+v, due %v", r.Report, r.Due)
	}
	if n := w.calls(); n[createMethod] != 2 || n[updateMethod] == 0 {
		t.Errorf("calls %v", n)
	}
	w.clock.Advance(10 * time.Second)
	w.sweepTo(0, 0, 2)
	if n := w.calls()[createMethod]; n != 2 {
		t.Error("called before its time")
	}
	w.clock.Advance(20 * time.Second)
	w.restart()
	w.sweepTo(2, 0, 0)
	w.checkTask(2, "A", "x", "y")
	w.checkTask(3, "B", pipeline.DefaultStep)
}

// Where looking is limited, files wait until it is allowed again.
func TestLimitedWalkIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.sweepTo(1, 0, 0)
	w.clock.Advance(createAge + time.Second)
	w.create(2, "A")
	w.update(1, report{steps: []string{"x"}})
	w.Faults.Next(listMethod, boardtest.RateLimited("30"))
	if r := w.sweepTo(0, 0, 2); r.Due.Sub(w.clock.Now().Add(30*time.Second)).Abs() > time.Second {
		t.Errorf("report %+v", r)
	}
	w.clock.Advance(31 * time.Second)
	w.sweepTo(2, 0, 0)
}

// Trouble that concerns all ends the sweep with the first file.
func TestTroubleEndsTheSweep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault boardtest.Fault
		due   time.Duration
	}{
		"token refused":   {boardtest.ErrorCode("invalid_auth"), 0},
		"no such list":    {boardtest.ErrorCode("list_not_found"), 0},
		"out of reach":    {boardtest.Status(503), retryBoard},
		"reads limited":   {boardtest.RateLimited("42"), 42 * time.Second},
		"reading refused": {boardtest.ErrorCode("invalid_arguments"), retryBoard},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(1, "A")
			w.create(2, "B")
			w.Faults.Next(listMethod, c.fault)
			r := w.sweep()
			if r.Processed+r.Failed != 0 || len(w.waiting()) != 2 {
				t.Errorf("report %+v, inbox %v", r, w.waiting())
			}
			if want := w.clock.Now().Add(c.due); c.due == 0 && !r.Due.IsZero() || c.due != 0 && r.Due.Sub(want).Abs() > time.Second {
				t.Errorf("due %v, want %v", r.Due, want)
			}
			if n := w.Faults.Count(listMethod); n != 1 {
				t.Errorf("%d walks", n)
			}
			w.clock.Advance(time.Minute)
			w.sweepTo(2, 0, 0)
		})
	}
}

// A file that makes us panic is a bad file: it fails at once, the others flow.
func TestCaseB83PanickingFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.eng.Board = bent{w.client(), func(b pipeline.Batch) pipeline.Batch { return panickingBatch{b, "Poison"} }}
	bad, good := w.create(1, "Poison"), w.create(2, "Good")
	w.sweepTo(1, 1, 0)
	w.failed(bad, inbox.Invalid, "internal error: ")
	if r := w.processed(good); r.SlackItemID == "" {
		t.Errorf("result %+v", r)
	}
	w.checkTask(2, "Good", pipeline.DefaultStep)
	w.sweepTo(0, 0, 0)
}

// So is one whose command makes the store panic.
func TestCaseB83PanickingCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in.Engine = panickingEngine{w.eng, 2}
	first, bad, last := w.create(1, "First"), w.create(2, "Poison"), w.create(3, "Last")
	w.sweepTo(2, 1, 0)
	w.failed(bad, inbox.Invalid, "internal error: ")
	for _, good := range []string{first, last} {
		if r := w.processed(good); r.SlackItemID == "" || r.SkippedDuplicate {
			t.Errorf("result %+v", r)
		}
	}
}

// panickingEngine panics on the commands of one task.
type panickingEngine struct {
	Engine
	task pipeline.TaskID
}

func (p panickingEngine) Do(ctx context.Context, commands ...core.Command) ([]core.Outcome, error) {
	for i := range commands {
		if commands[i].Task == p.task {
			commands[i].Do = nil
		}
	}
	return p.Engine.Do(ctx, commands...)
}
