package dispatch

import (
	"context"
	"log/slog"
	"slices"

	"otm/pipeline"
)

// eventStepGone is the event of a deleted step.
const eventStepGone = "step deleted"

// maxLooks is how many missing rows a pass asks the board for: Slack limits the rate
// of such calls.
const maxLooks = 5

// departures finds the rows that people deleted or archived.
type departures struct{ *reader }

// seeGone notes which rows people deleted or archived. A walk may miss a row by
// mistake, so a row is gone only if two walks lack it and the board confirms it. OTM
// does not create the row again. If it comes back, the task continues
// (Record.Observe).
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
			dp.Log.Warn("missing row not looked up in the records", "row", m.Row.ID, "err", err)
		}
		if note == nil {
			continue
		}
		if !m.Gone {
			if looks++; looks > maxLooks {
				dp.report.RunBy(dp.Now().Add(askAgain))
				return nil
			}
			gone, err := b.LookFor(ctx, m.Row.ID)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				dp.Log.Info("missing row not looked up on the board", "row", m.Row.ID, "err", err)
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

// goneNote returns a function that notes in the record that a row is gone; nil: the
// record says so already, or the row belongs to no task.
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

// recordOf returns the record of a row's task; nil: there is none.
func (dp *departures) recordOf(row *pipeline.Row) (*pipeline.Record, error) {
	rec, err := dp.Records.Load(row.Task())
	if err != nil || rec.RowID != row.ID {
		if rec, err = dp.owner(row.ID); err != nil || rec == nil {
			return nil, err
		}
	}
	return rec, nil
}

// expectRows tells the board which rows a walk should show, so that it notices rows
// that were deleted while OTM was down or before the snapshot was lost. It runs once
// a walk.
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

// expectSteps is expectRows for the steps of a task on the board.
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
		return nil // another process noted it
	}
	level := slog.LevelWarn
	if rec.Status.Finished() {
		level = slog.LevelInfo
	}
	dp.Log.Log(ctx, level, "row was deleted or archived on the board; the task is left alone until it is restored", "task", rec.TaskID, "row", rec.RowID)
	return nil
}

// stepGone removes a step that a person deleted from a task. A task without steps
// ends when its agent reports that.
func (dp *departures) stepGone(ctx context.Context, rec *pipeline.Record, row *pipeline.Row) error {
	noted := false
	_, err := dp.Records.Change(ctx, rec.TaskID, func(r *pipeline.Record) error {
		if r.Reporting != nil {
			return pipeline.ErrUnchanged // it names steps by index: the next pass removes the step
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
