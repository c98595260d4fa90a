package counter

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// disk watches the counter's files, and knows what of them a power failure may
// leave: of the file, what the last sync of its directory has made durable, or any
// later content; of the note, anything that it ever held.
type disk struct {
	dir    string
	file   []string // may be left of next-task-id.json
	note   []string // may be left of the lock file
	synced bool     // the step under way syncs the directory
	left   int      // steps until one fails
	lasts  bool     // all later ones fail as well: the power is off
	failed bool
}

func (d *disk) step(step, path string) error {
	if d.failed && d.lasts {
		return syscall.EIO
	}
	d.look()
	if d.left--; d.left == 0 {
		d.failed = true
		return syscall.EIO
	}
	d.synced = step == "sync directory" && path == d.dir
	return nil
}

// look takes notice of what the step before has done.
func (d *disk) look() {
	file, _ := os.ReadFile(filepath.Join(d.dir, counterFile))
	if d.synced {
		d.file = nil
	}
	d.synced = false
	if !slices.Contains(d.file, string(file)) {
		d.file = append(d.file, string(file))
	}
	note, _ := os.ReadFile(filepath.Join(d.dir, "locks", "next-task-id"))
	if !slices.Contains(d.note, string(note)) {
		d.note = append(d.note, string(note))
	}
}

// TestPowerFailure has the power fail at each step of taking ids, or a process die
// at each step and the power fail later. Whatever that undoes of the writes that were
// not synced, no id is given out twice, and at most 31 stay unused besides those that
// were being taken.
func TestPowerFailure(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "is a walk")
	picks := []struct{ file, note int }{{0, 0}, {0, 1}, {0, 2}, {1, 1}}
	picks = crashtest.Some(t, picks, 1)
	for _, lasts := range []bool{true, false} {
		for left, failed := 1, true; failed; left++ {
			for _, pick := range picks {
				failed = powerFailure(t, left, lasts, pick.file, pick.note)
			}
		}
	}
}

// powerFailure plays one of them: file chooses the oldest or the newest content that
// may be left of the counter, note that of its copy, or zeros. It reports whether a
// step failed.
func powerFailure(t *testing.T, left int, lasts bool, file, note int) bool {
	t.Helper()
	s, _ := fresh(t)
	boots := 0
	s.boot = func() string { return fmt.Sprintf("boot-%d", boots) }
	mustTake(t, s)
	given, unused := pipeline.TaskID(1), 0
	d := &disk{dir: s.dir, left: left, lasts: lasts}
	d.look()
	crashtest.Below(t, s.dir, d.step)
	for _, n := range []int{1, 29, 1, 33, 1} {
		unused += n
		c, err := s.Counter(t.Context())
		if err != nil {
			continue
		}
		first, err := c.Take(n)
		c.Release()
		if err != nil {
			continue
		}
		if first <= given {
			t.Fatalf("step %d failed: Take = %v after %v", left, first, given)
		}
		given, unused = first+pipeline.TaskID(n)-1, 0
	}
	if !d.failed || !lasts {
		d.look()
	}
	failed := d.failed
	d.left, d.failed, d.synced = 0, false, false

	boots++
	notes := []string{d.note[0], d.note[len(d.note)-1], strings.Repeat("\x00", 60)}
	write(t, filepath.Join(s.dir, counterFile), []string{d.file[0], d.file[len(d.file)-1]}[file])
	write(t, filepath.Join(s.dir, "locks", "next-task-id"), notes[note])
	found := read(t, filepath.Join(s.dir, counterFile))
	next := mustTake(t, s)
	if next <= given || next > given+pipeline.TaskID(unused)+block {
		t.Fatalf("step %d failed, %v is left: Take = %v after %v, with %d being taken", left, found, next, given, unused)
	}
	if again := mustTake(t, s); again != next+1 {
		t.Fatalf("step %d failed: Take = %v after %v", left, again, next)
	}
	return failed
}

// TestRestart: next does not count after a restart of the machine, durable does;
// without a restart, next goes on.
func TestRestart(t *testing.T) {
	t.Parallel()
	s, warned := fresh(t)
	s.boot = func() string { return "one" }
	mustTake(t, s)
	again := Open(s.dir, warned.add)
	again.boot = s.boot
	if got := mustTake(t, again); got != 2 {
		t.Errorf("in another process: Take = %v, want 2", got)
	}
	again.boot = func() string { return "two" }
	if issued, err := again.Issued(31); !issued || err != nil { // T-00031 may be out
		t.Errorf("Issued = %v, %v", issued, err)
	}
	for want := pipeline.TaskID(32); want < 35; want++ {
		if got := mustTake(t, again); got != want {
			t.Errorf("after a restart: Take = %v, want %v", got, want)
		}
	}
	if len(warned.list) > 0 {
		t.Errorf("warnings: %q", warned.list)
	}
}

// TestBootUnknown: if the system does not name its boots, each id is durable by
// itself.
func TestBootUnknown(t *testing.T) {
	t.Parallel()
	s, warned := fresh(t)
	s.boot = func() string { return "" }
	for want := pipeline.TaskID(1); want < 4; want++ {
		if got := mustTake(t, s); got != want {
			t.Errorf("Take = %v, want %v", got, want)
		}
	}
	if got := read(t, filepath.Join(s.dir, counterFile)); got != `{"next":4,"durable":4}` || len(warned.list) > 0 {
		t.Errorf("the counter holds %s, warnings %q", got, warned.list)
	}
}
