package slacklist

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/slack-go/slack"

	"otm/internal/crash"
	"otm/pipeline"
)

// Bounds of one call. Slack publishes none for deletions.
const (
	maxCells   = 100
	maxDeleted = 50
)

// A writer writes to the board and patches the snapshot with its writes.
type writer struct {
	*batch
	schemas *schemas
	walker  *walker
}

// do makes one write as soon as it may be made.
func (w *writer) do(ctx context.Context, method string, call func() error) error {
	if err := w.gate.ready(ctx, method, w.opts.Budget, 1); err != nil {
		return err
	}
	if err := w.aheadOfSnapshot(); err != nil {
		return err
	}
	err := w.gate.done(method, call())
	var e *pipeline.BoardError
	if errors.As(err, &e) && slices.Contains(noWriteCodes, e.Code) && w.snap.WalkEnded != 0 {
		e.ReadAt = w.snap.WalkEnded.Time() // the walk proves that the list exists
	}
	return err
}

func (w *writer) create(ctx context.Context, parent string, cells []pipeline.Cell) (id string, err error) {
	if err := w.schemas.ensure(ctx); err != nil {
		return "", err
	}
	err = w.schemas.retry(ctx, cells, func() (err error) {
		id, err = w.createOnce(ctx, parent, cells)
		return err
	})
	return id, err
}

func (w *writer) createOnce(ctx context.Context, parent string, cells []pipeline.Cell) (string, error) {
	fields, err := w.schemas.encoder().encode(cells)
	if err != nil {
		return "", err
	}
	var asked time.Time
	var item []byte
	err = w.do(ctx, createMethod, func() (err error) {
		asked = w.opts.Now()
		crash.Point("create.before")
		item, err = w.api.createItem(ctx, parent, fields)
		crash.Point("create.after")
		return err
	})
	if err != nil {
		return "", err
	}
	made, ok := newDecoder(&w.snap.Schema).row(item)
	if !ok {
		return "", unsure(createMethod, "the answer has no row id", nil)
	}
	made.Parent = parent // the answer may lack it
	w.schemas.encoder().patch(&made, cells)
	if made.UpdatedBy != "" {
		w.snap.Self = made.UpdatedBy
	}
	w.snap.add(row{Row: made, Known: stampOf(asked), Wrote: stampOf(w.opts.Now())})
	return made.ID, nil
}

// delete deletes at most maxDeleted rows.
func (w *writer) delete(ctx context.Context, ids []string) error {
	err := w.do(ctx, deleteMethod, func() error {
		crash.Point("delete.before")
		defer crash.Point("delete.after")
		return w.api.deleteItems(ctx, ids)
	})
	if err == nil {
		w.snap.remove(ids)
	}
	return err
}

func (w *writer) update(ctx context.Context, changes []pipeline.Change) error {
	if err := w.schemas.ensure(ctx); err != nil {
		return err
	}
	if len(changes) > 1 && w.snap.MultiRow == "" {
		return w.tryMultiRow(ctx, changes)
	}
	if w.snap.MultiRow == "yes" {
		return w.write(ctx, changes)
	}
	return w.oneByOne(ctx, changes)
}

// tryMultiRow sends several rows in one call and reads them back. If we crash
// before the answer is saved, the next change tries again.
func (w *writer) tryMultiRow(ctx context.Context, changes []pipeline.Change) error {
	before := w.copies(changes)
	err := w.write(ctx, changes)
	if pipeline.IsRefused(err) && !isGone(err) {
		return w.fallBack(ctx, changes)
	}
	if err != nil {
		return err
	}
	wrote := w.copies(changes)
	for id := range wrote {
		w.snap.row(id).Wrote = 0 // let the walk speak for itself
	}
	if err := w.walker.walk(ctx); err != nil {
		for id, r := range wrote {
			w.snap.row(id).Wrote = r.Wrote
		}
		return w.oneByOne(ctx, changes) // perhaps the first row alone took it
	}
	if w.walkedBefore(before) {
		w.restore(wrote)
		return w.oneByOne(ctx, changes)
	}
	shown := 0
	for _, c := range changes {
		if w.shows(c) {
			shown++
		}
	}
	switch shown {
	case len(changes):
		w.multiRow("yes")
		return nil
	case 0:
		// The walk is older than the write, or nothing was written: which of
		// the two, the next time may tell.
		return w.oneByOne(ctx, changes)
	}
	return w.fallBack(ctx, changes)
}

// copies are the rows of changes as the snapshot has them now.
func (w *writer) copies(changes []pipeline.Change) map[string]row {
	rows := map[string]row{}
	for _, c := range changes {
		if r := w.snap.row(c.Row); r != nil {
			kept := *r
			kept.Was, kept.WasBy = slices.Clone(r.Was), slices.Clone(r.WasBy)
			rows[c.Row] = kept
		}
	}
	return rows
}

// walkedBefore reports whether the last walk shows one of the rows as it was
// before earlier writes of ours: then it says nothing about the last one.
func (w *writer) walkedBefore(rows map[string]row) bool {
	settled := w.snap.WalkStarted.Time().Add(-w.opts.SettleAfter)
	for id, mine := range rows {
		if walked := w.snap.row(id); walked != nil && lags(walked, &mine, settled, w.snap.Self) {
			return true
		}
	}
	return false
}

// restore puts rows back into the snapshot.
func (w *writer) restore(rows map[string]row) {
	for id, mine := range rows {
		if r := w.snap.row(id); r != nil {
			*r = mine
		}
	}
	w.snap.index = nil
}

// shows reports whether a row is as a change makes it.
func (w *writer) shows(c pipeline.Change) bool {
	r := w.snap.row(c.Row)
	if r == nil {
		return false
	}
	after := r.Row
	w.schemas.encoder().patch(&after, c.Cells)
	return sameCells(&after, &r.Row)
}

// fallBack writes row by row. If that succeeds, the board takes no several rows
// in one call.
func (w *writer) fallBack(ctx context.Context, changes []pipeline.Change) error {
	if err := w.oneByOne(ctx, changes); err != nil {
		return err
	}
	w.multiRow("no")
	return nil
}

func (w *writer) oneByOne(ctx context.Context, changes []pipeline.Change) error {
	for _, c := range changes {
		if err := w.write(ctx, []pipeline.Change{c}); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) multiRow(answer string) {
	w.snap.MultiRow = answer
	w.dirty = true
	w.opts.Log.Info("tried to update several rows in one call", "works", answer)
}

// sameCells compares all that a change may write.
func sameCells(a, b *pipeline.Row) bool {
	return a.Status == b.Status && a.Checked == b.Checked && a.Type == b.Type && a.Project == b.Project &&
		a.Priority == b.Priority && textsOf(a) == textsOf(b)
}

// write sends the changes of a group, in calls of at most maxCells cells.
func (w *writer) write(ctx context.Context, group []pipeline.Change) error {
	var all []pipeline.Cell
	for _, change := range group {
		all = append(all, change.Cells...)
	}
	return w.schemas.retry(ctx, all, func() error {
		var cells []slack.ListItemCell
		first := 0
		for i, change := range group {
			fields, err := w.schemas.encoder().encode(change.Cells)
			if err != nil {
				return err
			}
			if len(cells)+len(fields) > maxCells {
				if err := w.call(ctx, cells, group[first:i]); err != nil {
					return err
				}
				cells, first = nil, i
			}
			for _, f := range fields {
				cells = append(cells, slack.ListItemCell{ListItemField: f, RowID: change.Row})
			}
		}
		return w.call(ctx, cells, group[first:])
	})
}

func (w *writer) call(ctx context.Context, cells []slack.ListItemCell, changes []pipeline.Change) error {
	if len(cells) == 0 {
		return nil
	}
	return w.do(ctx, updateMethod, func() error {
		asked := w.opts.Now()
		crash.Point("update.before")
		err := w.updates.updateCells(ctx, cells)
		crash.Point("update.after")
		for _, change := range changes {
			r := w.snap.row(change.Row)
			switch {
			case r == nil:
			case err == nil:
				w.patched(r, change.Cells, asked)
			case pipeline.MaybeApplied(err):
				r.Known = 0 // only a walk can tell what it shows now
			}
		}
		return err
	})
}

// patched patches a row of the snapshot with what was written to it.
func (w *writer) patched(r *row, cells []pipeline.Cell, asked time.Time) {
	if r.Wrote == 0 {
		r.Was, r.WasBy = nil, nil
	}
	r.Was, r.WasBy = append(r.Was, r.Status), append(r.WasBy, r.UpdatedBy)
	last := r.Row
	r.Last = &last
	w.schemas.encoder().patch(&r.Row, cells)
	if writes(cells, pipeline.FieldTaskID) {
		w.snap.index = nil
	}
	if r.UpdatedBy = w.snap.Self; w.opts.As != nil {
		r.UpdatedBy = w.opts.As.User
	}
	r.Wrote = stampOf(w.opts.Now())
	if writes(cells, pipeline.FieldStatus) {
		r.Known = stampOf(asked)
	}
}

func writes(cells []pipeline.Cell, field pipeline.Field) bool {
	return slices.ContainsFunc(cells, func(c pipeline.Cell) bool { return c.Field == field })
}
