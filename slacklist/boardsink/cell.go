package boardsink

import (
	"otm/core"
	"otm/pipeline"
)

// cell is what a task shows in one field.
func (s *Sink) cell(field pipeline.Field, v *core.Shown) pipeline.Cell {
	c := pipeline.Cell{Field: field}
	switch field {
	case pipeline.FieldTitle:
		c.Text = v.Title
	case pipeline.FieldTaskID:
		c.Text = v.TaskID.String()
	case pipeline.FieldType:
		c.Text = string(v.Type)
	case pipeline.FieldAssignee:
		c.Text = v.Agent
		if a := s.Agents.Named(v.Agent); a != nil {
			c.Text, c.User = a.Label, a.User
		}
	case pipeline.FieldProject:
		c.Text = v.Project
	case pipeline.FieldPriority:
		c.Text = string(v.Priority)
	case pipeline.FieldStatus:
		c.Text = string(v.Status)
	case pipeline.FieldRemaining:
		c.Number = float64(*v.Remaining)
	case pipeline.FieldCompletion:
		c.Number = *v.Completion
	case pipeline.FieldAssignedAt:
		c.At = v.AssignedAt
	case pipeline.FieldCompletedAt:
		c.At = v.CompletedAt
	case pipeline.FieldReason:
		c.Text = v.Reason
	case pipeline.FieldResult:
		c.Text = v.Result
	case pipeline.FieldChecked:
		c.Checked = v.Checked
	}
	return c
}

// always are the fields that a new row has in any case.
var always = []pipeline.Field{
	pipeline.FieldTitle, pipeline.FieldTaskID, pipeline.FieldType, pipeline.FieldAssignee, pipeline.FieldPriority, pipeline.FieldStatus,
	pipeline.FieldRemaining, pipeline.FieldCompletion,
}

// rowCells are the cells of a new row. Empty ones are left out.
func (s *Sink) rowCells(v *core.Shown) []pipeline.Cell {
	fields := always
	for field, is := range map[pipeline.Field]bool{
		pipeline.FieldProject: v.Project != "", pipeline.FieldReason: v.Reason != "", pipeline.FieldResult: v.Result != "",
		pipeline.FieldAssignedAt: !v.AssignedAt.IsZero(), pipeline.FieldCompletedAt: !v.CompletedAt.IsZero(), pipeline.FieldChecked: v.Checked,
	} {
		if is {
			fields = append(fields[:len(fields):len(fields)], field)
		}
	}
	cells := make([]pipeline.Cell, len(fields))
	for i, field := range fields {
		cells[i] = s.cell(field, v)
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
		cells = append(cells, s.cell(field, &view))
	}
	if len(cells) > 0 {
		all = append(all, pipeline.Change{Row: t.RowID, Cells: cells})
	}
	written.Shown = view
	return all, written
}
