package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Agent is one agent that the gateway knows.
type Agent struct {
	ID        string
	Workspace string // empty on 2026.3.13
}

// Agents lists the gateway's agents.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	f, err := c.call(ctx, "agents.list", struct{}{})
	if err != nil {
		return nil, err
	}
	var p struct {
		Agents []json.RawMessage `json:"agents"`
	}
	decode(f.Payload, &p)
	var agents []Agent
	for _, raw := range p.Agents {
		var a Agent
		if decode(raw, &a); a.ID != "" {
			agents = append(agents, a)
		}
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
	f, err := c.call(ctx, "skills.status", struct {
		AgentID string `json:"agentId"`
	}{agentID})
	if err != nil {
		return Skill{}, false, err
	}
	var p struct {
		Skills []json.RawMessage `json:"skills"`
	}
	decode(f.Payload, &p)
	for _, raw := range p.Skills {
		var s Skill
		if decode(raw, &s); s.Name == name {
			return s, true, nil
		}
	}
	return Skill{}, false, nil
}

// Wait asks once whether a run has ended; it does not wait for the end. If
// ended is false, nothing is known: the run may be queued, running, forgotten
// (ten minutes after its end), or lost with a former process of the gateway.
func (c *Client) Wait(ctx context.Context, runID string) (end End, ended bool, err error) {
	f, err := c.call(ctx, "agent.wait", struct {
		RunID     string `json:"runId"`
		TimeoutMs int64  `json:"timeoutMs"`
	}{runID, c.cfg.WaitTimeout.Milliseconds()})
	if err != nil {
		return End{}, false, err
	}
	var p struct {
		Status  Status  `json:"status"`
		EndedAt float64 `json:"endedAt"` // milliseconds since the epoch
	}
	decode(f.Payload, &p)
	end = End{RunID: runID, Status: p.Status}
	if p.EndedAt > 0 && p.EndedAt < 1<<53 {
		end.At = time.UnixMilli(int64(p.EndedAt))
	}
	// An unknown run has the status "timeout" too, but no end.
	return end, !end.At.IsZero() || p.Status == StatusOK || p.Status == StatusError, nil
}

type runParams struct {
	Message        string `json:"message"`
	AgentID        string `json:"agentId"`
	IdempotencyKey string `json:"idempotencyKey"`
}

// check refuses what a gateway refuses only after it has accepted it: a missing
// agent (2026.3.13) and a blank message (2026.9.6). The gateway takes a message
// with a leading slash for a command, which may need operator.admin.
func (p runParams) check() error {
	message := strings.TrimSpace(p.Message)
	reason := ""
	switch {
	case strings.TrimSpace(p.AgentID) == "":
		reason = "no agent"
	case strings.TrimSpace(p.IdempotencyKey) == "":
		reason = "no key"
	case message == "":
		reason = "blank message"
	case strings.HasPrefix(message, "/"):
		reason = "the message begins with a slash"
	default:
		return nil
	}
	return &Error{Reason: ReasonRequest, Err: errors.New("not sent: " + reason)}
}
