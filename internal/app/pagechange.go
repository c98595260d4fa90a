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
	note  string // for the history, beside what follows from the cells; "": nothing
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
		c.from, c.note = []pipeline.Status{pipeline.AgentDone}, "approved"
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
	return w.note(ctx, c, id, taskRow, &before)
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

// note notes a change that stands on the board in the record of its task.
func (w *pageWriter) note(ctx context.Context, c *change, id pipeline.TaskID, taskRow string, before *pipeline.Row) error {
	now := w.now()
	rec, err := w.store.Change(ctx, id, func(r *pipeline.Record) error {
		if r.RowID != taskRow {
			return pipeline.ErrUnchanged // the next pass makes it from the row, or the id is another task's
		}
		if c.step {
			c.noteTick(r, before, now)
		} else {
			c.noteOn(r, before, now)
		}
		return nil
	})
	if err == nil {
		rec.LogPeople(ctx, w.log, now)
	}
	return err
}

// noteOn brings a record up to what was written to the row of its task.
func (c *change) noteOn(r *pipeline.Record, before *pipeline.Row, now time.Time) {
	was := before.CurrentStatus()
	for _, cell := range c.cells {
		switch cell.Field {
		case pipeline.FieldStatus:
			r.SetStatus(was, now) // the record may not have seen it yet
			r.SetStatus(pipeline.Status(cell.Text), now)
			if was != r.Status {
				r.Note(now, human, pipeline.EventChanged, fmt.Sprintf("%s to %s", was, r.Status))
			}
		case pipeline.FieldAssignee:
			r.GiveTo(c.agent, human, now)
		case pipeline.FieldReason:
			r.Reason, r.Answered = cell.Text, true
			r.Note(now, human, reasonEvent(was, r.Status), cell.Text)
		case pipeline.FieldPriority:
			r.Priority = pipeline.Priority(cell.Text)
			r.Note(now, human, pipeline.EventPriority, "to "+cell.Text)
		}
	}
	if c.note != "" {
		r.Note(now, human, c.note, "")
	}
}

// reasonEvent is what it means that a person sets the reason of a task, which
// may come into another status with it.
func reasonEvent(was, is pipeline.Status) string {
	switch {
	case was == pipeline.Blocked:
		return "answered"
	case was == pipeline.AgentDone && is == pipeline.New:
		return "sent back"
	}
	return "changed reason"
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
