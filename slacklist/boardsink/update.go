package boardsink

import (
	"errors"
	"fmt"

	"otm/core"
	"otm/internal/crash"
	"otm/pipeline"
)

// cellsAtOnce is how many cells one call takes.
const cellsAtOnce = 100

// deleteRows deletes the rows of archived tasks, with their steps. Deleting again is
// harmless.
func (d *delivery) deleteRows() error {
	var rows []string
	var works []*work
	for _, w := range d.open(func(t *core.Task) bool { return !t.ArchivedAt.IsZero() }) {
		row := d.b.Row(w.task.RowID)
		switch {
		case d.walkErr != nil:
			d.fail(w, d.walkErr)
		case row != nil && !row.CurrentStatus().Over():
			d.fail(w, ErrDisputed) // somebody opens it again
		default:
			rows, works = append(rows, w.task.RowID), append(works, w)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	err := d.b.Delete(d.ctx, rows...)
	if err != nil && !concernsOne(err) {
		return d.endPhase(works, err)
	}
	for i, w := range works {
		if err != nil {
			if one := d.b.Delete(d.ctx, rows[i]); one != nil && !concernsOne(one) {
				return errors.Join(d.flush(), d.endPhase(works[i:], one))
			} else if one != nil {
				d.fail(w, one)
				continue
			}
		}
		shown := w.task.Shown
		shown.Gone = true
		d.note(w, core.Written{Shown: shown})
	}
	crash.Point("board.deleted")
	return d.flush()
}

// endPhase ends effects with an error. It returns the error if it concerns all others,
// too.
func (d *delivery) endPhase(works []*work, err error) error {
	for _, w := range works {
		d.fail(w, err)
		w.result.Asked = w.AskedAt // writing the same again is harmless
	}
	if d.resultOf(err).Stop {
		return err
	}
	return nil
}

// update is what one task writes to rows that exist.
type update struct {
	*work
	changes []pipeline.Change
	written core.Written
}

// updateRows writes the stale cells of rows that exist, in calls with many tasks.
func (d *delivery) updateRows() error {
	var group []update
	cells := 0
	for _, w := range d.open(func(t *core.Task) bool { return t.RowID != "" && t.ArchivedAt.IsZero() && needsUpdate(t) }) {
		if d.b.Over() {
			d.fail(w, ErrOver)
			continue
		}
		if err := d.mayWrite(w.task); err != nil {
			d.fail(w, err)
			continue
		}
		u := update{work: w}
		if u.changes, u.written = d.changes(d.b, w.task); len(u.changes) == 0 {
			continue // a step whose row is missing
		}
		n := 0
		for _, c := range u.changes {
			n += len(c.Cells)
		}
		if cells += n; cells > cellsAtOnce && len(group) > 0 {
			if err := d.write(group); err != nil {
				return err
			}
			group, cells = nil, n
		}
		group = append(group, u)
	}
	return d.write(group)
}

// mayWrite reports why the row of a task cannot be written now; nil: it can.
func (d *delivery) mayWrite(t *core.Task) error {
	row := d.b.Row(t.RowID)
	switch {
	case d.walkErr != nil && (row == nil || !d.b.Current(row, pipeline.StatusAge)):
		return d.walkErr
	case row == nil:
		return ErrRowMissing
	case !d.walked && !d.b.Current(row, pipeline.StatusAge):
		return ErrOver // it was current when we began
	}
	return d.disputed(t, row)
}

// disputed reports whether a cell that is to be written shows something else than
// before, and the differ has not taken that over: it waits until a lag of the board is
// out of the question.
func (d *delivery) disputed(t *core.Task, row *pipeline.Row) error {
	view := t.View()
	if _, known := pipeline.ParseStatus(string(row.CurrentStatus())); !known && view.Status != t.Shown.Status {
		return fmt.Errorf("%w: %q", ErrUnknownStatus, row.Status)
	}
	agent := row.Assignee
	if a := d.Agents.Assigned(agent); a != nil {
		agent = a.Name
	}
	for _, c := range []struct{ seen, showed, is string }{
		{string(row.Status), string(t.Shown.Status), string(view.Status)},
		{row.Title, t.Shown.Title, view.Title},
		{row.Reason, t.Shown.Reason, view.Reason},
		{string(row.Priority), string(t.Shown.Priority), string(view.Priority)},
		{pipeline.FoldName(agent), pipeline.FoldName(t.Shown.Agent), pipeline.FoldName(view.Agent)},
	} {
		if c.is != c.showed && c.seen != "" && c.seen != c.showed && c.seen != c.is {
			return fmt.Errorf("%w: it shows %q", ErrDisputed, c.seen)
		}
	}
	return nil
}

// write writes the changes of a group of tasks in one call. If one of them is at fault,
// each task goes alone.
func (d *delivery) write(group []update) error {
	if len(group) == 0 {
		return nil
	}
	var all []pipeline.Change
	for _, u := range group {
		all = append(all, u.changes...)
	}
	err := d.b.Update(d.ctx, all...)
	d.getsOn()
	switch {
	case err == nil:
		crash.Point("board.updated")
		for _, u := range group {
			d.note(u.work, u.written)
		}
		return d.flush()
	case !concernsOne(err):
		works := make([]*work, len(group))
		for i, u := range group {
			works[i] = u.work
		}
		return d.endPhase(works, err)
	case len(group) == 1:
		d.fail(group[0].work, err)
		group[0].result.Asked = group[0].AskedAt
		return nil
	}
	for i := range group {
		if err := d.write(group[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}
