// Package pgtest gives tests a PostgreSQL of their own: see make store-all.
package pgtest

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
)

// Schema is an empty schema of a test's own.
type Schema struct {
	// URL names it for one who uses it.
	URL string

	name   string
	dir    string // of the server's socket
	socket string // the link to dir that URL names
}

// New makes a schema. The test is skipped if nobody started PostgreSQL.
func New(t testing.TB) *Schema {
	t.Helper()
	base := os.Getenv("OTM_TEST_POSTGRES")
	if base == "" {
		t.Skip("needs PostgreSQL: make store-all starts one")
	}
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pg") // the path of a socket has 108 bytes at most: unix(7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Schema{name: "test_" + strings.ToLower(rand.Text()), dir: u.Query().Get("host"), socket: filepath.Join(dir, "pg")}
	if err := errors.Join(exec("CREATE SCHEMA "+s.name), s.Back()); err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("host", s.socket)
	q.Set("search_path", s.name)
	q.Set("application_name", s.name)
	u.RawQuery = q.Encode()
	s.URL = u.String()
	return s
}

// End ends all connections of those who use the schema, as a restart of the server does.
func (s *Schema) End() error {
	return exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = $1", s.name)
}

// Away takes the server away from those who use the schema, until Back.
func (s *Schema) Away() error { return errors.Join(os.Remove(s.socket), s.End()) }

// Back ends what Away began.
func (s *Schema) Back() error { return os.Symlink(s.dir, s.socket) }

func exec(query string, args ...any) error {
	db, err := sql.Open("pgx", os.Getenv("OTM_TEST_POSTGRES"))
	if err != nil {
		return err
	}
	_, err = db.Exec(query, args...)
	return errors.Join(err, db.Close())
}
