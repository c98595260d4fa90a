package durable

import (
	"strings"

	"golang.org/x/sys/unix"
)

// NotLocal names the file system that path lies on if it is no local one, else
// "". Locks, renames, syncs and events on it may not do what this package
// promises. macOS counts FUSE as local, so its name decides (macfuse,
// osxfuse, fuse-t).
func NotLocal(path string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", err
	}
	name := unix.ByteSliceToString(st.Fstypename[:])
	if st.Flags&unix.MNT_LOCAL != 0 && !strings.Contains(name, "fuse") {
		return "", nil
	}
	return name, nil
}
