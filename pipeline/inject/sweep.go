package inject

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"syscall"
	"time"

	"otm/heartbeat"
	"otm/internal/explain"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// sweep is one look through the inboxes.
type sweep struct {
	*Injector
	report *heartbeat.Report
	stuck  []explain.Finding // files that a crash left and that could not be put back

	line    *line
	board   *session
	creates *creates
	updates *updates
}

func newSweep(in *Injector) *sweep {
	board := &session{Injector: in}
	line := newLine(in)
	return &sweep{
		Injector: in, report: newReport(), line: line, board: board,
		creates: &creates{session: board, line: line}, updates: &updates{session: board, line: line},
	}
}

// begin makes the inboxes that are missing, and finishes what a crash
// interrupted in them. A file that cannot be judged stays hidden and is named;
// everything else goes on.
func (sw *sweep) begin() error {
	if err := sw.Box.Ensure(); err != nil {
		return err
	}
	for _, kind := range inbox.Kinds {
		stuck, err := sw.Box.PutBack(kind)
		if err != nil && concernsAll(err) {
			return err
		}
		if err != nil {
			sw.Log.Warn("inbox not read", "inbox", kind, "err", err)
		}
		for _, s := range stuck {
			if concernsAll(s.Err) {
				return s.Err
			}
			sw.stuck = append(sw.stuck, explain.New(explain.DropKept, "file", s.Name, "reason", fmt.Errorf("a crash left it hidden there, and it cannot be put back: %w", s.Err)))
		}
	}
	return nil
}

const (
	// relook is how long files are handled before the inboxes are listed again:
	// a report that arrives meanwhile does not wait for the creates before it.
	relook = 200 * time.Millisecond
	// roundFor is how long a round goes on if it settled something. Files that
	// waited are looked at again in the next one.
	roundFor = 10 * time.Second
)

// round handles each file that waits once, in the order of the line, and
// returns how many were settled. The error is trouble, see Sweep.
func (sw *sweep) round(ctx context.Context) (settled int, err error) {
	sw.report.Waiting, sw.report.NeedsPerson, sw.report.Due = len(sw.stuck), slices.Clone(sw.stuck), time.Time{}
	sw.updates.reset()
	defer func() { err = errors.Join(err, sw.board.end()) }()
	began := sw.Now()
	handled := map[delivered]bool{}
	for {
		files, unlisted := sw.line.look(handled)
		looked, again := sw.Now(), false
		for _, w := range files {
			if ctx.Err() != nil {
				return settled, nil
			}
			handled[w.key()] = true
			sw.line.serve(w)
			done, trouble := sw.handle(ctx, w)
			sw.progress()
			if trouble != nil {
				sw.trouble(trouble)
				return settled, sw.countWaiting()
			}
			if done {
				settled++
			}
			if again = sw.Now().Sub(looked) >= relook; again {
				break
			}
		}
		if unlisted != nil || !again || settled > 0 && sw.Now().Sub(began) >= roundFor {
			return settled, unlisted
		}
	}
}

// countWaiting counts the files that a sweep which ended early did not come to.
func (sw *sweep) countWaiting() error {
	sw.report.Waiting = len(sw.stuck)
	for _, kind := range inbox.Kinds {
		files, err := sw.Box.List(kind)
		if err != nil {
			return err
		}
		sw.report.Waiting += len(files)
	}
	return nil
}

// handle judges one file, and settles it if its verdict is final.
func (sw *sweep) handle(ctx context.Context, w *waiting) (settled bool, trouble error) {
	f := w.file
	var data []byte
	var err error
	if f.Regular() {
		data, f, err = sw.Box.Read(f)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // taken back, or settled by another
		}
	}
	w.tries++
	var v verdict
	leftover, lerr := false, error(nil)
	if f.Regular() && err == nil {
		leftover, lerr = sw.Box.Leftover(f, data)
	}
	switch {
	case lerr != nil:
		v = ownTrouble(lerr)
		sw.updates.holdAll(f)
	case leftover:
		return false, nil
	default:
		v = sw.guarded(f, func() verdict { return sw.judge(ctx, f, data, err) })
	}
	if v.result != nil {
		if settled, err = sw.settle(w, f, data, v.result); settled {
			return true, nil
		}
		sw.updates.held[v.task] = true // a later one must not come before what is decided anew
		v = verdict{due: sw.Now().Add(sw.Times.ParseableAge)}
		if err != nil {
			v = ownTrouble(err)
		}
	}
	if v.stop != nil {
		return false, v.stop
	}
	sw.wait(ctx, w, v)
	return false, nil
}

// wait reports that a file stays for now.
func (sw *sweep) wait(ctx context.Context, w *waiting, v verdict) {
	if there, err := sw.Box.Waiting(w.file.Kind, w.file.Name); err == nil && !there {
		return // it has gone
	}
	sw.report.Waiting++
	sw.report.RunBy(v.due)
	if v.kept == "" {
		return
	}
	if v.full {
		sw.report.Needs(explain.New(explain.ListFull))
	} else {
		sw.report.Needs(explain.New(explain.DropKept, "file", w.file.Name, "reason", v.kept).On(w.task))
	}
	level := slog.LevelWarn
	if w.tries > 1 {
		level = slog.LevelDebug // it was said before
	}
	sw.Log.Log(ctx, level, "kept drop", "drop", w.file.Name, "reason", v.kept)
}

// settle gives a file its last place. It reports false if there is nothing to
// settle: the file has gone, or changed since it was read and is judged again.
func (sw *sweep) settle(w *waiting, f inbox.File, data []byte, result *inbox.Result) (settled bool, err error) {
	result.At = sw.Now().UTC().Truncate(time.Second)
	result.Attempts = w.tries
	name, err := sw.Box.Settle(f, data, *result)
	if err != nil {
		return false, fmt.Errorf("settle %q: %w", f.Name, err)
	}
	delete(sw.known, w.key())
	switch {
	case name == "":
		return false, nil
	case result.Class == "":
		sw.report.Did[0].N++
		sw.Log.Info("settled drop", "drop", name, "inbox", f.Kind, "row", result.SlackItemID, "duplicate", result.SkippedDuplicate)
	default:
		sw.report.Failed = append(sw.report.Failed, explain.New(explain.DropFailed, "file", name, "class", result.Class, "error", result.Error).On(w.task))
		sw.Log.Error("drop failed", "drop", name, "inbox", f.Kind, "class", result.Class, "err", result.Error)
	}
	return true, nil
}

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

// judge decides about one file.
func (sw *sweep) judge(ctx context.Context, f inbox.File, data []byte, readErr error) verdict {
	if !f.Regular() {
		return fail(inbox.Invalid, "", "is %s, not a file", kindOf(f.Info.Mode()))
	}
	if readErr != nil {
		v := sw.unread(f, readErr)
		if v.result == nil {
			sw.updates.holdAll(f)
		}
		return v
	}
	if f.Kind == inbox.TaskUpdates {
		u, err := drop.ParseUpdate(data)
		if err != nil {
			return sw.unparsed(f, err)
		}
		return ignoring(u.Ignored, sw.updates.update(ctx, f, u))
	}
	c, err := drop.ParseCreate(data)
	if err != nil {
		return sw.unparsed(f, err)
	}
	return ignoring(c.Ignored, sw.creates.create(ctx, f, data, c))
}

// ignoring adds the keys that nobody read to a verdict.
func ignoring(keys []string, v verdict) verdict {
	if v.result != nil {
		v.result.Ignored = keys
	}
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
