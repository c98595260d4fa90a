package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"otm/core"
	"otm/internal/page"
	"otm/pipeline"
	"otm/pipeline/drop"
)

// editsOf turns an action into edits. The error is a *page.Refusal.
func (p *pageSource) editsOf(a page.Action) (core.Edits, error) {
	set := func(s pipeline.Status) *pipeline.Status { return &s }
	switch a.Do {
	case "approve":
		return core.Edits{From: []pipeline.Status{pipeline.AgentDone}, Status: set(pipeline.Done), Accept: true}, nil
	case "sendback":
		if strings.TrimSpace(a.Reason) == "" {
			return core.Edits{}, &page.Refusal{Reason: "say what is missing: the agent gets it as the reason"}
		}
		e := core.Edits{From: []pipeline.Status{pipeline.AgentDone, pipeline.Blocked}, Status: set(pipeline.New)}
		return e, setReason(&e, a.Reason)
	case "tick":
		return core.Edits{Steps: []core.StepEdit{{Row: a.Row, Done: &a.Done}}}, nil
	}
	return p.edited(a)
}

// setReason sets the reason, which holds as much as one that an agent reports.
func setReason(e *core.Edits, text string) error {
	text = strings.TrimSpace(text)
	if err := drop.CheckUpdate(&drop.Update{TaskID: 1, Status: pipeline.Blocked, Reason: text}); err != nil {
		return &page.Refusal{Reason: err.Error()}
	}
	e.Reason = &text
	return nil
}

// edited turns an edit of several fields into edits.
func (p *pageSource) edited(a page.Action) (e core.Edits, err error) {
	if a.Status != "" {
		to, ok := pipeline.ParseStatus(a.Status)
		if !ok {
			return e, &page.Refusal{Reason: fmt.Sprintf("there is no status %q", a.Status)}
		}
		e.Status = &to
	}
	if a.Agent != "" {
		name := pipeline.CleanName(a.Agent)
		known, err := p.configured(a.Agent)
		switch {
		case err != nil:
			return e, err
		case known != nil:
			name = known.Name
		case !pipeline.ValidAgentName(name):
			return e, &page.Refusal{Reason: fmt.Sprintf("%q is no name for an agent", a.Agent)}
		}
		e.Agent = &name
	}
	if a.Priority != "" {
		prio, ok := pipeline.ParsePriority(a.Priority)
		if !ok {
			return e, &page.Refusal{Reason: fmt.Sprintf("there is no priority %q", a.Priority)}
		}
		e.Priority = &prio
	}
	if a.Reason != "" {
		if err := setReason(&e, a.Reason); err != nil {
			return e, err
		}
	}
	if e.Status == nil && e.Agent == nil && e.Priority == nil && e.Reason == nil {
		return e, &page.Refusal{Reason: "nothing was to be changed"}
	}
	return e, nil
}

// errNoTask says that a row, or the row of a step, is no task's.
var errNoTask = &page.Refusal{Reason: "OTM has not made a task of this row yet", Hint: "change it on the list, where somebody typed it"}

// changeRow carries edits out on the task of a row, or of the row of a step, and brings
// them to the board.
func (p *pageSource) changeRow(ctx context.Context, row string, edits core.Edits) error {
	e, err := newEngine(ctx, p.home, "otm", p.board, p.log)
	if err != nil {
		return err
	}
	if err := e.Refresh(ctx, pipeline.StatusAge); err != nil { // what people did on the list comes first
		return err
	}
	v, err := p.view(ctx, true)
	if err != nil {
		return err
	}
	r := v.Row(row)
	if r == nil || (r.Parent != "") != (len(edits.Steps) > 0) || r.Parent != "" && v.Row(r.Parent) == nil {
		return errGone
	}
	t := v.OfRow(v.Row(cmp.Or(r.Parent, r.ID))).State
	switch {
	case v.Err() != nil:
		return v.Err()
	case t == nil, r.Parent != "" && !slices.ContainsFunc(t.Steps, func(s core.Step) bool { return s.RowID == row }):
		return errNoTask
	case t.Away():
		return errGone
	}
	outcome, undelivered, err := change(ctx, e, p.home.Now(), core.ByPerson(human), t.ID, edits)
	if err != nil {
		return err
	}
	var refused *core.Refused
	switch err := outcome.Err; {
	case errors.As(err, &refused) && refused.Rule == core.RuleMoved:
		return &page.Refusal{Reason: fmt.Sprintf("it is %s by now, no longer %s", refused.From, strings.Join(pipeline.Texts(edits.From), " or "))}
	case err != nil:
		return &page.Refusal{Reason: err.Error()}
	}
	for _, ev := range outcome.Events {
		p.log.InfoContext(ctx, "changed on the page", "task", t.ID, "who", ev.By.String(), "what", ev.Type())
	}
	if errors.Is(undelivered, errAway) {
		return errGone
	}
	if undelivered != nil {
		return fmt.Errorf("it is done, and the board may not show it yet: %w", undelivered)
	}
	if t, err := e.Task(ctx, t.ID); err == nil && t.Away() {
		return errGone // as the delivery found out
	}
	return nil
}
