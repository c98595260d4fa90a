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
// The error is, or wraps:
//
//   - an *Error: the gateway said no, or an operator must act (ErrOperator);
//   - ErrNotSent: ctx ended before anything could be sent, or the gateway put
//     us off each time (ErrLater);
//   - ErrLost: ctx ended, or another of these errors came, while a request is
//     unaccounted for. Only then may the run be queued.
func (c *Client) Run(ctx context.Context, agentID, message, key string) error {
	p := runParams{Message: message, AgentID: agentID, IdempotencyKey: key}
	err := p.check()
	if err == nil {
		err = c.untilAccepted(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("run agent %q as %q: %w", agentID, key, err)
	}
	return nil
}

func (c *Client) untilAccepted(ctx context.Context, p runParams) error {
	unaccounted := false // a request was sent whose answer was lost
	var last error       // why the latest attempt failed
	for try := 0; ; {
		cn, err := c.connect(ctx, false) // which waits until the next dial is due
		connected := err == nil
		if connected {
			err = c.ask(ctx, cn, p, unaccounted)
		}
		unaccounted = unaccounted || errors.Is(err, ErrLost)
		switch {
		case err == nil:
			return nil
		case lasting(err):
			return account(err, unaccounted)
		case ctx.Err() == nil:
			last = err
		}
		if connected && ctx.Err() == nil {
			c.cfg.Log.Debug("asking again under the same key", slog.String("run", p.IdempotencyKey), slog.Any("err", err))
			c.pause(ctx, try, err)
			try++
		}
		if cause := context.Cause(ctx); cause != nil {
			return account(after(cause, last), unaccounted)
		}
	}
}

// account says what err, the end of the attempts, means for the run.
func account(err error, unaccounted bool) error {
	switch {
	case errors.Is(err, ErrLost):
		return err
	case unaccounted:
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return notSent(err)
}

// after adds to the end of a context the failure before it.
func after(cause, last error) error {
	if last == nil {
		return cause
	}
	return fmt.Errorf("%w; before that: %w", cause, last)
}

// ask sends the request once. It returns nil if the gateway has taken the run.
// If again, it may have taken it before, over another connection.
func (c *Client) ask(ctx context.Context, cn *conn, p runParams, again bool) error {
	if !cn.hello.MayWrite() {
		cn.retire() // the next call dials, to notice that somebody acted
		return &Error{Reason: ReasonScope, Message: "connected without " + scopeWrite}
	}
	if !again {
		cn.ends.ask(p.IdempotencyKey)
	}
	f, err := c.send(ctx, cn, c.nextID()+requestSep+p.IdempotencyKey, "agent", p)
	if err != nil {
		return err
	}
	// The gateway remembers the ends of runs, failures too, and answers with
	// them: it had taken the run before.
	if _, ended := endInResponse(f); ended {
		cn.ends.hear(f)
		return nil
	}
	if !f.OK {
		return c.refused(cn, f)
	}
	return nil
}

// pause waits until the next attempt is due, or ctx or the Client ends.
func (c *Client) pause(ctx context.Context, try int, err error) {
	select {
	case <-c.cfg.After(c.backoff(try, retryAfter(err))):
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
}
