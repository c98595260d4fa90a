package gateway

import (
	"context"
	"errors"
	"slices"
)

// Agent is one agent that the gateway knows.
type Agent struct {
	ID        string
	Workspace string // empty on 2026.3.13
}

// Agents lists the gateway's agents.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	var p struct{ Agents []Agent }
	err := c.call(ctx, "agents.list", struct{}{}, &p)
	return slices.DeleteFunc(p.Agents, func(a Agent) bool { return a.ID == "" }), err
}

// Workspaces is Agents with the workspaces of all agents, also of 2026.3.13, which tells
// them one by one. An agent whose workspace it does not tell has none.
func (c *Client) Workspaces(ctx context.Context) ([]Agent, error) {
	agents, err := c.Agents(ctx)
	if err != nil {
		return nil, err
	}
	for i := range agents {
		a := &agents[i]
		if a.Workspace != "" {
			continue
		}
		var p struct{ Workspace string }
		var refused *Error
		err := c.call(ctx, "agents.files.list", map[string]string{"agentId": a.ID}, &p)
		if err != nil && !errors.As(err, &refused) {
			return nil, err
		}
		a.Workspace = p.Workspace
	}
	return agents, nil
}

// Skill is how the gateway sees a skill of an agent.
type Skill struct {
	Name     string `json:"name"`
	Eligible bool   `json:"eligible"` // the agent is told of it
	Disabled bool   `json:"disabled"` // by configuration
	Missing  struct {
		Bins []string `json:"bins"` // programs that are not on the PATH of the gateway process
	} `json:"missing"`
}

// Skill looks up a skill of an agent by name. found is false if the agent does
// not have it.
func (c *Client) Skill(ctx context.Context, agentID, name string) (skill Skill, found bool, err error) {
	var p struct{ Skills []Skill }
	err = c.call(ctx, "skills.status", map[string]string{"agentId": agentID}, &p)
	i := slices.IndexFunc(p.Skills, func(s Skill) bool { return s.Name == name })
	if err != nil || i < 0 {
		return Skill{}, false, err
	}
	return p.Skills[i], true, nil
}

// Abort ends a run that goes on or is queued, where the gateway has a method for that:
// 2026.3.13 has none. A run that is over, or not known, is no error.
func (c *Client) Abort(ctx context.Context, runID string) error {
	const method = "sessions.abort"
	cn, err := c.connect(ctx)
	if err != nil || !slices.Contains(cn.server.methods, method) {
		return err
	}
	var p struct{}
	var refused *Error
	err = c.call(ctx, method, map[string]string{"runId": runID}, &p)
	if errors.As(err, &refused) && refused.Reason == ReasonRequest {
		return nil // no such run
	}
	return err
}

// Ended asks once whether a run of an agent has ended, by Wait, and where that does not know by
// the gateway's list of its tasks: 2026.9.6 keeps that also over restarts. goesOn says that the
// run is running, or another one that the gateway resumed it with after a crash.
func (c *Client) Ended(ctx context.Context, agentID, runID string) (end End, ended, goesOn bool, err error) {
	const method = "tasks.list"
	cn, err := c.connect(ctx)
	if err != nil {
		return End{}, false, false, err
	}
	if end, ended, err = c.Wait(ctx, runID); err != nil || ended || !slices.Contains(cn.server.methods, method) {
		return end, ended, false, err
	}
	var p struct{ Tasks []listedTask }
	if err := c.call(ctx, method, map[string]any{"agentId": agentID, "limit": 100}, &p); err != nil {
		return End{}, false, false, err
	}
	end, ended, goesOn = endInTasks(p.Tasks, runID)
	return end, ended, goesOn, nil
}

// Wait asks once whether a run has ended; it does not wait for the end. If
// ended is false, nothing is known: the run may be queued, running, forgotten
// (ten minutes after its end), or lost with a former process of the gateway.
func (c *Client) Wait(ctx context.Context, runID string) (end End, ended bool, err error) {
	var p struct {
		Status  Status
		EndedAt float64 // milliseconds since the epoch
	}
	err = c.call(ctx, "agent.wait", map[string]any{"runId": runID, "timeoutMs": c.cfg.WaitTimeout.Milliseconds()}, &p)
	if err != nil {
		return End{}, false, err
	}
	end = End{RunID: runID, Status: p.Status, At: gatewayTime(p.EndedAt)}
	// An unknown run has the status "timeout" too, but no end.
	return end, !end.At.IsZero() || p.Status == StatusOK || p.Status == StatusError, nil
}
