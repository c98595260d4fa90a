package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"otm/internal/durable"
)

// Kinds of errors. They match what Open, Write, Read and Backup return.
var (
	// ErrBusy says that other writers, in this process or another, kept the
	// database locked for the whole busy timeout. Nothing was changed.
	ErrBusy = errors.New("database is busy")

	// ErrFull says that the disk, the quota or the database's own limit is full.
	// Nothing was changed.
	ErrFull = errors.New("no space for the database")

	// ErrCorrupt says that the file is damaged, or is no database.
	ErrCorrupt = errors.New("database is corrupt")

	// ErrNoLocks says that the file system lacks the locks that SQLite needs.
	ErrNoLocks = errors.New("file system has no locks for a database")

	// ErrSettings says that the database does not work with the settings that
	// make it durable.
	ErrSettings = errors.New("database refuses a setting")

	// ErrMoved says that somebody removed or replaced the file since it was opened. It
	// must be opened anew.
	ErrMoved = errors.New("database file was removed or replaced meanwhile")

	// ErrClosed is the error of every call after Close.
	ErrClosed = errors.New("database is closed")
)

// failed describes the error of an operation on the database, with its kind.
func (d *DB) failed(op string, err error) error {
	if err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	kind := kindOf(err)
	if kind == nil && errors.Is(err, sqlite3.IOERR) {
		if full := writeBeside(d.path); full != nil {
			kind, err = ErrFull, full
		}
	}
	switch {
	case kind == nil || errors.Is(err, kind):
		return fmt.Errorf("%s %q: %w", op, d.path, err)
	case kind == ErrNoLocks:
		return fmt.Errorf("%s %q: %w: move it to a disk of this machine: %w", op, d.path, kind, err)
	}
	return fmt.Errorf("%s %q: %w: %w", op, d.path, kind, err)
}

// failedOwn is failed for the error of a caller's function. It stays as it is
// unless it comes from the database and has a kind.
func (d *DB) failedOwn(op string, err error) error {
	if kindOf(err) == nil && !errors.Is(err, sqlite3.IOERR) {
		return err
	}
	return d.failed(op, err)
}

// kindOf returns which of the errors above the driver's error is, or nil.
func kindOf(err error) error {
	if extended, ok := errors.AsType[sqlite3.ExtendedErrorCode](err); ok {
		switch extended {
		case sqlite3.IOERR_LOCK, sqlite3.IOERR_RDLOCK, sqlite3.IOERR_UNLOCK, sqlite3.IOERR_CHECKRESERVEDLOCK,
			sqlite3.IOERR_SHMLOCK, sqlite3.IOERR_SHMMAP:
			return ErrNoLocks
		}
	}
	var code sqlite3.ErrorCode
	if !errors.As(err, &code) {
		return nil
	}
	switch code {
	case sqlite3.BUSY, sqlite3.LOCKED:
		return ErrBusy
	case sqlite3.FULL:
		return ErrFull
	case sqlite3.CORRUPT, sqlite3.NOTADB:
		return ErrCorrupt
	}
	return nil
}

// writeBeside writes a few pages to a file beside the database, and returns the
// error if there is no space for them. The driver reports a full disk as an I/O
// error, without the system's number.
func writeBeside(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), durable.TempPrefix+"space-*")
	if err == nil {
		defer os.Remove(f.Name())
		defer f.Close()
		_, err = f.Write(make([]byte, 64<<10))
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return nil
}

// causeOf returns why ctx ended if it did, and else the error.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
