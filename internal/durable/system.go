package durable

import (
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"otm/internal/crash"
)

// BootID names the time since the machine was started: what was written during
// another one may not have reached the disk, unless it was synced. It is "" if the
// system does not tell.
var BootID = sync.OnceValue(func() string { return told(bootName) })

// MachineID names the machine; "": the system does not tell.
var MachineID = sync.OnceValue(func() string { return told(machineName) })

// room is how much must be free, in bytes: what the store and a file beside it need.
const room = 64 << 10

// Takes returns why a directory takes no more files: its file system is full, or mounted
// read-only. Nil: it takes them, as far as the system tells.
func Takes(dir string) error {
	var st unix.Statfs_t
	err := crash.Failed("room", dir)
	if err == nil && unix.Statfs(dir, &st) == nil {
		free := uint64(st.Bavail)
		if os.Geteuid() == 0 {
			free = st.Bfree // what is kept for root
		}
		switch {
		case st.Flags&mountedReadOnly != 0:
			err = unix.EROFS
		case free < room/uint64(st.Bsize)+1, st.Files > 0 && st.Ffree == 0: // some file systems count no files
			err = unix.ENOSPC
		}
	}
	if err != nil {
		err = &fs.PathError{Op: "write", Path: dir, Err: err}
	}
	return err
}
