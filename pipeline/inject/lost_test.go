package inject

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// TestCaseB46LostAnswer loses the answer to a create of a row, of a step and
// to an update, in every way that there is, lets it fail again in another way
// or heal, in the same process or in a new one as after a crash. Afterwards
// there is one row, with all its steps once and in order, and the drop is
// settled once. A row is asked for again only after a complete walk that began
// settle_after later.
func TestCaseB46LostAnswer(t *testing.T) {
	t.Parallel()
	const settle = 25 * time.Second // longer than a row may stay unseen here
	for _, loss := range []struct {
		name   string
		fault  func() boardtest.Fault
		unseen time.Duration
	}{
		{"not applied", boardtest.Reset, 0},
		{"applied", boardtest.ApplyThenReset, 0},
		{"applied and unseen for 20 s", func() boardtest.Fault { return boardtest.ApplyAndHide(0) }, 20 * time.Second},
	} {
		for _, again := range []bool{false, true} { // it fails, in other ways
			for _, restart := range []bool{false, true} {
				for nth, what := range []string{"row", "step"} {
					t.Run(fmt.Sprintf("%s %s, fails again %t, restart %t", what, loss.name, again, restart), func(t *testing.T) {
						t.Parallel()
						w := newWorld(t)
						w.times.SettleAfter = settle
						w.restart()
						file := w.create(7, "Build it", "a", "b", "a")
						for range 2 * nth { // the row and the first step
							w.Faults.Next(createMethod, boardtest.Pass())
						}
						w.Faults.Next(createMethod, loss.fault())
						if again {
							w.Faults.Next(createMethod, boardtest.RateLimited("3"), boardtest.ApplyThenHalf(), boardtest.Status(500))
						}
						w.sweepTo(0, 0, 1)
						w.heal(t, loss.unseen, restart, func() {
							if again {
								w.Faults.Next(listMethod, boardtest.Truncated(), boardtest.Reset())
							}
						})
						w.checkTask(7, "Build it", "a", "b", "a")
						w.settledOnce(t, file)
					})
				}
			}
		}
	}
}

// The other forms of a lost answer.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]boardtest.Fault{
		"500": boardtest.Status(500), "applied, 502": boardtest.ApplyThenStatus(502), "internal_error": boardtest.ErrorCode("internal_error"),
		"applied, internal_error": boardtest.ApplyThenError("internal_error"), "applied, half an answer": boardtest.ApplyThenHalf(),
		"applied, cut off": boardtest.Truncated(), "HTML": boardtest.HTML(), "no error": boardtest.NoError(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			file := w.create(7, "Build it", "a", "b")
			w.Faults.Next(createMethod, fault, boardtest.Pass(), fault)
			w.sweepTo(0, 0, 1)
			w.heal(t, 0, false, func() {})
			w.checkTask(7, "Build it", "a", "b")
			w.settledOnce(t, file)
		})
	}
}

// heal sweeps every few seconds until nothing waits. What the board hides shows
// after a while.
func (w *world) heal(t *testing.T, unseen time.Duration, restart bool, before func()) {
	t.Helper()
	before()
	for lost := w.clock.Now(); len(w.waiting()) > 0; {
		if w.clock.Now().Sub(lost) > 10*time.Minute {
			t.Fatalf("not healed; log:\n%s", w.log)
		}
		w.clock.Advance(4 * time.Second)
		if w.clock.Now().Sub(lost) >= unseen {
			w.Faults.Reveal()
		}
		if restart {
			w.restart()
		}
		w.sweep()
	}
}

// settledOnce checks that a drop stands in processed/ once, not as a duplicate.
func (w *world) settledOnce(t *testing.T, file string) {
	t.Helper()
	if got := w.settled(inbox.ProcessedDir); len(got) != 1 || got[0] != file {
		t.Errorf("processed %v, want %s once", got, file)
	}
	if got := w.settled(inbox.FailedDir); len(got) != 0 {
		t.Errorf("failed %v", got)
	}
	if r := w.processed(file); r.SkippedDuplicate || r.DedupUnverified || r.SlackItemID == "" {
		t.Errorf("result %+v", r)
	}
}

// A row that is asked for and not there counts as not made only when a
// complete walk that began settle_after later lacks it.
func TestAskedAgainOnlyAfterSettling(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"row", "step"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(1, "A", "x")
			if what == "step" {
				w.Faults.Next(createMethod, boardtest.Pass())
			}
			w.Faults.Next(createMethod, boardtest.Reset())
			r := w.sweepTo(0, 0, 1)
			lost := w.clock.Now()
			creates := w.calls()[createMethod]
			if !r.Due.Equal(lost.Add(retryBoard)) {
				t.Errorf("due %v", r.Due)
			}
			for _, step := range []struct {
				at   time.Duration
				made bool
			}{{0, false}, {5 * time.Second, false}, {14 * time.Second, false}, {15 * time.Second, true}} {
				w.clock.Advance(lost.Add(step.at).Sub(w.clock.Now()))
				if step.at == 15*time.Second {
					stop := w.Faults.Always(listMethod, boardtest.Truncated()) // a walk that is not complete says nothing
					w.sweepTo(0, 0, 1)
					if n := w.calls()[createMethod]; n != creates {
						t.Fatal("made after a walk that was cut off")
					}
					stop()
					w.sweepTo(1, 0, 0)
				} else if r := w.sweepTo(0, 0, 1); !r.Due.Equal(lost.Add(15 * time.Second).Truncate(time.Millisecond)) {
					t.Errorf("after %v: due %v", step.at, r.Due)
				}
				if made := w.calls()[createMethod] > creates; made != step.made {
					t.Errorf("after %v: asked for again %t", step.at, made)
				}
			}
			w.checkTask(1, "A", "x")
		})
	}
}

// While one task waits for certainty, others go on.
func TestLostAnswerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "Lost", "x")
	w.Faults.Next(createMethod, boardtest.Reset())
	w.sweepTo(0, 0, 1)
	w.create(2, "Next")
	w.sweepTo(1, 0, 1)
	w.clock.Advance(15 * time.Second)
	w.sweepTo(1, 0, 0)
	w.checkTask(1, "Lost", "x")
}

// A row whose answer was lost and whose title a person edits meanwhile is ours
// all the same; a row that others made under its id is not.
func TestLostAnswerAndEditedTitle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.create(1, "A", "x")
	w.Faults.Next(createMethod, boardtest.ApplyThenReset())
	w.sweepTo(0, 0, 1)
	w.person(w.row(1).ID, titleCell(w, "A, please"))
	w.clock.Advance(10 * time.Second)
	w.sweepTo(1, 0, 0)
	w.checkTask(1, "A, please", "x")
	w.settledOnce(t, file)
}

// The same for an update: whatever became of the first writing, it is on the
// board once, and so is the next.
func TestCaseB46LostAnswerToAnUpdate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		faults []boardtest.Fault
		stale  bool // for 20 s, walks show the rows as they were before
	}{
		{"not applied", []boardtest.Fault{boardtest.Reset()}, false},
		{"applied", []boardtest.Fault{boardtest.ApplyThenReset()}, false},
		{"applied, then not again", []boardtest.Fault{boardtest.ApplyThenReset(), boardtest.Status(500)}, false},
		{"not applied, then applied and lost", []boardtest.Fault{boardtest.Status(502), boardtest.ApplyThenHalf()}, false},
		{"applied twice and lost twice", []boardtest.Fault{boardtest.ApplyThenReset(), boardtest.ApplyThenReset()}, false},
		{"limited", []boardtest.Fault{boardtest.RateLimited("3")}, false},
		{"applied and unseen for 20 s", []boardtest.Fault{boardtest.ApplyThenReset()}, true},
	} {
		for _, several := range []bool{false, true} { // rows in one call, and then another process goes on
			t.Run(fmt.Sprintf("%s, several rows a call and a restart %t", c.name, several), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.create(1, "A", "same", "same", "other")
				w.sweepTo(1, 0, 0)
				w.dispatch(1)
				w.manyRows(several)
				stop := func() {}
				if c.stale {
					stop = w.Faults.Always(listMethod, w.stalePage())
				}
				first := w.update(1, report{steps: []string{"same"}, result: "one"})
				second := w.update(1, report{steps: []string{"same"}, result: "two"})
				w.Faults.Next(updateMethod, c.faults...)
				w.sweepTo(0, 0, 2)
				w.clock.Advance(time.Second)
				if c.stale {
					w.sweep() // as they were: it is written again
					w.clock.Advance(20 * time.Second)
					stop()
				}
				w.heal(t, 0, several, func() {})
				steps := w.steps(1)
				if !steps[0].StepDone() || !steps[1].StepDone() || steps[2].StepDone() {
					t.Errorf("steps %+v", steps)
				}
				row := w.row(1)
				if row.Status != pipeline.InProgress || row.Result != "two" || row.Derived[pipeline.FieldRemaining] != "1" || row.Derived[pipeline.FieldCompletion] != "66" {
					t.Errorf("row %+v", row)
				}
				if got := w.reports(1); !slices.Equal(got, []string{first, second}) {
					t.Errorf("reports %q", got)
				}
				for _, name := range []string{first, second} {
					if r := w.processed(name); r.SkippedDuplicate {
						t.Errorf("%s: %+v", name, r)
					}
				}
				if n := len(w.settled(inbox.ProcessedDir)); n != 3 {
					t.Errorf("%d drops processed", n)
				}
			})
		}
	}
}
