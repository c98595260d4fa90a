package inject

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"otm/pipeline"
	"otm/pipeline/inbox"
)

// verdict is what became of one file in this round.
type verdict struct {
	result *inbox.Result   // the file is to be settled so
	due    time.Time       // it waits, and is to be looked at again at this time; zero: when something happens
	kept   string          // it waits until a person acts, for this reason
	full   bool            // the reason is that the board takes no more rows
	stop   error           // the next file would fail the same way: end the sweep
	task   pipeline.TaskID // of an update: whose later ones wait for this one to be settled
}

func wait(due time.Time) verdict { return verdict{due: due} }

func keep(reason string) verdict { return verdict{kept: reason} }

func fail(class inbox.Class, hint, format string, args ...any) verdict {
	return verdict{result: &inbox.Result{Class: class, Error: fmt.Sprintf(format, args...), Hint: hint}}
}

// boardTrouble is the verdict on a file that met an error of the board.
func boardTrouble(err error) verdict {
	var missing *pipeline.MissingError
	if errors.As(err, &missing) {
		return keep(missing.Error())
	}
	var e *pipeline.BoardError
	switch {
	case !errors.As(err, &e):
		return ownTrouble(err) // records are written in between
	case e.Class == pipeline.Refused:
		return fail(inbox.Rejected, "", "the board refuses it: %v", err)
	}
	return verdict{stop: err}
}

// ownTrouble is the verdict on a file that met an error of our own files, see
// Sweep.
func ownTrouble(err error) verdict {
	var changed *changedError
	if errors.As(err, &changed) {
		return wait(changed.again)
	}
	if concernsAll(err) {
		return verdict{stop: err}
	}
	return keep(err.Error())
}

// concernsAll reports whether the next file would meet the same error: our disk or
// our process lacks something, the counter cannot be used, or the sweep is to end.
// Any other error concerns the file that met it.
func concernsAll(err error) bool {
	for _, lack := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, lack) {
			return true
		}
	}
	var counter *counterError
	return errors.As(err, &counter)
}
