package task

import (
	"os"
	"strings"
	"testing"
	"time"

	"otm/pipeline"
)

// A record is seen as it is, whoever wrote it, however often it was read.
func TestLoadSeesWhatOthersWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours, theirs := Open(dir, nil), Open(dir, nil)
	title := func(s *Store) string {
		t.Helper()
		r, err := s.Load(1)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Title
		r.Title, r.Steps = "spoilt by the caller", append(r.Steps, pipeline.StepRecord{})
		return got
	}
	set := func(s *Store, text string) {
		t.Helper()
		if _, err := s.Change(t.Context(), 1, func(r *pipeline.Record) error {
			r.Title = text
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"aaaa", "bbbb", "cccc"} { // of one size
		set(theirs, text)
		for _, settled := range []bool{false, true} {
			if settled {
				time.Sleep(restless + 10*time.Millisecond) // until it counts as written long ago
			}
			for range 3 {
				if got := title(ours); got != text {
					t.Errorf("settled %t: %q, want %q", settled, got, text)
				}
			}
		}
		if _, kept := ours.records[1]; !kept {
			t.Error("it is not kept")
		}
		set(ours, strings.ToUpper(text))
		if got := title(ours); got != strings.ToUpper(text) {
			t.Errorf("after our own write: %q", got)
		}
	}
	if err := os.Remove(ours.recordPath(1)); err != nil {
		t.Fatal(err)
	}
	if r, err := ours.Load(1); err == nil {
		t.Errorf("it was removed, and read as %+v", r)
	}
}

// What was written a moment ago may be written again within the grain of the
// file's time: it is not kept.
func TestRestlessFileIsNotKept(t *testing.T) {
	t.Parallel()
	s := Open(t.TempDir(), nil)
	if _, err := s.Change(t.Context(), 1, func(*pipeline.Record) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(1); err != nil {
		t.Fatal(err)
	}
	if len(s.records) != 0 {
		t.Error("it is kept")
	}
}

// BenchmarkLoad is what a pass pays for each task.
func BenchmarkLoad(b *testing.B) {
	s := Open(b.TempDir(), nil)
	if _, err := s.Change(b.Context(), 1, func(r *pipeline.Record) error {
		r.Steps = make([]pipeline.StepRecord, 3)
		for range 20 {
			r.Note(time.Now(), "otm-injector", "status", "new to assigned")
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	time.Sleep(2 * restless)
	for b.Loop() {
		if _, err := s.Load(1); err != nil {
			b.Fatal(err)
		}
	}
}
