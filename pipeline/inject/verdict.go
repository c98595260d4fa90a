package inject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"otm/core/outbox"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// verdict is what becomes of one file in this round. The zero verdict: its command is
// to be carried out.
type verdict struct {
	result *inbox.Result // the file is to be settled so
	due    time.Time     // it waits, and is to be looked at again at this time; zero: when something happens
	kept   string        // it waits until a person acts, for this reason
	full   bool          // the reason is that the board takes no more rows
	stop   error         // the next file would fail the same way: end the sweep
	waits  bool          // it waits
	gone   bool          // it is there no more
}

func wait(due time.Time) verdict { return verdict{waits: true, due: due} }

func keep(reason string) verdict { return verdict{waits: true, kept: reason} }

func fail(class inbox.Class, hint, format string, args ...any) verdict {
	return verdict{result: &inbox.Result{Class: class, Error: fmt.Sprintf(format, args...), Hint: hint}}
}

// undelivered is the verdict on a file whose effects were not delivered. What it asked
// for is in the store, so it is not asked again. makesRows says that rows of its task
// are missing.
func undelivered(makesRows bool, err error) verdict {
	var left *outbox.LeftError
	var e *pipeline.BoardError
	needsPerson := errors.As(err, &left) && left.Person
	switch {
	case isPanic(err):
		return fail(inbox.Invalid, "", "%v", err)
	case errors.As(err, &e) && e.Full:
		return verdict{kept: err.Error(), full: true}
	case e != nil && e.RowGone && left != nil:
		return wait(left.Due) // until it is known whether somebody deleted the row
	case pipeline.IsRefused(err):
		return fail(inbox.Rejected, "", "the board refuses it: %v", err)
	case needsPerson:
		return keep(err.Error())
	case e != nil && e.Code == "ratelimited" && !e.Until.IsZero() && makesRows:
		return wait(e.Until) // updates go on
	case e != nil || left == nil || left.Stop:
		return verdict{stop: err}
	}
	return wait(left.Due)
}

// engineTrouble is the verdict on a file for which the engine failed before anything was
// asked of it. The next file would meet the same, unless a person has to add something to
// the board: then what needs no board goes on.
func engineTrouble(err error) verdict {
	if missing, ok := errors.AsType[*pipeline.MissingError](err); ok {
		return keep(missing.Error())
	}
	return verdict{stop: err}
}

// ownTrouble is the verdict on a file that met an error of our own files, see Sweep.
func ownTrouble(err error) verdict {
	if concernsAll(err) {
		return verdict{stop: err}
	}
	return keep(err.Error())
}

// concernsAll reports whether the next file would meet the same error: our disk or
// our process lacks something, or the sweep is to end. Any other error concerns the file that met it.
func concernsAll(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
		context.Canceled, context.DeadlineExceeded,
	}, func(lack error) bool { return errors.Is(err, lack) })
}
