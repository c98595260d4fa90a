package store

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"otm/core"
	"otm/internal/sqlite"
	"otm/pipeline"
)

// FileName is the name of the SQLite database in the data directory.
const FileName = "otm.db"

// Options configures Open. The zero value works.
type Options struct {
	// BusyTimeout is how long a change waits for other writers before it fails with
	// an error that matches sqlite.ErrBusy. If zero, 10 seconds.
	BusyTimeout time.Duration

	// URL names a PostgreSQL database, such as postgres://otm@db.example/otm, which is used
	// instead of otm.db.
	URL string
	// Machine names the machine; "" is this one.
	Machine string
	// Moved says that a store which was used elsewhere moved here.
	Moved bool
	// Absence is how long this process waits after somebody removed otm.db, before it makes
	// a new one: a backup may be on its way. If zero, 10 seconds.
	Absence time.Duration
	// Reopened is called after the database was opened anew, because somebody removed or
	// replaced otm.db. nil: nobody cares.
	Reopened func(context.Context, *Store)
}

// Store keeps events, states and the outbox. Its methods may be called from any
// goroutine, and by several processes at once.
type Store struct {
	dir     string
	options Options
	name    string // of the database, for errors
	live    liveTasks

	mu   sync.Mutex // guards what follows
	db   engine
	id   string
	lost error     // somebody removed or replaced the file of db; nil: no
	when time.Time // that was noticed
}

var (
	_ core.Store  = (*Store)(nil)
	_ core.Outbox = (*Store)(nil)
)

// Open opens the store of a data directory, an absolute path, or makes it. It brings an
// older schema up to date. Errors are those of the methods, a *NewerError and a
// *datadir.MovedError.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	o.Absence = cmp.Or(o.Absence, 10*time.Second)
	return openStore(ctx, dir, o, nil)
}

// openStore opens a store. lost is its database until now, if somebody removed or replaced its
// file.
func openStore(ctx context.Context, dir string, o Options, lost engine) (*Store, error) {
	s := &Store{dir: dir, options: o, name: filepath.Join(dir, FileName), live: liveTasks{turn: make(chan struct{}, 1)}}
	var err error
	if o.URL == "" {
		s.db, err = openSQLite(ctx, dir, s.name, o, lost)
	} else {
		s.db, s.name, err = openPostgres(o)
	}
	if err != nil {
		return nil, explain(err, s.name)
	}
	if err = migrate(ctx, s.db, s.name); err == nil {
		err = identify(ctx, s, dir, o)
	}
	if err != nil {
		return nil, errors.Join(explain(err, s.name), s.db.close())
	}
	return s, nil
}

// use calls f with the database. It is opened anew after somebody removed or replaced its
// file: at once if the new file is old, else it may still be written to.
func (s *Store) use(ctx context.Context, f func(engine) error) error {
	for {
		db, anew, err := s.engine(ctx)
		if err != nil {
			return err
		}
		if anew && s.options.Reopened != nil {
			s.options.Reopened(ctx, s)
		}
		err = explain(f(db), s.name)
		if !errors.Is(err, sqlite.ErrMoved) && !errors.Is(err, sqlite.ErrClosed) {
			return err
		}
		s.mu.Lock()
		if s.db == db && s.lost == nil && errors.Is(err, sqlite.ErrMoved) {
			s.lost, s.when = err, time.Now()
		}
		again := errors.Is(err, sqlite.ErrClosed) && (s.db != db || s.lost != nil) // another goroutine closes it
		s.mu.Unlock()
		if !again {
			return err
		}
	}
}

// engine returns the database, and whether this call opened it anew.
func (s *Store) engine(ctx context.Context) (db engine, anew bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		return s.db, false, nil
	}
	if time.Since(s.when) < s.options.Absence {
		if info, err := os.Stat(s.name); errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(info.ModTime()).Abs() < s.options.Absence {
			return nil, false, s.lost
		}
	}
	again, err := openStore(ctx, s.dir, s.options, s.db)
	if err != nil {
		return nil, false, err
	}
	s.db, s.id, s.lost = again.db, again.id, nil
	return s.db, true, nil
}

// Close waits for the transactions that run, and closes the database.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.db.close()
}

// ID identifies the store: no two have the same, but for copies, see Place.
func (s *Store) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Differs is Check in words.
func (s *Store) Differs(ctx context.Context) ([]string, error) {
	found, err := Check(ctx, s)
	return pipeline.Map(found, Difference.String), err
}
