package inject

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// plan judges a file: its command is to be carried out, or the verdict is what becomes of
// it. A file that makes us panic fails, and the others go on.
func (sw *sweep) plan(ctx context.Context, w *waiting) (v verdict) {
	w.tries++
	defer func() {
		if problem := recover(); problem != nil {
			sw.Log.Error("internal error", "drop", w.file.Name, "panic", fmt.Sprint(problem))
			v = fail(inbox.Invalid, "", "internal error: %v", problem)
		}
	}()
	switch {
	case !w.file.Regular():
		return fail(inbox.Invalid, "", "is %s, not a file", kindOf(w.file.Info.Mode()))
	case w.readErr != nil:
		if v = sw.unread(w.file, w.readErr); v.result == nil {
			sw.holdAll(w.file)
		}
		return v
	}
	leftover, err := sw.Box.Leftover(w.file, w.data)
	switch {
	case err != nil:
		sw.holdAll(w.file)
		return ownTrouble(err)
	case leftover:
		return verdict{gone: true}
	case w.dropErr != nil:
		return sw.unparsed(w.file, w.dropErr)
	case w.create != nil:
		return creates{sw}.create(ctx, w)
	case sw.held.all || sw.held.tasks[w.task()]:
		return verdict{waits: true}
	}
	return updates{sw}.update(ctx, w)
}

// unread judges a file that could not be read. One whose mode forbids it may
// still be in the middle of being delivered: it fails once it has been left
// alone for a while. Where we lack means, the next file would fail as well, and
// must not overtake.
func (sw *sweep) unread(f inbox.File, err error) verdict {
	switch {
	case errors.Is(err, fs.ErrPermission):
		if quiet, restless := sw.restless(f.Changed()); restless {
			return wait(quiet)
		}
		return fail(inbox.Invalid, "", "cannot be read: %v", err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		return verdict{stop: err}
	}
	return keep(fmt.Sprintf("%q cannot be read: %v", f.Name, err))
}

// restless reports whether a file that changed at the given time may still be
// in the middle of being written, and until when. A time that is far in the
// future says nothing.
func (sw *sweep) restless(changed time.Time) (quiet time.Time, restless bool) {
	quiet = changed.Add(sw.Times.ParseableAge)
	now := sw.Now()
	return quiet, quiet.After(now) && quiet.Sub(now) <= 2*sw.Times.ParseableAge
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	}
	return "a special file"
}

// unparsed judges a file that is no drop. One that is no JSON object may still
// be in the middle of being written: it fails once it has been left alone for a
// while.
func (sw *sweep) unparsed(f inbox.File, err error) verdict {
	var syntax *drop.SyntaxError
	hint := ""
	if errors.As(err, &syntax) {
		if quiet, restless := sw.restless(f.Info.ModTime()); restless {
			return wait(quiet)
		}
		hint = "let a command write the file: otm-create --from -"
		if f.Kind == inbox.TaskUpdates {
			hint = "let a command write the file: otm-update --from -"
		}
	}
	if invalid, ok := errors.AsType[*drop.InvalidError](err); ok {
		hint = invalid.Hint
	}
	return fail(inbox.Invalid, hint, "%v", err)
}
