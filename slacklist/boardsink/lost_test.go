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

// heal delivers every few seconds until nothing waits. What the board hides shows after
// a while.
func (w *world) heal(unseen time.Duration, restart bool) {
	w.t.Helper()
	for lost := w.clock.Now(); len(w.pending()) > 0; {
		if w.clock.Now().Sub(lost) > 10*time.Minute {
			w.t.Fatalf("not healed: %+v\n%s", w.pending(), w.log)
		}
		w.clock.Advance(4 * time.Second)
		if w.clock.Now().Sub(lost) >= unseen {
			w.Faults.Reveal()
		}
		if restart {
			w.restart()
		}
		w.delivers()
	}
}

// faults are what may happen to one call.
var faults = []boardtest.Fault{
	boardtest.Reset(), boardtest.ApplyThenReset(), boardtest.ApplyAndHide(0), boardtest.Status(500), boardtest.ApplyThenStatus(502),
	boardtest.ErrorCode("internal_error"), boardtest.ApplyThenError("internal_error"), boardtest.ApplyThenHalf(), boardtest.Truncated(), boardtest.HTML(),
	boardtest.NoError(), boardtest.RateLimited("3"), boardtest.ErrorCode("invalid_arguments"),
}

// Whatever becomes of one call, the board shows each task once, with all its steps, and
// as it is in the end. A create without an answer is sent again only after a walk that
// began SettleAfter later.
func TestCaseB46LostAnswer(t *testing.T) {
	t.Parallel()
	type call struct {
		method string
		nth    int // call of the method
	}
	type loss struct {
		call
		fault   boardtest.Fault
		restart bool
	}
	var losses []loss
	for _, c := range []call{{apiCreate, 0}, {apiCreate, 1}, {apiCreate, 3}, {apiUpdate, 0}, {apiUpdate, 1}, {apiDelete, 0}, {apiList, 0}} {
		for _, fault := range faults {
			losses = append(losses, loss{c, fault, false}, loss{c, fault, true})
		}
	}
	for _, c := range crashtest.Part(t, losses) {
		t.Run(fmt.Sprint(c.method, " ", c.nth, " ", c.fault.Name, " restart ", c.restart), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(1, "Old", "x")
			w.create(2, "Older", "x")
			w.delivers()
			w.clock.Advance(time.Minute)
			w.handOut(1)
			w.do(core.ByPerson("olga"), 2, core.Edits{Status: new(pipeline.Cancelled)})
			w.delivers()
			w.do(core.Component("otm"), 2, core.Archive{Row: w.row(2)})
			w.report(1, core.Report{Steps: []string{"x"}, Result: "r"})
			w.create(7, "Build it", "a", "b", "a")
			w.create(8, "Build more", "a")
			w.clock.Advance(time.Minute)
			if c.method == apiUpdate && c.nth == 1 {
				w.Server.SetQuirks(boardtest.Quirks{RefuseMultiRow: true}) // each row takes a call
			}
			for range c.nth {
				w.Faults.Next(c.method, boardtest.Pass())
			}
			w.Faults.Next(c.method, c.fault)
			w.delivers()
			w.heal(12*time.Second, c.restart)
			w.compare()
			w.check()
			if n := len(w.rows()); n != 8 {
				t.Errorf("%d rows", n)
			}
			if got := fmt.Sprint(w.task(1).Status, w.task(7).StepTitles()); got != "in_progress[a b a]" {
				t.Errorf("it is %s", got)
			}
		})
	}
}

// A row that was asked for and is not there counts as not made only when a complete
// walk that began SettleAfter later lacks it.
func TestAskedAgainOnlyAfterSettling(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"row", "step"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(1, "A", "x")
			if what == "step" {
				w.Faults.Next(apiCreate, boardtest.Pass())
			}
			w.Faults.Next(apiCreate, boardtest.Reset())
			w.delivers()
			lost, creates := w.clock.Now(), w.Faults.Count(apiCreate)
			for _, after := range []time.Duration{0, 5 * time.Second, 14 * time.Second} {
				w.clock.Advance(lost.Add(after).Sub(w.clock.Now()))
				w.delivers()
				if n := w.Faults.Count(apiCreate); n != creates {
					t.Fatalf("asked for again after %v", after)
				}
			}
			w.clock.Advance(lost.Add(15 * time.Second).Sub(w.clock.Now()))
			stop := w.Faults.Always(apiList, boardtest.Truncated()) // a walk that is not complete says nothing
			w.delivers()
			if n := w.Faults.Count(apiCreate); n != creates {
				t.Fatal("asked for again after a walk that was cut off")
			}
			stop()
			w.clock.Advance(retryBoard)
			w.delivers()
			if n := w.Faults.Count(apiCreate); n == creates {
				t.Error("not asked for again")
			}
			w.check()
		})
	}
}

// A process dies in the middle of a delivery: its lease is the note that a create may
// be on its way.
func TestDiedInADelivery(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		t.Run(fmt.Sprint("applied ", applied), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(1, "A", "x")
			if _, err := w.store.Lease(t.Context(), core.SinkBoard, "died", w.clock.Now(), 15*time.Second, 0); err != nil {
				t.Fatal(err)
			}
			if applied {
				id := boardtest.TextCell(w.Column(t, "Task ID", "text"), "T-00001")
				w.Create(t, "", w.text("Title", "A"), id)
			}
			w.clock.Advance(16 * time.Second)
			left := w.delivers()
			if got, want := codes(left), map[bool]string{true: "", false: "1 unsettled"}[applied]; applied && len(left) > 1 || !applied && got != want {
				t.Errorf("left %s", got)
			}
			w.heal(0, false)
			w.check()
			if n := len(w.rows()); n != 2 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

// A second try after an unanswered create dies as well: the walk that settled the first
// says nothing about the second.
func TestDiedInTheSecondTry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x")
	w.Faults.Next(apiCreate, boardtest.Reset())
	w.delivers()
	w.clock.Advance(20 * time.Second)
	w.Faults.Next(apiCreate, boardtest.ApplyAndHide(0))
	w.delivers()
	w.clock.Advance(5 * time.Second)
	w.delivers()
	w.Faults.Reveal()
	w.heal(0, true)
	w.check()
	if n := len(w.rows()); n != 2 {
		t.Errorf("%d rows", n)
	}
}

// A row whose answer was lost and that a person edits meanwhile is ours all the same,
// and keeps what the person wrote.
func TestLostAnswerAndEditedRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x")
	w.Faults.Next(apiCreate, boardtest.ApplyThenReset())
	w.delivers()
	w.person(w.row(1).ID, w.text("Title", "A, please"), w.statusCell(pipeline.Pending))
	w.heal(0, false)
	w.check()
	if task := w.task(1); task.Title != "A, please" || task.Status != pipeline.Dormant || task.StatusBy != core.ByPerson("U0ROB") {
		t.Errorf("task %+v", task)
	}
}

// While one task waits for certainty, others go on.
func TestLostAnswerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "Lost", "x")
	w.Faults.Next(apiCreate, boardtest.Reset())
	w.delivers()
	w.create(2, "Next")
	if got := codes(w.delivers()); got != "1 unsettled" {
		t.Errorf("left %s", got)
	}
	w.heal(0, false)
	w.check()
}

// The store fails after rows were made: they are found again.
func TestReceiptsLost(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		t.Run(fmt.Sprint("applied ", applied), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(1, "A", "x", "y")
			w.create(2, "B", "x")
			n := 0
			fail := func() error {
				if n++; n == 2 { // the lease, then the receipts
					return fmt.Errorf("disk full")
				}
				return nil
			}
			if applied {
				w.store.After = fail
			} else {
				w.store.Before = fail
			}
			left := w.delivers()
			if got := codes(left); got != "1 store, 2 store" || left[1].Asked.IsZero() {
				t.Errorf("left %s: %+v", got, left)
			}
			w.heal(0, true)
			w.check()
			if n := len(w.rows()); n != 5 {
				t.Errorf("%d rows", n)
			}
		})
	}
}
