//go:build linux || darwin

package durable

import "golang.org/x/sys/unix"

// Free returns how many bytes a user may still write to the file system of path.
func Free(path string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}
