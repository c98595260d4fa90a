package inject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// Trouble with our own files ends the sweep where it would meet the next file
// as well, and else keeps the one that met it.
func TestOwnTrouble(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		ends bool
	}{
		{syscall.ENOSPC, true}, {syscall.EDQUOT, true}, {syscall.EIO, true}, {syscall.EROFS, true},
		{syscall.EMFILE, true}, {syscall.ENFILE, true}, {syscall.ENOMEM, true},
		{syscall.EACCES, false}, {syscall.EPERM, false}, {syscall.EISDIR, false}, {syscall.ENOTDIR, false},
	} {
		for _, err := range []error{&fs.PathError{Op: "open", Path: "x", Err: c.err}, &os.LinkError{Op: "rename", Err: c.err}} {
			v := ownTrouble(fmt.Errorf("settle: %w", err))
			if v.result != nil || (v.stop != nil) != c.ends || (v.kept == "") != c.ends {
				t.Errorf("%v: %+v", err, v)
			}
		}
	}
	for _, err := range []error{context.Canceled, fmt.Errorf("walk: %w", context.DeadlineExceeded)} {
		if v := ownTrouble(err); v.stop == nil {
			t.Errorf("%v concerns all files: %+v", err, v)
		}
	}
}

// C29: an error of a kind that nobody thought of, as of a parser, concerns the file
// that met it. It ended every sweep for all.
func TestC29UnknownErrorConcernsItsFile(t *testing.T) {
	t.Parallel()
	for _, err := range []error{json.Unmarshal([]byte("{"), new(int)), errors.New("unheard of"), strconv.ErrRange} {
		v := ownTrouble(fmt.Errorf("settle: %w", err))
		if v.stop != nil || !strings.Contains(v.kept, err.Error()) {
			t.Errorf("%v: %+v", err, v)
		}
	}
}

// block puts a file in the place of a directory, and free takes it away.
func (w *world) block(dir string) (free func()) {
	w.t.Helper()
	path := filepath.Join(w.dir, dir)
	if err := os.Rename(path, path+".away"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		w.t.Helper()
		err := os.Remove(path)
		if rerr := os.Rename(path+".away", path); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// Drops that cannot be settled stay, with their effect, and are settled when
// they can be: nothing is made twice, nobody is held up.
func TestSettlingInTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x", "y")
	w.sweepTo(1, 0, 0)
	free := w.block("failed")
	bad := w.update(1, report{steps: []string{"nonsense"}})
	next := w.update(1, report{steps: []string{"x"}})
	created := w.create(2, "A")
	r := w.sweepTo(2, 0, 1)
	if len(r.Kept) != 1 || !strings.Contains(r.Kept[0], "settle \""+bad) || r.Trouble != nil {
		t.Errorf("report %+v", r)
	}
	w.processed(created)
	free()
	w.sweepTo(0, 1, 0)
	w.failed(bad, inbox.Unmatched, "nonsense")
	w.processed(next)
	failures := 0
	for _, e := range w.eventsOf(1) {
		if _, failed := e.Data.(core.ReportFailed); failed {
			failures++
		}
	}
	if failures != 1 {
		t.Errorf("%d events say that it failed", failures)
	}

	free = w.block("processed")
	created = w.create(3, "B", "x")
	done := w.update(1, report{steps: []string{"y"}})
	if r := w.sweepTo(0, 0, 2); len(r.Kept) != 2 || r.Trouble != nil {
		t.Errorf("report %+v", r)
	}
	free()
	w.restart()
	w.sweepTo(2, 0, 0)
	w.checkTask(3, "B", "x")
	for _, name := range []string{created, done} {
		if r := w.processed(name); r.SkippedDuplicate || r.SlackItemID == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A rendering that cannot be written keeps what concerns its task, and nothing else.
func TestRenderingInTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(w.dir, "tasks", "T-00001.json")
	if err := os.MkdirAll(filepath.Join(path, "not empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.create(1, "A")
	w.create(2, "B")
	if r := w.sweepTo(1, 0, 1); r.Due.IsZero() {
		t.Errorf("report %+v", r)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	w.sweepTo(1, 0, 0)
	w.checkTask(1, "A", pipeline.DefaultStep)
}

// The data directory has gone: that is the one error of a sweep, and nothing
// makes it again.
func TestDataDirectoryGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A")
	if err := os.Rename(w.dir, w.dir+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.in.Sweep(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Sweep: %v, want fs.ErrNotExist", err)
	}
	if exists(t, w.dir) {
		t.Error("it was made")
	}
	if err := os.Rename(w.dir+".away", w.dir); err != nil {
		t.Fatal(err)
	}
	w.sweepTo(1, 0, 0)
}

// A file that was changed since it was read is not settled, and counts as
// nothing.
func TestChangedFileIsNotSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(inbox.NewTasks, "a.json", []byte("no JSON"))
	files, err := w.box.List(inbox.NewTasks)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	whole := w.drop("devdas", 1, "A").Encode()
	if err := os.WriteFile(filepath.Join(w.box.Dir(inbox.NewTasks), "a.json"), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	sw := newSweep(w.in)
	settled, err := sw.finish(t.Context(), &waiting{file: files[0], data: []byte("no JSON"), verdict: fail(inbox.Invalid, "", "e")})
	if settled != 0 || err != nil || len(sw.report.Failed) != 0 || strings.Contains(w.log.String(), "drop failed") {
		t.Errorf("settled %d, %v; report %+v; log:\n%s", settled, err, sw.report, w.log)
	}
	w.sweepTo(1, 0, 0)
}

// Looks are counted a file, not a name, and only while it is there.
func TestLooksAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 5 {
		name := fmt.Sprint(i, ".json")
		w.put(inbox.NewTasks, name, []byte("{"))
		w.put(inbox.TaskUpdates, name, []byte("{"))
		w.age(inbox.NewTasks, name, 0)
		w.age(inbox.TaskUpdates, name, 0)
	}
	w.sweepTo(0, 0, 10)
	if n := len(w.in.known); n != 10 {
		t.Errorf("looks at %d files are known, want 10", n)
	}
	if err := os.Remove(filepath.Join(w.box.Dir(inbox.NewTasks), "0.json")); err != nil {
		t.Fatal(err)
	}
	w.sweepTo(0, 0, 9)
	if n := len(w.in.known); n != 9 {
		t.Errorf("looks at %d files are known, want 9: one was taken back", n)
	}
	w.clock.Advance(time.Minute)
	w.sweepTo(0, 9, 0)
	if n := len(w.in.known); n != 0 {
		t.Errorf("looks at %d files are known, want none", n)
	}
	if r := w.failed("1.json", inbox.Invalid); r.Attempts != 3 {
		t.Errorf("%d attempts, want 3", r.Attempts)
	}
}

// A drop that came at the moment when the one of its name was settled, and a
// crash left it out of the way, is found by the next sweep.
func TestTakenFileIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(inbox.NewTasks, "task-otm-taken-0123456789abcdef.json", w.drop("devdas", 1, "A").Encode())
	w.sweepTo(1, 0, 0)
	w.checkTask(1, "A", pipeline.DefaultStep)
	if got := w.settled(inbox.ProcessedDir); !slices.Equal(got, []string{"task.json"}) {
		t.Errorf("processed %v", got)
	}
}

// A drop waits while nobody can tell whether it was processed before.
func TestProcessedNotReadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x")
	w.sweepTo(1, 0, 0)
	rows := len(w.rows())
	w.restart()
	free := w.block("processed")
	w.create(2, "B", "y")
	if r := w.sweepTo(0, 0, 1); len(r.Kept) != 1 || !strings.Contains(r.Kept[0], "look for what was processed") || r.Trouble != nil {
		t.Errorf("report %+v", r)
	}
	if n := len(w.rows()); n != rows {
		t.Errorf("%d rows, want %d", n, rows)
	}
	free()
	w.sweepTo(1, 0, 0)
	w.checkTask(2, "B", "y")
}
