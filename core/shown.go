package core

import (
	"maps"
	"slices"
	"time"

	"otm/pipeline"
)

// Shown is what the row of a task shows: the cells that OTM writes, in OTM's words.
// Two of them are compared. View is what the board is to show by the state of the
// task. Task.Shown is what it showed when it was last seen or written. Where they
// differ, the board has to be written. Where a row differs from Task.Shown, a person
// edited it. An empty value in Task.Shown is not known: it is written again.
type Shown struct {
	TaskID      pipeline.TaskID   `json:"taskId,omitzero"`
	Title       string            `json:"title,omitempty"`
	Agent       string            `json:"agent,omitempty"` // the name in the state, not the label
	Priority    pipeline.Priority `json:"priority,omitempty"`
	Project     string            `json:"project,omitempty"`
	Type        pipeline.Type     `json:"type,omitempty"`
	Status      pipeline.Status   `json:"status,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Result      string            `json:"result,omitempty"`
	Remaining   *int              `json:"remaining,omitempty"`
	Completion  *float64          `json:"completion,omitempty"`
	AssignedAt  time.Time         `json:"assignedAt,omitzero"`
	CompletedAt time.Time         `json:"completedAt,omitzero"`
	Checked     bool              `json:"checked,omitempty"`
	Gone        bool              `json:"gone,omitempty"` // the row was deleted, as the task was archived
}

func (s Shown) clone() Shown {
	if s.Remaining != nil {
		n := *s.Remaining
		s.Remaining = &n
	}
	if s.Completion != nil {
		p := *s.Completion
		s.Completion = &p
	}
	return s
}

// View is what the board is to show of a task.
func (t *Task) View() Shown {
	remaining, percent := t.Progress()
	v := Shown{
		TaskID: t.ID, Title: t.Title, Agent: t.Agent, Priority: t.Priority, Project: t.Project, Type: t.Type,
		Status: t.Status, Reason: t.Reason, Result: t.Result, Remaining: &remaining, Completion: &percent,
		CompletedAt: t.CompletedAt, Checked: t.Status == pipeline.Done,
	}
	if d := t.Dispatch; d != nil {
		v.AssignedAt = d.At
	} else {
		v.AssignedAt = t.Shown.AssignedAt // the last one stays
	}
	if t.CompletedAt.IsZero() {
		v.CompletedAt = t.Shown.CompletedAt
	}
	return v
}

// Stale returns the fields of the task's row that the board does not show as the
// task is; empty: it shows all.
func (t *Task) Stale() []pipeline.Field {
	v, was := t.View(), t.Shown
	stale := map[pipeline.Field]bool{
		pipeline.FieldTaskID:      v.TaskID != was.TaskID,
		pipeline.FieldTitle:       v.Title != was.Title,
		pipeline.FieldAssignee:    v.Agent != was.Agent,
		pipeline.FieldPriority:    v.Priority != was.Priority,
		pipeline.FieldProject:     v.Project != was.Project,
		pipeline.FieldType:        v.Type != was.Type,
		pipeline.FieldStatus:      v.Status != was.Status,
		pipeline.FieldReason:      v.Reason != was.Reason,
		pipeline.FieldResult:      v.Result != was.Result,
		pipeline.FieldRemaining:   was.Remaining == nil || *v.Remaining != *was.Remaining,
		pipeline.FieldCompletion:  was.Completion == nil || *v.Completion != *was.Completion,
		pipeline.FieldAssignedAt:  !v.AssignedAt.Equal(was.AssignedAt),
		pipeline.FieldCompletedAt: !v.CompletedAt.Equal(was.CompletedAt),
		pipeline.FieldChecked:     v.Checked != was.Checked,
	}
	maps.DeleteFunc(stale, func(_ pipeline.Field, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(stale))
}

// IsStale reports whether the row of a step does not show the step as it is.
func (s *Step) IsStale() bool {
	return s.RowID == "" || s.Shown != StepShown{Title: s.Title, Done: s.Done}
}

// Unshown reports whether the board has to be written for the task. A row that a
// person deleted is never made again.
func (t *Task) Unshown() bool {
	switch {
	case !t.ArchivedAt.IsZero():
		return t.RowID != "" && !t.Shown.Gone
	case !t.GoneAt.IsZero():
		return false
	}
	return t.RowID == "" || len(t.Stale()) > 0 || slices.ContainsFunc(t.Steps, func(s Step) bool { return s.IsStale() })
}
