package store

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"

	"github.com/pressly/goose/v3"

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
	name() string // for errors
	// write runs fn in a transaction, which it undoes if fn fails. fn may run again.
	write(ctx context.Context, d durability, fn func(tx) error) error
	// read runs fn on a snapshot.
	read(ctx context.Context, fn func(tx) error) error
	// forUpdate ends a query whose rows stay as they are until the transaction ends.
	forUpdate() string
	// hasTable is a query for the number of tables of a name.
	hasTable() string
	// migrations gives fn what goose needs, while no other process migrates.
	migrations(ctx context.Context, fn func(goose.Dialect, *sql.DB) error) error
	// ddl translates the text of a migration.
	ddl(text string) string
	// backup writes a copy, and returns where it is.
	backup(ctx context.Context, stamp string) (string, error)
	close() error
}

// sqliteEngine is SQLite. A transaction that writes is alone from its begin.
type sqliteEngine struct {
	db        *sqlite.DB
	dir, path string
}

func (e *sqliteEngine) name() string { return e.path }

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

func (e *sqliteEngine) migrations(ctx context.Context, fn func(goose.Dialect, *sql.DB) error) error {
	l, err := lock.Acquire(ctx, filepath.Join(e.dir, "locks", "schema"), migrateWait)
	if err != nil {
		return err
	}
	defer l.Release()
	return e.db.Alone(ctx, func(db *sql.DB) error { return fn(goose.DialectSQLite3, db) })
}

// ddl makes tables strict. INTEGER is what a strict table has, and what the key of a
// row must be to need no index.
func (e *sqliteEngine) ddl(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "BIGINT", "INTEGER"), "\n);", "\n) STRICT;")
}

func (e *sqliteEngine) backup(ctx context.Context, stamp string) (string, error) {
	path := strings.TrimSuffix(e.path, ".db") + "-" + stamp + ".db"
	return path, e.db.Backup(ctx, path)
}

func (e *sqliteEngine) close() error { return e.db.Close() }
