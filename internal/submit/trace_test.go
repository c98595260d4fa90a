//go:build linux

package submit

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSyncsOfACreate counts the syncs of whole processes with strace: a create syncs
// its drop and the directory of it, and once in 32 ids the counter as well.
func TestSyncsOfACreate(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace")
	}
	if out, err := exec.Command(strace, "-f", "/bin/true").CombinedOutput(); err != nil {
		t.Skipf("needs strace to be allowed: %v\n%s", err, out)
	}
	p := initialised(t)
	trace := filepath.Join(t.TempDir(), "trace")
	synced := regexp.MustCompile(`f(?:data)?sync\(\d+<([^>]*)>`)
	temp := regexp.MustCompile(`\.otm-tmp-\d+`)
	syncs := func() []string {
		t.Helper()
		cmd := exec.Command(strace, "-f", "-y", "-o", trace, "-e", "trace=fsync,fdatasync,sync,syncfs,sync_file_range,msync", os.Args[0], "--title", "A", "--agent", "devdas")
		cmd.Env = append(os.Environ(), as+"=create", "OTM_DIR="+p.dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		data, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		var files []string
		for _, m := range synced.FindAllStringSubmatch(string(data), -1) {
			files = append(files, temp.ReplaceAllString(strings.TrimPrefix(m[1], p.dir), "temp"))
		}
		return files
	}
	drop := []string{"/new-tasks/temp", "/new-tasks"}
	block := append([]string{"/temp", ""}, drop...)
	if got := syncs(); !slices.Equal(got, block) {
		t.Errorf("the first create syncs %q, want %q", got, block)
	}
	if got := syncs(); !slices.Equal(got, drop) {
		t.Errorf("the second create syncs %q, want %q", got, drop)
	}
	p.in = strings.Repeat(`{"title":"A","agent":"devdas"}`+"\n", 29)
	p.create("--from", "-").ok(t) // up to T-00031
	if got := syncs(); !slices.Equal(got, block) {
		t.Errorf("the create of T-00032 syncs %q, want %q", got, block)
	}
}
