package main

import (
	"os"
	"path/filepath"
	"testing"

	"otm/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func TestPagesOfAllCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := run([]string{dir, "v1", "1700000000"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"otm", "otm-create", "otm-update", "otm-injector", "otm-dispatcher", "otm-completion-detector"} {
		for _, file := range []string{"man/" + name + ".1", "completions/" + name + ".bash", "completions/_" + name, "completions/" + name + ".fish"} {
			if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Size() == 0 {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "man", "otm-install.1")); err != nil {
		t.Error(err)
	}
}
