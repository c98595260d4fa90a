package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// TestStoppedAtEachPlace: a pass is stopped at each place. The next passes reach
// the same state as without the stop.
func TestStoppedAtEachPlace(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	crashtest.OnceAtEachPlace(t, "otm/dispatch", func(now func() bool) {
		w := newTroubledWorld(t)
		stopped := crashtest.NewStopped(t, now)
		crashtest.Below(t, w.dir, stopped.Step)
		for _, name := range []string{"alpha", "gamma"} {
			crashtest.Below(t, w.agent(name).Workspace, stopped.Step)
		}
		w.d.Board = boardtest.Disturb(w.client, func(b *boardtest.Disturbed) {
			b.Before = func() error { return stopped.Step("", "the board") }
		})
		err := w.disturbed(stopped)
		place := stopped.Over()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("stopped at %s: %v", place, err)
		}
		w.passes()
		if got := w.outcome(); got != want {
			t.Fatalf("stopped at %s: %v; it comes to\n%s\nwant\n%s\nlog:\n%s", place, err, got, want, w.log)
		}
	})
}

// TestBoardFailsAtEachPlace: the same if a call to the board fails once at each
// place, applied or not, or the time on the board is over.
func TestBoardFailsAtEachPlace(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	for name, disturb := range map[string]func(b *boardtest.Disturbed, now func() bool){
		"not applied": func(b *boardtest.Disturbed, now func() bool) { b.Before = boardtest.Failing(now, boardtest.AnswerLost) },
		"applied":     func(b *boardtest.Disturbed, now func() bool) { b.After = boardtest.Failing(now, boardtest.AnswerLost) },
		"over":        func(b *boardtest.Disturbed, now func() bool) { b.IsOver = now },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.OnceAtEachPlace(t, "otm/dispatch", func(now func() bool) {
				w := newTroubledWorld(t)
				w.d.Board = boardtest.Disturb(w.client, func(b *boardtest.Disturbed) { disturb(b, now) })
				err := w.disturbed(t.Context())
				w.passes()
				if got := w.outcome(); got != want {
					t.Fatalf("%v; it comes to\n%s\nwant\n%s\nlog:\n%s", err, got, want, w.log)
				}
			})
		})
	}
}

// undisturbed is the outcome of a troubled world without a failure.
func undisturbed(t *testing.T) string {
	w := newTroubledWorld(t)
	if err := w.disturbed(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.passes()
	return w.outcome()
}

// disturbed makes some passes, one of them when it is time to wake again, and
// returns the first error. After an incomplete pass the next comes soon, as a wake
// whose answer could not be noted is sent again after some minutes.
func (w *world) disturbed(ctx context.Context) (first error) {
	for _, then := range []time.Duration{20 * time.Second, 20 * time.Second, pipeline.DefaultTimes.RewakeAfter, time.Second} {
		r, err := w.d.Pass(ctx, 0)
		first = cmp.Or(first, err, r.Trouble)
		if err != nil || r.Trouble != nil || len(r.Failed) > 0 {
			w.restart()
			ctx = w.Context()
			w.clock.Advance(20 * time.Second)
			if _, err := w.d.Pass(ctx, 0); err != nil {
				w.Error(err)
			}
		}
		w.clock.Advance(then)
	}
	return first
}

// newTroubledWorld is a world in which a pass has every kind of work to do.
func newTroubledWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "alpha", "beta", "gamma")
	for n, agent := range []string{"alpha", "beta", "alpha", "beta", "alpha", "beta", "alpha", "beta"} {
		w.create(fmt.Sprint("Task ", n+1), agent, pipeline.Normal, "a", "b")
	}
	w.pass()
	w.change(6, func(r *pipeline.Record) { r.Dispatch.FlippedAt = nil })                                             // its answer was lost
	w.rewrite("beta", func(file map[string]any) { file["dispatched"].([]any)[0].(map[string]any)["picked"] = true }) // task 2 is taken
	w.rewrite("alpha", func(file map[string]any) { file["dispatched"] = file["dispatched"].([]any)[1:] })            // task 1 vanishes
	w.edit(3, w.status(pipeline.Done))
	w.edit(4, w.taskIDCell(""))
	steps := w.record(8).Steps
	for _, err := range []error{
		os.Remove(filepath.Join(w.dir, "tasks", "T-00005.json")),
		w.board.Server.DeleteRow("", w.board.ListID, w.record(7).RowID),
		w.board.Server.DeleteRow("", w.board.ListID, steps[1].RowID),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.types("Typed", "alpha")
	w.createAs(20, "New", "beta", pipeline.High)
	w.createAs(11, "Hers", "gamma", pipeline.Normal) // who was never woken
	w.createAs(12, "Hers too", "gamma", pipeline.Normal)
	w.clock.Advance(time.Minute)
	w.restart()
	return w
}

// passes lets other dispatchers finish the work.
func (w *world) passes() {
	w.Helper()
	for range 3 {
		w.restart()
		w.pass()
		w.clock.Advance(2 * time.Minute)
	}
	if r := w.pass(); len(r.Failed) > 0 || r.Trouble != nil {
		w.Errorf("in the end: %+v", r)
	}
}

// outcome is the state of all tasks, without ids of rows and times.
func (w *world) outcome() string {
	w.Helper()
	var lines []string
	ids, err := w.store.IDs()
	if err != nil {
		w.Fatal(err)
	}
	status, wakes, rows := map[string]pipeline.Status{}, map[string]int{}, 0
	w.onBoard(func(b pipeline.Batch) error {
		for row := range b.Rows() { // the last pass has walked
			status[row.TaskID] = row.CurrentStatus()
			rows++
		}
		return nil
	})
	for _, id := range ids {
		r := w.record(id)
		line := words(id, r.Title, r.Status, status[id.String()], len(r.Steps), "dispatched again", r.Attempt > 1, "gone", r.GoneAt != nil)
		for _, wake := range r.Wakes {
			wakes[wake.Agent]++ // any of its tasks may hold it
		}
		if d := r.Dispatch; d != nil && r.GoneAt == nil {
			line += words("", d.Agent, d.EntryAt != nil, d.FlippedAt != nil, d.TakenAt != nil, d.MissingAt != nil)
		}
		lines = append(lines, strings.ReplaceAll(line, "T-00022", "T-00021")) // an id that was taken when it failed stays unused
	}
	for _, a := range w.agents {
		in := strings.Fields(w.ids(a.Name))
		slices.Sort(in)
		lines = append(lines, strings.ReplaceAll(a.Name+" "+strings.Join(in, " "), "T-00022", "T-00021"))
	}
	runs := map[string]int{}
	for key := range strings.FieldsSeq(w.waker.keys()) {
		runs[strings.Split(key, "-")[3]]++
	}
	lines = append(lines, fmt.Sprint("wakes ", wakes, ", runs ", runs, ", ", rows, " rows"))
	return strings.Join(lines, "\n")
}
