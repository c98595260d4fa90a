package durable

import "golang.org/x/sys/unix"

// fuse is FUSE_SUPER_MAGIC (linux/magic.h).
const fuse = 0x65735546

// NotLocal names the file system that path lies on if it is not a local one,
// else "". Locks, renames, syncs and events on it may not do what this package
// promises. FUSE may be anything: sshfs, a cloud drive, a disk of another
// system.
func NotLocal(path string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", err
	}
	return notLocal[uint32(st.Type)], nil
}

// notLocal names file systems by their number (statfs(2)).
var notLocal = map[uint32]string{
	unix.NFS_SUPER_MAGIC: "NFS",
	unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB",
	unix.V9FS_MAGIC:      "9P",
	unix.AFS_SUPER_MAGIC: "AFS", unix.CODA_SUPER_MAGIC: "Coda", unix.CEPH_SUPER_MAGIC: "Ceph",
	fuse: "FUSE",
}
