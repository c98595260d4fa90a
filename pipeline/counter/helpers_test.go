package counter

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"otm/internal/crash"
	"otm/internal/leak"
	"otm/pipeline"
)

// take is set in the environment of this binary where it is to take one id
// from the counter of that directory and print it, instead of running tests.
const take = "OTM_TEST_TAKE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(takeMany); dir != "" {
		if err := takeManyIn(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir := os.Getenv(take)
	if dir == "" {
		os.Exit(leak.Main(m))
	}
	id, err := takeOne(context.Background(), Open(dir, nil))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(id)
}

func takeOne(ctx context.Context, s *Dir) (pipeline.TaskID, error) {
	c, err := s.Counter(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Release()
	return c.Take(1)
}

// warnings collects what a counter warns of.
type warnings struct {
	mu   sync.Mutex
	list []string
}

func (w *warnings) add(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, s)
}

// fresh is a counter in a directory of its own, with a blank in its path.
func fresh(t *testing.T) (*Dir, *warnings) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, counterFile), "{\"next\":1}\n")
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

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// mustTake takes one id.
func mustTake(t *testing.T, s *Dir) pipeline.TaskID {
	t.Helper()
	id, err := takeOne(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return id
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
