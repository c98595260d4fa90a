package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"otm/internal/crash"
	"otm/internal/durable"
	"otm/internal/sqlite"
)

// boardReaders is how many calls may read at a time. Each has a connection with
// memory of its own.
const boardReaders = 2

// schemaVersion is the user_version of a database with this schema.
const schemaVersion = 1

// schema makes the tables. A list and a row are JSON; beside it stands what queries
// need, and the item as the API shows it.
var schema = []string{
	`CREATE TABLE lists (id TEXT PRIMARY KEY, list TEXT NOT NULL) STRICT`,
	`CREATE TABLE rows (
		seq      INTEGER PRIMARY KEY, -- in order of creation
		list     TEXT NOT NULL,
		id       TEXT NOT NULL,
		parent   TEXT NOT NULL,
		archived INTEGER NOT NULL,
		created  INTEGER NOT NULL,    -- Unix seconds
		num      INTEGER NOT NULL,
		item     TEXT NOT NULL,       -- before row, so that pages need not read that
		row      TEXT NOT NULL,
		UNIQUE (list, id)
	) STRICT`,
	`CREATE INDEX rows_listed ON rows (list, archived, created DESC, num DESC)`,
	`CREATE INDEX rows_below ON rows (list, parent)`,
	fmt.Sprintf(`PRAGMA user_version = %d`, schemaVersion),
}

// A store is the lists with their rows, in a database.
type store struct {
	db      *sqlite.DB
	opts    *Options
	changed func() // called after each change
	listID  string // of the default list
	decoded atomic.Pointer[decodedList]
}

// decodedList is the list that was last decoded, with its text: most calls are about one
// list, which seldom changes.
type decodedList struct {
	text string
	list *List
}

// decodeList returns the list of a text. Nobody may change it.
func (s *store) decodeList(text string) (*List, error) {
	if d := s.decoded.Load(); d != nil && d.text == text {
		return d.list, nil
	}
	l := new(List)
	if err := json.Unmarshal([]byte(text), l); err != nil {
		return nil, err
	}
	s.decoded.Store(&decodedList{text, l})
	return l, nil
}

// openStore opens the database in the directory of the options. A new one gets the
// rows of a former version, or the default list.
func openStore(o *Options, changed func()) (*store, error) {
	db, err := sqlite.Open(context.Background(), filepath.Join(o.Dir, rowsFile), sqlite.Options{Readers: boardReaders})
	if err != nil {
		return nil, corruptIf(err)
	}
	s := &store{db: db, opts: o, changed: func() {}}
	if err := s.prepare(); err != nil {
		db.Close()
		return nil, corruptIf(err)
	}
	s.changed = changed
	return s, nil
}

// corruptIf lets the error match ErrCorrupt if the database is corrupt.
func corruptIf(err error) error {
	if errors.Is(err, sqlite.ErrCorrupt) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

func (s *store) prepare() error {
	path := filepath.Join(s.opts.Dir, formerFile)
	former, err := durable.ReadFile(path)
	imports := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = s.do("", func(t *Tx) error {
		var version int
		t.one(&version, "PRAGMA user_version")
		switch {
		case version > schemaVersion:
			return fmt.Errorf("%q has version %d, this program knows %d: use a newer program", rowsFile, version, schemaVersion)
		case version == 0:
			for _, statement := range schema {
				t.exec(statement)
			}
			if !imports {
				t.PutList(newDefaultList(s.opts.Assignees))
			} else if err := importFormer(t, path, former); err != nil {
				return err
			}
		}
		if !t.one(&s.listID, "SELECT id FROM lists WHERE list ->> 'default'") && t.err == nil {
			return fmt.Errorf("%w: %q has no default list", ErrCorrupt, rowsFile)
		}
		return t.err
	})
	if err != nil || !imports {
		return err
	}
	// If we crash here, the next open finds the rows imported, and only renames.
	crash.Point("board.imported")
	return durable.Move(path, path+".before-sqlite")
}

// do runs fn as a transaction of the actor, and returns when its changes are
// durable, or when it failed without any. fn may run twice, and must then hand out
// the second result.
func (s *store) do(actor string, fn func(*Tx) error) error {
	changed := false
	err := s.db.Write(context.Background(), func(q *sqlite.Tx) error {
		t := s.newTx(q, actor)
		err := t.run(fn)
		changed = t.changed
		return err
	})
	if err == nil && changed {
		s.changed()
	}
	return closedIf(err)
}

// view calls fn with a snapshot of the store, in which it must change nothing.
func (s *store) view(fn func(*Tx) error) error {
	return closedIf(s.db.Read(context.Background(), func(q *sqlite.Tx) error { return s.newTx(q, "").run(fn) }))
}

func closedIf(err error) error {
	if errors.Is(err, sqlite.ErrClosed) {
		return ErrClosed
	}
	return err
}

func (s *store) close() error { return s.db.Close() }
