package inject

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"otm/core/store/storetest"
	"otm/internal/crash/crashtest"
	"otm/internal/sqlite"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// smallDisk makes the world's directory a small file system of its own.
func (w *world) smallDisk() {
	w.t.Helper()
	if err := syscall.Mount("otm-test", w.dir, "tmpfs", 0, "size=2m"); err != nil {
		w.t.Skipf("needs to mount a file system, as root may: %v", err)
	}
	w.t.Cleanup(func() {
		if err := syscall.Unmount(w.dir, syscall.MNT_DETACH); err != nil {
			w.t.Errorf("unmount %s: %v", w.dir, err)
		}
	})
}

// fill leaves no byte free; drain takes back what it took.
func (w *world) fill() {
	w.t.Helper()
	f, err := os.Create(filepath.Join(w.dir, "filler"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		w.t.Fatal(err)
	}
}

func (w *world) drain() {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, "filler")); err != nil {
		w.t.Fatal(err)
	}
}

// isFull reports whether an error says that our disk is full.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, sqlite.ErrFull) }

// TestFullDisk fills our disk before the first row is made, and right before
// each of them, so that the store cannot note the effects. The
// sweep ends and says when to come back; nothing is lost, and nothing is made
// twice.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "fills a disk again and again")
	for nth := range 5 {
		w := newWorld(t)
		w.smallDisk()
		w.store = storetest.OpenIn(t, w.dir)
		w.restart()
		w.createFor("olga", 1, "Hers", "x")
		w.sweepTo(1, 0, 0)
		created, updated := w.create(2, "A", "a", "b", "a"), w.update(1, report{steps: []string{"x"}})
		board, left := w.eng.Board, nth
		w.eng.Board = slowBoard{board, func() {
			if left--; left == 0 {
				w.fill()
			}
		}, func() {}}
		if nth == 0 {
			w.fill()
		}
		r := w.sweepTo(0, 0, 2)
		if !isFull(r.Trouble) || !r.Due.Equal(w.clock.Now().Add(retryBoard)) {
			t.Errorf("full before %d: report %+v", nth, r)
		}
		w.clock.Advance(20 * time.Second) // the leases of the effects lapse
		if r := w.sweepTo(0, 0, 2); !isFull(r.Trouble) {
			t.Errorf("still full before %d: report %+v", nth, r)
		}
		w.drain()
		w.clock.Advance(20 * time.Second)
		w.eng.Board = board
		w.sweepTo(2, 0, 0)
		w.checkTask(2, "A", "a", "b", "a")
		if row := w.row(1); row.Status != pipeline.InProgress || row.Derived[pipeline.FieldRemaining] != "0" {
			t.Errorf("row %+v", row)
		}
		for _, name := range []string{created, updated} {
			if r := w.processed(name); r.SkippedDuplicate {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if got := w.settled(inbox.FailedDir); len(got) != 0 {
			t.Errorf("failed %v", got)
		}
	}
}
