package app

import (
	"context"
	"errors"

	"otm/core"
	"otm/core/store"
	"otm/dispatch"
	"otm/internal/tokens"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// Pause pauses an agent until Resume.
func (b *Backend) Pause(ctx context.Context, r Request, name, reason string) (*Answer, error) {
	reason, err := pauseReason(reason)
	if err != nil {
		return nil, &FieldError{"reason", err}
	}
	return b.steerAgent(ctx, r, name, func(c core.Command, a *pipeline.Agent) (steeredAgent, error) {
		return pause(ctx, b.Home, c, a, reason)
	})
}

// Resume ends a pause, and has an agent started again.
func (b *Backend) Resume(ctx context.Context, r Request, name string) (*Answer, error) {
	return b.steerAgent(ctx, r, name, func(c core.Command, a *pipeline.Agent) (steeredAgent, error) {
		return resume(ctx, b.Home, c, a, true)
	})
}

func (b *Backend) steerAgent(ctx context.Context, r Request, name string, do func(core.Command, *pipeline.Agent) (steeredAgent, error)) (*Answer, error) {
	by, err := b.steerer(r.Token)
	if err != nil {
		return nil, err
	}
	a, err := aiAgent(b.Home, name, "this")
	switch {
	case err != nil:
		return nil, &FieldError{"path.agent", err}
	case by.Kind == core.Reviewer && by.Name == a.Name:
		return nil, &RoleError{r.Token, "somebody else than the agent itself"}
	}
	return b.once(ctx, r, a.Name, func(_ *store.Store, c core.Command) (core.Outcome, string, error) {
		c.By = by
		is, err := do(c, a)
		return is.outcome, is.Text, err
	})
}

// Next takes the next task of an agent; nil: none waits, or a person has paused the agent.
func (b *Backend) Next(ctx context.Context, t *tokens.Token, name string, another bool) (*dispatch.Taken, *Paused, error) {
	a, err := b.agent(t, name)
	var wrong *FieldError
	switch {
	case errors.As(err, &wrong):
		return nil, nil, &FieldError{"path.agent", wrong.Err}
	case err != nil:
		return nil, nil, err
	}
	d, taken, err := take(ctx, b.Home, a, another)
	var paused *dispatch.PausedError
	switch {
	case errors.As(err, &paused):
		return nil, pausedOf(paused), nil
	case err != nil || taken == nil:
		return nil, nil, err
	}
	mentions, readTo, err := d.Mentions(ctx, a.Name)
	if err != nil {
		return nil, nil, err
	}
	taken.Messages = append(taken.Messages, mentions...)
	return taken, nil, d.MentionsRead(ctx, a.Name, readTo)
}

// Retry puts a failed drop back into its inbox. The error may be ErrNotFailed.
func (b *Backend) Retry(ctx context.Context, t *tokens.Token, file string, newID bool) (Retried, error) {
	if _, err := b.steerer(t); err != nil {
		return Retried{}, err
	}
	r, err := retryOne(ctx, b.Home, file, newID)
	switch {
	case errors.Is(err, errIsUpdate):
		err = &FieldError{"newId", err}
	case errors.Is(err, inbox.ErrNoInbox):
		err = &RefusedError{Reason: err.Error()}
	}
	return r, err
}

// Tag notes the cause of an incident. The error may be core.ErrNoIncident.
func (b *Backend) Tag(ctx context.Context, t *tokens.Token, incident, cause string) error {
	by, err := b.steerer(t)
	if err != nil {
		return err
	}
	id, err := parseIncident(incident)
	if err != nil {
		return &FieldError{"path.id", err}
	}
	if err := checkReason(cause); err != nil {
		return &FieldError{"cause", err}
	}
	return tag(ctx, b.Home, by, id, cause)
}
