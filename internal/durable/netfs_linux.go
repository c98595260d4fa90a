package durable

import "golang.org/x/sys/unix"

// NetworkFS names the network file system that path lies on; "" where it is a
// local one, as far as is known. Locks, renames and events of a network file
// system are not what this package promises.
func NetworkFS(path string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", err
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "NFS", nil
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "SMB", nil
	case unix.V9FS_MAGIC:
		return "9P", nil
	case unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC:
		return "a network file system", nil
	}
	return "", nil
}
