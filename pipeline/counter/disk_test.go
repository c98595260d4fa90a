package counter

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// refusable is a counter with one file of each kind, for the ids up to 6.
func refusable(t *testing.T) (*Dir, string) {
	t.Helper()
	dir := t.TempDir()
	s := Open(dir, nil)
	for name, text := range map[string]string{
		"tasks/T-00001.json": "{}", "tasks/T-00002.json": "{}",
		"new-tasks/3.json": `{"id":"d3","taskId":"T-00003","title":"A","agent":"a"}`, "processed/4.json": `{"id":"d4","taskId":"T-00004","title":"A","agent":"a"}`,
		"keys/5.json": `{"key":"k","taskId":"T-00005"}`,
	} {
		write(t, filepath.Join(dir, name), text)
	}
	return s, dir
}

// TestIDsWhereTheDiskFails: at whichever step of taking an id the disk refuses,
// that is told, and no id that something stands for is given out, then or after.
func TestIDsWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	for name, counter := range map[string]string{"counter": `{"next":7}`, "no counter": "", "damaged": "{", "behind a record": `{"next":2}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
				s, dir := refusable(t)
				if counter != "" {
					write(t, filepath.Join(dir, counterFile), counter)
				}
				first := pipeline.TaskID(0)
				refusal, err := refuse(dir, func() (err error) {
					first, err = takeOne(t.Context(), s)
					return err
				})
				refusal.Told(t, err, refusal.Of("write", "locks/")) // what stands there is for people, or a copy
				next, err := takeOne(t.Context(), s)
				if err != nil || next <= max(5, first) {
					t.Errorf("refused %q: gave out %v, and then %v, %v", refusal, first, next, err)
				}
			})
		})
	}
}

// TestCounterWhereTheDiskFails: at whichever step the disk refuses, that is told, and
// done again it comes to the same as if nothing had failed.
func TestCounterWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	always := func(*Dir) bool { return true }
	for name, c := range map[string]struct {
		before map[string]string
		do     func(dir string) error
		after  func(*Dir) bool
	}{
		"waiting": {nil, func(dir string) error { _, err := Open(dir, nil).InInbox(4); return err }, always},
		"issued":  {map[string]string{counterFile: `{"next":7}`}, func(dir string) error { _, err := Open(dir, nil).Issued(3); return err }, always},
		"raise": {map[string]string{counterFile: `{"next":7}`}, func(dir string) error {
			c, err := Open(dir, nil).Counter(t.Context())
			if err != nil {
				return err
			}
			defer c.Release()
			return c.Raise(9)
		}, func(s *Dir) bool {
			next, err := s.Stored()
			return next == 10 && err == nil
		}},
		"key": {nil, func(dir string) error {
			c, err := Open(dir, nil).Counter(t.Context())
			if err != nil {
				return err
			}
			defer c.Release()
			if k, err := c.LookupKey("key"); k != nil || err != nil {
				return err
			}
			return c.SaveKey(&Key{Key: "key", TaskID: 5, Drop: json.RawMessage(`{}`)})
		}, func(s *Dir) bool {
			c, err := s.Counter(t.Context())
			if err != nil {
				return false
			}
			defer c.Release()
			k, err := c.LookupKey("key")
			return err == nil && k != nil && k.TaskID == 5 && string(k.Drop) == "{}"
		}},
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

// TestDropsOfOthers: files that vanish while they are looked at, and files that may not
// be read, keep nobody from the ids of the rest.
func TestDropsOfOthers(t *testing.T) {
	t.Parallel()
	s, dir := refusable(t)
	for _, name := range []string{"gone.json", "locked.json"} {
		write(t, filepath.Join(dir, "processed", name), `{"id":"d9","taskId":"T-00009"}`)
	}
	if err := os.Symlink("4.json", filepath.Join(dir, "processed", "link.json")); err != nil {
		t.Fatal(err)
	}
	crashtest.Below(t, dir, func(step, path string) error {
		switch {
		case step == "read" && filepath.Base(path) == "gone.json":
			return os.Remove(path)
		case step == "read" && filepath.Base(path) == "locked.json":
			return syscall.EACCES
		}
		return nil
	})
	used, err := s.UsedIDs()
	slices.Sort(used)
	if err != nil || !slices.Equal(used, []pipeline.TaskID{1, 2, 3, 4, 5}) {
		t.Errorf("used ids %v, %v", used, err)
	}
}
