package differ

import (
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/pipeline"
)

// changedAgain is for how long a Task ID that was written back should stay. One that
// changes earlier is changed by another program, which would do it again.
const changedAgain = time.Hour

// unedited notes which of the cells that people do not edit show our own writes, whose
// answers were lost.
func (d *difference) unedited() {
	row, view := d.row, d.task.View()
	if project, typ := row.Project, pipeline.Type(row.Type); !row.Odd {
		d.shows(&d.shown.Project, project, view.Project)
		d.shows(&d.shown.Result, row.Result, view.Result)
		if typ == view.Type && d.shown.Type != typ {
			d.shown.Type, d.ours = typ, true
		}
	}
	if row.Task() == d.task.ID && d.shown.TaskID != d.task.ID {
		d.shown.TaskID, d.ours = d.task.ID, true
	}
	if was := d.shown.Remaining; (was == nil || *was != *view.Remaining) && equals(row.Remaining, float64(*view.Remaining)) {
		d.shown.Remaining, d.ours = view.Remaining, true
	}
	if was := d.shown.Completion; (was == nil || *was != *view.Completion) && equals(row.Completion, *view.Completion) {
		d.shown.Completion, d.ours = view.Completion, true
	}
	if !row.Odd && view.Checked != d.shown.Checked && row.Checked == view.Checked && d.Has(pipeline.FieldChecked) {
		d.shown.Checked, d.ours = view.Checked, true
	}
}

// shows notes that a cell shows what it is to show.
func (d *difference) shows(showed *string, seen, is string) {
	if seen == is && *showed != is {
		*showed, d.ours = is, true
	}
}

// drift finds cells of the task's row that OTM derives, and that show something else.
func (d *difference) drift() {
	var fields []pipeline.Field
	if d.idLost() {
		fields = append(fields, pipeline.FieldTaskID)
	}
	t, view := d.task, d.task.View()
	if !d.row.Odd && t.Status != pipeline.Cancelled && t.Status != pipeline.Archived && len(t.Steps) > 0 {
		if was := d.shown.Remaining; d.Has(pipeline.FieldRemaining) && was != nil && *was == *view.Remaining && !equals(d.row.Remaining, float64(*was)) {
			fields = append(fields, pipeline.FieldRemaining)
		}
		if was := d.shown.Completion; d.Has(pipeline.FieldCompletion) && was != nil && *was == *view.Completion && !equals(d.row.Completion, *was) {
			fields = append(fields, pipeline.FieldCompletion)
		}
	}
	if d.tickLost() {
		fields = append(fields, pipeline.FieldChecked)
	}
	if len(fields) > 0 {
		d.add(d.By, t.ID, core.Drifted{Fields: fields, Was: d.row.TaskID})
	}
}

// tickLost reports whether the tick of the task's row has to be written again. A tick on
// a task that was never done is a person's, and means nothing.
func (d *difference) tickLost() bool {
	checked, t := d.task.View().Checked, d.task
	if d.row.Odd || !d.Has(pipeline.FieldChecked) || d.shown.Checked != checked || d.row.Checked == checked {
		return false
	}
	return checked || !t.ValidatedAt.IsZero()
}

func equals(cell *float64, n float64) bool { return cell != nil && *cell == n }

// idLost reports whether the Task ID of the row is to be written back. If that is not
// possible, it reports why as a finding.
func (d *difference) idLost() bool {
	t, row := d.task, d.row
	if row.Task() == t.ID || row.Odd && row.TaskID == "" || d.shown.TaskID == 0 {
		return false
	}
	if still := d.stillAt(row.Updated); still.After(d.Now) {
		d.again(still) // a person is editing it
		return false
	}
	if other := d.TaskRow(t.ID); other != nil {
		d.find(explain.New(explain.TaskIDTaken, "title", other.Title).On(t.ID))
		return false
	}
	if age := d.Now.Sub(t.IDBackAt); !t.IDBackAt.IsZero() && age >= 0 && age < changedAgain {
		d.find(explain.New(explain.TaskIDAgain, "at", t.IDBackAt).On(t.ID))
		return false
	}
	return true
}

// stillAt is when a row counts as no longer edited. updated is its last change, in Unix
// seconds. It is zero if the board's clock is too far ahead of ours.
func (c *comparison) stillAt(updated int64) time.Time {
	still := time.Unix(updated, 0).Add(c.Times.AdoptAfter)
	if still.Sub(c.Now) > 2*c.Times.AdoptAfter {
		return time.Time{}
	}
	return still
}
