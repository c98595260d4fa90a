package boardsink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// TestFailsAtEachPlace: wherever a call to the board or to the store fails once,
// applied or not, wherever the batch is over, and wherever the program is told to stop,
// the next deliveries come to where they come without that.
func TestFailsAtEachPlace(t *testing.T) {
	t.Parallel()
	w := newTroubledWorld(t)
	w.heals()
	want := w.outcome()
	full := errors.New("disk full")
	for name, disturb := range map[string]func(w *troubledWorld, now func() bool) context.Context{
		"not applied": func(w *troubledWorld, now func() bool) context.Context {
			w.disturb(func(b *boardtest.Disturbed) { b.Before = boardtest.Failing(now, boardtest.AnswerLost) })
			return t.Context()
		},
		"not taken": func(w *troubledWorld, now func() bool) context.Context {
			w.disturb(func(b *boardtest.Disturbed) { b.Before = boardtest.Failing(now, boardtest.NotTaken) })
			return t.Context()
		},
		"applied": func(w *troubledWorld, now func() bool) context.Context {
			w.disturb(func(b *boardtest.Disturbed) { b.After = boardtest.Failing(now, boardtest.AnswerLost) })
			return t.Context()
		},
		"over": func(w *troubledWorld, now func() bool) context.Context {
			w.disturb(func(b *boardtest.Disturbed) { b.IsOver = now })
			return t.Context()
		},
		"store fails": func(w *troubledWorld, now func() bool) context.Context {
			w.store.Before = failing(now, full)
			return t.Context()
		},
		"store fails afterwards": func(w *troubledWorld, now func() bool) context.Context {
			w.store.After = failing(now, full)
			return t.Context()
		},
		"stopped": func(w *troubledWorld, now func() bool) context.Context {
			stopped := crashtest.NewStopped(t, now)
			w.disturb(func(b *boardtest.Disturbed) { b.Before = func() error { return stopped.Step("", "the board") } })
			return stopped
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.OnceAtEachPlace(t, "otm/slacklist/boardsink otm/slacklist/differ", func(now func() bool) {
				w := newTroubledWorld(t)
				err := w.disturbed(disturb(w, now))
				w.store.Before, w.store.After, w.wrap = nil, nil, nil
				w.heals()
				if got := w.outcome(); got != want || t.Failed() {
					t.Fatalf("%v; it comes to\n%s\nwant\n%s\nlog:\n%s", err, got, want, w.log)
				}
			})
		})
	}
}

func failing(now func() bool, err error) func() error {
	return func() error {
		if now() {
			return err
		}
		return nil
	}
}

// troubledWorld is a world in which a delivery has everything to do that there is.
type troubledWorld struct{ *world }

func newTroubledWorld(t *testing.T) *troubledWorld {
	t.Helper()
	w := &troubledWorld{newWorld(t)}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for id := range pipeline.TaskID(9) {
		if id++; id != 3 && id != 4 {
			w.create(id, titleOf(id), "a", "b", "a")
		}
	}
	w.delivers()
	w.handOut(1)
	w.handOut(9)
	w.do(core.ByPerson("olga"), 2, core.Edits{Status: new(pipeline.Cancelled)})
	w.delivers()
	for id, after := range map[pipeline.TaskID]int{3: 0, 4: 1} { // the answer to a row, and to a step
		w.create(id, titleOf(id), "a", "b")
		for range after {
			w.Faults.Next(apiCreate, boardtest.Pass())
		}
		w.Faults.Next(apiCreate, []boardtest.Fault{boardtest.ApplyThenReset(), boardtest.Reset()}[after])
		w.delivers()
	}
	found, err := w.Server.AddRow("U0ROB", w.ListID, w.text("Title", titleOf(10)), w.text("Task ID", "T-00010"))
	must(err)
	_, err = w.Server.AddStep("U0ROB", w.ListID, found, w.text("Title", "b"))
	must(err)
	w.clock.Advance(time.Minute)
	w.compare()
	w.do(core.Component("otm"), 2, core.Archive{Row: w.row(2)})
	w.report(1, core.Report{Steps: []string{"a"}, Status: pipeline.Blocked, Reason: "why?"})
	must(w.Server.DeleteRow("U0ROB", w.ListID, w.task(5).RowID))
	must(w.Server.DeleteRow("U0ROB", w.ListID, w.task(6).Steps[1].RowID))
	w.person(w.task(7).RowID, w.text("Task ID", ""))
	w.store.Lose(8)
	w.person(w.task(9).RowID, w.text("Title", "edited"), w.statusCell(pipeline.Dormant))
	w.do(core.ByPerson("Page"), 9, core.Edits{Priority: new(pipeline.Low)})
	w.create(10, titleOf(10), "a", "b")
	w.create(11, titleOf(11), "a")
	assignee := boardtest.SelectCell(w.Column(t, "Assignee", "select"), w.option("Assignee", "Dev Das"))
	_, err = w.Server.AddRow("U0ROB", w.ListID, w.text("Title", "typed"), assignee)
	must(err)
	w.restart()
	return w
}

func (w *world) option(column, label string) string {
	return (&model{world: w}).optionOf(column, label)
}

func (w *troubledWorld) disturb(disturb func(*boardtest.Disturbed)) {
	w.wrap = func(b pipeline.Board) pipeline.Board { return boardtest.Disturb(b, disturb) }
	w.restart()
}

// disturbed delivers and compares some times, until something fails.
func (w *troubledWorld) disturbed(ctx context.Context) error {
	for range 7 {
		left, err := w.deliver(ctx)
		for _, r := range left {
			if r.Stop {
				err = r.Err
			}
		}
		if err != nil {
			return err
		}
		w.clock.Advance(15 * time.Second)
	}
	return nil
}

// heals lets other programs finish what is to be done.
func (w *troubledWorld) heals() {
	w.t.Helper()
	for range 9 {
		w.clock.Advance(16 * time.Second)
		w.restart()
		w.delivers()
		w.compare()
	}
	w.delivers()
	w.check()
}

// outcome is what became of all tasks, without ids of rows and times.
func (w *troubledWorld) outcome() string {
	w.t.Helper()
	tasks, err := w.store.Tasks(w.t.Context(), core.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, t := range tasks {
		var steps []string
		for _, s := range t.Steps {
			steps = append(steps, fmt.Sprint(s.Title, " ", s.Done))
		}
		lines = append(lines, fmt.Sprintf("%s: %s %s %s %v, gone %t, archived %t, at work %t", t.Title, t.Status, t.Agent, t.Priority, steps, !t.GoneAt.IsZero(), !t.ArchivedAt.IsZero(), t.Dispatch != nil))
	}
	slices.Sort(lines)
	return strings.Join(append(lines, fmt.Sprint(len(w.rows()), " rows, ", len(w.pending()), " effects")), "\n")
}
