package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
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

// migration is a numbered change of the schema, such as 0001_engine.sql.
type migration struct {
	number int64
	text   string
}

func migrationsOf(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []migration
	for _, name := range names {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s has no number: %w", name, err)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		all = append(all, migration{n, string(text)})
	}
	return all, nil
}

// migrate brings the schema up to date, and has it stay as it is until the engine is
// closed. name is that of the database. A schema that is newer than this program is a *NewerError; a *SharedError says
// that programs of an older version run.
func migrate(ctx context.Context, db engine, name string) error {
	known, err := migrationsOf(migrationFiles)
	if err != nil {
		return err
	}
	latest := known[len(known)-1].number
	for end := time.Now().Add(migrateWait); ; {
		if err := db.hold(ctx); err != nil {
			return err
		}
		found, err := schemaVersion(ctx, db)
		switch {
		case err != nil:
			return err
		case found > latest:
			return &NewerError{Name: name, Found: found, Known: latest}
		case found == latest:
			return nil
		}
		err = db.migrate(ctx, gooseSteps(db, known))
		if _, ok := errors.AsType[*SharedError](err); ok && time.Now().Before(end) {
			continue
		}
		if err != nil {
			return err
		}
	}
}

// gooseSteps gives the migrations to goose, as functions.
func gooseSteps(db engine, known []migration) goose.ProviderOption {
	var steps []*goose.Migration
	for _, m := range known {
		steps = append(steps, goose.NewGoMigration(m.number, &goose.GoFunc{RunTx: func(ctx context.Context, t *sql.Tx) error {
			_, err := t.ExecContext(ctx, db.ddl(m.text))
			return err
		}}, nil))
	}
	return goose.WithGoMigrations(steps...)
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
