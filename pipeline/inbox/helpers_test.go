package inbox

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"otm/pipeline/drop"
)

var at = time.Date(2026, 3, 14, 8, 20, 19, 0, time.UTC)

// box is a box in a directory of its own, with a blank in its path.
func box(t *testing.T) *Box {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data dir")
	for _, kind := range Kinds {
		if err := os.MkdirAll(filepath.Join(dir, string(kind)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return Open(dir)
}

// settleOne settles one drop.
func settleOne(b *Box, f File, data []byte, result Result) (string, error) {
	d := &Settling{File: f, Data: data, Result: result}
	b.Settle(d)
	return d.Settled, d.Err
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// names lists a directory, what is hidden in it as well.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// waits reports whether a drop stands in its inbox.
func waits(t *testing.T, b *Box, kind Kind, name string) bool {
	t.Helper()
	ok, err := b.Waiting(kind, name)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// isSettled reports whether a name stands in processed/ or failed/.
func isSettled(t *testing.T, b *Box, dir, name string) bool {
	t.Helper()
	ok, err := b.IsSettled(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// only returns the one file of an inbox, as read.
func only(t *testing.T, b *Box, kind Kind) (File, []byte) {
	t.Helper()
	files, err := b.List(kind)
	if err != nil || len(files) != 1 {
		t.Fatalf("List(%s) = %d files, %v; want one", kind, len(files), err)
	}
	f := files[0]
	if !f.Regular() {
		return f, nil
	}
	data, f, err := b.Read(f)
	if err != nil {
		t.Fatalf("Read(%q): %v", f.Name, err)
	}
	return f, data
}

// deliver puts a file into an inbox and returns it as read.
func deliver(t *testing.T, b *Box, kind Kind, name, data string) (File, []byte) {
	t.Helper()
	write(t, filepath.Join(b.Dir(kind), name), data)
	return only(t, b, kind)
}

// sweep settles everything in an inbox as the injector does, and returns how
// many files it found settled already.
func sweep(t *testing.T, b *Box, kind Kind) (leftovers int) {
	t.Helper()
	files, err := b.List(kind)
	if err != nil {
		t.Fatal(err)
	}
	var drops []*Settling
	for _, f := range files {
		var data []byte
		if f.Regular() {
			if data, f, err = b.Read(f); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			leftover, err := b.Leftover(f, data)
			if err != nil {
				t.Fatal(err)
			}
			if leftover {
				leftovers++
				continue
			}
		}
		result := Result{At: at, Attempts: 1}
		if _, err := drop.ParseObject(data); err != nil {
			result.Class, result.Error = Invalid, err.Error()
		}
		drops = append(drops, &Settling{File: f, Data: data, Result: result})
	}
	b.Settle(drops...)
	for _, d := range drops {
		if d.Err != nil {
			t.Fatalf("Settle(%q): %v", d.Name, d.Err)
		}
	}
	return leftovers
}

// settledIDs counts the ids of the drops in processed/.
func settledIDs(t *testing.T, b *Box) map[string]int {
	t.Helper()
	ids := map[string]int{}
	for _, name := range names(t, filepath.Join(b.dir, ProcessedDir)) {
		var content struct{ ID string }
		if err := json.Unmarshal([]byte(read(t, filepath.Join(b.dir, ProcessedDir, name))), &content); err != nil {
			t.Fatal(err)
		}
		ids[content.ID]++
	}
	return ids
}
