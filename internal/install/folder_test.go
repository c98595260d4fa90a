package install

import (
	"os"
	"path/filepath"
	"testing"
)

// TestC23FolderThatStays: a package manager keeps each version in a folder of its
// own, with links to it on the PATH. Units that name the folder of the version do
// not start any more after an upgrade; they must name the folder of the links.
func TestC23FolderThatStays(t *testing.T) {
	root := t.TempDir()
	cellar, links := filepath.Join(root, "Cellar", "otm", "1.0", "bin"), filepath.Join(root, "bin")
	alone, other := filepath.Join(root, "alone"), filepath.Join(root, "other")
	for _, dir := range []string{cellar, links, alone, other} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range Programs {
		for _, dir := range []string{cellar, other} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(filepath.Join(cellar, name), filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(cellar, "otm"), filepath.Join(alone, "otm")); err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(cellar, "otm")
	for _, tt := range []struct{ name, path, arg0, want string }{
		{"links on the PATH", links, "otm", links},
		{"links on the PATH, called by the folder", links, self, links},
		{"called by a link", "/nonexistent", filepath.Join(links, "otm"), links},
		{"no link", "/nonexistent", "otm", cellar},
		{"a link to one program only", alone, "otm", cellar},
		{"another otm on the PATH", other, self, cellar},
	} {
		t.Setenv("PATH", tt.path)
		if got := folderFor(self, tt.arg0); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
