package inbox

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
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
				if err := b.PutBack(NewTasks); err != nil {
					return err
				}
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
				_, err = b.Settle(f, data, Result{At: at, Inbox: NewTasks, Class: class, Error: "why"})
				return err
			}, dir
		}
	}
	retry := func(text string, edit func(*drop.Object) error) func(*testing.T, *Box) (func() error, string) {
		return func(t *testing.T, b *Box) (func() error, string) {
			failed(t, b, NewTasks, "a.json", text)
			return func() error {
				_, _, err := b.Retry("a.json", "", edit)
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
		"copied": begun("rename", takenPrefix, settle("", `{"id":"d1"}`)), "taken": begun("remove", takenPrefix, settle("", `{"id":"d1"}`)),
		"failed, copied": begun("rename", takenPrefix, settle(Invalid, `{"id":"d1"}`)), "explained": begun("rename", FailedDir+"/a.json.error", settle(Invalid, "no JSON")),
		"claimed": begun("rename", string(NewTasks)+"/", retry(`{"id":"d1"}`, nil)), "put away": begun("rename", string(NewTasks)+"/a.json", retry("no JSON", nil)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.Each(t, syscall.ENOSPC, func(refuse crashtest.Refuse) {
				b := box(t)
				do, want := prepare(t, b)
				refusal, err := refuse(b.dir, do)
				refusal.Told(t, err, refusal.Of("remove", claims)) // of what explains nothing any more
				for range 2 {                                      // the second, as after a restart
					if again := do(); again != nil {
						t.Fatalf("refused %q: %v; again: %v", refusal, err, again)
					}
				}
				places := map[string]int{}
				for _, dir := range []string{string(NewTasks), ProcessedDir, FailedDir, filepath.Join(FailedDir, claims, string(NewTasks))} {
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
