// Package complete promotes tasks whose steps are all done, and repairs their
// progress.
//
// A task in progress whose steps are all done on the board becomes agent_done,
// with its completion time. The injector writes percentage and open steps when an
// agent ticks a step; the detector repairs them after a person ticked one. A task
// at agent_done keeps its open steps: a person reviews it. The steps of one that a
// person set to done are ticked.
//
// Everything is derived from the board and written as "this cell has this value",
// so the next pass repairs what a crash left.
package complete

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"otm/heartbeat"
	"otm/internal/explain"
	"otm/pipeline"
)

// Who is the name under which the detector writes.
const Who = "otm-completion-detector"

// Detector makes passes over the board. Its methods are for one goroutine,
// which holds the detector's work lock.
type Detector struct {
	Board   pipeline.Board
	Records pipeline.Records
	Log     *slog.Logger
	Now     func() time.Time

	Progress func() // called while a pass gets on; nil: nobody cares

	unread []explain.Finding // the records that could not be read in the last pass, and were logged
}

// What a pass counts, in the order of its report.
const (
	promoted = iota
	repaired
)

func newReport() *heartbeat.Report {
	return &heartbeat.Report{Did: []heartbeat.Did{{Verb: "Promoted", Noun: "task"}, {Verb: "Repaired", Noun: "task"}}}
}

// trouble notes an error of the board, and when to ask it again.
func trouble(r *heartbeat.Report, err error) {
	r.Trouble = err
	var e *pipeline.BoardError
	if errors.As(err, &e) {
		r.Due = e.Until
	}
}

// finding is what has to be written to one task.
type finding struct {
	id      pipeline.TaskID
	row     string
	promote bool
	change  pipeline.Change
}

// Pass looks at every task once. Rows may be at most maxAge old; if it is negative,
// any snapshot will do. The error is one of our own files.
func (d *Detector) Pass(ctx context.Context, maxAge time.Duration) (report *heartbeat.Report, err error) {
	report = newReport()
	b, err := d.Board.Begin(ctx)
	if err != nil {
		trouble(report, err)
		return report, nil
	}
	defer func() { err = errors.Join(err, b.End()) }()
	if maxAge >= 0 || b.WalkAt().IsZero() {
		if err := b.Refresh(ctx, max(maxAge, 0)); err != nil {
			trouble(report, err)
			return report, nil
		}
	}
	found, stale := d.look(ctx, b, report)
	if stale {
		if err := b.Refresh(ctx, 0); err != nil {
			trouble(report, err)
			return report, nil
		}
		found, _ = d.look(ctx, b, report)
	}
	if !slices.EqualFunc(report.Failed, d.unread, explain.Finding.Equal) {
		d.unread = report.Failed
		for _, f := range report.Failed {
			d.Log.Error("record not read", "task", f.Task, "err", f.Args["error"])
		}
	}
	return report, d.write(ctx, b, found, report)
}

// look finds what has to be written, and reports what it cannot judge. stale is
// true if a promotion needs a fresher status.
func (d *Detector) look(ctx context.Context, b pipeline.Batch, report *heartbeat.Report) (found []finding, stale bool) {
	now := d.Now()
	report.Failed = nil
	for row := range b.Rows() {
		id := row.Task()
		if row.Parent != "" || id == 0 {
			continue
		}
		f := assess(row, b.StepRows(row.ID), now)
		if f == nil {
			continue
		}
		whole, byWord, err := d.complete(ctx, row, b)
		if err != nil {
			report.Failed = append(report.Failed, explain.New(explain.TaskRecordFailed, "error", err).On(id))
			continue
		}
		if byWord {
			f.leaveStatus()
		}
		if !whole || len(f.change.Cells) == 0 {
			continue
		}
		f.id = id
		found = append(found, *f)
		stale = stale || f.promote && !b.Current(row, pipeline.StatusAge)
	}
	return found, stale
}

// complete reports whether a row is its task's, and all the steps that the
// record knows stand on the board: until they do, what the rows say is not the
// whole task. byWord says that its steps do not tell when it is done. What
// people did to the rows is noted: after our own write they no longer tell who
// it was.
func (d *Detector) complete(ctx context.Context, row *pipeline.Row, b pipeline.Batch) (whole, byWord bool, err error) {
	rec, err := d.Records.Load(row.Task())
	if errors.Is(err, fs.ErrNotExist) {
		return true, false, nil // a record that was lost is no reason to stop
	}
	if err != nil {
		return false, false, err
	}
	if !rec.OnBoard() || rec.RowID != row.ID {
		return false, false, nil
	}
	for _, s := range rec.Steps {
		if b.Row(s.RowID) == nil {
			return false, false, nil
		}
	}
	steps, now := b.StepRows(row.ID), d.Now()
	if !rec.Observe(row, steps, b.Person, now) {
		return true, rec.EndsByWord(), nil
	}
	rec, err = d.Records.Change(ctx, row.Task(), func(r *pipeline.Record) error {
		if r.RowID != row.ID || !r.Observe(row, steps, b.Person, now) {
			return pipeline.ErrUnchanged
		}
		return nil
	})
	if err != nil {
		return false, false, err
	}
	rec.LogPeople(ctx, d.Log, now)
	return true, rec.EndsByWord(), nil
}

// assess holds a task against its steps; nil if there is nothing to write.
func assess(row *pipeline.Row, steps []*pipeline.Row, now time.Time) *finding {
	status := row.CurrentStatus()
	if len(steps) == 0 || status == pipeline.Cancelled || status == pipeline.Archived {
		return nil
	}
	done := 0
	for _, s := range steps {
		if s.StepDone() {
			done++
		}
	}
	f := &finding{row: row.ID, change: pipeline.Change{Row: row.ID}}
	if status == pipeline.InProgress && done == len(steps) {
		f.promote = true
		f.set(pipeline.Cell{Field: pipeline.FieldStatus, Text: string(pipeline.AgentDone)})
		f.set(pipeline.Cell{Field: pipeline.FieldCompletedAt, At: now})
	}
	if remaining := float64(len(steps) - done); row.Remaining == nil || *row.Remaining != remaining {
		f.set(pipeline.Cell{Field: pipeline.FieldRemaining, Number: remaining})
	}
	if percent := float64(100 * done / len(steps)); row.Completion == nil || *row.Completion != percent {
		f.set(pipeline.Cell{Field: pipeline.FieldCompletion, Number: percent})
	}
	if status == pipeline.Done && !row.Checked {
		f.set(pipeline.Cell{Field: pipeline.FieldChecked, Checked: true})
	}
	if len(f.change.Cells) == 0 {
		return nil
	}
	return f
}

// leaveStatus takes a promotion back.
func (f *finding) leaveStatus() {
	if f.promote {
		f.promote, f.change.Cells = false, f.change.Cells[2:]
	}
}

func (f *finding) set(c pipeline.Cell) { f.change.Cells = append(f.change.Cells, c) }

// write writes all findings in as few calls as the board allows, and where one
// is at fault, each by itself.
func (d *Detector) write(ctx context.Context, b pipeline.Batch, found []finding, report *heartbeat.Report) error {
	found = dropUnwritable(b, found)
	if len(found) == 0 {
		return nil
	}
	all := make([]pipeline.Change, len(found))
	for i, f := range found {
		all[i] = f.change
	}
	err := b.Update(ctx, all...)
	if err == nil {
		return d.wrote(ctx, found, report)
	}
	if !concernsOne(err) {
		trouble(report, err)
		return nil
	}
	for _, f := range found {
		d.getsOn()
		err := b.Update(ctx, f.change)
		var e *pipeline.BoardError
		switch {
		case err == nil:
			if err := d.wrote(ctx, []finding{f}, report); err != nil {
				return err
			}
		case errors.As(err, &e) && e.RowGone:
			d.Log.Info("row is no longer on the board", "task", f.id)
		case concernsOne(err):
			report.Failed = append(report.Failed, explain.New(explain.TaskRefused, "error", err).On(f.id))
			d.Log.Error("board refused progress", "task", f.id, "err", err)
		default:
			trouble(report, err)
			return nil
		}
	}
	return nil
}

// concernsOne reports whether an error is about one change and says nothing of
// the others: it is refused, or needs an option that the board lacks.
func concernsOne(err error) bool {
	var missing *pipeline.MissingError
	return pipeline.IsRefused(err) || errors.As(err, &missing)
}

// dropUnwritable leaves out what the board has no columns for: it would be
// found again on each pass.
func dropUnwritable(b pipeline.Batch, found []finding) []finding {
	var kept []finding
	for _, f := range found {
		var cells []pipeline.Cell
		for _, c := range f.change.Cells {
			if b.Has(c.Field) {
				cells = append(cells, c)
			}
		}
		if f.change.Cells = cells; len(cells) > 0 {
			kept = append(kept, f)
		}
	}
	return kept
}

func (d *Detector) getsOn() {
	if d.Progress != nil {
		d.Progress()
	}
}

// wrote notes what was written in the records.
func (d *Detector) wrote(ctx context.Context, found []finding, report *heartbeat.Report) error {
	for _, f := range found {
		d.getsOn()
		if !f.promote {
			report.Did[repaired].N++
			d.Log.Info("repaired progress", "task", f.id)
			continue
		}
		report.Did[promoted].N++
		d.Log.Info("promoted task", "task", f.id, "to", pipeline.AgentDone)
		_, err := d.Records.Change(ctx, f.id, func(r *pipeline.Record) error {
			if r.RowID == "" {
				return pipeline.ErrUnchanged // its record was lost
			}
			r.Note(d.Now(), Who, pipeline.EventStatus, fmt.Sprintf("%s to %s", pipeline.InProgress, pipeline.AgentDone))
			r.SetStatus(pipeline.AgentDone, d.Now())
			for i := range r.Steps {
				r.Steps[i].Done = true
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
