package slacklist

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/pipeline"
)

// Of each row it is known as of when its status is known.
func TestCurrent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	const age = 5 * time.Second
	var mine, other string
	check := func(when string, wantMine, wantOther bool) {
		t.Helper()
		w.batch(c, func(s *Session) {
			if got := s.Current(s.Row(mine), age); got != wantMine {
				t.Errorf("%s: the row is current: %t", when, got)
			}
			if got := s.Current(s.Row(other), age); got != wantOther {
				t.Errorf("%s: the other row is current: %t", when, got)
			}
		})
	}
	w.batch(c, func(s *Session) {
		mine, other = w.add(s, 1), w.add(s, 2)
		if s.Fresh(time.Hour) {
			t.Error("fresh without a walk")
		}
	})
	check("made by us", true, true)
	w.clock.Advance(age)
	check("5 s later", true, true)
	w.clock.Advance(time.Millisecond)
	check("more than 5 s later", false, false)
	w.batch(c, func(s *Session) { w.set(s, status(mine, pipeline.Assigned)) })
	check("status written", true, false)
	w.clock.Advance(age + time.Second)
	w.batch(c, func(s *Session) {
		w.set(s, pipeline.Change{Row: mine, Cells: []pipeline.Cell{{Field: pipeline.FieldReason, Text: "x"}}})
	})
	check("another cell written", false, false)
	w.batch(c, func(s *Session) { w.walk(s) })
	check("walked", true, true)

	w.clock.Advance(time.Minute)
	w.person(other, w.status(pipeline.Pending))
	w.batch(c, func(s *Session) {
		w.walk(s)
		if s.Person(s.Row(mine)) != "" || s.Person(s.Row(other)) == "" {
			t.Error("who touched it last")
		}
	})
	check("a person touched the other, walked", true, true)
	w.clock.Advance(time.Second)
	check("a second later", true, true)
	w.clock.Advance(time.Millisecond)
	check("more than a second later", true, false)
	w.batch(c, func(s *Session) { w.set(s, status(other, pipeline.Assigned)) })
	check("written by us since", true, true)

	w.clock.Advance(-time.Hour)
	check("the clock was set back", false, false)
	w.clock.Advance(time.Hour)
	w.batch(c, func(s *Session) {
		w.Faults.Next(updateMethod, boardtest.ApplyThenReset())
		if err := s.Update(t.Context(), status(mine, pipeline.Blocked)); !pipeline.MaybeApplied(err) {
			t.Fatalf("error %v", err)
		}
	})
	check("a write that may have been applied", false, true)
	w.batch(c, func(s *Session) {
		if s.Current(&pipeline.Row{ID: "Rec0"}, age) {
			t.Error("a row that is not there is current")
		}
	})
}

// A person's edit on the embedded board makes all stale that is from before.
func TestEdited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	var row string
	fresh := func(when string, want bool) {
		t.Helper()
		w.batch(w.client(), func(s *Session) {
			if f, r := s.Fresh(time.Hour), s.Current(s.Row(row), time.Hour); f != want || r != want {
				t.Errorf("%s: fresh %t, current %t", when, f, r)
			}
		})
	}
	editedAt := func(at time.Time) {
		t.Helper()
		if err := TouchEdited(w.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(w.dir, "board", "edited"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	w.batch(c, func(s *Session) { row = w.add(s, 1); w.walk(s) })
	fresh("walked", true)
	editedAt(w.clock.Now().Add(-time.Second))
	fresh("edited before", true)
	editedAt(w.clock.Now().Add(-5 * time.Millisecond))
	fresh("edited within the grain of file times", false)
	editedAt(w.clock.Now().Add(time.Millisecond))
	fresh("edited since", false)
	w.clock.Advance(time.Second)
	w.batch(c, func(s *Session) { w.walk(s) })
	fresh("walked again", true)
}

// stalePage is a fault that answers with the page as it is now.
func (w *world) stalePage() boardtest.Fault {
	w.t.Helper()
	raw, err := json.Marshal(w.Must(w.t, listMethod, map[string]any{"list_id": w.ListID, "limit": 1000, "include_list": true}))
	if err != nil {
		w.t.Fatal(err)
	}
	return boardtest.Body("stale page", string(raw))
}

// A row that we made and that the board does not list yet stays, for as long
// as it may take.
func TestCreatedRowIsNotListedYet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lag, after time.Duration
		there      bool
	}{
		{10 * time.Second, 0, true}, {10 * time.Second, 9 * time.Second, true}, {10 * time.Second, 11 * time.Second, true},
		{20 * time.Second, 14 * time.Second, true}, {20 * time.Second, 16 * time.Second, false}, {20 * time.Second, 21 * time.Second, true},
	} {
		w := newWorld(t, func(o *boardtest.Options) { o.Quirks.VisibleAfter = c.lag })
		client := w.client()
		w.batch(client, func(s *Session) {
			w.walk(s)
			row := w.add(s, 1)
			w.clock.Advance(c.after)
			w.walk(s)
			if got := s.Row(row) != nil && s.TaskRow(1) != nil; got != c.there {
				t.Errorf("lag %v, walked after %v: there %t", c.lag, c.after, got)
			}
		})
	}
}

// A walk that shows the rows as they were before our own writes does not undo
// them in the snapshot.
func TestWalkLags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	w.batch(c, func(s *Session) {
		row := w.add(s, 1)
		w.clock.Advance(time.Minute)
		w.walk(s)
		var stale []boardtest.Fault
		for _, to := range []pipeline.Status{pipeline.Assigned, pipeline.InProgress, pipeline.Blocked} {
			stale = append(stale, w.stalePage())
			w.clock.Advance(time.Second)
			w.set(s, status(row, to))
		}
		for i, page := range stale {
			w.Faults.Next(listMethod, page)
			w.walk(s)
			if got := s.Row(row).Status; got != pipeline.Blocked {
				t.Errorf("the page before our write %d of 3 is believed: %s", i+1, got)
			}
			if s.Person(s.Row(row)) != "" {
				t.Error("our write counts as a person's")
			}
		}
		if !s.Current(s.Row(row), 5*time.Second) {
			t.Error("what we wrote this moment is not current")
		}
		w.clock.Advance(16 * time.Second)
		w.Faults.Next(listMethod, stale[0])
		w.walk(s)
		if got := s.Row(row).Status; got != pipeline.New {
			t.Errorf("long after our write, a walk is not believed: %s", got)
		}
		w.walk(s)
		if got := s.Row(row).Status; got != pipeline.Blocked {
			t.Errorf("status %s", got)
		}
	})
}

// A person's edit counts at once, also where it was made in the second of our
// own write.
func TestPersonsEditInTheSameSecond(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		pause time.Duration // between making the row, writing it, and the edit
		to    pipeline.Status
	}{
		{"all in one second", 0, pipeline.Pending},
		{"a second apart", time.Second, pipeline.Pending},
		{"sent back", time.Second, pipeline.New},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.batch(w.client(), func(s *Session) {
				row := w.add(s, 1)
				w.clock.Advance(c.pause)
				w.set(s, status(row, pipeline.Assigned))
				w.clock.Advance(c.pause)
				w.person(row, w.status(c.to), boardtest.TextCell(w.Column(t, "Title", "text"), "edited"))
				w.walk(s)
				if r := s.Row(row); r.Status != c.to || r.Title != "edited" || s.Person(r) == "" {
					t.Errorf("row %+v", r)
				}
			})
		})
	}
}

// Rows that people delete or archive are gone with the next walk, unless we
// have just written them: then they are gone by the board's word.
func TestRowsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) {
		deleted, archived := w.add(s, 1), w.add(s, 2)
		if err := w.Server.DeleteRow("", w.ListID, deleted); err != nil {
			t.Fatal(err)
		}
		if err := w.Server.ArchiveRow("", w.ListID, archived); err != nil {
			t.Fatal(err)
		}
		w.walk(s)
		if len(ids(s)) != 2 {
			t.Error("rows that we have just made are gone") // the walk may lag
		}
		last := s.Row(archived)
		if gone, err := s.IsGone(t.Context(), deleted); !gone || err != nil || s.Row(deleted) != nil || last.ID != archived {
			t.Errorf("by the board's word: gone %t, %v; rows %v", gone, err, ids(s))
		}
		w.clock.Advance(16 * time.Second)
		w.walk(s)
		if len(ids(s)) != 0 {
			t.Errorf("rows %v", ids(s))
		}
		if e := boardError(t, s.Update(t.Context(), status(deleted, pipeline.Done))); !e.RowGone || !pipeline.IsRefused(e) {
			t.Errorf("error %+v", e)
		}
	})
}
