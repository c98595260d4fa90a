package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"otm/core"
	"otm/heartbeat"
	"otm/internal/crash"
	"otm/internal/explain"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// sweep is one look through the inboxes.
type sweep struct {
	*Injector
	report *heartbeat.Report
	line   *line
	held   holds
	atOnce int // how many files are carried out together
	batch  batch
	full   *verdict // on further creates, as the board takes no more rows; nil: it does
}

// batch is what is read once for the files that are planned together.
type batch struct {
	files  []*waiting
	looked map[time.Duration]bool              // at the board, as of at most so long ago
	known  *known                              // nil: not read yet
	strays map[pipeline.TaskID][]core.RowFound // nil: not read yet
}

// creates returns the ids of the tasks that the files create.
func (b *batch) creates() (ids []pipeline.TaskID) {
	for _, w := range b.files {
		if w.create != nil {
			ids = append(ids, w.create.Task.ID)
		}
	}
	return ids
}

func newSweep(in *Injector) *sweep {
	return &sweep{Injector: in, report: newReport(), line: newLine(in), atOnce: firstBatch}
}

const (
	// relook is how long files are handled before the inboxes are listed again:
	// a report that arrives meanwhile does not wait for the creates before it.
	relook = 200 * time.Millisecond
	// roundFor is how long a round goes on if it settled something. Files that
	// waited are looked at again in the next one.
	roundFor = 10 * time.Second
)

// How many files are carried out together, at first and at most. They share a
// transaction and the calls to the board. A batch that takes long makes the next one
// smaller, so that a report does not wait for many creates on a slow board.
const (
	firstBatch = 4
	maxBatch   = 50
)

// round handles each file that waits once, in the order of the line, and returns how
// many were settled. The error is trouble, see Sweep.
func (sw *sweep) round(ctx context.Context) (settled int, err error) {
	sw.report.Waiting, sw.report.NeedsPerson, sw.report.Due = 0, nil, time.Time{}
	sw.held = holds{tasks: map[pipeline.TaskID]bool{}}
	began := sw.Now()
	handled := map[delivered]bool{}
	for {
		files, unlisted := sw.line.look(ctx, handled)
		looked, again := sw.Now(), false
		for len(files) > 0 {
			chunk := files[:min(sw.atOnce, len(files))]
			files = files[len(chunk):]
			start := sw.Now()
			n, trouble := sw.handle(ctx, chunk, handled)
			sw.resize(sw.Now().Sub(start))
			settled += n
			if trouble != nil {
				sw.trouble(ctx, trouble)
				return settled, sw.countWaiting()
			}
			if ctx.Err() != nil {
				return settled, nil
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

// resize sets the size of the next batch by how long one took.
func (sw *sweep) resize(took time.Duration) {
	if took < relook/2 {
		sw.atOnce = min(2*sw.atOnce, maxBatch)
	} else {
		sw.atOnce = max(sw.atOnce/2, 1)
	}
}

// handle plans the commands of some files, carries them out together, and settles the
// files whose effects are delivered. The error is trouble.
func (sw *sweep) handle(ctx context.Context, files []*waiting, handled map[delivered]bool) (settled int, trouble error) {
	sw.batch = batch{files: files, looked: map[time.Duration]bool{}}
	var plans []*waiting
	for _, w := range files {
		if ctx.Err() != nil {
			break
		}
		handled[w.key()] = true
		sw.line.serve(w)
		w.verdict = sw.plan(ctx, w)
		sw.progress()
		switch {
		case w.verdict.gone:
			continue
		case w.verdict == verdict{}:
			plans = append(plans, w)
			continue
		}
		n, err := sw.finish(ctx, w)
		settled += n
		if err != nil {
			trouble = err
			break
		}
	}
	n, err := sw.carryOut(ctx, plans)
	return settled + n, errors.Join(trouble, err)
}

// carryOut carries out commands in one transaction, delivers their effects, and
// settles the files for which that worked.
func (sw *sweep) carryOut(ctx context.Context, plans []*waiting) (settled int, trouble error) {
	if len(plans) == 0 || ctx.Err() != nil {
		return 0, nil
	}
	outcomes, err := sw.Engine.Do(ctx, pipeline.Map(plans, func(w *waiting) core.Command { return w.command })...)
	if err != nil {
		return 0, err
	}
	crash.Point("inject.done")
	var ids []pipeline.TaskID
	for i, w := range plans {
		w.outcome = outcomes[i]
		if w.outcome.Err == nil {
			ids = append(ids, w.command.Task)
		}
	}
	left, err := sw.Engine.Deliver(ctx, ids...)
	if err != nil {
		return 0, err
	}
	crash.Point("inject.delivered")
	tasks, err := sw.tasks(ctx, ids)
	if err != nil {
		return 0, err
	}
	first := 0
	for i, w := range plans {
		if w.outcome.Before { // those before it are settled first: it may have come twice
			n, err := sw.finish(ctx, plans[first:i]...)
			if settled += n; err != nil {
				return settled, err
			}
			first = i
		}
		w.verdict = sw.judge(w, left[w.command.Task], tasks[w.command.Task])
	}
	n, err := sw.finish(ctx, plans[first:]...)
	return settled + n, err
}

func isPanic(err error) bool {
	var p *core.PanicError
	return errors.As(err, &p)
}

func (sw *sweep) tasks(ctx context.Context, ids []pipeline.TaskID) (map[pipeline.TaskID]*core.Task, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	tasks, err := sw.Engine.Tasks(ctx, core.Filter{IDs: ids})
	return core.ByID(tasks), err
}

// judge decides about a file by what came of its command and of the effects. left is
// why the effects were not delivered.
func (sw *sweep) judge(w *waiting, left error, t *core.Task) verdict {
	var refused *core.Refused
	switch err := w.outcome.Err; {
	case errors.Is(err, core.ErrNotYet):
		return verdict{waits: true}
	case errors.As(err, &refused):
		return refusal(w, refused)
	case isPanic(err):
		return fail(inbox.Invalid, "", "%v", err)
	case err != nil:
		return ownTrouble(err)
	case t == nil:
		return ownTrouble(core.ErrNoTask)
	case left != nil && !w.isShown(t, left):
		v := undelivered(!t.OnBoard(), left)
		if soon := sw.Now().Add(100 * time.Millisecond); v.waits && v.kept == "" && v.due.Before(soon) {
			v.due = soon // another process delivers it
		}
		return v
	case w.file.Kind == inbox.TaskUpdates:
		return updates{sw}.reported(w, t)
	}
	return creates{sw}.created(w, t)
}

// isShown reports whether the board shows all that a report brought, although it refuses
// a text of an earlier one.
func (w *waiting) isShown(t *core.Task, left error) bool {
	r, ok := w.command.Do.(core.Report)
	if !ok || r.Reason != "" || r.Result != "" || !pipeline.IsRefused(left) || !t.OnBoard() {
		return false
	}
	stale := slices.DeleteFunc(t.Stale(), func(f pipeline.Field) bool {
		return f == pipeline.FieldTitle || f == pipeline.FieldReason || f == pipeline.FieldResult
	})
	return len(stale) == 0 && !slices.ContainsFunc(t.Steps, func(s core.Step) bool { return s.IsStale() })
}

// refusal is the verdict on a file whose command was refused.
func refusal(w *waiting, r *core.Refused) verdict {
	switch {
	case r.Rule == core.RuleOtherTask:
		return conflict(w.command.Task, r.Title)
	case r.Rule == core.RuleOtherDrop && w.file.Kind == inbox.NewTasks:
		return failForNewID("%v", r)
	}
	hint := "otm show " + r.Task.String()
	if r.Rule == core.RuleArchived {
		hint = "otm history " + r.Task.String()
	}
	return fail(inbox.Class(r.Class), hint, "%v", r)
}

// isTwice reports whether the drop of a command that was carried out before came a
// second time. If not, only its settling was interrupted.
func (sw *sweep) isTwice(w *waiting) (bool, error) {
	done, _, err := sw.Engine.Did(context.Background(), w.command.ID)
	if err != nil || done.Drop != w.file.Name {
		return true, err
	}
	return sw.Box.IsSettled(inbox.ProcessedDir, w.file.Name)
}

// look looks at the board, once for the files that are planned together.
func (sw *sweep) look(ctx context.Context, maxAge time.Duration) error {
	if sw.batch.looked[maxAge] {
		return nil
	}
	err := sw.Engine.Refresh(ctx, maxAge)
	if err == nil {
		sw.batch.looked[maxAge], sw.batch.strays = true, nil
	}
	return err
}

// countWaiting counts the files that a sweep which ended early did not come to.
func (sw *sweep) countWaiting() error {
	sw.report.Waiting = 0
	for _, kind := range inbox.Kinds {
		files, err := sw.Box.List(kind)
		if err != nil {
			return err
		}
		sw.report.Waiting += len(files)
	}
	return nil
}

// finish settles the files whose verdict is final, and returns how many. The others wait.
func (sw *sweep) finish(ctx context.Context, files ...*waiting) (settled int, trouble error) {
	drops := map[*waiting]*inbox.Settling{}
	var all []*inbox.Settling
	for i, w := range files {
		if w.verdict.result == nil {
			continue
		}
		if w.file.Kind == inbox.TaskUpdates && w.verdict.result.Class != "" {
			if trouble = sw.noteFailed(ctx, w, w.verdict.result.Error); trouble != nil {
				files = files[:i] // the next one would meet the same
				break
			}
		}
		drops[w] = sw.settling(w)
		all = append(all, drops[w])
	}
	sw.Box.Settle(all...)
	for _, w := range files {
		if d := drops[w]; d != nil {
			if sw.settled(w, d) {
				settled++
				sw.progress()
				continue
			}
			w.verdict = wait(sw.Now().Add(sw.Times.ParseableAge)) // it changed since it was read, and is judged anew
			if d.Err != nil {
				w.verdict = ownTrouble(fmt.Errorf("settle %q: %w", d.Name, d.Err))
			}
		}
		if w.file.Kind == inbox.TaskUpdates {
			sw.held.tasks[w.task()] = true
		}
		if w.verdict.stop != nil {
			trouble = cmp.Or(trouble, w.verdict.stop)
		} else {
			sw.wait(ctx, w, w.verdict)
		}
		sw.progress()
	}
	return settled, trouble
}

// noteFailed notes in the history of a task that a report on it failed, once.
func (sw *sweep) noteFailed(ctx context.Context, w *waiting, why string) error {
	if w.command.Task == 0 {
		return nil
	}
	by := w.command.By
	if by.Kind == "" {
		by = core.Component(Who)
	}
	failed := core.FailedReport{Drop: w.file.Name, Why: why}
	failed.Report, _ = w.command.Do.(core.Report)
	_, err := sw.Engine.Do(ctx, core.Command{ID: w.command.ID + "/refused", At: sw.Now(), By: by, Task: w.command.Task, Do: failed})
	return err
}

// wait reports that a file stays for now.
func (sw *sweep) wait(ctx context.Context, w *waiting, v verdict) {
	if there, err := sw.Box.Waiting(w.file.Kind, w.file.At); err == nil && !there {
		return // it has gone
	}
	sw.report.Waiting++
	sw.report.RunBy(v.due)
	if v.kept == "" {
		return
	}
	if v.full {
		sw.full = &v
		sw.report.Needs(explain.New(explain.ListFull))
	} else {
		sw.report.Needs(explain.New(explain.DropKept, "file", w.file.Name, "reason", v.kept).On(w.task()))
	}
	level := slog.LevelWarn
	if w.tries > 1 {
		level = slog.LevelDebug // it was said before
	}
	sw.Log.Log(ctx, level, "kept drop", "drop", w.file.Name, "reason", v.kept)
}

// settling is a file whose verdict is final, with its result.
func (sw *sweep) settling(w *waiting) *inbox.Settling {
	result := *w.verdict.result
	result.At = sw.Now().UTC().Truncate(time.Second)
	result.Attempts = w.tries
	if w.create != nil {
		result.Ignored = w.create.Ignored
	} else if w.update != nil {
		result.Ignored = w.update.Ignored
	}
	return &inbox.Settling{File: w.file, Data: w.data, Result: result}
}

// settled reports whether a file has its last place, and says so. There was nothing to
// settle if it has gone, or changed since it was read and is judged again.
func (sw *sweep) settled(w *waiting, d *inbox.Settling) bool {
	if d.Err != nil {
		return false
	}
	delete(sw.known, w.key())
	switch {
	case d.Settled == "":
		return false
	case d.Result.Class == "":
		sw.report.Did[0].N++
		sw.Log.Info("settled drop", "drop", d.Settled, "inbox", d.Kind, "row", d.Result.SlackItemID, "duplicate", d.Result.SkippedDuplicate)
	default:
		sw.report.Failed = append(sw.report.Failed, explain.New(explain.DropFailed, "file", d.Settled, "class", d.Result.Class, "error", d.Result.Error).On(w.task()))
		sw.Log.Error("drop failed", "drop", d.Settled, "inbox", d.Kind, "class", d.Result.Class, "err", d.Result.Error)
	}
	return true
}
