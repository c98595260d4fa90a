package store

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"otm/core"
	"otm/core/store/pgtest"
	"otm/internal/datadir"
)

// A store stays the same when its directory is renamed, when store.json or the database is
// lost, and when several processes make it.
func TestPlaceStays(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	id := idIn(t, dir, Options{})
	renamed := dir + "-renamed"
	link := dir + "-link"
	for _, change := range []struct {
		name string
		do   func() error
		dir  string
	}{
		{"opened again", func() error { return nil }, dir},
		{"renamed", func() error { return os.Rename(dir, renamed) }, renamed},
		{"through a link", func() error { return os.Symlink(renamed, link) }, link},
		{"file lost", func() error { return os.Remove(filepath.Join(renamed, datadir.File)) }, renamed},
		{"file damaged", func() error { return os.WriteFile(filepath.Join(renamed, datadir.File), []byte("{"), 0o600) }, renamed},
		{"database lost", func() error { return os.Remove(filepath.Join(renamed, FileName)) }, renamed},
	} {
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		if got := idIn(t, change.dir, Options{}); got != id {
			t.Errorf("%s: the id is %s, it was %s", change.name, got, id)
		}
	}
}

// A copy of a directory, here or on another machine, and the database of another directory
// are refused, and nothing is changed there. If the directory moved, the store gets a new
// id: the list tells who works with the old one.
func TestPlaceMoved(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(t *testing.T, from, to string) Options{
		"copied here": func(t *testing.T, from, to string) Options {
			copyFiles(t, from, to, FileName, datadir.File)
			return Options{}
		},
		"without its file": func(t *testing.T, from, to string) Options {
			copyFiles(t, from, to, FileName)
			return Options{}
		},
		"without its database": func(t *testing.T, from, to string) Options {
			copyFiles(t, from, to, datadir.File)
			return Options{}
		},
		"over another store": func(t *testing.T, from, to string) Options {
			idIn(t, to, Options{})
			copyFiles(t, from, to, FileName)
			return Options{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := t.TempDir(), t.TempDir()
			id := idIn(t, from, Options{})
			o := move(t, from, to)
			var moved *datadir.MovedError
			for range 2 {
				s, err := Open(t.Context(), to, o)
				if !errors.As(err, &moved) {
					s.Close()
					t.Fatalf("opened: %v", err)
				}
				if !strings.Contains(moved.Hint(), "otm fsck --repair") || moved.Was.Store != id {
					t.Errorf("%v; %s", err, moved.Hint())
				}
			}
			o.Moved = true
			got := idIn(t, to, o)
			if got == id || got == "" {
				t.Errorf("the id is %q, it was %q", got, id)
			}
			o.Moved = false
			if again := idIn(t, to, o); again != got {
				t.Errorf("the id changed: %s, %s", got, again)
			}
			if again := idIn(t, from, Options{}); again != id {
				t.Errorf("the id of the original changed: %s, %s", id, again)
			}
		})
	}
}

// The same directory on another machine is a copy, or moved. A system that does not tell
// which machine it is refuses nothing.
func TestPlaceOnAnotherMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	id := idIn(t, dir, Options{Machine: "one"})
	var moved *datadir.MovedError
	if _, err := Open(t.Context(), dir, Options{Machine: "another"}); !errors.As(err, &moved) {
		t.Fatalf("opened: %v", err)
	}
	if got := idIn(t, dir, Options{Machine: "another", Moved: true}); got == id {
		t.Error("the id stayed")
	}
	if _, err := Open(t.Context(), dir, Options{Machine: "one"}); !errors.As(err, &moved) {
		t.Errorf("the first machine afterwards: %v", err)
	}
}

// A container on the machine of a store has the directory mounted: it works there, and the
// store stays that of the machine.
func TestPlaceInContainer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	id := idIn(t, dir, Options{})
	path := filepath.Join(dir, datadir.File)
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	here, err := datadir.Here(dir, "")
	if err != nil || here.Machine == "" || here.Boot == "" {
		t.Logf("the system does not tell what a container is: %v", err)
		return
	}
	here.Store, here.Machine, here.Dir = id, "of the machine", "/elsewhere"
	doc, err := json.Marshal(here)
	if err != nil {
		t.Fatal(err)
	}
	s := opened(t)(Open(t.Context(), dir, Options{}))
	if err := s.write(t.Context(), synced, func(t tx) error { return takePlace(t, strings.TrimSpace(string(was)), string(doc)) }); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := idIn(t, dir, Options{}); got != id {
		t.Errorf("the id is %s, it was %s", got, id)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(doc) {
		t.Errorf("the place changed: %s, %v", now, err)
	}
}

// One PostgreSQL database serves one directory.
func TestPlaceOfURL(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	dir, other := t.TempDir(), t.TempDir()
	id := idIn(t, dir, Options{URL: url})
	var moved *datadir.MovedError
	if _, err := Open(t.Context(), other, Options{URL: url}); !errors.As(err, &moved) {
		t.Fatalf("a second directory: %v", err)
	}
	if got := idIn(t, other, Options{URL: url, Moved: true}); got == id {
		t.Error("the id stayed")
	}
	if _, err := Open(t.Context(), dir, Options{URL: url}); !errors.As(err, &moved) {
		t.Errorf("the first directory afterwards: %v", err)
	}
}

// Of processes that make a store at once, none gets an id of its own.
func TestPlaceOfNewStore(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		ids := make(chan string, 8)
		for range cap(ids) {
			go func() { ids <- open().ID() }()
		}
		first := <-ids
		for range cap(ids) - 1 {
			if id := <-ids; id != first {
				t.Errorf("ids: %s, %s", first, id)
			}
		}
	})
}

// idIn opens and closes the store of a directory, and returns its id.
func idIn(t *testing.T, dir string, o Options) string {
	t.Helper()
	s, err := Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Events(t.Context(), core.EventFilter{}); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return s.ID()
}

func copyFiles(t *testing.T, from, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
