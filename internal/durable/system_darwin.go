package durable

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The names under which the system tells what it is (sysctl(3), since macOS 10.12).
const (
	bootName    = "kern.bootsessionuuid"
	machineName = "kern.uuid"
)

// told returns what the system tells under a name; "" if it does not tell.
func told(name string) string {
	value, _ := unix.Sysctl(name)
	return value
}

// ChangeTime is when the file was renamed or changed last.
func ChangeTime(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctimespec.Unix())
	}
	return info.ModTime()
}

const mountedReadOnly = unix.MNT_RDONLY // a flag of statfs(2)

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

// renameNoReplace is rename(2) that fails with EEXIST where the target exists.
// File systems without RENAME_EXCL answer ENOTSUP (renamex_np(2)).
func renameNoReplace(from, to string) error {
	err := unix.RenamexNp(from, to, unix.RENAME_EXCL)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) {
		return linkNoReplace(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// GrantRead refuses: without O_PATH, no descriptor of an unreadable file can be
// had, and a mode is never changed by a path.
func GrantRead(path string) error {
	return &fs.PathError{Op: "chmod", Path: path, Err: fs.ErrPermission}
}
