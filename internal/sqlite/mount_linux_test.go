package sqlite

import (
	"syscall"
	"testing"
)

// tmpfs returns a directory that is a small file system of its own.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("otm-test", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("needs to mount a file system, as root may: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}
