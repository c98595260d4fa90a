package history

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
)

// TestDiskFailsAtEachStep: at whichever step the disk refuses, it is told, what
// was there stays, and what is added again by who looks first stands there once.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	for _, before := range [][]Entry{nil, {entry(1)}} {
		for n := 1; ; n++ {
			dir := t.TempDir()
			if err := Append(dir, before); err != nil {
				t.Fatal(err)
			}
			had, _ := read(t, dir)
			refusal := crashtest.Nth(t, dir, n, syscall.EIO)
			err := Append(dir, []Entry{entry(2), entry(3)})
			if refusal.Step() == "" {
				if n == 1 {
					t.Error("it takes no step on the disk")
				}
				break
			}
			if !errors.Is(err, syscall.EIO) {
				t.Fatalf("%s failed, and Append said %v", refusal.Step(), err)
			}
			have, _ := read(t, dir)
			if !strings.HasPrefix(have, had) {
				t.Fatalf("%s: %q is left of %q", refusal.Step(), have, had)
			}
			for _, e := range []Entry{entry(2), entry(3)} {
				if !strings.Contains(have, e.TaskID.String()) {
					if err := Append(dir, []Entry{e}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if have, bad := read(t, dir); bad != 0 || strings.Count(have, "T-00002") != 1 || strings.Count(have, "T-00003") != 1 {
				t.Fatalf("%s: in the end %q, and %d bad lines", refusal.Step(), have, bad)
			}
		}
	}
}
