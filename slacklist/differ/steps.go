package differ

import (
	"cmp"
	"slices"

	"otm/core"
	"otm/pipeline"
)

// steps compares the steps of a task with their rows.
func (d *difference) steps() {
	var added []*pipeline.Row
	for _, row := range d.StepRows(d.row.ID) {
		i := slices.IndexFunc(d.task.Steps, func(s core.Step) bool { return s.RowID == row.ID })
		switch {
		case i < 0 && slices.Contains(d.task.Dropped, row.ID): // it is being deleted
			continue
		case i < 0:
			added = append(added, row)
			continue
		}
		d.step(&d.task.Steps[i], row)
	}
	if !d.task.OnBoard() {
		return // rows of steps whose answer was lost are found by their titles
	}
	for _, row := range byCreation(added) { // a person's steps come last
		d.edits.Added = append(d.edits.Added, core.FoundStep{Row: row.ID, Title: row.Title, Done: row.StepDone()})
		d.edited = true
	}
}

func (d *difference) step(s *core.Step, row *pipeline.Row) {
	shown, title, done := s.Shown, row.Title, row.StepDone()
	edit := core.StepEdit{Row: row.ID, By: d.person(row)}
	titled, ticked := text(title, &shown.Title, s.Title), same
	if readable(row) {
		ticked = judge(done, shown.Done, s.Done)
		shown.Done = done
	}
	if d.noteEdit(titled, row) {
		edit.Title = &title
	}
	if d.noteEdit(ticked, row) {
		edit.Done = &done
	}
	if edit.Title != nil || edit.Done != nil {
		d.edits.Steps = append(d.edits.Steps, edit)
	}
	if titled == ours || ticked == ours {
		d.written = append(d.written, core.WrittenStep{Step: s.ID, Row: row.ID, Shown: shown})
	}
}

// readable reports whether the row of a step tells if the step is done.
func readable(row *pipeline.Row) bool {
	if row.StepDone() {
		return true
	}
	_, known := pipeline.ParseStatus(string(row.Status))
	return !row.Odd && (known || row.Status == "")
}

// byCreation sorts rows by the time of their creation. Rows of one second keep their
// order.
func byCreation(rows []*pipeline.Row) []*pipeline.Row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *pipeline.Row) int { return cmp.Compare(a.Created, b.Created) })
	return rows
}
