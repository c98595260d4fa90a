package durable

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // the name of a socket must be short
	socket, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, name := range []string{"file", "pipe"} {
		if err := os.Symlink(name, path("link to a "+name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]error{
		"file": nil, "link to a file": nil, "pipe": ErrNoFile, "link to a pipe": ErrNoFile, "socket": ErrNoFile, ".": ErrNoFile, "none": fs.ErrNotExist,
	} {
		data, err := ReadFile(path(name))
		if !errors.Is(err, want) || (err == nil) != (string(data) == "text") {
			t.Errorf("%s: %q, %v; want %v", name, data, err, want)
		}
	}
}

// What is said of a file system is said of one that is there.
func TestFileSystemOfNothing(t *testing.T) {
	t.Parallel()
	nothing := filepath.Join(t.TempDir(), "nothing")
	if name, err := NotLocal(nothing); name != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("network file system of nothing: %q, %v", name, err)
	}
}

// C48: contents are compared by size and then by their bytes, up to a limit.
func TestC48SameContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, data string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	long := strings.Repeat("x", 100<<10)
	a := file("a", long+"1")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(a, link); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		other string
		same  bool
	}{
		{file("same", long+"1"), true}, {file("last", long+"2"), false}, {file("longer", long+"11"), false},
		{link, false}, {dir, false}, {filepath.Join(dir, "none"), false},
	} {
		if same := SameContent(a, tt.other); same != tt.same {
			t.Errorf("%s: %t", filepath.Base(tt.other), same)
		}
	}
	large := strings.Repeat("x", maxCompared+1)
	if SameContent(file("l1", large), file("l2", large)) {
		t.Error("files beyond the limit are the same")
	}
	if !SameContent(file("e1", ""), file("e2", "")) {
		t.Error("empty files differ")
	}
}
