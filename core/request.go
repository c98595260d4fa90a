package core

import (
	"time"

	"otm/pipeline"
)

// Request asks for a task: a create was dropped. The id of the command is the drop's.
type Request struct {
	Task       pipeline.Task
	Drop       string // the name of the file
	CreatedAt  time.Time
	Parked     string // it begins as blocked, for this reason; "": as new
	Claims     string // who asked for it, as the drop claims
	Unverified bool   // the board could not be read: a row of the task may stand there
	// Found is the task's row, which stands on the board although the task was not
	// known; nil: there is none.
	Found *RowFound
}

func (r Request) decide(d *decision) error {
	if t := d.task; t != nil {
		if t.DropID != d.ID && pipeline.FoldTitle(t.Title) != pipeline.FoldTitle(r.Task.Title) {
			refused := d.refuse(RuleOtherTask, Conflict)
			refused.Title = t.Title
			return refused
		}
		if t.DropID != d.ID {
			d.emit(DuplicateSkipped{r.Drop})
		}
		return nil
	}
	status, reason := pipeline.New, ""
	if r.Parked != "" {
		status, reason = pipeline.Blocked, r.Parked
	}
	d.Agent = r.Task.Agent
	by := Actor{Kind: Creator}
	if r.Drop == "" {
		by.Name = r.Claims // no claim then: the API checked the token
	}
	d.emitAs(by, r.CreatedAt, TaskRequested{
		DropID: d.ID, Drop: r.Drop, Claims: r.Claims, Title: r.Task.Title, Agent: r.Task.Agent, Priority: r.Task.Priority,
		Project: r.Task.Project, Type: r.Task.Type, Context: r.Task.Context, Inputs: r.Task.Inputs, Body: r.Task.Body, Parent: r.Task.Parent,
		CreatedAt: r.CreatedAt, Steps: r.Task.Steps, Status: status, Reason: reason, Unverified: r.Unverified,
	})
	if r.Found != nil {
		d.emit(d.matched(r.Found))
	}
	return nil
}

// matched gives the rows of steps to the steps of the task with the same title, each
// once. The others keep Step 0: they come last.
func (d *decision) matched(found *RowFound) RowFound {
	f := *found
	f.Steps = append([]FoundStep(nil), found.Steps...)
	given := map[int]bool{}
	for i := range f.Steps {
		for _, s := range d.task.Steps {
			if !given[s.ID] && s.RowID == "" && pipeline.FoldTitle(s.Title) == pipeline.FoldTitle(f.Steps[i].Title) {
				f.Steps[i].Step = s.ID
				given[s.ID] = true
				break
			}
		}
	}
	return f
}

// Adopt makes a task of a row on the board that no task has: a person typed it, or
// its task was lost. Steps that the row has are the task's; a task without any gets
// the default step.
type Adopt struct {
	Task    pipeline.Task // Steps are those of the create of a lost task, in order; else empty
	Status  pipeline.Status
	Reason  string
	Result  string
	Typed   Actor     // who typed it
	TypedAt time.Time // when
	Row     RowFound
	Lost    bool   // its task was known before: numbers of attempts may have been used
	Taken   *Taken // nil: nobody had it, as far as the row tells
}

// Taken says that a lost task was in its agent's hands. Heard is when its rows last changed.
type Taken struct {
	Workspace string
	Heard     time.Time
}

func (a Adopt) decide(d *decision) error {
	if t := d.task; t != nil {
		if t.RowID == a.Row.Row {
			return nil
		}
		refused := d.refuse(RuleOtherTask, Conflict)
		refused.Title = t.Title
		return refused
	}
	steps := a.Task.Steps
	if len(steps) == 0 && len(a.Row.Steps) == 0 {
		steps = []string{pipeline.DefaultStep}
	}
	attempt := 0
	if a.Lost { // no attempt lasts less than a second, and no key may be used twice
		attempt = max(0, int(d.At.Sub(a.TypedAt)/time.Second)) + 1
	}
	d.Agent = a.Task.Agent
	d.emitAs(a.Typed, a.TypedAt, TaskRequested{
		Title: a.Task.Title, Agent: a.Task.Agent, Priority: a.Task.Priority, Project: a.Task.Project, Type: a.Task.Type, CreatedAt: a.TypedAt,
		Steps: steps, Status: a.Status, Reason: a.Reason, Result: a.Result, Attempt: attempt,
	})
	d.emit(d.matched(&a.Row))
	if d.task.Status == pipeline.Pending { // it waited for a run; nobody knows until when
		d.emit(RetryScheduled{Run: 1, Wait: Wait{WaitBackoff, d.At.UTC()}})
	}
	if a.Taken != nil {
		d.emit(HandedOut{Attempt: attempt + 1, Agent: a.Task.Agent, Workspace: a.Taken.Workspace})
		d.emitAs(ByAgent(a.Task.Agent), d.At, Acknowledged{By: TakenByRow, Heard: a.Taken.Heard})
	}
	return nil
}
