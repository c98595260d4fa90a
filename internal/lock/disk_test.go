package lock

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
)

// TestDiskFailsAtEachStep: at whichever step of taking a lock the disk refuses,
// that is told, or concerns the process id alone, and nothing stays locked.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		dir := t.TempDir()
		path := filepath.Join(dir, "locks", "a")
		refused, err := refuse(dir, func() error {
			l, err := AcquireIn(t.Context(), dir, path, 0)
			if err != nil {
				return err
			}
			return l.Release()
		})
		refused.Told(t, err, refused.Of("write", "a"))
		l, err := AcquireIn(t.Context(), dir, path, 0)
		if err != nil {
			t.Fatalf("refused %q; again: %v", refused, err)
		}
		if pid, held := Holder(path); !held || pid != os.Getpid() {
			t.Errorf("refused %q: held %t, by %d", refused, held, pid)
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	})
}
