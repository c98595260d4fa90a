package durable

import "testing"

// TestC55FUSEIsNotLocal: a FUSE file system was called local. The number stands
// for the mount, which a test cannot make everywhere.
func TestC55FUSEIsNotLocal(t *testing.T) {
	t.Parallel()
	if got := notLocal[0x65735546]; got != "FUSE" {
		t.Errorf("FUSE_SUPER_MAGIC is %q", got)
	}
	if got, err := NotLocal("/proc"); got != "" || err != nil {
		t.Errorf("NotLocal of a local file system = %q, %v", got, err)
	}
}
