package task

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"otm/pipeline"
)

// create makes a record.
func create(t *testing.T, s *Store, id pipeline.TaskID) *pipeline.Record {
	t.Helper()
	r, err := s.Change(t.Context(), id, func(r *pipeline.Record) error {
		r.Title = "Build it"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestChange(t *testing.T) {
	t.Parallel()
	s, warned := fresh(t) // tasks/ is missing and is made
	if _, err := s.Load(35); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load of no record: %v, want fs.ErrNotExist", err)
	}
	made, err := s.Change(t.Context(), 35, func(r *pipeline.Record) error {
		if want := (&pipeline.Record{TaskID: 35}); !reflect.DeepEqual(r, want) {
			t.Errorf("where there is none, f gets %+v", r)
		}
		r.Title, r.Agent = "Build <it>", "devdas"
		return nil
	})
	if err != nil || made.Title != "Build <it>" {
		t.Fatalf("Change = %+v, %v", made, err)
	}
	got, err := s.Load(35)
	if err != nil || !reflect.DeepEqual(got, made) {
		t.Errorf("Load = %+v, %v; want %+v", got, err, made)
	}
	changed, err := s.Change(t.Context(), 35, func(r *pipeline.Record) error {
		if r.Agent != "devdas" {
			t.Errorf("f gets %+v, want what stands in the file", r)
		}
		r.Agent = "archibald"
		return nil
	})
	if err != nil || changed.Agent != "archibald" {
		t.Errorf("Change = %+v, %v", changed, err)
	}
	for path, want := range map[string]fs.FileMode{"tasks": fs.ModeDir | 0o700, "tasks/T-00035.json": 0o600, "locks/task-T-00035": 0o600} {
		if info, err := os.Stat(filepath.Join(s.dir, path)); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	if len(warned.list) > 0 {
		t.Errorf("warnings: %q", warned.list)
	}
}

func TestChangeWritesNothing(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	r, err := s.Change(t.Context(), 35, func(*pipeline.Record) error { return pipeline.ErrUnchanged })
	if err != nil || r.TaskID != 35 {
		t.Errorf("Change = %+v, %v; want an empty record", r, err)
	}
	if _, err := os.Stat(s.recordPath(35)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ErrUnchanged wrote a record: %v", err)
	}
	create(t, s, 35)
	before, _ := os.Stat(s.recordPath(35))
	r, err = s.Change(t.Context(), 35, func(r *pipeline.Record) error {
		r.Title = "not kept"
		return fmt.Errorf("wrapped: %w", pipeline.ErrUnchanged)
	})
	if err != nil || r == nil {
		t.Errorf("Change = %+v, %v", r, err)
	}
	if after, _ := os.Stat(s.recordPath(35)); !os.SameFile(before, after) {
		t.Error("ErrUnchanged replaced the file")
	}
	no := errors.New("no")
	if r, err := s.Change(t.Context(), 35, func(*pipeline.Record) error { return no }); !errors.Is(err, no) || r != nil {
		t.Errorf("Change with an error = %+v, %v; want it passed on", r, err)
	}
	if after, _ := os.Stat(s.recordPath(35)); !os.SameFile(before, after) {
		t.Error("an error replaced the file")
	}
}

// TestConcurrentChanges has many change one record: none of it is lost.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	const n, times = 16, 5
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for range times {
				if _, err := s.Change(t.Context(), 35, func(r *pipeline.Record) error { r.Attempt++; return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if r, err := s.Load(35); err != nil || r.Attempt != n*times {
		t.Errorf("after %d changes the record counts %d, %v", n*times, r.Attempt, err)
	}
}

// TestCaseB20CorruptRecord sets aside what cannot be read, with its bytes, and goes on.
func TestCaseB20CorruptRecord(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "\x00\x00\x00", `{"taskId":"T-00035","title":"Bu`, "[]", `{"taskId":"T-00036"}`, "{}", "null", `{"taskId":35}`} {
		s, warned := fresh(t)
		write(t, s.recordPath(35), content)
		_, err := s.Load(35)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Path != s.recordPath(35) {
			t.Errorf("Load of %q: %v, want a *CorruptError", content, err)
		}
		r := create(t, s, 35)
		if r.Title != "Build it" {
			t.Errorf("Change over %q = %+v", content, r)
		}
		aside, err := filepath.Glob(s.recordPath(35) + ".corrupt-*")
		if err != nil || len(aside) != 1 {
			t.Fatalf("over %q: set aside are %q, %v", content, aside, err)
		}
		if data, err := os.ReadFile(aside[0]); string(data) != content || err != nil {
			t.Errorf("set aside is %q, %v; want %q", data, err, content)
		}
		if len(warned.list) != 1 || !strings.Contains(warned.list[0], filepath.Base(aside[0])) {
			t.Errorf("over %q: warnings %q, want one that names the file", content, warned.list)
		}
		if ids, err := s.IDs(); !reflect.DeepEqual(ids, []pipeline.TaskID{35}) || err != nil {
			t.Errorf("over %q: IDs = %v, %v", content, ids, err)
		}
		// Another one stands beside the first; the same once more is kept once (C48).
		write(t, s.recordPath(35), content+"?")
		create(t, s, 35)
		write(t, s.recordPath(35), content)
		create(t, s, 35)
		if aside, err := filepath.Glob(s.recordPath(35) + ".corrupt-*"); err != nil || len(aside) != 2 {
			t.Errorf("over %q again: set aside are %q, %v", content, aside, err)
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	if ids, err := s.IDs(); len(ids) > 0 || err != nil {
		t.Errorf("IDs of nothing = %v, %v", ids, err)
	}
	for _, id := range []pipeline.TaskID{100000, 35, 99999, 1} {
		create(t, s, id)
	}
	for _, name := range []string{"T-35.json", "T-000036.json", "T-00037.json.corrupt-1", "T-00038", "x.json", ".otm-tmp-1", "T-00000.json"} {
		write(t, filepath.Join(s.dir, "tasks", name), "{}")
	}
	if ids, err := s.IDs(); !reflect.DeepEqual(ids, []pipeline.TaskID{1, 35, 99999, 100000}) || err != nil {
		t.Errorf("IDs = %v, %v", ids, err)
	}
}

// TestRecordCrashes dies before and after a record is written: it is the old
// one or the new one.
func TestRecordCrashes(t *testing.T) {
	for point, want := range map[string]string{"record.before": "Build it", "durable.named": "Build it", "record.after": "Build more"} {
		s, warned := fresh(t)
		create(t, s, 35)
		crashAt(t, point, func() {
			s.Change(t.Context(), 35, func(r *pipeline.Record) error { r.Title = "Build more"; return nil })
		})
		if r, err := s.Load(35); err != nil || r.Title != want {
			t.Errorf("after a crash at %s: %+v, %v; want %q", point, r, err, want)
		}
		create(t, s, 35) // the lock is free
		if len(warned.list) > 0 {
			t.Errorf("after a crash at %s: warnings %q", point, warned.list)
		}
	}
}

// TestStoreIsRecords holds the store against what others take it for.
func TestStoreIsRecords(t *testing.T) {
	t.Parallel()
	var _ pipeline.Records = &Store{}
}
