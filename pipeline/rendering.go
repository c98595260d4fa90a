package pipeline

import "slices"

// Rendering is the file tasks/T-00035.json: what otm-create and otm-update check
// against. Nothing else reads it.
type Rendering struct {
	TaskID  TaskID         `json:"taskId"`
	Title   string         `json:"title"`
	Agent   string         `json:"agent"`
	Status  Status         `json:"status"`
	Steps   []RenderedStep `json:"steps"` // in the order in which they are to be done
	Attempt int            `json:"attempt,omitempty"`
}

// RenderedStep is a step of a Rendering.
type RenderedStep struct {
	Title string `json:"title"`
	Done  bool   `json:"done,omitempty"`
}

// PlainSteps returns the steps.
func (r *Rendering) PlainSteps() []Step {
	steps := make([]Step, len(r.Steps))
	for i, s := range r.Steps {
		steps[i] = Step(s)
	}
	return steps
}

// Same reports whether two renderings are the same.
func (r Rendering) Same(o Rendering) bool {
	return slices.Equal(r.Steps, o.Steps) && r.TaskID == o.TaskID && r.Title == o.Title && r.Agent == o.Agent && r.Status == o.Status && r.Attempt == o.Attempt
}
