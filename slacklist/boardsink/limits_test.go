package boardsink

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/internal/board/boardtest"
	"otm/pipeline"
)

// A list that is nearly full takes the tasks for whose rows it has room, all of them:
// nothing is made by halves. Updates go on, and the others come when there is room.
func TestFullList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *boardtest.Options) { o.RowLimit = 7 })
	w.create(1, "There", "x", "y")
	w.delivers()
	w.create(2, "Large", "x", "y", "z", "u")
	w.create(3, "Small", "x")
	w.handOut(1)
	w.clock.Advance(time.Minute)
	w.Faults.Reset()
	left := w.delivers()
	if got := codes(left); got != "2 list_full (person)" {
		t.Errorf("left %s", got)
	}
	if n := w.Faults.Count(apiCreate); n != 2 || w.task(2).RowID != "" || !w.task(3).OnBoard() {
		t.Errorf("%d creates, large %+v", n, w.task(2))
	}
	if row := w.row(1); row.Status != pipeline.Assigned {
		t.Errorf("row %+v", row)
	}
	w.do(core.ByPerson("olga"), 1, core.Edits{Status: new(pipeline.Cancelled)})
	w.clock.Advance(time.Minute)
	w.delivers()
	w.do(core.Component("otm"), 1, core.Archive{Row: w.row(1)})
	w.clock.Advance(time.Minute)
	if got := codes(w.delivers()); got != "" { // deleting comes first and makes room
		t.Errorf("left %s", got)
	}
	if n := len(w.task(2).Steps); n != 4 || !w.task(2).OnBoard() {
		t.Errorf("task %+v", w.task(2))
	}
}

// Others may fill the list meanwhile: one call finds out, and what was half made is
// finished when there is room.
func TestListFillsUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "Half", "x", "y")
	w.create(2, "Not", "x")
	w.Faults.Next(apiCreate, boardtest.Pass(), boardtest.ErrorCode("over_row_maximum"))
	if got := codes(w.delivers()); got != "1 list_full (person), 2 list_full (person)" {
		t.Errorf("left %s", got)
	}
	w.clock.Advance(time.Hour)
	if got := codes(w.delivers()); got != "" || !w.task(1).OnBoard() || !w.task(2).OnBoard() {
		t.Errorf("left %s: %+v", got, w.task(1))
	}
}

// Where creates are limited, updates go on, and the creates come when they may.
func TestLimitedCreates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "There", "x")
	w.delivers()
	w.handOut(1)
	w.create(2, "A", "x")
	w.create(3, "B", "x")
	w.clock.Advance(time.Minute)
	w.Faults.Next(apiCreate, boardtest.RateLimited("30"))
	left := w.delivers()
	if got := codes(left); got != "2 ratelimited, 3 ratelimited" {
		t.Errorf("left %s", got)
	}
	for id, r := range left {
		if wait := r.Due.Sub(w.clock.Now()); wait < 29*time.Second || wait > 31*time.Second || r.Stop || !r.Asked.IsZero() {
			t.Errorf("%v: %+v, due in %v", id, r, wait)
		}
	}
	if row := w.row(1); row.Status != pipeline.Assigned {
		t.Errorf("row %+v", row)
	}
	w.clock.Advance(31 * time.Second)
	w.delivers()
	w.check()
}

// An option that the board lacks keeps back what needs it, and nothing else.
func TestOptionMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *boardtest.Options) { o.FixedAssignees = true })
	w.restart()
	for id, agent := range map[pipeline.TaskID]string{1: "devdas", 2: "nobody", 3: "devdas"} {
		w.store.Request(t.Context(), w.clock.Now(), pipeline.Task{ID: id, Title: titleOf(id), Agent: agent, Priority: pipeline.Normal, Type: pipeline.Action, Steps: []string{"x"}})
	}
	// The client believes that assignees are open: the board refuses them instead.
	left := w.delivers()
	for id, r := range left {
		if !r.Person || r.Stop {
			t.Errorf("%v: %+v", id, r)
		}
	}
	if len(left) != 3 {
		t.Errorf("left %s", codes(left))
	}
	for id := range pipeline.TaskID(3) {
		w.do(core.ByPerson("olga"), id+1, core.Edits{Priority: new(pipeline.Priority("urgent"))})
	}
	if got := codes(w.delivers()); got != "1 option_missing (person), 2 option_missing (person), 3 option_missing (person)" {
		t.Errorf("left %s", got)
	}
}

// One task that the board refuses stops no other, in one call and alone.
func TestOneIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id := range pipeline.TaskID(3) {
		w.create(id+1, titleOf(id+1), "x")
	}
	w.delivers()
	for id := range pipeline.TaskID(3) {
		w.do(core.ByPerson("olga"), id+1, core.Edits{Status: new(pipeline.Dormant)})
	}
	w.do(core.ByPerson("olga"), 2, core.Edits{Priority: new(pipeline.Priority("urgent"))})
	w.clock.Advance(time.Minute)
	if got := codes(w.delivers()); got != "2 option_missing (person)" {
		t.Errorf("left %s", got)
	}
	for id, want := range map[pipeline.TaskID]pipeline.Status{1: pipeline.Dormant, 2: pipeline.New, 3: pipeline.Dormant} {
		if row := w.row(id); row.Status != want {
			t.Errorf("%v is %s", id, row.Status)
		}
	}
	w.do(core.ByPerson("olga"), 2, core.Edits{Priority: new(pipeline.Low)})
	w.clock.Advance(time.Minute)
	w.delivers()
	w.check()
}

// Where the board takes one row in a call, each goes by itself, steps first.
func TestOneRowACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x", "y")
	w.delivers()
	w.handOut(1)
	w.report(1, core.Report{Steps: []string{"x", "y"}, Status: pipeline.AgentDone})
	w.clock.Advance(time.Minute)
	w.Server.SetQuirks(boardtest.Quirks{RefuseMultiRow: true})
	w.Faults.Reset()
	w.delivers()
	w.check()
	var rows []string
	for _, c := range w.Faults.Calls() {
		if cells := c.Args.Get("cells"); c.Method == apiUpdate && strings.Count(cells, "row_id") > 0 {
			rows = append(rows, fmt.Sprint(strings.Contains(cells, w.task(1).RowID)))
		}
	}
	if got := fmt.Sprint(rows); got != "[true false false true]" { // all together, the steps, the task
		t.Errorf("task's row in the calls: %s", got)
	}
}

// A board that cannot be reached ends the delivery with the first call, and says so for
// all.
func TestBoardAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id := range pipeline.TaskID(3) {
		w.create(id+1, titleOf(id+1), "x")
	}
	stop := w.Faults.Always("", boardtest.Status(503))
	left := w.delivers()
	if len(left) != 3 {
		t.Errorf("left %s", codes(left))
	}
	for id, r := range left {
		if !r.Asked.IsZero() || r.Err == nil || r.Person {
			t.Errorf("%v: %+v", id, r)
		}
	}
	if n := w.Faults.Count(apiCreate); n != 0 {
		t.Errorf("%d creates", n)
	}
	stop()
	w.heal(0, false)
	w.check()
}

// Walks take so long that a batch is over before anything is written: each delivery
// writes something all the same.
func TestBatchIsOverAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wrap = func(b pipeline.Board) pipeline.Board {
		return boardtest.Disturb(b, func(d *boardtest.Disturbed) { d.IsOver = func() bool { return true } })
	}
	w.restart()
	w.create(1, "A", "x", "y")
	for range 3 {
		w.delivers()
	}
	w.handOut(1)
	w.delivers()
	w.check()
}

// The batch lasts for one call: the delivery says that it goes on, and does.
func TestShortBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wrap = func(b pipeline.Board) pipeline.Board {
		return boardtest.Disturb(b, func(d *boardtest.Disturbed) {
			calls := 0
			d.After = func() error { calls++; return nil }
			d.IsOver = func() bool { return calls > 1 }
		})
	}
	w.restart()
	w.create(1, "A", "x", "y", "z")
	w.create(2, "B", "x")
	w.Faults.Reset()
	for range 20 {
		left := w.delivers()
		for id, r := range left {
			if r.Code != errOver.code || r.Stop || r.Person || !r.Asked.IsZero() || r.Due.After(w.clock.Now()) {
				t.Fatalf("%v: %+v", id, r)
			}
		}
	}
	w.check()
	if n := w.Faults.Count(apiCreate); n != 6 {
		t.Errorf("%d creates", n)
	}
}

// A list without the option Pending shows a task that waits in its agent's queue as new.
// That is nobody's choice, and the task counts as shown.
func TestQueuedWithoutTheOption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "x", "a")
	w.delivers()
	if err := w.Server.RemoveOption("", w.ListID, w.Column(t, "Status", "select"), "pending"); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.do(core.Component("otm-dispatcher"), 1, core.HandOut{Agent: "devdas", Workspace: "/w", Queue: true})
	for range 2 {
		w.delivers()
		if found := w.looks(time.Minute); found != "" || !w.task(1).Queued() || w.task(1).Dispatch.FlippedAt.IsZero() {
			t.Fatalf("findings %q, %s, shown at %v", found, w.task(1).Status, w.task(1).Dispatch.FlippedAt)
		}
		if row := w.row(1); row.Status != pipeline.New {
			t.Errorf("the row is %s", row.Status)
		}
	}
	w.do(core.ByAgent("devdas"), 1, core.Take{By: core.TakenByNext})
	w.delivers()
	if row := w.row(1); row.Status != pipeline.InProgress || w.task(1).Status != pipeline.InProgress {
		t.Errorf("taken: the row is %s, the task %s", row.Status, w.task(1).Status)
	}
}
