package view

import (
	"path/filepath"
	"time"

	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// MaxBacklog is how long a file may wait in an inbox before that is a problem.
const MaxBacklog = 5 * time.Minute

// Problems lists what is not as it should be: components, agents, files, and
// the list. It is what status, doctor and the page judge by; nothing else makes
// them say that something is wrong in the directory. (C18)
func (v *View) Problems() []explain.Finding {
	found := []explain.Finding{}
	for _, id := range v.Runner.Expected() {
		if c := v.Component(id); c.Problem != nil {
			found = append(found, *c.Problem)
		}
	}
	found = append(found, v.agentProblems()...)
	if f := v.GatewayProblem(); f != nil {
		found = append(found, *f)
	}
	if f := v.Backlog(); f != nil {
		found = append(found, *f)
	}
	if n := len(v.Inbox.Failed); n > 0 {
		found = append(found, explain.New(explain.FilesFailed, "n", n, "dir", filepath.Join(v.Dir, inbox.FailedDir)))
	}
	switch {
	case v.Full():
		found = append(found, explain.New(explain.ListFullAt, "rows", v.Board.Count, "limit", v.Board.Limit))
	case v.NearlyFull():
		found = append(found, explain.New(explain.ListNearlyFull, "rows", v.Board.Count, "limit", v.Board.Limit))
	}
	return found
}

func (v *View) agentProblems() []explain.Finding {
	if len(v.Agents) == 0 {
		return []explain.Finding{explain.New(explain.NoAgents, "config", filepath.Join(v.Dir, "otm.toml"))}
	}
	var found []explain.Finding
	for i := range v.Agents {
		found = append(found, v.AgentProblems(&v.Agents[i])...)
	}
	return found
}

// AgentProblems lists what is wrong with one agent.
func (v *View) AgentProblems(a *pipeline.Agent) []explain.Finding {
	if a.Person {
		return nil
	}
	var found []explain.Finding
	if wrong := v.Workspace(a); wrong != nil {
		found = append(found, *wrong)
	}
	switch h, err := dispatch.AgentHealth(v.Dir, a); {
	case err != nil:
		found = append(found, explain.New(explain.AgentUnread, "agent", a.Name, "error", err))
	case h.Finding() != nil:
		found = append(found, *h.Finding())
	}
	return found
}

// GatewayProblem says that the gateway cannot be reached, or refuses us; nil:
// neither is known (C7).
func (v *View) GatewayProblem() *explain.Finding {
	if v.Link == nil || v.Link.Up {
		return nil
	}
	code := explain.GatewayDown
	if v.Link.Reason != "" {
		code = explain.GatewayRefusing
	}
	f := explain.New(code, "since", v.Link.Since, "error", v.Link.Error)
	return &f
}

// Backlog says that files wait in the inboxes for too long; nil: none does.
func (v *View) Backlog() *explain.Finding {
	if v.Inbox.Oldest.IsZero() || v.Now.Sub(v.Inbox.Oldest) <= MaxBacklog {
		return nil
	}
	f := explain.New(explain.BacklogOld, "n", v.Count(), "since", v.Inbox.Oldest)
	return &f
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
