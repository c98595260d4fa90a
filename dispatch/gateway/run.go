package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

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
	p := runParams{Message: message, AgentID: agentID, IdempotencyKey: key}
	if err := c.persist(ctx, func() error { return c.ask(ctx, p) }); err != nil {
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

type runParams struct {
	Message        string `json:"message"`
	AgentID        string `json:"agentId"`
	IdempotencyKey string `json:"idempotencyKey"`
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
func (c *Client) ask(ctx context.Context, p runParams) error {
	cn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	f, err := c.send(ctx, cn, c.nextID()+requestSep+p.IdempotencyKey, "agent", p)
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
