// Package lock makes one process at a time do something, with flock(2) on a
// file of its own that is never unlinked.
//
// The kernel gives the lock back when its holder dies, however it dies, so
// there are no stale locks and no timeouts to guess. The first line of the
// file is the holder's process id; it is there for people and for messages,
// nothing is decided by it. Behind it stands a note that the holder may leave
// for the next one.
//
// If somebody deletes the file, holders and newcomers would lock different
// files under one name. Acquire therefore checks, once it has the lock, that
// the name still leads to the file that it locked, and begins again if not
// (https://github.com/gofrs/flock/pull/8 tells why unlinking is a mistake).
//
// That leaves those who lock while the old file's holder is still at work. Where
// two holders would do harm that cannot be mended, AcquireIn locks the
// directory of the file as well.
//
// What this does not do: network file systems, where flock is a promise of the
// server. Where it is refused there, Acquire says so and gives no lock.
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
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"otm/internal/durable"
)

// Who waits for a directory (AcquireIn), which happens only where somebody
// deletes lock files, looks again after 1 ms plus up to pollSpread.
const (
	pollMin    = time.Millisecond
	pollSpread = 6 * time.Millisecond
)

// Layout of a lock file: the pid, right-aligned, with a line feed, then the
// note, padded with spaces.
const (
	pidWidth  = 15
	noteWidth = 64
)

// Lock is a lock that is held. Its methods must not be called after Release.
type Lock struct {
	fl   *flock.Flock
	file *durable.File
	dir  *flock.Flock // nil unless AcquireIn took it
}

// HeldError says that another process held the lock for as long as the caller
// wanted to wait. PID is 0 where the file does not tell.
type HeldError struct {
	Path   string
	PID    int
	Waited time.Duration
}

func (e *HeldError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d", e.PID)
	}
	if e.Waited == 0 {
		return fmt.Sprintf("lock %q is held by %s", e.Path, holder)
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

// Acquire takes the lock at path, making the file and its directory if they
// are missing, but not what the directory stands in: where that has gone, the
// error matches fs.ErrNotExist. It waits up to wait for another holder, zero meaning not at
// all, and returns a *HeldError after that, ctx's cause if ctx ends first, and
// an *UnsupportedError where the file system knows no locks.
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

// AcquireIn is Acquire, and locks the directory dir besides, so that there is
// one holder even while somebody deletes the lock file again and again. The
// directory must exist, and be used for one lock only.
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
			err = &HeldError{Path: path, Waited: wait} // the file that told by whom was deleted
		case err == nil:
			err = pause(ctx)
		}
		if err != nil {
			l.Release()
			return nil, err
		}
	}
}

// pause waits a moment before the next look; it returns ctx's cause if that
// ends first.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pollMin + rand.N(pollSpread)):
		return nil
	}
}

// tryLock locks without waiting; an interrupted call did not get the lock.
// Tests replace it by file systems that refuse.
var tryLock = func(fl *flock.Flock) (bool, error) {
	ok, err := fl.TryLock()
	if errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return ok, err
}

// try returns nil, nil where somebody else has the lock.
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

// supported says where an error means that the file system refuses locks.
func supported(path string, err error) error {
	if isUnsupported(err) {
		return &UnsupportedError{Path: path, Err: err}
	}
	return err
}

// locked is the lock, where the name still leads to the file that was locked;
// else it gives it back and returns nil, nil.
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

// openLocked opens the file behind the name for writing. It returns nil
// without an error where that is not the file that was locked.
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

// Release gives the lock back. The note is not made durable.
func (l *Lock) Release() error {
	if l.dir != nil {
		l.dir.Unlock()
	}
	l.file.Close()
	return l.fl.Unlock()
}

// Note reads what the last holder left with SetNote; nil if nothing. The
// bytes are whatever stands there: after a crash, they may be torn.
func (l *Lock) Note() ([]byte, error) {
	buf := make([]byte, noteWidth)
	n, err := l.file.ReadAt(buf, pidWidth)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return bytes.TrimSpace(bytes.Trim(buf[:n], "\x00")), nil
}

// SetNote leaves up to 63 bytes for the next holder, without syncing them.
func (l *Lock) SetNote(note []byte) error {
	if len(note) > noteWidth-1 {
		return fmt.Errorf("lock note of %d bytes is too long", len(note))
	}
	_, err := l.file.WriteAt(fmt.Appendf(nil, "%-*s\n", noteWidth-1, note), pidWidth)
	return err
}

// Holder says who holds the lock at path now, without waiting. The pid is 0
// where the holder has not written it yet; held is false where nobody does.
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

// LastHolder is the process that holds the lock at path, or was the last to
// hold it; 0 where that is not known.
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
