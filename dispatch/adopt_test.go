package dispatch

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

	"otm/internal/board/boardtest"
	"otm/pipeline"
	"otm/slacklist"
)

// types types a row as a person does, and returns its id.
func (w *world) types(title, assignee string, more ...boardtest.Cell) string {
	w.Helper()
	cells := append([]boardtest.Cell{boardtest.TextCell(w.board.Column(w, "Title", "text"), title)}, more...)
	if assignee != "" {
		cells = append(cells, w.assignee(assignee))
	}
	row, err := w.board.Server.AddRow("U0ALICE", w.board.ListID, cells...)
	if err != nil {
		w.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(w.dir, "board"), 0o700), slacklist.TouchEdited(w.dir)); err != nil {
		w.Fatal(err)
	}
	return row
}

func (w *world) typesStep(parent, title string) {
	w.Helper()
	if _, err := w.board.Server.AddStep("U0ALICE", w.board.ListID, parent, boardtest.TextCell(w.board.Column(w, "Title", "text"), title)); err != nil {
		w.Fatal(err)
	}
}

// rowsOf counts the rows on the board, steps included.
func (w *world) rowsOf() (n int) {
	w.Helper()
	w.onBoard(func(b pipeline.Batch) error {
		if err := b.Refresh(w.Context(), 0); err != nil {
			return err
		}
		for range b.Rows() {
			n++
		}
		return nil
	})
	return n
}

// A row that a person typed is adopted once it has an assignee and nobody edits
// it.
func TestAdoption(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "+robin")
	waits := w.types("Nobody's", "")
	w.types("", "alpha")
	row := w.types("Fix the login", "alpha")
	own := w.types("With steps", "alpha", boardtest.SelectCell(w.board.Column(t, "Priority", "select"), "high"))
	w.typesStep(own, "One")
	w.typesStep(own, "Two")
	w.types("Robin's", "robin")
	r := w.pass()
	want(t, "at once", words(r.Dispatched, len(r.Failed), w.ids("alpha")), "0 0 ")
	if r.Due.IsZero() || r.Due.After(w.clock.Now().Add(pipeline.DefaultTimes.AdoptAfter)) {
		t.Errorf("due at %v", r.Due)
	}
	w.clock.Advance(pipeline.DefaultTimes.AdoptAfter + time.Second)
	r = w.pass()
	want(t, "when still", words(r.Dispatched, r.Details()), "3 Dispatched 3 tasks, woke 1 agent, 0 failures")
	rec := w.record(w.taskOf(row))
	want(t, "record", words(rec.Title, rec.Agent, rec.Status, rec.Priority, len(rec.Steps), rec.Steps[0].Title), "Fix the login alpha assigned normal 1 "+pipeline.DefaultStep)
	want(t, "history", words(rec.History[0].Who, rec.History[0].What, rec.History[1].What), "U0ALICE typed on the board adopted")
	rec = w.record(w.taskOf(own))
	titles := []string{rec.Steps[0].Title, rec.Steps[1].Title}
	slices.Sort(titles) // made within a second, their order is not known
	want(t, "with steps of its own", words(rec.Priority, len(rec.Steps), titles), "high 2 [One Two]")
	want(t, "without an assignee", w.taskOf(waits), pipeline.TaskID(0))
	rows := w.rowsOf()
	w.clock.Advance(time.Minute)
	w.pass()
	want(t, "rows", w.rowsOf(), rows)
	want(t, "wakes", len(strings.Fields(w.waker.keys())), 1)
}

// taskOf is the id in a row's Task ID cell.
func (w *world) taskOf(rowID string) (id pipeline.TaskID) {
	w.Helper()
	w.onBoard(func(b pipeline.Batch) error {
		if err := b.Refresh(w.Context(), 0); err != nil {
			return err
		}
		id = b.Row(rowID).Task()
		return nil
	})
	return id
}

// A row that a person still edits is left alone. The last change of the row or of
// a step counts.
func TestAdoptionWaitsForStillness(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.clock.Advance(-time.Hour) // the board's clock is the real one
	row := w.types("Fix", "alpha")
	want(t, "its row is from the future", words(w.pass().Dispatched, w.taskOf(row)), "1 T-00001")
	later := w.types("Fix more", "alpha")
	w.clock.Advance(time.Hour + 50*time.Second)
	w.typesStep(later, "One more thing")
	w.pass()
	want(t, "taken up", w.taskOf(later), pipeline.TaskID(0))
}

// A row keeps the id that a person typed, and gets its step.
func TestAdoptionOfATypedID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	column := w.board.Column(t, "Task ID", "text")
	good := w.types("Mine", "alpha", boardtest.TextCell(column, "T-00007"))
	w.types("Not one", "alpha", boardtest.TextCell(column, "soon"))
	w.types("With an id soon", "alpha")
	w.clock.Advance(pipeline.DefaultTimes.AdoptAfter + time.Second)
	r := w.pass()
	want(t, "failures", r.Failed, []string{`row "Not one": "soon" is no task id: clear that cell`}) // once, also as the rows are looked at again
	r2 := w.pass()
	want(t, "dispatched", r.Dispatched+r2.Dispatched, 2)
	want(t, "entries", w.ids("alpha"), "T-00007 T-00008")
	want(t, "steps", len(w.record(w.taskOf(good)).Steps), 1)
	if !strings.Contains(r2.Details(), `row "Not one": "soon" is no task id`) {
		t.Errorf("summary %s", r2.Details())
	}
}

// Whichever answer is lost, the row keeps one id and gets one step.
func TestAdoptionLostAnswers(t *testing.T) {
	t.Parallel()
	for _, method := range []string{apiUpdate, "slackLists.items.create"} {
		for _, fault := range []boardtest.Fault{
			boardtest.Reset(), boardtest.Status(500), boardtest.ApplyThenReset(), boardtest.ApplyThenError("internal_error"),
			boardtest.ApplyAndHide(20 * time.Second), boardtest.ErrorCode("invalid_arguments"),
		} {
			t.Run(fmt.Sprint(method, " ", fault.Name), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, "alpha")
				row := w.types("Fix", "alpha")
				w.clock.Advance(pipeline.DefaultTimes.AdoptAfter + time.Second)
				w.board.Faults.Next(method, fault)
				for range 6 {
					if _, err := w.d.Pass(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
					w.clock.Advance(10 * time.Second)
					w.board.Faults.Reveal() // a list lags by a few seconds, not by more than SettleAfter
				}
				w.clock.Advance(time.Minute)
				w.pass()
				want(t, "id", w.taskOf(row), pipeline.TaskID(1))
				want(t, "rows", w.rowsOf(), 2)
				want(t, "entries", w.ids("alpha"), "T-00001")
				want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
			})
		}
	}
}

// After a kill at any point, the adoption continues with the same id.
func TestKilledAdoption(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"record.before:1", "record.after:1", "adopt.recorded:1", "update.before:1", "update.after:1", "adopt.identified:1",
		"create.before:1", "create.after:1", "adopt.stepped:1", "record.after:2", "record.after:3", "snapshot.before:1"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			row := w.types("Fix", "alpha")
			o := w.order("pass")
			o.Ahead = pipeline.DefaultTimes.AdoptAfter + time.Second
			if !o.kill(t, at) {
				t.Fatal("the point was not reached")
			}
			o.Ahead += time.Minute
			d, stop := o.dispatcher()
			defer stop()
			for range 2 {
				if r, err := d.Pass(context.Background(), 0); err != nil || r.Trouble != nil || len(r.Failed) > 0 {
					t.Fatalf("next pass: %s, %v", r.Details(), err)
				}
			}
			want(t, "rows", w.rowsOf(), 2)
			want(t, "entries", w.ids("alpha"), w.taskOf(row))
		})
	}
}

// A step that a person deleted need not be done. Without steps, the agent's report
// ends the task. A restored row continues.
func TestDeletedSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal, "One", "Two")
	w.pass()
	want(t, "taken", w.next("alpha"), id)
	w.report(id, pipeline.InProgress)
	for n, left := range []string{"[Two]", "[]"} {
		if err := w.board.Server.DeleteRow("", w.board.ListID, w.record(id).Steps[0].RowID); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(time.Minute)
		w.pass()
		want(t, "after one walk", len(w.record(id).Steps), 2-n)
		w.pass()
		want(t, "after two", stepTitles(w.record(id)), left)
	}
	rec := w.record(id)
	want(t, "left to do", words(rec.Unfinished(), rec.EndsByWord(), rec.GoneAt == nil), "true true true")
	w.clock.Advance(time.Minute)
	w.pass()
	want(t, "rows", w.rowsOf(), 1)
}

// A row that walks miss by mistake does not count as deleted.
func TestWalkLacksARow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.clock.Advance(time.Minute)
	stop := w.board.Faults.Always("slackLists.items.list", boardtest.Rewrite("without rows", func(answer map[string]any) { answer["items"] = []any{} }))
	for range 4 {
		w.pass()
	}
	stop()
	want(t, "looks", w.board.Faults.Count("slackLists.items.info"), 2)
	want(t, "gone", words(w.record(id).GoneAt == nil, w.ids("alpha")), "true T-00001")
}

// OTM notices rows and steps that were deleted while it was down and that no
// snapshot holds, and a row that was deleted during its adoption.
func TestDeletedWhileNobodyLooked(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"row", "step", "half adopted", "finished"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			id := w.create("x", "alpha", pipeline.Normal, "One", "Two")
			w.pass()
			rec := w.record(id)
			if what == "finished" {
				w.report(id, pipeline.AgentDone, 1, 2)
			}
			gone := map[string]string{"row": rec.RowID, "finished": rec.RowID, "step": rec.Steps[0].RowID, "half adopted": w.types("y", "alpha")}[what]
			if what == "half adopted" {
				id++
				w.change(id, func(r *pipeline.Record) { r.Title, r.RowID, r.Status = "y", gone, pipeline.New })
			}
			if err := w.board.Server.DeleteRow("", w.board.ListID, gone); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(w.dir, "board", "snapshot.json")); err != nil {
				t.Fatal(err)
			}
			w.restart()
			w.pass()
			rec = w.record(id)
			want(t, "after one walk", words(rec.GoneAt == nil, stepTitles(rec)), words(true, map[bool]string{true: "[]", false: "[One Two]"}[what == "half adopted"]))
			for range 2 {
				w.clock.Advance(time.Minute)
				w.pass()
			}
			rec = w.record(id)
			want(t, "after two", words(rec.GoneAt != nil, stepTitles(rec)), map[string]string{"row": "true [One Two]", "finished": "true [One Two]", "step": "false [Two]", "half adopted": "true []"}[what])
			want(t, "looks", w.board.Faults.Count("slackLists.items.info"), 1)
		})
	}
}

// If the board lost all its rows, or is another board, nothing is dispatched
// twice, and a pass asks for few rows.
func TestOtherBoard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	for range 7 {
		w.create("x", "alpha", pipeline.Normal)
	}
	w.pass()
	w.board = boardtest.Start(t)
	w.restart()
	for range 5 {
		w.clock.Advance(time.Minute)
		w.pass()
	}
	for id := range pipeline.TaskID(7) {
		want(t, "gone", w.record(id+1).GoneAt != nil, true)
	}
	want(t, "looks", w.board.Faults.Count("slackLists.items.info"), 7)
}
