package boardsink

import (
	"errors"
	"fmt"
	"slices"

	"otm/core"
	"otm/internal/crash"
	"otm/pipeline"
	"otm/slacklist/differ"
)

// cellsAtOnce is how many cells one call takes.
const cellsAtOnce = 100

// updater writes to rows that exist.
type updater struct{ *delivery }

// deleteRows deletes the rows of archived tasks, with their steps. Deleting again is
// harmless, and the board refuses no single row (facts 1.10).
func (u *updater) deleteRows() error {
	var rows []string
	var works []*work
	for _, w := range u.open(func(t *core.Task) bool { return !t.ArchivedAt.IsZero() }) {
		row := u.b.Row(w.task.RowID)
		switch {
		case u.walkErr != nil:
			u.fail(w, u.walkErr)
		case row != nil && !row.CurrentStatus().Over():
			u.fail(w, errDisputed) // somebody opens it again
		default:
			rows, works = append(rows, w.task.RowID), append(works, w)
		}
	}
	return u.delete(rows, works, func(t *core.Task) (written core.Written) {
		written.Shown = t.Shown
		written.Shown.Gone = true
		return written
	})
}

// deleteSteps deletes the rows of steps that were removed from their tasks.
func (u *updater) deleteSteps() error {
	works := u.open(func(t *core.Task) bool { return t.ArchivedAt.IsZero() && len(t.Dropped) > 0 })
	rows := slices.Concat(pipeline.Map(works, func(w *work) []string { return w.task.Dropped })...)
	return u.delete(rows, works, func(t *core.Task) core.Written { return core.Written{Shown: t.Shown, Gone: t.Dropped} })
}

// delete deletes rows, and notes of each work what that wrote.
func (u *updater) delete(rows []string, works []*work, written func(*core.Task) core.Written) error {
	if len(rows) == 0 {
		return nil
	}
	if err := u.b.Delete(u.ctx, rows...); err != nil {
		return u.endPhase(works, err)
	}
	for _, w := range works {
		u.note(w, written(w.task))
	}
	crash.Point("board.deleted")
	return u.flush()
}

// endPhase ends effects with an error. It returns the error if it concerns all others,
// too.
func (u *updater) endPhase(works []*work, err error) error {
	for _, w := range works {
		u.fail(w, err)
		w.result.Asked = w.AskedAt // writing the same again is harmless
	}
	if u.resultOf(err).Stop {
		return err
	}
	return nil
}

// updateRows writes the stale cells of rows that exist, in calls with many tasks.
func (u *updater) updateRows() error {
	var group []*work
	cells := 0
	for _, w := range u.open(func(t *core.Task) bool { return t.RowID != "" && t.ArchivedAt.IsZero() && needsUpdate(t) }) {
		if u.mustEnd() {
			u.fail(w, errOver)
			continue
		}
		if err := u.mayWrite(w.task); err != nil {
			u.fail(w, err)
			continue
		}
		if w.changes, w.written = u.changes(u.b, w.task); len(w.changes) == 0 {
			if len(w.task.Stale()) > 0 { // in columns that the board does not have
				u.note(w, w.written)
			}
			continue // else a step's row is missing
		}
		n := 0
		for _, c := range w.changes {
			n += len(c.Cells)
		}
		if cells += n; cells > cellsAtOnce && len(group) > 0 {
			if err := u.write(group); err != nil {
				return err
			}
			group, cells = nil, n
		}
		group = append(group, w)
	}
	return errors.Join(u.write(group), u.flush())
}

// mayWrite reports why the row of a task cannot be written now; nil: it can.
func (u *updater) mayWrite(t *core.Task) error {
	row := u.b.Row(t.RowID)
	switch {
	case u.walkErr != nil && (row == nil || !u.b.Current(row, pipeline.StatusAge)):
		return u.walkErr
	case row == nil:
		return errRowMissing
	case !u.walked && !u.b.Current(row, pipeline.StatusAge):
		return errOver // it was current when we began
	}
	return u.disputed(t, row)
}

// disputed reports whether a cell that is to be written shows something else than
// before, and the differ has not taken that over: it waits until a lag of the board is
// out of the question.
func (u *updater) disputed(t *core.Task, row *pipeline.Row) error {
	view := t.View()
	if _, known := pipeline.ParseStatus(string(row.CurrentStatus())); !known && view.Status != t.Shown.Status {
		return fmt.Errorf("%w: %q", errUnknownStatus, row.Status)
	}
	seen := differ.Showing(row, u.Agents)
	for _, field := range []pipeline.Field{pipeline.FieldStatus, pipeline.FieldTitle, pipeline.FieldReason, pipeline.FieldPriority, pipeline.FieldAssignee} {
		now, showed, is := seen.Text(field), t.Shown.Text(field), view.Text(field)
		if field == pipeline.FieldStatus {
			showed, _ = u.b.Form(field, showed)
			is, _ = u.b.Form(field, is)
		}
		if field == pipeline.FieldAssignee {
			now, showed, is = pipeline.FoldName(now), pipeline.FoldName(showed), pipeline.FoldName(is)
		}
		if is != showed && now != "" && now != showed && now != is {
			return fmt.Errorf("%w: it shows %q", errDisputed, now)
		}
	}
	return nil
}

// write writes the changes of a group of tasks in one call. If one of them is at fault,
// each task goes alone.
func (u *updater) write(group []*work) error {
	if len(group) == 0 {
		return nil
	}
	all := slices.Concat(pipeline.Map(group, func(w *work) []pipeline.Change { return w.changes })...)
	err := u.b.Update(u.ctx, all...)
	u.getsOn()
	switch {
	case err == nil:
		crash.Point("board.updated")
		for _, w := range group {
			u.note(w, w.written)
		}
		return u.flush()
	case !pipeline.NeedsPerson(err):
		return u.endPhase(group, err)
	case len(group) == 1:
		return u.refused(group[0], err)
	}
	for i := range group {
		if err := u.write(group[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// texts are the fields with words of people and agents.
var texts = []pipeline.Field{pipeline.FieldTitle, pipeline.FieldReason, pipeline.FieldResult, pipeline.FieldInputs}

// refused ends the effect of a task whose cells the board refuses. If texts are among
// them, it writes the others: a text that the board cannot hold does not keep it from
// showing how far the task is. It returns an error that concerns all others, too.
func (u *updater) refused(w *work, err error) error {
	rest := slices.Clone(w.changes)
	left := 0
	for i := range rest {
		if rest[i].Row == w.task.RowID {
			rest[i].Cells = slices.DeleteFunc(slices.Clone(rest[i].Cells), func(c pipeline.Cell) bool { return slices.Contains(texts, c.Field) })
			left = len(w.changes[i].Cells) - len(rest[i].Cells)
		}
	}
	rest = slices.DeleteFunc(rest, func(c pipeline.Change) bool { return len(c.Cells) == 0 })
	var board *pipeline.BoardError
	if left > 0 && len(rest) > 0 && errors.As(err, &board) && !board.RowGone {
		switch again := u.b.Update(u.ctx, rest...); {
		case again == nil:
			for _, field := range texts {
				w.written.Shown.Set(field, w.task.Shown.Text(field))
			}
			u.note(w, w.written)
			if err := u.flush(); err != nil {
				return err
			}
		case !pipeline.NeedsPerson(again):
			return u.endPhase([]*work{w}, again)
		}
	}
	return u.endPhase([]*work{w}, err)
}
