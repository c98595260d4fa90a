package slacklist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/crash"
	"otm/internal/leak"
	"otm/internal/lock"
	"otm/pipeline"
)

// The environment of the process that gets killed: it makes a batch with one
// create and one update, and kills itself at a point.
const (
	killDirEnv   = "SLACKLIST_TEST_DIR"
	killBoardEnv = "SLACKLIST_TEST_BOARD" // URL, list and token
	killRowEnv   = "SLACKLIST_TEST_ROW"   // the row to update
	killAtEnv    = "SLACKLIST_TEST_AT"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDirEnv); dir != "" {
		if err := runVictim(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(leak.Main(m))
}

func runVictim(dir string) error {
	crash.Hook = func(point string) {
		if point == os.Getenv(killAtEnv) {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	where := strings.Fields(os.Getenv(killBoardEnv))
	c := New(Options{Dir: dir, URL: where[0], ListID: where[1], Token: where[2], OpenAssignees: true})
	s, err := c.begin(context.Background())
	if err != nil {
		return err
	}
	if _, err := s.Create(context.Background(), "", taskCells(2)...); err != nil {
		return err
	}
	if err := s.Update(context.Background(), status(os.Getenv(killRowEnv), pipeline.Assigned)); err != nil {
		return err
	}
	return s.End()
}

// Killed in the middle of a batch, the next one does not trust the snapshot;
// killed after it was saved, it does.
func TestKilledInABatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at           string
		rows         int // on the board, as a walk shows them
		updated      bool
		stillTrusted bool
	}{
		{"create.before", 1, false, false},
		{"create.after", 2, false, false},
		{"update.before", 2, false, false},
		{"update.after", 2, true, false},
		{"snapshot.before", 2, true, false},
		{"snapshot.after", 2, true, true},
	} {
		t.Run(c.at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.clock.Advance(time.Since(w.clock.Now())) // the victim has the machine's
			client := w.client()
			var row string
			w.batch(client, func(s *Session) {
				row = w.add(s, 1)
				w.walk(s)
			})
			cmd := exec.Command(os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), killDirEnv+"="+w.dir, killRowEnv+"="+row, killAtEnv+"="+c.at,
				killBoardEnv+"="+strings.Join([]string{w.URL, w.ListID, w.Token}, " "))
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("victim ended with %v: %s", err, out)
			}
			for _, client := range []*Client{client, w.client()} {
				w.batch(client, func(s *Session) {
					if s.Fresh(time.Hour) != c.stillTrusted || s.WalkAt().IsZero() == c.stillTrusted {
						t.Errorf("fresh %t, walk at %v", s.Fresh(time.Hour), s.WalkAt())
					}
					if !c.stillTrusted && s.Current(s.Row(row), time.Hour) {
						t.Error("the row is current")
					}
					if len(s.snap.Schema.Columns) == 0 {
						t.Error("the schema is gone")
					}
				})
			}
			w.batch(client, func(s *Session) {
				w.walk(s)
				if n := len(ids(s)); n != c.rows || (s.Row(row).Status == pipeline.Assigned) != c.updated {
					t.Errorf("%d rows, the first is %s", n, s.Row(row).Status)
				}
			})
			w.batch(w.client(), func(s *Session) {
				if !s.Fresh(time.Hour) {
					t.Error("not trusted after a walk")
				}
			})
		})
	}
}

// What a power failure, a person or another version may leave in the file.
func TestDamagedSnapshot(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]byte) []byte{
		"nothing":     func([]byte) []byte { return nil },
		"NUL bytes":   func(b []byte) []byte { return make([]byte, len(b)) },
		"half":        func(b []byte) []byte { return b[:len(b)/2] },
		"no JSON":     func([]byte) []byte { return []byte("<html>") },
		"an array":    func([]byte) []byte { return []byte("[]") },
		"null":        func([]byte) []byte { return []byte("null") },
		"wrong types": func([]byte) []byte { return []byte(`{"board":7,"rows":{}}`) },
		"another list": func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `"board":"`, `"board":"http://elsewhere/ `, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.batch(w.client(), func(s *Session) { w.add(s, 1); w.walk(s) })
			path := filepath.Join(w.dir, "board", "snapshot.json")
			if err := os.WriteFile(path, damage([]byte(readFile(t, path))), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadSnapshot(w.dir); err != nil {
				t.Errorf("for those who only look: %v", err)
			}
			w.batch(w.client(), func(s *Session) {
				if len(ids(s)) != 0 || s.Fresh(time.Hour) || !s.WalkAt().IsZero() || s.snap.Self != "" {
					t.Errorf("rows %v, fresh %t, self %q", ids(s), s.Fresh(time.Hour), s.snap.Self)
				}
				w.walk(s)
				if len(ids(s)) != 1 {
					t.Errorf("rows %v", ids(s))
				}
			})
		})
	}
}

// A snapshot whose fields name columns that it does not have, is as good as one
// without a schema, or without those where OTM works without them.
func TestSnapshotWithoutColumns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field pipeline.Field
		reads int // of the schema
	}{{pipeline.FieldStatus, 1}, {pipeline.FieldTaskID, 1}, {pipeline.FieldReason, 0}} {
		w := newWorld(t)
		w.batch(w.client(), func(s *Session) { w.walk(s) })
		w.batch(w.client(), func(s *Session) {
			id := s.snap.Schema.Fields[c.field]
			s.snap.Schema.Columns = slices.DeleteFunc(s.snap.Schema.Columns, func(c Column) bool { return c.ID == id })
			s.dirty = true
		})
		w.batch(w.client(), func(s *Session) {
			if _, has := s.Form(c.field, ""); has {
				t.Errorf("%s has a column", c.field)
			}
			row := w.add(s, 1, pipeline.Cell{Field: pipeline.FieldReason, Text: "because"})
			if r := s.Row(row); r.Status != pipeline.New || r.TaskID != pipeline.TaskID(1).String() {
				t.Errorf("without %s, made %+v", c.field, r)
			}
			if n := w.Faults.Count(filesMethod); n != c.reads {
				t.Errorf("without %s, the schema was read %d times", c.field, n)
			}
			w.set(s, status(row, pipeline.Done))
			w.walk(s)
			if r := s.Row(row); r.Status != pipeline.Done || s.snap.Schema.Column(c.field) == nil {
				t.Errorf("without %s, walked %+v", c.field, r)
			}
		})
	}
}

// A client that is told of another list begins anew.
func TestAnotherList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) { w.add(s, 1); w.walk(s) })
	w.list(nil)
	w.batch(w.client(), func(s *Session) {
		if len(ids(s)) != 0 || s.Fresh(time.Hour) {
			t.Error("the other list's rows are shown")
		}
		w.walk(s)
		if c := s.snap.Schema.Column(pipeline.FieldStatus); c == nil || c.ID != w.column("Status") {
			t.Errorf("the schema is the other list's: %+v", c)
		}
	})
}

// A client with another token asks anew for its user.
func TestAnotherToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *boardtest.Options) { o.Identities = []board.Identity{{Token: "xoxb-other", UserID: "U0OTHER"}} })
	var row string
	w.batch(w.client(), func(s *Session) {
		row = w.add(s, 1)
		w.walk(s)
		if s.Person(s.Row(row)) != "" {
			t.Error("our own row counts as a person's")
		}
	})
	w.Must(t, "slackLists.access.set", map[string]any{"list_id": w.ListID, "access_level": "write", "user_ids": []string{"U0OTHER"}})
	w.batch(w.client(func(o *Options) { o.Token = "xoxb-other" }), func(s *Session) {
		w.walk(s)
		if s.snap.Self != "U0OTHER" || s.Person(s.Row(row)) == "" {
			t.Errorf("we are %q, the row is a person's: %t", s.snap.Self, s.Person(s.Row(row)) != "")
		}
	})
}

// Two processes take turns, each sees what the other did without a call of its
// own.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.client(), w.client()
	w.batch(a, func(s *Session) { w.walk(s) })
	var row string
	for i := range 10 {
		w.batch(a, func(s *Session) { row = w.add(s, pipeline.TaskID(i+1)) })
		w.Faults.Reset()
		w.batch(b, func(s *Session) {
			if r := s.TaskRow(pipeline.TaskID(i + 1)); r == nil || r.ID != row || !s.Current(r, 0) {
				t.Fatalf("round %d: b sees %+v", i, r)
			}
			w.set(s, status(row, pipeline.Assigned))
		})
		w.batch(a, func(s *Session) {
			if r := s.Row(row); r.Status != pipeline.Assigned || len(ids(s)) != i+1 {
				t.Fatalf("round %d: a sees %+v", i, r)
			}
		})
		if n := w.Faults.Count(""); n != 1 {
			t.Errorf("round %d: %d calls, want the one update", i, n)
		}
	}
}

// No two batches overlap, within a process and across two.
func TestBatchesDoNotOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var inside, batches atomic.Int32
	var wg sync.WaitGroup
	for _, c := range []*Client{w.client(), w.client()} {
		for range 4 {
			wg.Go(func() {
				for range 25 {
					s, err := c.begin(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two batches at once")
					}
					s.dirty = batches.Add(1)%5 == 0
					inside.Add(-1)
					if err := s.End(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if n := batches.Load(); n != 200 {
		t.Errorf("%d batches", n)
	}
}

// A caller that waits for the board can be stopped, and learns who holds it.
func TestBeginGivesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	held, err := c.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, waiting := range []*Client{c, w.client()} {
		if b, err := waiting.Begin(ctx); b != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%v, %v", b, err)
		}
	}
	impatient := w.client(func(o *Options) { o.LockWait = time.Millisecond })
	var heldBy *lock.HeldError
	if _, err := impatient.Begin(t.Context()); !errors.As(err, &heldBy) || heldBy.PID != os.Getpid() {
		t.Errorf("error %v", err)
	}
	if err := held.End(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Client{c, impatient} {
		w.batch(c, func(*Session) {})
	}
}

// Where the snapshot cannot be saved, End says so, and the next batch does not
// trust it.
func TestSnapshotNotSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	w.batch(c, func(s *Session) { w.walk(s) })
	path := filepath.Join(w.dir, "board", "snapshot.json")
	if err := os.Rename(path, path+".aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := c.begin(t.Context()); err == nil {
		t.Fatal("a snapshot that is a directory is read")
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	s, err := c.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.add(s, 1)
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.End(); err == nil {
		t.Error("End says nothing")
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".aside", path); err != nil {
		t.Fatal(err)
	}
	w.batch(w.client(), func(s *Session) {
		if s.Fresh(time.Hour) {
			t.Error("trusted")
		}
		w.walk(s)
		if len(ids(s)) != 1 {
			t.Errorf("rows %v", ids(s))
		}
	})
}

// Others are told of changes that concern them, and of nothing else.
func TestTouchChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	changed := func() string {
		data, err := os.ReadFile(filepath.Join(w.dir, "board", "changed"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return string(data)
	}
	var row string
	for _, step := range []struct {
		name string
		do   func(*Session)
		want bool
	}{
		{"nothing", func(*Session) {}, false},
		{"a walk", func(s *Session) { w.walk(s) }, false},
		{"a create", func(s *Session) { row = w.add(s, 1) }, true},
		{"an update", func(s *Session) { w.set(s, status(row, pipeline.Assigned)) }, true},
		{"an update of nothing", func(s *Session) { w.set(s, pipeline.Change{Row: row}) }, false},
	} {
		before := changed()
		w.batch(c, step.do)
		if got := changed() != before; got != step.want {
			t.Errorf("%s: told %t", step.name, got)
		}
	}
	files, err := os.ReadDir(filepath.Join(w.dir, "board"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", f.Name(), info.Mode(), err)
		}
	}
}

// For those who only look.
func TestReadSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if s, err := ReadSnapshot(w.dir); err != nil || !s.WalkAt.IsZero() || s.Rows != nil {
		t.Errorf("%+v, %v", s, err)
	}
	w.batch(w.client(), func(s *Session) { w.walk(s); w.add(s, 1); w.add(s, 2) })
	s, err := ReadSnapshot(w.dir)
	if err != nil || len(s.Rows) != 2 || s.Count != 2 || !s.WalkAt.Equal(w.clock.Now()) || s.Self == "" {
		t.Errorf("%+v, %v", s, err)
	}
	titles := []string{s.Rows[0].Title, s.Rows[1].Title}
	if !slices.Equal(titles, []string{"Task 1", "Task 2"}) {
		t.Errorf("titles %v", titles)
	}
}
