package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrateWait is how long a process waits for others: for one that migrates, or for those
// that use the schema which it is to migrate.
const migrateWait = 10 * time.Second

// migrateTry is how long a process waits to be alone before it reads the version of the
// schema again: another one may have migrated.
const migrateTry = time.Second

// migrations returns the numbered changes of the schema, such as 0001_engine.sql, in their
// order.
func migrations(db engine) (all []*goose.Migration, err error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	for _, name := range names {
		number, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("migration %s has no number: %w", name, err)
		}
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, goose.NewGoMigration(number, &goose.GoFunc{RunTx: func(ctx context.Context, t *sql.Tx) error {
			_, err := t.ExecContext(ctx, db.ddl(string(text)))
			return err
		}}, nil))
	}
	return all, err
}

// migrate brings the schema up to date, and has it stay as it is until the engine is
// closed. name is that of the database. A schema that is newer than this program is a
// *NewerError; a *SharedError says that programs of an older version run.
func migrate(ctx context.Context, db engine, name string) error {
	for end := time.Now().Add(migrateWait); ; {
		known, err := migrations(db)
		if err == nil {
			err = db.hold(ctx)
		}
		if err != nil {
			return err
		}
		latest := known[len(known)-1].Version
		found, err := schemaVersion(ctx, db)
		switch {
		case err != nil:
			return err
		case found > latest:
			return &NewerError{Name: name, Found: found, Known: latest}
		case found == latest:
			return nil
		}
		err = db.migrate(ctx, goose.WithGoMigrations(known...))
		if _, ok := errors.AsType[*SharedError](err); ok && time.Now().Before(end) {
			continue
		}
		if err != nil {
			return err
		}
	}
}

// up runs the migrations that a database lacks.
func up(ctx context.Context, dialect goose.Dialect, pool *sql.DB, options ...goose.ProviderOption) error {
	p, err := goose.NewProvider(dialect, pool, nil, append(options, goose.WithDisableGlobalRegistry(true))...)
	if err == nil {
		_, err = p.Up(ctx)
	}
	return err
}

// schemaVersion returns the number of the last migration; 0: the database is empty.
func schemaVersion(ctx context.Context, db engine) (n int64, err error) {
	err = db.read(ctx, func(t tx) error {
		var tables int
		if err := t.QueryRow(db.hasTable(), goose.DefaultTablename).Scan(&tables); err != nil || tables == 0 {
			return err
		}
		return t.QueryRow("SELECT coalesce(max(version_id), 0) FROM " + goose.DefaultTablename).Scan(&n)
	})
	return n, err
}
