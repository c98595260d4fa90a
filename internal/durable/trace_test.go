//go:build linux

package durable

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCaseB19OrderOfSystemCalls looks at the writers with strace: the data is
// synced before the file has its name, and the directory after.
func TestCaseB19OrderOfSystemCalls(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace")
	}
	if out, err := exec.Command(strace, "-f", "/bin/true").CombinedOutput(); err != nil {
		t.Skipf("needs strace to be allowed: %v\n%s", err, out)
	}
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command(strace, "-f", "-y", "-o", trace, "-e", "trace=write,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat", os.Args[0])
	cmd.Env = append(os.Environ(), child+"=write "+filepath.Join(dir, "a"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	// Files that are written together are written in any order.
	got := strings.ReplaceAll(strings.Join(steps(dir, data), "\n"), "write temp\nwrite temp\nfsync temp\nfsync temp", "write temp\nfsync temp\nwrite temp\nfsync temp")
	want := strings.Join([]string{
		"write temp", "fsync temp", "rename temp to a, refusing", "fsync dir", // WriteNew
		"write temp", "fsync temp", "rename temp to a", "fsync dir", // Replace
		"write temp", "fsync temp", "rename temp to a", "fsync dir", // ReplacePublic
		"write temp", "fsync temp", "write temp", "fsync temp", "rename temp to b, refusing", "rename temp to c, refusing", "fsync dir", // WriteAllNew
		"rename a to moved, refusing", "fsync dir", "fsync dir", // Move
		"write temp", "rename temp to volatile", // ReplaceVolatile
	}, "\n")
	if got != want {
		t.Errorf("the system calls are\n%s\nwant\n%s", got, want)
	}
}

var (
	onFile  = regexp.MustCompile(`^\d+ +(write|fsync|fdatasync)\(\d+<([^>]*)>`)
	between = regexp.MustCompile(`^\d+ +(?:rename|link)\w*\((?:AT_FDCWD(?:<[^>]*>)?, )?"([^"]*)", (?:AT_FDCWD(?:<[^>]*>)?, )?"([^"]*)"(.*)`)
)

// steps tells what the lines of a trace do to the files of dir.
func steps(dir string, trace []byte) []string {
	short := func(path string) string {
		switch rel, err := filepath.Rel(dir, path); {
		case err != nil || strings.HasPrefix(rel, ".."):
			return ""
		case rel == ".":
			return "dir"
		case strings.HasPrefix(rel, TempPrefix):
			return "temp"
		default:
			return rel
		}
	}
	var list []string
	for line := range bytes.Lines(trace) {
		if m := onFile.FindSubmatch(line); m != nil && short(string(m[2])) != "" {
			list = append(list, string(m[1])+" "+short(string(m[2])))
		}
		if m := between.FindSubmatch(line); m != nil && short(string(m[1])) != "" {
			step := "rename " + short(string(m[1])) + " to " + short(string(m[2]))
			if bytes.Contains(m[3], []byte("RENAME_NOREPLACE")) {
				step += ", refusing"
			}
			list = append(list, step)
		}
	}
	return list
}
