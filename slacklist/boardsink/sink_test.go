package boardsink

import (
	"fmt"
	"testing"
	"time"

	"otm/core"
	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// The whole way of one task: made, handed out, worked on, blocked, answered, done,
// archived.
func TestOneTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(7, "Build it", "a", "b", "a")
	if left := w.delivers(); len(left) > 0 {
		t.Fatalf("left %+v", left)
	}
	w.check()
	w.handOut(7)
	w.delivers()
	w.check()
	if row := w.row(7); row.Status != pipeline.Assigned || row.Derived[pipeline.FieldAssignedAt] == "" || row.Assignee != "Dev Das" || row.Derived[pipeline.FieldRemaining] != "3" {
		t.Errorf("row %+v", row)
	}
	if w.task(7).Dispatch.FlippedAt.IsZero() {
		t.Error("it is not known that the board shows it")
	}
	w.report(7, core.Report{Steps: []string{"a"}, Result: "so far"})
	w.report(7, core.Report{Steps: []string{"a"}, Status: pipeline.Blocked, Reason: "why?"})
	w.delivers()
	w.check()
	w.do(core.ByPerson("olga"), 7, core.Edits{Title: new("Build them"), Status: new(pipeline.New), Agent: new("olga"), Reason: new("because"), Priority: new(pipeline.Low)})
	w.delivers()
	w.check()
	w.do(core.ByPerson("olga"), 7, core.Edits{Status: new(pipeline.Done), Steps: []core.StepEdit{{Row: w.task(7).Steps[0].RowID, Title: new("A"), Done: new(false)}}})
	w.delivers()
	w.check()
	if row := w.row(7); !row.Checked || row.Title != "Build them" || row.Assignee != "olga" {
		t.Errorf("row %+v", row)
	}
	w.do(core.Component("otm"), 7, core.Archive{Row: w.row(7)})
	w.delivers()
	if rows := w.rows(); len(rows) != 0 {
		t.Errorf("left on the board: %+v", rows)
	}
	if left := w.pending(); len(left) > 0 || !w.task(7).Shown.Gone {
		t.Errorf("left %+v", left)
	}
	w.compare()
	if !w.task(7).GoneAt.IsZero() {
		t.Error("the row that we deleted counts as deleted by somebody else")
	}
}

// A thousand one-step tasks cost one create for each row and step, and few
// transactions. Handing them out costs one call for a hundred cells.
func TestManyTasks(t *testing.T) {
	t.Parallel()
	n := crashtest.Fewer(1000)
	w := newWorld(t, func(o *boardtest.Options) { o.RowLimit = 5000 })
	for id := range pipeline.TaskID(n) {
		w.create(id+1, titleOf(id+1), "x")
	}
	w.Faults.Reset()
	before := w.store.Writes()
	for len(w.pending()) > 0 {
		w.delivers()
	}
	if got, want := w.calls(), fmt.Sprintf("auth.test 1, create %d, list 1", 2*n); got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
	if writes := w.store.Writes() - before; writes > 2*n/rowsAtOnce+10 {
		t.Errorf("%d transactions", writes)
	}
	for id := range pipeline.TaskID(n) {
		w.handOut(id + 1)
	}
	w.clock.Advance(time.Minute)
	w.Faults.Reset()
	before = w.store.Writes()
	w.delivers()
	if got, want := w.calls(), fmt.Sprintf("list %d, update %d", (2*n+999)/1000, (2*n+cellsAtOnce-1)/cellsAtOnce); got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
	if writes := w.store.Writes() - before; writes > n*2/cellsAtOnce+5 {
		t.Errorf("%d transactions", writes)
	}
	w.check()
}
