package inject

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// sweep is one look through the inboxes.
type sweep struct {
	*Injector
	report *Report
	stuck  []string // why files that a crash left could not be put back

	batch     pipeline.Batch
	refreshed bool // the board was walked in this sweep

	noCreates time.Time                // the board takes no rows before this time; zero: it does
	full      string                   // why the board takes no more rows; "": it does
	creating  map[pipeline.TaskID]bool // tasks whose create is in the inbox
	held      map[pipeline.TaskID]bool // tasks with an update that waits
	allHeld   bool                     // an update waits of which nobody knows the task

	drops map[pipeline.TaskID]pipeline.Dropped // for records that were lost; nil: not asked yet
}

// verdict is what became of one file in this round.
type verdict struct {
	result *inbox.Result   // the file is to be settled so
	due    time.Time       // it waits, and is to be looked at again at this time; zero: when something happens
	kept   string          // it waits until a person acts, for this reason
	stop   error           // trouble that would meet the next file as well: nothing more in this sweep
	task   pipeline.TaskID // of an update: whose later ones wait for this one to be settled
}

func wait(due time.Time) verdict { return verdict{due: due} }

func keep(reason string) verdict { return verdict{kept: reason} }

func fail(class inbox.Class, hint, format string, args ...any) verdict {
	return verdict{result: &inbox.Result{Class: class, Error: fmt.Sprintf(format, args...), Hint: hint}}
}

// begin makes the inboxes that are missing, and finishes what a crash
// interrupted in them. A file that cannot be judged stays hidden and is named;
// everything else goes on.
func (sw *sweep) begin() error {
	if err := sw.Box.Ensure(); err != nil {
		return err
	}
	sw.stuck = nil
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
			sw.stuck = append(sw.stuck, fmt.Sprintf("%q in %s, left by a crash, cannot be put back: %v", s.Name, kind, s.Err))
		}
	}
	return nil
}

// round handles every file that is there once, creates before updates, and
// returns how many were settled. The error is trouble, see Sweep.
func (sw *sweep) round(ctx context.Context) (settled int, err error) {
	sw.report.Waiting, sw.report.Kept, sw.report.Due = 0, slices.Clone(sw.stuck), time.Time{}
	sw.creating, sw.held, sw.allHeld = map[pipeline.TaskID]bool{}, map[pipeline.TaskID]bool{}, false
	defer func() { err = errors.Join(err, sw.endBatch()) }()
	for _, kind := range inbox.Kinds {
		files, err := sw.Box.List(kind)
		if err != nil {
			return settled, err
		}
		sw.forget(kind, files)
		for _, f := range files {
			if ctx.Err() != nil {
				return settled, nil
			}
			done, trouble := sw.file(ctx, f)
			sw.progress()
			if trouble != nil {
				sw.trouble(trouble)
				return settled, sw.countWaiting()
			}
			if done {
				settled++
			}
		}
	}
	return settled, nil
}

func (sw *sweep) progress() {
	if sw.Progress != nil {
		sw.Progress()
	}
}

// forget drops the looks at files that are not there any more: their writers
// took them back.
func (sw *sweep) forget(kind inbox.Kind, files []inbox.File) {
	there := make(map[string]bool, len(files))
	for _, f := range files {
		there[f.Name] = true
	}
	maps.DeleteFunc(sw.tries, func(d delivered, _ int) bool { return d.kind == kind && !there[d.name] })
}

// countWaiting counts what a sweep that ended early has not come to.
func (sw *sweep) countWaiting() error {
	sw.report.Waiting = len(sw.stuck) - len(sw.report.Kept)
	for _, kind := range inbox.Kinds {
		files, err := sw.Box.List(kind)
		if err != nil {
			return err
		}
		sw.report.Waiting += len(files)
	}
	return nil
}

// file handles one file, and settles it if its verdict is in.
func (sw *sweep) file(ctx context.Context, f inbox.File) (settled bool, trouble error) {
	var data []byte
	var err error
	if f.Regular() {
		data, f, err = sw.Box.Read(f)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // taken back, or settled by another
		}
	}
	sw.tries[delivered{f.Kind, f.Name}]++
	var v verdict
	switch leftover, lerr := sw.leftover(f, data, err); {
	case lerr != nil:
		v = ownTrouble(lerr)
		sw.holdAll(f)
	case leftover:
		return false, nil
	default:
		v = sw.guarded(f, func() verdict { return sw.judge(ctx, f, data, err) })
	}
	if v.result != nil {
		if settled, err = sw.settle(f, data, v.result); settled {
			return true, nil
		}
		sw.held[v.task] = true // a later one must not come before what is decided anew
		v = verdict{due: sw.Now().Add(sw.Times.ParseableAge)}
		if err != nil {
			v = ownTrouble(err)
		}
	}
	if v.stop != nil {
		return false, v.stop
	}
	sw.wait(ctx, f, v)
	return false, nil
}

// leftover tells whether a file that was read is settled already, and ends that.
func (sw *sweep) leftover(f inbox.File, data []byte, readErr error) (bool, error) {
	if !f.Regular() || readErr != nil {
		return false, nil
	}
	return sw.Box.Leftover(f, data)
}

// wait notes that a file stays for now.
func (sw *sweep) wait(ctx context.Context, f inbox.File, v verdict) {
	there, err := sw.Box.Waiting(f.Kind, f.Name)
	switch {
	case err == nil && !there:
		return // it has gone
	case v.kept == "":
		sw.report.Waiting++
	default:
		sw.report.Kept = append(sw.report.Kept, v.kept)
		level := slog.LevelWarn
		if sw.tries[delivered{f.Kind, f.Name}] > 1 {
			level = slog.LevelDebug // it was said before
		}
		sw.Log.Log(ctx, level, "kept drop", "drop", f.Name, "reason", v.kept)
	}
	if !v.due.IsZero() {
		sw.report.due(v.due)
	}
}

// settle gives a file its last place. It says false where there is nothing to
// settle: the file was changed since it was read, and is judged again, or has
// gone.
func (sw *sweep) settle(f inbox.File, data []byte, result *inbox.Result) (settled bool, err error) {
	at := delivered{f.Kind, f.Name}
	result.At = sw.Now().UTC().Truncate(time.Second)
	result.Attempts = sw.tries[at]
	name, err := sw.Box.Settle(f, data, *result)
	if err != nil {
		return false, fmt.Errorf("settle %q: %w", f.Name, err)
	}
	delete(sw.tries, at)
	switch {
	case name == "":
		return false, nil
	case result.Class == "":
		sw.report.Processed++
		sw.Log.Info("settled drop", "drop", name, "inbox", f.Kind, "row", result.SlackItemID, "duplicate", result.SkippedDuplicate)
	default:
		sw.report.Failed++
		sw.Log.Error("drop failed", "drop", name, "inbox", f.Kind, "class", result.Class, "err", result.Error)
	}
	return true, nil
}

// guarded turns a panic into a verdict. A file that makes us panic is a bad
// file: the others go on.
func (sw *sweep) guarded(f inbox.File, judge func() verdict) (v verdict) {
	defer func() {
		if p := recover(); p != nil {
			sw.Log.Error("internal error", "drop", f.Name, "panic", fmt.Sprint(p))
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
			sw.holdAll(f)
		}
		return v
	}
	if f.Kind == inbox.TaskUpdates {
		u, err := drop.ParseUpdate(data)
		if err != nil {
			return sw.unparsed(f, err)
		}
		return sw.update(ctx, f, u)
	}
	c, err := drop.ParseCreate(data)
	if err != nil {
		return sw.unparsed(f, err)
	}
	return sw.create(ctx, f, data, c)
}

// holdAll holds back all updates behind one that could not be read, as it may be
// of any task; one that stays so holds up nobody for longer than UpdateWait.
func (sw *sweep) holdAll(f inbox.File) {
	if f.Kind == inbox.TaskUpdates && sw.Now().Sub(f.Info.ModTime()).Abs() < sw.Times.UpdateWait {
		sw.allHeld = true
	}
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
	if errors.As(err, &syntax) {
		if quiet, restless := sw.restless(f.Info.ModTime()); restless {
			return wait(quiet)
		}
	}
	hint := ""
	var invalid *drop.InvalidError
	if errors.As(err, &invalid) {
		hint = invalid.Hint
	}
	return fail(inbox.Invalid, hint, "%v", err)
}

// open returns the batch in which to work, a new one where the last has lasted
// its time.
func (sw *sweep) open(ctx context.Context) (pipeline.Batch, error) {
	if sw.batch != nil && sw.batch.Over() {
		if err := sw.endBatch(); err != nil {
			return nil, err
		}
	}
	if sw.batch == nil {
		batch, err := sw.Board.Begin(ctx)
		if err != nil {
			return nil, err
		}
		sw.batch = batch
		// Elsewhere a failure is a warning (app.raising); here no id may be given
		// out that stands on the board.
		if err := sw.Store.RaiseAbove(ctx, batch); err != nil {
			return nil, err
		}
	}
	return sw.batch, nil
}

func (sw *sweep) endBatch() error {
	if sw.batch == nil {
		return nil
	}
	err := sw.batch.End()
	sw.batch = nil
	return err
}

// look makes sure that the rows are known well enough for a create.
func (sw *sweep) look(ctx context.Context, b pipeline.Batch) error {
	maxAge := createAge
	if sw.Fresh && !sw.refreshed {
		maxAge = 0
	}
	if maxAge > 0 && b.Fresh(maxAge) {
		return nil
	}
	return sw.walk(ctx, b)
}

func (sw *sweep) walk(ctx context.Context, b pipeline.Batch) error {
	if err := b.Refresh(ctx, 0); err != nil {
		return err
	}
	sw.refreshed = true
	return sw.Store.RaiseAbove(ctx, b)
}

// boardTrouble turns an error of work on the board into what happens to the
// file that met it.
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

// ownTrouble turns trouble with our own files into what happens to the file
// that met it, see Sweep.
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

// concernsAll tells whether trouble with our own files would meet the next one
// as well: our disk or our process lacks something, or it is no trouble with a
// file at all, as a lock that is held.
func concernsAll(err error) bool {
	for _, lack := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
	} {
		if errors.Is(err, lack) {
			return true
		}
	}
	var path *fs.PathError
	var link *os.LinkError
	return !errors.As(err, &path) && !errors.As(err, &link)
}

// retryBoard is when to try again after trouble of which nobody says how long
// it lasts.
const retryBoard = 10 * time.Second

// trouble notes what ended the sweep early, and says when it is to go on.
func (sw *sweep) trouble(err error) {
	sw.report.Trouble = err
	var e *pipeline.BoardError
	switch {
	case errors.As(err, &e) && e.Class == pipeline.Fatal:
		sw.Log.Error("board refused", "err", err)
	case errors.As(err, &e) && !e.Until.IsZero():
		sw.report.due(e.Until)
		sw.Log.Info("waiting for the board", "until", e.Until.UTC(), "err", err)
	case pipeline.MaybeApplied(err):
		sw.report.due(sw.Now().Add(min(retryBoard, sw.Times.SettleAfter)))
		sw.Log.Warn("answer lost", "err", err)
	default:
		sw.report.due(sw.Now().Add(retryBoard))
		sw.Log.Warn("sweep ended early", "err", err)
	}
}
