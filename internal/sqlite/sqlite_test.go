package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"otm/internal/crash/crashtest"
)

// name is the database of a test, in a directory of its own.
func name(t testing.TB) string { return filepath.Join(t.TempDir(), "a b?%.db") }

func mustOpen(t testing.TB, path string, o Options) *DB {
	t.Helper()
	if o.BusyTimeout == 0 {
		o.BusyTimeout = time.Minute // on a busy machine
	}
	d, err := Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// makeRows makes the table of the tests.
func makeRows(t testing.TB, d *DB) {
	t.Helper()
	err := d.Write(t.Context(), func(tx *Tx) error {
		_, err := tx.Exec("CREATE TABLE IF NOT EXISTS rows (id TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func add(ctx context.Context, d *DB, id, text string) error {
	return d.Write(ctx, func(tx *Tx) error { return insert(tx, id, text) })
}

func insert(tx *Tx, id, text string) error {
	_, err := tx.Exec("INSERT INTO rows (id, text) VALUES ($1, $2)", id, text)
	return err
}

// ids returns the rows of the table, in order, as a text.
func ids(t testing.TB, d *DB) string {
	t.Helper()
	var all []string
	err := d.Read(t.Context(), func(tx *Tx) (err error) {
		all, err = scan(tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func scan(tx *Tx) (all []string, err error) {
	rows, err := tx.Query("SELECT id FROM rows ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	return all, rows.Err()
}

func TestOpen(t *testing.T) {
	t.Parallel()
	path := name(t)
	d := mustOpen(t, path, Options{})
	makeRows(t, d)
	if err := add(t.Context(), d, "a", "text"); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", info.Name(), info.Mode())
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if err := add(t.Context(), d, "b", ""); !errors.Is(err, ErrClosed) {
		t.Errorf("write after Close: %v", err)
	}
	if err := d.Read(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
	if got := ids(t, mustOpen(t, path, Options{})); got != "a" {
		t.Errorf("reopened, it holds %q", got)
	}
	if _, err := Open(t.Context(), "relative.db", Options{}); err == nil {
		t.Error("a relative path is accepted")
	}
	if _, err := Open(t.Context(), filepath.Join(path, "x.db"), Options{}); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a path below a file: %v", err)
	}
}

// A setting that does not read back as wanted is refused.
func TestSettings(t *testing.T) {
	t.Parallel()
	d := mustOpen(t, name(t), Options{})
	for _, s := range settingsOf(d.busy) {
		for _, value := range []string{"0", "delete"} {
			session, err := openSession(t.Context(), d.pool, settingsOf(d.busy))
			if err != nil {
				t.Fatal(err)
			}
			if s.name == "journal_mode" { // it would change for the other connections
				err = session.check(t.Context(), []setting{{s.name, value}})
			} else if err = session.exec(t.Context(), "PRAGMA "+s.name+" = 0"); err == nil {
				err = session.check(t.Context(), settingsOf(d.busy))
			}
			if !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), s.name) {
				t.Errorf("%s = %s: %v", s.name, value, err)
			}
			session.close()
		}
	}
	if _, err := openSession(t.Context(), d.pool, []setting{{"journal_mod", "wal"}}); err == nil {
		t.Error("a setting that SQLite does not know is accepted")
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ err, kind error }{
		{sqlite3.BUSY, ErrBusy},
		{sqlite3.BUSY_SNAPSHOT, ErrBusy},
		{sqlite3.LOCKED, ErrBusy},
		{sqlite3.FULL, ErrFull},
		{sqlite3.CORRUPT_VTAB, ErrCorrupt},
		{sqlite3.NOTADB, ErrCorrupt},
		{sqlite3.IOERR_LOCK, ErrNoLocks},
		{sqlite3.IOERR_RDLOCK, ErrNoLocks},
		{sqlite3.IOERR_SHMLOCK, ErrNoLocks},
		{fmt.Errorf("insert: %w", sqlite3.FULL), ErrFull},
		{sqlite3.IOERR_FSYNC, nil},
		{sqlite3.CONSTRAINT, nil},
		{errors.New("database is locked"), nil}, // never from text
	} {
		if got := kindOf(c.err); got != c.kind {
			t.Errorf("%v is %v, want %v", c.err, got, c.kind)
		}
		err := (&DB{path: "/p.db"}).failed("write", c.err)
		if !errors.Is(err, c.err) || c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%v becomes %v", c.err, err)
		}
	}
}

// An error of a function, or a panic, undoes its own changes, also when it shares a
// transaction with others.
func TestWriteUndone(t *testing.T) {
	t.Parallel()
	d := mustOpen(t, name(t), Options{})
	makeRows(t, d)
	mine := errors.New("mine")
	if err := d.Write(t.Context(), func(tx *Tx) error { return errors.Join(insert(tx, "alone", ""), mine) }); !errors.Is(err, mine) {
		t.Errorf("its own error: %v", err)
	}
	errs, panics := batch(t, d,
		func(tx *Tx) error { return insert(tx, "a", "") },
		func(tx *Tx) error { return errors.Join(insert(tx, "refused", ""), mine) },
		func(tx *Tx) error { insert(tx, "panics", ""); panic("hostile") },
		func(tx *Tx) error { return insert(tx, "a", "taken") },
		func(tx *Tx) error { return insert(tx, "b", "") },
	)
	if errs[0] != nil || !errors.Is(errs[1], mine) || panics[2] != "hostile" || !errors.Is(errs[3], sqlite3.CONSTRAINT) || errs[4] != nil {
		t.Errorf("they returned %v and panicked with %v", errs, panics)
	}
	if got := ids(t, d); got != "a b" {
		t.Errorf("it holds %q", got)
	}
}

// batch calls Write for all functions so that they share a transaction.
func batch(t *testing.T, d *DB, fns ...func(*Tx) error) ([]error, []any) {
	t.Helper()
	errs, panics := make([]error, len(fns)), make([]any, len(fns))
	d.turn <- struct{}{} // nobody begins
	var wg sync.WaitGroup
	for i, fn := range fns {
		wg.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = d.Write(t.Context(), fn)
		})
		for waiting(d) <= i {
			runtime.Gosched()
		}
	}
	<-d.turn
	wg.Wait()
	return errs, panics
}

func waiting(d *DB) int {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	return len(d.queue.writes)
}

// Writes that wait at the same time share a commit. If that fails, each gets one
// of its own.
func TestShareCommit(t *testing.T) {
	t.Parallel()
	path := name(t)
	d := mustOpen(t, path, Options{})
	makeRows(t, d)
	var commits, fail atomic.Int32
	crashtest.Below(t, filepath.Dir(path), func(step, _ string) error {
		if step == "commit" && commits.Add(1) <= fail.Load() {
			return syscall.EIO
		}
		return nil
	})
	var fns []func(*Tx) error
	for i := range 10 {
		fns = append(fns, func(tx *Tx) error { return insert(tx, fmt.Sprint("first", i), "") })
	}
	if errs, _ := batch(t, d, fns...); errors.Join(errs...) != nil || commits.Load() != 1 {
		t.Errorf("%d commits, %v", commits.Load(), errs)
	}
	commits.Store(0)
	fail.Store(2)
	errs, _ := batch(t, d,
		func(tx *Tx) error { return insert(tx, "refused", "") },
		func(tx *Tx) error { return insert(tx, "second", "") })
	if !errors.Is(errs[0], syscall.EIO) || errs[1] != nil || commits.Load() != 3 {
		t.Errorf("%d commits, %v", commits.Load(), errs)
	}
	if got := strings.Fields(ids(t, d)); len(got) != 11 || got[10] != "second" {
		t.Errorf("it holds %q", got)
	}
}

// A reader sees one state, and not what is written meanwhile.
func TestReadSnapshot(t *testing.T) {
	t.Parallel()
	d := mustOpen(t, name(t), Options{Readers: 1})
	makeRows(t, d)
	err := d.Read(t.Context(), func(tx *Tx) error {
		before, err := scan(tx)
		if err != nil {
			return err
		}
		if err := add(t.Context(), d, "a", ""); err != nil {
			return err
		}
		after, err := scan(tx)
		if len(before)+len(after) != 0 {
			t.Errorf("the snapshot holds %q, then %q", before, after)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(t, d); got != "a" {
		t.Errorf("the next reader sees %q", got)
	}
	err = d.Read(t.Context(), func(tx *Tx) error { return insert(tx, "b", "") })
	if !errors.Is(err, sqlite3.READONLY) {
		t.Errorf("a reader writes: %v", err)
	}
}

// A write gives up when another connection holds the lock for long, or when its
// context ends, and says so by its kind.
func TestBusy(t *testing.T) {
	t.Parallel()
	path := name(t)
	d := mustOpen(t, path, Options{})
	makeRows(t, d)
	hasty := mustOpen(t, path, Options{BusyTimeout: 50 * time.Millisecond})
	err := d.Write(t.Context(), func(tx *Tx) error {
		if err := add(t.Context(), hasty, "late", ""); !errors.Is(err, ErrBusy) {
			t.Errorf("while another writes: %v", err)
		}
		mine := errors.New("mine")
		for range 2 { // the first waits for the lock, the second behind it
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, mine)
			defer cancel()
			if err := add(ctx, hasty, "late", ""); !errors.Is(err, mine) {
				t.Errorf("its context ended: %v", err)
			}
		}
		return insert(tx, "a", "")
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := add(t.Context(), d, "b", ""); err != nil {
		t.Error(err)
	}
	if got := ids(t, hasty); got != "a b" {
		t.Errorf("it holds %q", got)
	}
}

// A full database refuses what does not fit, and takes what does.
func TestFull(t *testing.T) {
	t.Parallel()
	d := mustOpen(t, name(t), Options{})
	makeRows(t, d)
	if err := d.writer.exec(t.Context(), "PRAGMA max_page_count = 8"); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 1<<20)
	if err := add(t.Context(), d, "large", large); !errors.Is(err, ErrFull) {
		t.Errorf("a row that does not fit: %v", err)
	}
	errs, _ := batch(t, d,
		func(tx *Tx) error { return insert(tx, "a", "") },
		func(tx *Tx) error { return insert(tx, "large", large) },
		func(tx *Tx) error { return insert(tx, "b", "") })
	if errs[0] != nil || !errors.Is(errs[1], ErrFull) || errs[2] != nil {
		t.Errorf("together with others: %v", errs)
	}
	if got := ids(t, d); got != "a b" {
		t.Errorf("it holds %q", got)
	}
}

// The same on a disk that is full. When there is space again, writing goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := tmpfs(t, "size=512k")
	d := mustOpen(t, filepath.Join(dir, "x.db"), Options{})
	makeRows(t, d)
	filler := filepath.Join(dir, "filler")
	os.WriteFile(filler, bytes.Repeat([]byte("x"), 1<<20), 0o600) // as much as fits
	var n int
	var err error
	for n = 0; err == nil; n++ {
		err = add(t.Context(), d, fmt.Sprintf("a%04d", n), strings.Repeat("x", 1000))
	}
	if !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the disk is full: %v", err)
	}
	if got := strings.Fields(ids(t, d)); len(got) != n-1 {
		t.Errorf("%d were acknowledged, %d are there", n-1, len(got))
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := add(t.Context(), d, "b", ""); err != nil {
		t.Errorf("there is space again: %v", err)
	}
}

// A damaged file is refused, and not changed.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	path := name(t)
	d := mustOpen(t, path, Options{})
	makeRows(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, data := range map[string][]byte{
		"another kind": bytes.Repeat([]byte("no database\n"), 1000),
		"zeros":        make([]byte, len(whole)),
		"cut":          whole[:len(whole)/2],
		"empty":        nil,
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: the file was changed: %v", what, err)
		}
	}
}

// Several processes may make a database at the same time.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	path := name(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			d, err := Open(t.Context(), path, Options{BusyTimeout: time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			makeRows(t, d)
			if err := add(t.Context(), d, fmt.Sprint(i), ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := ids(t, mustOpen(t, path, Options{})); got != "0 1 2 3 4 5 6 7" {
		t.Errorf("it holds %q", got)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 3 { // with -wal and -shm
		t.Errorf("in the directory: %v, %v", entries, err)
	}
}

func TestBackup(t *testing.T) {
	t.Parallel()
	d := mustOpen(t, name(t), Options{})
	makeRows(t, d)
	if err := add(t.Context(), d, "a", ""); err != nil {
		t.Fatal(err)
	}
	path := name(t)
	temp := filepath.Join(filepath.Dir(path), ".otm-tmp-"+filepath.Base(path))
	if err := os.WriteFile(temp, []byte("of a backup that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Backup(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	if err := add(t.Context(), d, "b", ""); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, mustOpen(t, path, Options{})); got != "a" {
		t.Errorf("the copy holds %q", got)
	}
	if err := d.Backup(t.Context(), path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over an existing file: %v", err)
	}
}

// TestOpenWhileItIsMade: another process is making the database, and writes before it is
// in WAL mode. Open waits for it.
func TestOpenWhileItIsMade(t *testing.T) {
	t.Parallel()
	path := name(t)
	other, err := driver.Open(nameOf(path))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	conn, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, statement := range []string{"CREATE TABLE rows (id TEXT)", "BEGIN IMMEDIATE"} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	time.AfterFunc(50*time.Millisecond, func() {
		if _, err := conn.ExecContext(context.Background(), "COMMIT"); err != nil {
			t.Error(err)
		}
	})
	mustOpen(t, path, Options{})
}

// TestMoved: somebody removes the file, or puts another in its place. Nothing is written
// into the file without a name.
func TestMoved(t *testing.T) {
	t.Parallel()
	path := name(t)
	d := mustOpen(t, path, Options{})
	makeRows(t, d)
	if err := os.Rename(path, path+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := add(t.Context(), d, "a", ""); !errors.Is(err, ErrMoved) {
		t.Errorf("write after it was removed: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Read(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrMoved) {
		t.Errorf("read after it was replaced: %v", err)
	}
	if err := os.Rename(path+"-away", path); err != nil {
		t.Fatal(err)
	}
	if err := add(t.Context(), d, "a", ""); err != nil {
		t.Errorf("write after it was put back: %v", err)
	}
}

// TestAbandon: a database is left whose file was renamed. The renamed one has all that was
// committed, and the new one nothing of it. One that was put back meanwhile stays whole.
func TestAbandon(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		path := name(t)
		d := mustOpen(t, path, Options{})
		makeRows(t, d)
		for i := range 20 {
			if err := add(t.Context(), d, fmt.Sprint("row ", i), ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Rename(path, path+"-away"); err != nil {
			t.Fatal(err)
		}
		if back {
			if err := os.Rename(path+"-away", path); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Abandon(); err != nil {
			t.Fatal(err)
		}
		whole := path + "-away"
		if back {
			whole = path
		} else {
			fresh := mustOpen(t, path, Options{})
			makeRows(t, fresh) // fails if there is something of the former one
		}
		if n := strings.Count(ids(t, mustOpen(t, whole, Options{})), "row"); n != 20 {
			t.Errorf("put back %t: %d rows are left", back, n)
		}
	}
}

// TestWriteUnsynced: of writes at the same time, each that asks for a sync gets it.
func TestWriteUnsynced(t *testing.T) {
	t.Parallel()
	d := mustOpen(t, name(t), Options{})
	makeRows(t, d)
	level := func(tx *Tx) (n int, err error) {
		err = tx.QueryRow("PRAGMA synchronous").Scan(&n)
		return n, err
	}
	const normal, full = 1, 2
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				write, id := d.Write, fmt.Sprint(g, "-", i)
				if g%2 == 0 {
					write = d.WriteUnsynced
				}
				err := write(context.Background(), func(tx *Tx) error {
					n, err := level(tx)
					if g%2 == 1 && n != full {
						t.Errorf("a write has level %d", n)
					}
					return errors.Join(err, insert(tx, id, ""))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := len(strings.Fields(ids(t, d))); got != 8*50 {
		t.Errorf("%d rows are there", got)
	}
	err := d.WriteUnsynced(t.Context(), func(tx *Tx) error {
		if n, err := level(tx); n != normal || err != nil {
			t.Errorf("a write alone has level %d, %v", n, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDiskFailsAtEachStep: the disk refuses one step, whichever. The caller is told,
// and what was acknowledged is there.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		path := name(t)
		wrote := false
		refused, err := refuse(filepath.Dir(path), func() error {
			d, err := Open(t.Context(), path, Options{})
			if err != nil {
				return err
			}
			defer d.Close()
			err = d.Write(t.Context(), func(tx *Tx) error {
				if _, err := tx.Exec("CREATE TABLE rows (id TEXT)"); err != nil {
					return err
				}
				_, err := tx.Exec("INSERT INTO rows VALUES ('a')")
				return err
			})
			wrote = err == nil
			return err
		})
		refused.Told(t, err, false)
		d := mustOpen(t, path, Options{})
		if wrote && ids(t, d) != "a" {
			t.Errorf("refused %q: it holds %q", refused, ids(t, d))
		}
	})
}

// Many goroutines write faster than one, because they share syncs.
func BenchmarkWrite(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			dir, err := os.MkdirTemp(".", ".bench-") // on a disk
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { os.RemoveAll(dir) })
			if dir, err = filepath.Abs(dir); err != nil {
				b.Fatal(err)
			}
			d := mustOpen(b, filepath.Join(dir, "x.db"), Options{})
			makeRows(b, d)
			var next atomic.Int64
			b.ResetTimer()
			var wg sync.WaitGroup
			for range writers {
				wg.Go(func() {
					for {
						n := next.Add(1)
						if n > int64(b.N) {
							return
						}
						if err := add(b.Context(), d, fmt.Sprint(n), "text"); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

// TestOpenNewTogether: programs that start together on a new directory all open its
// database.
func TestOpenNewTogether(t *testing.T) {
	t.Parallel()
	rounds := crashtest.Fewer(100)
	if crashtest.Whole() {
		rounds = 1000
	}
	for range rounds {
		path := filepath.Join(t.TempDir(), "new.db")
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				db, err := Open(t.Context(), path, Options{})
				if err != nil {
					t.Error(err)
					return
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

// Reads one after another share a connection. Those at the same time have one each.
func TestReadersAreReused(t *testing.T) {
	t.Parallel()
	d := mustOpen(t, name(t), Options{Readers: 3})
	check := func(want int) {
		t.Helper()
		if got := cap(d.room) - len(d.room); got != want {
			t.Errorf("%d readers are open, want %d", got, want)
		}
	}
	read := func(fn func()) {
		t.Helper()
		if err := d.Read(t.Context(), func(*Tx) error { fn(); return nil }); err != nil {
			t.Error(err)
		}
	}
	check(0)
	for range 5 {
		read(func() { check(1) })
	}
	read(func() { read(func() { check(2) }) })
	read(func() { check(2) })
}
