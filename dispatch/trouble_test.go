package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/core/coretest"
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
		w.memory.Before = func() error { return stopped.Step("", "the store") }
		w.board.refuse(func(pipeline.TaskID) error { return stopped.Step("", "the board") })
		err := w.disturbed(stopped)
		place := stopped.Over()
		w.memory.Before = nil
		w.board.refuse(nil)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("stopped at %s: %v", place, err)
		}
		w.passes()
		if got := w.outcome(); got != want {
			t.Fatalf("stopped at %s: %v; it comes to\n%s\nwant\n%s\nlog:\n%s", place, err, got, want, w.log)
		}
	})
}

// TestStoreFailsAtEachPlace: the same if a write to the store, or one to the board,
// fails once at each place.
func TestStoreFailsAtEachPlace(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	failed := errors.New("no answer")
	for name, disturb := range map[string]func(w *troubled, fail func() error){
		"store, not applied": func(w *troubled, fail func() error) { w.memory.Before = fail },
		"store, applied":     func(w *troubled, fail func() error) { w.memory.After = fail },
		"board":              func(w *troubled, fail func() error) { w.board.refuse(func(pipeline.TaskID) error { return fail() }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.OnceAtEachPlace(t, "otm/dispatch", func(now func() bool) {
				w := newTroubledWorld(t)
				disturb(w, func() error {
					if now() {
						return failed
					}
					return nil
				})
				err := w.disturbed(t.Context())
				w.memory.Before, w.memory.After = nil, nil
				w.board.refuse(nil)
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

// troubled is a world on a store in memory.
type troubled struct {
	*world
	memory *coretest.Store
}

// newTroubledWorld is a world in which a pass has every kind of work to do.
func newTroubledWorld(t *testing.T) *troubled {
	t.Helper()
	memory := &coretest.Store{}
	w := &troubled{newWorldOn(t, t.TempDir(), memory, "alpha", "beta", "gamma"), memory}
	for n, agent := range []string{"alpha", "beta", "alpha", "beta", "alpha", "beta", "alpha", "beta"} {
		w.create(fmt.Sprint("Task ", n+1), agent, pipeline.Normal, "a", "b")
	}
	w.pass()
	w.edit(6, w.status(pipeline.New))
	w.do(core.Command{By: by(), Task: 6, Do: core.HandOut{Agent: "beta", Workspace: w.agent("beta").Workspace}})     // we were killed then
	w.rewrite("beta", func(file map[string]any) { file["dispatched"].([]any)[0].(map[string]any)["picked"] = true }) // task 2 is taken
	w.rewrite("alpha", func(file map[string]any) { file["dispatched"] = file["dispatched"].([]any)[1:] })            // task 1 vanishes
	w.edit(3, w.status(pipeline.Done))
	w.edit(5, w.assignee("beta"))
	w.deleteRow(7)
	w.edit(8, func(e *core.Edits) { e.Gone = []string{w.record(8).Steps[1].RowID} })
	w.create("New", "beta", pipeline.High)
	w.create("Hers", "gamma", pipeline.Normal) // who was never woken
	w.create("Hers too", "gamma", pipeline.Normal)
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

// outcome is the state of all tasks, without times.
func (w *world) outcome() string {
	w.Helper()
	var lines []string
	wakes := map[string]int{}
	for id := range w.last {
		t := w.record(id + 1)
		line := words(t.ID, t.Title, t.Status, t.Shown.Status, len(t.Steps), "dispatched again", t.Attempt > 1, "gone", !t.GoneAt.IsZero())
		for _, wake := range t.Wakes {
			wakes[wake.Agent]++ // any of its tasks may hold it
		}
		if d := t.Dispatch; d != nil && t.GoneAt.IsZero() {
			line += words("", d.Agent, d.FlippedAt.IsZero(), t.Taken())
		}
		lines = append(lines, line)
	}
	for _, a := range w.agents {
		in := strings.Fields(w.ids(a.Name))
		slices.Sort(in)
		lines = append(lines, a.Name+" "+strings.Join(in, " "))
	}
	runs := map[string]int{}
	for key := range strings.FieldsSeq(w.waker.keys()) {
		runs[strings.Split(key, "-")[3]]++
	}
	lines = append(lines, fmt.Sprint("wakes ", wakes, ", runs ", runs))
	return strings.Join(lines, "\n")
}
