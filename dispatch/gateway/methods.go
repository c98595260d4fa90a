package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// Run asks the gateway to give message to an agent, and returns when the
// gateway has accepted. Until ctx ends it asks again, always under the same
// key, while the gateway cannot be reached, is starting or going down, or does
// not answer. It never asks again after an acceptance. The end of the run goes
// to Config.OnEnd, at once if the gateway remembers it under the key.
//
// Agent, message and key must not be blank, and the message must not begin with
// a slash: the gateway would accept the run, and refuse it then.
//
// If the error matches ErrLost, a request is unaccounted for, and the run may be
// queued. Otherwise it is not: the gateway said no (an *Error), or ctx ended
// before anything could be sent, or the gateway put us off each time (ErrLater).
func (c *Client) Run(ctx context.Context, agentID, message, key string) error {
	if err := c.persist(ctx, func() error { return c.ask(ctx, agentID, message, key) }); err != nil {
		return fmt.Errorf("run agent %q as %q: %w", agentID, key, err)
	}
	return nil
}

// Connect returns when there is a connection. Until ctx ends it tries again while the
// gateway cannot be reached, or is starting or going down.
func (c *Client) Connect(ctx context.Context) error {
	err := c.persist(ctx, func() error {
		_, err := c.connect(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return nil
}

// persist tries until ctx ends or the error is one that lasts.
func (c *Client) persist(ctx context.Context, try func() error) error {
	unaccounted := false // a request was sent whose answer was lost
	var last error       // why the latest attempt failed that ctx did not cut off
	for n := 0; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		unaccounted = unaccounted || errors.Is(err, ErrLost)
		if !lasting(err) {
			c.cfg.Log.Debug("trying again", slog.Any("err", err))
			if last == nil || ctx.Err() == nil {
				last = err
			}
			cause := c.pause(ctx, c.backoff(n, err))
			if cause == nil {
				continue
			}
			err = fmt.Errorf("%w; before that: %w", cause, last)
		}
		if unaccounted && !errors.Is(err, ErrLost) {
			err = fmt.Errorf("%w: %w", ErrLost, err)
		}
		return err
	}
}

// ask sends the request once. It returns nil if the gateway has taken the run.
func (c *Client) ask(ctx context.Context, agentID, message, key string) error {
	cn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	params := map[string]string{"message": message, "agentId": agentID, "idempotencyKey": key}
	f, err := c.send(ctx, cn, c.nextID()+requestSep+key, "agent", params)
	if err != nil {
		return err
	}
	// The gateway remembers the ends of runs, failures too, and answers with
	// them: it had taken the run before.
	if end, ended := endInResponse(f); ended {
		c.ended(end)
		return nil
	}
	if !f.OK {
		return f.refusal().afterHandshake()
	}
	return nil
}
