package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"otm/internal/durable"
)

// Options configures Open. The zero value works.
type Options struct {
	// BusyTimeout is how long a write waits for other writers before it fails
	// with ErrBusy. If zero, 10 seconds.
	BusyTimeout time.Duration

	// Readers is how many goroutines may read at a time; others wait. If zero, 4.
	Readers int
}

// A DB is an open database. Its methods may be called from any goroutine.
type DB struct {
	path string
	busy time.Duration
	pool *sql.DB
	file fs.FileInfo    // of the file that is open
	rest [2]fs.FileInfo // of those beside it, see restOf

	turn   chan struct{} // holds a value while a goroutine uses writer
	writer *session      // nil after Close
	queue  queue

	readers chan *session // those that are open and not in use
	room    chan struct{} // holds a value for each reader that is not open
	closed  chan struct{}
}

// Open opens the database at path, an absolute path, or makes an empty one. Only
// its owner may read the file. The error matches ErrBusy, ErrFull, ErrCorrupt,
// ErrNoLocks or ErrSettings where they apply.
func Open(ctx context.Context, path string, o Options) (*DB, error) {
	o.BusyTimeout, o.Readers = cmp.Or(o.BusyTimeout, 10*time.Second), cmp.Or(o.Readers, 4)
	d := &DB{
		path: path, busy: o.BusyTimeout,
		turn: make(chan struct{}, 1), readers: make(chan *session, o.Readers), room: make(chan struct{}, o.Readers), closed: make(chan struct{}),
	}
	for range o.Readers {
		d.room <- struct{}{}
	}
	if err := d.open(ctx); err != nil {
		if d.writer != nil {
			d.writer.close()
		}
		if d.pool != nil {
			d.pool.Close()
		}
		return nil, d.failed("open database", err)
	}
	return d, nil
}

func (d *DB) open(ctx context.Context) (err error) {
	if !filepath.IsAbs(d.path) {
		return errors.New("the path must be absolute")
	}
	info, err := os.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = create(ctx, d.path)
	case err == nil && !info.Mode().IsRegular():
		err = &fs.PathError{Op: "open", Path: d.path, Err: durable.ErrNoFile}
	case err == nil && info.Size() == 0:
		// SQLite would take it for a new database, and delete its -wal file.
		err = fmt.Errorf("%w: the file is empty", ErrCorrupt)
	}
	if err != nil {
		return err
	}
	if d.pool, err = driver.Open(nameOf(d.path), plansOnce); err != nil {
		return err
	}
	if d.writer, err = d.firstSession(ctx); err != nil {
		return err
	}
	if err := d.writer.exec(ctx, fmt.Sprint("PRAGMA busy_timeout = ", lockPoll.Milliseconds())); err != nil {
		return err
	}
	if d.file, err = os.Stat(d.path); err != nil {
		return err
	}
	// A read makes the -wal and the -shm file, if they are missing.
	var version int
	if err := d.writer.conn.QueryRowContext(ctx, "PRAGMA schema_version").Scan(&version); err != nil {
		return err
	}
	// SQLite makes the -shm file with the mode of the umask. It holds no rows.
	if err := os.Chmod(d.path+"-shm", durable.FileMode); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for i, path := range restOf(d.path) {
		if d.rest[i], err = os.Stat(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// restOf returns the paths of the files that SQLite keeps beside a database.
func restOf(path string) [2]string { return [2]string{path + "-wal", path + "-shm"} }

// RemoveRest removes what SQLite kept beside a database that is not there any more. Nobody
// may open it meanwhile.
func RemoveRest(path string) error {
	var errs []error
	for _, path := range restOf(path) {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Abandon closes a database whose file was removed or replaced (ErrMoved). It removes what
// is left beside it: SQLite would take it for a part of the new database. Where the file was
// only renamed, it has all that was committed. Nobody may open the new one meanwhile.
func (d *DB) Abandon() error {
	var errs []error
	d.turn <- struct{}{}
	if d.writer != nil && d.there() != nil {
		d.writer.exec(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)") // if it fails, readers of the former file go on
		for i, path := range restOf(d.path) {
			if now, err := os.Stat(path); err == nil && d.rest[i] != nil && os.SameFile(now, d.rest[i]) {
				errs = append(errs, os.Remove(path))
			}
		}
	}
	<-d.turn
	return errors.Join(append(errs, d.Close())...)
}

// create makes a database without tables. It is durable and whole, or not there, so
// an empty file is always a damaged one.
func create(ctx context.Context, path string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), durable.TempPrefix+"*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	temp.Close()
	pool, err := driver.Open(nameOf(temp.Name()))
	if err != nil {
		return err
	}
	// The first page. Of two processes that change the journal of an empty database at
	// once, SQLite lets one fail without waiting.
	_, err = pool.ExecContext(ctx, "PRAGMA journal_mode = wal; PRAGMA application_id = 0x4f544d")
	if err := errors.Join(err, pool.Close()); err != nil {
		return err
	}
	if err := durable.Move(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err // if the name is taken, another process was faster
	}
	return nil
}

// lockPoll bounds SQLite's own pauses while it waits for another process that writes:
// they grow to a tenth of a second, so the longest waiter would look least often.
// begin goes on waiting.
const lockPoll = 8 * time.Millisecond

// plansOnce makes a connection keep the plan of a prepared statement. By default, SQLite
// plans again for other parameters, which costs more than most of our queries.
func plansOnce(c *sqlite3.Conn) error {
	_, err := c.Config(sqlite3.DBCONFIG_ENABLE_QPSG, true)
	return err
}

// firstSession opens the first session of this process. While another process makes the
// same new database, SQLite refuses to switch to WAL at once, without waiting for the
// busy timeout: the switch begins as a read, and two that wait could never end.
func (d *DB) firstSession(ctx context.Context) (*session, error) {
	for deadline := time.Now().Add(d.busy); ; {
		s, err := openSession(ctx, d.pool, settingsOf(d.busy))
		if err == nil || kindOf(err) != ErrBusy || !time.Now().Before(deadline) {
			return s, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

// there reports whether the file that is open still has its name. If somebody removed or
// replaced it, what this process writes is lost with it.
func (d *DB) there() error {
	now, err := os.Stat(d.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, d.file) {
		return ErrMoved
	}
	return err
}

// nameOf returns the database's name as the driver wants it: a URI, because only
// that sets the mode of the -wal file.
func nameOf(path string) string {
	query := url.Values{"modeof": {path}}.Encode()
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: strings.ReplaceAll(query, "+", "%20")}
	return u.String()
}

// Close waits for the transactions that run, and closes the database.
func (d *DB) Close() error {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	if d.writer == nil {
		return nil
	}
	close(d.closed)
	var errs []error
	for range cap(d.readers) {
		select {
		case s := <-d.readers:
			errs = append(errs, s.close())
		case <-d.room:
		}
	}
	errs = append(errs, d.writer.close(), d.pool.Close())
	d.writer = nil
	return d.failed("close database", errors.Join(errs...))
}

// Read calls fn with a snapshot of the database: writes that end while fn runs do
// not show in it. The error of fn is returned.
func (d *DB) Read(ctx context.Context, fn func(*Tx) error) error {
	if err := d.there(); err != nil {
		return d.failed("read database", err)
	}
	s, err := d.reader(ctx)
	if err != nil {
		return d.failed("read database", causeOf(ctx, err))
	}
	defer func() { d.readers <- s }()
	if err := s.exec(ctx, "BEGIN"); err != nil {
		return d.failed("read database", causeOf(ctx, err))
	}
	defer s.exec(context.WithoutCancel(ctx), "ROLLBACK")
	return d.failedOwn("read database", fn(&Tx{ctx, s}))
}

// reader returns a session that is not in use. It opens one only if all that are open
// are in use: each takes a millisecond of CPU and some memory.
func (d *DB) reader(ctx context.Context) (*session, error) {
	select {
	case s := <-d.readers:
		return s, nil
	default:
	}
	select {
	case <-d.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case s := <-d.readers:
		return s, nil
	case <-d.room:
	}
	s, err := openSession(ctx, d.pool, append(settingsOf(d.busy), setting{"query_only", "1"}))
	if err != nil {
		d.room <- struct{}{}
	}
	return s, err
}

// Alone gives fn a pool with one connection, which has the settings of all others. Its
// transactions begin immediately. fn must not use the DB itself.
func (d *DB) Alone(ctx context.Context, fn func(*sql.DB) error) error {
	pool, err := driver.Open(nameOf(d.path)+"&_txlock=immediate", func(c *sqlite3.Conn) error {
		for _, p := range settingsOf(d.busy) {
			if err := c.Exec(fmt.Sprintf("PRAGMA %s = %s", p.name, p.value)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		pool.SetMaxOpenConns(1)
		err = errors.Join(fn(pool), pool.Close())
	}
	return d.failed("change database", err)
}

// Backup writes a copy of the database to a file that must not exist yet. The
// copy is durable and whole, or not there. Writers go on meanwhile.
func (d *DB) Backup(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return d.failed("back up database", errors.Join(err, fmt.Errorf("%q: %w", path, fs.ErrExist)))
	}
	temp := filepath.Join(filepath.Dir(path), durable.TempPrefix+filepath.Base(path))
	if err := d.backup(ctx, temp, path); err != nil {
		os.Remove(temp)
		return d.failed("back up database", causeOf(ctx, err))
	}
	return nil
}

func (d *DB) backup(ctx context.Context, temp, path string) error {
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.WriteNew(temp, nil); err != nil {
		return err
	}
	s, err := openSession(ctx, d.pool, settingsOf(d.busy))
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := s.conn.ExecContext(ctx, "VACUUM INTO ?", temp); err != nil {
		return err
	}
	return durable.Move(temp, path)
}
