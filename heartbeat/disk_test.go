package heartbeat

import (
	"syscall"
	"testing"
	"time"

	"otm/internal/crash/crashtest"
)

// TestDiskFailsAtEachStep: a beat that could not be written is told of, and the
// next one counts on.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		dir := t.TempDir()
		w := NewWriter(dir, Injector, "test", time.Now)
		if err := w.Beat(Success, "first"); err != nil {
			t.Fatal(err)
		}
		refused, err := refuse(dir, func() error { return w.Beat(Success, "second") })
		refused.Told(t, err, refused.Of("read", "")) // where it cannot be seen what others beat, ours counts
		if err := w.Beat(Partial, "third"); err != nil {
			t.Fatal(err)
		}
		if b, err := Read(dir, Injector); err != nil || b.Sequence != 3 || b.Details != "third" {
			t.Errorf("refused %q: in the end %+v, %v", refused, b, err)
		}
	})
}
