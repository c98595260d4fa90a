package inbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/internal/crash/crashtest"
	"otm/internal/durable"
	"otm/pipeline/drop"
)

// TestDiskFailsAtEachStep: whatever is done with a drop, and at whichever step
// the disk refuses, that is told, and done again the drop stands in one place,
// once.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	settle := func(class Class, text string) func(*testing.T, *Box) (func() error, string) {
		return func(t *testing.T, b *Box) (func() error, string) {
			write(t, filepath.Join(b.Dir(NewTasks), "a.json"), text)
			dir := ProcessedDir
			if class != "" {
				dir = FailedDir
			}
			return func() error {
				files, err := b.List(NewTasks)
				if err != nil || len(files) == 0 {
					return err
				}
				data, f, err := b.Read(files[0])
				if err != nil {
					return err
				}
				if done, err := b.Leftover(f, data); done || err != nil {
					return err
				}
				_, err = settleOne(b, f, data, Result{At: at, Inbox: NewTasks, Class: class, Error: "why"})
				return err
			}, dir
		}
	}
	retry := func(text string, edit func(*drop.Object) error) func(*testing.T, *Box) (func() error, string) {
		return func(t *testing.T, b *Box) (func() error, string) {
			failed(t, b, NewTasks, "a.json", text)
			return func() error {
				_, _, err := b.Retry("a.json", edit)
				if errors.Is(err, fs.ErrNotExist) {
					return nil // it is back already
				}
				return err
			}, string(NewTasks)
		}
	}
	// begun is what is done after it has failed once, at a step on a file.
	begun := func(step, file string, prepare func(*testing.T, *Box) (func() error, string)) func(*testing.T, *Box) (func() error, string) {
		return func(t *testing.T, b *Box) (func() error, string) {
			do, want := prepare(t, b)
			failed := false
			crashtest.Below(t, b.dir, func(s, path string) error {
				if failed || s != step || !strings.Contains(path, file) {
					return nil
				}
				failed = true
				return syscall.EIO
			})
			if err := do(); !errors.Is(err, syscall.EIO) {
				t.Fatalf("%s of %s refused: %v", step, file, err)
			}
			return do, want
		}
	}
	renumber := func(o *drop.Object) error { return o.Set("taskId", "T-00007") }
	for name, prepare := range map[string]func(*testing.T, *Box) (func() error, string){
		"processed": settle("", `{"id":"d1"}`), "failed": settle(Invalid, `{"id":"d1"}`), "no JSON": settle(Invalid, "no JSON"),
		"retry": retry(`{"id":"d1"}`, nil), "retry, edited": retry(`{"id":"d1"}`, renumber), "retry, no JSON": retry("no JSON", nil),
		"copied": begun("rename", takenMark, settle("", `{"id":"d1"}`)), "taken": begun("remove", takenMark, settle("", `{"id":"d1"}`)),
		"failed, copied": begun("rename", takenMark, settle(Invalid, `{"id":"d1"}`)), "explained": begun("rename", FailedDir+"/a.json.error", settle(Invalid, "no JSON")),
		"claimed": begun("rename", string(NewTasks)+"/", retry(`{"id":"d1"}`, nil)), "put away": begun("rename", string(NewTasks)+"/a.json", retry("no JSON", nil)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.Each(t, syscall.ENOSPC, func(refuse crashtest.Refuse) {
				b := box(t)
				do, want := prepare(t, b)
				refusal, err := refuse(b.dir, do)
				refusal.Told(t, err, false)
				for range 2 { // the second, as after a restart
					if again := do(); again != nil {
						t.Fatalf("refused %q: %v; again: %v", refusal, err, again)
					}
				}
				places := map[string]int{}
				for _, dir := range []string{string(NewTasks), ProcessedDir, FailedDir} {
					for _, file := range names(t, filepath.Join(b.dir, dir)) {
						if Delivered(file) && !strings.HasSuffix(file, ExplainSuffix) {
							places[dir]++
						}
					}
				}
				if len(places) != 1 || places[want] != 1 {
					t.Fatalf("refused %q: %v; in the end it stands in %v, want once in %s", refusal, err, places, want)
				}
			})
		})
	}
}

// TestDiskFailsWhilePruning: what could not be looked at stays, what could not be
// removed is told, and all goes the next time.
func TestDiskFailsWhilePruning(t *testing.T) {
	t.Parallel()
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		b := box(t)
		for name, age := range map[string]time.Duration{"a.json": 5, "b.json": 5, "y1.json": 3, "y2.json": 1} { // hours
			f, data := deliver(t, b, NewTasks, name, `{"id":"d1"}`)
			if _, err := settleOne(b, f, data, Result{At: at}); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(b.dir, ProcessedDir, name), time.Time{}, at.Add((5-age)*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		pruned := 0
		refused, err := refuse(b.dir, func() (err error) {
			pruned, err = b.Prune(at.Add(5*time.Hour), 4*time.Hour)
			return err
		})
		refused.Told(t, err, refused.Of("lstat", ProcessedDir) || refused.Of("read", ProcessedDir+"/"))
		again, err := b.Prune(at.Add(5*time.Hour), 4*time.Hour)
		if err != nil || pruned+again != 2 || len(names(t, filepath.Join(b.dir, ProcessedDir))) != 2 {
			t.Errorf("refused %q: pruned %d, then %d, %v", refused, pruned, again, err)
		}
	})
}

// moment has something happen at a step on a file, the nth time.
func moment(t *testing.T, b *Box, step, path string, nth int, happens func() error) {
	crashtest.Below(t, b.dir, func(s, p string) error {
		if s != step || p != filepath.Join(b.dir, path) {
			return nil
		}
		if nth--; nth != 0 {
			return nil
		}
		return happens()
	})
}

// TestVanishes: what others take away at any moment is not there, and no failure.
func TestVanishes(t *testing.T) {
	t.Parallel()
	b := box(t)
	here := filepath.Join(b.Dir(NewTasks), "a.json")
	vanishes := func() error { return os.Remove(here) }
	write(t, here, "")
	moment(t, b, "lstat", "new-tasks/a.json", 1, vanishes)
	if files, err := b.List(NewTasks); len(files) != 0 || err != nil {
		t.Errorf("List = %v, %v", files, err)
	}
	// Settled, and taken away when it is unlinked.
	f, data := deliver(t, b, NewTasks, "a.json", `{"id":"d1"}`)
	crashtest.Below(t, b.dir, func(step, path string) error {
		if step == "rename" && strings.Contains(path, takenMark) {
			return vanishes()
		}
		return nil
	})
	if name, err := settleOne(b, f, data, Result{At: at}); name != "a.json" || err != nil {
		t.Errorf("Settle = %q, %v", name, err)
	}
	// Settled, and put away while it is looked for.
	here = filepath.Join(b.dir, ProcessedDir, "a.json")
	moment(t, b, "read", "processed/a.json", 2, vanishes)
	if r, settled, err := b.Find(NewTasks, "a.json", data); settled || err != nil {
		t.Errorf("Find = %+v, %v, %v", r, settled, err)
	}
}

// TestC31ModeOfOtherFiles: an agent swaps its unreadable drop for a link while
// the injector makes it readable. Only the mode of a file of ours in the inbox
// may change, never that of what a link or a second name leads to.
func TestC31ModeOfOtherFiles(t *testing.T) {
	t.Parallel()
	for name, swap := range map[string]func(outside, path string) error{"link": os.Symlink, "hard link": os.Link} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := box(t)
			outside := filepath.Join(t.TempDir(), "outside")
			write(t, outside, "secret")
			f, _ := deliver(t, b, NewTasks, "a.json", `{"id":"d1"}`)
			if err := os.Chmod(outside, 0o440); err != nil {
				t.Fatal(err)
			}
			moment(t, b, "read", "new-tasks/a.json", 1, func() error {
				return errors.Join(os.Remove(b.path(f)), swap(outside, b.path(f)), syscall.EACCES)
			})
			if _, _, err := b.Read(f); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("Read: %v", err)
			}
			if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o440 {
				t.Errorf("the file outside has mode %v, %v", info.Mode(), err)
			}
		})
	}
}

// TestMayNotRead: a drop of ours is made readable, and what stands in its
// settled place and may not be read is somebody else's.
func TestMayNotRead(t *testing.T) {
	t.Parallel()
	b := box(t)
	f, want := deliver(t, b, NewTasks, "a.json", `{"id":"d1"}`)
	if runtime.GOOS != "linux" {
		t.Skip("needs O_PATH")
	}
	if err := os.Chmod(b.path(f), 0o040); err != nil {
		t.Fatal(err)
	}
	moment(t, b, "read", "new-tasks/a.json", 1, func() error { return syscall.EACCES }) // root may read all
	data, f, err := b.Read(f)
	if err != nil || string(data) != string(want) || f.Info.Mode().Perm() != durable.FileMode {
		t.Errorf("Read = %q, mode %v, %v", data, f.Info.Mode(), err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(b.dir, ProcessedDir), 0o700), os.WriteFile(filepath.Join(b.dir, ProcessedDir, "a.json"), data, 0o600)); err != nil {
		t.Fatal(err)
	}
	taken := takenName("b.json")
	write(t, filepath.Join(b.Dir(NewTasks), taken), `{"id":"d2"}`)
	crashtest.Below(t, b.dir, func(step, path string) error {
		if step == "read" && path == filepath.Join(b.dir, ProcessedDir, "a.json") {
			return syscall.EACCES
		}
		return nil
	})
	if leftover, err := b.Leftover(f, data); leftover || err != nil {
		t.Errorf("Leftover = %t, %v", leftover, err)
	}
	if name, err := settleOne(b, f, data, Result{At: at}); name != "a-2.json" || err != nil {
		t.Errorf("Settle = %q, %v", name, err)
	}
	left, want := only(t, b, NewTasks)
	if leftover, err := b.Leftover(left, want); left.Name != "b.json" || leftover || err != nil {
		t.Errorf("Leftover of %q = %t, %v", left.Name, leftover, err)
	}
}
