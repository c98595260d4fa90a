package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Hello returns what the gateway told about itself, after connecting if there
// is no connection.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	cn, err := c.connectNow(ctx)
	if err != nil {
		return Hello{}, fmt.Errorf("connect: %w", notSent(err))
	}
	return cn.hello, nil
}

// Agent is one agent that the gateway knows.
type Agent struct {
	ID        string
	Name      string
	Workspace string // empty on 2026.3.13
	Default   bool
}

// Agents lists the gateway's agents.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	f, err := c.call(ctx, "agents.list", struct{}{})
	if err != nil {
		return nil, err
	}
	var p struct {
		DefaultID string            `json:"defaultId"`
		Agents    []json.RawMessage `json:"agents"`
	}
	decode(f.Payload, &p)
	var agents []Agent
	for _, raw := range p.Agents {
		var a struct {
			ID        string `json:"id"`
			Name      string `json:"name"`
			Workspace string `json:"workspace"`
		}
		decode(raw, &a)
		if a.ID != "" {
			agents = append(agents, Agent{ID: a.ID, Name: a.Name, Workspace: a.Workspace, Default: a.ID == p.DefaultID})
		}
	}
	return agents, nil
}

// RunState is what the gateway knows about a run.
type RunState struct {
	RunID string

	// Ended: the run is over, however it went. If false, nothing is known: the
	// run may be waiting, running, forgotten (ten minutes after its end), or
	// dead with a former process of the gateway.
	Ended bool

	Status  Status
	EndedAt time.Time // zero where the gateway does not tell
}

// Wait asks once whether a run has ended. It does not wait for the end.
func (c *Client) Wait(ctx context.Context, runID string) (RunState, error) {
	f, err := c.call(ctx, "agent.wait", struct {
		RunID     string `json:"runId"`
		TimeoutMs int64  `json:"timeoutMs"`
	}{runID, c.cfg.WaitTimeout.Milliseconds()})
	if err != nil {
		return RunState{}, err
	}
	var p struct {
		Status  Status  `json:"status"`
		EndedAt instant `json:"endedAt"`
	}
	decode(f.Payload, &p)
	return RunState{
		RunID: runID,
		// A run that timed out says "timeout" like an unknown one, but
		// with the time of its end.
		Ended:   p.EndedAt.set || p.Status == StatusOK || p.Status == StatusError,
		Status:  p.Status,
		EndedAt: p.EndedAt.Time,
	}, nil
}

// instant is a time as milliseconds since the epoch, or as text.
type instant struct {
	time.Time
	set bool
}

func (t *instant) UnmarshalJSON(data []byte) error {
	var ms float64
	switch {
	case string(data) == "null":
		return nil
	case json.Unmarshal(data, &ms) == nil:
		if ms > 0 && ms < 1<<53 {
			t.Time = time.UnixMilli(int64(ms))
			t.set = true
		}
		return nil
	default:
		t.set = json.Unmarshal(data, &t.Time) == nil
		return nil
	}
}

// call makes one request that changes nothing at the gateway, again if the
// connection had died unnoticed.
func (c *Client) call(ctx context.Context, method string, params any) (frame, error) {
	f, err := c.callOnce(ctx, method, params)
	if errors.Is(err, errConnLost) {
		f, err = c.callOnce(ctx, method, params)
	}
	if err != nil {
		return frame{}, fmt.Errorf("call %s: %w", method, err)
	}
	return f, nil
}

func (c *Client) callOnce(ctx context.Context, method string, params any) (frame, error) {
	cn, err := c.connectNow(ctx)
	if err != nil {
		return frame{}, notSent(err)
	}
	id := c.nextID()
	data, err := newRequest(id, method, params)
	if err != nil {
		return frame{}, err
	}
	answers := make(chan frame, 1)
	if err := cn.register(id, answers); err != nil {
		return frame{}, notSent(err)
	}
	defer cn.unregister(id)
	if err := cn.send(ctx, data); err != nil {
		return frame{}, notSent(err)
	}
	f, err := c.await(ctx, cn, answers)
	if err != nil {
		return frame{}, fmt.Errorf("%w: %w", ErrLost, err)
	}
	if f.OK {
		return f, nil
	}
	err = f.refusal().afterHandshake()
	if errors.Is(err, ErrOperator) {
		cn.retire() // the next call dials, and finds what was changed
	}
	return frame{}, err
}

func (c *Client) await(ctx context.Context, cn *conn, answers <-chan frame) (frame, error) {
	timer := time.NewTimer(c.cfg.AnswerTimeout)
	defer timer.Stop()
	select {
	case f := <-answers:
		return f, nil
	case <-timer.C:
		return frame{}, fmt.Errorf("none in %v", c.cfg.AnswerTimeout)
	case <-ctx.Done():
		return frame{}, context.Cause(ctx)
	case <-cn.lost:
	}
	select {
	case f := <-answers: // it came just before the end
		return f, nil
	default:
		return frame{}, cn.gone()
	}
}
