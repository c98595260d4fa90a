package durable

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestC48SetAside: the same garbage thirty times is one copy, and of copies that
// differ the newest few are kept.
func TestC48SetAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	for range 30 {
		write(t, path, "garbage")
		if aside, err := SetAside(path, "1"); err != nil || filepath.Base(aside) != "a.json.corrupt-1" {
			t.Fatalf("SetAside = %q, %v", aside, err)
		}
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("the directory holds %q", got)
	}
	for i := range 10 {
		write(t, path, fmt.Sprint("garbage ", i))
		if _, err := SetAside(path, fmt.Sprint(2+i/2)); err != nil { // two of them at one time
			t.Fatal(err)
		}
	}
	kept := names(t, dir)
	all := ""
	for _, name := range kept {
		all += read(t, filepath.Join(dir, name)) + "\n"
	}
	if len(kept) != keptAside || !strings.Contains(all, "garbage 9\n") || strings.Contains(all, "garbage 1\n") {
		t.Errorf("the directory holds %q:\n%s", kept, all)
	}
}
