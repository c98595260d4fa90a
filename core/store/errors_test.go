package store

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/core/store/pgtest"
	"otm/internal/crash/crashtest"
	"otm/internal/lock"
	"otm/internal/sqlite"
)

// A schema of a newer version is refused, with the way out.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	change(t, s, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), dir, Options{})
	var newer *NewerError
	if !errors.As(err, &newer) || newer.Found != 999 || !strings.Contains(err.Error(), "has schema 999") || !strings.Contains(Hint(err), "a later one") {
		t.Errorf("opened with %v, hint %q", err, Hint(err))
	}
}

// A schema is migrated only while no other program uses it: those of an older version
// would go on with tables that changed under them.
func TestMigratesAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	older, err := lock.AcquireShared(ctx, filepath.Join(dir, "locks", "schema"), 0)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(ctx, filepath.Join(dir, FileName), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := &sqliteEngine{db: db, dir: dir, path: FileName}
	err = e.write(ctx, synced, func(t tx) error { // else nobody uses it
		_, err := t.Exec("CREATE TABLE older (id INTEGER)")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel) // instead of ten seconds
	if err := migrate(ctx, e, e.path); !errors.Is(err, context.Canceled) {
		t.Errorf("it was migrated while another program used it: %v", err)
	}
	if err := older.Release(); err != nil {
		t.Error(err)
	}
	if err := migrate(t.Context(), e, e.path); err != nil {
		t.Error(err)
	}
	var held *lock.HeldError
	if _, err := lock.Acquire(t.Context(), e.schemaLock(), 0); !errors.As(err, &held) {
		t.Errorf("another program could migrate it now: %v", err)
	}
	if err := e.close(); err != nil {
		t.Error(err)
	}
	if l, err := lock.Acquire(t.Context(), e.schemaLock(), 0); err != nil {
		t.Error(err)
	} else {
		l.Release()
	}
	shared := &SharedError{Name: "otm.db", Err: held}
	if !strings.Contains(Hint(shared), "restart otm up") {
		t.Errorf("hint %q", Hint(shared))
	}
}

// The disk refuses one step, whichever: the caller is told, nothing is half done, and the
// same commands again are carried out once.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		dir := t.TempDir()
		work := func() error {
			s, err := Open(t.Context(), dir, Options{BusyTimeout: time.Minute})
			if err != nil {
				return err
			}
			defer s.Close()
			o, err := s.Do(t.Context(), request(1, "a"), request(2, "b"))
			if err != nil {
				return err
			}
			if o[0].Err != nil || o[1].Err != nil || o[0].Before != o[1].Before {
				t.Errorf("outcomes: %+v", o)
			}
			leased, err := s.Lease(t.Context(), core.SinkRender, "me", t0, time.Minute, 0)
			if err != nil {
				return err
			}
			return s.Delivered(t.Context(), leased...)
		}
		refused, err := refuse(dir, work)
		refused.Told(t, err, refused.Of("write", "locks/schema") || refused.Of("write", "locks/new-store")) // the process id, for people
		if err := work(); err != nil {
			t.Errorf("refused %q, and then: %v", refused, err)
		}
		s := opened(t)(Open(t.Context(), dir, Options{}))
		if tasks, err := s.Tasks(t.Context(), core.Filter{}); err != nil || len(tasks) != 2 {
			t.Errorf("refused %q: %d tasks, %v", refused, len(tasks), err)
		}
		check(t, s)
	})
}

// Another program holds the write lock: nothing is changed, and the error says what to do.
func TestBusy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := opened(t)(Open(t.Context(), dir, Options{BusyTimeout: 50 * time.Millisecond}))
	other, err := sqlite.Open(t.Context(), filepath.Join(dir, FileName), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	err = other.Write(t.Context(), func(*sqlite.Tx) error {
		_, err := s.Do(t.Context(), request(1, "a"))
		if !errors.Is(err, sqlite.ErrBusy) || !strings.Contains(Hint(err), "fuser") {
			t.Errorf("it failed with %v, hint %q", err, Hint(err))
		}
		if _, err := s.Task(t.Context(), 1); !errors.Is(err, core.ErrNoTask) {
			t.Errorf("a reader meanwhile: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	do(t, s, request(1, "a"))
}

// A file that is no database, or was cut, is left alone.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	if err := os.WriteFile(path, []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), dir, Options{})
	if !errors.Is(err, sqlite.ErrCorrupt) || !strings.Contains(Hint(err), "backup") {
		t.Errorf("it failed with %v, hint %q", err, Hint(err))
	}
	if data, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(data), "no database") {
		t.Errorf("the file was changed: %v", err)
	}
}

// The server ends all sessions in the middle, as a restart does: the same command again
// is carried out once.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	server := pgtest.New(t)
	s := opened(t)(Open(t.Context(), t.TempDir(), Options{URL: server.URL}))
	s.db = &ending{engine: s.db, end: func() {
		if err := server.End(); err != nil {
			t.Error(err)
		}
	}}
	_, err := s.Do(t.Context(), request(1, "a"))
	if !errors.Is(err, ErrAway) || Hint(err) == "" {
		t.Errorf("it failed with %v, hint %q", err, Hint(err))
	}
	for try := 0; ; try++ {
		o, err := s.Do(t.Context(), request(1, "a"))
		if err == nil && o[0].Err == nil && !o[0].Before {
			break
		}
		if !errors.Is(err, ErrAway) || try == 10 {
			t.Fatalf("again: %+v, %v", o, err)
		}
	}
	check(t, s)
}

// ending is a database whose sessions end in the first transaction.
type ending struct {
	engine
	end func()
}

func (e *ending) write(ctx context.Context, d durability, fn func(tx) error) error {
	return e.engine.write(ctx, d, func(t tx) error {
		if e.end != nil {
			e.end()
			e.end = nil
		}
		return fn(t)
	})
}

// SQLite numbers $1, $2 by their first appearance, so they must appear in order.
func TestParametersAppearInOrder(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	mark := regexp.MustCompile(`\$(\d+)`)
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			highest := 0
			for _, m := range mark.FindAllStringSubmatch(lit.Value, -1) {
				seen++
				if n, _ := strconv.Atoi(m[1]); n > highest+1 {
					t.Errorf("%s: $%d appears before $%d: %s", name, n, highest+1, lit.Value)
				} else {
					highest = max(highest, n)
				}
			}
			return true
		})
	}
	if seen < 50 {
		t.Errorf("only %d parameters were found", seen)
	}
}

// Programs that start together on a new directory, and stay, all open its store: one
// migrates, and the others see that it did.
func TestOpenNewTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			s, err := Open(t.Context(), dir, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { s.Close() })
		})
	}
	all.Wait()
}
