package view

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/pipeline"
)

// Doing is what an agent is doing.
type Doing string

// What agents do.
const (
	Working      Doing = "working"    // it took a task and has not finished it
	Woken        Doing = "woken"      // it was woken, and has taken nothing yet
	StillRuns    Doing = "still runs" // its process runs on, with no task to work on
	Ending       Doing = "ending"     // it has nothing and OTM ends its process, or OTM ends what a killed one left
	Ended        Doing = "ended"      // its process ended, and left the task unfinished
	Free         Doing = "free"       // it works on nothing, and may be given a task at once
	NotReady     Doing = "not ready"  // its workspace or its command is missing
	Waits        Doing = "waits"      // it is not started before Until, another agent's end, or the dispatcher's start
	Paused       Doing = "paused"     // by a person
	LeftAlone    Doing = "left alone" // its runs failed: OTM starts it for a probe only
	Unconfigured Doing = "not configured"
)

// Doings lists them.
var Doings = []Doing{Working, Woken, StillRuns, Ending, Ended, Free, NotReady, Waits, Paused, LeftAlone, Unconfigured}

// Registered is an agent, and what it is doing.
type Registered struct {
	Name    string           `json:"name"`
	Kind    string           `json:"kind"`              // ai, human; "" where it is not configured
	Trigger pipeline.Trigger `json:"trigger,omitempty"` // of an AI agent
	Source  pipeline.Source  `json:"source,omitempty"`  // where it is known from
	State   Doing            `json:"state"`
	Since   time.Time        `json:"since,omitzero"`     // of State
	Until   time.Time        `json:"until,omitzero"`     // of Waits and LeftAlone: its next start
	TaskID  pipeline.TaskID  `json:"taskId,omitempty"`   // on which it works
	Heard   time.Time        `json:"lastHeard,omitzero"` // its last word on any task of the board
	Next    pipeline.TaskID  `json:"next,omitempty"`     // the task that it is given next
	// Tasks counts those that are not over.
	Tasks    map[pipeline.Status]int `json:"tasks"`
	Findings []explain.Told          `json:"findings"` // its problems
}

// RegistryOf lists the agents in the order of the configuration, then those that tasks name
// and that nobody configured.
func RegistryOf(v *View) []Registered {
	all := []Registered{}
	down := NoDispatcher(v)
	for i := range v.Agents {
		a := &v.Agents[i]
		r := Registered{Name: a.Name, Kind: "ai", Trigger: a.Trigger, Source: a.Source, Tasks: map[pipeline.Status]int{}, Findings: []explain.Told{}}
		if a.Person {
			r.Kind, r.Trigger = "human", ""
		}
		r.fill(v.Agent(a), v.Now)
		problems := append(v.AgentProblems(a), Silent(v, a)...)
		if down != nil && isStarted(r.Trigger) && len(r.Tasks) > 0 {
			problems = append(problems, *down)
			if r.State == Free && r.Next != 0 {
				r.State = Waits
			}
		}
		if wrong := unready(v, a); wrong != nil && r.State == Free {
			r.State = NotReady
			if !slices.ContainsFunc(problems, wrong.Equal) {
				problems = append(problems, *wrong)
			}
		}
		problems = append(problems, r.more(v, v.Agent(a), problems)...)
		for _, f := range problems {
			r.Findings = append(r.Findings, explain.Tell(f, v.Now))
		}
		all = append(all, r)
	}
	for i := range all {
		r := &all[i]
		if f := LimitReached(v, v.Agent(&v.Agents[i])); f != nil && isStarted(r.Trigger) && r.State == Free && r.Next != 0 {
			r.State, r.Findings = Waits, append(r.Findings, explain.Tell(*f, v.Now))
		}
	}
	return append(all, unconfigured(v)...)
}

// NoDispatcher says that no dispatcher runs; nil: one does, or may run by a timer.
func NoDispatcher(v *View) *explain.Finding {
	c := v.Component(heartbeat.Dispatcher)
	if c.Resident {
		return nil
	}
	return c.Problem
}

// LimitReached says who is at work, if an agent has to wait for that as max_running says; nil:
// it need not.
func LimitReached(v *View, agent *Agent) *explain.Finding {
	who := limitReached(v)
	if who == nil || agent.Outlook.AtWork {
		return nil
	}
	names, look := []string{}, ""
	for _, its := range who {
		name := its.Name
		if o := its.Outlook; o.Health.PID != 0 && (o.Took || o.Wake == nil) && !slices.ContainsFunc(its.Tasks, its.WorksOn) {
			name += fmt.Sprintf(" (its process runs on, pid %d)", o.Health.PID)
			look = "otm agents"
		}
		names = append(names, name)
	}
	return new(explain.New(explain.LimitReached, "agent", agent.Name, "n", len(who), "who", strings.Join(names, ", "), "look", look))
}

// WorksOn reports whether the agent took a task, has not ended it, and was not sent on with it
// since it was last heard of.
func (a *Agent) WorksOn(t *Task) bool {
	return t.State != nil && t.State.AtWork() && !core.IsResumed(t.State, a.Name)
}

// limitReached returns the agents that are at work, if they are as many as max_running allows;
// nil: more may be started.
func limitReached(v *View) (who []*Agent) {
	for i := range v.Agents {
		a := &v.Agents[i]
		if its := v.Agent(a); isStarted(a.Trigger) && its.Outlook.AtWork {
			who = append(who, its)
		}
	}
	if v.Times.MaxRunning == 0 || len(who) < v.Times.MaxRunning {
		return nil
	}
	return who
}

// isStarted reports whether OTM starts agents with a trigger.
func isStarted(trigger pipeline.Trigger) bool {
	return trigger == pipeline.TriggerExec || trigger == pipeline.TriggerGateway
}

// unready returns why an agent cannot work: its workspace or its command is missing; nil:
// no reason is known.
func unready(v *View, a *pipeline.Agent) *explain.Finding {
	if a.Person {
		return nil
	}
	if wrong := v.Workspace(a); wrong != nil {
		return wrong
	}
	wrong, _ := patience.Read(a.Workspace, patience.Reader, nil, func() (*explain.Finding, error) { return dispatch.CommandProblem(a), nil })
	return wrong
}

// fill fills in what an agent is doing, by its tasks and its runs.
func (r *Registered) fill(a *Agent, now time.Time) {
	var at, retry *core.Task // retry is the one whose next run begins first
	var waiting, fresh []*core.Task
	var heard time.Time
	for _, t := range a.Tasks {
		if !t.Status().Over() {
			r.Tasks[t.Status()]++
		}
		s := t.State
		if s == nil {
			continue
		}
		if h := s.HeardOf(a.Name).At; h.After(heard) {
			heard = h
		}
		switch {
		case s.AtWork() && core.IsResumed(s, a.Name):
			waiting = append(waiting, s)
		case s.AtWork() && (at == nil || s.Dispatch.TakenAt.After(at.Dispatch.TakenAt)):
			at = s
		case a.Person && s.Status == pipeline.InProgress && (at == nil || s.StatusAt.After(at.StatusAt)):
			at = s
		case s.Waiting():
			waiting = append(waiting, s)
		case t.Status() == pipeline.New:
			fresh = append(fresh, s)
		case s.Wait.BacksOff(now) && (retry == nil || s.Wait.Until.Before(retry.Wait.Until)):
			retry = s
		}
	}
	dispatch.ByPriority(waiting)
	dispatch.ByPriority(fresh)
	r.Heard = heard.UTC()
	switch {
	case len(waiting) > 0:
		r.Next = waiting[0].ID
	case len(fresh) > 0:
		r.Next = fresh[0].ID
	case retry != nil:
		r.Next = retry.ID
	}
	if at != nil {
		r.TaskID = at.ID
	}
	health, wake := a.Outlook.Health, a.Outlook.Wake
	switch {
	case health.AgentState != nil && health.Paused != nil:
		r.State, r.Since = Paused, health.Paused.At.UTC()
	case health.AgentState != nil && !health.LeftAlone.IsZero():
		r.State, r.Since, r.Until = LeftAlone, health.LeftAlone.UTC(), nextStart(health, waiting, retry, now).UTC()
	case at != nil && a.Person:
		r.State, r.Since = Working, at.StatusAt.UTC()
	case health.AgentState != nil && health.Running && health.Ends != nil && (at == nil || health.Orphan):
		r.State, r.Since = Ending, health.Ends.Since.UTC()
	case at != nil && a.Outlook.Left[at.ID]:
		r.State, r.Since = Ended, wake.Ended.UTC()
	case at != nil:
		r.State, r.Since = Working, began(at).UTC()
	case wake != nil && !a.Outlook.Took && !a.Outlook.Over && !health.Orphan && wake.MaybeQueued():
		r.State, r.Since = Woken, wake.AskedAt.UTC()
	case health.AgentState != nil && health.Running:
		r.State = StillRuns
	default:
		r.State = Free
		if until := nextStart(health, waiting, retry, now); until.After(now) {
			r.State, r.Until = Waits, until.UTC()
		}
	}
}

// began is when the agent at work on a task began, or began again.
func began(t *core.Task) time.Time {
	if run := t.Runs.Open(); run != nil && run.Began.After(t.Dispatch.TakenAt) {
		return run.Began
	}
	return t.Dispatch.TakenAt
}

// more says what else is to be known of an agent besides its problems: that a process runs on
// with no task, and why an agent that has no work would not be started at once.
func (r *Registered) more(v *View, its *Agent, problems []explain.Finding) []explain.Finding {
	h := its.Outlook.Health
	if its.Person || its.Err != nil || h.AgentState == nil {
		return nil
	}
	var found []explain.Finding
	if h.Works() && r.TaskID == 0 && h.PID != 0 && r.State != Woken && r.State != Ending {
		found = append(found, ProcessRuns(its))
	}
	for _, f := range h.Due().Findings(v.Now) {
		if r.Next == 0 && (r.State == Waits || r.State == LeftAlone) && !slices.ContainsFunc(problems, f.Equal) {
			found = append(found, f)
		}
	}
	return found
}

// ProcessRuns says that the process of an agent runs, though the agent works on no task.
func ProcessRuns(its *Agent) explain.Finding {
	h := its.Outlook.Health
	since := h.Started
	if w := its.Outlook.Wake; w != nil {
		since = w.AskedAt
	}
	return explain.New(explain.AgentRuns, "agent", its.Name, "pid", h.PID, "since", since, "end", h.End())
}

// nextStart is when an agent may be started next: after its own pause, and if it has nothing
// but a task that waits for its next run, when that begins. Zero: nothing keeps it.
func nextStart(health dispatch.Health, waiting []*core.Task, retry *core.Task, now time.Time) time.Time {
	if len(waiting) == 0 && retry != nil {
		return health.NextRun(retry, now)
	}
	if health.AgentState != nil {
		if until, waits := health.Waits(now); waits {
			return until
		}
	}
	return time.Time{}
}

// AgentNames lists the configured agents, for people.
func AgentNames(v *View) string {
	return cmp.Or(strings.Join(v.Agents.Names(), ", "), "none is configured")
}

// unconfigured lists the assignees of tasks that are not over whom nobody configured.
func unconfigured(v *View) (all []Registered) {
	for _, t := range v.Tasks() {
		name, status := t.Row.Assignee, t.Status()
		if name == "" || pipeline.IsSharedQueue(name) || status.Over() || t.Agent != nil {
			continue
		}
		i := slices.IndexFunc(all, func(r Registered) bool { return pipeline.FoldName(r.Name) == pipeline.FoldName(name) })
		if i < 0 {
			i = len(all)
			all = append(all, Registered{Name: name, State: Unconfigured, Tasks: map[pipeline.Status]int{}, Findings: []explain.Told{}})
		}
		if status.NeedsAgent() && len(all[i].Findings) == 0 {
			f := explain.New(explain.TaskNoAgent, "name", name).On(t.ID)
			if t.ID == 0 { // it is no task yet: no command can give it to another one
				f = explain.New(explain.RowStranger, "name", name, "config", filepath.Join(v.Dir, "otm.toml"), "names", AgentNames(v))
			}
			all[i].Findings = append(all[i].Findings, explain.Tell(f, v.Now))
		}
		all[i].Tasks[status]++
	}
	slices.SortFunc(all, func(a, b Registered) int { return strings.Compare(a.Name, b.Name) })
	return all
}
