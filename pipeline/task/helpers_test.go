package task

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"otm/internal/crash"
	"otm/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// warnings collects what a store warns of.
type warnings struct {
	mu   sync.Mutex
	list []string
}

func (w *warnings) add(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, s)
}

// fresh is a store in a directory of its own, with a blank in its path.
func fresh(t *testing.T) (*Store, *warnings) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := &warnings{}
	return Open(dir, w.add), w
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// crashAt calls f and stops it, as if the process had died, when the point is
// reached. Its test must not be parallel.
func crashAt(t *testing.T, point string, f func()) {
	t.Helper()
	type killed struct{}
	crash.Hook = func(p string) {
		if p == point {
			crash.Hook = nil
			panic(killed{})
		}
	}
	defer func() {
		crash.Hook = nil
		if r := recover(); r != (killed{}) {
			t.Fatalf("%s was not reached: %v", point, r)
		}
	}()
	f()
}
