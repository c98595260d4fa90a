// Package storetest opens stores for the tests of other packages.
package storetest

import (
	"context"
	"testing"
	"time"

	"otm/core/store"
)

// Open opens a store in a directory of the test, and closes it at its end.
func Open(t testing.TB) *store.Store {
	t.Helper()
	return OpenIn(t, t.TempDir())
}

// OpenIn opens the store of a directory, as a program does when it starts.
func OpenIn(t testing.TB, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), dir, store.Options{BusyTimeout: time.Minute})
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
