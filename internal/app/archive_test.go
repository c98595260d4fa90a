package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/internal/board/boardtest"
	"otm/pipeline"
	"otm/slacklist"
)

// newArchive is a data directory with a board that holds done tasks of two
// steps each, and an archiver that takes all.
func newArchive(t *testing.T, tasks int) (*boardtest.Board, *archiver) {
	t.Helper()
	h := newHome(t, "")
	b := boardtest.Start(t)
	title, id, status := b.Column(t, "Title", "text"), b.Column(t, "Task ID", "text"), b.Column(t, "Status", "select")
	for n := range tasks {
		task := core.Task{ID: pipeline.TaskID(n + 1), DropID: fmt.Sprint("d", n+1), Title: fmt.Sprint("task ", n), Status: pipeline.Done, StatusAt: time.Now(), CreatedAt: time.Now()}
		task.RowID = b.Create(t, "", boardtest.TextCell(title, task.Title), boardtest.TextCell(id, task.ID.String()), boardtest.SelectCell(status, "done"))
		for s := range 2 {
			row := b.Create(t, task.RowID, boardtest.TextCell(title, "step"))
			task.Steps = append(task.Steps, core.Step{ID: s + 1, Title: "step", RowID: row, Shown: core.StepShown{Title: "step"}})
		}
		task.LastStep, task.Shown = 2, task.View()
		seedTask(t, h, task)
	}
	client := slacklist.New(slacklist.Options{Dir: h.Dir, URL: b.URL, ListID: b.ListID, Token: b.Token, OpenAssignees: true})
	e, err := newEngine(t.Context(), h, "otm", client, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return b, &archiver{home: h, engine: e, age: -time.Hour}
}

// rowsLeft is how many rows the board holds.
func rowsLeft(t *testing.T, b *boardtest.Board) int {
	t.Helper()
	return len(b.Must(t, "slackLists.items.list", map[string]any{"list_id": b.ListID, "limit": 1000})["items"].([]any))
}

// archivedIDs are the tasks that stand in the history, each with its steps.
func archivedIDs(t *testing.T, h *Home) (ids []string) {
	t.Helper()
	entries, err := readHistory(t.Context(), storeOf(t, h), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if len(e.Steps) != 2 || e.Row.Title != e.State.Title {
			t.Errorf("in the history: %+v", e)
		}
		ids = append(ids, e.TaskID.String())
	}
	return ids
}

// However an answer is lost, each task stands in the history once, and the next run
// deletes the rows that are left.
func TestArchiveLostAnswers(t *testing.T) {
	t.Parallel()
	const tasks = 25 // more than a batch
	for _, fault := range []boardtest.Fault{
		boardtest.Reset(), boardtest.Status(503), boardtest.ErrorCode("fatal_error"), boardtest.ApplyThenReset(),
		boardtest.ApplyThenError("internal_error"), boardtest.HTML(), boardtest.NoError(),
	} {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			b, a := newArchive(t, tasks)
			b.Faults.Next("slackLists.items.deleteMultiple", fault)
			report, err := a.run(t.Context(), true)
			if err != nil || report.Left < maxArchived {
				t.Errorf("a lost answer was taken for a success: %+v, %v", report, err)
			}
			report, err = a.run(t.Context(), true)
			if err != nil || report.Left != 0 || report.Room.Rows != 0 {
				t.Errorf("next run: %+v, %v", report, err)
			}
			if n := rowsLeft(t, b); n != 0 {
				t.Errorf("%d rows left", n)
			}
			ids := archivedIDs(t, a.home)
			if len(ids) != tasks || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != tasks {
				t.Errorf("%d tasks in the history: %v", len(ids), ids)
			}
		})
	}
}

// However often it failed between the history and the rows, a task was archived once.
func TestArchivedIsNotedOnce(t *testing.T) {
	t.Parallel()
	b, a := newArchive(t, 1)
	for range 3 {
		b.Faults.Next("slackLists.items.deleteMultiple", boardtest.Status(503))
		if report, err := a.run(t.Context(), true); err != nil || report.Left != 1 {
			t.Fatalf("a refusal was taken for a success: %+v, %v", report, err)
		}
	}
	if report, err := a.run(t.Context(), true); err != nil || report.Left != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	noted := 0
	for _, e := range eventsOf(t, a.home, 1) {
		if e.Type() == "Archived" {
			noted++
		}
	}
	task := stateOf(t, a.home, 1)
	if ids := archivedIDs(t, a.home); noted != 1 || len(ids) != 1 || task.ArchivedAt.IsZero() || rowsLeft(t, b) != 0 {
		t.Errorf("noted %d times, %v in the history, at %v, %d rows left", noted, ids, task.ArchivedAt, rowsLeft(t, b))
	}
}

// noArchive is a store that cannot archive.
type noArchive struct{ core.Store }

func (s noArchive) Do(ctx context.Context, commands ...core.Command) ([]core.Outcome, error) {
	for _, c := range commands {
		if _, ok := c.Do.(core.Archive); ok {
			return nil, errors.New("disk full")
		}
	}
	return s.Store.Do(ctx, commands...)
}

// A history that cannot be written keeps the rows.
func TestArchiveHistoryFails(t *testing.T) {
	t.Parallel()
	b, a := newArchive(t, 2)
	a.engine.Store = noArchive{a.engine.Store}
	if _, err := a.run(t.Context(), true); err == nil {
		t.Error("it was not noticed")
	}
	if n := rowsLeft(t, b); n != 6 {
		t.Errorf("%d rows left", n)
	}
	if b.Faults.Count("slackLists.items.deleteMultiple") != 0 {
		t.Error("rows were deleted")
	}
}

// A row that bears the id of a task whose row is another stays: a person has to look.
func TestArchiveLeavesCopies(t *testing.T) {
	t.Parallel()
	b, a := newArchive(t, 2)
	task := *stateOf(t, a.home, 1)
	task.RowID, task.Status = "RecOTHER", pipeline.InProgress
	other := *stateOf(t, a.home, 2)
	emptyStore(t, a.home)
	seedTask(t, a.home, task)
	seedTask(t, a.home, other)
	e, err := newEngine(t.Context(), a.home, "otm", a.engine.Board, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.engine = e
	report, err := a.run(t.Context(), true)
	if err != nil || len(report.Tasks) != 1 || report.Tasks[0].TaskID != 2 || rowsLeft(t, b) != 3 {
		t.Errorf("%+v, %v, %d rows", report, err, rowsLeft(t, b))
	}
	if ids := archivedIDs(t, a.home); !slices.Equal(ids, []string{"T-00002"}) {
		t.Errorf("in the history: %v", ids)
	}
}

// Where the board does not delete rows, that is told, and the next run deletes them.
func TestArchivedRowsStillShow(t *testing.T) {
	t.Parallel()
	p := newBusy(t)
	p.b.Faults.Next("slackLists.items.deleteMultiple", boardtest.Status(503))
	argv := []string{"otm", "archive", "--older-than", "0d", "--yes"}
	if _, out := p.main(argv...); !strings.Contains(out, "warning: the board still shows 1 of the tasks: ") {
		t.Errorf("not told: %s", out)
	}
	p.must(argv...)
	if n, ids := rowsLeft(t, p.b), len(statesOf(t, p.h)); n != 3 || stateOf(t, p.h, 1).ArchivedAt.IsZero() {
		t.Errorf("%d rows left, of %d tasks", n, ids)
	}
}

// What is sent back, or was done a moment ago, stays.
func TestArchiveTakesOnlyWhatIsOver(t *testing.T) {
	t.Parallel()
	b, a := newArchive(t, 3)
	a.age = time.Hour
	if report, err := a.run(t.Context(), true); err != nil || len(report.Tasks) != 0 {
		t.Errorf("a moment ago: %+v, %v", report, err)
	}
	a.age = -time.Hour
	row := stateOf(t, a.home, 2).RowID
	if err := b.Server.EditRow("", b.ListID, row, boardtest.SelectCell(b.Column(t, "Status", "select"), "new")); err != nil {
		t.Fatal(err)
	}
	report, err := a.run(t.Context(), true)
	if err != nil || len(report.Tasks) != 2 || rowsLeft(t, b) != 3 {
		t.Errorf("%+v, %v, %d rows", report, err, rowsLeft(t, b))
	}
}
