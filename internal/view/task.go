package view

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"otm/core"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// Task is what is known about one task: its row on the board, its state, and
// its files.
type Task struct {
	ID    pipeline.TaskID // 0: a row that a person typed, and no task yet
	Row   *pipeline.Row   // nil: the board shows none
	Other *pipeline.Row   // another row that bears its id; nil: there is none
	State *core.Task      // nil: the store does not know it
	Agent *pipeline.Agent // to whom the board gives it; nil: nobody that is configured
	Steps []Step
	// SilentSince is when the agent at work on it was last heard of, if that was too long
	// ago; zero: it was not.
	SilentSince time.Time
	MaxRetries  int // of its type
	// Pending are the effects that are not delivered yet: what some sink does not show.
	Pending []core.Pending

	Create        *Create // waits in the inbox; nil: none does
	Updates       []time.Time
	FailedCreate  *inbox.Settled
	FailedUpdates []*inbox.Settled // oldest first
}

// Step is one step of a task.
type Step struct {
	// Number is the one by which otm-update knows the step: its place in the
	// task. 0: it has none yet, as a person has just added it on the board.
	Number int    `json:"number,omitempty"`
	Title  string `json:"title"`
	Done   bool   `json:"done"`
	Row    string `json:"slackItemId,omitempty"` // "": it does not stand on the board
}

// Card is a task as otm list, otm show and the page show it.
type Card struct {
	TaskID   pipeline.TaskID   `json:"taskId"`
	Title    string            `json:"title"`
	Status   pipeline.Status   `json:"status"`
	Agent    string            `json:"agent"`
	Priority pipeline.Priority `json:"priority"`
	Project  string            `json:"project,omitempty"`
	Type     string            `json:"type,omitempty"`
	Context  string            `json:"context,omitempty"`
	Inputs   []string          `json:"inputFiles,omitempty"`
	Parent   pipeline.TaskID   `json:"parent,omitempty"`
	Trace    pipeline.Trace    `json:"traceparent,omitempty"`
	Steps    []Step            `json:"steps"`
	Reason   string            `json:"reason,omitempty"`
	Result   string            `json:"result,omitempty"`
	Run      int               `json:"run,omitempty"`    // the last one; 0: none began
	Tries    int               `json:"tries,omitempty"`  // how many runs in a row failed
	Retries  int               `json:"maxRetries"`       // how many may fail before it is a dead letter
	RetryAt  time.Time         `json:"retryAt,omitzero"` // when the next run may begin, while it is pending
	Runs     []core.Run        `json:"runs,omitempty"`
	Silent   time.Time         `json:"silentSince,omitzero"` // see [Task.SilentSince]
	Row      string            `json:"slackItemId"`
	Events   int               `json:"events,omitempty"` // how many there are: the history grows with it
	Created  time.Time         `json:"createdAt,omitzero"`
	Updated  time.Time         `json:"updatedAt,omitzero"`
}

// Card shows a task as the board has it, or else as the store does. Its status is that of Status.
func (t *Task) Card() Card {
	c := Card{TaskID: t.ID, Agent: t.AgentName(), Steps: append([]Step{}, t.Steps...), Retries: t.MaxRetries, Silent: t.SilentSince}
	if r := t.Row; r != nil {
		c.Title, c.Status, c.Priority, c.Project, c.Type = r.Title, t.Status(), r.Priority, r.Project, r.Type
		c.Reason, c.Result, c.Row = r.Reason, r.Result, r.ID
		c.Created, c.Updated = time.Unix(r.Created, 0).UTC(), time.Unix(r.Updated, 0).UTC()
		if at := t.LastEvent(); at.After(c.Updated) { // the row shows it later
			c.Updated = at
		}
	} else if s := t.State; s != nil {
		c.Title, c.Status, c.Priority, c.Project, c.Type = s.Title, s.Status, s.Priority, s.Project, string(s.Type)
		c.Reason, c.Result, c.Row, c.Updated = s.Reason, s.Result, s.RowID, t.LastEvent()
	}
	if s := t.State; s != nil {
		c.Created, c.Context, c.Inputs, c.Parent, c.Trace, c.Events = s.CreatedAt, s.Context, s.Inputs, s.Parent, s.Trace, int(s.Version)
		c.Run, c.Tries, c.Runs = s.Runs.Number(), s.Runs.Tries(s.CountFrom), s.Runs
		if s.Wait != nil {
			c.RetryAt = s.Wait.Until
		}
	}
	return c
}

// CardOf shows a task as the store has it.
func CardOf(s *core.Task, types pipeline.Types) Card {
	t := Task{ID: s.ID, State: s, MaxRetries: types.Rules(s.Type).MaxRetries}
	for i, step := range s.Steps {
		t.Steps = append(t.Steps, Step{Number: i + 1, Title: step.Title, Done: step.Done, Row: step.RowID})
	}
	return t.Card()
}

// AgentName is to whom the board gives a task: the name of a configured agent, the shared
// queue, or else what the board says.
func (t *Task) AgentName() string {
	switch {
	case t.Agent != nil:
		return t.Agent.Name
	case t.Row != nil && t.Row.Assignee == "" && t.State != nil && pipeline.IsSharedQueue(t.State.Agent):
		return pipeline.SharedQueue // the list has no option for it
	case t.Row != nil:
		return t.Row.Assignee
	case t.State != nil:
		return t.State.Agent
	}
	return ""
}

// Task returns what is known about a task. It is never nil.
func (v *View) Task(id pipeline.TaskID) *Task {
	state := v.state(id)
	row := v.rowOf(id, state)
	t := v.assemble(id, row, state)
	t.Pending = v.pending[id]
	for i := range v.Creates {
		if c := &v.Creates[i]; c.Task.ID == id {
			t.Create = c
		}
	}
	t.Updates, t.FailedCreate, t.FailedUpdates = v.updates[id], v.failedCreates[id], v.failedUpdates[id]
	return t
}

// Tasks returns what stands on the board, in the order of the ids: first the
// rows that are no task.
func (v *View) Tasks() []*Task {
	v.read(core.Filter{Live: true})
	v.own(v.tops...)
	tasks := pipeline.Map(v.tops, v.OfRow)
	slices.SortStableFunc(tasks, func(a, b *Task) int { return cmp.Compare(a.ID, b.ID) })
	return tasks
}

// OfRow returns the task of a row that is no step. Its ID is 0 where the row is
// no task's: typed, or copied together with the id.
func (v *View) OfRow(row *pipeline.Row) *Task {
	if id := v.taskOf(row); id != 0 {
		return v.Task(id)
	}
	return v.assemble(0, row, nil)
}

// assemble makes a task of its row, the rows of its steps, and its state; row and state
// may be nil. The steps stand in the order of the state, whose numbers otm-update takes.
// Those that the state does not know come last and have no number (C10).
func (v *View) assemble(id pipeline.TaskID, row *pipeline.Row, state *core.Task) *Task {
	t := &Task{ID: id, Row: filled(v.Agents, row, state), State: state}
	var steps []*pipeline.Row
	if row != nil {
		steps, t.Agent = v.StepsOf[row.ID], v.Agents.Assigned(t.Row.Assignee)
	}
	for _, other := range v.Bearers[id] {
		if id != 0 && other != row {
			t.Other = other
			break
		}
	}
	own := map[string]bool{}
	if state != nil {
		for i, s := range state.Steps {
			step := Step{Number: i + 1, Title: s.Title, Done: s.Done, Row: s.RowID}
			if r := v.byID[s.RowID]; r != nil && row != nil && r.Parent == row.ID {
				step.Title, step.Done = cmp.Or(r.Title, s.Title), r.StepDone()
				own[r.ID] = true
			}
			t.Steps = append(t.Steps, step)
		}
	}
	for _, r := range steps {
		if !own[r.ID] {
			t.Steps = append(t.Steps, Step{Title: r.Title, Done: r.StepDone(), Row: r.ID})
		}
	}
	if state != nil {
		t.MaxRetries = v.Types.Rules(state.Type).MaxRetries
		if t.Agent != nil {
			if s := v.outlooks.Silence(t.Agent, state); s.Works && s.Rung >= pipeline.RungAsked {
				t.SilentSince = s.Since
			}
		}
	}
	return t
}

// Heard is when its agent was last heard of for the task, or else when the task came into
// its status. It is zero without a state.
func (t *Task) Heard() time.Time {
	if t.State != nil && !t.State.LastHeard().IsZero() {
		return t.State.LastHeard()
	}
	return t.Since(t.Status())
}

// filled is a row as OTM is about to write it: with the task's values in cells that a person
// emptied, as an empty cell is no choice, and in those that show what OTM wrote last.
func filled(agents pipeline.Agents, row *pipeline.Row, state *core.Task) *pipeline.Row {
	if row == nil || state == nil {
		return row
	}
	full, shown := *row, &state.Shown
	full.Title, full.Status = present(row.Title, shown.Title, state.Title), present(row.Status, shown.Status, state.Status)
	full.Priority, full.Reason = present(row.Priority, shown.Priority, state.Priority), present(row.Reason, shown.Reason, state.Reason)
	if row.Result == shown.Result {
		full.Result = state.Result
	}
	cell := row.Assignee
	if a := agents.Assigned(cell); a != nil {
		cell = a.Name
	} else if cell == "" && pipeline.IsSharedQueue(shown.Agent) {
		cell = shown.Agent // a list without an option for it shows nobody
	}
	if shown.Agent != "" && core.SameAgent(cell, shown.Agent) && !core.SameAgent(shown.Agent, state.Agent) {
		full.Assignee = state.Agent
		if to := agents.Named(state.Agent); to != nil {
			full.Assignee = to.Label
		}
	}
	return &full
}

// present is the value of a cell: what a person set there, or else that of the task.
func present[T ~string](cell, shown, task T) T {
	if cell == "" || cell == shown {
		return task
	}
	return cell
}

// state is the state of a task; nil: the store does not know it.
func (v *View) state(id pipeline.TaskID) *core.Task {
	if id == 0 {
		return nil
	}
	if _, known := v.states[id]; !known {
		v.states[id] = nil
		v.read(core.Filter{IDs: []pipeline.TaskID{id}})
	}
	return v.states[id]
}

// rowOf is the row of a task; nil where the board has none. The state says which it is,
// as people change the Task ID and copy it.
func (v *View) rowOf(id pipeline.TaskID, state *core.Task) *pipeline.Row {
	if state != nil && state.RowID != "" {
		return v.byID[state.RowID]
	}
	if rows := v.Bearers[id]; len(rows) > 0 && v.taskOf(rows[0]) == id {
		return rows[0]
	}
	return nil
}

// taskOf is the task whose row this is; 0 where it is no task's.
func (v *View) taskOf(row *pipeline.Row) pipeline.TaskID {
	v.own(row)
	if owner := v.owners[row.ID]; owner != 0 {
		return owner
	}
	id := row.Task()
	if id == 0 || v.Bearers[id][0] != row {
		return 0
	}
	if state := v.state(id); state != nil && state.RowID != "" {
		return 0 // it has another row
	}
	return id // nothing else is known about it
}

// Status is the status that a person set on the board, or else that of the state.
func (t *Task) Status() pipeline.Status {
	switch {
	case t.Row != nil:
		return t.Row.CurrentStatus()
	case t.State != nil:
		return t.State.Status
	}
	return pipeline.New
}

// Open counts the steps on the board that are not done, and all that are there.
func (t *Task) Open() (open, all int) {
	for _, s := range t.Steps {
		if s.Row != "" {
			all++
			if !s.Done {
				open++
			}
		}
	}
	return open, all
}

// Title is the best that is known of the title; "" where nothing is.
func (t *Task) Title() string {
	switch {
	case t.Row != nil && t.Row.Title != "":
		return t.Row.Title
	case t.State != nil:
		return t.State.Title
	case t.Create != nil:
		return t.Create.Task.Title
	case t.FailedCreate != nil:
		var title string
		json.Unmarshal(t.FailedCreate.Object.Get("title"), &title) // no text: no title
		return title
	}
	return ""
}

// Since is when the task came into a status, or else when something last happened to
// it. Zero without a state.
func (t *Task) Since(status pipeline.Status) time.Time {
	if t.State != nil && t.State.Status == status {
		return t.State.StatusAt
	}
	return t.LastEvent()
}

// LastEvent is when something last happened to the task. Zero without a state.
func (t *Task) LastEvent() time.Time {
	if t.State == nil {
		return time.Time{}
	}
	return t.State.ChangedAt
}

// Waits returns the effect of a sink that is not delivered yet; nil: it is.
func (t *Task) Waits(sink core.Sink) *core.Pending {
	return pipeline.Find(t.Pending, func(p *core.Pending) bool { return p.Sink == sink })
}
