package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/pipeline"
	"otm/pipeline/history"
	"otm/slacklist"
)

// newArchive is a data directory with a board that holds done tasks of two
// steps each, and an archiver that takes all.
func newArchive(t *testing.T, tasks int) (*boardtest.Board, *archiver) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Init(dir); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHome(cli.Streams{Out: io.Discard, Err: io.Discard, In: strings.NewReader(""), Getenv: func(string) string { return "" }}, dir)
	if err != nil {
		t.Fatal(err)
	}
	b := boardtest.Start(t)
	title, id, status := b.Column(t, "Title", "text"), b.Column(t, "Task ID", "text"), b.Column(t, "Status", "select")
	for n := range tasks {
		row := b.Create(t, "", boardtest.TextCell(title, fmt.Sprint("task ", n)), boardtest.TextCell(id, fmt.Sprintf("T-%05d", n+1)), boardtest.SelectCell(status, "done"))
		for range 2 {
			b.Create(t, row, boardtest.TextCell(title, "step"))
		}
	}
	client := slacklist.New(slacklist.Options{Dir: dir, URL: b.URL, ListID: b.ListID, Token: b.Token, OpenAssignees: true})
	return b, &archiver{home: h, board: client, before: time.Now().Add(time.Hour)}
}

// rowsLeft is how many rows the board holds, and archivedIDs what stands in the
// history.
func rowsLeft(t *testing.T, b *boardtest.Board) int {
	t.Helper()
	return len(b.Must(t, "slackLists.items.list", map[string]any{"list_id": b.ListID, "limit": 1000})["items"].([]any))
}

func archivedIDs(t *testing.T, dir string) (ids []string) {
	t.Helper()
	for e, err := range history.Read(dir) {
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Steps) != 2 {
			t.Errorf("%v has %d steps in the history", e.TaskID, len(e.Steps))
		}
		ids = append(ids, e.TaskID.String())
	}
	return ids
}

// However an answer is lost, each task stands in the history once before its
// rows go, and the next run finishes it.
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
			if _, err := a.run(t.Context(), true); err == nil {
				t.Error("a lost answer was taken for a success")
			}
			if ids := archivedIDs(t, a.home.Dir); len(ids) != maxArchived {
				t.Errorf("%d tasks in the history", len(ids))
			}
			report, err := a.run(t.Context(), true)
			if err != nil || report.Left != 0 || report.Room.Rows != 0 {
				t.Errorf("next run: %+v, %v", report, err)
			}
			if n := rowsLeft(t, b); n != 0 {
				t.Errorf("%d rows left", n)
			}
			ids := archivedIDs(t, a.home.Dir)
			if len(ids) != tasks {
				t.Errorf("%d tasks in the history: %v", len(ids), ids)
			}
		})
	}
}

// However often it was killed or failed between the history and the rows, it
// was archived once, and its record says so once.
func TestArchivedIsNotedOnce(t *testing.T) {
	t.Parallel()
	b, a := newArchive(t, 1)
	row := ""
	for _, r := range b.Must(t, "slackLists.items.list", map[string]any{"list_id": b.ListID, "limit": 10})["items"].([]any) {
		if item := r.(map[string]any); item["parent_record_id"] == nil {
			row = item["id"].(string)
		}
	}
	_, err := a.home.Store.Change(t.Context(), 1, func(r *pipeline.Record) error {
		r.RowID, r.Title, r.Status = row, "task 0", pipeline.Done
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		b.Faults.Next("slackLists.items.deleteMultiple", boardtest.Status(503))
		if _, err := a.run(t.Context(), true); err == nil {
			t.Fatal("a refusal was taken for a success")
		}
	}
	if _, err := a.run(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	rec, err := a.home.Store.Load(1)
	if err != nil {
		t.Fatal(err)
	}
	noted := 0
	for _, e := range rec.History {
		if e.What == "archived" {
			noted++
		}
	}
	if ids := archivedIDs(t, a.home.Dir); noted != 1 || len(ids) != 1 || rec.ArchivedAt == nil || rowsLeft(t, b) != 0 {
		t.Errorf("noted %d times, %v in the history, at %v, %d rows left", noted, ids, rec.ArchivedAt, rowsLeft(t, b))
	}
}

// A history that cannot be written keeps the rows.
func TestArchiveHistoryFails(t *testing.T) {
	t.Parallel()
	b, a := newArchive(t, 2)
	if err := os.Mkdir(filepath.Join(a.home.Dir, history.FileName), 0o700); err != nil {
		t.Fatal(err)
	}
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

// A task whose record cannot be read stays, and is told; the others go.
func TestArchiveUnreadRecord(t *testing.T) {
	t.Parallel()
	b, a := newArchive(t, 2)
	put(t, filepath.Join(a.home.Dir, "tasks", "T-00001.json"), "damaged")
	a.before = time.Now().Add(-time.Hour)
	if report, err := a.run(t.Context(), true); err != nil || report.unread() != nil {
		t.Errorf("before it is due: %+v, %v", report, err)
	}
	a.before = time.Now().Add(time.Hour)
	report, err := a.run(t.Context(), true)
	if err != nil || len(report.Tasks) != 1 || report.Tasks[0].TaskID != 2 || rowsLeft(t, b) != 3 {
		t.Errorf("%+v, %v, %d rows", report, err, rowsLeft(t, b))
	}
	var e *cli.Error
	if err := report.unread(); !errors.As(err, &e) || e.Code != cli.Partial || !strings.Contains(err.Error(), "T-00001") {
		t.Errorf("error %v", err)
	}
	if ids := archivedIDs(t, a.home.Dir); !slices.Equal(ids, []string{"T-00002"}) {
		t.Errorf("in the history: %v", ids)
	}
}

// A row that bears the id of a task whose row is another stays: a person has to look.
func TestArchiveLeavesCopies(t *testing.T) {
	t.Parallel()
	b, a := newArchive(t, 2)
	_, err := a.home.Store.Change(t.Context(), 1, func(r *pipeline.Record) error {
		r.RowID, r.Title, r.Status = "RecOTHER", "task 0", pipeline.InProgress
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	report, err := a.run(t.Context(), true)
	if err != nil || len(report.Tasks) != 1 || report.Tasks[0].TaskID != 2 || rowsLeft(t, b) != 3 {
		t.Errorf("%+v, %v, %d rows", report, err, rowsLeft(t, b))
	}
	if ids := archivedIDs(t, a.home.Dir); !slices.Equal(ids, []string{"T-00002"}) {
		t.Errorf("in the history: %v", ids)
	}
}

// Where the board says that rows are deleted and shows them still, that is told, and
// the next run deletes them.
func TestArchivedRowsStillShow(t *testing.T) {
	t.Parallel()
	p := newBusy(t)
	p.b.Faults.Next("slackLists.items.deleteMultiple", boardtest.Body("nothing done", `{"ok":true}`))
	argv := []string{"otm", "archive", "--older-than", "0d", "--yes"}
	if _, out := p.main(argv...); !strings.Contains(out, "warning: the board still shows 2 of the deleted rows: run it again in a minute") {
		t.Errorf("not told: %s", out)
	}
	p.must(argv...)
	entries, err := readHistory(p.h, func(*history.Entry) bool { return true })
	if n := rowsLeft(t, p.b); err != nil || n != 3 || len(entries) != 1 {
		t.Errorf("%d rows left, %d in the history, %v", n, len(entries), err)
	}
}

// What is sent back, or was done a moment ago, stays.
func TestArchiveTakesOnlyWhatIsOver(t *testing.T) {
	t.Parallel()
	b, a := newArchive(t, 3)
	a.before = time.Now().Add(-time.Hour)
	if report, err := a.run(t.Context(), true); err != nil || len(report.Tasks) != 0 {
		t.Errorf("a moment ago: %+v, %v", report, err)
	}
	a.before = time.Now().Add(time.Hour)
	rows := b.Must(t, "slackLists.items.list", map[string]any{"list_id": b.ListID, "limit": 1000})["items"].([]any)
	for _, r := range rows {
		if row := r.(map[string]any); row["parent_record_id"] == nil {
			if err := b.Server.EditRow("", b.ListID, row["id"].(string), boardtest.SelectCell(b.Column(t, "Status", "select"), "new")); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	report, err := a.run(t.Context(), true)
	if err != nil || len(report.Tasks) != 2 || rowsLeft(t, b) != 3 {
		t.Errorf("%+v, %v, %d rows", report, err, rowsLeft(t, b))
	}
	if _, over := a.over(&pipeline.Row{ID: "Rec1", Status: pipeline.Done}, nil); over {
		t.Error("nobody knows since when it is done, and it is over")
	}
}

// An update that is on the board and not yet in the record is finished first.
func TestArchiveWaitsForAnUpdate(t *testing.T) {
	t.Parallel()
	b, a := newArchive(t, 1)
	items := b.Must(t, "slackLists.items.list", map[string]any{"list_id": b.ListID, "limit": 1000})["items"].([]any)
	reporting := func(r *pipeline.Report) {
		t.Helper()
		_, err := a.home.Store.Change(t.Context(), 1, func(rec *pipeline.Record) error {
			for _, item := range items {
				if row := item.(map[string]any); row["parent_record_id"] == nil {
					rec.RowID = row["id"].(string)
				}
			}
			rec.Reporting = r
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	reporting(&pipeline.Report{ID: "u1"})
	if report, err := a.run(t.Context(), true); err != nil || len(report.Tasks) != 0 || rowsLeft(t, b) != 3 {
		t.Errorf("while it is applied: %+v, %v, %d rows", report, err, rowsLeft(t, b))
	}
	reporting(nil)
	if report, err := a.run(t.Context(), true); err != nil || len(report.Tasks) != 1 || rowsLeft(t, b) != 0 {
		t.Errorf("then: %+v, %v, %d rows", report, err, rowsLeft(t, b))
	}
}
