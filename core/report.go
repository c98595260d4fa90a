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
	Message pipeline.Message // for the task's thread; without a Text: none
	Types   pipeline.Types   // their rules say whether a review is due, and how many retries follow
	Claims  string           // who reports, as the drop says; "": it does not say
	Run     int              // the run of the report; 0: it does not say
	// Terminal says that a retry of the failed run makes no sense.
	Terminal bool
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
	case t.Status == pipeline.New && d.By.Kind != Worker, t.Wait != nil && t.Dispatch == nil:
		return ErrNotYet
	case d.By.Kind == Agent && r.ofFormer(t, d.At):
		r := d.refuse(RuleFormer, Conflict)
		r.Agent, r.At = t.Dispatch.Agent, t.Dispatch.At
		return r
	case r.ofOther(t):
		refused := d.refuse(RuleOther, Conflict)
		refused.Agent, refused.Claims = holder(t), r.Claims
		return refused
	case r.ofFormerRun(t):
		refused := d.refuse(RuleFormerRun, Conflict)
		refused.Run, refused.Agent = r.Run, t.Agent
		return refused
	}
	if struck(t, d.By) && !r.isAfterword(t, d.By) {
		d.begin(&r)
		if err := d.move(pipeline.InProgress, TaskMoved{Heard: r.Dropped}); err != nil {
			return err
		}
	}
	if t.Queued() && r.isNote() || r.isWord() && r.before(t, d.At) { // a word about a task that waits does not begin it
		d.emit(r.noted())
		r.say(d)
		return nil
	}
	if err := dequeue(d); err != nil {
		return err
	}
	ticked, again, err := r.match(d)
	if err != nil {
		return err
	}
	to, err := r.status(d, ticked)
	if err != nil {
		return err
	}
	noted := r.noted()
	unblocks := t.Status == pipeline.Blocked && to != "" && to != pipeline.Blocked
	endsRework := to == pipeline.AgentDone && t.Status != to && t.Reason != "" && t.Question == "" // an answer stays with its question
	if r.Reason == "" && (unblocks || endsRework) {
		noted.Reason = new("")
	}
	if t.Out() && !t.Taken() {
		d.emit(Acknowledged{By: TakenByUpdate, Heard: r.Dropped})
	}
	if to != "" && to != t.Status || t.Status == pipeline.InProgress || t.Status == pipeline.Assigned {
		d.begin(&r)
	}
	for _, s := range ticked {
		d.emit(StepDone{Step: s.ID, Title: s.Title, Done: true, Heard: r.Dropped})
	}
	for _, s := range again {
		d.emit(StepRepeated{Step: s.ID, Drop: r.Drop})
	}
	switch {
	case to == "" || to == t.Status:
	case to == pipeline.Failed && d.task.Runs.Open() != nil:
		f := FailRun{heard: r.Dropped, Failure: Failure{Words: r.Reason}, Types: r.Types}
		noted.Reason = nil // it stands with the run
		if err := d.fail(f, r.Terminal || d.By.Kind == Worker); err != nil {
			return err
		}
	default:
		if err := d.move(to, TaskMoved{Heard: r.Dropped}); err != nil {
			return err
		}
	}
	d.emit(noted)
	if to == pipeline.AgentDone {
		if err := acceptUnreviewed(d, r.Types); err != nil {
			return err
		}
	}
	r.say(d)
	return nil
}

// noted is the event of the report, with its words.
func (r Report) noted() Noted {
	noted := Noted{Drop: r.Drop, Heard: r.Dropped}
	if r.Reason != "" {
		noted.Reason = &r.Reason
	}
	if r.Result != "" {
		noted.Result = &r.Result
	}
	return noted
}

// say puts the message of the report, if it has one, into the thread of the task.
func (r Report) say(d *decision) {
	if r.Message.Text != "" {
		r.Message.Tag = cmp.Or(r.Message.Tag, pipeline.TagProgress)
		d.emit(Said{r.Message, r.Dropped})
	}
}

// isNote reports whether the report is only a message.
func (r Report) isNote() bool {
	return r.Message.Text != "" && r.Status == "" && len(r.Steps) == 0 && r.Reason == "" && r.Result == ""
}

// before reports whether the report is older than the task's hand-out, which has not been
// taken. If now is before the hand-out, the clock was set back: the times cannot be compared.
func (r Report) before(t *Task, now time.Time) bool {
	return t.Out() && !t.Taken() && !r.Dropped.IsZero() && r.Dropped.Before(t.Dispatch.At) && !now.Before(t.Dispatch.At)
}

// isWord reports whether the report only says something: no step, and no status but in_progress.
func (r Report) isWord() bool {
	return len(r.Steps) == 0 && (r.Status == "" || r.Status == pipeline.InProgress)
}

// noStep refuses a command that names a step that does not exist.
func noStep(d *decision, title string) *Refused {
	r := d.refuse(RuleNoStep, Unmatched)
	r.Step, r.Steps = title, d.task.PlainSteps()
	return r
}

// ofOther reports whether the report says that it is by somebody who does not have the
// task.
func (r Report) ofOther(t *Task) bool { return r.Claims != "" && !SameAgent(r.Claims, holder(t)) }

// ofFormerRun reports whether the report names a run that is over: the task was taken from its
// agent, sent back after the run, or another run began. A number that no run has yet is
// believed: an agent without a store is given the next one, and a lost store has forgotten
// the runs.
func (r Report) ofFormerRun(t *Task) bool {
	last := t.Runs.Last()
	switch {
	case r.Run == 0 || last == nil:
		return false
	case r.Run < last.Number:
		return t.Status.Active() || t.Status == pipeline.Pending || t.Status == pipeline.Failed || t.Status == pipeline.AgentDone
	case r.Run > last.Number || !t.Out():
		return false
	}
	return r.Run < dueRun(t) || !SameAgent(last.Agent, t.Dispatch.Agent)
}

// dueRun returns the number of the run to which reports belong: the next one if the last was
// canceled or succeeded and the task is handed out again, else the last.
func dueRun(t *Task) int {
	last := t.Runs.Last()
	if last != nil && t.Out() && (last.Ending == EndCanceled || last.Ending == EndSucceeded) {
		return last.Number + 1
	}
	return t.Runs.Number()
}

// ofFormer reports whether the report is of a former agent: it is older than the task's
// present hand-out, and another agent was woken for the task, or was heard of. Of a task that
// its agent claimed, an older report is nobody's: the agent could not know the task. A drop
// does not name its agent. Now is before the hand-out if the clock was set back: then its
// times tell nothing.
func (r Report) ofFormer(t *Task, now time.Time) bool {
	d := t.Dispatch
	if d == nil || r.Dropped.IsZero() || !r.Dropped.Before(d.At) || now.Before(d.At) {
		return false
	}
	if t.Claimed {
		return true
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

// match returns the reported steps that are not ticked yet, and those that are. Equal titles
// are ticked one at a time, in order.
func (r Report) match(d *decision) (found, again []Step, err error) {
	steps := d.task.PlainSteps()
	for _, title := range r.Steps {
		i := pipeline.FindStep(steps, title)
		if i < 0 {
			return nil, nil, noStep(d, title)
		}
		switch {
		case d.task.Steps[i].Done:
			again = append(again, d.task.Steps[i])
		case !steps[i].Done:
			steps[i].Done = true
			found = append(found, d.task.Steps[i])
		}
	}
	return found, again, nil
}

// status is where the report moves the task; "": it stays.
func (r Report) status(d *decision, ticked []Step) (pipeline.Status, error) {
	from := d.task.Status
	switch {
	case r.isAfterword(d.task, d.By):
		return "", nil
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

// isAfterword reports whether the report is only a message, after the agent reported that
// its run failed. It does not take the failure back.
func (r Report) isAfterword(t *Task, by Actor) bool {
	return r.isNote() && struck(t, by) && t.Runs.Last().Failure.Words != ""
}

// struck reports whether a report of the agent strikes the failure of the task's last
// run. It does until the next run begins.
func struck(t *Task, by Actor) bool {
	last := t.Runs.Last()
	return (t.Status == pipeline.Pending || t.Status == pipeline.Failed) && by.Kind == Agent && t.Dispatch != nil &&
		last != nil && last.Ending == EndFailed && last.Attempt == t.Dispatch.Attempt && SameAgent(last.Agent, by.Name)
}

// FailedReport notes that a report was refused. By is who would have been its author, had it
// been taken.
type FailedReport struct {
	Drop   string
	Why    string
	Report Report
}

func (r FailedReport) decide(d *decision) error {
	if d.task != nil {
		d.emitAs(r.author(d), d.At, ReportFailed{r.Drop, r.Why})
	}
	return nil
}

// author is who sent the report: the agent that it names, or else the one of the run that
// it names. If it names neither and is older than the hand-out, its author is unknown.
func (r FailedReport) author(d *decision) Actor {
	claims := r.Report.Claims
	if run := pipeline.Find(d.task.Runs, func(run *Run) bool { return run.Number == r.Report.Run }); claims == "" && run != nil {
		claims = run.Agent
	}
	switch {
	case claims != "" && !SameAgent(claims, d.By.Name):
		return ByAgent(claims)
	case claims == "" && d.By.Kind == Agent && r.Report.ofFormer(d.task, d.At):
		return Actor{Kind: Agent}
	}
	return d.By
}
