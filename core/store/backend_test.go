package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"otm/internal/leak"
)

func TestMain(m *testing.M) {
	if os.Getenv(placeEnv) != "" {
		if err := runProcess(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(leak.Main(m))
}

// postgresEnv is the URL of a PostgreSQL database that tests may fill: make store-all.
const postgresEnv = "OTM_TEST_POSTGRES"

// onEach runs a test on SQLite and on PostgreSQL. open opens the same database each time
// that it is called, as another process would.
func onEach(t *testing.T, test func(t *testing.T, open func() *Store)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		test(t, func() *Store { return opened(t)(openPlace(context.Background(), dir)) })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		dir := postgresDir(t)
		test(t, func() *Store { return opened(t)(openPlace(context.Background(), dir)) })
	})
}

// urlFile holds the URL of the database that is used in a directory, if it is not SQLite.
const urlFile = "url"

// postgresDir returns a directory whose store is in PostgreSQL.
func postgresDir(t testing.TB) string {
	dir, dsn := t.TempDir(), schemaURL(t)
	if err := os.WriteFile(filepath.Join(dir, urlFile), []byte(dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// openPlace opens the store of a directory.
func openPlace(ctx context.Context, dir string) (*Store, error) {
	dsn, err := os.ReadFile(filepath.Join(dir, urlFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return Open(ctx, dir, Options{BusyTimeout: time.Minute, URL: string(dsn)})
}

func opened(t testing.TB) func(*Store, error) *Store {
	return func(s *Store, err error) *Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
}

// schemaURL returns the URL of an empty schema of the test's own.
func schemaURL(t testing.TB) string {
	t.Helper()
	base := os.Getenv(postgresEnv)
	if base == "" {
		t.Skip("needs PostgreSQL: make store-all starts one")
	}
	db, _, err := openPostgres(Options{URL: base})
	if err != nil {
		t.Fatal(err)
	}
	defer db.close()
	schema := "test_" + strings.ToLower(rand.Text())
	if _, err := db.pool.Exec("CREATE SCHEMA " + schema); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", schema)
	q.Set("application_name", schema) // see TestServerRestarts
	u.RawQuery = q.Encode()
	return u.String()
}
