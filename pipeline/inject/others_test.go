package inject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// The board goes away after a report was applied. Another program delivers it when the
// board is back, and the injector settles the file without a call.
func TestBoardAwayThenOthersDeliver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.sweepTo(1, 0, 0)
	report1, create := w.update(1, report{steps: []string{"x"}}), w.create(2, "A", "a", "b")
	away := []func(){w.Faults.Always(updateMethod, boardtest.Status(503)), w.Faults.Always(createMethod, boardtest.NoError())}
	r := w.sweepTo(0, 0, 2)
	if r.Trouble == nil || w.task(1).StepsDone() != 1 || w.row(1).Status != pipeline.New {
		t.Errorf("report %+v, task %+v", r.Report, w.task(1))
	}
	for _, back := range away {
		back()
	}
	w.clock.Advance(time.Minute)
	w.deliver()
	w.checkTask(2, "A", "a", "b")
	w.Faults.Reset()
	w.sweepTo(2, 0, 0)
	if n := w.calls()[createMethod] + w.calls()[updateMethod]; n != 0 {
		t.Errorf("calls %v", w.calls())
	}
	for _, name := range []string{report1, create} {
		if r := w.processed(name); r.SkippedDuplicate || r.SlackItemID == "" {
			t.Errorf("result %+v", r)
		}
	}
}

// carry applies the reports that wait on a task, as otm next does.
func (w *world) carry(id pipeline.TaskID) {
	w.t.Helper()
	files, err := w.box.List(inbox.TaskUpdates)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range files {
		data, f, err := w.box.Read(f)
		if err != nil {
			continue // settled meanwhile
		}
		u, err := drop.ParseUpdate(data)
		if err != nil {
			w.t.Fatal(err)
		}
		if u.TaskID == id {
			if _, err := w.store.Do(w.t.Context(), CommandOf(u, f, w.task(id), agents, nil, w.clock.Now())); err != nil {
				w.t.Error(err)
			}
		}
	}
}

// otm next applies reports that wait in the inbox. The injector settles them: they came
// once.
func TestReportsCarriedByNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "same", "same", "x")
	w.sweepTo(1, 0, 0)
	w.dispatch(1)
	names := []string{
		w.update(1, report{steps: []string{"same"}, result: "one"}), w.update(1, report{steps: []string{"same"}}),
		w.put(inbox.TaskUpdates, "zz.json", []byte(`{"id":"1","taskId":"T-00001","result":"two"}`)), // the id of another program
	}
	w.carry(1)
	w.sweepTo(3, 0, 0)
	for _, name := range names {
		if r := w.processed(name); r.SkippedDuplicate {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if row := w.row(1); !slices.Equal(w.reports(1), names) || row.Result != "two" || row.Derived[pipeline.FieldRemaining] != "1" {
		t.Errorf("reports %q, row %+v", w.reports(1), row)
	}
}

// otm next applies reports, and another program delivers effects, while the injector
// sweeps: each report counts once, in order, and nothing is made twice.
func TestOthersWorkMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.sweepTo(1, 0, 0)
	var names []string
	for i := range 30 {
		names = append(names, w.update(1, report{result: fmt.Sprint("r", i)}))
	}
	for _, id := range idsOf(10)[1:] {
		w.create(id, titleOf(id), "a", "b")
	}
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	others.Go(func() { w.carry(1) })
	others.Go(func() {
		_, e := w.newInjector(w.clock.Now)
		for ctx.Err() == nil {
			if _, err := e.Deliver(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	for len(w.waiting()) > 0 && !t.Failed() {
		w.sweep()
	}
	stop()
	others.Wait()
	if !slices.Equal(w.reports(1), names) || w.row(1).Result != "r29" {
		t.Errorf("reports %q, row %+v", w.reports(1), w.row(1))
	}
	for _, id := range idsOf(10)[1:] {
		w.checkTask(id, titleOf(id), "a", "b")
	}
	for _, name := range w.settled(inbox.ProcessedDir) {
		if r := w.processed(name); r.SkippedDuplicate {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A file is replaced after it was read, and before it is settled. What it said counts,
// and so does what it says now: a drop of its own, or another one with the id of the
// first.
func TestFileReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, sameID := range []bool{false, true} {
		w := newWorld(t)
		w.createFor("olga", 1, "Hers", "x", "y")
		w.sweepTo(1, 0, 0)
		id := ""
		if sameID {
			id = `"id":"` + pipeline.NewDropID() + `",`
		}
		w.put(inbox.TaskUpdates, "a.json", []byte(`{`+id+`"taskId":"T-00001","subtasksDone":["x"]}`))
		board, replaced := w.eng.Board, false
		w.eng.Board = updatingBoard{board, func() {
			if !replaced {
				replaced = true
				next := []byte(`{` + id + `"taskId":"T-00001","subtasksDone":["y"]}`)
				temp := filepath.Join(w.dir, "next")
				if err := errors.Join(os.WriteFile(temp, next, 0o600), os.Rename(temp, filepath.Join(w.box.Dir(inbox.TaskUpdates), "a.json"))); err != nil {
					t.Error(err)
				}
			}
		}}
		for range 3 {
			w.sweep()
			w.clock.Advance(w.times.ParseableAge)
		}
		steps := w.steps(1)
		if !steps[0].StepDone() || steps[1].StepDone() == sameID || len(w.reports(1)) == 2 == sameID || len(w.waiting()) != 0 {
			t.Errorf("same id %t: steps %+v, reports %q, waiting %q", sameID, steps, w.reports(1), w.waiting())
		}
		if sameID {
			w.failed("a.json", inbox.Conflict, "belongs to another drop")
		} else {
			w.processed("a.json")
		}
	}
}

// updatingBoard is a board on which something happens once cells were written.
type updatingBoard struct {
	pipeline.Board
	happens func()
}

func (u updatingBoard) Begin(ctx context.Context) (pipeline.Batch, error) {
	b, err := u.Board.Begin(ctx)
	return updatingBatch{b, u.happens}, err
}

type updatingBatch struct {
	pipeline.Batch
	happens func()
}

func (u updatingBatch) Update(ctx context.Context, changes ...pipeline.Change) error {
	err := u.Batch.Update(ctx, changes...)
	u.happens()
	return err
}

// A create that the board refuses comes again with otm retry, also when the row was made
// meanwhile by another program.
func TestRefusedCreateIsRetried(t *testing.T) {
	t.Parallel()
	for _, meanwhile := range []bool{false, true} {
		w := newWorld(t)
		name := w.create(1, "A", "x")
		w.Faults.Next(createMethod, boardtest.ErrorCode("invalid_blocks"))
		w.sweepTo(0, 1, 0)
		w.failed(name, inbox.Rejected, "the board refuses it: ", "invalid_blocks")
		w.clock.Advance(time.Minute)
		if meanwhile {
			w.deliver()
		}
		if _, _, err := w.box.Retry(name, nil); err != nil {
			t.Fatal(err)
		}
		w.sweepTo(1, 0, 0)
		w.checkTask(1, "A", "x")
		if r := w.processed(name); r.SkippedDuplicate || r.SlackItemID == "" {
			t.Errorf("meanwhile %t: result %+v", meanwhile, r)
		}
	}
}

// A row that a task has is never taken for the row of another one, whatever its Task ID
// cell says.
func TestRowOfATaskIsNoStray(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x")
	w.sweepTo(1, 0, 0)
	own := w.row(1).ID
	w.person(own, boardtest.TextCell(w.Column(t, "Task ID", "text"), "T-00007"))
	w.clock.Advance(createAge)
	name := w.create(7, "A", "x")
	r := w.sweep()
	if task := w.task(1); task.RowID != own {
		t.Errorf("task %+v", task)
	}
	if task, err := w.store.Task(t.Context(), 7); err == nil && task.RowID == own {
		t.Errorf("the row is also that of %+v", task)
	}
	for range 5 { // the Task ID is written back
		w.clock.Advance(w.times.AdoptAfter + time.Minute)
		if _, err := w.eng.Look(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := w.eng.Deliver(t.Context()); err != nil { // of all tasks, as the dispatcher does
			t.Fatal(err)
		}
		r = w.sweep()
	}
	if got := w.processed(name); got.SkippedDuplicate || got.SlackItemID == own {
		t.Errorf("report %+v, result %+v", r.Report, got)
	}
	if strings.Contains(w.log.String(), "internal error") {
		t.Errorf("log:\n%s", w.log)
	}
	w.checkTask(7, "A", "x")
}
