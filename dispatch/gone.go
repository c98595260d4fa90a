package dispatch

import (
	"context"
	"log/slog"
	"slices"

	"otm/pipeline"
)

// eventStepGone is how the history of a task tells that a step was deleted.
const eventStepGone = "step deleted"

// maxLooks is how many rows that walks lack a pass asks the board for: such
// calls are few a minute.
const maxLooks = 5

// departures finds the rows that people deleted or archived.
type departures struct{ *reader }

// seeGone finds out which rows people deleted or archived. A walk may lack a row
// by mistake, so it takes two walks and the board's own word. The task is not
// made again; if its row comes back, it goes on (Record.Observe).
func (dp *departures) seeGone(ctx context.Context, b pipeline.Batch) error {
	if err := dp.expectRows(b); err != nil {
		return err
	}
	looks := 0
	for _, m := range b.Missing() {
		if m.Walks < 2 {
			continue
		}
		note, err := dp.goneNote(b, m.Row)
		if err != nil {
			dp.Log.Warn("row that walks lack not looked up in the records", "row", m.Row.ID, "err", err)
		}
		if note == nil {
			continue
		}
		if !m.Gone {
			if looks++; looks > maxLooks {
				dp.report.due(dp.Now().Add(askAgain))
				return nil
			}
			gone, err := b.LookFor(ctx, m.Row.ID)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				dp.Log.Info("row that walks lack not looked for", "row", m.Row.ID, "err", err)
				return nil
			}
			if !gone {
				continue
			}
		}
		if err := note(ctx); err != nil {
			return err
		}
	}
	return nil
}

// goneNote returns what writes into the record that a row is gone; nil where
// that is known, or concerns no task.
func (dp *departures) goneNote(b pipeline.Batch, row *pipeline.Row) (func(context.Context) error, error) {
	if row.Parent == "" {
		rec, err := dp.recordOf(row)
		if err != nil || rec == nil || rec.GoneAt != nil || rec.ArchivedAt != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return dp.rowGone(ctx, rec) }, nil
	}
	parent := b.Row(row.Parent)
	if parent == nil {
		return nil, nil // its task's row is gone as well
	}
	rec, err := dp.recordOf(parent)
	if err != nil || rec == nil || rec.Status.Finished() || !slices.ContainsFunc(rec.Steps, func(s pipeline.StepRecord) bool { return s.RowID == row.ID }) {
		return nil, err
	}
	return func(ctx context.Context) error { return dp.stepGone(ctx, rec, row) }, nil
}

// recordOf is the record of the task whose row this is; nil if there is none.
func (dp *departures) recordOf(row *pipeline.Row) (*pipeline.Record, error) {
	rec, err := dp.Records.Load(row.Task())
	if err != nil || rec.RowID != row.ID {
		if rec, err = dp.owner(row.ID); err != nil || rec == nil {
			return nil, err
		}
	}
	return rec, nil
}

// expectRows has the board miss the rows of tasks that no walk showed: they
// were deleted while nobody looked, or the snapshot was lost. Each walk is
// asked once.
func (dp *departures) expectRows(b pipeline.Batch) error {
	if dp.walkAt.Equal(b.WalkAt()) {
		return nil
	}
	ids, err := dp.Records.IDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if b.TaskRow(id) != nil {
			delete(dp.over, id)
			continue
		}
		if dp.over[id] {
			continue
		}
		rec, err := dp.Records.Load(id)
		switch {
		case err != nil || rec.RowID == "":
		case rec.ArchivedAt != nil || rec.GoneAt != nil:
			dp.over[id] = true
		default:
			b.Expect(pipeline.Row{ID: rec.RowID, TaskID: id.String(), Title: rec.Title})
		}
	}
	dp.walkAt = b.WalkAt()
	return nil
}

// expectSteps is the same for the steps of a task whose row is there.
func (rd *reader) expectSteps(b pipeline.Batch, rec *pipeline.Record) {
	if rec.Status.Finished() {
		return
	}
	for _, s := range rec.Steps {
		if s.RowID != "" {
			b.Expect(pipeline.Row{ID: s.RowID, Parent: rec.RowID, Title: s.Title})
		}
	}
}

func (dp *departures) rowGone(ctx context.Context, rec *pipeline.Record) error {
	now := dp.Now()
	noted := false
	_, err := dp.Records.Change(ctx, rec.TaskID, func(r *pipeline.Record) error {
		if r.RowID != rec.RowID || r.GoneAt != nil {
			return pipeline.ErrUnchanged
		}
		noted = true
		r.GoneAt = &now
		r.Note(now, pipeline.WhoBoard, pipeline.EventRowGone, r.RowID)
		return nil
	})
	if err != nil {
		return dp.failed(ctx, rec.TaskID, err)
	}
	if !noted {
		return nil // somebody else did
	}
	level := slog.LevelWarn
	if rec.Status.Finished() {
		level = slog.LevelInfo
	}
	dp.Log.Log(ctx, level, "row was deleted or archived on the board; the task is left alone until it is restored", "task", rec.TaskID, "row", rec.RowID)
	return nil
}

// stepGone takes a step that a person deleted out of a task: it need not be
// done. A task that has none left ends when its agent says so.
func (dp *departures) stepGone(ctx context.Context, rec *pipeline.Record, row *pipeline.Row) error {
	noted := false
	_, err := dp.Records.Change(ctx, rec.TaskID, func(r *pipeline.Record) error {
		if r.Reporting != nil {
			return pipeline.ErrUnchanged // it names steps by their place: the next pass sees to it
		}
		n := len(r.Steps)
		r.Steps = slices.DeleteFunc(r.Steps, func(s pipeline.StepRecord) bool { return s.RowID == row.ID })
		if len(r.Steps) == n {
			return pipeline.ErrUnchanged
		}
		noted = true
		r.Note(dp.Now(), pipeline.WhoBoard, eventStepGone, row.Title)
		if len(r.Steps) == 0 && r.Dispatch != nil {
			r.Dispatch.AllTicked = true
		}
		return nil
	})
	if err != nil {
		return dp.failed(ctx, rec.TaskID, err)
	}
	if noted {
		dp.Log.Warn("step was deleted on the board", "task", rec.TaskID, "step", row.Title)
	}
	return nil
}
