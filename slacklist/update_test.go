package slacklist

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

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

// Whether several rows may be written in one call is tried once, verified by
// reading, and remembered for all processes.
func TestMultiRow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		quirks boardtest.Quirks
		first  int // updates of three rows, the first time
		then   int // and later
		answer string
	}{
		{"works", boardtest.Quirks{}, 1, 1, "yes"},
		{"refused", boardtest.Quirks{RefuseMultiRow: true}, 4, 3, "no"},
		{"first row only", boardtest.Quirks{FirstRowOnly: true}, 4, 3, "no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *boardtest.Options) { o.Quirks = c.quirks })
			client := w.client()
			var rows []string
			update := func(client *Client, to pipeline.Status) (updates, walks int) {
				t.Helper()
				w.Faults.Reset()
				w.batch(client, func(s *Session) {
					w.set(s, status(rows[0], to), status(rows[1], to), status(rows[2], to))
					updates, walks = w.Faults.Count(updateMethod), w.Faults.Count(listMethod)
					w.checkStatus(s, rows, to)
				})
				return updates, walks
			}
			w.batch(client, func(s *Session) {
				rows = w.made(s, 3)
				w.set(s, status(rows[0], pipeline.Pending)) // one row says nothing
				if s.snap.MultiRow != "" {
					t.Errorf("known after one row: %q", s.snap.MultiRow)
				}
			})
			if n, walks := update(client, pipeline.Assigned); n != c.first || walks > 1 {
				t.Errorf("first time: %d updates, %d walks", n, walks)
			}
			if n, walks := update(client, pipeline.InProgress); n != c.then || walks != 0 {
				t.Errorf("then: %d updates, %d walks", n, walks)
			}
			if n, walks := update(w.client(), pipeline.Blocked); n != c.then || walks != 0 {
				t.Errorf("another process: %d updates, %d walks", n, walks)
			}
			w.batch(client, func(s *Session) {
				if s.snap.MultiRow != c.answer {
					t.Errorf("remembered %q", s.snap.MultiRow)
				}
			})
		})
	}
}

// The verifying looks at whatever was written, not only at states.
func TestMultiRowLooksAtWhatWasWritten(t *testing.T) {
	t.Parallel()
	for _, cell := range []pipeline.Cell{
		{Field: pipeline.FieldTaskID, Text: "T-00042"}, {Field: pipeline.FieldTitle, Text: "other"}, {Field: pipeline.FieldProject, Text: "p"},
		{Field: pipeline.FieldRemaining, Number: 3}, {Field: pipeline.FieldCompletion, Number: 9}, {Field: pipeline.FieldChecked, Checked: true},
		{Field: pipeline.FieldReason, Text: "why"}, {Field: pipeline.FieldResult, Text: "that"}, {Field: pipeline.FieldPriority, Text: "high"},
		{Field: pipeline.FieldType, Text: "review"}, {Field: pipeline.FieldAssignee, Text: "archibald"}, {Field: pipeline.FieldAssignedAt, At: newClock().Now()},
		{Field: pipeline.FieldCompletedAt, At: newClock().Now()},
	} {
		t.Run(string(cell.Field), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *boardtest.Options) { o.Quirks.FirstRowOnly = true })
			w.batch(w.client(), func(s *Session) {
				rows := w.made(s, 2)
				cells := []pipeline.Cell{cell}
				w.set(s, pipeline.Change{Row: rows[0], Cells: cells}, pipeline.Change{Row: rows[1], Cells: cells})
				if s.snap.MultiRow != "no" {
					t.Errorf("remembered %q", s.snap.MultiRow)
				}
				for _, row := range rows {
					if !s.writer.shows(pipeline.Change{Row: row, Cells: cells}) {
						t.Errorf("row %+v", s.Row(row))
					}
				}
			})
		})
	}
}

// Where the verifying is not possible, nothing is concluded, and everything is
// written.
func TestMultiRowNotVerified(t *testing.T) {
	t.Parallel()
	t.Run("walk fails", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.batch(w.client(), func(s *Session) {
			rows := w.made(s, 2)
			w.walk(s)
			before := w.stalePage()
			w.Faults.Next(listMethod, boardtest.Status(503))
			w.Server.SetQuirks(boardtest.Quirks{FirstRowOnly: true})
			w.set(s, status(rows[0], pipeline.Assigned), status(rows[1], pipeline.Assigned))
			w.Server.SetQuirks(boardtest.Quirks{})
			if s.snap.MultiRow != "" {
				t.Errorf("remembered %q", s.snap.MultiRow)
			}
			w.Faults.Next(listMethod, before) // and what was written is still known to be ours
			w.walk(s)
			if got := s.Row(rows[1]).Status; got != pipeline.Assigned {
				t.Errorf("status %s", got)
			}
			w.set(s, status(rows[0], pipeline.Blocked), status(rows[1], pipeline.Blocked))
			if s.snap.MultiRow != "yes" {
				t.Errorf("then remembered %q", s.snap.MultiRow)
			}
			w.checkStatus(s, rows, pipeline.Blocked)
		})
	})
	t.Run("walk lags", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.batch(w.client(), func(s *Session) {
			rows := w.made(s, 2)
			w.walk(s)
			w.Faults.Next(listMethod, w.stalePage())
			w.set(s, status(rows[0], pipeline.Assigned), status(rows[1], pipeline.Assigned))
			if s.snap.MultiRow != "" {
				t.Errorf("remembered %q", s.snap.MultiRow)
			}
			w.checkStatus(s, rows, pipeline.Assigned)
		})
	})
	t.Run("walk lags behind earlier writes", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.batch(w.client(), func(s *Session) {
			rows := w.made(s, 2)
			w.walk(s)
			before := w.stalePage()
			w.clock.Advance(time.Second)
			w.set(s, status(rows[0], pipeline.InProgress))
			w.clock.Advance(time.Second)
			w.Faults.Next(listMethod, before)
			title := pipeline.Cell{Field: pipeline.FieldTitle, Text: "other"}
			w.set(s, pipeline.Change{Row: rows[0], Cells: []pipeline.Cell{title}}, status(rows[1], pipeline.Assigned))
			if r := s.Row(rows[0]); s.snap.MultiRow != "" || r.Status != pipeline.InProgress || r.Title != "other" {
				t.Errorf("remembered %q, row %+v", s.snap.MultiRow, r)
			}
			w.set(s, status(rows[0], pipeline.Blocked), status(rows[1], pipeline.Blocked))
			w.checkStatus(s, rows, pipeline.Blocked)
		})
	})
	t.Run("one row is bad by itself", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.batch(w.client(), func(s *Session) {
			rows := w.made(s, 2)
			w.Faults.Next(updateMethod, boardtest.ErrorCode("invalid_arguments"), boardtest.ErrorCode("invalid_arguments"))
			if err := s.Update(t.Context(), status(rows[0], pipeline.Assigned), status(rows[1], pipeline.Assigned)); !pipeline.IsRefused(err) {
				t.Errorf("error %v", err)
			}
			if s.snap.MultiRow != "" {
				t.Errorf("remembered %q", s.snap.MultiRow)
			}
		})
	})
	t.Run("one row is gone", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.batch(w.client(), func(s *Session) {
			rows := w.made(s, 2)
			if err := w.Server.DeleteRow("", w.ListID, rows[1]); err != nil {
				t.Fatal(err)
			}
			if e := boardError(t, s.Update(t.Context(), status(rows[0], pipeline.Assigned), status(rows[1], pipeline.Assigned))); !e.RowGone {
				t.Errorf("error %v", e)
			}
			if s.snap.MultiRow != "" {
				t.Errorf("remembered %q", s.snap.MultiRow)
			}
		})
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
		s.snap.MultiRow = "yes"
		var changes []pipeline.Change
		for _, row := range rows {
			changes = append(changes, pipeline.Change{Row: row, Cells: []pipeline.Cell{
				{Field: pipeline.FieldStatus, Text: "assigned"}, {Field: pipeline.FieldReason, Text: "r"}, {Field: pipeline.FieldResult, Text: "s"},
				{Field: pipeline.FieldRemaining, Number: 1}, {Field: pipeline.FieldCompletion, Number: 2},
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
		s.snap.MultiRow = "no"
		w.Faults.Reset()
		w.Faults.Next(updateMethod, boardtest.Pass(), boardtest.ErrorCode("invalid_arguments"))
		err := s.Update(t.Context(), status(rows[2], pipeline.Assigned), status(rows[1], pipeline.Assigned), status(rows[0], pipeline.Assigned))
		if !pipeline.IsRefused(err) {
			t.Errorf("error %v", err)
		}
		if got := slices.Concat(cellsOf(t, w.Faults)...); !slices.Equal(got, []string{rows[2], rows[1]}) {
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
