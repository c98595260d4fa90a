package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"time"

	"otm/core"
	"otm/internal/durable"
	"otm/internal/sqlite"
)

// FileName is the name of the SQLite database in the data directory.
const FileName = "otm.db"

// Options configures Open. The zero value works.
type Options struct {
	// BusyTimeout is how long a change waits for other writers before it fails with
	// an error that matches sqlite.ErrBusy. If zero, 10 seconds.
	BusyTimeout time.Duration

	// Readers is how many goroutines may read at a time; others wait. If zero, 4.
	Readers int
}

// Store keeps events, states and the outbox. Its methods may be called from any
// goroutine, and by several processes at once.
type Store struct {
	db engine
	id string
}

var (
	_ core.Store  = (*Store)(nil)
	_ core.Outbox = (*Store)(nil)
)

// Open opens the SQLite database of a data directory, an absolute path, or makes it.
// It brings an older schema up to date. Errors are those of the methods, and a
// *NewerError.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	path := filepath.Join(dir, FileName)
	db, err := sqlite.Open(ctx, path, sqlite.Options{BusyTimeout: o.BusyTimeout, Readers: o.Readers})
	if err != nil {
		return nil, explain(err, path)
	}
	return start(ctx, &sqliteEngine{db: db, dir: dir, path: path})
}

// OpenURL opens the store in a PostgreSQL database, such as
// postgres://otm@db.example/otm. The tables are made if they are missing.
func OpenURL(ctx context.Context, url string, o Options) (*Store, error) {
	db, err := openPostgres(url, o)
	if err != nil {
		return nil, err
	}
	return start(ctx, db)
}

func start(ctx context.Context, db engine) (*Store, error) {
	s := &Store{db: db}
	err := migrate(ctx, db)
	if err == nil {
		err = s.identify(ctx)
	}
	if err != nil {
		return nil, errors.Join(explain(err, db.name()), db.close())
	}
	return s, nil
}

// Close waits for the transactions that run, and closes the database.
func (s *Store) Close() error { return s.db.close() }

// ID identifies the store: no two have the same, but for copies.
func (s *Store) ID() string { return s.id }

// identify reads the store's id. A new store gets one, and notes where it was made.
func (s *Store) identify(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		host = "" // it is only a note
	}
	booted := "boot " + host // each machine that uses the store has its own
	var boot string
	if s.id, err = s.meta(ctx, "id"); err != nil {
		return err
	}
	if boot, err = s.meta(ctx, booted); err != nil || s.id != "" && boot == durable.BootID() {
		return err
	}
	err = s.write(ctx, synced, func(t tx) error {
		for key, value := range map[string]string{"id": rand.Text(), "host": host} {
			if _, err := t.Exec("INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING", key, value); err != nil {
				return err
			}
		}
		_, err := t.Exec("INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value", booted, durable.BootID())
		if err != nil {
			return err
		}
		return renderAll(t)
	})
	if err == nil {
		s.id, err = s.meta(ctx, "id") // another process may have been first
	}
	return err
}

// renderAll has the renderings of live tasks written again: they are not synced, and
// the machine may have lost some when it stopped.
func renderAll(t tx) error {
	_, err := t.Exec(`INSERT INTO outbox (task, sink, place, wanted, since, due, tries, asked_at, code, error, lease_owner, lease_until)
		SELECT id, CAST($1 AS TEXT), 0, version, CAST($2 AS BIGINT), 0, 0, 0, '', '', '', 0 FROM tasks WHERE live = 1
		ON CONFLICT (task, sink) DO UPDATE SET wanted = excluded.wanted, due = 0`, string(core.SinkRender), fromTime(time.Now()))
	return err
}

// meta returns a value of the table meta; "" if it has none.
func (s *Store) meta(ctx context.Context, key string) (value string, err error) {
	err = s.read(ctx, func(t tx) error {
		err := t.QueryRow("SELECT value FROM meta WHERE key = $1", key).Scan(&value)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return value, err
}
