package store

import (
	"errors"
	"fmt"

	"otm/internal/sqlite"
)

// ErrAway says that the database server does not answer. It is not known whether a change
// was made: the same commands again are harmless where they have ids.
var ErrAway = errors.New("the database does not answer")

// NewerError says that a newer version of OTM made the schema of the database.
type NewerError struct {
	Name         string // of the database
	Found, Known int64  // versions of the schema
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("database %q has schema %d, and this version of otm knows schemas up to %d", e.Name, e.Found, e.Known)
}

// SharedError says that the schema must be brought up to date, and that programs of an
// older version still use it.
type SharedError struct {
	Name string // of the database
	Err  error
}

func (e *SharedError) Error() string {
	return fmt.Sprintf("database %q has an older schema, and programs of an older version of otm use it: %v", e.Name, e.Err)
}

func (e *SharedError) Unwrap() error { return e.Err }

// Error is an error of the database with the next step. It matches sqlite.ErrBusy,
// sqlite.ErrFull, sqlite.ErrCorrupt, sqlite.ErrNoLocks, sqlite.ErrMoved or ErrAway.
type Error struct {
	Err  error
	Hint string // what a person can do; "": nothing is known
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Hint returns what a person can do about an error of a store; "": nothing is known.
func Hint(err error) string {
	var newer *NewerError
	var shared *SharedError
	var known *Error
	switch {
	case errors.As(err, &shared):
		return "restart otm up, and end other programs of the older version"
	case errors.As(err, &newer):
		return fmt.Sprintf("use the version of otm that last ran here, or a later one: it knows schema %d", newer.Found)
	case errors.As(err, &known):
		return known.Hint
	}
	return ""
}

// ErrState says that a state cannot be decoded. Its events may still be whole.
var ErrState = errors.New("a state in the database is damaged")

func brokenState(err error) error {
	return &Error{Err: fmt.Errorf("%w: %w", ErrState, err), Hint: "otm rebuild   # makes the states anew from the events, after a backup"}
}

// explain gives an error of the database its next step.
func explain(err error, name string) error {
	hint := ""
	switch {
	case errors.Is(err, sqlite.ErrBusy):
		hint = fmt.Sprintf("another program holds the write lock: fuser -v %q shows which; nothing was changed", name)
	case errors.Is(err, sqlite.ErrFull):
		hint = "free some space: nothing was changed, and OTM goes on by itself"
	case errors.Is(err, sqlite.ErrCorrupt):
		hint = fmt.Sprintf("stop all otm programs, move %q and the files whose names begin with it away, put a backup in its place, and run otm fsck", name)
	case errors.Is(err, sqlite.ErrMoved):
		hint = "OTM goes on by itself, with the file that is there then; put a backup there now if it is to be one, or a new one is made"
	case errors.Is(err, ErrAway):
		hint = "is PostgreSQL running? OTM goes on by itself once it is"
	case errors.Is(err, sqlite.ErrNoLocks):
		hint = "put the data directory on a disk of this machine"
	default:
		return err
	}
	return &Error{Err: err, Hint: hint}
}
