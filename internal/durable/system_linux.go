package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The names under which the system tells what it is (random(4), machine-id(5)).
const (
	bootName    = "/proc/sys/kernel/random/boot_id"
	machineName = "/etc/machine-id"
)

// told returns what the system tells under a name; "" if it does not tell.
func told(name string) string {
	text, _ := os.ReadFile(name)
	return strings.TrimSpace(string(text))
}

// ChangeTime is when the file was renamed or changed last.
func ChangeTime(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return info.ModTime()
}

// GrantRead lets the owner read and write a file that we own and may not read.
// It changes the inode behind one descriptor, which follows no link: a path
// could lead elsewhere by the time of the call. Links, hard links and files of
// others are refused; the error then matches fs.ErrPermission.
func GrantRead(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Nlink != 1 {
		return &fs.PathError{Op: "chmod", Path: path, Err: fs.ErrPermission}
	}
	// fchmod(2) refuses O_PATH descriptors; this link leads to the inode, not
	// to a name (proc_pid_fd(5)).
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), FileMode)
}

const mountedReadOnly = unix.ST_RDONLY // a flag of statfs(2)

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

// renameNoReplace is rename(2) that fails with EEXIST where the target exists.
// File systems without RENAME_NOREPLACE answer EINVAL (renameat2(2)).
func renameNoReplace(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return linkNoReplace(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
