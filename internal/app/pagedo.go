package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"otm/core"
	"otm/internal/page"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

// human is who a person on the page is, in histories.
const human = "human"

// Do implements page.Source.
func (p *pageSource) Do(ctx context.Context, a page.Action) (*page.Answer, error) {
	switch {
	case a.Do == "create":
		return p.create(ctx, a)
	case a.Do == "retry":
		return nil, p.retry(ctx, a)
	case a.Do == "pause", a.Do == "resume":
		text, err := p.steerAgent(ctx, a)
		return &page.Answer{Text: text}, refusalOf(err)
	case a.Do == "say":
		return nil, refusalOf(p.say(ctx, a))
	case a.Do == "edit", a.Do == "tick", taskCommandNamed(a.Do).onPage():
		return nil, refusalOf(p.changeRow(ctx, a))
	}
	return nil, &page.Refusal{Reason: fmt.Sprintf("there is no action %q", a.Do)}
}

// create drops a task, as otm-create does. If we crash before the drop is
// published, an id is lost.
func (p *pageSource) create(ctx context.Context, a page.Action) (*page.Answer, error) {
	t := pipeline.Task{Title: strings.TrimSpace(a.Title), Agent: a.Agent, Project: a.Project, Steps: a.Steps, Priority: pipeline.Normal, Type: pipeline.Action}
	var ok bool
	if t.Priority, ok = pipeline.ParsePriority(cmp.Or(a.Priority, string(pipeline.Normal))); !ok {
		return nil, &page.Refusal{Reason: fmt.Sprintf("there is no priority %q", a.Priority)}
	}
	if t.Type, _ = pipeline.ParseType(cmp.Or(a.Type, string(pipeline.Action))); !p.home.Config.Types.Has(t.Type) {
		return nil, &page.Refusal{Reason: fmt.Sprintf("there is no type %q", a.Type)}
	}
	if err := drop.CheckTask(&t); err != nil {
		return nil, &page.Refusal{Reason: err.Error()}
	}
	known, err := p.configured(t.Agent)
	if err != nil {
		return nil, err
	}
	if known != nil {
		t.Agent = known.Name
	}
	if t.ID, err = p.home.Counter.TakeOne(ctx); err != nil {
		return nil, refusalOf(err)
	}
	c := &drop.Create{ID: pipeline.NewDropID(), CreatedAt: p.home.Now(), Task: t, By: human}
	if err := p.home.Box.Publish(inbox.NewTasks, inbox.NewName(c.CreatedAt, c.ID), c.Encode()); err != nil {
		return nil, err
	}
	return &page.Answer{ID: t.ID.String()}, nil
}

// steerAgent pauses or resumes an agent, as the commands do, and says what came of it.
func (p *pageSource) steerAgent(ctx context.Context, a page.Action) (string, error) {
	agent, err := aiAgent(p.home, a.Agent, "otm "+a.Do)
	if err != nil {
		return "", err
	}
	var is steeredAgent
	if a.Do == "pause" {
		is, err = pause(ctx, p.home, core.Command{By: core.ByPerson(human)}, agent, "")
	} else {
		is, err = resume(ctx, p.home, core.Command{By: core.ByPerson(human)}, agent, true)
	}
	if err != nil {
		return "", err
	}
	return agent.Name + ": " + is.Text, slacklist.TouchChanged(p.home.Dir)
}

// configured finds an agent; nil if no agent at all is configured, and for the shared
// queue. The error is a *page.Refusal.
func (p *pageSource) configured(name string) (*pipeline.Agent, error) {
	agents := p.home.Agents()
	if len(agents) == 0 || pipeline.IsSharedQueue(name) {
		return nil, nil
	}
	if a := agents.Named(name); a != nil {
		return a, nil
	}
	e := noAgent(p.home, name, "do you mean %s?")
	return nil, &page.Refusal{Reason: e.Error(), Hint: e.Hints[0]}
}

// retry puts a failed file back into its inbox.
func (p *pageSource) retry(ctx context.Context, a page.Action) error {
	if a.Name != filepath.Base(a.Name) || !inbox.Delivered(a.Name) {
		return &page.Refusal{Reason: fmt.Sprintf("%q is no name of a failed file", a.Name)}
	}
	_, err := retryOne(ctx, p.home, a.Name, a.NewID)
	if errors.Is(err, ErrNotFailed) {
		return &page.Refusal{Reason: "the file is no longer among those that failed"}
	}
	if err != nil {
		return &page.Refusal{Reason: "not put back: " + err.Error()}
	}
	return nil
}

// refusalOf words an error of the board or the data directory for a person at
// the page. It returns an unknown error as it is.
func refusalOf(err error) error {
	var refusal *page.Refusal
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	if be, ok := errors.AsType[*pipeline.BoardError](err); ok && be.RowGone {
		return errGone
	}
	known := Explain(err)
	if known == nil && !errors.As(err, &known) {
		return err
	}
	r := &page.Refusal{Reason: known.Error()}
	switch {
	case pipeline.MaybeApplied(err):
		r.Hint = "it may have taken effect all the same: look before you try again"
	case len(known.Hints) > 0:
		r.Hint = known.Hints[0]
	}
	return r
}
