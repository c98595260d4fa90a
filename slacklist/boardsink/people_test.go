package boardsink

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/internal/board/boardtest"
	"otm/internal/explain"
	"otm/pipeline"
)

// types types a row as a person does.
func (w *world) types(title, assignee string, more ...boardtest.Cell) string {
	w.t.Helper()
	cells := append([]boardtest.Cell{w.text("Title", title)}, more...)
	if assignee != "" {
		cells = append(cells, w.assignee(assignee))
	}
	row, err := w.Server.AddRow("U0ROB", w.ListID, cells...)
	if err != nil {
		w.t.Fatal(err)
	}
	return row
}

func (w *world) assignee(label string) boardtest.Cell {
	return boardtest.SelectCell(w.Column(w.t, "Assignee", "select"), w.option("Assignee", label))
}

func (w *world) typesStep(parent, title string) {
	w.t.Helper()
	if _, err := w.Server.AddStep("U0ROB", w.ListID, parent, w.text("Title", title)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) deletes(row string) {
	w.t.Helper()
	if err := w.Server.DeleteRow("U0ROB", w.ListID, row); err != nil {
		w.t.Fatal(err)
	}
}

// looks compares the board with the store after a while, and returns the findings.
func (w *world) looks(after time.Duration) string {
	w.t.Helper()
	w.clock.Advance(after)
	var lines []string
	for _, f := range w.compare().Findings {
		lines = append(lines, explain.Sentence(&f, time.Time{}))
	}
	return strings.Join(lines, "\n")
}

// taskOf is the task of a row.
func (w *world) taskOf(row string) *core.Task {
	w.t.Helper()
	tasks, err := w.store.Tasks(w.t.Context(), core.Filter{Rows: []string{row}})
	if err != nil || len(tasks) > 1 {
		w.t.Fatal(tasks, err)
	}
	if len(tasks) == 0 {
		return nil
	}
	return tasks[0]
}

// A person empties cells that a task needs. The board shows them again, the task stays as
// it is, and its events tell of it. An emptied assignee is a choice: the task is nobody's.
func TestEmptiedCells(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "x", "a")
	w.delivers()
	w.handOut(1)
	w.report(1, core.Report{Status: pipeline.Blocked, Reason: "why?"})
	w.delivers()
	was := w.row(1)
	step := w.task(1).Steps[0].RowID
	none := func(column string) boardtest.Cell {
		return boardtest.Cell{"column_id": w.Column(t, column, "select"), "select": []string{}}
	}
	for n, cells := range [][]boardtest.Cell{{w.text("Title", "")}, {w.text("Reason", "")}, {none("Priority")}, {none("Status")}, {w.text("Title", ""), none("Status")}} {
		w.person(was.ID, cells...)
		w.person(step, w.text("Title", ""))
		if w.looks(time.Second); w.found.Drifted != 0 || w.found.Again.IsZero() {
			t.Errorf("%d: %+v at once", n, w.found)
		}
		if w.looks(2 * pipeline.DefaultTimes.AdoptAfter); w.found.Drifted != 1 {
			t.Errorf("%d: %+v later", n, w.found)
		}
		w.delivers()
		if row := w.row(1); row.Title != was.Title || row.Reason != was.Reason || row.Priority != was.Priority || row.Status != was.Status {
			t.Errorf("%d: row %+v", n, row)
		}
	}
	if task := w.task(1); task.Title != "x" || task.Status != pipeline.Blocked || task.Reason != "why?" {
		t.Errorf("task %+v", task)
	}
	w.check()
	drifts := 0
	events, err := w.store.Events(t.Context(), core.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if _, ok := e.Data.(core.ReconciliationDrift); ok {
			drifts++
		}
	}
	if drifts != 5 {
		t.Errorf("%d events of drift", drifts)
	}
	w.person(was.ID, none("Assignee"))
	if w.looks(time.Second); w.task(1).Agent != "" {
		t.Errorf("task %+v", w.task(1))
	}
}

// A row that a person typed becomes a task once it has an assignee and nobody edits it.
func TestAdoption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	waits := w.types("Nobody's", "")
	untitled := w.types("", "Dev Das")
	row := w.types("Fix the login", "Dev Das")
	own := w.types("With steps", "Dev Das", boardtest.SelectCell(w.Column(t, "Priority", "select"), "low"))
	w.typesStep(own, "One")
	olgas := w.types("Olga's", "olga", w.statusCell(pipeline.New))
	w.looks(50 * time.Second)
	w.typesStep(own, "Two")
	if w.found.Adopted != 0 || w.found.Again.IsZero() || w.found.Again.After(w.clock.Now().Add(pipeline.DefaultTimes.AdoptAfter)) {
		t.Errorf("found %+v", w.found)
	}
	if w.looks(20 * time.Second); w.found.Adopted != 2 {
		t.Errorf("adopted %d, a step of one was just typed", w.found.Adopted)
	}
	if w.looks(50 * time.Second); w.found.Adopted != 1 {
		t.Errorf("adopted %d", w.found.Adopted)
	}
	if w.taskOf(waits) != nil || w.taskOf(untitled) != nil {
		t.Error("a row without assignee or title became a task")
	}
	w.deletes(waits)
	w.deletes(untitled)
	w.delivers()
	w.compare()
	w.check()
	task := w.taskOf(row)
	if got := fmt.Sprint(task.Title, task.Agent, task.Status, task.Priority, task.StepTitles()); got != "Fix the logindevdasnewnormal["+pipeline.DefaultStep+"]" {
		t.Errorf("task %s", got)
	}
	events, err := w.store.Events(t.Context(), core.EventFilter{Task: task.ID})
	if err != nil || events[0].By != core.ByPerson("U0ROB") || events[0].Type() != "TaskRequested" {
		t.Errorf("events %+v, %v", events, err)
	}
	task = w.taskOf(own)
	titles := task.StepTitles()
	if slices.Sort(titles); fmt.Sprint(task.Priority, titles) != "low[One Two]" {
		t.Errorf("with steps of its own: %+v", task)
	}
	if task := w.taskOf(olgas); task.Agent != "olga" {
		t.Errorf("olga's: %+v", task)
	}
}

// Whichever answer is lost, the row keeps one id and gets one step.
func TestAdoptionLostAnswers(t *testing.T) {
	t.Parallel()
	for _, method := range []string{apiUpdate, apiCreate, apiList} {
		for _, fault := range faults {
			t.Run(fmt.Sprint(method, " ", fault.Name), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				row := w.types("Fix", "Dev Das")
				w.looks(pipeline.DefaultTimes.AdoptAfter + time.Second)
				w.clock.Advance(time.Minute)
				w.Faults.Next(method, fault)
				w.delivers()
				w.restart()
				w.heal(10*time.Second, false)
				w.compare()
				w.check()
				if n := len(w.rows()); n != 2 || w.taskOf(row).ID != 101 {
					t.Errorf("%d rows, %v", n, w.taskOf(row).ID)
				}
			})
		}
	}
}

// The store loses the answer to an adoption: the row keeps its id.
func TestAdoptionWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	row := w.types("Fix", "Dev Das")
	w.clock.Advance(pipeline.DefaultTimes.AdoptAfter + time.Second)
	w.store.After = func() error { return fmt.Errorf("connection lost") }
	b, err := w.client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Refresh(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.differ.Run(t.Context(), b); err == nil {
		t.Error("the store failed, and nobody says so")
	}
	b.End()
	w.store.After = nil
	w.restart()
	w.looks(time.Second)
	w.delivers()
	w.check()
	if w.taskOf(row).ID != 101 || w.found.Adopted != 0 {
		t.Errorf("task %+v", w.taskOf(row))
	}
}

// A list that is full holds up the step of a row that a person typed, and no update.
func TestAdoptionOnAFullList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *boardtest.Options) { o.RowLimit = 2 })
	row := w.types("Typed", "Dev Das")
	w.types("Another", "")
	w.looks(pipeline.DefaultTimes.AdoptAfter + time.Second)
	if got := codes(w.delivers()); got != "101 list_full (person)" {
		t.Errorf("left %s", got)
	}
	if r := w.row(101); r.ID != row || r.Status != pipeline.New {
		t.Errorf("row %+v", r)
	}
}

// A person changes the Task ID cell of a task's row. It gets its id back once nobody
// edits it, in any status, and no second task is made of it.
func TestTaskIDChanged(t *testing.T) {
	t.Parallel()
	for _, status := range []pipeline.Status{pipeline.New, pipeline.Assigned, pipeline.InProgress, pipeline.AgentDone} {
		for _, text := range []string{"", "soon", "T-00007", "T-00002"} { // the last is another task
			t.Run(string(status)+" "+text, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.create(1, "x", "a")
				w.create(2, "y", "a")
				w.delivers()
				w.person(w.task(1).RowID, w.text("Task ID", text), w.statusCell(status))
				w.looks(time.Second)
				w.delivers()
				if slices.ContainsFunc(w.rows(), func(r pipeline.Row) bool { return r.Task() == 1 }) {
					t.Error("written back while it is being edited")
				}
				if got := w.looks(pipeline.DefaultTimes.AdoptAfter); got != "" {
					t.Errorf("found %s", got)
				}
				w.delivers()
				w.check()
				if n := len(w.rows()); n != 4 || w.task(1).Status != status {
					t.Errorf("%d rows, task %+v", n, w.task(1))
				}
			})
		}
	}
}

// A Task ID that somebody changes again within an hour, as a second data directory
// would, is reported and not written back.
func TestTaskIDChangedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "x", "a")
	w.delivers()
	for n := range 2 {
		w.person(w.task(1).RowID, w.text("Task ID", ""))
		got := w.looks(pipeline.DefaultTimes.AdoptAfter + time.Second)
		if strings.Contains(got, "somebody changed the Task ID of its row again") != (n == 1) {
			t.Errorf("found %q", got)
		}
		w.delivers()
	}
	if slices.ContainsFunc(w.rows(), func(r pipeline.Row) bool { return r.Task() == 1 }) {
		t.Error("written back again at once")
	}
	w.looks(time.Hour)
	w.delivers()
	w.check()
}

// A person copied the row of a task, and cleared the id of the original: the copy has to
// lose it first, and then becomes a task of its own.
func TestTaskIDClearedWhileACopyBearsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "x", "a")
	w.delivers()
	copied := w.types("x", "Dev Das", w.text("Task ID", "T-00001"))
	w.person(w.task(1).RowID, w.text("Task ID", ""))
	if got := w.looks(pipeline.DefaultTimes.AdoptAfter + time.Second); !strings.Contains(got, `another row, "x", has that Task ID`) || !strings.Contains(got, "two rows bear this id") {
		t.Errorf("found %s", got)
	}
	w.person(copied, w.text("Task ID", ""))
	if got := w.looks(pipeline.DefaultTimes.AdoptAfter + time.Second); got != "" {
		t.Errorf("found %s", got)
	}
	w.delivers()
	w.check()
	if w.taskOf(copied).ID != 101 {
		t.Errorf("the copy is %+v", w.taskOf(copied))
	}
}

// A step that a person deleted need not be done; neither does a step of a finished task
// whose tick is still to be written (the effect would wait for ever).
func TestDeletedSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "x", "One", "Two")
	w.delivers()
	w.handOut(1)
	w.delivers()
	w.deletes(w.task(1).Steps[0].RowID)
	w.report(1, core.Report{Steps: []string{"One"}, Status: pipeline.AgentDone})
	w.clock.Advance(time.Minute)
	w.Faults.Next(apiInfo, boardtest.Status(500))
	if got := codes(w.delivers()); got != "1 row_missing" {
		t.Errorf("left %s", got)
	}
	if row := w.row(1); row.Status != pipeline.AgentDone {
		t.Errorf("its status waits for the step: %+v", row)
	}
	w.looks(time.Minute)
	w.delivers()
	w.check()
	if got := fmt.Sprint(w.task(1).StepTitles()); got != "[Two]" {
		t.Errorf("steps %s", got)
	}
}

// A row is deleted, also while nobody looked and no snapshot holds it. It is gone by
// the board's word, never made again, and goes on when it comes back.
func TestRowDeleted(t *testing.T) {
	t.Parallel()
	for _, noSnapshot := range []bool{false, true} {
		t.Run(fmt.Sprint("without a snapshot ", noSnapshot), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(1, "x", "a")
			w.delivers()
			row := w.task(1).RowID
			w.deletes(row)
			w.handOut(1)
			if noSnapshot {
				if err := os.Remove(filepath.Join(w.dir, "board", "snapshot.json")); err != nil {
					t.Fatal(err)
				}
				w.restart()
			}
			w.clock.Advance(time.Minute)
			w.Faults.Next(apiInfo, boardtest.Status(500))
			if got := codes(w.delivers()); got != "1 row_missing" {
				t.Errorf("left %s", got)
			}
			if !w.task(1).GoneAt.IsZero() {
				t.Error("gone without the board's word")
			}
			w.looks(time.Minute)
			if w.task(1).GoneAt.IsZero() || len(w.pending()) != 0 || len(w.rows()) != 0 {
				t.Errorf("task %+v, %+v", w.task(1), w.pending())
			}
			if err := w.Server.RestoreRow("U0ROB", w.ListID, row); err != nil {
				t.Fatal(err)
			}
			w.looks(time.Minute)
			w.delivers()
			w.check()
			if row := w.row(1); row.Status != pipeline.Assigned {
				t.Errorf("row %+v", row)
			}
		})
	}
}

// A row that vanishes between the walk and the write is no refusal: the board is walked,
// and others go on.
func TestRowGoesBeforeTheWrite(t *testing.T) {
	t.Parallel()
	for lacks, want := range map[string]string{"update": "1 row_missing", "step": "1 invalid_args (person)"} {
		t.Run(lacks, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(1, "x", "a")
			if lacks == "step" {
				w.Faults.Next(apiCreate, boardtest.Pass(), boardtest.RateLimited("1"))
			}
			w.delivers()
			w.create(2, "y", "a")
			if lacks == "update" {
				w.do(core.ByPerson("olga"), 1, core.Edits{Title: new("z")})
			}
			w.clock.Advance(time.Second * 2)
			w.deletes(w.row(1).ID) // the snapshot is fresh, and does not show it
			if got := codes(w.delivers()); got != want {
				t.Errorf("left %s", got)
			}
			w.looks(time.Minute)
			w.looks(time.Minute)
			w.delivers()
			if w.task(1).GoneAt.IsZero() || len(w.pending()) != 0 || w.row(2).Status != pipeline.New {
				t.Errorf("task %+v, %+v", w.task(1), w.pending())
			}
		})
	}
}

// Walks that miss rows by mistake mean nothing.
func TestWalkLacksARow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "x", "a")
	w.delivers()
	w.clock.Advance(time.Minute)
	stop := w.Faults.Always(apiList, boardtest.Rewrite("without rows", func(answer map[string]any) { answer["items"] = []any{} }))
	for range 4 {
		w.looks(time.Minute)
	}
	stop()
	if !w.task(1).GoneAt.IsZero() || w.Faults.Count(apiInfo) != 4 {
		t.Errorf("%+v after %d looks", w.task(1), w.Faults.Count(apiInfo))
	}
	w.looks(time.Minute)
	w.check()
}

// If the board lost all its rows, or is another board, a comparison asks for few rows,
// and nothing is made twice.
func TestOtherBoard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id := range pipeline.TaskID(7) {
		w.create(id+1, titleOf(id+1), "a")
	}
	w.delivers()
	w.Board = boardtest.Start(t)
	w.eye = nil
	w.restart()
	for n := range 4 {
		w.looks(time.Minute)
		w.delivers()
		if got, want := w.Faults.Count(apiInfo), []int{5, 7, 7, 7}[n]; got != want {
			t.Errorf("after %d walks: %d looks, want %d", n+1, got, want)
		}
	}
	for id := range pipeline.TaskID(7) {
		if w.task(id + 1).GoneAt.IsZero() {
			t.Errorf("%v is not gone", id+1)
		}
	}
	if n := len(w.rows()); n != 0 {
		t.Errorf("%d rows on the other board", n)
	}
}

// A status that cannot be read is not overwritten.
func TestUnreadableStatusIsNotOverwritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "x", "a")
	w.delivers()
	w.handOut(1)
	w.clock.Advance(time.Minute)
	row := w.task(1).RowID
	stop := w.Faults.Always(apiList, boardtest.Rewrite("unreadable", func(answer map[string]any) {
		for _, item := range answer["items"].([]any) {
			if item := item.(map[string]any); item["id"] == row {
				item["fields"] = nil
			}
		}
	}))
	if got := codes(w.delivers()); got != "1 status_unknown (person)" {
		t.Errorf("left %s", got)
	}
	if w.row(1).Status != pipeline.New {
		t.Error("overwritten")
	}
	stop()
	w.clock.Advance(time.Minute)
	w.delivers()
	w.check()
}

// A person moves a task at the moment when OTM is about to: the person's choice stays.
func TestPersonIsFaster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "x", "a")
	w.delivers()
	w.handOut(1)
	w.person(w.task(1).RowID, w.statusCell(pipeline.Cancelled))
	w.delivers()
	w.check()
	if task := w.task(1); task.Status != pipeline.Cancelled || task.StatusBy != core.ByPerson("U0ROB") {
		t.Errorf("task %+v", task)
	}
}

// A person opens the row of a task that is about to be deleted.
func TestReopenedBeforeItsDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "x", "a")
	w.delivers()
	w.do(core.ByPerson("olga"), 1, core.Edits{Status: new(pipeline.Done)})
	w.delivers()
	w.do(core.Component("otm"), 1, core.Archive{Row: w.row(1)})
	w.person(w.task(1).RowID, w.statusCell(pipeline.New))
	w.delivers()
	w.delivers()
	w.check()
	if task := w.task(1); task.Status != pipeline.New || !task.ArchivedAt.IsZero() || len(w.rows()) != 2 {
		t.Errorf("task %+v", task)
	}
}

// Another task's row has the Task ID: a person has to clear it.
func TestAnotherRowHasTheID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.types("Other", "", w.text("Task ID", "T-00001"))
	w.create(1, "x", "a")
	if got := codes(w.delivers()); got != "1 other_row (person)" {
		t.Errorf("left %s", got)
	}
	w.person(other, w.text("Task ID", ""))
	w.delivers()
	if row := w.row(1); row.Title != "x" {
		t.Errorf("row %+v", row)
	}
}

// Somebody takes a task from its agent on the page: the board shows nobody.
func TestAssigneeCleared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "x", "a")
	w.delivers()
	w.handOut(1)
	w.do(core.ByPerson("Page"), 1, core.Edits{Agent: new("")})
	w.clock.Advance(time.Minute)
	w.delivers()
	w.compare()
	w.check()
	if row := w.row(1); row.Assignee != "" || row.Status != pipeline.New {
		t.Errorf("row %+v", row)
	}
}

// An AI agent with a user of its own on the board is no person there: it gets what it may
// report on its own task, and the rest is written back.
func TestAgentEditsTheBoard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "a")
	w.delivers()
	w.handOut(1)
	w.delivers()
	agentSets := func(cells ...boardtest.Cell) {
		t.Helper()
		w.clock.Advance(time.Minute)
		if err := w.Server.EditRow("U0DEVDAS", w.ListID, w.task(1).RowID, cells...); err != nil {
			t.Fatal(err)
		}
		w.compare()
		w.delivers()
		w.compare()
	}
	agentSets(w.statusCell(pipeline.AgentDone))
	if task := w.task(1); task.Status != pipeline.AgentDone || task.StatusBy != core.ByAgent("devdas") || task.Runs.Number() != 1 {
		t.Errorf("it said that it is done: %s by %v, %d runs", task.Status, task.StatusBy, task.Runs.Number())
	}
	agentSets(w.statusCell(pipeline.Done), w.assignee("archibald"))
	if task, row := w.task(1), w.row(1); task.Status != pipeline.AgentDone || row.Status != pipeline.AgentDone || task.Agent != "devdas" || row.Assignee != "Dev Das" || len(w.pending()) > 0 {
		t.Errorf("it accepted its own task and gave it away: %s of %s, the board shows %s of %s", task.Status, task.Agent, row.Status, row.Assignee)
	}
}
