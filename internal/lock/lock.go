// Package lock lets one process at a time do something, with flock(2) on a lock
// file that is never unlinked.
//
// The kernel releases a lock when its holder dies, so there are no stale locks
// and no timeouts to guess. The first line of the file is the holder's process
// id, for people and messages: nothing is decided by it. After it stands a note
// that a holder may leave for the next one.
//
// If somebody deletes the file, the holder and the next process lock different
// files under one name. So Acquire checks, once it has the lock, that the name
// still leads to the locked file, and starts again if not. A process that comes
// while the holder of the deleted file still works gets a lock as well: where two
// holders would do lasting harm, AcquireIn locks a directory besides.
//
// Waiters look again every few milliseconds: a wait in flock(2) could not be
// cancelled.
//
// The package promises nothing on network file systems, where flock depends on
// the server. If the server refuses, Acquire returns an error.
package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"otm/internal/durable"
)

// A waiter looks again after pollMin plus up to pollSpread.
const (
	pollMin    = time.Millisecond
	pollSpread = 6 * time.Millisecond
)

// Moment is how long to wait for a lock that nobody holds for long, before another
// holder is believed: Holder takes it to look, and a process that is killed while it
// starts a child leaves it to the child until that has begun.
const Moment = 2 * time.Second

// Layout of a lock file in bytes: the pid, right-aligned, and a line feed; then
// the note, padded with spaces.
const (
	pidWidth  = 15
	noteWidth = 128
)

// flock is flock(2). Tests replace it to refuse like some file systems.
var flock = syscall.Flock

// Lock is a lock that is held. Its methods must not be called after Release or
// Leave.
type Lock struct {
	file *durable.File
	dir  *durable.File // nil unless AcquireIn took it
}

// HeldError says that the caller did not get the lock in the time that it wanted
// to wait.
type HeldError struct {
	Path string
	PID  int // of the present holder; 0: not known
	// Holders is how many processes were seen to hold the lock in turn; 1: one
	// process kept it all the time.
	Holders int
	Waited  time.Duration
}

func (e *HeldError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d", e.PID)
	}
	switch {
	case e.Waited == 0:
		return fmt.Sprintf("lock %q is held by %s", e.Path, holder)
	case e.Holders > 1:
		return fmt.Sprintf("lock %q: many processes wait for it in turn: at least %d had it in the last %v, now %s", e.Path, e.Holders, e.Waited, holder)
	}
	return fmt.Sprintf("lock %q: held by %s for more than %v", e.Path, holder, e.Waited)
}

// UnsupportedError says that the file system refuses locks.
type UnsupportedError struct {
	Path string
	Err  error
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("lock %q: the file system refuses locks: %v", e.Path, e.Err)
}

func (e *UnsupportedError) Unwrap() error { return e.Err }

// Acquire takes the lock at path. It makes the file and its directory if they
// are missing, but not the directory's parent: if that is gone, the error matches
// fs.ErrNotExist. It waits up to wait for another holder; zero: it does not wait.
// Then it returns a *HeldError, ctx's cause if ctx ends first, or an
// *UnsupportedError if the file system knows no locks.
func Acquire(ctx context.Context, path string, wait time.Duration) (*Lock, error) {
	return take(ctx, "", path, wait, syscall.LOCK_EX)
}

// AcquireShared is Acquire for a lock that others may hold at the same time, if they
// took it with AcquireShared too.
func AcquireShared(ctx context.Context, path string, wait time.Duration) (*Lock, error) {
	return take(ctx, "", path, wait, syscall.LOCK_SH)
}

// AcquireIn is Acquire and locks the directory dir besides. So there is one
// holder even while somebody deletes the lock file again and again. The directory
// must exist and serve one lock only.
func AcquireIn(ctx context.Context, dir, path string, wait time.Duration) (*Lock, error) {
	return take(ctx, dir, path, wait, syscall.LOCK_EX)
}

// take tries until it has the lock, fails, the time is over, or ctx ends.
func take(ctx context.Context, dir, path string, wait time.Duration, mode int) (*Lock, error) {
	holders := map[int]bool{}
	for deadline := time.Now().Add(wait); ; {
		l, pid, err := try(dir, path, mode)
		if pid != 0 {
			holders[pid] = true
		}
		switch {
		case l != nil || err != nil:
			return l, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !time.Now().Before(deadline):
			return nil, &HeldError{Path: path, PID: pid, Holders: max(len(holders), 1), Waited: max(wait, 0)}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollMin + rand.N(pollSpread)):
		}
	}
}

// try locks without waiting. If somebody else has the lock, or the name leads to
// another file than the locked one, the Lock is nil; pid is the holder's, if known.
func try(dir, path string, mode int) (l *Lock, pid int, err error) {
	file, err := durable.OpenFile(path, os.O_CREATE|os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		if err := durable.Mkdir(filepath.Dir(path)); err != nil {
			return nil, 0, err
		}
		file, err = durable.OpenFile(path, os.O_CREATE|os.O_RDWR)
	}
	if err != nil {
		return nil, 0, err
	}
	l = &Lock{file: file}
	locked, err := lockFile(file, mode)
	if !locked && err == nil {
		pid = pidIn(file)
	}
	if locked {
		locked, err = named(file, path)
	}
	if locked && dir != "" {
		if l.dir, err = durable.OpenFile(dir, os.O_RDONLY); err == nil {
			locked, err = lockFile(l.dir, mode)
		}
	}
	if !locked || err != nil {
		l.Release()
		return nil, pid, err
	}
	file.WriteAt(fmt.Appendf(nil, "%*d\n", pidWidth-1, os.Getpid()), 0) // only for people
	return l, 0, nil
}

// lockFile locks a file without waiting. An interrupted call did not get the lock.
func lockFile(file *durable.File, mode int) (bool, error) {
	err := flock(int(file.Fd()), mode|syscall.LOCK_NB)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
		return false, nil
	}
	for _, refused := range []error{syscall.ENOLCK, syscall.ENOTSUP, syscall.ENOSYS, syscall.EBADF, syscall.EINVAL} {
		if errors.Is(err, refused) {
			return false, &UnsupportedError{Path: file.Name(), Err: err}
		}
	}
	return false, err
}

// named reports whether a name leads to an open file.
func named(file *durable.File, path string) (bool, error) {
	ours, err := file.Stat()
	if err != nil {
		return false, err
	}
	now, err := durable.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(ours, now), err
}

// Release releases the lock, also for those that inherited it. The note is not
// durable.
func (l *Lock) Release() error {
	err := flock(int(l.file.Fd()), syscall.LOCK_UN)
	return errors.Join(err, l.Leave())
}

// File is for a child that is to hold the lock as well, until Release or until both have
// ended.
func (l *Lock) File() *os.File { return l.file.File }

// Leave leaves the lock to those that inherited it. It is free when they have ended.
func (l *Lock) Leave() error {
	if l.dir != nil {
		l.dir.Close()
	}
	return l.file.Close()
}

// Note returns the note that the last holder of the lock at path left with SetNote; nil if
// there is none. After a crash, the bytes may be torn.
func Note(path string) ([]byte, error) {
	data, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrNoFile) {
		return nil, nil
	}
	if err != nil || len(data) <= pidWidth {
		return nil, err
	}
	return bytes.TrimSpace(bytes.Trim(data[pidWidth:], "\x00")), nil
}

// SetNote leaves up to 127 bytes for the next holder. It is not durable.
func (l *Lock) SetNote(note []byte) error {
	if len(note) > noteWidth-1 {
		return fmt.Errorf("lock note of %d bytes is too long", len(note))
	}
	_, err := l.file.WriteAt(fmt.Appendf(nil, "%-*s\n", noteWidth-1, note), pidWidth)
	return err
}

// Holder returns the process that holds the lock at path now; 0 if it has not
// written its id yet. held reports whether anybody holds the lock.
func Holder(path string) (pid int, held bool) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, false
	}
	defer file.Close()
	if err := flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return 0, false
	}
	return pidIn(file), true
}

// LastHolder returns the process that holds the lock at path, or held it last; 0
// if that is not known.
func LastHolder(path string) int {
	data, err := durable.ReadFile(path)
	if err != nil {
		return 0
	}
	return pidIn(bytes.NewReader(data))
}

// pidIn reads the process that holds a lock, or held it last; 0 if that is not
// known.
func pidIn(file io.ReaderAt) int {
	line := make([]byte, pidWidth)
	n, _ := file.ReadAt(line, 0)
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line[:n])))
	if err != nil {
		return 0
	}
	return pid
}
