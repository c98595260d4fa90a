package durable

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

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
