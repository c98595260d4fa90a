package differ

import (
	"maps"
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
	if d.row.Odd {
		return
	}
	for _, field := range []pipeline.Field{pipeline.FieldProject, pipeline.FieldResult, pipeline.FieldType} {
		if is := d.view.Text(field); d.seen.Text(field) == is && d.shown.Text(field) != is {
			d.shown.Set(field, is)
			d.ours = true
		}
	}
	if d.seen.TaskID == d.task.ID && d.shown.TaskID != d.task.ID {
		d.shown.TaskID, d.ours = d.task.ID, true
	}
	if _, has := d.Form(pipeline.FieldChecked, ""); has && d.seen.Checked == d.view.Checked && d.shown.Checked != d.view.Checked {
		d.shown.Checked, d.ours = d.view.Checked, true
	}
	written := map[pipeline.Field]string{}
	for field, is := range d.view.Derived {
		if form, has := d.Form(field, is); has && d.seen.Derived[field] == form && d.shown.Derived[field] != is {
			written[field] = is
		}
	}
	if len(written) > 0 {
		showed := d.shown.Derived // the task shares it
		d.shown.Derived, d.ours = map[pipeline.Field]string{}, true
		maps.Copy(d.shown.Derived, showed)
		maps.Copy(d.shown.Derived, written)
	}
}

// drift finds cells that show what nobody meant, and have them written again: cells
// that OTM derives, the Task ID, and cells that a task needs and a person emptied. An
// empty cell is no choice.
func (d *difference) drift() {
	t := d.task
	found := core.Drifted{Was: d.row.TaskID}
	if d.idLost() {
		found.Fields = append(found.Fields, pipeline.FieldTaskID)
	}
	if !d.row.Odd {
		found.Fields = append(found.Fields, d.emptied()...)
	}
	if !d.row.Odd && t.Status != pipeline.Cancelled && t.Status != pipeline.Archived {
		found.Fields = append(found.Fields, d.derived()...)
	}
	if d.tickLost() {
		found.Fields = append(found.Fields, pipeline.FieldChecked)
	}
	for _, s := range t.Steps {
		if row := d.Row(s.RowID); row != nil && !row.Odd && row.Title == "" && s.Shown.Title != "" && d.still(row) {
			found.Steps = append(found.Steps, s.ID)
		}
	}
	if len(found.Fields)+len(found.Steps) > 0 && !d.unsettled() {
		d.Drifted++
		d.add(d.By, t.ID, found)
	}
}

// derived returns the derived fields whose cells show something else than OTM wrote.
func (d *difference) derived() (fields []pipeline.Field) {
	for _, f := range pipeline.DerivedFields {
		is := d.view.Derived[f.Field]
		if form, has := d.Form(f.Field, is); has && is != "" && is == d.shown.Derived[f.Field] && form != d.row.Derived[f.Field] {
			fields = append(fields, f.Field)
		}
	}
	return fields
}

// emptied returns the fields whose cells a person emptied, and which a task needs.
func (d *difference) emptied() []pipeline.Field {
	needed := []pipeline.Field{pipeline.FieldTitle, pipeline.FieldPriority, pipeline.FieldStatus, pipeline.FieldReason}
	fields := pipeline.Filter(needed, func(field pipeline.Field) bool {
		_, has := d.Form(field, "")
		return has && d.seen.Text(field) == "" && d.shown.Text(field) != ""
	})
	if len(fields) > 0 && !d.still(d.row) {
		return nil
	}
	return fields
}

// tickLost reports whether the tick of the task's row has to be written again. A tick on
// a task that was never done is a person's, and means nothing.
func (d *difference) tickLost() bool {
	checked, t := d.view.Checked, d.task
	if _, has := d.Form(pipeline.FieldChecked, ""); !has || d.row.Odd || d.shown.Checked != checked || d.row.Checked == checked {
		return false
	}
	return checked || !t.ValidatedAt.IsZero()
}

// idLost reports whether the Task ID of the row is to be written back. If that is not
// possible, it reports why as a finding.
func (d *difference) idLost() bool {
	t, row := d.task, d.row
	if row.Task() == t.ID || row.Odd && row.TaskID == "" || d.shown.TaskID == 0 {
		return false
	}
	if still := d.stillAt(row.Updated); still.After(d.now) {
		d.again(still) // a person is editing it
		return false
	}
	if other := d.TaskRow(t.ID); other != nil {
		d.find(explain.New(explain.TaskIDTaken, "title", other.Title).On(t.ID))
		return false
	}
	if age := d.now.Sub(t.IDBackAt); !t.IDBackAt.IsZero() && age >= 0 && age < changedAgain {
		d.find(explain.New(explain.TaskIDAgain, "at", t.IDBackAt).On(t.ID))
		return false
	}
	return true
}

// stillAt is when a row counts as no longer edited. updated is its last change, in Unix
// seconds. It is zero if the board's clock is too far ahead of ours.
func (c *comparison) stillAt(updated int64) time.Time {
	still := time.Unix(updated, 0).Add(c.Times.AdoptAfter)
	if still.Sub(c.now) > 2*c.Times.AdoptAfter {
		return time.Time{}
	}
	return still
}
