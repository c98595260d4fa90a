package durable

import "golang.org/x/sys/unix"

// NetworkFS names the network file system that path lies on; "" where it is a
// local one. Locks, renames and events of a network file system are not what
// this package promises.
func NetworkFS(path string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", err
	}
	if st.Flags&unix.MNT_LOCAL != 0 {
		return "", nil
	}
	return unix.ByteSliceToString(st.Fstypename[:]), nil
}
