package app

import (
	"context"
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
	step  bool            // it is a step's, else a task's
	from  pipeline.Status // where the task has to be for it; "": anywhere
	cells []pipeline.Cell
	agent string           // who has the task then; "": who has it now
	notes []pipeline.Event // What and Detail, for the history, beside moves of the status
}

// changeOf turns an action into a change. The error is a *page.Refusal.
func (p *pageSource) changeOf(a page.Action) (*change, error) {
	switch a.Do {
	case "approve":
		c := &change{row: a.Row, from: pipeline.AgentDone, notes: []pipeline.Event{{What: "approved"}}}
		c.setStatus(pipeline.Done)
		return c, nil
	case "sendback":
		reason := strings.TrimSpace(a.Reason)
		if reason == "" {
			return nil, &page.Refusal{Reason: "say what is missing: the agent gets it as the reason"}
		}
		if err := drop.CheckUpdate(&drop.Update{TaskID: 1, Status: pipeline.Blocked, Reason: reason}); err != nil {
			return nil, &page.Refusal{Reason: err.Error()}
		}
		c := &change{row: a.Row, from: pipeline.AgentDone, notes: []pipeline.Event{{What: "sent back", Detail: reason}}}
		c.setStatus(pipeline.New)
		c.cells = append(c.cells, pipeline.Cell{Field: pipeline.FieldReason, Text: reason})
		return c, nil
	case "tick":
		c := &change{row: a.Row, step: true}
		if a.Done {
			c.setStatus(pipeline.Done)
		} else {
			c.setStatus(pipeline.New)
		}
		return c, nil
	case "edit":
		return p.editOf(a)
	}
	return nil, &page.Refusal{Reason: fmt.Sprintf("there is no action %q", a.Do)}
}

// setStatus sets the status and the checkbox that goes with it.
func (c *change) setStatus(to pipeline.Status) {
	c.cells = append(c.cells, pipeline.Cell{Field: pipeline.FieldStatus, Text: string(to)},
		pipeline.Cell{Field: pipeline.FieldChecked, Checked: to == pipeline.Done})
}

func (p *pageSource) editOf(a page.Action) (*change, error) {
	c := &change{row: a.Row}
	if a.Status != "" {
		to, ok := pipeline.ParseStatus(a.Status)
		if !ok {
			return nil, &page.Refusal{Reason: fmt.Sprintf("there is no status %q", a.Status)}
		}
		c.setStatus(to)
	}
	if a.Priority != "" {
		prio, ok := pipeline.ParsePriority(a.Priority)
		if !ok {
			return nil, &page.Refusal{Reason: fmt.Sprintf("there is no priority %q", a.Priority)}
		}
		c.cells = append(c.cells, pipeline.Cell{Field: pipeline.FieldPriority, Text: string(prio)})
		c.notes = append(c.notes, pipeline.Event{What: pipeline.EventPriority, Detail: "to " + string(prio)})
	}
	if a.Agent != "" {
		cell := pipeline.Cell{Field: pipeline.FieldAssignee, Text: pipeline.CleanName(a.Agent)}
		known, err := p.configured(a.Agent)
		switch {
		case err != nil:
			return nil, err
		case known != nil:
			cell.Text, cell.User = known.Label, known.User
		case !pipeline.ValidAgentName(cell.Text):
			return nil, &page.Refusal{Reason: fmt.Sprintf("%q is no name for an agent", a.Agent)}
		}
		c.cells = append(c.cells, cell)
		c.agent = cell.Text
		if known != nil {
			c.agent = known.Name
		}
	}
	if len(c.cells) == 0 {
		return nil, &page.Refusal{Reason: "nothing was to be changed"}
	}
	return c, nil
}

// knownFor is how old what is known of a task may be when a person approves it
// or sends it back: its status decides.
const knownFor = 5 * time.Second

// write writes a change to the board and notes it in the record of its task.
// If we crash between the two, the next pass sees the change on the board and
// notes it, with the board's name for who made it.
func (p *pageSource) write(ctx context.Context, c *change) (err error) {
	b, err := p.people.Begin(ctx)
	if err != nil {
		return err
	}
	stands := false // on the board
	defer func() {
		if err = errors.Join(err, b.End()); err != nil && stands {
			err = fmt.Errorf("it stands on the board: %w", err)
		}
	}()
	row := b.Row(c.row)
	if row == nil || c.from != "" && !b.Current(row, knownFor) {
		if err := b.Refresh(ctx, 0); err != nil {
			return err
		}
		row = b.Row(c.row)
	}
	if row == nil || (row.Parent != "") != c.step {
		return errGone
	}
	if now := row.CurrentStatus(); c.from != "" && now != c.from {
		return &page.Refusal{Reason: fmt.Sprintf("it is %s by now, no longer %s", now, c.from)}
	}
	before, task := *row, row
	if c.step {
		task = b.Row(row.Parent)
	}
	var id pipeline.TaskID
	var taskRow string
	if task != nil {
		id, taskRow = task.Task(), task.ID
	}
	if err := b.Update(ctx, pipeline.Change{Row: c.row, Cells: c.cells}); err != nil {
		return err
	}
	stands = true
	if id == 0 {
		return nil // typed by hand: there is no record yet
	}
	now := p.home.Now()
	rec, err := p.home.Store.Change(ctx, id, func(r *pipeline.Record) error {
		if r.RowID != taskRow {
			return pipeline.ErrUnchanged // the next pass makes it from the row, or the id is another task's
		}
		if c.step {
			c.noteTick(r, &before, now)
		} else {
			c.note(r, &before, now)
		}
		return nil
	})
	if err == nil {
		rec.LogPeople(ctx, p.log, now)
	}
	return err
}

// note brings a record up to what was written to the row of its task.
func (c *change) note(r *pipeline.Record, before *pipeline.Row, now time.Time) {
	for _, cell := range c.cells {
		switch cell.Field {
		case pipeline.FieldStatus:
			r.Status = pipeline.Status(cell.Text)
			if was := before.CurrentStatus(); was != r.Status {
				r.Note(now, human, pipeline.EventChanged, fmt.Sprintf("%s to %s", was, r.Status))
			}
		case pipeline.FieldReason:
			r.Reason = cell.Text
		case pipeline.FieldPriority:
			r.Priority = pipeline.Priority(cell.Text)
		}
	}
	if c.agent != "" {
		r.GiveTo(c.agent, human, now)
	}
	for _, e := range c.notes {
		r.Note(now, human, e.What, e.Detail)
	}
}

// noteTick brings a record up to what was written to the row of a step.
func (c *change) noteTick(r *pipeline.Record, step *pipeline.Row, now time.Time) {
	done := slices.ContainsFunc(c.cells, func(cell pipeline.Cell) bool { return cell.Checked })
	for i := range r.Steps {
		if r.Steps[i].RowID == step.ID {
			r.Steps[i].Done = done
		}
	}
	r.Note(now, human, pipeline.TickEvent(done), step.Title)
}
