package inject

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

	"otm/core"
	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
	"otm/internal/lock"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// TestStoppedAtEachPlace: wherever a sweep is told to stop, the next ones bring
// everything to where it comes without that. What is under way may meet that, or
// come to its end.
func TestStoppedAtEachPlace(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	for _, met := range []bool{true, false} {
		t.Run(fmt.Sprint("met ", met), func(t *testing.T) {
			t.Parallel()
			crashtest.OnceAtEachPlace(t, "otm/pipeline/inject", func(now func() bool) {
				w := newTroubledWorld(t)
				stopped := crashtest.NewStopped(t, now)
				call := func() error { return stopped.Step("", "the board") }
				if met {
					crashtest.Below(t, w.dir, stopped.Step)
					w.disturb(func(b *boardtest.Disturbed) { b.Before = call })
				} else {
					w.disturb(func(b *boardtest.Disturbed) {
						short(b, func() error {
							call()
							return nil
						})
					})
				}
				w.in.Progress = func() { stopped.Step("", "between two files") }
				err := w.disturbed(stopped)
				place := stopped.Over()
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("stopped at %s: %v", place, err)
				}
				w.holdAgainst(want, "stopped at "+place, err)
			})
		})
	}
}

// TestBoardFailsAtEachPlace: the same wherever a call to the board fails once,
// applied or not, wherever the board's time is over or others hold it, and where
// it is taken again for each call.
func TestBoardFailsAtEachPlace(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	for name, disturb := range map[string]func(w *troubledWorld, now func() bool){
		"not applied": func(w *troubledWorld, now func() bool) {
			w.disturb(func(b *boardtest.Disturbed) { b.Before = boardtest.Failing(now, boardtest.AnswerLost) })
		},
		"not taken": func(w *troubledWorld, now func() bool) {
			w.disturb(func(b *boardtest.Disturbed) { b.Before = boardtest.Failing(now, boardtest.NotTaken) })
		},
		"applied": func(w *troubledWorld, now func() bool) {
			w.disturb(func(b *boardtest.Disturbed) { b.After = boardtest.Failing(now, boardtest.AnswerLost) })
		},
		"over": func(w *troubledWorld, now func() bool) {
			w.disturb(func(b *boardtest.Disturbed) { b.IsOver = now })
		},
		"applied, short": func(w *troubledWorld, now func() bool) {
			w.disturb(func(b *boardtest.Disturbed) { short(b, boardtest.Failing(now, boardtest.AnswerLost)) })
		},
		"held": func(w *troubledWorld, now func() bool) {
			w.disturb(func(b *boardtest.Disturbed) { short(b, nil) })
			board := w.eng.Board
			w.eng.Board = boardOf(func(ctx context.Context) (pipeline.Batch, error) {
				if now() {
					return nil, &lock.HeldError{Path: "board", PID: 42}
				}
				return board.Begin(ctx)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.OnceAtEachPlace(t, "otm/pipeline/inject", func(now func() bool) {
				w := newTroubledWorld(t)
				disturb(w, now)
				w.holdAgainst(want, name, w.disturbed(t.Context()))
			})
		})
	}
}

// disturb has all batches disturbed.
func (w *troubledWorld) disturb(disturb func(*boardtest.Disturbed)) {
	w.eng.Board = boardtest.Disturb(w.eng.Board, disturb)
}

// short has a batch last for one call, after which comes what is given.
func short(b *boardtest.Disturbed, after func() error) {
	calls := 0
	b.After = func() error {
		calls++
		if after == nil {
			return nil
		}
		return after()
	}
	b.IsOver = func() bool { return calls > 0 }
}

// troubledWorld is a world in which a sweep has everything to do that there is.
type troubledWorld struct {
	*world
	about map[string]string // what drops are about, by their names
	later []func() error    // puts back what is out of the way
}

func newTroubledWorld(t *testing.T) *troubledWorld {
	t.Helper()
	w := &troubledWorld{world: newWorld(t), about: map[string]string{}}
	steps := []string{"a", "b", "a"}
	old := []string{"plain", "deleted", "answer lost", "well"} // tasks 1 to 4
	for i, about := range old {
		w.createFor("olga", pipeline.TaskID(i+1), about, steps...)
	}
	w.sweepTo(4, 0, 0)
	w.interrupted("answer to an update", inbox.TaskUpdates, updateMethod, boardtest.ApplyThenReset(), w.update(3, report{steps: []string{"a"}, result: "r1"}))
	for i, c := range []struct {
		about string
		after int // so many rows
		fault boardtest.Fault
	}{
		{"half made", 2, boardtest.RateLimited("1")}, {"deleted half-way", 2, boardtest.RateLimited("1")},
		{"no answer to a step", 2, boardtest.ApplyThenReset()}, {"no answer to a row", 0, boardtest.ApplyThenReset()},
	} {
		for range c.after {
			w.Faults.Next(createMethod, boardtest.Pass())
		}
		w.interrupted(c.about, inbox.NewTasks, createMethod, c.fault, w.create(pipeline.TaskID(i+5), c.about, steps...))
	}
	free := w.block("processed")
	create, update := w.createFor("olga", 12, "not settled", steps...), w.update(4, report{steps: []string{"b"}})
	w.sweepTo(0, 0, 2)
	w.keepAway("not settled", inbox.NewTasks, create)
	w.keepAway("update not settled", inbox.TaskUpdates, update)
	free()
	for _, row := range [][2]string{{"T-00009", "found"}, {"T-00009", "no, another"}, {"T-00010", "no, another"}, {"T-00080", "above the counter"}} {
		if _, err := w.Server.AddRow("", w.ListID, titleCell(w.world, row[1]), boardtest.TextCell(w.Column(t, "Task ID", "text"), row[0])); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []string{w.task(2).RowID, w.task(6).RowID} {
		if err := w.Server.DeleteRow("", w.ListID, row); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range w.settled(inbox.ProcessedDir) {
		w.about[name] = "made before"
	}
	for _, back := range w.later {
		if err := back(); err != nil {
			t.Fatal(err)
		}
	}
	w.about[w.create(9, "found", steps...)] = "found"
	w.about[w.create(10, "conflict", steps...)] = "conflict"
	w.about[w.create(11, "new", steps...)] = "new"
	w.put(inbox.NewTasks, "foreign.json", []byte(`{"taskId":"T-00070","title":"foreign","agent":"devdas","subtasks":["a","b","a"]}`))
	w.put(inbox.NewTasks, "twice.json", w.drop("olga", 4, "well", steps...).Encode())
	w.put(inbox.NewTasks, "bad.json", []byte("not JSON"))
	w.put(inbox.TaskUpdates, "update.json", []byte(`{"taskId":"T-00004","result":"r3"}`)) // after those with names that are times
	for i, about := range old {
		id := pipeline.TaskID(i + 1)
		w.about[w.update(id, report{steps: []string{"a"}, result: "r2"})] = "first of " + about
		w.about[w.update(id, report{steps: []string{"a", "nonsense"}})] = "second of " + about
		w.about[w.update(id, report{status: pipeline.AgentDone, steps: []string{"a"}})] = "third of " + about
	}
	w.about[w.update(12, report{steps: []string{"b"}})] = "on what was not settled"
	w.about[w.update(11, report{steps: []string{"a"}})] = "before it is handed out"
	unknown := w.update(90, report{steps: []string{"a"}})
	w.about[unknown] = "unknown"
	w.clock.Advance(createAge) // so that creates have the board looked at
	w.age(inbox.TaskUpdates, unknown, w.times.UpdateWait-time.Minute)
	w.age(inbox.NewTasks, "bad.json", time.Minute)
	w.restart()
	return w
}

// interrupted sweeps once, while the board fails.
func (w *troubledWorld) interrupted(about string, kind inbox.Kind, method string, fault boardtest.Fault, name string) {
	w.t.Helper()
	w.Faults.Next(method, fault)
	w.sweepTo(0, 0, 1)
	w.keepAway(about, kind, name)
	w.clock.Advance(time.Minute)
}

// keepAway takes a drop out of the inbox until all is in place.
func (w *troubledWorld) keepAway(about string, kind inbox.Kind, name string) {
	w.t.Helper()
	w.about[name] = about
	path, aside := filepath.Join(w.box.Dir(kind), name), filepath.Join(w.dir, name)
	if err := os.Rename(path, aside); err != nil {
		w.t.Fatal(err)
	}
	w.later = append(w.later, func() error { return os.Rename(aside, path) })
}

// undisturbed is what a troubled world comes to by itself.
func undisturbed(t *testing.T) string {
	w := newTroubledWorld(t)
	w.sweeps()
	return w.outcome()
}

// disturbed makes some sweeps, until one meets trouble.
func (w *troubledWorld) disturbed(ctx context.Context) error {
	for range 3 {
		r, err := w.in.Sweep(ctx)
		if err == nil {
			err = r.Trouble
		}
		if err != nil {
			return err
		}
		w.clock.Advance(20 * time.Second)
	}
	return nil
}

// sweeps lets other injectors finish what is to be done.
func (w *troubledWorld) sweeps() {
	w.t.Helper()
	for range 4 {
		w.restart()
		if r := w.sweep(); r.Trouble != nil {
			w.t.Errorf("in the end: %+v", r)
		}
		w.clock.Advance(time.Minute)
	}
}

// holdAgainst lets other injectors go on, and holds what it comes to against what
// it should.
func (w *troubledWorld) holdAgainst(want, disturbance string, err error) {
	w.t.Helper()
	w.sweeps()
	if got := w.outcome(); got != want || w.t.Failed() {
		w.t.Fatalf("%s: %v; it comes to\n%s\nwant\n%s\nlog:\n%s", disturbance, err, got, want, w.log)
	}
}

// outcome is what became of all tasks and drops, without ids of rows and times.
func (w *troubledWorld) outcome() string {
	w.t.Helper()
	var lines []string
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	rows, ticked := w.rows(), map[string]bool{}
	status := map[string]string{}
	for _, r := range rows {
		ticked[r.ID] = r.StepDone()
		status[r.ID] = fmt.Sprint(r.Title, " ", r.CurrentStatus(), " ", r.Result)
	}
	tasks, err := w.store.Tasks(w.t.Context(), core.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, t := range tasks {
		if !t.GoneAt.IsZero() { // a report counts or not, by when it was known that the row is gone
			line("%v gone, unshown %t", t.ID, t.Unshown())
			continue
		}
		line("%v %s, on the board %s, %d updates, unshown %t", t.ID, t.Status, status[t.RowID], len(w.reports(t.ID)), t.Unshown())
		for _, s := range t.Steps {
			_, there := ticked[s.RowID]
			line("  %s there %t done %t %t", s.Title, there, s.Done, ticked[s.RowID])
		}
		for range w.failures(t.ID) {
			line("  failed")
		}
	}
	for _, dir := range []string{inbox.ProcessedDir, inbox.FailedDir} {
		var drops []string
		for _, name := range w.settled(dir) {
			r := w.result(dir, name)
			about := cmp.Or(w.about[name], name)
			twice := r.SkippedDuplicate && about != "found" // what was found rather than made counts as ours after a crash
			class := r.Class
			if strings.HasSuffix(about, "of deleted") {
				class = "of any class"
			}
			drops = append(drops, fmt.Sprintf("%s: %s twice %t unseen %t", about, class, twice, r.DedupUnverified))
		}
		slices.Sort(drops)
		line("%s:\n  %s", dir, strings.Join(drops, "\n  "))
	}
	for _, name := range w.waiting() {
		line("%s waits", cmp.Or(w.about[name], name))
	}
	line("%d rows, the next id is %v", len(rows), w.counter())
	return strings.Join(lines, "\n")
}
