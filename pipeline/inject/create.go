package inject

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"otm/pipeline"
	"otm/pipeline/counter"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// creates brings tasks to the board.
type creates struct {
	*session
	line *line

	noCreates time.Time // the board takes no rows before this time; zero: it does
	full      string    // why the board takes no more rows; "": it does
}

// create handles one file of new-tasks/.
func (cr *creates) create(ctx context.Context, f inbox.File, data []byte, c *drop.Create) verdict {
	id := c.Task.ID
	if c.ID == "" {
		c.ID = foreignID(f.Name, data)
	}
	if err := cr.processed.read(cr.Box); err != nil {
		return ownTrouble(err)
	}
	rec, err := cr.load(id)
	if err != nil {
		return ownTrouble(err)
	}
	var far *counter.FarError
	if err := cr.Store.Raise(ctx, id); errors.As(err, &far) && rec == nil {
		return fail(inbox.Invalid, "otm-create --from -", "taskId is %v: %v", id, far)
	} else if err != nil && far == nil {
		return ownTrouble(err)
	}
	if v, known := cr.byRecord(f, c, rec); known {
		return v
	}
	if owner := cr.otherOwner(f, c); owner != nil && (rec == nil || rec.Drop != f.Name) {
		if sameTitle(owner.title, c.Task.Title) {
			return wait(cr.Now().Add(afterOwner)) // it is skipped as a duplicate of its owner
		}
		return conflict(id, owner.title)
	}
	switch {
	case cr.noCreates.After(cr.Now()):
		return wait(cr.noCreates)
	case cr.full != "":
		return verdict{kept: cr.full, full: true}
	}
	return cr.limited(cr.bring(ctx, f, c))
}

// afterOwner is when a create is judged again that waits for the owner of its id.
const afterOwner = time.Second

// otherOwner returns the create for which otm-create took the id of c from the
// counter, if that is another file that waits too; else nil. Neither an equal drop id
// nor an equal title makes a file the owner: others can copy both.
func (cr *creates) otherOwner(f inbox.File, c *drop.Create) *waiting {
	owner := cr.line.owners[c.Task.ID]
	if owner == nil || owner.file.Name == f.Name {
		return nil
	}
	if there, err := cr.Box.Waiting(owner.file.Kind, owner.file.Name); err != nil || !there {
		return nil // settled since the inbox was listed: the record knows it
	}
	return owner
}

// unheard reports whether a record does not know the drop of its task: it was
// rebuilt from a row while the steps were made, or a person typed the row. Its
// steps may then be others.
func (cr *creates) unheard(rec *pipeline.Record, c *drop.Create) bool {
	return rec.DropID == "" && !cr.processed.has(c)
}

// byRecord judges a create by the record of its task alone. known is false if
// the record has no row: then the board has to be asked.
func (cr *creates) byRecord(f inbox.File, c *drop.Create, rec *pipeline.Record) (v verdict, known bool) {
	switch {
	case rec == nil || rec.RowID == "":
		return verdict{}, false
	case rec.DropID != c.ID && !sameTitle(rec.Title, c.Task.Title) && !cr.processed.has(c):
		return conflict(c.Task.ID, rec.Title), true
	case cr.unheard(rec, c):
		return verdict{}, false
	case rec.OnBoard():
		twice, err := isTwice(cr.Box, f, rec.Drop)
		if err != nil {
			return ownTrouble(err), true
		}
		return cr.onBoard(rec, c, twice), true
	}
	return verdict{}, false
}

// limited turns a limit on new rows into a verdict on this file, so that updates
// go on.
func (cr *creates) limited(v verdict) verdict {
	var e *pipeline.BoardError
	if !errors.As(v.stop, &e) {
		return v
	}
	switch {
	case e.Code == "ratelimited" && !e.Until.IsZero():
		cr.noCreates = e.Until
		return wait(e.Until)
	case e.Full:
		cr.full = "the list is full: " + e.Error()
		return verdict{kept: cr.full, full: true}
	}
	return v
}

// foreignID returns an id for a drop without one: the UUID in its name, else one
// derived from name and content, so that it is the same after a crash.
func foreignID(name string, data []byte) string {
	if id := pipeline.DropIDInName(name); id != "" {
		return id
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, append([]byte(name+"\n"), data...)).String()
}

func sameTitle(a, b string) bool { return pipeline.FoldTitle(a) == pipeline.FoldTitle(b) }

func conflict(id pipeline.TaskID, title string) verdict {
	return failForNewID("%v is another task: %q", id, title)
}

// failForNewID is the verdict on a create that a new id would bring in.
func failForNewID(format string, args ...any) verdict {
	v := fail(inbox.Conflict, "otm retry --new-id", format, args...)
	v.result.HintNames = true
	return v
}

// bring puts a task on the board, or finishes what was begun.
func (cr *creates) bring(ctx context.Context, f inbox.File, c *drop.Create) verdict {
	b, err := cr.open(ctx)
	if err != nil {
		return verdict{stop: err}
	}
	// Until now we did not hold the board, and others may have written the record.
	rec, err := cr.load(c.Task.ID)
	if err != nil {
		return ownTrouble(err)
	}
	if v, known := cr.byRecord(f, c, rec); known {
		return v
	}
	unseen := false
	if err := cr.look(ctx, b); err != nil {
		if !cr.mayCreateUnseen(f, err) {
			return boardTrouble(err)
		}
		unseen = true
	}
	if rec != nil && rec.RowID != "" {
		return cr.finish(ctx, b, f, c, rec)
	}
	return cr.place(ctx, b, f, c, rec, unseen)
}

// finish makes the missing steps of a task whose row exists.
func (cr *creates) finish(ctx context.Context, b pipeline.Batch, f inbox.File, c *drop.Create, rec *pipeline.Record) verdict {
	if b.Row(rec.RowID) == nil && !b.WalkAt().IsZero() {
		if v, gone := cr.rowGone(ctx, b, rec); gone {
			return v
		}
	}
	duplicate := rec.DropID != c.ID
	var err error
	if cr.unheard(rec, c) {
		if rec, err = cr.takeOver(ctx, b, f, c, rec); err != nil {
			return boardTrouble(err)
		}
	}
	rec, due, err := cr.findSteps(ctx, b, rec)
	switch {
	case err != nil:
		return boardTrouble(err)
	case !due.IsZero():
		return wait(due)
	}
	return cr.complete(ctx, b, c, rec, duplicate)
}

// place finds or makes the row of a task whose record knows none.
func (cr *creates) place(ctx context.Context, b pipeline.Batch, f inbox.File, c *drop.Create, rec *pipeline.Record, unseen bool) verdict {
	var due time.Time // until then the row may exist without being visible
	var err error
	asked := rec != nil && rec.RowAskedAt != nil
	ours := asked && rec.DropID == c.ID
	if asked {
		if due, err = cr.certain(ctx, b, *rec.RowAskedAt); err != nil {
			return boardTrouble(err)
		}
	}
	row, duplicate := rowOf(b, c), false
	switch {
	case row != nil && !ours && !sameTitle(row.Title, c.Task.Title) && !cr.processed.has(c):
		return conflict(c.Task.ID, row.Title)
	case row != nil:
		duplicate = !ours
		rec, err = cr.adopt(ctx, f, c, row, b.StepRows(row.ID))
	case !due.IsZero():
		return wait(due)
	case rec == nil && cr.processed.has(c):
		// Neither record nor row is left: the task was archived or deleted.
		return verdict{result: &inbox.Result{SkippedDuplicate: true}}
	case !ours && cr.processed.madeAs(c) != 0:
		// A copy of a drop under another task id may be meant once or twice. It
		// must not vanish as a duplicate.
		return failForNewID("the id of this drop is that of %v: %q", cr.processed.madeAs(c), c.ID)
	default:
		rec, err = cr.makeRow(ctx, b, f, c, rec, unseen)
	}
	if err != nil {
		return boardTrouble(err)
	}
	return cr.complete(ctx, b, c, rec, duplicate)
}

// complete makes the rows of steps that have none, in as many batches as it
// takes. No request without an answer may be open.
func (cr *creates) complete(ctx context.Context, b pipeline.Batch, c *drop.Create, rec *pipeline.Record, duplicate bool) verdict {
	for {
		made, err := cr.makeSteps(ctx, b, rec)
		if err != nil {
			return cr.stepNotMade(ctx, b, rec, err)
		}
		if rec = made; rec.OnBoard() {
			return cr.onBoard(rec, c, duplicate)
		}
		if ctx.Err() != nil {
			return verdict{}
		}
		cr.progress()
		if b, err = cr.open(ctx); err != nil {
			return verdict{stop: err}
		}
	}
}

// stepNotMade is the verdict on a create one of whose steps the board refused.
// The row above may have gone, whatever the board's error says, so the board is
// walked.
func (cr *creates) stepNotMade(ctx context.Context, b pipeline.Batch, rec *pipeline.Record, err error) verdict {
	if !pipeline.IsRefused(err) {
		return boardTrouble(err)
	}
	if err := cr.walk(ctx, b); err != nil {
		return boardTrouble(err)
	}
	if b.Row(rec.RowID) != nil {
		return boardTrouble(err)
	}
	if v, gone := cr.rowGone(ctx, b, rec); gone {
		return v
	}
	return wait(cr.Now().Add(retryBoard)) // it came back
}

// rowOf returns the row with the id of a task, nil if there is none. Of several,
// one with the task's title is preferred.
func rowOf(b pipeline.Batch, c *drop.Create) *pipeline.Row {
	row := b.TaskRow(c.Task.ID)
	if row == nil || sameTitle(row.Title, c.Task.Title) {
		return row
	}
	for r := range b.Rows() {
		if r.Parent == "" && r.Task() == c.Task.ID && sameTitle(r.Title, c.Task.Title) {
			return r
		}
	}
	return row
}

// mayCreateUnseen reports whether a file has waited so long that its row is made
// although the board cannot be read.
func (cr *creates) mayCreateUnseen(f inbox.File, err error) bool {
	var e *pipeline.BoardError
	if !errors.As(err, &e) || e.Class != pipeline.Transient {
		return false
	}
	return cr.Now().Sub(f.Info.ModTime()) >= cr.Times.DedupGiveUp
}

// onBoard is the verdict on a create whose task is on the board with all steps.
func (cr *creates) onBoard(rec *pipeline.Record, c *drop.Create, duplicate bool) verdict {
	cr.processed.note(c)
	return verdict{result: &inbox.Result{
		SlackItemID: rec.RowID, SubtaskItemIDs: stepRows(rec),
		SkippedDuplicate: duplicate, DedupUnverified: rec.Unverified && !duplicate,
	}}
}

func stepRows(rec *pipeline.Record) []string {
	var ids []string
	for _, s := range rec.Steps {
		ids = append(ids, s.RowID)
	}
	return ids
}

// isTwice reports whether a drop that took effect under a name came a second
// time. If not, only its settling was interrupted.
func isTwice(box *inbox.Box, f inbox.File, name string) (bool, error) {
	if name != f.Name {
		return true, nil
	}
	return box.IsSettled(inbox.ProcessedDir, f.Name)
}
