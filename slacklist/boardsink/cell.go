package boardsink

import (
	"maps"
	"slices"

	"otm/core"
	"otm/pipeline"
)

// cell returns the cell of one field of a task.
func (s *Sink) cell(field pipeline.Field, v *core.Shown) pipeline.Cell {
	c := pipeline.Cell{Field: field, Text: v.Text(field)}
	switch field {
	case pipeline.FieldChecked:
		c.Text, c.Checked = "", v.Checked
	case pipeline.FieldAssignee:
		if a := s.Agents.Named(v.Agent); a != nil {
			c.Text, c.User = a.Label, a.User
		}
	}
	return c
}

// rowCells are the cells of a new row. Empty ones are left out.
func (s *Sink) rowCells(v *core.Shown) (cells []pipeline.Cell) {
	for _, field := range slices.Concat(core.Fields, slices.Sorted(maps.Keys(v.Derived))) {
		if c := s.cell(field, v); c.Text != "" || c.Checked {
			cells = append(cells, c)
		}
	}
	return cells
}

// stepCells are the cells of a new step.
func stepCells(step *core.Step) []pipeline.Cell {
	cells := []pipeline.Cell{{Field: pipeline.FieldTitle, Text: step.Title}}
	if step.Done {
		return append(cells, doneCells(true)...)
	}
	return append(cells, pipeline.Cell{Field: pipeline.FieldStatus, Text: string(pipeline.New)})
}

// doneCells tick a step, or open it again.
func doneCells(done bool) []pipeline.Cell {
	status := pipeline.New
	if done {
		status = pipeline.Done
	}
	return []pipeline.Cell{{Field: pipeline.FieldStatus, Text: string(status)}, {Field: pipeline.FieldChecked, Checked: done}}
}

// changes are the cells of a task that are stale, of its row and of the steps that have
// one in the snapshot. Steps come first: if each row takes a call of its own, the task
// is never ahead of its steps.
func (s *Sink) changes(b pipeline.Batch, t *core.Task) (all []pipeline.Change, written core.Written) {
	view := t.View()
	for i := range t.Steps {
		step := &t.Steps[i]
		if step.RowID == "" || !step.IsStale() || b.Row(step.RowID) == nil {
			continue
		}
		var cells []pipeline.Cell
		if step.Title != step.Shown.Title {
			cells = append(cells, pipeline.Cell{Field: pipeline.FieldTitle, Text: step.Title})
		}
		if step.Done != step.Shown.Done {
			cells = append(cells, doneCells(step.Done)...)
		}
		all = append(all, pipeline.Change{Row: step.RowID, Cells: cells})
		written.Steps = append(written.Steps, core.WrittenStep{Step: step.ID, Row: step.RowID, Shown: core.StepShown{Title: step.Title, Done: step.Done}})
	}
	var cells []pipeline.Cell
	for _, field := range t.Stale() {
		if _, has := b.Form(field, ""); has {
			cells = append(cells, s.cell(field, &view))
		}
	}
	if len(cells) > 0 {
		all = append(all, pipeline.Change{Row: t.RowID, Cells: cells})
	}
	written.Shown = view
	return all, written
}
