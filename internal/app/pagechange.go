package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"otm/internal/page"
	"otm/pipeline"
	"otm/pipeline/drop"
)

// change is what a person does to one row.
type change struct {
	row   string
	step  bool              // the row is a step's, else a task's
	from  []pipeline.Status // where the task has to be for it; nil: anywhere
	cells []pipeline.Cell
	agent string // who has the task then; "": who has it now
}

// takes names the fields that each action needs.
var takes = map[string][]string{
	"create": {"title", "agent", "priority", "type", "project", "steps"}, "edit": {"row", "status", "agent", "priority", "reason"},
	"tick": {"row", "done"}, "approve": {"row"}, "sendback": {"row", "reason"}, "retry": {"name", "newId"},
}

// checkFields refuses an action that does not exist or that has a field which
// it does not use. The error is a *page.Refusal.
func checkFields(a page.Action) error {
	known, ok := takes[a.Do]
	if !ok {
		return &page.Refusal{Reason: fmt.Sprintf("there is no action %q", a.Do)}
	}
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	for name := range fields {
		if name != "do" && !slices.Contains(known, name) {
			return &page.Refusal{Reason: fmt.Sprintf("%s takes no %s: nothing was done", a.Do, name)}
		}
	}
	return nil
}

// changeOf turns an action into a change. The error is a *page.Refusal.
func (w *pageWriter) changeOf(a page.Action) (*change, error) {
	c := &change{row: a.Row}
	switch a.Do {
	case "approve":
		c.from = []pipeline.Status{pipeline.AgentDone}
		c.setStatus(pipeline.Done)
		return c, nil
	case "sendback":
		if strings.TrimSpace(a.Reason) == "" {
			return nil, &page.Refusal{Reason: "say what is missing: the agent gets it as the reason"}
		}
		c.from = []pipeline.Status{pipeline.AgentDone, pipeline.Blocked}
		c.setStatus(pipeline.New)
		return c, c.setReason(a.Reason)
	case "tick":
		c.step = true
		if a.Done {
			c.setStatus(pipeline.Done)
		} else {
			c.setStatus(pipeline.New)
		}
		return c, nil
	}
	return c, w.edit(c, a)
}

// setReason sets the reason, which holds as much as one that an agent reports.
func (c *change) setReason(text string) error {
	text = strings.TrimSpace(text)
	if err := drop.CheckUpdate(&drop.Update{TaskID: 1, Status: pipeline.Blocked, Reason: text}); err != nil {
		return &page.Refusal{Reason: err.Error()}
	}
	c.cells = append(c.cells, pipeline.Cell{Field: pipeline.FieldReason, Text: text})
	return nil
}

// setStatus sets the status and the checkbox that goes with it.
func (c *change) setStatus(to pipeline.Status) {
	c.cells = append(c.cells, pipeline.Cell{Field: pipeline.FieldStatus, Text: string(to)},
		pipeline.Cell{Field: pipeline.FieldChecked, Checked: to == pipeline.Done})
}

// edit adds what an edit changes.
func (w *pageWriter) edit(c *change, a page.Action) error {
	if a.Status != "" {
		to, ok := pipeline.ParseStatus(a.Status)
		if !ok {
			return &page.Refusal{Reason: fmt.Sprintf("there is no status %q", a.Status)}
		}
		c.setStatus(to)
	}
	if a.Agent != "" {
		cell := pipeline.Cell{Field: pipeline.FieldAssignee, Text: pipeline.CleanName(a.Agent)}
		known, err := w.configured(a.Agent)
		switch {
		case err != nil:
			return err
		case known != nil:
			cell.Text, cell.User = known.Label, known.User
		case !pipeline.ValidAgentName(cell.Text):
			return &page.Refusal{Reason: fmt.Sprintf("%q is no name for an agent", a.Agent)}
		}
		c.cells = append(c.cells, cell)
		c.agent = cell.Text
		if known != nil {
			c.agent = known.Name
		}
	}
	if a.Priority != "" {
		prio, ok := pipeline.ParsePriority(a.Priority)
		if !ok {
			return &page.Refusal{Reason: fmt.Sprintf("there is no priority %q", a.Priority)}
		}
		c.cells = append(c.cells, pipeline.Cell{Field: pipeline.FieldPriority, Text: string(prio)})
	}
	if a.Reason != "" {
		if err := c.setReason(a.Reason); err != nil {
			return err
		}
	}
	if len(c.cells) == 0 {
		return &page.Refusal{Reason: "nothing was to be changed"}
	}
	return nil
}

// knownFor is how old the known status of a task may be when a person approves
// the task or sends it back.
const knownFor = 5 * time.Second

// write writes a change to the board, and notes it in the record of its task.
// If we crash in between, the next pass sees the change on the board and notes
// it with the board's name for the person.
func (w *pageWriter) write(ctx context.Context, c *change) (err error) {
	b, err := w.people.Begin(ctx)
	if err != nil {
		return err
	}
	stands := false // on the board
	defer func() {
		if err = errors.Join(err, b.End()); err != nil && stands {
			err = fmt.Errorf("it stands on the board: %w", err)
		}
	}()
	row, err := c.find(ctx, b)
	if err != nil {
		return err
	}
	task := row.ID
	if c.step {
		task = row.Parent
	}
	before, stepsBefore := copyOf(b, task)
	if err := b.Update(ctx, pipeline.Change{Row: c.row, Cells: c.cells}); err != nil {
		return err
	}
	stands = true
	if before == nil || before.Task() == 0 {
		return nil // typed by hand: there is no record yet
	}
	after, stepsAfter := copyOf(b, task)
	now := w.now()
	rec, err := w.store.Change(ctx, before.Task(), func(r *pipeline.Record) error {
		if r.RowID != task {
			return pipeline.ErrUnchanged // the next pass makes it from the row, or the id is another task's
		}
		r.Observe(before, stepsBefore, b.Person, now) // the record may not have seen it yet
		r.Observe(after, stepsAfter, func(*pipeline.Row) string { return human }, now)
		if c.agent != "" {
			r.GiveTo(c.agent, human, now)
		}
		return nil
	})
	if err == nil {
		rec.LogPeople(ctx, w.log, now)
	}
	return err
}

// copyOf returns a task's row and the rows of its steps as they are known now; nil
// if the board has no such row.
func copyOf(b pipeline.Batch, task string) (*pipeline.Row, []*pipeline.Row) {
	known := b.Row(task)
	if known == nil {
		return nil, nil
	}
	row := *known
	var steps []*pipeline.Row
	for _, s := range b.StepRows(task) {
		step := *s
		steps = append(steps, &step)
	}
	return &row, steps
}

// find returns the row of the change, if the change is possible. It reads the
// board if what is known is too old. The error may be a *page.Refusal.
func (c *change) find(ctx context.Context, b pipeline.Batch) (*pipeline.Row, error) {
	row := b.Row(c.row)
	if row == nil || c.from != nil && !b.Current(row, knownFor) {
		if err := b.Refresh(ctx, 0); err != nil {
			return nil, err
		}
		row = b.Row(c.row)
	}
	if row == nil || (row.Parent != "") != c.step {
		return nil, errGone
	}
	if now := row.CurrentStatus(); c.from != nil && !slices.Contains(c.from, now) {
		return nil, &page.Refusal{Reason: fmt.Sprintf("it is %s by now, no longer %s", now, strings.Join(pipeline.Texts(c.from), " or "))}
	}
	return row, nil
}
