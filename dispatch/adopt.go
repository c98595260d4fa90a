package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"otm/internal/crash"
	"otm/internal/explain"
	"otm/pipeline"
)

// adopter adopts rows that people typed, and writes back ids that they cleared.
type adopter struct {
	*reader
	full error // the board takes no more rows
}

// adopt adopts the rows that people typed on the board. A row with an assignee that
// nobody edits any more gets an id, a record, and a step if it has none. It returns
// how many adoptions are complete.
func (ad *adopter) adopt(ctx context.Context, b pipeline.Batch) (adopted int, err error) {
	still := ad.typed(b)
	if len(still) > 0 && !b.Fresh(pipeline.StatusAge) {
		if ad.report.Trouble = b.Refresh(ctx, 0); ad.report.Trouble != nil {
			return 0, nil
		}
		still = ad.typed(b) // skips rows that a person still edits
	}
	for _, id := range still {
		if b.Over() {
			ad.report.RunBy(ad.Now())
			break
		}
		ad.getsOn()
		row := b.Row(id)
		if row == nil {
			continue
		}
		whole, err := ad.adoptRow(ctx, b, row)
		if err != nil {
			if err := ad.adoptFailed(ctx, row, err); err != nil {
				return adopted, err
			}
			if ad.report.Trouble != nil {
				break
			}
			continue
		}
		if whole {
			adopted++
		}
	}
	return adopted, nil
}

// adoptFailed reports a row that could not be adopted. It returns an error only if
// ctx is done, and sets Trouble if the board is in trouble.
func (ad *adopter) adoptFailed(ctx context.Context, row *pipeline.Row, err error) error {
	var e *pipeline.BoardError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &e) && !isFull(err) && !concernsRow(err):
		ad.report.Trouble = err
	default:
		ad.rowFailed(row, err.Error())
	}
	return nil
}

// rowFailed reports a row that cannot become a task. The report keeps it if this pass
// scans the rows again.
func (rd *reader) rowFailed(row *pipeline.Row, reason string) {
	f := explain.New(explain.RowUnfit, "title", row.Title, "error", reason)
	if slices.ContainsFunc(rd.unfit, func(o explain.Finding) bool { return maps.Equal(o.Args, f.Args) }) {
		return
	}
	rd.unfit = append(rd.unfit, f)
	rd.failure("row not adopted", f)
}

// typed returns the ids of the rows to adopt, sorted. For rows that were changed a
// moment ago it asks for another pass.
func (ad *adopter) typed(b pipeline.Batch) []string {
	var still []string
	now := ad.Now()
	for row := range b.Rows() {
		if reason := ad.unadoptable(row); reason != "" {
			ad.rowFailed(row, reason)
		}
		if !ad.isTyped(row) {
			continue
		}
		last := row.Updated
		for _, s := range b.StepRows(row.ID) {
			last = max(last, s.Updated)
		}
		if quiet := ad.stillAt(last); quiet.After(now) {
			ad.report.RunBy(quiet)
			continue
		}
		still = append(still, row.ID)
	}
	slices.Sort(still)
	return still
}

// unadoptable returns why a row that a person typed cannot be adopted; "": it can be,
// or need not be.
func (ad *adopter) unadoptable(row *pipeline.Row) string {
	switch {
	case row.Parent != "" || row.Odd || row.Assignee == "" || row.CurrentStatus() != pipeline.New || row.Task() != 0 || len(ad.Agents) == 0:
		return ""
	case slices.Contains(ad.strays, row.ID):
		return "" // giveBack restores its id
	case row.TaskID != "":
		return fmt.Sprintf("%q is no task id: clear that cell", row.TaskID)
	case ad.Agents.Assigned(row.Assignee) == nil:
		return fmt.Sprintf("unknown agent %q: no [agents.NAME] table of otm.toml has this name or label", row.Assignee)
	}
	return ""
}

// isTyped reports whether a person typed the row and it waits to be adopted: it has
// no id, or its adoption is not complete.
func (ad *adopter) isTyped(row *pipeline.Row) bool {
	if row.Parent != "" || row.Odd || row.Title == "" || row.CurrentStatus() != pipeline.New || ad.Agents.Assigned(row.Assignee) == nil {
		return false
	}
	if row.TaskID == "" {
		return !slices.Contains(ad.strays, row.ID)
	}
	rec, err := ad.Records.Load(row.Task())
	return err == nil && rec.RowID == row.ID && isBegun(rec)
}

// adoptRow adopts one row. It writes the record first: after a crash the next pass
// finds that by the row, and continues with the same id.
func (ad *adopter) adoptRow(ctx context.Context, b pipeline.Batch, row *pipeline.Row) (whole bool, err error) {
	id := row.Task()
	var dropped pipeline.Dropped
	if id == 0 {
		id, err = ad.idFor(ctx, row)
	} else {
		dropped, err = ad.dropOf(id)
	}
	if err != nil {
		return false, err
	}
	steps := b.StepRows(row.ID)
	agent := ad.Agents.Assigned(row.Assignee)
	rec, err := ad.Records.Change(ctx, id, func(r *pipeline.Record) error {
		if r.RowID != "" && r.RowID != row.ID {
			return fmt.Errorf("%v is another task: clear the Task ID of one", id)
		}
		if isWhole(r) || len(r.Steps) == 1 && r.Steps[0].AskedAt != nil {
			return pipeline.ErrUnchanged
		}
		if r.RowID == "" {
			r.Note(time.Unix(row.Created, 0), cmp.Or(row.CreatedBy, pipeline.WhoBoard), "typed on the board", row.ID)
			r.Note(ad.Now(), Who, "adopted", id.String())
		}
		r.FromRow(row, steps, dropped.Steps)
		r.Agent = agent.Name
		if len(r.Steps) == 0 {
			r.Steps = []pipeline.StepRecord{{Title: pipeline.DefaultStep}}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	crash.Point("adopt.recorded")
	if row.Task() == 0 {
		if err := b.Update(ctx, pipeline.Change{Row: row.ID, Cells: adoptedCells(row, rec)}); err != nil {
			return false, err
		}
		ad.Log.Info("adopted row", "task", id, "row", row.ID, "agent", rec.Agent)
	}
	crash.Point("adopt.identified")
	return ad.ensureStep(ctx, b, rec)
}

// idFor returns the id for a row without one: that of the record begun for it, or a
// new one. A row with progress in it was a task before. It gets no new id while a
// record cannot be read, as that may be its own.
func (ad *adopter) idFor(ctx context.Context, row *pipeline.Row) (pipeline.TaskID, error) {
	rec, err := ad.owner(row.ID)
	if err != nil {
		return 0, err
	}
	if rec != nil {
		return rec.TaskID, nil
	}
	if id := ad.owners.unread; id != 0 && row.Remaining != nil {
		return 0, fmt.Errorf("it was a task's, maybe that of %v, whose record cannot be read: otm fsck --repair, or give the row its Task ID back", id)
	}
	return ad.NewID(ctx)
}

// adoptedCells returns the cells that an adopted row lacks.
func adoptedCells(row *pipeline.Row, rec *pipeline.Record) []pipeline.Cell {
	remaining, percent := rec.Progress()
	cells := []pipeline.Cell{
		{Field: pipeline.FieldTaskID, Text: rec.TaskID.String()},
		{Field: pipeline.FieldRemaining, Number: float64(remaining)},
		{Field: pipeline.FieldCompletion, Number: percent},
	}
	if row.Status == "" {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldStatus, Text: string(pipeline.New)})
	}
	if row.Priority == "" {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldPriority, Text: string(rec.Priority)})
	}
	if row.Type == "" {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldType, Text: string(rec.Type)})
	}
	return cells
}

// ensureStep creates the row of an adopted task's only step. If an earlier create had
// no answer, ensureStep looks for its row first. The row counts as not created if a
// walk that began SettleAfter later lacks it.
func (ad *adopter) ensureStep(ctx context.Context, b pipeline.Batch, rec *pipeline.Record) (whole bool, err error) {
	if rec.OnBoard() {
		return true, nil
	}
	step := rec.Steps[0]
	if step.AskedAt != nil {
		for _, row := range b.StepRows(rec.RowID) {
			if pipeline.FoldTitle(row.Title) == pipeline.FoldTitle(step.Title) {
				return true, ad.madeStep(ctx, rec, row.ID)
			}
		}
		if known := step.AskedAt.Add(ad.Times.SettleAfter); b.WalkAt().Before(known) {
			ad.report.RunBy(known)
			return false, nil
		}
	}
	if ad.full != nil {
		return false, ad.full
	}
	now := ad.Now()
	if err := ad.askedStep(ctx, rec, &now); err != nil {
		return false, err
	}
	row, err := b.Create(ctx, rec.RowID,
		pipeline.Cell{Field: pipeline.FieldTitle, Text: step.Title},
		pipeline.Cell{Field: pipeline.FieldStatus, Text: string(pipeline.New)})
	crash.Point("adopt.stepped")
	if err != nil {
		if pipeline.MaybeApplied(err) {
			return false, err
		}
		if isFull(err) {
			err = fmt.Errorf("its step cannot be made: the list is full: %w", err)
			ad.full = err
			ad.report.Needs(explain.New(explain.ListFull))
		}
		return false, errors.Join(err, ad.askedStep(ctx, rec, nil))
	}
	return true, ad.madeStep(ctx, rec, row)
}

func isFull(err error) bool {
	var e *pipeline.BoardError
	return errors.As(err, &e) && e.Full
}

func (ad *adopter) askedStep(ctx context.Context, rec *pipeline.Record, at *time.Time) error {
	return ad.changeStep(ctx, rec, func(s *pipeline.StepRecord) { s.AskedAt = at })
}

func (ad *adopter) madeStep(ctx context.Context, rec *pipeline.Record, row string) error {
	return ad.changeStep(ctx, rec, func(s *pipeline.StepRecord) { s.RowID, s.AskedAt = row, nil })
}

func (ad *adopter) changeStep(ctx context.Context, rec *pipeline.Record, f func(*pipeline.StepRecord)) error {
	_, err := ad.Records.Change(ctx, rec.TaskID, func(r *pipeline.Record) error {
		if len(r.Steps) != 1 || r.RowID != rec.RowID {
			return errVanished
		}
		f(&r.Steps[0])
		return nil
	})
	return err
}
