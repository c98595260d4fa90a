package core

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"otm/pipeline"
)

// Shown is what the row of a task shows: the cells that OTM writes, in OTM's words.
// Two of them are compared. View is what the board is to show by the state of the
// task. Task.Shown is what it showed when it was last seen or written. Where they
// differ, the board has to be written. Where a row differs from Task.Shown, a person
// edited it. An empty value in Task.Shown is not known: it is written again.
type Shown struct {
	TaskID   pipeline.TaskID   `json:"taskId,omitzero"`
	Title    string            `json:"title,omitempty"`
	Agent    string            `json:"agent,omitempty"` // the name in the state, not the label
	Priority pipeline.Priority `json:"priority,omitempty"`
	Project  string            `json:"project,omitempty"`
	Type     pipeline.Type     `json:"type,omitempty"`
	Status   pipeline.Status   `json:"status,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	Result   string            `json:"result,omitempty"`
	Checked  bool              `json:"checked,omitempty"`
	Gone     bool              `json:"gone,omitempty"` // the row was deleted, as the task was archived
	// Derived are the texts of pipeline.DerivedFields. Views share it: it is cloned
	// before it is changed.
	Derived map[pipeline.Field]string `json:"derived,omitempty"`
}

// Fields are the fields of Shown but for the derived ones.
var Fields = []pipeline.Field{
	pipeline.FieldTitle, pipeline.FieldTaskID, pipeline.FieldType, pipeline.FieldAssignee, pipeline.FieldProject,
	pipeline.FieldPriority, pipeline.FieldStatus, pipeline.FieldReason, pipeline.FieldResult, pipeline.FieldChecked,
}

// Text is what is shown in a field; "" is nothing. A check mark is "true".
func (s *Shown) Text(field pipeline.Field) string {
	switch text := s.text(field); {
	case text != nil:
		return *text
	case field == pipeline.FieldTaskID && s.TaskID != 0:
		return s.TaskID.String()
	case field == pipeline.FieldChecked && s.Checked:
		return "true"
	}
	return s.Derived[field]
}

// Set sets what is shown in a field, but for the Task ID and the check mark. That of a
// derived field changes Derived.
func (s *Shown) Set(field pipeline.Field, text string) {
	if own := s.text(field); own != nil {
		*own = text
	} else if text == "" {
		delete(s.Derived, field)
	} else {
		s.Derived[field] = text
	}
}

// text is where the text of a field is kept; nil: elsewhere.
func (s *Shown) text(field pipeline.Field) *string {
	switch field {
	case pipeline.FieldTitle:
		return &s.Title
	case pipeline.FieldAssignee:
		return &s.Agent
	case pipeline.FieldPriority:
		return (*string)(&s.Priority)
	case pipeline.FieldProject:
		return &s.Project
	case pipeline.FieldType:
		return (*string)(&s.Type)
	case pipeline.FieldStatus:
		return (*string)(&s.Status)
	case pipeline.FieldReason:
		return &s.Reason
	case pipeline.FieldResult:
		return &s.Result
	}
	return nil
}

// Derived says how the cells follow from a task that OTM alone writes. Where the text
// is empty, the cell stays as it is.
var Derived = map[pipeline.Field]func(*Task) string{
	pipeline.FieldRemaining:   func(t *Task) string { return strconv.Itoa(len(t.Steps) - t.StepsDone()) },
	pipeline.FieldCompletion:  func(t *Task) string { return strconv.Itoa(t.Percent()) },
	pipeline.FieldAssignedAt:  func(t *Task) string { return stamp(t.assignedAt()) },
	pipeline.FieldCompletedAt: func(t *Task) string { return stamp(t.CompletedAt) },
	pipeline.FieldValidatedAt: func(t *Task) string { return stamp(t.ValidatedAt) },
	pipeline.FieldCancelledAt: func(t *Task) string { return stamp(t.CancelledAt) },
	pipeline.FieldPrevious:    func(t *Task) string { return string(t.Previous) },
	pipeline.FieldContext:     func(t *Task) string { return t.Context },
	pipeline.FieldInputs:      func(t *Task) string { return strings.Join(t.Inputs, "\n") },
	pipeline.FieldThread: func(t *Task) string {
		if t.Audit == nil {
			return ""
		}
		return t.Audit.Link
	},
}

// stamp writes a time; "" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// assignedAt is when the task was handed out; zero: it is not.
func (t *Task) assignedAt() time.Time {
	if t.Dispatch == nil {
		return time.Time{}
	}
	return t.Dispatch.At
}

// View is what the board is to show of a task.
func (t *Task) View() Shown {
	v := Shown{
		TaskID: t.ID, Title: t.Title, Agent: t.Agent, Priority: t.Priority, Project: t.Project, Type: t.Type,
		Status: t.Status, Reason: t.Reason, Result: t.Result, Checked: t.Status == pipeline.Done,
		Derived: map[pipeline.Field]string{},
	}
	for field, of := range Derived {
		if text := cmp.Or(of(t), t.Shown.Derived[field]); text != "" {
			v.Derived[field] = text
		}
	}
	return v
}

// Stale returns the fields of the task's row that the board does not show as the
// task is; empty: it shows all.
func (t *Task) Stale() []pipeline.Field {
	v, was := t.View(), t.Shown
	stale := pipeline.Filter(Fields, func(f pipeline.Field) bool { return v.Text(f) != was.Text(f) })
	for field, text := range v.Derived {
		if text != was.Derived[field] {
			stale = append(stale, field)
		}
	}
	slices.Sort(stale)
	return stale
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
	return t.RowID == "" || len(t.Dropped) > 0 || len(t.Stale()) > 0 || slices.ContainsFunc(t.Steps, func(s Step) bool { return s.IsStale() })
}
