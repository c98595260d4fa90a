package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	gooselock "github.com/pressly/goose/v3/lock"

	"otm/internal/crash"
	"otm/internal/lock"
	"otm/internal/sqlite"
)

// tx runs statements in one transaction. Parameters are written $1, $2 in the order
// of their first appearance: so SQLite numbers them.
type tx interface {
	Exec(query string, args ...any) (sql.Result, error)
	Query(query string, args ...any) (*sql.Rows, error)
	QueryRow(query string, args ...any) *sql.Row
}

// durability is what a change survives.
type durability bool

const (
	synced   durability = true  // a power failure
	unsynced durability = false // the end of the process; a power failure may undo it
)

// engine is a database: what SQLite and PostgreSQL do differently.
type engine interface {
	// write runs fn in a transaction, which it undoes if fn fails. fn may run again.
	write(ctx context.Context, d durability, fn func(tx) error) error
	// read runs fn on a snapshot.
	read(ctx context.Context, fn func(tx) error) error
	// forUpdate ends a query whose rows stay as they are until the transaction ends.
	forUpdate() string
	// hasTable is a query for the number of tables of a name.
	hasTable() string
	// hold keeps other processes from migrating until close or migrate.
	hold(ctx context.Context) error
	// migrate runs the migrations that the database lacks, while no other process uses it.
	migrate(ctx context.Context, steps goose.ProviderOption) error
	// ddl translates the text of a migration.
	ddl(text string) string
	// copyTo copies the database to a file that must not exist yet.
	copyTo(ctx context.Context, path string) error
	// backup copies the tables of states, and returns where the copy is.
	backup(ctx context.Context, stamp string) (string, error)
	close() error
}

// sqliteEngine is SQLite. A transaction that writes is alone from its begin.
type sqliteEngine struct {
	db        *sqlite.DB
	dir, path string
	schema    *lock.Lock // shared; nil while this process migrates
}

// openSQLite opens the database at path, or makes it. One process at a time does so while
// the file is missing, or, in place of lost, was replaced: what is left of the former
// database must not become a part of the new one.
func openSQLite(ctx context.Context, dir, path string, o Options, lost engine) (engine, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || lost != nil {
		alone, err := lock.Acquire(ctx, newLock(dir), migrateWait)
		if err != nil {
			return nil, err
		}
		defer alone.Release()
		if old, ok := lost.(*sqliteEngine); ok {
			err = errors.Join(old.db.Abandon(), old.release())
		} else if _, absent := os.Stat(path); errors.Is(absent, fs.ErrNotExist) {
			err = sqlite.RemoveRest(path)
		}
		if err != nil {
			return nil, err
		}
	}
	db, err := sqlite.Open(ctx, path, sqlite.Options{BusyTimeout: o.BusyTimeout})
	if err != nil {
		return nil, err
	}
	return &sqliteEngine{db: db, dir: dir, path: path}, nil
}

// newLock is the lock of who makes a database.
func newLock(dir string) string { return filepath.Join(dir, "locks", "new-store") }

func (e *sqliteEngine) write(ctx context.Context, d durability, fn func(tx) error) error {
	if d == unsynced {
		return e.db.WriteUnsynced(ctx, func(t *sqlite.Tx) error { return fn(t) })
	}
	return e.db.Write(ctx, func(t *sqlite.Tx) error { return fn(t) })
}

func (e *sqliteEngine) read(ctx context.Context, fn func(tx) error) error {
	return e.db.Read(ctx, func(t *sqlite.Tx) error { return fn(t) })
}

func (e *sqliteEngine) forUpdate() string { return "" }

func (e *sqliteEngine) hasTable() string {
	return "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = $1"
}

func (e *sqliteEngine) hold(ctx context.Context) (err error) {
	if e.schema != nil {
		return nil
	}
	e.schema, err = lock.AcquireShared(ctx, e.schemaLock(), migrateWait)
	return err
}

func (e *sqliteEngine) migrate(ctx context.Context, steps goose.ProviderOption) error {
	if empty, err := e.isEmpty(ctx); empty || err != nil {
		if err == nil {
			err = e.fill(ctx, steps)
		}
		return err
	}
	if err := e.release(); err != nil {
		return err
	}
	alone, err := lock.Acquire(ctx, e.schemaLock(), migrateTry)
	if _, ok := errors.AsType[*lock.HeldError](err); ok {
		return &SharedError{Name: e.path, Err: err}
	}
	if err != nil {
		return err
	}
	defer alone.Release()
	return e.up(ctx, steps)
}

// fill makes the tables of an empty database. Nobody uses it yet: who holds the lock of the
// schema has opened a former file, which somebody removed.
func (e *sqliteEngine) fill(ctx context.Context, steps goose.ProviderOption) error {
	alone, err := lock.Acquire(ctx, newLock(e.dir), migrateWait)
	if err != nil {
		return err
	}
	defer alone.Release()
	if empty, err := e.isEmpty(ctx); !empty || err != nil {
		return err // another process was first
	}
	return e.up(ctx, steps)
}

func (e *sqliteEngine) isEmpty(ctx context.Context) (empty bool, err error) {
	err = e.read(ctx, func(t tx) error {
		return t.QueryRow("SELECT NOT EXISTS (SELECT 1 FROM sqlite_master)").Scan(&empty)
	})
	return empty, err
}

func (e *sqliteEngine) up(ctx context.Context, steps goose.ProviderOption) error {
	return e.db.Alone(ctx, func(db *sql.DB) error { return up(ctx, goose.DialectSQLite3, db, steps) })
}

func (e *sqliteEngine) schemaLock() string { return filepath.Join(e.dir, "locks", "schema") }

func (e *sqliteEngine) release() error {
	if e.schema == nil {
		return nil
	}
	err := e.schema.Release()
	e.schema = nil
	return err
}

// ddl makes tables strict. INTEGER is what a strict table has, and what the key of a
// row must be to need no index.
func (e *sqliteEngine) ddl(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "BIGINT", "INTEGER"), "\n);", "\n) STRICT;")
}

func (e *sqliteEngine) backup(ctx context.Context, stamp string) (string, error) {
	path := strings.TrimSuffix(e.path, ".db") + "-" + stamp + ".db"
	return path, e.copyTo(ctx, path)
}

func (e *sqliteEngine) copyTo(ctx context.Context, path string) error { return e.db.Backup(ctx, path) }

func (e *sqliteEngine) close() error { return errors.Join(e.db.Close(), e.release()) }

// postgres is PostgreSQL. Transactions run side by side: those of the same tasks wait
// for each other by the locks of forUpdate, and all that have events by the row of the
// counter.
type postgres struct{ pool *sql.DB }

// Timeouts of PostgreSQL, so that no transaction of ours holds another up for long.
const (
	lockTimeout = "10s"
	idleTimeout = "60s"
	maxTries    = 20 // of a transaction that met another one
	maxOpen     = 8  // connections
	maxIdle     = 4  // of them, those that wait for use
)

func openPostgres(o Options) (e *postgres, name string, err error) {
	c, err := pgx.ParseConfig(o.URL)
	if err != nil {
		return nil, "", err
	}
	c.RuntimeParams["lock_timeout"] = lockTimeout
	c.RuntimeParams["statement_timeout"] = idleTimeout
	c.RuntimeParams["idle_in_transaction_session_timeout"] = idleTimeout
	pool := stdlib.OpenDB(*c)
	pool.SetMaxOpenConns(maxOpen)
	pool.SetMaxIdleConns(maxIdle)
	name = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
	return &postgres{pool}, name, nil
}

func (e *postgres) write(ctx context.Context, d durability, fn func(tx) error) error {
	return withKind(e.retry(ctx, d, fn))
}

func (e *postgres) retry(ctx context.Context, d durability, fn func(tx) error) error {
	for try := 1; ; try++ {
		err := e.transact(ctx, nil, func(t tx) error {
			if d == unsynced {
				if _, err := t.Exec("SET LOCAL synchronous_commit = off"); err != nil {
					return err
				}
			}
			return fn(t)
		})
		if !isConcurrent(err) || try == maxTries {
			return err
		}
		pause := time.Duration(rand.Int64N(int64(try) * int64(5*time.Millisecond)))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func (e *postgres) read(ctx context.Context, fn func(tx) error) error {
	return withKind(e.transact(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}, fn))
}

func (e *postgres) transact(ctx context.Context, o *sql.TxOptions, fn func(tx) error) error {
	t, err := e.pool.BeginTx(ctx, o)
	for i := 0; i < maxIdle && errors.Is(withKind(err), ErrAway); i++ {
		t, err = e.pool.BeginTx(ctx, o) // the server restarted: connections that waited are of no use
	}
	if err != nil {
		return err
	}
	defer t.Rollback() // also if fn panics
	if err := fn(postgresTx{ctx, t}); err != nil {
		return err
	}
	// If we crash here, nothing has happened, or nobody has the answer.
	crash.Point("store.commit")
	return t.Commit()
}

// isConcurrent reports whether a transaction failed because of another one, and may
// succeed when it runs again.
func isConcurrent(err error) bool {
	var e *pgconn.PgError
	// https://www.postgresql.org/docs/15/errcodes-appendix.html: serialization failure,
	// deadlock, both inserted the same row
	return errors.As(err, &e) && slices.Contains([]string{"40001", "40P01", "23505"}, e.Code)
}

// withKind gives an error of PostgreSQL its kind, as internal/sqlite does.
func withKind(err error) error {
	var e *pgconn.PgError
	var connect *pgconn.ConnectError
	var network net.Error
	var kind error
	switch {
	case errors.As(err, &e):
		switch e.Code {
		case "55P03", "57014", "53300": // no lock in time, statement timeout, too many connections
			kind = sqlite.ErrBusy
		case "53100":
			kind = sqlite.ErrFull
		case "57P01", "57P02", "57P03", "25P03": // it stops, or starts, or ended our session
			kind = ErrAway
		case "XX001", "XX002":
			kind = sqlite.ErrCorrupt
		}
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, driver.ErrBadConn):
		kind = ErrAway
	}
	if kind == nil {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

func (e *postgres) forUpdate() string { return " FOR UPDATE" }

func (e *postgres) hasTable() string {
	return "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = $1"
}

// hold does nothing: PostgreSQL's own locks keep a migration and a transaction apart.
func (e *postgres) hold(context.Context) error { return nil }

func (e *postgres) migrate(ctx context.Context, steps goose.ProviderOption) error {
	locker, err := gooselock.NewPostgresSessionLocker(gooselock.WithLockTimeout(1, uint64(migrateWait/time.Second)))
	if err != nil {
		return err
	}
	return withKind(up(ctx, goose.DialectPostgres, e.pool, steps, goose.WithSessionLocker(locker)))
}

func (e *postgres) ddl(text string) string { return text }

func (e *postgres) backup(ctx context.Context, stamp string) (string, error) {
	suffix := "_before_" + strings.NewReplacer("-", "_", ".", "_").Replace(stamp)
	return "the tables whose names end with " + suffix, e.write(ctx, synced, func(t tx) error {
		for _, b := range derived {
			if _, err := t.Exec("CREATE TABLE " + b.name + suffix + " AS TABLE " + b.name); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *postgres) copyTo(context.Context, string) error { return ErrNoFile }

func (e *postgres) close() error { return e.pool.Close() }

// postgresTx runs statements of one transaction.
type postgresTx struct {
	ctx context.Context
	tx  *sql.Tx
}

func (t postgresTx) Exec(query string, args ...any) (sql.Result, error) {
	return t.tx.ExecContext(t.ctx, query, args...)
}

func (t postgresTx) Query(query string, args ...any) (*sql.Rows, error) {
	return t.tx.QueryContext(t.ctx, query, args...)
}

func (t postgresTx) QueryRow(query string, args ...any) *sql.Row {
	return t.tx.QueryRowContext(t.ctx, query, args...)
}
