package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"otm/core/store/pgtest"
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
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, urlFile), []byte(pgtest.New(t).URL), 0o600); err != nil {
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
