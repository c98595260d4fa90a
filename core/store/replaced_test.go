package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/core"
	"otm/internal/datadir"
	"otm/internal/sqlite"
	"otm/pipeline"
)

// replaced is a store that is open while somebody removes or replaces its file.
type replaced struct {
	*testing.T
	*Store
	path     string
	reopened int
}

func openReplaced(t *testing.T, dir string, absence time.Duration) *replaced {
	t.Helper()
	r := &replaced{T: t, path: filepath.Join(dir, FileName)}
	r.Store = opened(t)(Open(t.Context(), dir, Options{Absence: absence, Reopened: func(ctx context.Context, s *Store) {
		r.reopened++
		if _, err := s.Events(ctx, core.EventFilter{Limit: 1}); err != nil { // it may be used already
			t.Error(err)
		}
	}}))
	return r
}

// tasks returns the tasks that the store has.
func (r *replaced) tasks() (n int, err error) {
	tasks, err := r.Tasks(r.Context(), core.Filter{Live: true})
	return len(tasks), err
}

// moved checks that the next call finds out that the file is another one.
func (r *replaced) moved(when string) {
	r.Helper()
	if _, err := r.tasks(); !errors.Is(err, sqlite.ErrMoved) || !strings.Contains(Hint(err), "by itself") {
		r.Errorf("%s: %v; %s", when, err, Hint(err))
	}
}

func (r *replaced) has(want int, when string) {
	r.Helper()
	if n, err := r.tasks(); err != nil || n != want {
		r.Errorf("%s: %d tasks, want %d; %v", when, n, want, err)
	}
}

func (r *replaced) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// backup puts a copy of the database beside it, as old as a backup is.
func (r *replaced) backup() string {
	r.Helper()
	copied := r.path + ".backup"
	r.must(r.use(r.Context(), func(db engine) error { return db.(*sqliteEngine).db.Backup(r.Context(), copied) }))
	r.must(os.Chtimes(copied, t0, t0))
	return copied
}

// Somebody removes the file while the store is open. A new one is made once it was missing
// for a while, and nothing of the former one is left in it.
func TestFileRemoved(t *testing.T) {
	t.Parallel()
	r := openReplaced(t, t.TempDir(), time.Hour)
	id := r.ID()
	do(t, r.Store, request(1, "a"))
	r.must(os.Remove(r.path))
	r.moved("removed")
	r.moved("removed a moment ago")
	r.Store.when = time.Now().Add(-2 * time.Hour)
	r.has(0, "removed long ago")
	do(t, r.Store, request(2, "b"))
	r.has(1, "the new one is used")
	check(t, r.Store)
	if r.reopened != 1 || r.ID() != id {
		t.Errorf("opened anew %d times; the id is %s, it was %s", r.reopened, r.ID(), id)
	}
}

// Somebody removes the file, and what stands beside it, while programs have it open that do
// not notice yet. Others make a new one at once, and all of them use that.
func TestFileRemovedUnderOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := openReplaced(t, dir, time.Hour)
	do(t, r.Store, request(1, "a"))
	for _, rest := range []string{"", "-wal", "-shm"} {
		r.must(os.Remove(r.path + rest))
	}
	var wg sync.WaitGroup
	var newer [4]*Store
	for i := range newer {
		wg.Go(func() {
			newer[i] = opened(t)(Open(t.Context(), dir, Options{}))
			do(t, newer[i], request(pipeline.TaskID(i+2), fmt.Sprint("d", i)))
		})
	}
	wg.Wait()
	for _, s := range newer {
		if tasks, err := s.Tasks(t.Context(), core.Filter{}); err != nil || len(tasks) != len(newer) {
			t.Errorf("%d tasks, want %d; %v", len(tasks), len(newer), err)
		}
	}
	check(t, newer[0])
	r.moved("the one that was open")
}

// Somebody puts an older backup in the file's place. It is used at once if it is old, and
// else once it was not written to for a while: it may be on its way.
func TestFileReplacedByBackup(t *testing.T) {
	t.Parallel()
	for _, young := range []bool{false, true} {
		r := openReplaced(t, t.TempDir(), time.Hour)
		do(t, r.Store, request(1, "a"))
		backup := r.backup()
		do(t, r.Store, request(2, "b"))
		if young {
			r.must(os.Chtimes(backup, time.Now(), time.Now()))
		}
		r.must(os.Rename(backup, r.path))
		r.moved("replaced")
		if young {
			r.moved("just replaced")
			r.Store.when = time.Now().Add(-2 * time.Hour)
		}
		r.has(1, "the backup")
		do(t, r.Store, request(2, "b"))
		r.has(2, "the backup is used")
		check(t, r.Store)
		if r.reopened != 1 {
			t.Errorf("opened anew %d times", r.reopened)
		}
	}
}

// The file is put back: nothing is lost.
func TestFilePutBack(t *testing.T) {
	t.Parallel()
	r := openReplaced(t, t.TempDir(), time.Hour)
	do(t, r.Store, request(1, "a"))
	r.must(os.Rename(r.path, r.path+"-away"))
	r.moved("renamed")
	r.must(os.Rename(r.path+"-away", r.path))
	r.Store.when = time.Now().Add(-2 * time.Hour)
	r.has(1, "put back")
}

// Somebody puts a file in its place that is no database. That is said, until a good one is
// there.
func TestFileReplacedByCorrupt(t *testing.T) {
	t.Parallel()
	r := openReplaced(t, t.TempDir(), time.Nanosecond)
	do(t, r.Store, request(1, "a"))
	backup := r.backup()
	r.must(os.Remove(r.path))
	r.must(os.WriteFile(r.path, []byte(strings.Repeat("no database ", 1000)), 0o600))
	r.moved("replaced")
	for range 2 {
		if _, err := r.tasks(); !errors.Is(err, sqlite.ErrCorrupt) || !strings.Contains(Hint(err), "backup") {
			t.Errorf("%v; %s", err, Hint(err))
		}
	}
	r.must(os.Rename(backup, r.path))
	r.has(1, "a backup in its place")
	check(t, r.Store)
}

// The database of another directory is put in the file's place: it is refused.
func TestFileReplacedByOther(t *testing.T) {
	t.Parallel()
	r, other := openReplaced(t, t.TempDir(), time.Nanosecond), openReplaced(t, t.TempDir(), 0)
	r.must(os.Rename(other.backup(), r.path))
	r.moved("replaced")
	var moved *datadir.MovedError
	if _, err := r.tasks(); !errors.As(err, &moved) {
		t.Errorf("the other one: %v", err)
	}
}

// Several processes, and several goroutines of each, meet the new file at once. They all
// go on with one store.
func TestFileReplacedUnderMany(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	all := []*replaced{openReplaced(t, dir, time.Nanosecond), openReplaced(t, dir, time.Nanosecond), openReplaced(t, dir, time.Nanosecond)}
	do(t, all[0].Store, request(1, "a"))
	all[0].must(os.Remove(all[0].path))
	var wg sync.WaitGroup
	for i, r := range all {
		for j := range 4 {
			wg.Go(func() {
				id := 100*i + j + 2
				for {
					_, err := r.Do(t.Context(), request(pipeline.TaskID(id), fmt.Sprint("d", id)))
					if err == nil {
						return
					}
					if !errors.Is(err, sqlite.ErrMoved) {
						t.Errorf("%d: %v", id, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	for _, r := range all {
		r.has(12, "afterwards")
	}
	check(t, all[0].Store)
}

// The file was removed while nothing ran, after a kill: what is left beside it does not get
// into the new one.
func TestFileRemovedAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	process(t, dir, "store.done:20", "", 0)
	path := filepath.Join(dir, FileName)
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
		t.Fatalf("the killed process left nothing: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s := opened(t)(Open(t.Context(), dir, Options{}))
	if events, err := s.Events(t.Context(), core.EventFilter{}); err != nil || len(events) > 0 {
		t.Errorf("%d events, %v", len(events), err)
	}
	do(t, s, request(1, "a"))
	check(t, s)
}
