package inject

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// fill sets a record from its drop. History and attempts stay.
func (cr *creates) fill(r *pipeline.Record, f inbox.File, c *drop.Create) {
	if c.CreatedAt.IsZero() {
		c.CreatedAt = f.Info.ModTime().UTC()
	}
	*r = pipeline.Record{
		TaskID: c.Task.ID, DropID: c.ID, Drop: f.Name, Title: c.Task.Title, Agent: c.Task.Agent,
		Priority: c.Task.Priority, Project: c.Task.Project, Type: c.Task.Type, CreatedAt: c.CreatedAt, Reason: c.Parked,
		History: r.History, Attempt: r.Attempt,
	}
	for _, title := range c.Task.Steps {
		r.Steps = append(r.Steps, pipeline.StepRecord{Title: title})
	}
	if a := cr.Agents.Named(c.Task.Agent); a != nil {
		r.Agent = a.Name
	}
}

// adopt records a row that was found on the board, with the rows of the steps
// that the drop asks for.
func (cr *creates) adopt(ctx context.Context, f inbox.File, c *drop.Create, row *pipeline.Row, steps []*pipeline.Row) (*pipeline.Record, error) {
	return cr.Store.Change(ctx, c.Task.ID, func(r *pipeline.Record) error {
		found := "row found"
		if r.DropID == "" && r.RowID == "" {
			found = pipeline.EventRebuilt // the record was lost, or a person typed the row
		}
		if r.DropID != c.ID || len(r.Steps) == 0 {
			cr.fill(r, f, c)
		}
		r.RowID, r.RowAskedAt = row.ID, nil
		r.SetStatus(row.CurrentStatus(), cr.Now())
		r.Note(cr.Now(), Who, found, row.ID)
		matchSteps(r, steps)
		return nil
	})
}

// takeOver gives a record that did not know its drop the steps of the drop. Other
// steps on the board come last.
func (cr *creates) takeOver(ctx context.Context, b pipeline.Batch, f inbox.File, c *drop.Create, rec *pipeline.Record) (*pipeline.Record, error) {
	rows := b.StepRows(rec.RowID)
	return cr.change(ctx, rec, func(r *pipeline.Record) {
		r.DropID, r.Drop = c.ID, f.Name
		r.Reporting = nil // it names steps by their place, and is decided again
		had := r.Steps
		r.Steps = nil
		for _, title := range c.Task.Steps {
			r.Steps = append(r.Steps, pipeline.StepRecord{Title: title})
		}
		matchSteps(r, rows)
		for _, s := range had {
			if !slices.ContainsFunc(r.Steps, func(o pipeline.StepRecord) bool { return o.RowID == s.RowID }) {
				r.Steps = append(r.Steps, s)
			}
		}
		r.Note(cr.Now(), Who, "drop found", f.Name)
	})
}

// matchSteps matches the steps of a record with rows by title. Of equal titles
// each gets one row, the oldest first.
func matchSteps(r *pipeline.Record, rows []*pipeline.Row) {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *pipeline.Row) int { return cmp.Compare(a.Created, b.Created) })
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.RowID != "" {
			continue
		}
		for _, row := range rows {
			taken := slices.ContainsFunc(r.Steps, func(o pipeline.StepRecord) bool { return o.RowID == row.ID })
			if !taken && sameTitle(row.Title, s.Title) {
				s.RowID, s.AskedAt, s.Done = row.ID, nil, row.StepDone()
				break
			}
		}
	}
}

// makeRow makes the row of a task. The record says first that the row is asked
// for: after a crash, the row is looked for before it is made again.
func (cr *creates) makeRow(ctx context.Context, b pipeline.Batch, f inbox.File, c *drop.Create, known *pipeline.Record, unseen bool) (*pipeline.Record, error) {
	now := cr.Now()
	rec, err := cr.Store.Change(ctx, c.Task.ID, func(r *pipeline.Record) error {
		if known == nil && (r.RowID != "" || r.RowAskedAt != nil) {
			// It can be read again: there may be a row.
			return &changedError{c.Task.ID, now.Add(cr.Times.ParseableAge)}
		}
		cr.fill(r, f, c)
		r.Unverified = unseen
		r.RowAskedAt = &now
		dropped := f.Name
		if c.By != "" {
			dropped += fmt.Sprintf(", which claims to be by %q", c.By)
		}
		r.Note(c.CreatedAt, pipeline.WhoCreate, pipeline.EventDropped, dropped)
		return nil
	})
	if err != nil {
		return nil, err
	}
	id, err := b.Create(ctx, "", cr.rowCells(rec, c)...)
	if err != nil {
		return nil, cr.unmade(ctx, rec, err, func(r *pipeline.Record, at *time.Time) { r.RowAskedAt = at })
	}
	cr.Log.Info("made row", "task", rec.TaskID, "row", id, "agent", rec.Agent, "steps", len(rec.Steps))
	return cr.change(ctx, rec, func(r *pipeline.Record) {
		now := cr.Now()
		r.RowID, r.RowAskedAt = id, nil
		r.SetStatus(c.FirstStatus(), now)
		r.Note(now, Who, "row created", id)
		if c.Parked != "" {
			r.Note(now, pipeline.WhoCreate, pipeline.EventStatus, fmt.Sprintf("%s to %s", pipeline.New, r.Status))
			r.Note(now, pipeline.WhoCreate, pipeline.EventReason, c.Parked)
		}
		if !b.Over() {
			askNext(r, now)
		}
	})
}

func (cr *creates) rowCells(rec *pipeline.Record, c *drop.Create) []pipeline.Cell {
	assignee := pipeline.Cell{Field: pipeline.FieldAssignee, Text: rec.Agent}
	if a := cr.Agents.Named(rec.Agent); a != nil {
		assignee.Text, assignee.User = a.Label, a.User
	}
	cells := []pipeline.Cell{
		{Field: pipeline.FieldTitle, Text: rec.Title},
		{Field: pipeline.FieldTaskID, Text: rec.TaskID.String()},
		{Field: pipeline.FieldType, Text: string(rec.Type)},
		assignee,
		{Field: pipeline.FieldPriority, Text: string(rec.Priority)},
		{Field: pipeline.FieldStatus, Text: string(c.FirstStatus())},
		{Field: pipeline.FieldRemaining, Number: float64(len(rec.Steps))},
		{Field: pipeline.FieldCompletion, Number: 0},
	}
	if rec.Project != "" {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldProject, Text: rec.Project})
	}
	if c.Parked != "" {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldReason, Text: c.Parked})
	}
	return cells
}

// findSteps looks for steps whose requests got no answer. If due is zero, those
// that are not found were not made; else look again at due.
func (cr *creates) findSteps(ctx context.Context, b pipeline.Batch, rec *pipeline.Record) (_ *pipeline.Record, due time.Time, err error) {
	asked := func(s pipeline.StepRecord) bool { return s.RowID == "" && s.AskedAt != nil }
	i := slices.IndexFunc(rec.Steps, asked)
	if i < 0 {
		return rec, time.Time{}, nil
	}
	if due, err = cr.certain(ctx, b, *rec.Steps[i].AskedAt); err != nil {
		return nil, time.Time{}, err
	}
	rows := b.StepRows(rec.RowID)
	rec, err = cr.change(ctx, rec, func(r *pipeline.Record) {
		matchSteps(r, rows)
		for i := range r.Steps {
			if due.IsZero() && asked(r.Steps[i]) {
				r.Steps[i].AskedAt = nil
			}
		}
	})
	if err != nil || !slices.ContainsFunc(rec.Steps, asked) {
		return rec, time.Time{}, err
	}
	return rec, due, nil
}

// makeSteps makes the rows of steps that have none, until the batch has lasted
// its time. It does not record a step as asked for that it leaves to the next
// batch: that one would look for it.
func (cr *creates) makeSteps(ctx context.Context, b pipeline.Batch, rec *pipeline.Record) (_ *pipeline.Record, err error) {
	for i := range rec.Steps {
		if rec.Steps[i].RowID != "" {
			continue
		}
		if rec.Steps[i].AskedAt == nil { // else recorded with the row before it
			if b.Over() {
				return rec, nil
			}
			if rec, err = cr.change(ctx, rec, func(r *pipeline.Record) { askNext(r, cr.Now()) }); err != nil {
				return nil, err
			}
		}
		if rec, err = cr.makeStep(ctx, b, rec, i); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

// askNext records that the next step without a row is about to be asked for.
func askNext(r *pipeline.Record, now time.Time) {
	if i := slices.IndexFunc(r.Steps, func(s pipeline.StepRecord) bool { return s.RowID == "" }); i >= 0 {
		r.Steps[i].AskedAt = &now
	}
}

// makeStep makes the row of step i. The same write to the record says that the
// next step is asked for, if this batch goes on.
func (cr *creates) makeStep(ctx context.Context, b pipeline.Batch, rec *pipeline.Record, i int) (*pipeline.Record, error) {
	id, err := b.Create(ctx, rec.RowID,
		pipeline.Cell{Field: pipeline.FieldTitle, Text: rec.Steps[i].Title},
		pipeline.Cell{Field: pipeline.FieldStatus, Text: string(pipeline.New)})
	if err != nil {
		err = fmt.Errorf("step %d: %w", i+1, err)
		return nil, cr.unmade(ctx, rec, err, func(r *pipeline.Record, at *time.Time) { r.Steps[i].AskedAt = at })
	}
	return cr.change(ctx, rec, func(r *pipeline.Record) {
		now := cr.Now()
		r.Steps[i].RowID, r.Steps[i].AskedAt = id, nil
		if !b.Over() {
			askNext(r, now)
		}
		if r.OnBoard() {
			r.Note(now, Who, "steps created", fmt.Sprint(len(r.Steps)))
		}
	})
}

// unmade records a failed request for a row: the row was not made, or the answer
// was lost just now.
func (cr *creates) unmade(ctx context.Context, rec *pipeline.Record, cause error, set func(*pipeline.Record, *time.Time)) error {
	var at *time.Time
	if pipeline.MaybeApplied(cause) {
		now := cr.Now()
		at = &now
	}
	if _, err := cr.change(ctx, rec, func(r *pipeline.Record) { set(r, at) }); err != nil {
		return err
	}
	return cause
}
