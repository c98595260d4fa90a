package datadir

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"otm/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// A directory is the same after it or a parent of it was renamed, through a link or a
// mount, after it was restored from a copy, and in a container of the same machine. What is
// not known does not differ.
func TestIs(t *testing.T) {
	t.Parallel()
	was := Place{Store: "s", Machine: "m", Boot: "b", Dir: "/d", Inode: 7}
	for name, c := range map[string]struct {
		here Place
		want bool
	}{
		"unchanged":                         {Place{Machine: "m", Boot: "b", Dir: "/d", Inode: 7}, true},
		"another boot":                      {Place{Machine: "m", Boot: "c", Dir: "/d", Inode: 7}, true},
		"renamed, or mounted elsewhere":     {Place{Machine: "m", Boot: "b", Dir: "/e", Inode: 7}, true},
		"restored from a copy":              {Place{Machine: "m", Boot: "b", Dir: "/d", Inode: 8}, true},
		"copied":                            {Place{Machine: "m", Boot: "b", Dir: "/e", Inode: 8}, false},
		"another machine":                   {Place{Machine: "n", Boot: "c", Dir: "/d", Inode: 7}, false},
		"a container":                       {Place{Machine: "n", Boot: "b", Dir: "/e", Inode: 7}, true},
		"a container with a copy":           {Place{Machine: "n", Boot: "b", Dir: "/d", Inode: 8}, false},
		"a container without a machine id":  {Place{Boot: "b", Dir: "/e", Inode: 7}, true},
		"a system that tells nothing":       {Place{Dir: "/d", Inode: 7}, true},
		"a copy where nothing else is told": {Place{Dir: "/e", Inode: 8}, false},
	} {
		if got := was.Is(c.here); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
		if !(Place{}).Is(c.here) {
			t.Errorf("%s: without a store it is no copy", name)
		}
	}
	noBoot := Place{Store: "s", Machine: "m", Dir: "/d", Inode: 7}
	if noBoot.Is(Place{Machine: "n", Dir: "/d", Inode: 7}) {
		t.Error("two machines that do not tell their boot are one")
	}
}

// Check finds a copy by its file alone, and refuses nothing where that tells nothing.
func TestCheck(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "parent")
	dir := filepath.Join(parent, "a")
	must(t, os.MkdirAll(dir, 0o700))
	here, err := Here(dir, "")
	must(t, err)
	here.Store = "s"
	doc, err := json.Marshal(here)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, File), doc, 0o600))
	link := parent + "-link"
	must(t, os.Symlink(dir, link))
	must(t, Check(dir))
	must(t, Check(link))
	must(t, os.Rename(parent, parent+"-renamed"))
	dir = filepath.Join(parent+"-renamed", "a")
	must(t, Check(dir))

	copied := t.TempDir()
	file := filepath.Join(copied, File)
	must(t, os.WriteFile(file, doc, 0o600))
	var moved *MovedError
	if err := Check(copied); !errors.As(err, &moved) || !strings.Contains(moved.Hint(), "otm fsck --repair") || !strings.Contains(err.Error(), copied) {
		t.Errorf("a copy: %v", err)
	}
	must(t, os.WriteFile(file, []byte("{"), 0o600))
	must(t, Check(copied))
	must(t, os.Remove(file))
	must(t, Check(copied))
	must(t, os.Mkdir(file, 0o700))
	must(t, Check(copied))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
