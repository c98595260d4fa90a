package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"otm/core/store"
	"otm/heartbeat"
	"otm/internal/crash/crashtest"
	"otm/internal/lock"
	"otm/internal/sqlite"
)

// refused runs a command that must fail with a code and say something.
func (h *house) refused(code int, says []string, name string, args ...string) {
	h.Helper()
	out, got, _ := h.run("", name, args...)
	if got != code {
		h.Errorf("%s %v: exit %d, want %d\n%s", name, args, got, code, out)
	}
	for _, text := range says {
		if !strings.Contains(out, text) {
			h.Errorf("%s %v does not say %q:\n%s", name, args, text, out)
		}
	}
}

// database opens the database as another program does.
func (h *house) database() *sqlite.DB {
	h.Helper()
	db, err := sqlite.Open(h.Context(), filepath.Join(h.dir, store.FileName), sqlite.Options{BusyTimeout: time.Minute})
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { db.Close() })
	return db
}

// TestWriteLockHeld: another program holds the write lock of the database. Drops land, a
// single run says who is in the way (75), readers read, and a resident says what is the
// matter and goes on by itself.
func TestWriteLockHeld(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "waits ten seconds for a lock")
	h := newHouse(t)
	h.startBoard("")
	h.must("otm", "list")
	db := h.database()
	held, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- db.Write(context.Background(), func(t *sqlite.Tx) error {
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	h.must("otm-create", "--title", "Meanwhile", "--agent", "devdas")
	h.refused(75, []string{"database is busy", "hint: another program holds the write lock: fuser -v"}, "otm-injector", "--once")
	h.start("otm-injector", "--sweep-every", "1s")
	h.must("otm", "list")
	h.must("otm", "status")
	h.waitFor("the injector says what is the matter", func() bool { return h.heartbeatSays(heartbeat.Injector, "busy") })
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	h.waitFor("the task is on the board", func() bool {
		return strings.Contains(h.must("otm", "list"), "Meanwhile") && count(h.dir, "new-tasks") == 0
	})
}

// TestSchemas: a database that a newer version made is left alone (78), and one of an
// older version is not migrated while programs of that version run (75). Drops land.
func TestSchemas(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "waits ten seconds for a lock")
	for name, c := range map[string]struct {
		sql  string
		code int
		says []string
	}{
		"from the future":               {"INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)", 78, []string{"has schema 9999", "hint: use the version of otm that last ran here, or a later one"}},
		"of an older version that runs": {"UPDATE goose_db_version SET version_id = 0", 75, []string{"programs of an older version of otm use it", "hint: restart otm up"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.startBoard("")
			h.must("otm", "list")
			err := h.database().Write(t.Context(), func(t *sqlite.Tx) error {
				_, err := t.Exec(c.sql)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			older, err := lock.AcquireShared(t.Context(), filepath.Join(h.dir, "locks", "schema"), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			defer older.Release()
			h.must("otm-create", "--title", "Meanwhile", "--agent", "devdas")
			h.refused(c.code, c.says, "otm-injector", "--once")
			h.refused(c.code, c.says, "otm", "list")
			if n := count(h.dir, "new-tasks"); n != 1 {
				t.Errorf("%d drops wait", n)
			}
		})
	}
}

// TestDatabaseReplaced: the database is removed, or replaced by an older backup. That is
// said; what the board and the drops know better is taken from them, nothing is made
// twice, and no id is given out again. Of a task that is neither in the store nor on the
// board, a person is asked (C41).
func TestDatabaseReplaced(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "lives through six lives")
	for name, backupAt := range map[string]int{
		"removed": 0, "by a backup from before the tasks were on the board": 3, "before they were handed out": 4,
		"before one was taken": 5, "before reports came": 8, "before one was done": 10,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.startBoard("")
			h.within = true
			path := filepath.Join(h.dir, store.FileName)
			h.must("otm", "list")
			for _, s := range life[:backupAt] {
				h.do(s, "")
			}
			copied := filepath.Join(t.TempDir(), "backup.db")
			db := h.database() // what the log of writes still has is part of it
			if err := errors.Join(db.Backup(t.Context(), copied), db.Close()); err != nil {
				t.Fatal(err)
			}
			backup, err := os.ReadFile(copied)
			if err != nil {
				t.Fatal(err)
			}
			archive := len(life) - 1
			for _, s := range life[backupAt:archive] {
				h.do(s, "")
			}
			files, err := filepath.Glob(path + "*")
			for _, file := range files {
				if err == nil {
					err = os.Remove(file)
				}
			}
			if err == nil && backupAt > 0 {
				err = os.WriteFile(path, backup, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			said, code, _ := h.run("", "otm", "fsck", "--repair")
			if backupAt == 0 && !strings.Contains(said, "otm.db was missing") || code != 0 || !strings.Contains(said, "no problems found") {
				t.Errorf("otm fsck --repair: exit %d\n%s", code, said)
			}
			h.settle()
			one := h.must("otm", "show", "--json", h.acknowledged["one"])
			for _, want := range []string{`"status":"done"`, `"result":"done it"`} {
				if !strings.Contains(one, want) {
					t.Errorf("%s lacks %s:\n%s", h.acknowledged["one"], want, one)
				}
			}
			h.do(life[archive], "")
			h.settle()
			if id := strings.TrimSpace(h.must("otm-create", "--title", "Next", "--agent", "devdas")); h.ids()[id] {
				t.Errorf("%s was given out again", id)
			}
			h.rowsOnce()
		})
	}
}

// ids are those that were acknowledged.
func (h *house) ids() map[string]bool {
	ids := map[string]bool{}
	for _, id := range h.acknowledged {
		ids[id] = true
	}
	return ids
}

// rowsOnce checks that no title stands twice on the board.
func (h *house) rowsOnce() {
	h.Helper()
	cards, err := deskOf(h.dir).cards()
	if err != nil {
		h.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range cards {
		key := c.Parent + " " + c.cells["title"]
		if seen[key] {
			h.Errorf("%q stands twice on the board", c.cells["title"])
		}
		seen[key] = true
	}
}

// TestReaderOfEverything: another program, such as a backup or a virus scanner, opens and
// reads every file of the data directory all the time, the database and its -wal and -shm
// files too: nothing is lost or damaged.
func TestReaderOfEverything(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "brings 20 tasks to their end")
	h := newHouse(t)
	h.startBoard("")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return nil
				}
				if f, err := os.Open(path); err == nil {
					io.Copy(io.Discard, f)
					f.Close() // which drops POSIX locks of its process, as some databases have them
				}
				return nil
			})
		}
	}()
	h.start("otm-injector", "--sweep-every", "1s")
	h.start("otm-dispatcher", "--every", "1s")
	h.start("otm-completion-detector", "--every", "1s")
	h.within = true // this process reads, and runs commands
	for i := range 20 {
		h.must("otm-create", "--title", fmt.Sprint("task ", i), "--agent", "devdas")
	}
	h.waitFor("all are handed out", func() bool {
		data, _ := os.ReadFile(filepath.Join(h.root, "ws", "task-dispatch.json"))
		return strings.Count(string(data), `"taskId"`) == 20
	})
	for i := range 20 {
		h.must("otm", "next", "--agent", "devdas", "--another")
		h.must("otm-update", "--task-id", fmt.Sprint(i+1), "--subtask-done", "1")
	}
	h.waitFor("all are done", func() bool { return strings.Count(h.must("otm", "list", "--json"), `"agent_done"`) == 20 })
	cancel()
	<-ended
	h.must("otm", "rebuild", "--check")
	h.waitFor("nothing is wrong", func() bool {
		_, code, _ := h.run("", "otm", "fsck")
		return code == 0
	})
}
