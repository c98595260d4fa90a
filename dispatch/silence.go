package dispatch

import (
	"strings"
	"sync"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/pipeline"
)

// Silence is how long nothing was heard of a task from whoever has it.
type Silence struct {
	Since time.Time
	Rung  pipeline.Rung // 0: nothing is told yet
	Next  time.Time     // when the next rung is reached; zero: there is none
	Works bool          // an AI agent is at work on it
}

// sharedQueue is who has the tasks that nobody has claimed: nobody is woken for them.
var sharedQueue = &pipeline.Agent{Name: pipeline.SharedQueue, Trigger: pipeline.TriggerNone}

// Unclaimed tells of the tasks of the shared queue as SilentOn does of an agent's.
func (o *Outlooks) Unclaimed(tasks []*core.Task) (found []explain.Finding, next time.Time) {
	return o.SilentOn(sharedQueue, tasks)
}

// Silence returns how long nothing was heard of a task of an agent. Of people, and of
// agents that look by themselves, something is expected once a day.
func (o *Outlooks) Silence(a *pipeline.Agent, t *core.Task) (s Silence) {
	first, last, away := pipeline.RungLong, pipeline.RungLast, time.Duration(0)
	atWork := t.Unfinished() && (t.AtWork() || t.Status == pipeline.InProgress) && (t.Dispatch == nil || core.SameAgent(t.Dispatch.Agent, a.Name))
	byItself := a.Person || a.Trigger == pipeline.TriggerNone
	switch {
	case t.Away():
		return s
	case t.Status == pipeline.AgentDone, t.Status == pipeline.Rejected, t.Status == pipeline.Blocked:
		s.Since = t.StatusAt
	case atWork && !a.Person:
		s.Works, s.Since = true, t.HeardOf(a.Name).At
		if s.Since.IsZero() {
			s.Since = t.StatusAt // a person set it to in progress
		}
		away = o.away(a, s.Since)
		if !byItself {
			first = pipeline.RungShown
		}
	case byItself && (t.Status == pipeline.Assigned || t.Status == pipeline.InProgress):
		s.Since = later(t.StatusAt, t.HeardOf(a.Name).At)
	case core.Claimable(t, o.Now):
		s.Since = t.StatusAt
	default:
		return s
	}
	if byItself && t.Status.Active() && t.Status != pipeline.Blocked {
		last = pipeline.RungLong
	}
	for rung := first; rung <= last; rung++ {
		d, ok := o.Types.Rules(t.Type).RungAfter(rung)
		if !ok {
			break
		}
		if !reached(s.Since, d+away, o.Now) {
			s.Next = s.Since.Add(d + away)
			break
		}
		s.Rung = rung
	}
	return s
}

// away is for how long the gateway of an agent could not be reached since a time.
func (o *Outlooks) away(a *pipeline.Agent, since time.Time) time.Duration {
	if a.Trigger != pipeline.TriggerGateway {
		return 0
	}
	return o.Link.Away(since, o.Now)
}

// SilentOn tells of the tasks of an agent of which nothing was heard for too long. next is
// when more is to be told; zero: never.
func (o *Outlooks) SilentOn(a *pipeline.Agent, tasks []*core.Task) (found []explain.Finding, next time.Time) {
	waiting := len(pipeline.Filter(tasks, (*core.Task).Waiting))
	process := sync.OnceValue(func() Process { return processOf(o.Dir, a.Name) })
	for _, t := range tasks {
		s := o.Silence(a, t)
		next = sooner(next, s.Next)
		var p Process
		if s.Works && process().Works() { // what a killed one left is told of by itself
			p = process()
		}
		holds := p.Running && waiting > 0 && a.Trigger == pipeline.TriggerExec
		if at := t.HeardOf(a.Name).At; holds && !reached(at, o.Times.SilentAfter, o.Now) {
			holds, next = false, sooner(next, at.Add(o.Times.SilentAfter))
		}
		code := explain.Code("")
		switch {
		case holds:
			code = explain.ProcessHolds
		case s.Rung < pipeline.RungShown, s.Rung == pipeline.RungShown && p.Running:
			continue
		case !s.Works && s.Rung == pipeline.RungLast:
			code = explain.TaskRestsLong
		case !s.Works:
			code = explain.TaskRests
		case s.Rung == pipeline.RungShown && isRework(t):
			code = explain.ReworkQuiet
		case s.Rung == pipeline.RungShown:
			code = explain.TaskQuiet
		case s.Rung == pipeline.RungLast && p.Running:
			code = explain.ProcessSilentLong
		case s.Rung == pipeline.RungLast:
			code = explain.TaskSilentLong
		case p.Running:
			code = explain.ProcessSilent
		default:
			code = explain.TaskSilent
		}
		args := []any{"agent", a.Name, "since", s.Since, "status", t.Status}
		if p.Running {
			args = append(args, "pid", p.PID, "n", waiting)
		}
		found = append(found, explain.New(code, args...).On(t.ID))
	}
	return found, next
}

// isRework reports whether the last run of a task follows one whose result was not accepted.
func isRework(t *core.Task) bool {
	n := len(t.Runs)
	return n > 1 && t.Runs[n-2].Ending == core.EndSucceeded
}

// SeveralOf says that an agent has more than one task in progress, where it works on one at a
// time; nil: it does not. One that it took by otm next beside another is on purpose.
func SeveralOf(a *pipeline.Agent, tasks []*core.Task) *explain.Finding {
	if a.Person || a.Trigger == pipeline.TriggerNone {
		return nil
	}
	var last *core.Task
	var names []string
	for _, t := range tasks {
		if t.AtWork() && t.Status == pipeline.InProgress && core.SameAgent(t.Dispatch.Agent, a.Name) {
			names = append(names, t.ID.String())
			if last == nil || t.Dispatch.TakenAt.After(last.Dispatch.TakenAt) {
				last = t
			}
		}
	}
	if len(names) < 2 || last.Dispatch.TakenBy == core.TakenByNext {
		return nil
	}
	return new(explain.New(explain.AgentSeveral, "agent", a.Name, "n", len(names), "tasks", strings.Join(names, ", "), "last", last.ID))
}
