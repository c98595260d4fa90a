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

// guarded turns a panic into a verdict: a file that makes us panic fails, and
// the others go on.
func (in *Injector) guarded(f inbox.File, judge func() verdict) (v verdict) {
	defer func() {
		if p := recover(); p != nil {
			in.Log.Error("internal error", "drop", f.Name, "panic", fmt.Sprint(p))
			v = fail(inbox.Invalid, "", "internal error: %v", p)
		}
	}()
	return judge()
}

// read parses a file and plans its command.
func (sw *sweep) read(ctx context.Context, p *planned, readErr error) (v verdict) {
	f := p.file
	if !f.Regular() {
		return fail(inbox.Invalid, "", "is %s, not a file", kindOf(f.Info.Mode()))
	}
	if readErr != nil {
		v := sw.unread(f, readErr)
		if v.result == nil {
			sw.holdAll(f)
		}
		return v
	}
	if f.Kind == inbox.TaskUpdates {
		u, err := drop.ParseUpdate(p.data)
		if err != nil {
			return sw.unparsed(f, err)
		}
		if sw.held.all || sw.held.tasks[u.TaskID] {
			return verdict{waits: true}
		}
		p.ignored = u.Ignored
		p.command, v = updates{sw}.update(ctx, p.w, u)
		return v
	}
	c, err := drop.ParseCreate(p.data)
	if err != nil {
		return sw.unparsed(f, err)
	}
	p.ignored = c.Ignored
	p.command, v = creates{sw}.create(ctx, p.w, p.data, c)
	return v
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
	var invalid *drop.InvalidError
	if errors.As(err, &invalid) {
		hint = invalid.Hint
	}
	return fail(inbox.Invalid, hint, "%v", err)
}
