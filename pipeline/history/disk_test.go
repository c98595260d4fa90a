package history

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	stdsync "sync"
	"syscall"
	"testing"

	"otm/internal/crash"
)

// disks tell how many steps below a directory come before one that fails.
var disks stdsync.Map

func init() {
	crash.Fail = func(_, path string) (err error) {
		disks.Range(func(dir, left any) bool {
			if !strings.HasPrefix(path, dir.(string)) {
				return true
			}
			if n := left.(*int); *n > 0 {
				if *n--; *n == 0 {
					err = syscall.EIO
				}
			}
			return false
		})
		return err
	}
}

// TestDiskFailsAtEachStep: at whichever step the disk refuses, it is told, what
// was there stays, and what is added again by who looks first stands there once.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 {
			if err := Append(dir, []Entry{entry(1)}); err != nil {
				t.Fatal(err)
			}
		}
		before, _ := read(t, dir)
		left := n/2 + n%2
		disks.Store(dir, &left)
		err := Append(dir, []Entry{entry(2), entry(3)})
		disks.Delete(dir)
		if left > 0 {
			if n < 3 {
				t.Error("it takes no step on the disk")
			}
			if n%2 == 0 {
				return
			}
			continue
		}
		if !errors.Is(err, syscall.EIO) {
			t.Fatalf("step %d failed, and Append said %v", n, err)
		}
		have, _ := read(t, dir)
		if !strings.HasPrefix(have, before) {
			t.Fatalf("step %d: %q is left of %q", n, have, before)
		}
		for _, e := range []Entry{entry(2), entry(3)} {
			if !strings.Contains(have, e.TaskID.String()) {
				if err := Append(dir, []Entry{e}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if have, bad := read(t, dir); bad != 0 || strings.Count(have, "T-00002") != 1 || strings.Count(have, "T-00003") != 1 {
			t.Fatalf("step %d: in the end %q, and %d bad lines", n, have, bad)
		}
	}
}
