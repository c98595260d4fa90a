package inject

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"otm/core"
	"otm/pipeline"
	"otm/pipeline/counter"
	"otm/pipeline/inbox"
)

// creates plans and settles creates.
type creates struct{ *sweep }

// create plans the command of a file of new-tasks/.
func (sw creates) create(ctx context.Context, w *waiting) verdict {
	c := w.create
	id := c.Task.ID
	if c.ID == "" {
		c.ID = foreignID(w.file.Name, w.data)
	}
	if c.CreatedAt.IsZero() {
		c.CreatedAt = w.file.Info.ModTime().UTC()
	}
	if a := sw.Agents.Named(c.Task.Agent); a != nil {
		c.Task.Agent = a.Name
	}
	request := core.Request{Task: c.Task, Drop: w.file.Name, CreatedAt: c.CreatedAt, Parked: c.Parked, Claims: c.By}
	w.command = core.Command{ID: core.DropCommand(c.ID, id), At: sw.Now(), By: core.Component(Who), Trace: c.Trace, Task: id, Do: request}
	known, err := sw.lookUp(ctx)
	if err != nil {
		return verdict{stop: err}
	}
	t := known.tasks[id]
	switch {
	case sw.full != nil && (t == nil || !t.OnBoard()):
		return *sw.full
	case t == nil && known.far != nil && id >= known.far.Next:
		return fail(inbox.Invalid, "otm-create --from -", "taskId is %v: %v", id, known.far)
	}
	if t != nil {
		return verdict{}
	}
	if owner := sw.otherOwner(w, id); owner != nil {
		if pipeline.FoldTitle(owner.create.Task.Title) == pipeline.FoldTitle(c.Task.Title) {
			return wait(sw.Now().Add(afterOwner)) // it is skipped as a duplicate of its owner
		}
		return conflict(id, owner.create.Task.Title)
	}
	if !sw.Types.Has(c.Task.Type) {
		return fail(inbox.Invalid, "", "type is %q: there are %s; a table [types.%s] of otm.toml makes one", c.Task.Type, strings.Join(pipeline.Texts(sw.Types.All()), ", "), c.Task.Type)
	}
	v := sw.unknown(ctx, w, &request)
	w.command.Do = request
	return v
}

// known is what the store and the counter say of the creates that are planned together.
type known struct {
	tasks map[pipeline.TaskID]*core.Task // those that the store has
	far   *counter.FarError              // ids from its Next on are refused; nil: none is
}

// lookUp asks the store and the counter, once for the files that are planned together. The
// counter never gives out their ids afterwards.
func (sw creates) lookUp(ctx context.Context) (*known, error) {
	if sw.batch.known != nil {
		return sw.batch.known, nil
	}
	k := &known{}
	ids := sw.batch.creates()
	var err error
	if k.tasks, err = sw.tasks(ctx, ids); err != nil {
		return nil, err
	}
	if err := sw.Engine.Raise(ctx, ids...); err != nil && !errors.As(err, &k.far) {
		return nil, err
	}
	sw.batch.known = k
	return k, nil
}

// unknown judges a create whose task the store does not know: its row may stand on
// the board, or its drop in processed/, from before the store was restored from a
// backup.
func (sw creates) unknown(ctx context.Context, w *waiting, request *core.Request) verdict {
	c := w.create
	processed, err := sw.wasProcessed(c.ID)
	if err != nil {
		return ownTrouble(err)
	}
	if processed {
		if _, did, err := sw.Engine.Did(ctx, w.command.ID); did || err != nil {
			return verdict{stop: err} // of another task: the store judges it
		}
	}
	if err := sw.look(ctx, createAge); err != nil {
		until, limited := pipeline.WaitsUntil(err)
		switch {
		case limited:
			return wait(until) // updates go on
		case !sw.mayCreateUnseen(w.file, err):
			return engineTrouble(err)
		}
		request.Unverified = true
	}
	stray, err := sw.stray(ctx, c.Task)
	switch {
	case err != nil:
		return verdict{stop: err}
	case stray != nil && pipeline.FoldTitle(stray.Shown.Title) != pipeline.FoldTitle(c.Task.Title) && !processed:
		return conflict(c.Task.ID, stray.Shown.Title)
	case stray != nil:
		request.Found = stray
	case processed:
		// Neither task nor row is left: it was archived or deleted.
		return verdict{result: &inbox.Result{SkippedDuplicate: true}}
	}
	return verdict{}
}

// stray returns a row on the board that no task has and that shows the id of a task; nil:
// there is none. Of several, it prefers one with the task's title. The board is asked once
// for the files that are planned together.
func (sw creates) stray(ctx context.Context, t pipeline.Task) (stray *core.RowFound, err error) {
	if sw.batch.strays == nil {
		if sw.batch.strays, err = sw.Engine.Strays(ctx, sw.batch.creates()...); err != nil {
			return nil, err
		}
	}
	for _, found := range sw.batch.strays[t.ID] {
		if stray == nil || pipeline.FoldTitle(found.Shown.Title) == pipeline.FoldTitle(t.Title) {
			stray = &found
		}
	}
	return stray, nil
}

// wasProcessed reports whether a drop of ours stands in processed/, by the id in the name
// of its file.
func (in *Injector) wasProcessed(dropID string) (bool, error) {
	if in.processed == nil {
		names, err := in.Box.SettledNames(inbox.ProcessedDir)
		if err != nil {
			return false, fmt.Errorf("look for what was processed: %w", err)
		}
		in.processed = map[string]bool{}
		for _, name := range names {
			in.processed[pipeline.DropIDInName(name)] = true
		}
	}
	return in.processed[dropID], nil
}

// afterOwner is when a create is judged again that waits for the owner of its id.
const afterOwner = time.Second

// otherOwner returns the create for which otm-create took the id from the counter, if
// that is another file that waits too; else nil. Neither an equal drop id nor an equal
// title makes a file the owner: others can copy both.
func (sw creates) otherOwner(w *waiting, id pipeline.TaskID) *waiting {
	owner := sw.line.owners[id]
	if owner == nil || owner.file.At == w.file.At {
		return nil
	}
	if there, err := sw.Box.Waiting(owner.file.Kind, owner.file.At); err != nil || !there {
		return nil // settled since the inbox was listed: the store knows it
	}
	return owner
}

// foreignID is the id of a drop that has none. It is the same each time the file is
// judged, also after a crash.
func foreignID(name string, data []byte) string {
	if id := pipeline.DropIDInName(name); id != "" {
		return id
	}
	return pipeline.DropIDOf(name, string(data))
}

func conflict(id pipeline.TaskID, title string) verdict {
	return failForNewID("%v is another task: %q", id, title)
}

// failForNewID is the verdict on a create that a new id would bring in.
func failForNewID(format string, args ...any) verdict {
	v := fail(inbox.Conflict, "otm retry --new-id", format, args...)
	v.result.HintNames = true
	return v
}

// mayCreateUnseen reports whether a file has waited so long that its row is made
// although the board cannot be read.
func (sw creates) mayCreateUnseen(f inbox.File, err error) bool {
	var e *pipeline.BoardError
	if !errors.As(err, &e) || e.Class != pipeline.Transient {
		return false
	}
	return sw.Now().Sub(f.Info.ModTime()) >= sw.Times.DedupGiveUp
}

// created is how a create settles whose task stands on the board.
func (sw creates) created(w *waiting, t *core.Task) verdict {
	if v, lost := rowLost(t); lost {
		return v
	}
	r, _ := w.command.Do.(core.Request)
	duplicate := t.DropID != w.command.ID || r.Found != nil && !w.outcome.Before
	if w.outcome.Before && !duplicate {
		twice, err := sw.isTwice(w)
		if err != nil {
			return ownTrouble(err)
		}
		duplicate = twice
	}
	if sw.processed != nil {
		sw.processed[pipeline.DropIDInName(w.file.Name)] = true
	}
	result := &inbox.Result{SlackItemID: t.RowID, SkippedDuplicate: duplicate, DedupUnverified: t.Unverified && !duplicate}
	result.SubtaskItemIDs = pipeline.Map(t.Steps, func(s core.Step) string { return s.RowID })
	return verdict{result: result}
}
