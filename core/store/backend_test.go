package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
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
		test(t, func() *Store { return opened(t)(Open(context.Background(), dir, Options{BusyTimeout: time.Minute})) })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		dsn := schemaURL(t)
		test(t, func() *Store { return opened(t)(OpenURL(context.Background(), dsn, Options{})) })
	})
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
	db, err := openPostgres(base, Options{})
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
