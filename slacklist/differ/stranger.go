package differ

import (
	"context"
	"fmt"
	"slices"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/pipeline"
)

// stranger judges a row that no task has.
func (c *comparison) stranger(row *pipeline.Row) {
	status := row.CurrentStatus()
	_, known := pipeline.ParseStatus(string(status))
	if !known || row.Odd && (row.Assignee == "" || row.Status == "" || row.TaskID == "") {
		return // a cell may hold something that cannot be read
	}
	id := row.Task()
	t := c.byID[id]
	switch {
	case t != nil && t.RowID == "":
		return // its row may be this one: the sink looks for it
	case t != nil:
		c.copied(row, t.ID, t.RowID)
	case id != 0:
		c.stray(row, id)
	default:
		c.byHand(row)
	}
}

// copied reports a row with the Task ID of another row, while it looks like something
// to do.
func (c *comparison) copied(row *pipeline.Row, id pipeline.TaskID, own string) {
	if row.CurrentStatus() == pipeline.New {
		c.find(explain.New(explain.TaskTwoRows, "own", own, "other", row.ID, "title", row.Title).On(id))
	}
}

// stray judges a row with the id of a task that is not known: the task was lost, or a
// person typed the id. A finished row that was no agent's needs no task.
func (c *comparison) stray(row *pipeline.Row, id pipeline.TaskID) {
	status, agent := row.CurrentStatus(), c.Agents.Assigned(row.Assignee)
	if first := c.TaskRow(id); first != nil && first.ID != row.ID {
		c.copied(row, id, first.ID)
		return
	}
	switch {
	case row.Assignee == "" && status == pipeline.New,
		(agent == nil || agent.Person) && status != pipeline.New && !status.Active(),
		status == pipeline.New && c.Person(row) != "" && !c.still(row):
		return
	}
	c.lost = append(c.lost, row.ID)
}

// byHand judges a row without a task id. It becomes a task once it is new, has a title
// and an agent, and nobody edits it or its steps.
func (c *comparison) byHand(row *pipeline.Row) {
	if row.Assignee == "" || row.CurrentStatus() != pipeline.New || len(c.Agents) == 0 {
		return
	}
	switch {
	case row.TaskID != "":
		c.find(explain.New(explain.RowNoTaskID, "title", row.Title, "cell", row.TaskID))
	case c.Agents.Assigned(row.Assignee) == nil && !pipeline.IsSharedQueue(row.Assignee):
		c.find(explain.New(explain.RowNoAgent, "title", row.Title, "name", row.Assignee))
	case row.Title != "" && c.still(row):
		c.typed = append(c.typed, row.ID)
	}
}

// still reports whether nobody has edited a row and its steps for AdoptAfter. Else it
// asks for another comparison.
func (c *comparison) still(row *pipeline.Row) bool {
	at := c.stillAt(c.lastEdit(row))
	if at.After(c.now) {
		c.again(at)
		return false
	}
	return true
}

// lastEdit is when a row, or a step of it, last changed.
func (c *comparison) lastEdit(row *pipeline.Row) int64 {
	last := row.Updated
	for _, s := range c.StepRows(row.ID) {
		last = max(last, s.Updated)
	}
	return last
}

// adopt makes the commands for rows without a task.
func (c *comparison) adopt(ctx context.Context) error {
	if err := c.takeover(); err != nil || c.NewID == nil || c.Trouble != nil {
		return err
	}
	for _, id := range c.typed {
		row := c.Row(id)
		task, err := c.NewID(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			c.find(explain.New(explain.RowUnfit, "title", row.Title, "error", err))
			c.again(c.now.Add(lookAgain))
			continue
		}
		c.add(c.By, task, c.adoption(row, task, nil))
		c.Adopted++
	}
	return nil
}

// takeover makes the commands for rows of lost tasks. A task whose create waits in an
// inbox is left to the injector: the board may show only a part of it.
func (c *comparison) takeover() (err error) {
	var drops map[pipeline.TaskID]pipeline.Dropped
	if len(c.lost) > 0 && c.Drops != nil {
		// After the snapshot was made: a row appears after its create was dropped.
		if drops, err = c.Drops(); err != nil {
			return fmt.Errorf("creates of lost tasks: %w", err)
		}
	}
	for _, id := range c.lost {
		row := c.Row(id)
		dropped := drops[row.Task()]
		if dropped.Waiting {
			continue
		}
		adopt := c.adoption(row, row.Task(), dropped.Steps)
		adopt.Lost = true
		if adopt.Typed.Kind != core.Person || row.CreatedBy != row.UpdatedBy {
			adopt.Typed = c.By // most likely OTM made it, when it knew the task
		}
		if agent := c.Agents.Assigned(row.Assignee); agent != nil && !agent.Person && adopt.Status == pipeline.InProgress {
			adopt.Taken = &core.Taken{Workspace: agent.Workspace, Heard: time.Unix(c.lastEdit(row), 0).UTC()}
		}
		c.add(c.By, row.Task(), adopt)
	}
	return nil
}

// adoption is the command that makes a task of a row. titles are those of the steps of
// its create, in order; nil: not known.
func (c *comparison) adoption(row *pipeline.Row, id pipeline.TaskID, titles []string) core.Adopt {
	a := core.Adopt{
		Task:   pipeline.Task{ID: id, Title: row.Title, Agent: row.Assignee, Priority: row.Priority, Project: row.Project, Type: pipeline.Type(row.Type)},
		Status: row.CurrentStatus(), Reason: row.Reason, Result: row.Result,
		Typed: c.typist(row), TypedAt: time.Unix(row.Created, 0).UTC(),
	}
	if agent := c.Agents.Assigned(row.Assignee); agent != nil {
		a.Task.Agent = agent.Name
	}
	if a.Task.Priority == "" {
		a.Task.Priority = pipeline.Normal
	}
	if a.Task.Type == "" {
		a.Task.Type = pipeline.Action
	}
	if form, _ := c.Form(pipeline.FieldStatus, string(pipeline.Dormant)); a.Status == pipeline.Pending && form == string(pipeline.Pending) {
		a.Status = pipeline.Dormant // the board lacks that option; a person can requeue a task that waited for a run
	}
	a.Row = FoundRow(c.Batch, row, c.Agents, titles)
	return a
}

// FoundRow is a row with its steps, as it stands on the board. titles are those of the
// create, in order, if that is known.
func FoundRow(b pipeline.Batch, row *pipeline.Row, agents pipeline.Agents, titles []string) core.RowFound {
	f := core.RowFound{Row: row.ID, Shown: Showing(row, agents)}
	for _, s := range inOrder(b.StepRows(row.ID), titles) {
		f.Steps = append(f.Steps, core.FoundStep{Row: s.ID, Title: s.Title, Done: s.StepDone()})
	}
	return f
}

// typist is who made a row.
func (c *comparison) typist(row *pipeline.Row) core.Actor {
	if row.CreatedBy == row.UpdatedBy {
		return core.ByPerson(c.Person(row)) // by the name that histories show
	}
	return core.ByPerson(row.CreatedBy)
}

// Showing returns the cells of a task's row in OTM's words.
func Showing(row *pipeline.Row, agents pipeline.Agents) core.Shown {
	s := core.Shown{
		TaskID: row.Task(), Title: row.Title, Agent: row.Assignee, Priority: row.Priority, Project: row.Project, Type: pipeline.Type(row.Type),
		Status: row.Status, Reason: row.Reason, Result: row.Result, Checked: row.Checked, Derived: row.Derived,
	}
	if agent := agents.Assigned(row.Assignee); agent != nil {
		s.Agent = agent.Name
	}
	return s
}

// inOrder sorts the rows of steps as the create has them. Rows with other titles were
// renamed or added by a person: they fill the places that are left, the oldest first,
// and then come last.
func inOrder(rows []*pipeline.Row, titles []string) []*pipeline.Row {
	rows = byCreation(rows)
	places := make([]*pipeline.Row, len(titles))
	for i, title := range titles {
		if j := slices.IndexFunc(rows, func(r *pipeline.Row) bool { return pipeline.FoldTitle(r.Title) == pipeline.FoldTitle(title) }); j >= 0 {
			places[i] = rows[j]
			rows = slices.Delete(rows, j, j+1)
		}
	}
	for i := range places {
		if places[i] == nil && len(rows) > 0 {
			places[i], rows = rows[0], rows[1:]
		}
	}
	return append(slices.DeleteFunc(places, func(r *pipeline.Row) bool { return r == nil }), rows...)
}
