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
// still leads to the locked file, and starts again if not
// (https://github.com/gofrs/flock/pull/8 says why unlinking is a mistake). A
// process that comes while the holder of the deleted file still works gets a
// lock as well: where two holders would do lasting harm, AcquireIn locks a
// directory besides.
//
// The package promises nothing on network file systems, where flock depends on
// the server. If the server refuses, Acquire returns an error.
package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"otm/internal/durable"
)

// AcquireIn looks again for a held directory after pollMin plus up to
// pollSpread. It has to wait only if somebody deletes lock files.
const (
	pollMin    = time.Millisecond
	pollSpread = 6 * time.Millisecond
)

// Layout of a lock file in bytes: the pid, right-aligned, and a line feed; then
// the note, padded with spaces.
const (
	pidWidth  = 15
	noteWidth = 128
)

// Lock is a lock that is held. Its methods must not be called after Release.
type Lock struct {
	fl   *flock.Flock
	file *durable.File
	dir  *flock.Flock // nil unless AcquireIn took it
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
	l, err := try(path)
	switch {
	case l != nil || err != nil:
		return l, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case wait <= 0:
		return nil, &HeldError{Path: path, PID: LastHolder(path)}
	}
	return await(ctx, path, wait)
}

// AcquireIn is Acquire and locks the directory dir besides. So there is one
// holder even while somebody deletes the lock file again and again. The directory
// must exist and serve one lock only.
func AcquireIn(ctx context.Context, dir, path string, wait time.Duration) (*Lock, error) {
	deadline := time.Now().Add(wait)
	l, err := Acquire(ctx, path, wait)
	if err != nil {
		return nil, err
	}
	fl := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	for {
		ok, err := tryLock(fl)
		switch {
		case ok:
			l.dir = fl
			return l, nil
		case isUnsupported(err), errors.Is(err, syscall.EISDIR): // flock tries again for writing where EBADF is the answer
			err = &UnsupportedError{Path: dir, Err: err}
		case err == nil && !time.Now().Before(deadline):
			err = &HeldError{Path: path, Waited: wait} // the file with the pid was deleted
		case err == nil:
			err = pause(ctx)
		}
		if err != nil {
			l.Release()
			return nil, err
		}
	}
}

// pause waits before the next look; it returns ctx's cause if ctx ends first.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pollMin + rand.N(pollSpread)):
		return nil
	}
}

// tryLock locks without waiting. An interrupted call did not get the lock. Tests
// replace it to refuse like some file systems.
var tryLock = func(fl *flock.Flock) (bool, error) {
	ok, err := fl.TryLock()
	if errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return ok, err
}

// try locks without waiting; it returns nil, nil if somebody else has the lock.
func try(path string) (*Lock, error) {
	fl := flock.New(path, flock.SetPermissions(durable.FileMode))
	ok, err := tryLock(fl)
	if errors.Is(err, fs.ErrNotExist) {
		if err := durable.Mkdir(filepath.Dir(path)); err != nil {
			return nil, err
		}
		ok, err = tryLock(fl)
	}
	if err != nil || !ok {
		return nil, supported(path, err)
	}
	return locked(fl, path)
}

// supported returns an *UnsupportedError if err means that the file system
// refuses locks, else err.
func supported(path string, err error) error {
	if isUnsupported(err) {
		return &UnsupportedError{Path: path, Err: err}
	}
	return err
}

// locked makes a Lock of a file that was locked. If the name leads to another
// file, it unlocks the file and returns nil, nil.
func locked(fl *flock.Flock, path string) (*Lock, error) {
	file, err := openLocked(fl, path)
	if file == nil {
		fl.Unlock()
		return nil, err
	}
	l := &Lock{fl: fl, file: file}
	l.file.WriteAt(fmt.Appendf(nil, "%*d\n", pidWidth-1, os.Getpid()), 0) // only for people
	return l, nil
}

// openLocked opens the file behind the name for writing. It returns nil, nil if
// that is not the locked file.
func openLocked(fl *flock.Flock, path string) (*durable.File, error) {
	file, err := durable.OpenFile(path, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	locked, err := fl.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	named, err := file.Stat()
	if err != nil || !os.SameFile(locked, named) {
		file.Close()
		return nil, err
	}
	return file, nil
}

func isUnsupported(err error) bool {
	return errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOTSUP) ||
		errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.EINVAL)
}

// Release releases the lock. The note is not durable.
func (l *Lock) Release() error {
	if l.dir != nil {
		l.dir.Unlock()
	}
	l.file.Close()
	return l.fl.Unlock()
}

// Note returns what the last holder of the lock at path left with SetNote; nil if
// nothing. After a crash, the bytes may be torn.
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
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	fl := flock.New(path)
	ok, err := fl.TryRLock()
	if err != nil || ok {
		fl.Unlock()
		return 0, false
	}
	return LastHolder(path), true
}

// LastHolder returns the process that holds the lock at path, or held it last; 0
// if that is not known.
func LastHolder(path string) int {
	data, err := durable.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data[:min(len(data), pidWidth)])))
	if err != nil {
		return 0
	}
	return pid
}
