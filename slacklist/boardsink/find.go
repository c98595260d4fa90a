package boardsink

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"otm/core"
	"otm/pipeline"
	"otm/slacklist/differ"
)

// createAge is how old a snapshot may be when rows are made: it would show a row that
// somebody else made under the same id.
const createAge = 3 * time.Minute

// finder looks before anything is written.
type finder struct{ *delivery }

// prepare loads the tasks, walks the board where the snapshot is too old for what is to
// be written, and finds rows that exist already.
func (f *finder) prepare() error {
	if err := f.load(); err != nil {
		return err
	}
	if len(f.open(every)) == 0 {
		return nil
	}
	if f.needsWalk() {
		if f.walkErr = f.refresh(); f.walkErr != nil && f.ctx.Err() != nil {
			return f.walkErr
		}
	}
	if err := f.look(); err != nil {
		return err
	}
	if f.b.WalkAt().IsZero() {
		f.withoutBoard()
		return nil
	}
	return f.find()
}

// needsWalk reports whether the snapshot is too old for an effect.
func (f *finder) needsWalk() bool {
	for _, w := range f.open(every) {
		t := w.task
		if t.RowID != "" && needsUpdate(t) {
			if row := f.b.Row(t.RowID); row != nil && !f.b.Current(row, pipeline.StatusAge) {
				return true
			}
		}
		if t.RowID != "" && f.b.Row(t.RowID) == nil && !f.b.Fresh(pipeline.StatusAge) {
			return true
		}
		there := t.RowID != "" || f.b.TaskRow(t.ID) != nil // maybe not any more, or with another Task ID
		if !f.fits(t, 0) && !f.b.Fresh(pipeline.StatusAge) {
			return true // somebody may have made room
		}
		if lacksRows(t) && (!f.b.Fresh(createAge) || f.asksForWalk(w) || there && !f.b.Fresh(pipeline.StatusAge)) {
			return true
		}
	}
	return false
}

// needsUpdate reports whether rows that exist are to be written or deleted.
func needsUpdate(t *core.Task) bool {
	return !t.ArchivedAt.IsZero() || len(t.Stale()) > 0 || slices.ContainsFunc(t.Steps, func(s core.Step) bool { return s.RowID != "" && s.IsStale() })
}

// lacksRows reports whether rows of the task are to be made.
func lacksRows(t *core.Task) bool { return t.ArchivedAt.IsZero() && !t.OnBoard() }

// certainAt is when a walk may begin that shows whether an unanswered create made its
// row.
func (f *finder) certainAt(w *work) time.Time {
	return w.AskedAt.Add(f.Times.SettleAfter).Truncate(time.Millisecond) // the grain of WalkAt
}

// asksForWalk reports whether a walk now may tell what became of an unanswered create.
func (f *finder) asksForWalk(w *work) bool {
	if w.AskedAt.IsZero() {
		return false
	}
	certain := f.certainAt(w)
	return f.b.WalkAt().Before(certain) && (!f.Now().Before(certain) || f.b.WalkAt().Before(w.AskedAt))
}

// refresh walks the board.
func (d *delivery) refresh() error {
	err := d.b.Refresh(d.ctx, 0)
	d.walked = d.walked || err == nil
	d.getsOn()
	return err
}

// look has the differ read the snapshot, unless it did since the walk.
func (d *delivery) look() error {
	if d.lookedAt.Equal(d.b.WalkAt()) || d.b.WalkAt().IsZero() {
		return nil
	}
	return d.lookNow()
}

func (d *delivery) lookNow() error {
	if err := d.Look(d.ctx, d.b); err != nil {
		return err
	}
	d.lookedAt = d.b.WalkAt()
	return d.load()
}

// withoutBoard ends the effects for which the board has to be known. It never was read:
// only rows are made for tasks that were taken in all the same.
func (f *finder) withoutBoard() {
	for _, w := range f.open(every) {
		if w.task.RowID != "" || !w.task.Unverified || !w.AskedAt.IsZero() {
			f.fail(w, cmp.Or(f.walkErr, error(errRowMissing)))
			w.result.Asked = w.AskedAt
		}
	}
}

// find gives tasks the rows that stand on the board already: a create got no answer, or
// the rows were made before the store knew the task.
func (f *finder) find() error {
	for _, w := range f.open(lacksRows) {
		written, found, err := f.rowsFor(w)
		if err != nil {
			if f.resultOf(err).Stop {
				return err
			}
			f.fail(w, err)
			continue
		}
		if found {
			f.note(w, written)
		}
	}
	if len(f.receipts) > 0 {
		if err := f.flush(); err != nil {
			return err
		}
		if err := f.lookNow(); err != nil { // people may have edited these rows
			return err
		}
	}
	for _, w := range f.open(lacksRows) {
		if !w.AskedAt.IsZero() && f.b.WalkAt().Before(f.certainAt(w)) {
			f.unsettled(w)
		}
	}
	return nil
}

// unsettled has an effect wait for a later walk.
func (f *finder) unsettled(w *work) {
	err := error(errUnsettled)
	if f.walkErr != nil {
		err = fmt.Errorf("%w: %w", errUnsettled, f.walkErr)
	}
	w.result, w.over = Result{Err: err, Code: errUnsettled.code, Due: f.certainAt(w), Asked: w.AskedAt}, true
	if e, ok := errors.AsType[*pipeline.BoardError](f.walkErr); ok && e.Until.After(w.result.Due) {
		w.result.Due = e.Until
	}
	if now := f.Now(); !w.result.Due.After(now) {
		w.result.Due = now.Add(retryBoard)
	}
}

// rowsFor finds the rows of a task that it does not know.
func (f *finder) rowsFor(w *work) (written core.Written, found bool, err error) {
	t := w.task
	written.Shown = t.Shown
	parent := t.RowID
	if parent == "" {
		row, err := f.rowOf(w)
		if row == nil || err != nil {
			return written, false, err
		}
		parent, found = row.ID, true
		written.Row = row.ID
		written.Shown = differ.Showing(row, f.Agents)
		if f.editedSince(w, row) {
			written.Shown = t.View() // what differs, the person changed
		}
	}
	rows := slices.DeleteFunc(slices.Clone(f.b.StepRows(parent)), func(r *pipeline.Row) bool {
		return slices.Contains(t.Dropped, r.ID) || slices.ContainsFunc(t.Steps, func(s core.Step) bool { return s.RowID == r.ID })
	})
	slices.SortStableFunc(rows, func(a, b *pipeline.Row) int { return cmp.Compare(a.Created, b.Created) })
	for _, s := range t.Steps { // of equal titles each gets one row, the oldest first
		if s.RowID != "" {
			continue
		}
		i := slices.IndexFunc(rows, func(r *pipeline.Row) bool { return pipeline.FoldTitle(r.Title) == pipeline.FoldTitle(s.Title) })
		if i < 0 {
			continue
		}
		shown := core.StepShown{Title: rows[i].Title, Done: rows[i].StepDone()}
		if f.editedSince(w, rows[i]) {
			shown = core.StepShown{Title: s.Title, Done: s.Done}
		}
		written.Steps = append(written.Steps, core.WrittenStep{Step: s.ID, Row: rows[i].ID, Shown: shown})
		rows, found = slices.Delete(rows, i, i+1), true
	}
	return written, found, nil
}

// editedSince reports whether a person edited a row after our unanswered create made it.
func (f *finder) editedSince(w *work, row *pipeline.Row) bool {
	return !w.AskedAt.IsZero() && f.b.Person(row) != "" && row.CreatedBy != row.UpdatedBy
}

// rowOf returns the row with the Task ID of a task; nil: there is none. Of several, it
// prefers one with the task's title. A row with another title is the task's only if we
// may have made it: its title was edited since.
func (f *finder) rowOf(w *work) (*pipeline.Row, error) {
	row := f.b.TaskRow(w.Task)
	if row == nil {
		return nil, nil
	}
	same := func(r *pipeline.Row) bool { return pipeline.FoldTitle(r.Title) == pipeline.FoldTitle(w.task.Title) }
	if !same(row) {
		for r := range f.b.Rows() {
			if r.Parent == "" && r.Task() == w.Task && same(r) {
				row = r
				break
			}
		}
	}
	owners, err := f.Store.Tasks(f.ctx, core.Filter{Rows: []string{row.ID}})
	if err != nil {
		return nil, ofStore(err)
	}
	if len(owners) > 0 || !same(row) && w.AskedAt.IsZero() {
		return nil, &trouble{code: "other_row", person: true, error: fmt.Errorf(
			"the row %q has the Task ID %v, and is another task's: clear its Task ID on the board", row.Title, w.Task)}
	}
	return row, nil
}
