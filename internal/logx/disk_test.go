package logx

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
)

// TestDiskFailsAtEachStep: at whichever step the disk refuses while a log is rotated
// again and again, a line that was not written is told, and no other is missing.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		dir := filepath.Join(t.TempDir(), "logs")
		path := filepath.Join(dir, "a.log")
		var want []string
		refused, err := refuse(dir, func() error {
			f, err := OpenFile(path)
			if err != nil {
				return err
			}
			defer f.Close()
			f.max = 20
			var last error
			for i := range MaxFiles {
				line := fmt.Sprintf("line %d of the log\n", i)
				if _, err := f.Write([]byte(line)); err != nil {
					last = err
					continue
				}
				want = append(want, line)
			}
			return last
		})
		refused.Told(t, err, refused.Of("lstat", path) || refused.Of("rename", path) || refused.Of("renamed", path)) // it grows on
		var got strings.Builder
		for n := MaxFiles; n >= 0; n-- {
			data, err := os.ReadFile(numbered(path, n))
			if err == nil {
				got.Write(data)
			}
		}
		if got.String() != strings.Join(want, "") {
			t.Errorf("refused %q: %v; the logs hold\n%s\nwant\n%s", refused, err, got.String(), strings.Join(want, ""))
		}
	})
}

// TestRotationRefused: a log that cannot be rotated grows on, however often that is
// tried, and those that were rotated before stay.
func TestRotationRefused(t *testing.T) {
	t.Parallel()
	for refused := range MaxFiles {
		f, path := open(t, 20)
		for n := 1; n <= MaxFiles; n++ {
			must(t, os.WriteFile(numbered(path, n), fmt.Appendf(nil, "rotated %d", n), 0o600))
		}
		crashtest.Below(t, filepath.Dir(path), func(step, to string) error {
			if step == "rename" && to == numbered(path, refused+1) {
				return syscall.EIO
			}
			return nil
		})
		for i := range 2 * MaxFiles {
			put(t, f, fmt.Sprintf("line %d of the log\n", i))
		}
		if got := read(t, path); strings.Count(got, "\n") != 2*MaxFiles {
			t.Errorf("refused %d: the log holds %q", refused, got)
		}
		for n := 1; n < MaxFiles; n++ { // the oldest may make room
			found := 0
			for m := 1; m <= MaxFiles; m++ {
				if data, err := os.ReadFile(numbered(path, m)); err == nil && string(data) == fmt.Sprint("rotated ", n) {
					found++
				}
			}
			if found != 1 {
				t.Errorf("refused %d: what was rotated as %d stands in %d files", refused, n, found)
			}
		}
	}
}
