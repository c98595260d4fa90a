package slacklist

import (
	"encoding/json"
	"slices"
	"testing"

	"otm/internal/board/boardtest"
	"otm/pipeline"
)

// made adds n rows and returns their ids.
func (w *world) made(s *Session, n int) []string {
	w.t.Helper()
	var rows []string
	for i := range n {
		rows = append(rows, w.add(s, pipeline.TaskID(i+1)))
	}
	return rows
}

func (w *world) checkStatus(s *Session, rows []string, want pipeline.Status) {
	w.t.Helper()
	for _, id := range rows {
		s.snap.row(id).Wrote = 0
	}
	w.walk(s)
	for i, id := range rows {
		if got := s.Row(id).Status; got != want {
			w.t.Errorf("row %d of %d is %s, want %s", i+1, len(rows), got, want)
		}
	}
}

// Several rows are written in one call. If the board refuses that, they are
// written one by one.
func TestMultiRow(t *testing.T) {
	t.Parallel()
	for want, quirks := range map[int]boardtest.Quirks{1: {}, 4: {RefuseMultiRow: true}} {
		w := newWorld(t, func(o *boardtest.Options) { o.Quirks = quirks })
		w.batch(w.client(), func(s *Session) {
			rows := w.made(s, 3)
			w.set(s, status(rows[0], pipeline.Assigned), status(rows[1], pipeline.Assigned), status(rows[2], pipeline.Assigned))
			if n, walks := w.Faults.Count(updateMethod), w.Faults.Count(listMethod); n != want || walks != 0 {
				t.Errorf("%d updates, want %d; %d walks", n, want, walks)
			}
			w.checkStatus(s, rows, pipeline.Assigned)
		})
	}
}

// A refusal of one row by itself is the error of the update.
func TestMultiRowRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) {
		rows := w.made(s, 2)
		both := []pipeline.Change{status(rows[0], pipeline.Assigned), status(rows[1], pipeline.Assigned)}
		w.Faults.Next(updateMethod, boardtest.ErrorCode("invalid_arguments"), boardtest.ErrorCode("invalid_arguments"))
		if err := s.Update(t.Context(), both...); !pipeline.IsRefused(err) {
			t.Errorf("error %v", err)
		}
		if err := w.Server.DeleteRow("", w.ListID, rows[1]); err != nil {
			t.Fatal(err)
		}
		if e := boardError(t, s.Update(t.Context(), both...)); !e.RowGone || e.MaybeApplied {
			t.Errorf("error %v", e)
		}
	})
}

// cellsOf are the rows of the cells of each update so far.
func cellsOf(t *testing.T, l *boardtest.Layer) (calls [][]string) {
	t.Helper()
	for _, call := range l.Calls() {
		if call.Method != updateMethod {
			continue
		}
		var cells []struct {
			Row string `json:"row_id"`
		}
		if err := json.Unmarshal([]byte(call.Args.Get("cells")), &cells); err != nil {
			t.Fatal(err)
		}
		var rows []string
		for _, c := range cells {
			rows = append(rows, c.Row)
		}
		calls = append(calls, rows)
	}
	return calls
}

// TestCaseB100CellLimit writes 250 cells, and loses the answer to some. A call
// has at most a hundred, the cells of a row are never in two calls, and what
// may have been applied is written again, to the same end.
func TestCaseB100CellLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) {
		rows := w.made(s, 50)
		var changes []pipeline.Change
		for _, row := range rows {
			changes = append(changes, pipeline.Change{Row: row, Cells: []pipeline.Cell{
				{Field: pipeline.FieldStatus, Text: "assigned"}, {Field: pipeline.FieldReason, Text: "r"}, {Field: pipeline.FieldResult, Text: "s"},
				{Field: pipeline.FieldRemaining, Text: "1"}, {Field: pipeline.FieldCompletion, Text: "2"},
			}})
		}
		release := make(chan struct{})
		w.Faults.Next(updateMethod, boardtest.Pass(), boardtest.Hold(release))
		go func() {
			<-w.Faults.Came(updateMethod, 2)
			w.Server.SetQuirks(boardtest.Quirks{PartialUpdateCells: 37})
			close(release)
		}()
		err := s.Update(t.Context(), changes...)
		if e := boardError(t, err); e.Code != "internal_error" || !e.MaybeApplied {
			t.Fatalf("error %v", err)
		}
		w.Server.SetQuirks(boardtest.Quirks{})
		for i, row := range rows {
			// Of the first call all is known, of the second nothing, of the third the old.
			want := []pipeline.Status{pipeline.Assigned, pipeline.New, pipeline.New}[i/20]
			if got := s.Row(row).Status; got != want || s.Current(s.Row(row), 0) != (i/20 != 1) {
				t.Errorf("row %d is %s, current %t", i, got, s.Current(s.Row(row), 0))
			}
		}
		w.set(s, changes...)
		w.checkStatus(s, rows, pipeline.Assigned)
		seen := map[string]int{}
		for _, call := range cellsOf(t, w.Faults) {
			if len(call) > 100 {
				t.Errorf("a call of %d cells", len(call))
			}
			for row, cells := range countBy(call) {
				if seen[row]++; cells != 5 {
					t.Errorf("row %s has %d cells in one call", row, cells)
				}
			}
		}
	})
}

func countBy(rows []string) map[string]int {
	n := map[string]int{}
	for _, r := range rows {
		n[r]++
	}
	return n
}

// One call a row: in the given order, up to the first that fails.
func TestOneByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) {
		rows := w.made(s, 3)
		w.Faults.Reset()
		no := boardtest.ErrorCode("invalid_arguments")
		w.Faults.Next(updateMethod, no, boardtest.Pass(), no)
		err := s.Update(t.Context(), status(rows[2], pipeline.Assigned), status(rows[1], pipeline.Assigned), status(rows[0], pipeline.Assigned))
		if !pipeline.IsRefused(err) {
			t.Errorf("error %v", err)
		}
		if got := slices.Concat(cellsOf(t, w.Faults)[1:]...); !slices.Equal(got, []string{rows[2], rows[1]}) {
			t.Errorf("written %v of %v", got, rows)
		}
		if s.Row(rows[2]).Status != pipeline.Assigned || s.Row(rows[1]).Status != pipeline.New {
			t.Error("the snapshot does not show what was written")
		}
	})
}

// Part of a row's cells may be applied; nothing is claimed of it, and writing
// again mends it.
func TestPartialUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) {
		rows := w.made(s, 1)
		w.Server.SetQuirks(boardtest.Quirks{PartialUpdateCells: 1})
		change := pipeline.Change{Row: rows[0], Cells: []pipeline.Cell{{Field: pipeline.FieldStatus, Text: "blocked"}, {Field: pipeline.FieldReason, Text: "why"}}}
		if err := s.Update(t.Context(), change); !pipeline.MaybeApplied(err) {
			t.Errorf("error %v", err)
		}
		if r := s.Row(rows[0]); r.Status != pipeline.New || s.Current(r, 0) {
			t.Errorf("row %+v", r)
		}
		w.walk(s)
		if r := s.Row(rows[0]); r.Status != pipeline.Blocked || r.Reason != "" {
			t.Errorf("walked row %+v", r)
		}
		w.Server.SetQuirks(boardtest.Quirks{})
		w.set(s, change)
		w.checkStatus(s, rows, pipeline.Blocked)
		if r := s.Row(rows[0]); r.Reason != "why" {
			t.Errorf("row %+v", r)
		}
	})
}

// Nothing to write is no call.
func TestNoChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) {
		rows := w.made(s, 2)
		w.set(s)
		w.set(s, pipeline.Change{Row: rows[0]}, pipeline.Change{Row: rows[1]})
	})
	if n := w.Faults.Count(updateMethod); n != 0 {
		t.Errorf("%d calls", n)
	}
}
