package inject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// updates brings reports to the board.
type updates struct {
	*session
	line *line

	held    map[pipeline.TaskID]bool             // tasks with a report that waits
	allHeld bool                                 // a report waits whose task is not known
	drops   map[pipeline.TaskID]pipeline.Dropped // for records that were lost; nil: not asked yet
}

// reset begins a round.
func (up *updates) reset() { up.held, up.allHeld = map[pipeline.TaskID]bool{}, false }

// holdAll holds back all updates behind one that could not be read: it may be of
// any task. It does so for at most UpdateWait.
func (up *updates) holdAll(f inbox.File) {
	if f.Kind == inbox.TaskUpdates && up.Now().Sub(f.Info.ModTime()).Abs() < up.Times.UpdateWait {
		up.allHeld = true
	}
}

// update handles one file of task-updates/. If it has to wait, later ones of the
// same task are held back.
func (up *updates) update(ctx context.Context, f inbox.File, u *drop.Update) verdict {
	if u.ID == "" {
		u.ID = foreignID(f.Name, u.Encode())
	}
	if up.allHeld || up.held[u.TaskID] {
		return verdict{}
	}
	v := up.guarded(f, func() verdict { return up.tryUpdate(ctx, f, u) })
	if v.result != nil && v.result.Class != "" {
		if err := up.noteFailed(ctx, f, u, v.result.Error); err != nil {
			v = ownTrouble(err)
		}
	}
	v.task = u.TaskID
	if v.result == nil {
		up.held[u.TaskID] = true
	}
	return v
}

func (up *updates) tryUpdate(ctx context.Context, f inbox.File, u *drop.Update) verdict {
	rec, err := up.load(u.TaskID)
	if err != nil {
		return ownTrouble(err)
	}
	if v, applied := up.appliedBefore(f, u, rec); applied {
		return v
	}
	if up.line.creating[u.TaskID] && (rec == nil || !rec.OnBoard() || rec.DropID == "") {
		return verdict{} // its task is on its way
	}
	b, err := up.open(ctx)
	if err != nil {
		return verdict{stop: err}
	}
	// Until now we did not hold the board, and others may have written the record.
	if rec, err = up.load(u.TaskID); err != nil {
		return ownTrouble(err)
	}
	if rec == nil {
		if rec, err = up.rebuild(ctx, b, u.TaskID); err != nil {
			return boardTrouble(err)
		}
	}
	if rec == nil || rec.RowID == "" {
		return up.unknown(f, u.TaskID)
	}
	row, err := up.currentRow(ctx, b, rec)
	if err != nil {
		return boardTrouble(err)
	}
	if row == nil {
		v, gone := up.rowGone(ctx, b, rec)
		if gone {
			return v
		}
		row = b.Row(rec.RowID)
	}
	if !rec.OnBoard() {
		return up.unknown(f, u.TaskID)
	}
	if _, known := pipeline.ParseStatus(string(row.Status)); row.Odd && !known {
		return keep(fmt.Sprintf("the status of %v has a form on the board that cannot be read", rec.TaskID))
	}
	return up.apply(ctx, b, f, rec, row, u)
}

// appliedBefore is the verdict on an update whose id the record knows: only the
// settling was missing, or it came twice, or another one bears its id.
func (up *updates) appliedBefore(f inbox.File, u *drop.Update, rec *pipeline.Record) (v verdict, applied bool) {
	if rec == nil {
		return verdict{}, false
	}
	a, applied := rec.AppliedAs(u.ID)
	if r := rec.Reporting; r != nil && r.ID == u.ID {
		a = pipeline.Applied{Drop: r.Drop, Sum: r.Sum} // begun before a crash
	}
	if a.Sum != "" && a.Sum != u.Sum() {
		return fail(inbox.Conflict, "otm show "+rec.TaskID.String(), "its id %q belongs to another update, %q, which says something else: give each update an id of its own", u.ID, a.Drop), true
	}
	if !applied {
		return verdict{}, false
	}
	twice, err := isTwice(up.Box, f, a.Drop)
	if err != nil {
		return ownTrouble(err), true
	}
	return verdict{result: &inbox.Result{SlackItemID: rec.RowID, SkippedDuplicate: twice}}, true
}

// unknown is the verdict on an update of an unknown task. Its create may still
// come.
func (up *updates) unknown(f inbox.File, id pipeline.TaskID) verdict {
	until := f.Info.ModTime().Add(up.Times.UpdateWait)
	if now := up.Now(); until.After(now) {
		return wait(until)
	}
	return fail(inbox.Unmatched, "otm list", "no task %v is known, and none came within %v", id, up.Times.UpdateWait)
}

// rebuild makes a lost record from the row of its task; nil if there is no row.
func (up *updates) rebuild(ctx context.Context, b pipeline.Batch, id pipeline.TaskID) (*pipeline.Record, error) {
	row := b.TaskRow(id)
	if row == nil && !b.Fresh(createAge) {
		if err := up.walk(ctx, b); err != nil {
			return nil, err
		}
		row = b.TaskRow(id)
	}
	if row == nil {
		return nil, nil
	}
	if up.drops == nil {
		var err error
		if up.drops, err = up.Store.Drops(); err != nil {
			return nil, err
		}
	}
	rows := b.StepRows(row.ID)
	return up.Store.Change(ctx, id, func(r *pipeline.Record) error {
		if r.RowID != "" || r.DropID != "" {
			return pipeline.ErrUnchanged // it can be read again
		}
		r.FromRow(row, rows, up.drops[id].Steps)
		if a := up.Agents.Assigned(row.Assignee); a != nil {
			r.Agent = a.Name
		}
		r.Note(up.Now(), Who, pipeline.EventRebuilt, row.ID)
		return nil
	})
}

// currentRow returns the row of a task, fresh enough to write its status; nil if
// the board no longer shows it.
func (up *updates) currentRow(ctx context.Context, b pipeline.Batch, rec *pipeline.Record) (*pipeline.Row, error) {
	row := b.Row(rec.RowID)
	if row != nil && b.Current(row, pipeline.StatusAge) && !(up.Fresh && !up.refreshed) {
		return row, nil
	}
	if row == nil && b.Fresh(pipeline.StatusAge) {
		return nil, nil
	}
	if err := up.walk(ctx, b); err != nil {
		return nil, err
	}
	return b.Row(rec.RowID), nil
}

// apply decides on an update and writes it. If we crash after the decision was
// recorded, the same cells are written again.
func (up *updates) apply(ctx context.Context, b pipeline.Batch, f inbox.File, rec *pipeline.Record, row *pipeline.Row, u *drop.Update) verdict {
	agent := up.Agents.Named(rec.Agent)
	if a := up.Agents.Assigned(row.Assignee); a != nil {
		agent = a
	}
	person := agent != nil && agent.Person
	rows, now := b.StepRows(row.ID), up.Now()
	var decided error
	written := false
	rec, err := up.Store.Change(ctx, rec.TaskID, func(r *pipeline.Record) error {
		seen := r.Observe(row, rows, b.Person, now)
		var report *pipeline.Report
		if report, decided = decideAgain(r, person, u); decided != nil {
			if before := r.Reporting; before != nil && before.ID == u.ID && stands(r, row) {
				decided, written = nil, true
				before.Status = "" // a person has moved the task on from there
				return nil
			}
			if seen {
				return nil
			}
			return pipeline.ErrUnchanged
		}
		if decided = stepsGone(b, r, report); decided != nil {
			return nil
		}
		report.Drop, report.Sum = f.Name, u.Sum()
		r.Reporting = report
		return nil
	})
	if err != nil {
		return ownTrouble(err)
	}
	rec.LogPeople(ctx, up.Log, now)
	var refused *refusal
	switch {
	case errors.Is(decided, errNotDispatched):
		return verdict{}
	case errors.As(decided, &refused):
		return fail(refused.class, "otm show "+rec.TaskID.String(), "%s", refused.reason)
	}
	if !written {
		if err := b.Update(ctx, changes(rec, up.Now())...); err != nil {
			return up.notWritten(ctx, b, err)
		}
	}
	ticked := tickedRows(rec)
	var changed *changedError // a record that is rebuilt from the row contains the update
	if _, err := up.change(ctx, rec, func(r *pipeline.Record) { up.applied(r, u, f.Dropped(up.Now())) }); err != nil && !errors.As(err, &changed) {
		return ownTrouble(err)
	}
	up.Log.Info("applied update", "task", rec.TaskID, "status", u.Status, "steps", len(u.StepsDone), "agent", rec.Agent)
	return verdict{result: &inbox.Result{SlackItemID: rec.RowID, SubtaskItemIDs: ticked}}
}

// notWritten is the verdict on an update that the board did not take. A row that
// has just gone is no refusal of the update: after a walk it is decided again.
func (up *updates) notWritten(ctx context.Context, b pipeline.Batch, err error) verdict {
	var e *pipeline.BoardError
	if !errors.As(err, &e) || !e.RowGone {
		return boardTrouble(err)
	}
	if err := up.walk(ctx, b); err != nil {
		return boardTrouble(err)
	}
	return wait(up.Now().Add(retryBoard))
}

// stepsGone refuses a report of a step whose row has gone from the board. It runs
// before anything is written: no update applies in part.
func stepsGone(b pipeline.Batch, r *pipeline.Record, report *pipeline.Report) error {
	for _, i := range report.Steps {
		if b.Row(r.Steps[i].RowID) == nil {
			return refuse(inbox.Unmatched, "step %q of %v is no longer on the board: somebody deleted or archived it", r.Steps[i].Title, r.TaskID)
		}
	}
	return nil
}

// decideAgain keeps to a decision that was recorded before a crash. A new one
// would tick the next of several equal steps.
func decideAgain(r *pipeline.Record, person bool, u *drop.Update) (*pipeline.Report, error) {
	before := r.Reporting
	report, err := decide(r, person, u)
	if before == nil || before.ID != u.ID {
		return report, err
	}
	if err != nil && r.Status != before.Status {
		return nil, err // a person has moved the task since
	}
	return before, nil
}

// stands reports whether the board shows the report that was begun: its steps are
// ticked, and its texts are in the row. A status alone shows nothing once a
// person has set another one.
func stands(r *pipeline.Record, row *pipeline.Row) bool {
	report := r.Reporting
	if len(report.Steps) == 0 && report.Result == nil {
		return false
	}
	for _, i := range report.Steps {
		if i >= len(r.Steps) || !r.Steps[i].Done {
			return false
		}
	}
	return (report.Reason == nil || row.Reason == *report.Reason) && (report.Result == nil || row.Result == *report.Result)
}

// noteFailed records in the task's history that an update failed, and drops what
// was decided: the same update sent again is decided again. It runs before the
// settling. If we crash in between, the update is judged again and fails the same
// way, which is recorded once.
func (up *updates) noteFailed(ctx context.Context, f inbox.File, u *drop.Update, why string) error {
	if rec, err := up.load(u.TaskID); rec == nil {
		return err
	}
	detail := f.Name + ": " + why
	_, err := up.Store.Change(ctx, u.TaskID, func(r *pipeline.Record) error {
		noted := slices.ContainsFunc(r.History, func(e pipeline.Event) bool {
			return e.What == pipeline.EventUpdateFailed && e.Detail == detail
		})
		if noted && r.Reporting == nil {
			return pipeline.ErrUnchanged
		}
		r.Reporting = nil
		if !noted {
			r.Note(up.Now(), pipeline.WhoAgent(r.Agent), pipeline.EventUpdateFailed, detail)
		}
		return nil
	})
	return err
}

// changes are the cells that a report writes, the steps before the task: if each
// row takes a call of its own, the task is never ahead of its steps.
func changes(rec *pipeline.Record, now time.Time) []pipeline.Change {
	report := rec.Reporting
	var all []pipeline.Change
	for _, i := range report.Steps {
		all = append(all, pipeline.Change{Row: rec.Steps[i].RowID, Cells: []pipeline.Cell{
			{Field: pipeline.FieldStatus, Text: string(pipeline.Done)},
			{Field: pipeline.FieldChecked, Checked: true},
		}})
	}
	var cells []pipeline.Cell
	if report.Status != "" && report.Status != rec.Status {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldStatus, Text: string(report.Status)})
		if report.Status == pipeline.AgentDone {
			cells = append(cells, pipeline.Cell{Field: pipeline.FieldCompletedAt, At: now})
		}
	}
	if report.Reason != nil {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldReason, Text: *report.Reason})
	}
	if report.Result != nil {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldResult, Text: *report.Result})
	}
	if len(report.Steps) > 0 {
		after := *rec
		after.Steps = slices.Clone(rec.Steps)
		for _, i := range report.Steps {
			after.Steps[i].Done = true
		}
		remaining, percent := after.Progress()
		cells = append(cells,
			pipeline.Cell{Field: pipeline.FieldRemaining, Number: float64(remaining)},
			pipeline.Cell{Field: pipeline.FieldCompletion, Number: percent})
	}
	if len(cells) > 0 {
		all = append(all, pipeline.Change{Row: rec.RowID, Cells: cells})
	}
	return all
}

func tickedRows(rec *pipeline.Record) []string {
	var ids []string
	for _, i := range rec.Reporting.Steps {
		ids = append(ids, rec.Steps[i].RowID)
	}
	return ids
}

// applied records that the report is on the board.
func (up *updates) applied(r *pipeline.Record, u *drop.Update, dropped time.Time) {
	report, now, who := r.Reporting, up.Now(), pipeline.WhoAgent(r.Agent)
	if report == nil {
		return // the record was rebuilt from the row, which contains the update
	}
	for _, i := range report.Steps {
		r.Steps[i].Done = true
		r.Note(now, who, "step done", r.Steps[i].Title)
	}
	moved := report.Status != "" && report.Status != r.Status
	if moved {
		r.Note(now, who, pipeline.EventStatus, fmt.Sprintf("%s to %s", r.Status, report.Status))
		// A report that comes after this one shows that the agent is at work.
		r.SetStatus(report.Status, dropped.Add(1))
	}
	r.Hear(r.Agent, dropped, func(h *pipeline.Heard) {
		if len(report.Steps) > 0 {
			h.Progress = dropped
		}
		if moved && report.Status != pipeline.InProgress {
			h.Ended = dropped
		}
	})
	if report.Reason != nil {
		r.Reason, r.Answered = *report.Reason, false
		if r.Reason != "" {
			r.Note(now, who, pipeline.EventReason, r.Reason)
		}
	}
	if report.Result != nil {
		r.Result = *report.Result
		r.Note(now, who, pipeline.EventResult, r.Result)
	}
	if d := r.Dispatch; d != nil && d.TakenAt == nil {
		d.TakenAt, d.TakenBy = &now, "update"
		r.Hear(r.Agent, dropped, func(h *pipeline.Heard) { h.Took = dropped })
	}
	r.Updates = append(r.Updates, pipeline.Applied{ID: u.ID, Drop: report.Drop, Sum: report.Sum})
	if n := len(r.Updates) - pipeline.KeptUpdates; n > 0 {
		r.Updates = slices.Delete(r.Updates, 0, n)
	}
	r.Reporting = nil
}
