package task

import (
	"path/filepath"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// refusable is a store of two records, and a create.
func refusable(t *testing.T) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	s := Open(dir, nil)
	for _, id := range []pipeline.TaskID{1, 2} {
		if _, err := s.Change(t.Context(), id, func(r *pipeline.Record) error { r.Title = "as it was"; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "new-tasks", "3.json"), `{"id":"d3","taskId":"T-00003","title":"A","agent":"a"}`)
	return s, dir
}

// TestStoreWhereTheDiskFails: at whichever step the disk refuses, that is told,
// and done again it comes to the same as if nothing had failed.
func TestStoreWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	change := func(dir string) error {
		_, err := Open(dir, nil).Change(t.Context(), 2, func(r *pipeline.Record) error {
			r.Title += ", changed"
			return nil
		})
		return err
	}
	titled := func(want ...string) func(*Store) bool {
		return func(s *Store) bool {
			r, err := s.Load(2)
			for _, title := range want {
				if err == nil && r.Title == title {
					return true
				}
			}
			return false
		}
	}
	always := func(*Store) bool { return true }
	for name, c := range map[string]struct {
		before map[string]string
		do     func(dir string) error
		after  func(*Store) bool
	}{
		// What failed may have been written: then it is changed twice here.
		"change":  {nil, change, titled("as it was, changed", "as it was, changed, changed")},
		"damaged": {map[string]string{"tasks/T-00002.json": "{", "tasks/T-00002.json.corrupt-1": "{"}, change, titled(", changed", ", changed, changed")},
		"load":    {nil, func(dir string) error { _, err := Open(dir, nil).Load(1); return err }, always},
		"ids":     {nil, func(dir string) error { _, err := Open(dir, nil).IDs(); return err }, always},
		"drops":   {nil, func(dir string) error { _, err := Open(dir, nil).Drops(); return err }, always},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
				s, dir := refusable(t)
				for name, text := range c.before {
					write(t, filepath.Join(dir, name), text)
				}
				refusal, err := refuse(dir, func() error { return c.do(dir) })
				refusal.Told(t, err, refusal.Of("write", "locks/")) // what stands there is for people, or a copy
				if refusal.Came() {
					if err := c.do(dir); err != nil {
						t.Fatalf("refused %q; again: %v", refusal, err)
					}
				}
				if !c.after(s) {
					t.Errorf("refused %q: in the end it is not as it should be", refusal)
				}
			})
		})
	}
}
