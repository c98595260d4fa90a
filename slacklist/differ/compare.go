package differ

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/pipeline"
)

// comparison is one comparison of the rows of a snapshot with tasks.
type comparison struct {
	pipeline.Batch
	*Differ
	Found
	now      time.Time
	stale    bool           // it takes a newer snapshot to tell who made a change
	commands []core.Command // in the order in which they are to be carried out
	typed    []string       // rows that people typed, to become tasks under new ids
	lost     []string       // rows whose Task ID no task has

	byRow  map[string]*core.Task
	byID   map[pipeline.TaskID]*core.Task
	names  map[string]string // of agents, by the texts of assignee cells
	nobody map[string]bool   // whether nobody is configured under a name
}

// compare compares the rows of the snapshot with tasks. tasks are all that may have a
// row, and those whose ids stand in the Task ID cells of rows. It makes no call, and
// finds nothing before the first walk.
func (d *Differ) compare(b pipeline.Batch, tasks []*core.Task) *comparison {
	c := &comparison{Batch: b, Differ: d, now: d.Now(), byRow: map[string]*core.Task{}, byID: map[pipeline.TaskID]*core.Task{}, names: map[string]string{}, nobody: map[string]bool{}}
	if b.WalkAt().IsZero() {
		return c
	}
	for _, t := range tasks {
		c.byID[t.ID] = t
		if t.RowID != "" {
			c.byRow[t.RowID] = t
		}
	}
	for _, t := range tasks {
		c.task(t)
	}
	for row := range b.Rows() {
		if row.Parent == "" && c.byRow[row.ID] == nil {
			c.stranger(row)
		}
	}
	slices.Sort(c.typed)
	slices.Sort(c.lost)
	slices.SortFunc(c.Findings, func(a, b explain.Finding) int { // the order of rows says nothing
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(fmt.Sprint(a.Code, a.Args), fmt.Sprint(b.Code, b.Args)))
	})
	return c
}

func (c *comparison) add(by core.Actor, id pipeline.TaskID, do core.Action) {
	c.commands = append(c.commands, core.Command{At: c.now, By: by, Task: id, Do: do})
}

func (c *comparison) find(f explain.Finding) { c.Findings = append(c.Findings, f) }

// person is who touched a row last: a person, or an AI agent that has a user of its own.
func (c *comparison) person(row *pipeline.Row) core.Actor {
	user := c.Person(row)
	if a := pipeline.Find(c.Agents, func(a *pipeline.Agent) bool { return user != "" && a.User == user && !a.Person }); a != nil {
		return core.ByAgent(a.Name)
	}
	return core.ByPerson(user)
}

// task compares a task with its row.
func (c *comparison) task(t *core.Task) {
	if t.RowID == "" || c.Row(t.RowID) == nil {
		return
	}
	row := c.Row(t.RowID)
	if t.Away() {
		status, known := pipeline.ParseStatus(string(row.CurrentStatus()))
		opened := known && !status.Over()
		if !t.ArchivedAt.IsZero() && !opened {
			return // its row is being deleted
		}
		c.add(c.person(row), t.ID, core.RestoreRow{Row: row.ID, Opened: opened})
	}
	d := &difference{comparison: c, task: t, row: row, seen: Showing(row, nil), view: t.View(), shown: t.Shown}
	d.seen.Agent = c.agentNamed(row.Assignee)
	d.cells()
	d.unedited()
	d.steps()
	d.send()
	d.drift()
	c.agentOf(t)
}

// agentOf reports a task whose agent is not configured.
func (c *comparison) agentOf(t *core.Task) {
	if !t.Status.NeedsAgent() || t.Agent == "" || pipeline.IsSharedQueue(t.Agent) || len(c.Agents) == 0 {
		return
	}
	unknown, seen := c.nobody[t.Agent]
	if !seen {
		unknown = c.Agents.Named(t.Agent) == nil
		c.nobody[t.Agent] = unknown
	}
	if unknown {
		c.find(explain.New(explain.TaskNoAgent, "name", t.Agent).On(t.ID))
	}
}

// difference compares the rows of one task with the task.
type difference struct {
	*comparison
	task *core.Task
	row  *pipeline.Row
	seen core.Shown // what the row shows
	view core.Shown // what the board is to show

	edits    core.Edits
	edited   bool
	doubtful bool               // OTM touched a row last that was edited
	renamed  string             // the agent's name by now, where otm.toml changed; "": it did not
	shown    core.Shown         // what the row shows, as far as it is understood
	ours     bool               // cells show our own writes, which Shown lacks
	written  []core.WrittenStep // the same of steps
}

// verdict says who changed a cell.
type verdict int

const (
	same   verdict = iota // it shows what it showed
	ours                  // it shows our own write, whose answer was lost
	edited                // somebody changed it
)

// judge compares the present value of a cell with the former one, and with the state.
func judge[T comparable](seen, showed, is T) verdict {
	switch seen {
	case showed:
		return same
	case is:
		return ours
	}
	return edited
}

// text judges a cell of text, and updates the value that it showed. An empty one decides
// nothing, see drift.
func text(seen string, showed *string, is string) verdict {
	if seen == "" {
		return same
	}
	v := judge(seen, *showed, is)
	*showed = seen
	return v
}

// note adds a verdict on a cell of the task's row, and reports whether it was edited.
func (d *difference) note(v verdict) bool {
	d.ours = d.ours || v == ours
	return d.noteEdit(v, d.row)
}

func (d *difference) noteEdit(v verdict, row *pipeline.Row) bool {
	if v != edited {
		return false
	}
	d.edited = true
	d.doubtful = d.doubtful || d.Person(row) == ""
	return true
}

// cells compares the cells that people edit.
func (d *difference) cells() {
	e := &d.edits
	for _, field := range []pipeline.Field{pipeline.FieldTitle, pipeline.FieldReason, pipeline.FieldPriority} {
		seen, showed := d.seen.Text(field), d.shown.Text(field)
		verdict := text(seen, &showed, d.view.Text(field))
		d.shown.Set(field, showed)
		if !d.note(verdict) {
			continue
		}
		switch field {
		case pipeline.FieldTitle:
			e.Title = &d.seen.Title
		case pipeline.FieldReason:
			e.Reason = &d.seen.Reason
		default:
			e.Priority = &d.seen.Priority
		}
	}
	d.status()
	d.assignee()
}

func (d *difference) status() {
	row := d.row
	status := row.Status
	if status == "" || status == pipeline.Pending && d.shown.Status == pipeline.Dormant {
		return // an empty cell is no choice, see drift; and pending is how a person sets a task aside
	}
	v := judge(status, d.stands(d.shown.Status), d.stands(d.task.Status))
	// Written before the task went on, and the answer was lost. That somebody touched the
	// row since, in another cell, makes assigned no choice: what it asks for was done.
	passed := func(s pipeline.Status) bool { return d.stands(s) == status }
	if v == edited && slices.ContainsFunc(d.task.Passed, passed) && (status == pipeline.Assigned || d.Person(row) == "") {
		v = ours
	}
	if _, known := pipeline.ParseStatus(string(status)); v == edited && !known {
		d.find(explain.New(explain.TaskStatusUnknown, "status", status).On(d.task.ID))
		return
	}
	switch d.note(v); v {
	case edited:
		d.edits.Status, d.shown.Status = &status, status
	case ours:
		if d.shown.Status = status; status == d.stands(d.task.Status) {
			d.shown.Status = d.task.Status
		}
	}
}

// stands is the status that the board shows for a status, see Status.Instead.
func (d *difference) stands(s pipeline.Status) pipeline.Status {
	form, _ := d.Form(pipeline.FieldStatus, string(s))
	return pipeline.Status(form)
}

func (d *difference) assignee() {
	row := d.row
	if row.Assignee == "" && (row.Odd || d.shown.Agent == "") {
		return
	}
	name := d.seen.Agent
	if row.Assignee == "" && (pipeline.IsSharedQueue(d.shown.Agent) || pipeline.IsSharedQueue(d.task.Agent)) {
		name = pipeline.SharedQueue // a list without an option for it shows nobody
	}
	if name == d.shown.Agent {
		return
	}
	v := judge(pipeline.FoldName(name), pipeline.FoldName(d.shown.Agent), pipeline.FoldName(d.task.Agent))
	if v == edited && d.Person(row) == "" && d.hadIt(name) {
		v = ours // written before the task went on, and the answer was lost
	}
	switch {
	case v == same:
		return
	case v == edited && row.Assignee != "" && core.SameAgent(row.Assignee, d.shown.Agent):
		d.renamed = name // the cell is as it was; otm.toml gave the agent another name
	case d.note(v):
		d.edits.Agent = &name
	}
	d.shown.Agent = name
}

// hadIt reports whether a task of the shared queue was with somebody before: with the queue, or
// with an agent that claimed it.
func (d *difference) hadIt(name string) bool {
	fromQueue := d.task.Claimed || pipeline.IsSharedQueue(d.task.Agent)
	return fromQueue && (pipeline.IsSharedQueue(name) || slices.ContainsFunc(d.task.Runs, func(r core.Run) bool { return core.SameAgent(r.Agent, name) }))
}

// agentNamed is the name of the agent whom an assignee means; the text itself if
// nobody is configured under it.
func (c *comparison) agentNamed(assignee string) string {
	name, seen := c.names[assignee]
	if !seen {
		name = assignee
		if a := c.Agents.Assigned(assignee); a != nil {
			name = a.Name
		}
		c.names[assignee] = name
	}
	return name
}

// send makes the commands.
func (d *difference) send() {
	if d.doubtful && d.unsettled() {
		return
	}
	if d.edited {
		d.edits.Seen = true
		d.add(d.person(d.row), d.task.ID, d.edits)
	}
	if d.renamed != "" {
		d.add(d.By, d.task.ID, core.Edits{Seen: true, Agent: &d.renamed})
	}
	if d.ours || len(d.written) > 0 {
		d.add(d.By, d.task.ID, core.Written{Shown: d.shown, Steps: d.written})
	}
}

// unsettled reports whether the snapshot may still lack our last write to the rows. A
// row that OTM touched last may then show what it was before: also on a board whose walks
// show all writes before them, if who wrote was killed before it kept the snapshot. It asks
// for another comparison when that is out of the question.
func (d *difference) unsettled() bool {
	changed := d.task.ChangedAt
	settled := changed
	if !d.Consistent {
		settled = changed.Add(d.Times.SettleAfter)
	}
	if changed.After(d.now) || !d.WalkAt().Before(settled.Truncate(time.Millisecond)) {
		return false
	}
	if settled.After(d.now) {
		d.again(settled)
	} else {
		d.stale = true
	}
	return true
}

// steps compares the steps of a task with their rows.
func (d *difference) steps() {
	var added []*pipeline.Row
	for _, row := range d.StepRows(d.row.ID) {
		i := slices.IndexFunc(d.task.Steps, func(s core.Step) bool { return s.RowID == row.ID })
		switch {
		case i < 0 && slices.Contains(d.task.Dropped, row.ID): // it is being deleted
			continue
		case i < 0:
			added = append(added, row)
			continue
		}
		d.step(&d.task.Steps[i], row)
	}
	if !d.task.OnBoard() {
		return // rows of steps whose answer was lost are found by their titles
	}
	for _, row := range byCreation(added) { // a person's steps come last
		d.edits.Added = append(d.edits.Added, core.AddedStep{FoundStep: core.FoundStep{Row: row.ID, Title: row.Title, Done: row.StepDone()}, By: d.person(row)})
		d.edited = true
	}
}

func (d *difference) step(s *core.Step, row *pipeline.Row) {
	shown, title, done := s.Shown, row.Title, row.StepDone()
	edit := core.StepEdit{Row: row.ID, By: d.person(row)}
	titled, ticked := text(title, &shown.Title, s.Title), same
	if readable(row) {
		ticked = judge(done, shown.Done, s.Done)
		shown.Done = done
	}
	if d.noteEdit(titled, row) {
		edit.Title = &title
	}
	if d.noteEdit(ticked, row) {
		edit.Done = &done
	}
	if edit.Title != nil || edit.Done != nil {
		d.edits.Steps = append(d.edits.Steps, edit)
	}
	if titled == ours || ticked == ours {
		d.written = append(d.written, core.WrittenStep{Step: s.ID, Row: row.ID, Shown: shown})
	}
}

// readable reports whether the row of a step tells if the step is done.
func readable(row *pipeline.Row) bool {
	if row.StepDone() {
		return true
	}
	_, known := pipeline.ParseStatus(string(row.Status))
	return !row.Odd && (known || row.Status == "")
}

// byCreation sorts rows by the time of their creation. Rows of one second keep their
// order.
func byCreation(rows []*pipeline.Row) []*pipeline.Row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *pipeline.Row) int { return cmp.Compare(a.Created, b.Created) })
	return rows
}
