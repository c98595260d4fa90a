package sqlite

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// Another process sets the -shm file up, which locks one byte of it for writing: Open
// waits for it, as for any other lock.
func TestOpenWhileShmIsSetUp(t *testing.T) {
	t.Parallel()
	path := name(t)
	d, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	shm, err := os.OpenFile(path+"-shm", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	const ofdSetLock = 37 // F_OFD_SETLK
	const deadMansSwitch = 128
	if err := syscall.FcntlFlock(shm.Fd(), ofdSetLock, &syscall.Flock_t{Type: syscall.F_WRLCK, Start: deadMansSwitch, Len: 1}); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { shm.Close() })
	mustOpen(t, path, Options{})
}
