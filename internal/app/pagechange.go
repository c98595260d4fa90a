package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/internal/engine"
	"otm/internal/page"
	"otm/pipeline"
	"otm/pipeline/drop"
)

// editsOf turns an action into edits. The error is a *page.Refusal.
func (w *pageWriter) editsOf(a page.Action) (core.Edits, error) {
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
	return w.edited(a)
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
func (w *pageWriter) edited(a page.Action) (e core.Edits, err error) {
	if a.Status != "" {
		to, ok := pipeline.ParseStatus(a.Status)
		if !ok {
			return e, &page.Refusal{Reason: fmt.Sprintf("there is no status %q", a.Status)}
		}
		e.Status = &to
	}
	if a.Agent != "" {
		name := pipeline.CleanName(a.Agent)
		known, err := w.configured(a.Agent)
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

// change carries edits out on the task of a row, or of the row of a step, and brings
// them to the board. A row that is no task is changed on the board.
func (w *pageWriter) change(ctx context.Context, row string, edits core.Edits) error {
	e, err := w.engine(ctx)
	if err != nil {
		return err
	}
	top, err := topOf(ctx, e, row)
	if err != nil {
		return err
	}
	if ofStep := top != row; top == "" || ofStep != (len(edits.Steps) > 0) {
		return errGone
	}
	tasks, err := e.Tasks(ctx, core.Filter{Rows: []string{top}})
	if err != nil {
		return err
	}
	if len(tasks) == 0 || top != row && !slices.ContainsFunc(tasks[0].Steps, func(s core.Step) bool { return s.RowID == row }) {
		return w.changeTyped(ctx, e, row, edits)
	}
	t := tasks[0]
	if t.Away() {
		return errGone
	}
	outcomes, err := e.Do(ctx, core.Command{At: w.now(), By: core.ByPerson(human), Task: t.ID, Do: edits})
	if err != nil {
		return err
	}
	var refused *core.Refused
	switch err := outcomes[0].Err; {
	case errors.As(err, &refused) && refused.Rule == core.RuleMoved:
		return &page.Refusal{Reason: fmt.Sprintf("it is %s by now, no longer %s", refused.From, strings.Join(pipeline.Texts(edits.From), " or "))}
	case err != nil:
		return &page.Refusal{Reason: err.Error()}
	}
	for _, ev := range outcomes[0].Events {
		w.log.InfoContext(ctx, "changed on the page", "task", t.ID, "who", ev.By.String(), "what", ev.Type())
	}
	left, err := e.Deliver(ctx, t.ID)
	if err == nil {
		err = left[t.ID]
	}
	var waits *outbox.LeftError
	switch {
	case errors.As(err, &waits) && waits.Err == nil && waits.Pending.Error == "":
		return nil // another process is about to write it
	case err != nil:
		return fmt.Errorf("it is done, and the board may not show it yet: %w", err)
	}
	return nil
}

// topOf looks at the board, and returns the row of the task to which a row belongs; "":
// the board does not have it. A page may show a row that is younger than the last walk.
func topOf(ctx context.Context, e *engine.Engine, row string) (top string, err error) {
	for _, maxAge := range []time.Duration{pipeline.StatusAge, 0} {
		if err := e.Refresh(ctx, maxAge); err != nil {
			return "", err
		}
		if top, err = e.TopOf(ctx, row); top != "" || err != nil {
			return top, err
		}
	}
	return "", nil
}

// changeTyped changes a row that a person typed and that is no task yet, or no step.
func (w *pageWriter) changeTyped(ctx context.Context, e *engine.Engine, row string, edits core.Edits) error {
	return e.ChangeRow(ctx, row, func(r *pipeline.Row) ([]pipeline.Cell, error) {
		if r == nil {
			return nil, errGone
		}
		if now := r.CurrentStatus(); len(edits.From) > 0 && !slices.Contains(edits.From, now) {
			return nil, &page.Refusal{Reason: fmt.Sprintf("it is %s by now, no longer %s", now, strings.Join(pipeline.Texts(edits.From), " or "))}
		}
		return w.cells(edits), nil
	})
}

// cells are the cells that edits write.
func (w *pageWriter) cells(e core.Edits) (cells []pipeline.Cell) {
	for _, s := range e.Steps {
		status := pipeline.New
		if *s.Done {
			status = pipeline.Done
		}
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldStatus, Text: string(status)}, pipeline.Cell{Field: pipeline.FieldChecked, Checked: *s.Done})
	}
	if e.Status != nil {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldStatus, Text: string(*e.Status)},
			pipeline.Cell{Field: pipeline.FieldChecked, Checked: *e.Status == pipeline.Done})
	}
	if e.Agent != nil {
		cell := pipeline.Cell{Field: pipeline.FieldAssignee, Text: *e.Agent}
		if a := w.agents.Named(*e.Agent); a != nil {
			cell.Text, cell.User = a.Label, a.User
		}
		cells = append(cells, cell)
	}
	if e.Priority != nil {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldPriority, Text: string(*e.Priority)})
	}
	if e.Reason != nil {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldReason, Text: *e.Reason})
	}
	return cells
}
