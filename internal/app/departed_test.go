package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"otm/internal/config"
)

// TestC40DataDirectoryGoes: otm up made a data directory again that was moved
// away or removed under it. Only otm init makes one.
func TestC40DataDirectoryGoes(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(dir string) error{
		"moved":   func(dir string) error { return os.Rename(dir, dir+".away") },
		"removed": func(dir string) error { return ignoreNotEmpty(os.RemoveAll(dir)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, "")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ready, ended := make(chan string, 1), make(chan error, 1)
			go func() { ended <- departed(h.Dir, h.Up(ctx, func(page string) { ready <- page })) }()
			select {
			case <-ready:
			case err := <-ended:
				t.Fatal(err)
			}
			if err := take(h.Dir); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, config.ErrNotInitialised) {
				t.Errorf("it ended with %v", err)
			}
			if exists(h.Dir) {
				var left []string
				filepath.WalkDir(h.Dir, func(path string, _ os.DirEntry, _ error) error {
					left = append(left, path)
					return nil
				})
				t.Errorf("it left %q", left)
			}
		})
	}
}

// ignoreNotEmpty: what runs may write while its directory is removed.
func ignoreNotEmpty(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return nil
	}
	return err
}

// TestC40RemainsGo: the last writes of a process may come after a removal has
// looked at the directory. What they left is removed when the process ends.
func TestC40RemainsGo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	for _, path := range []string{"otm-injector-state.json", "next-task-id.json", "locks/otm-injector", "logs/otm-injector.log", "board/board.db", "board/board.db-wal", "board/snapshot.json", "board/page/link-1", "logs/exec/devdas/1.log", "tasks/.otm-tmp-1"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, path), "x")
	}
	if err := os.Mkdir(filepath.Join(dir, "task-updates"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := departed(dir, errors.New("open: no such file")); !errors.Is(err, config.ErrNotInitialised) || exists(dir) {
		t.Errorf("it ended with %v, and the directory is there: %v", err, exists(dir))
	}
}

// TestDepartedTakesNothingOfValue: the remains of a data directory are removed
// only if nothing else is there.
func TestDepartedTakesNothingOfValue(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"otm.toml", "otm.db", "tasks/T-00001.json", "new-tasks/a.json", "secrets/slack", "board/token", "mine.txt", "music/a.ogg"} {
		dir := t.TempDir()
		for _, path := range []string{"otm-injector-state.json", "locks/otm-injector", "logs/otm-injector.log", name} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(dir, path), "x")
		}
		departed(dir, config.ErrNotInitialised)
		for _, path := range []string{"otm-injector-state.json", "locks/otm-injector", name} {
			if !exists(filepath.Join(dir, path)) {
				t.Errorf("beside %s it took %s", name, path)
			}
		}
	}
}
