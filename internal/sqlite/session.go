package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// A session is one connection with the statements that it has prepared. One
// goroutine at a time uses it.
type session struct {
	conn     *sql.Conn
	stmts    map[string]*sql.Stmt
	unsynced bool // its commits are not synced
}

// sync sets whether the commits of the session are synced.
func (s *session) sync(ctx context.Context, synced bool) error {
	if synced == !s.unsynced {
		return nil
	}
	if !synced {
		s.unsynced = true // also if it fails: the level is set again
		return s.exec(ctx, "PRAGMA synchronous = NORMAL")
	}
	err := s.exec(ctx, "PRAGMA synchronous = FULL")
	s.unsynced = err != nil
	return err
}

// openSession connects, and checks that the connection's settings hold.
func openSession(ctx context.Context, pool *sql.DB, settings []setting) (*session, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, stmts: make(map[string]*sql.Stmt)}
	for _, p := range settings {
		if err = s.exec(ctx, fmt.Sprintf("PRAGMA %s = %s", p.name, p.value)); err != nil {
			break
		}
	}
	if err == nil {
		err = s.check(ctx, settings)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// A setting is a pragma with the value that it reads back as.
type setting struct{ name, value string }

// settingsOf are the settings of every connection. The busy timeout comes first,
// because the change of the journal mode may have to wait.
func settingsOf(busy time.Duration) []setting {
	all := []setting{
		{"busy_timeout", fmt.Sprint(busy.Milliseconds())},
		{"journal_mode", "wal"},
		{"synchronous", "2"}, // FULL
		{"foreign_keys", "1"},
	}
	if runtime.GOOS == "darwin" { // where fsync leaves data in the disk's cache
		all = append(all, setting{"fullfsync", "1"}, setting{"checkpoint_fullfsync", "1"})
	}
	return all
}

// check reads the settings back. SQLite ignores a setting that it does not know
// or cannot use, without an error.
func (s *session) check(ctx context.Context, settings []setting) error {
	for _, p := range settings {
		var got string
		if err := s.conn.QueryRowContext(ctx, "PRAGMA "+p.name).Scan(&got); err != nil {
			return fmt.Errorf("read back %s: %w", p.name, err)
		}
		if !strings.EqualFold(got, p.value) {
			return fmt.Errorf("%w: %s is %s, and must be %s", ErrSettings, p.name, got, p.value)
		}
	}
	return nil
}

func (s *session) exec(ctx context.Context, statement string) error {
	_, err := s.conn.ExecContext(ctx, statement)
	return err
}

// prepare returns the statement of the query, prepared once a session.
func (s *session) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt := s.stmts[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(ctx, query)
	if err == nil {
		s.stmts[query] = stmt
	}
	return stmt, err
}

func (s *session) close() error {
	for _, stmt := range s.stmts {
		stmt.Close()
	}
	return s.conn.Close()
}

// A Tx runs statements in the transaction of one Write or one Read. It is valid
// until the function that got it returns. Statements are kept prepared, so a query
// must not be built from values, and its rows must be closed before it runs again.
type Tx struct {
	ctx     context.Context
	session *session
}

// Exec runs a statement.
func (t *Tx) Exec(query string, args ...any) (sql.Result, error) {
	stmt, err := t.session.prepare(t.ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(t.ctx, args...)
}

// Query runs a statement that returns rows. The caller closes them.
func (t *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	stmt, err := t.session.prepare(t.ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(t.ctx, args...)
}

// QueryRow runs a statement that returns at most one row. The error of Scan
// matches sql.ErrNoRows if there is none.
func (t *Tx) QueryRow(query string, args ...any) *sql.Row {
	stmt, err := t.session.prepare(t.ctx, query)
	if err != nil {
		return t.session.conn.QueryRowContext(t.ctx, query, args...) // has the same error
	}
	return stmt.QueryRowContext(t.ctx, args...)
}
