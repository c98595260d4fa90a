package slacklist

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// TestDiskFailsAtEachPlace: wherever the disk refuses a batch once, no later one
// takes the snapshot for fresh where it is not what is on the board.
func TestDiskFailsAtEachPlace(t *testing.T) {
	t.Parallel()
	crashtest.EachPlace(t, syscall.EIO, "otm/slacklist", func(refuse crashtest.Refuse) {
		w := newWorld(t)
		var row, other string
		w.batch(w.client(), func(s *Session) {
			w.walk(s)
			row, other = w.add(s, 1), w.add(s, 3)
		})
		if err := TouchEdited(w.dir); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(time.Minute)
		used := w.client()
		refused, err := refuse(w.dir, func() error {
			s, err := used.begin(t.Context())
			if err != nil {
				return err
			}
			err = s.Refresh(t.Context(), 0)
			s.Current(s.Row(row), time.Hour)
			_, createErr := s.Create(t.Context(), "", taskCells(2)...)
			updateErr := s.Update(t.Context(), status(row, pipeline.Assigned))
			deleteErr := s.Delete(t.Context(), other)
			return errors.Join(err, createErr, updateErr, deleteErr, s.End())
		})
		for _, c := range []*Client{used, w.client()} {
			w.batch(c, func(s *Session) {
				fresh, had, was := s.Fresh(time.Hour), ids(s), s.Row(row)
				current := was != nil && s.Current(was, time.Hour)
				w.walk(s)
				if fresh && !slices.Equal(had, ids(s)) {
					t.Errorf("refused %q: %v; fresh, with rows %v, and there are %v", refused, err, had, ids(s))
				}
				if current && was.Status != s.Row(row).Status {
					t.Errorf("refused %q: %v; current, with %s, and it is %s", refused, err, was.Status, s.Row(row).Status)
				}
			})
		}
	})
}

// TestMarksRefused: where nobody can tell whether a batch crashed, or a person
// edited, nothing is fresh.
func TestMarksRefused(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"unsaved", "edited"} {
		w := newWorld(t)
		c := w.client()
		w.batch(c, func(s *Session) { w.walk(s) })
		crashtest.Below(t, w.dir+"/board/"+mark, func(step, _ string) error {
			if step == "stat" {
				return syscall.EIO
			}
			return nil
		})
		w.batch(c, func(s *Session) {
			if s.Fresh(time.Hour) {
				t.Errorf("%s cannot be looked at, and the snapshot is fresh", mark)
			}
		})
	}
}

// TestMarkNotMade: what cannot be marked as ahead of the snapshot is not written.
// The next write is marked, and where its batch crashes, nothing is fresh.
func TestMarkNotMade(t *testing.T) {
	t.Parallel()
	for method, do := range map[string]func(s *Session, row string) error{
		createMethod: func(s *Session, _ string) error {
			_, err := s.Create(t.Context(), "", taskCells(2)...)
			return err
		},
		updateMethod:                      func(s *Session, row string) error { return s.Update(t.Context(), status(row, pipeline.Done)) },
		"slackLists.items.deleteMultiple": func(s *Session, row string) error { return s.Delete(t.Context(), row) },
	} {
		w := newWorld(t)
		var row string
		w.batch(w.client(), func(s *Session) { row = w.add(s, 1); w.walk(s) })
		w.Faults.Reset()
		s, err := w.client().begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		refused := false
		crashtest.Below(t, w.dir+"/board", func(string, string) error {
			if refused {
				return nil
			}
			refused = true
			return syscall.EIO
		})
		if err := do(s, row); !errors.Is(err, syscall.EIO) || w.Faults.Count(method) != 0 {
			t.Errorf("%s: %v, %d calls", method, err, w.Faults.Count(method))
		}
		if err := do(s, row); err != nil || w.Faults.Count(method) != 1 {
			t.Errorf("%s: %v, %d calls", method, err, w.Faults.Count(method))
		}
		s.lock.Release() // as a crash does
		w.batch(w.client(), func(s *Session) {
			if s.Fresh(time.Hour) {
				t.Errorf("%s: the snapshot is fresh, and the board ahead of it", method)
			}
		})
	}
}
