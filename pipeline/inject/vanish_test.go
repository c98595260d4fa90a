package inject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/pipeline"
	"otm/pipeline/inbox"
)

// makingBoard is a board on which something happens once a row with a certain
// title was made.
type makingBoard struct {
	pipeline.Board
	title   string
	happens func(b pipeline.Batch)
}

func (m makingBoard) Begin(ctx context.Context) (pipeline.Batch, error) {
	b, err := m.Board.Begin(ctx)
	return makingBatch{b, m}, err
}

type makingBatch struct {
	pipeline.Batch
	on makingBoard
}

func (m makingBatch) Create(ctx context.Context, parent string, cells ...pipeline.Cell) (string, error) {
	id, err := m.Batch.Create(ctx, parent, cells...)
	if cells[0].Text == m.on.title {
		m.on.happens(m.Batch)
	}
	return id, err
}

// loseRecord takes the record of a task away.
func (w *world) loseRecord(id pipeline.TaskID) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, "tasks", id.String()+".json")); err != nil {
		w.t.Fatal(err)
	}
}

// rebuildFrom makes a record of what the board has of a task, as whoever does
// not know the drop, or but its steps.
func (w *world) rebuildFrom(b pipeline.Batch, id pipeline.TaskID, steps ...string) {
	w.t.Helper()
	_, err := w.store.Change(w.t.Context(), id, func(r *pipeline.Record) error {
		row := b.TaskRow(id)
		r.FromRow(row, b.StepRows(row.ID), steps)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// A record that somebody deletes, or that is made anew from the board, while
// its task is being made ends that turn. The next one finds what there is and
// makes what is missing, in the order of the drop.
func TestRecordVanishesInTheMaking(t *testing.T) {
	t.Parallel()
	var steps []string
	for i := range 7 {
		steps = append(steps, fmt.Sprint("step ", i+1))
	}
	for _, at := range []string{"Build it", "step 1", "step 3", "step 7"} {
		for _, rebuilt := range []bool{false, true} {
			t.Run(fmt.Sprint(at, " rebuilt ", rebuilt), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				file := w.create(5, "Build it", steps...)
				w.in.Board = makingBoard{w.in.Board, at, func(b pipeline.Batch) {
					w.loseRecord(5)
					if rebuilt {
						w.rebuildFrom(b, 5)
					}
				}}
				r := w.sweepTo(0, 0, 1)
				if r.Trouble != nil || r.Due.IsZero() || r.Due.After(w.clock.Now().Add(retryBoard)) {
					t.Errorf("report %+v", r)
				}
				w.clock.Advance(retryBoard)
				w.sweepTo(1, 0, 0)
				w.checkTask(5, "Build it", steps...)
				if rec := w.rec(5); rec.Drop != file || !rec.OnBoard() {
					t.Errorf("record %+v", rec)
				}
				if strings.Contains(w.log.String(), "internal error") {
					t.Errorf("log:\n%s", w.log)
				}
			})
		}
	}
}

// A create that failed half-way and comes again is held against the record that
// was rebuilt meanwhile: the steps that are missing are made, what a person
// added stays, and so does what is known of the dispatch.
func TestRebuiltRecordLacksSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.create(5, "Build it", "a", "b", "c", "d")
	w.in.Board = makingBoard{w.in.Board, "b", func(pipeline.Batch) { panic("poison") }}
	w.sweepTo(0, 1, 0)
	w.failed(file, inbox.Invalid)
	w.loseRecord(5)
	if _, err := w.Server.AddStep("U0PERSON", w.ListID, w.row(5).ID, titleCell(w, "mine")); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.batch(func(b pipeline.Batch) {
		if err := b.Refresh(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		w.rebuildFrom(b, 5)
	})
	now := w.clock.Now()
	if _, err := w.store.Change(t.Context(), 5, func(r *pipeline.Record) error {
		r.Dispatch = &pipeline.Dispatch{Attempt: 1, Agent: "devdas", At: now}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.box.Retry(file, nil); err != nil {
		t.Fatal(err)
	}
	w.sweepTo(1, 0, 0)
	w.checkTask(5, "Build it", "a", "b", "c", "d", "mine")
	if rec := w.rec(5); rec.Dispatch == nil || rec.Drop != file {
		t.Errorf("record %+v", rec)
	}
	// Once it is processed, a copy makes nothing, whatever steps are left.
	w.loseRecord(5)
	rows := w.rows()
	i := slices.IndexFunc(rows, func(r pipeline.Row) bool { return r.Title == "c" })
	if err := w.Server.DeleteRow("", w.ListID, rows[i].ID); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.batch(func(b pipeline.Batch) {
		if err := b.Refresh(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		w.rebuildFrom(b, 5)
	})
	data, err := os.ReadFile(filepath.Join(w.dir, inbox.ProcessedDir, file))
	if err != nil {
		t.Fatal(err)
	}
	w.put(inbox.NewTasks, "copy.json", data)
	w.sweepTo(1, 0, 0)
	if r := w.processed("copy.json"); !r.SkippedDuplicate || len(w.rows()) != len(rows)-1 {
		t.Errorf("result %+v, %d rows", r, len(w.rows()))
	}
}

// A record that is rebuilt has the steps in the order of the drop, wherever
// that lies: the number that an agent reports means the same step as before.
func TestRebuiltInTheOrderOfTheDrop(t *testing.T) {
	t.Parallel()
	var steps []string
	for i := range 12 {
		steps = append(steps, fmt.Sprint("step ", (i*5)%12))
	}
	for _, dir := range []string{inbox.ProcessedDir, inbox.FailedDir, ""} {
		w := newWorld(t)
		file := w.create(5, "Build it", steps...)
		w.sweepTo(1, 0, 0)
		w.dispatch(5)
		w.loseRecord(5)
		from := filepath.Join(w.dir, inbox.ProcessedDir, file)
		var err error
		switch dir {
		case inbox.FailedDir:
			err = errors.Join(os.Mkdir(filepath.Join(w.dir, dir), 0o700), os.Rename(from, filepath.Join(w.dir, dir, file)))
		case "":
			err = os.Remove(from)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.in.Board = backwardBoard{w.in.Board}
		w.update(5, report{steps: []string{"2"}})
		w.sweepTo(1, 0, 0)
		var titles []string
		for _, s := range w.steps(5) {
			titles = append(titles, s.Title)
		}
		if dir != "" && !slices.Equal(titles, steps) || len(titles) != len(steps) {
			t.Errorf("drop in %q: steps %q, want %q", dir, titles, steps)
		}
		for _, s := range w.steps(5) {
			if dir != "" && s.StepDone() != (s.Title == steps[1]) {
				t.Errorf("drop in %q: step %+v", dir, s)
			}
		}
	}
}

// backwardBoard is a board whose rows come in another order than they were made.
type backwardBoard struct{ pipeline.Board }

func (o backwardBoard) Begin(ctx context.Context) (pipeline.Batch, error) {
	b, err := o.Board.Begin(ctx)
	return backwardBatch{b}, err
}

type backwardBatch struct{ pipeline.Batch }

func (o backwardBatch) StepRows(row string) []*pipeline.Row {
	rows := slices.Clone(o.Batch.StepRows(row))
	slices.Reverse(rows)
	return rows
}

// A record that vanishes while its update is written is made anew, with it, by
// whoever comes first.
func TestRecordVanishesInAnUpdate(t *testing.T) {
	t.Parallel()
	for _, rebuilt := range []bool{false, true} {
		w := newWorld(t)
		w.create(5, "Build it", "a", "b", "c")
		w.sweepTo(1, 0, 0)
		w.dispatch(5)
		w.loseRecord(5)
		zeroth := w.update(5, report{steps: []string{"c"}}) // and the drop is no longer known
		w.sweepTo(1, 0, 0)
		w.in.Board = updatingBoard{w.in.Board, func(b pipeline.Batch) {
			w.loseRecord(5)
			if rebuilt {
				w.rebuildFrom(b, 5, "a", "b", "c")
			}
		}}
		first := w.update(5, report{steps: []string{"a"}})
		w.sweepTo(1, 0, 0)
		w.processed(zeroth)
		w.processed(first)
		w.restart()
		w.update(5, report{steps: []string{"b"}})
		w.sweepTo(1, 0, 0)
		if rec := w.rec(5); rec.StepsDone() != 3 || rec.Status != pipeline.InProgress || rec.Reporting != nil {
			t.Errorf("rebuilt %t: record %+v", rebuilt, rec)
		}
	}
}

// updatingBoard is a board on which something happens once cells were written.
type updatingBoard struct {
	pipeline.Board
	happens func(b pipeline.Batch)
}

func (u updatingBoard) Begin(ctx context.Context) (pipeline.Batch, error) {
	b, err := u.Board.Begin(ctx)
	return updatingBatch{b, u.happens}, err
}

type updatingBatch struct {
	pipeline.Batch
	happens func(b pipeline.Batch)
}

func (u updatingBatch) Update(ctx context.Context, changes ...pipeline.Change) error {
	err := u.Batch.Update(ctx, changes...)
	u.happens(u.Batch)
	return err
}

// A drop that was processed and is copied for another task is said to be a
// copy, before a restart as after it, and comes in with new ids. A row that is
// there, or an id as simple as "1", is as it was.
func TestProcessedDropAsAnotherTask(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		w := newWorld(t)
		w.in.processed.read(w.box) // a resident has read what stands there
		name := w.create(5, "Build it", "a")
		w.sweepTo(1, 0, 0)
		c := w.drop("devdas", 50, "Another one", "b")
		c.ID = pipeline.DropIDInName(name)
		w.put(inbox.NewTasks, "copy.json", c.Encode())
		if restarted {
			w.restart()
		}
		w.sweepTo(0, 1, 0)
		w.failed("copy.json", inbox.Conflict, "T-00005", "otm retry --new-id copy.json")
		if n := len(w.settled(inbox.ProcessedDir)); n != 1 {
			t.Errorf("restarted %v: %d processed", restarted, n)
		}
		c.ID, c.Task.ID = pipeline.NewDropID(), 51
		file := w.put(inbox.NewTasks, "new.json", c.Encode())
		w.clock.Advance(time.Second)
		w.sweepTo(1, 0, 0)
		if r := w.processed(file); r.SkippedDuplicate || r.SlackItemID == "" {
			t.Errorf("restarted %v: result %+v", restarted, r)
		}
		w.checkTask(51, "Another one", "b")
	}
}
