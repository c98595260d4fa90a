package view

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// MaxBacklog is how long a file may wait in an inbox before that is a problem.
const MaxBacklog = 5 * time.Minute

// Problems lists what is not as it should be: components, effects that are not
// delivered, agents, files, and the list. It is what status, doctor and the page judge by; nothing else makes
// them say that something is wrong in the directory. (C18)
func (v *View) Problems() []explain.Finding {
	found := []explain.Finding{}
	add := func(all ...explain.Finding) {
		for _, f := range all {
			if !slices.ContainsFunc(found, f.Equal) {
				found = append(found, f) // several components may report the same
			}
		}
	}
	for _, f := range []*explain.Finding{v.Disk, v.OldConfig()} {
		if f != nil {
			add(*f)
		}
	}
	for _, id := range heartbeat.Components {
		c := v.Component(id)
		if c.Problem != nil {
			add(*c.Problem)
		}
		add(v.Reported(c)...)
	}
	add(v.late...)
	if v.AgentsErr != nil {
		add(explain.New(explain.OpenClawUnread, "error", v.AgentsErr))
	}
	if len(v.Agents) == 0 {
		add(explain.New(explain.NoAgents, "config", filepath.Join(v.Dir, "otm.toml")))
	}
	for i := range v.Agents {
		add(v.AgentProblems(&v.Agents[i])...)
	}
	if f := v.GatewayProblem(); f != nil {
		add(*f)
	}
	add(v.Untold...)
	if f := v.Backlog(); f != nil {
		add(*f)
	}
	if n := len(v.Inbox.Failed); n > 0 {
		add(explain.New(explain.FilesFailed, "n", n, "dir", filepath.Join(v.Dir, inbox.FailedDir)))
	}
	switch {
	case v.Full():
		add(explain.New(explain.ListFullAt, "rows", v.Board.Count, "limit", v.Board.Limit))
	case v.NearlyFull():
		add(explain.New(explain.ListNearlyFull, "rows", v.Board.Count, "limit", v.Board.Limit))
	}
	return found
}

// Watched returns the findings that become incidents: the problems, and silent tasks that are
// no problem yet.
func Watched(v *View) []explain.Finding {
	found := slices.DeleteFunc(v.Problems(), func(f explain.Finding) bool {
		// A pause before the next start comes and goes. One by a person is his own will.
		return f.Code == explain.AgentPausing || f.Code == explain.AgentPaused
	})
	tasks := map[*pipeline.Agent][]*core.Task{}
	var queue []*core.Task
	for _, t := range v.read(core.Filter{Live: true}) {
		if pipeline.IsSharedQueue(t.Agent) {
			queue = append(queue, t)
		}
		a := v.Agents.Assigned(t.Agent)
		tasks[a] = append(tasks[a], t)
	}
	unclaimed, _ := v.outlooks.Unclaimed(queue)
	found = append(found, unclaimed...)
	for i := range v.Agents {
		a := &v.Agents[i]
		silent, _ := v.outlooks.SilentOn(a, tasks[a])
		found = append(found, silent...) // a heartbeat holds only some of them
	}
	return found
}

// OldConfig says which components have not read the present otm.toml, or why it cannot be
// read; nil: all have.
func (v *View) OldConfig() *explain.Finding {
	var old []string
	for _, id := range heartbeat.Components {
		if f := v.Component(id).BrokenConfig; f != nil {
			return f
		}
		if v.Component(id).OldConfig && id != heartbeat.Watcher { // a part of the injector
			old = append(old, id)
		}
	}
	if len(old) == 0 {
		return nil
	}
	return new(explain.New(explain.ComponentOldConfig, "component", strings.Join(old, ", "), "apply", v.Runner.Apply))
}

// Reported lists what the last run of a component reported of tasks, rows and the
// board. What it reported of an agent is among AgentProblems, and what follows from
// an agent's workspace, or from a full list, is said there.
func (v *View) Reported(c *Component) []explain.Finding { return reported(v, "", c) }

// agentOf is the agent whom a finding is about; "": it is about a task, or
// something else.
func agentOf(f *explain.Finding) string {
	if f.Task != 0 {
		return ""
	}
	return f.Args["agent"]
}

// Wakes lists what the dispatcher's last pass reported of an agent.
func (v *View) Wakes(a *pipeline.Agent) []explain.Finding {
	return reported(v, a.Name, v.Component(heartbeat.Dispatcher))
}

func reported(v *View, agent string, c *Component) []explain.Finding {
	return pipeline.Filter(c.Found, func(f explain.Finding) bool { return agentOf(&f) == agent && !v.follows(&f) })
}

func (v *View) follows(f *explain.Finding) bool {
	switch f.Code {
	case explain.ListFull:
		return v.Full()
	case explain.DropFailed:
		return len(v.Inbox.Failed) > 0
	case explain.EffectUndelivered:
		return slices.ContainsFunc(v.pending[f.Task], func(p core.Pending) bool { return p.Error != "" && outbox.IsLate(p, v.Now) })
	case explain.TaskNoAgent:
		return v.Agents.Assigned(f.Args["name"]) != nil // the component has an older otm.toml
	case explain.WakeFailed, explain.WakeUnknown, explain.WakeBarred:
		a := v.Agents.Named(f.Args["agent"])
		return a != nil && !a.Person && (v.Workspace(a) != nil || a.Trigger == pipeline.TriggerGateway && v.GatewayProblem() != nil)
	case explain.DispatchUnkept:
		return pipeline.Find(v.Agents, func(a *pipeline.Agent) bool {
			return a.Workspace == f.Args["path"] && !a.Person && v.Workspace(a) != nil
		}) != nil
	}
	return false
}

// AgentProblems lists what is wrong with one agent.
func (v *View) AgentProblems(a *pipeline.Agent) []explain.Finding {
	if a.Person {
		return nil
	}
	var found []explain.Finding
	if wrong := v.Workspace(a); wrong != nil && Concerns(v, a) {
		found = append(found, *wrong)
	}
	switch h, err := dispatch.AgentHealth(v.ctx, v.Store, v.Dir, a); {
	case err != nil:
		found = append(found, explain.New(explain.AgentUnread, "agent", a.Name, "error", err))
	default:
		found = append(found, slices.DeleteFunc(h.Findings(v.Now), func(f explain.Finding) bool {
			return f.Code == explain.AgentEnding // OTM does what a person asked for
		})...)
	}
	if !v.Component(heartbeat.Dispatcher).Resident { // else it sees to them within a second
		its := v.Agent(a)
		for _, t := range its.Tasks {
			if f := LeftBy(v, its, t); f != nil && f.Level() != explain.OK {
				found = append(found, f.On(t.ID))
			}
		}
	}
	return append(found, v.Wakes(a)...)
}

// Concerns reports whether it matters here how an agent is: otm.toml names it, or it has a
// task. The gateway may have agents that never work for OTM.
func Concerns(v *View, a *pipeline.Agent) bool {
	return a.Source != pipeline.SourceOpenClaw && a.Source != pipeline.SourceGateway || slices.ContainsFunc(v.tops, func(r *pipeline.Row) bool {
		return !r.CurrentStatus().Over() && v.Agents.Assigned(r.Assignee) == a
	})
}

// GatewayProblem says that the gateway cannot be reached, or refuses us; nil:
// neither is known (C7).
func (v *View) GatewayProblem() *explain.Finding {
	if v.Link == nil || v.Link.Up {
		return nil
	}
	f := explain.New(explain.GatewayDown, "since", v.Link.Since, "error", v.Link.Error)
	if v.Link.Reason != "" {
		f = explain.New(explain.GatewayRefusing, "since", v.Link.Since, "error", v.Link.Error, "hint", cmp.Or(v.Link.Next, "otm doctor"))
	}
	return &f
}

// Backlog says that files wait in the inboxes for too long; nil: none does.
func (v *View) Backlog() *explain.Finding {
	if v.Inbox.Oldest.IsZero() || v.Now.Sub(v.Inbox.Oldest) <= MaxBacklog {
		return nil
	}
	return new(explain.New(explain.BacklogOld, "n", v.Count(), "since", v.Inbox.Oldest))
}

// Health is the one word for all of it: green if nothing is wrong, yellow if
// all still works, else red.
func Health(problems []explain.Finding) heartbeat.State {
	worst := 0
	for i := range problems {
		worst = max(worst, problems[i].Level().Severity())
	}
	return []heartbeat.State{heartbeat.Green, heartbeat.Yellow, heartbeat.Red}[worst]
}
