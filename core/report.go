package core

import (
	"cmp"
	"slices"
	"time"

	"otm/pipeline"
)

// Report is what an agent reports on a task: an update was dropped. The id of the
// command is the drop's. By is the agent; Kind Worker, if it is a person.
type Report struct {
	Drop    string    // the name of the file
	Dropped time.Time // when the agent said it
	Status  pipeline.Status
	Steps   []string // titles or numbers of steps that are done
	Reason  string
	Result  string
	Message pipeline.Message // its Text is "": there is none
	Types   pipeline.Types   // by which the report is judged
}

// decide applies a report whole, or not at all.
func (r Report) decide(d *decision) error {
	t := d.task
	switch {
	case t == nil:
		return ErrNotYet
	case !t.ArchivedAt.IsZero():
		return d.refuse(RuleArchived, Conflict)
	case !t.GoneAt.IsZero():
		return d.refuse(RuleRowGone, Conflict)
	case t.Status == pipeline.New && d.By.Kind != Worker:
		return ErrNotYet
	case d.By.Kind == Agent && r.ofFormer(t, d.At):
		r := d.refuse(RuleFormer, Conflict)
		r.Agent, r.At = t.Dispatch.Agent, t.Dispatch.At
		return r
	}
	ticked, err := d.match(r.Steps)
	if err != nil {
		return err
	}
	to, err := r.status(d, ticked)
	if err != nil {
		return err
	}
	noted := Noted{Drop: r.Drop, Heard: r.Dropped}
	if r.Reason != "" {
		noted.Reason = &r.Reason
	} else if t.Status == pipeline.Blocked && to != "" && to != pipeline.Blocked {
		none := ""
		noted.Reason = &none
	}
	if r.Result != "" {
		noted.Result = &r.Result
	}
	if t.Dispatch != nil && !t.Taken() && t.Status.Active() {
		d.emit(Acknowledged{By: TakenByUpdate, Heard: r.Dropped})
	}
	for _, s := range ticked {
		d.emit(StepDone{Step: s.ID, Title: s.Title, Done: true, Heard: r.Dropped})
	}
	if to != "" && to != d.task.Status {
		if err := d.move(to, TaskMoved{Heard: r.Dropped}); err != nil {
			return err
		}
	}
	d.emit(noted)
	if to == pipeline.AgentDone {
		d.acceptUnreviewed(r.Types)
	}
	if r.Message.Text != "" {
		r.Message.Tag = cmp.Or(r.Message.Tag, pipeline.TagProgress)
		d.emit(Said{r.Message, r.Dropped})
	}
	return nil
}

// acceptUnreviewed ends a task that has just become agent_done, if its type needs no
// review.
func (d *decision) acceptUnreviewed(types pipeline.Types) {
	t := d.task
	if t.Status != pipeline.AgentDone || types.Rules(t.Type).Review {
		return
	}
	code, _ := Permitted(t.Status, pipeline.Done, OTM)
	d.emitAs(Component("otm"), d.At, TaskMoved{From: t.Status, To: pipeline.Done, Move: code, Reason: "tasks of type " + string(t.Type) + " need no review"})
}

// ofFormer reports whether the report is of a former agent: it is older than the task's
// present hand-out, and another agent was woken for the task, or was heard of. A drop does
// not name its agent. Now is before the hand-out if the clock was set back: then its times
// tell nothing.
func (r Report) ofFormer(t *Task, now time.Time) bool {
	d := t.Dispatch
	if d == nil || r.Dropped.IsZero() || !r.Dropped.Before(d.At) || now.Before(d.At) {
		return false
	}
	own := pipeline.FoldName(d.Agent)
	for agent := range t.Heard {
		if agent != own {
			return true
		}
	}
	return t.Woken != nil && !SameAgent(t.Woken.Agent, d.Agent) ||
		slices.ContainsFunc(t.Wakes, func(w Wake) bool { return !SameAgent(w.Agent, d.Agent) })
}

// match returns the reported steps that are not ticked yet. Equal titles are ticked
// one at a time, in order.
func (d *decision) match(reported []string) ([]Step, error) {
	steps := d.task.PlainSteps()
	var found []Step
	for _, title := range reported {
		i := pipeline.FindStep(steps, title)
		if i < 0 {
			r := d.refuse(RuleNoStep, Unmatched)
			r.Step, r.Steps = title, d.task.PlainSteps()
			return nil, r
		}
		if !steps[i].Done {
			steps[i].Done = true
			found = append(found, d.task.Steps[i])
		}
	}
	return found, nil
}

// status is where the report moves the task; "": it stays.
func (r Report) status(d *decision, ticked []Step) (pipeline.Status, error) {
	from := d.task.Status
	switch {
	case from == pipeline.AgentDone && r.Status != "" && r.Status != from:
		refused := d.refuse(RuleMove, Conflict)
		refused.To = r.Status
		return "", refused
	case from == pipeline.AgentDone && len(ticked) > 0:
		refused := d.refuse(RuleStepsStay, Conflict)
		refused.Step = ticked[0].Title
		return "", refused
	case from == pipeline.AgentDone:
		return "", nil
	case !from.Active() && from != pipeline.New:
		return "", d.refuse(RuleOver, Conflict)
	case r.Status == "" && (len(r.Steps) > 0 && from == pipeline.New || from == pipeline.Assigned && (len(r.Steps) > 0 || r.Message.Text != "")):
		return pipeline.InProgress, nil
	}
	return r.Status, nil
}

// FailedReport notes that a report was refused.
type FailedReport struct {
	Drop string
	Why  string
}

func (r FailedReport) decide(d *decision) error {
	if d.task != nil {
		d.emit(ReportFailed(r))
	}
	return nil
}
