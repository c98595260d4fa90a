package dispatch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/pipeline"
)

func (w *world) taskIDCell(text string) boardtest.Cell {
	return boardtest.TextCell(w.board.Column(w, "Task ID", "text"), text)
}

// A person changes the Task ID cell of a task. The row still belongs to the task:
// it gets its id back, and no second task is made of it.
func TestTaskIDChanged(t *testing.T) {
	t.Parallel()
	for _, status := range []pipeline.Status{pipeline.New, pipeline.Assigned, pipeline.InProgress, pipeline.AgentDone} {
		for _, text := range []string{"", "soon", "T-00007", "T-00002"} { // the last is another task
			t.Run(string(status)+" "+text, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, "alpha", "beta")
				id := w.create("x", "alpha", pipeline.Normal, "One", "Two")
				w.create("y", "beta", pipeline.Normal)
				w.pass()
				if status != pipeline.Assigned {
					want(t, "taken", w.next("alpha"), id)
					w.report(id, pipeline.InProgress)
				}
				attempt := w.record(id).Attempt
				w.edit(id, w.taskIDCell(text), w.status(status))
				w.pass()
				want(t, "while it is being edited", words(w.taskOf(w.record(id).RowID) == id, w.record(id).Attempt), words(false, attempt))
				w.clock.Advance(pipeline.DefaultTimes.AdoptAfter + time.Second)
				w.pass()
				r := w.pass()
				want(t, "failures", len(r.Failed), 0)
				rec := w.record(id)
				want(t, "its id", w.taskOf(rec.RowID), id)
				want(t, "rows", w.rowsOf(), 5)
				ids, err := w.store.IDs()
				want(t, "tasks", words(len(ids), err), "2 <nil>")
				if status == pipeline.New {
					attempt++ // sent back
				}
				want(t, "attempt", rec.Attempt, attempt)
				want(t, "told", strings.Count(w.log.String(), "wrote back the task id"), 1)
			})
		}
	}
}

// The row of a task with an unreadable record does not become a new task. A row
// typed beside it does.
func TestTaskIDClearedWhileTheRecordIsBroken(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		w := newWorld(t, "alpha")
		id := w.create("x", "alpha", pipeline.Normal)
		w.pass()
		if restarted {
			w.restart()
		}
		record, row := w.record(id), w.record(id).RowID
		w.edit(id, w.taskIDCell(""), w.status(pipeline.New))
		typed := w.types("typed", "alpha")
		path := filepath.Join(w.dir, "tasks", id.String()+".json")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(pipeline.DefaultTimes.AdoptAfter + time.Second)
		r := w.pass()
		if len(r.Failed) != 1 || !strings.Contains(r.Failed[0], "maybe that of T-00001, whose record cannot be read") {
			t.Errorf("failures %q", r.Failed)
		}
		want(t, "the typed row", w.taskOf(typed), pipeline.TaskID(2))
		want(t, "the row", w.taskOf(row), pipeline.TaskID(0))
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		w.pass()
		want(t, "when it can be read", words(w.taskOf(row), w.record(id).RowID), words(id, record.RowID))
	}
}

// A Task ID that somebody changes again, as a second data directory would, is not
// written back again but reported.
func TestTaskIDChangedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	for n := range 2 {
		w.edit(id, w.taskIDCell(""))
		w.clock.Advance(pipeline.DefaultTimes.AdoptAfter + time.Second)
		r := w.pass()
		want(t, "failures", len(r.Failed), n)
		if n == 1 && !strings.Contains(r.Details(), "somebody changed its Task ID again") {
			t.Errorf("summary %s", r.Details())
		}
	}
	w.clock.Advance(sayAgain)
	w.pass()
	want(t, "in the end", w.taskOf(w.record(id).RowID), id)
}

// A person copied the row of a task: which row keeps the id.
func TestTaskIDClearedWhileACopyBearsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	row := w.record(id).RowID
	copied := w.types("x", "alpha", w.taskIDCell("T-00001"))
	w.edit(id, w.taskIDCell(""))
	w.clock.Advance(pipeline.DefaultTimes.AdoptAfter + time.Second)
	r := w.pass()
	want(t, "failures", r.Failed[1:], []string{`row "x": it is the row of T-00001, but row "x" has that Task ID: clear the Task ID of that one`})
	if err := w.board.Server.EditRow("", w.board.ListID, copied, w.taskIDCell("")); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(pipeline.DefaultTimes.AdoptAfter + time.Second)
	w.pass()
	want(t, "the copy, as told", words(w.taskOf(row), w.taskOf(copied)), "T-00001 T-00002")
}

// A row that cannot get its step, as the list is full, blocks no other row.
func TestAdoptionOnAFullList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	row, second := w.types("Typed", "alpha"), w.types("Typed too", "alpha")
	id := w.create("x", "beta", pipeline.Normal)
	w.clock.Advance(pipeline.DefaultTimes.AdoptAfter + time.Second)
	stop := w.board.Faults.Always("slackLists.items.create", boardtest.ErrorCode("over_row_maximum"))
	r := w.pass()
	want(t, "dispatched", words(r.Dispatched, r.Trouble, w.ids("beta")), words(1, nil, id))
	want(t, "failures", len(r.Failed), 2)
	slices.Sort(r.Failed)
	want(t, "why", r.Failed[0], `row "Typed too": its step cannot be made: the list is full: slackLists.items.create: over_row_maximum`)
	want(t, "asked for", w.board.Faults.Count("slackLists.items.create")-2, 1)
	stop()
	w.pass()
	want(t, "when there is room", words(w.taskOf(row) != 0, w.taskOf(second) != 0, len(w.ids("alpha"))), "true true 15")
}

// A row with an id that a person typed is reported like any other.
func TestTypedIDOfAnUnknownAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.types("Mine", "nobody", w.taskIDCell("T-00007"))
	w.clock.Advance(pipeline.DefaultTimes.AdoptAfter + time.Second)
	w.pass()
	want(t, "failures", w.pass().Failed, []string{`T-00007: unknown agent "nobody": no [agents.NAME] table of otm.toml has this name or label`})
}
