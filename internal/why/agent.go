package why

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"otm/core"
	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/internal/view"
	"otm/pipeline"
)

// assigned is for a task that stands in its agent's dispatch file.
func assigned(v *view.View, t *view.Task, since time.Time) draft {
	name := t.Row.Assignee
	if t.Agent != nil {
		name = t.Agent.Name
	}
	if d := t.State.Dispatch; d != nil && t.State.Taken() {
		return withEnd(v, at(AtWork, d.TakenAt, explain.Taken, "agent", name, "at", d.TakenAt).and(silence(v, t)...), t, t.Agent)
	}
	return toTake(v, t, explain.Dispatched, since)
}

// toTake is for a task that waits for its agent to take it. The code says how.
func toTake(v *view.View, t *view.Task, code explain.Code, since time.Time) draft {
	if t.Agent == nil {
		return unknownAgent(v, t.Row, since)
	}
	return awaited(v, at(ToTake, since, code, "agent", t.Agent.Name, "since", since), t)
}

// awaited adds what the agent does instead of taking a task.
func awaited(v *view.View, d draft, t *view.Task) draft {
	name := t.Agent.Name
	its := v.Agent(t.Agent)
	if other := workingOn(t, its); other != nil { // otm next gives it that one
		return withEnd(v, d.plus(explain.WaitsBehind, "other", other.ID, "agent", name), other, t.Agent)
	}
	if t.Agent.Trigger == pipeline.TriggerNone {
		return d.plus(explain.LooksByItself, "agent", name)
	}
	var silent *patience.SilentError
	switch {
	case errors.As(its.Err, &silent):
		return d.plus(explain.WorkspaceSilent, "agent", name, "path", silent.Path)
	case its.Err != nil:
		return d.plus(explain.WakeUnread, "agent", name, "error", its.Err)
	}
	return byWake(v, d, t, its.Outlook)
}

// workingOn is the other task on which the agent works; nil: none.
func workingOn(t *view.Task, its *view.Agent) *view.Task {
	for _, other := range its.Tasks {
		if other.ID != t.ID && its.WorksOn(other) {
			return other
		}
	}
	return nil
}

// byWake is for a task whose agent is free, by what became of its last wake.
func byWake(v *view.View, d draft, t *view.Task, o dispatch.Outlook) draft {
	w, name := o.Wake, t.Agent.Name
	if len(o.Health.Findings(v.Now)) > 0 { // they count more than this wake
		if since := o.Health.Ignores(); !since.IsZero() {
			d.stage, d.since = IsIgnored, since
		}
		return d // held names them
	}
	var limit *explain.Finding
	if v.Times.MaxRunning > 0 && (w == nil || !w.Ended.IsZero() || former(t, w)) && !o.Health.Running {
		limit = view.LimitReached(v, v.Agent(t.Agent))
	}
	switch {
	case o.Health.Running:
		return running(v, d, t, o)
	case missing(v, t) != nil: // nothing is started there
		return d.and(*missing(v, t)).isLate()
	case limit != nil:
		return d.and(*limit)
	case w == nil || former(t, w):
		return d.plus(explain.NotWoken, "agent", name).and(dispatcherProblems(v, t)...)
	case w.Refused != "":
		return d.plus(explain.WakeRefused, "agent", name, "at", w.AskedAt, "error", w.Refused, "next", o.Due).isLate()
	case w.Accepted.IsZero():
		return d.plus(explain.WakeUnanswered, "at", w.AskedAt).and(dispatcherProblems(v, t)...)
	case w.Outcome.Failed() && w.Via == pipeline.TriggerGateway:
		return d.plus(explain.RunFailed, "agent", name, "at", w.Accepted, "exit", w.Exit, "again", again(v, o)).isLate()
	case w.Exit != "" && o.Took:
		ended := w.AskedAt
		if !w.Ended.IsZero() {
			ended = w.Ended
		}
		return d.plus(explain.RunOver, "agent", name, "at", ended, "next", o.Due).and(dispatcherProblems(v, t)...)
	case w.Exit != "":
		return d.plus(explain.ProcessIdle, "agent", name, "at", w.Accepted, "exit", w.Exit, "log", v.AgentLog(t.Agent))
	}
	return d.plus(explain.WokenNotTaken, "agent", name, "at", w.Accepted, "again", again(v, o)).and(dispatcherProblems(v, t)...)
}

// atItsEnd is how long a process may run on after its task before that is told.
const atItsEnd = 10 * time.Second

// leftBehind are the statuses of a task that needs its process no more, besides those that are
// over.
var leftBehind = []pipeline.Status{pipeline.Blocked, pipeline.AgentDone, pipeline.Rejected, pipeline.Failed, pipeline.Dormant}

// running is for a task whose agent's process runs. It may still be at a task
// that a person has ended meanwhile (C5).
func running(v *view.View, d draft, t *view.Task, o dispatch.Outlook) draft {
	w, name := o.Wake, t.Agent.Name
	if w == nil {
		return d.plus(explain.ProcessStarted, "agent", name, "at", v.Now, "log", v.AgentLog(t.Agent))
	}
	for _, id := range w.Tasks {
		if id == t.ID {
			continue
		}
		other := v.Task(id)
		is, at := string(other.Status()), other.Status()
		switch {
		case other.State != nil && !core.SameAgent(other.State.Agent, name):
			is = "with " + other.State.Agent
		case (at.Over() || slices.Contains(leftBehind, at)) && v.Now.Sub(other.Since(at)) >= atItsEnd:
		case other.State != nil && over(other.State.Runs.LastOf(name), w, v.Now):
			if other.State.Out() {
				is = "handed out again"
			}
		default:
			continue
		}
		return d.plus(explain.ProcessOver, "agent", name, "pid", o.Health.PID, "other", id, "status", is).isLate()
	}
	if former(t, w) {
		return d.and(view.ProcessRuns(v.Agent(t.Agent))).isLate()
	}
	return d.plus(explain.ProcessStarted, "agent", name, "at", w.AskedAt, "log", v.AgentLog(t.Agent))
}

// dispatcherProblems are what keeps an agent from being woken.
func dispatcherProblems(v *view.View, t *view.Task) []explain.Finding {
	return append(trouble(v, t, heartbeat.Dispatcher), gatewayTrouble(v, t.Agent)...)
}

// gatewayTrouble is what is wrong with the gateway of an agent; nil: nothing is
// known, or it uses none.
func gatewayTrouble(v *view.View, a *pipeline.Agent) []explain.Finding {
	f := v.GatewayProblem()
	if f == nil || a == nil || a.Trigger != pipeline.TriggerGateway {
		return nil
	}
	return []explain.Finding{*f}
}

// former reports whether a wake belongs to an attempt of the task that is over:
// the task was sent back and dispatched again since (C50), it was blocked and sent on since,
// or the run was over before the task was dispatched at all.
func former(t *view.Task, w *core.Wake) bool {
	d := t.State.Dispatch
	if t.State.AtWork() && core.IsResumed(t.State, w.Agent) {
		return w.AskedAt.Before(t.State.ResumedAt)
	}
	return d != nil && w.AskedAt.Before(d.At) && (slices.Contains(w.Tasks, t.ID) || !w.Ended.IsZero() && w.Ended.Before(d.At))
}

// again says when the agent is woken again.
func again(v *view.View, o dispatch.Outlook) string {
	return "it is woken again " + explain.When(o.Due, v.Now)
}

// inProgress is for a task that its agent works on.
func inProgress(v *view.View, t *view.Task, since time.Time) draft {
	open, all := t.Open()
	heard := t.Heard()
	args := []any{"agent", cmp.Or(t.Row.Assignee, "somebody"), "open", open, "all", all, "heard", heard}
	code := explain.Code("")
	switch {
	case isPersons(t) && (open > 0 || t.State.EndsByWord()):
		return personsTurn(t, since)
	case t.Agent != nil && t.State.AtWork() && core.IsResumed(t.State, t.Agent.Name):
		return sentOn(v, t)
	case open > 0 && (t.Agent == nil || gatewayTrouble(v, t.Agent) != nil):
		code = explain.AtWorkUnseen // what runs it is out of sight (C7)
	case open > 0:
		code = explain.AtWork
	case all == 0:
		code = explain.StepsDeleted
	case t.State.EndsByWord():
		code = explain.StepsTicked
	default:
		return at(AtWork, heard, explain.StepsDone).and(trouble(v, t, heartbeat.Detector)...)
	}
	d := at(AtWork, heard, code, args...).and(silence(v, t)...).and(gatewayTrouble(v, t.Agent)...)
	d.late = code == explain.AtWorkUnseen
	return withEnd(v, d, t, t.Agent)
}

// sentOn is for a task that was blocked, and that somebody sent on: its agent has not asked
// for it since.
func sentOn(v *view.View, t *view.Task) draft {
	name, its := t.Agent.Name, v.Agent(t.Agent)
	d := at(ToTake, t.State.ResumedAt, explain.SentOn, "agent", name, "at", t.State.ResumedAt)
	if w := its.Outlook.Wake; its.Err == nil && its.Outlook.Health.Running && w != nil && former(t, w) && workingOn(t, its) == nil {
		return d.and(view.ProcessRuns(its))
	}
	return awaited(v, d, t)
}

// over reports whether a run began in the process of a wake and has been over for a while.
func over(run *core.Run, w *core.Wake, now time.Time) bool {
	return run != nil && run.Began.After(w.AskedAt) && !run.Ended.IsZero() && now.Sub(run.Ended) >= atItsEnd
}

// silence says for how long nothing was heard of a task.
func silence(v *view.View, t *view.Task) (found []explain.Finding) {
	if t.Agent == nil {
		return nil
	}
	for _, f := range view.Silent(v, t.Agent) {
		if f.Task == t.ID && f.Level() != explain.OK { // it says already when it was last heard of
			found = append(found, f)
		}
	}
	return found
}

// withEnd says of a task that an agent has taken that its process has ended and left
// the task unfinished: then the agent works on nothing. taken is that task; d is
// about another one if that waits behind it.
func withEnd(v *view.View, d draft, taken *view.Task, a *pipeline.Agent) draft {
	if a == nil {
		return d
	}
	its := v.Agent(a)
	if next, ok := its.Outlook.Continues[taken.ID]; ok && a.Trigger == pipeline.TriggerGateway && len(taken.Updates) == 0 {
		return d.plus(explain.TurnOver, "agent", a.Name, "other", taken.ID, "at", its.Outlook.Wake.Ended, "next", next)
	}
	f := view.LeftBy(v, its, taken)
	switch {
	case f == nil:
		return d
	case d.findings[len(d.findings)-1].Code == explain.WaitsBehind:
		if behind, ok := map[explain.Code]explain.Code{explain.TakenEnded: explain.BehindEnded, explain.TakenGone: explain.BehindGone}[f.Code]; ok {
			f.Code = behind
			d.findings[len(d.findings)-1] = *f
		}
	default:
		d.findings = []explain.Finding{*f} // instead of what it does, and how long it is silent
	}
	if f.Level() == explain.OK { // its last report is on its way
		return d
	}
	return d.isLate()
}

// held adds what keeps the agent of a task from working on it: a pause by a person or by
// OTM, or what its process does. It adds nothing to a task on which its process is at work,
// as a pause does not end that.
func held(v *view.View, d draft, t *view.Task) draft {
	if t.Agent == nil || t.Agent.Person {
		return d
	}
	its := v.Agent(t.Agent)
	health := its.Outlook.Health
	if its.Err != nil || health.AgentState == nil || health.Works() && health.Ends == nil && (t.Status() == pipeline.InProgress || t.State.Taken()) {
		return d
	}
	found := health.Due().Findings(v.Now) // this task is work
	for _, f := range found {
		if d = d.and(f); f.Code != explain.AgentEnding {
			d = d.isLate()
		}
	}
	if len(found) > 0 {
		d = d.and(trouble(v, t, heartbeat.Dispatcher)...) // it starts nothing while it does not run
	}
	return d
}

// isPersons reports whether a task was given to a person.
func isPersons(t *view.Task) bool { return t.Agent != nil && t.Agent.Person }

// personsTurn is for a task that a person has.
func personsTurn(t *view.Task, since time.Time) draft {
	return at(WithHuman, since, explain.PersonsTurn, "status", t.Status(), "agent", t.Agent.Name, "since", since)
}
