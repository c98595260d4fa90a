package core

import (
	"cmp"
	"slices"

	"otm/pipeline"
)

// Edits are changes of a task by a person or a reviewer, on the board, on the page or by a
// command. Nil fields stay.
type Edits struct {
	// Seen says that the board shows the edits already. Else it is to show them.
	Seen bool
	// From are the statuses in which the edits are wanted. In another one they are
	// refused. Empty: any will do.
	From []pipeline.Status

	Status    *pipeline.Status
	Title     *string
	Agent     *string // the configured name, or the text on the board; "": nobody
	Priority  *pipeline.Priority
	Reason    *string
	Steps     []StepEdit
	Added     []AddedStep // steps that somebody added on the board
	Gone      []string    // rows of steps that are no longer there
	AddSteps  []string    // titles of steps to add, which the board is to show
	DropSteps []string    // numbers or titles of steps to remove, and their rows
	Accept    bool        // the task's result is accepted
	Reset     bool        // the count of failed runs starts again
}

// AddedStep is a step that somebody added on the board.
type AddedStep struct {
	FoundStep
	By Actor // who did; zero: who asked for the command
}

// StepEdit is a change of a step.
type StepEdit struct {
	Row   string
	Title *string
	Done  *bool
	By    Actor // who did; zero: who asked for the command
}

func (e Edits) decide(d *decision) error {
	t := d.task
	if t == nil {
		return ErrNoTask
	}
	if d.By.ownTask(t) {
		return d.refuse(RuleOwn, Conflict)
	}
	if len(e.From) > 0 && !slices.Contains(e.From, t.Status) {
		return d.refuse(RuleMoved, Conflict)
	}
	defer takeAway(d, e.Reason)()
	if err := e.prepare(d); err != nil {
		return err
	}
	for _, row := range e.Gone {
		if s := stepOfRow(t, row); s != nil {
			d.emit(StepGone{Step: s.ID, Title: s.Title})
		}
	}
	for _, s := range e.Steps {
		e.step(d, s)
	}
	for _, s := range e.Added {
		if stepOfRow(d.task, s.Row) == nil {
			d.emitAs(cmp.Or(s.By, d.By), d.At, StepAdded{Step: d.task.LastStep + 1, Title: s.Title, Row: s.Row, Done: s.Done})
		}
	}
	if e.Title != nil && *e.Title != t.Title {
		d.emit(EditedByPerson{Field: pipeline.FieldTitle, From: t.Title, To: *e.Title, Seen: e.Seen})
	}
	if e.Priority != nil && *e.Priority != t.Priority {
		d.emit(EditedByPerson{Field: pipeline.FieldPriority, From: string(t.Priority), To: string(*e.Priority), Seen: e.Seen})
	}
	was, held := t.Status, heldByPeople(t)
	explained := !e.Seen && rests(was) || held && !t.Answered
	if err := e.status(d); err != nil {
		return err
	}
	seen, is := e.Seen, d.task.Status
	if e.Reason == nil && explained && is != was && !rests(is) {
		e.Reason, seen = new(string), false // why it was cancelled or held up tells the agent nothing
	}
	if e.Reason != nil && *e.Reason != d.task.Reason {
		means := meaning(was, is)
		if held && means == AnswerTo {
			means = "" // no agent asked
		}
		d.emit(EditedByPerson{Field: pipeline.FieldReason, From: d.task.Reason, To: *e.Reason, Seen: seen, Means: means})
	}
	return e.assign(d)
}

// heldByPeople reports whether a task is blocked because a person or a reviewer set it so.
func heldByPeople(t *Task) bool {
	return t.Status == pipeline.Blocked && (t.StatusBy.isPerson() || t.StatusBy.Kind == Reviewer)
}

// prepare adds and removes steps. The numbers in DropSteps are those from before.
func (e Edits) prepare(d *decision) error {
	var dropped []Step
	for _, name := range e.DropSteps {
		i := pipeline.FindStep(d.task.PlainSteps(), name)
		if i < 0 {
			return noStep(d, name)
		}
		dropped = append(dropped, d.task.Steps[i])
	}
	for _, s := range dropped {
		if stepOf(d.task, s.ID) != nil { // else it was named twice
			d.emit(StepGone{Step: s.ID, Title: s.Title, Row: s.RowID})
		}
	}
	for _, title := range e.AddSteps {
		d.emit(StepAdded{Step: d.task.LastStep + 1, Title: title})
	}
	return nil
}

// meaning is what it means that a person sets the reason of a task, which may come
// into another status with it.
func meaning(was, is pipeline.Status) string {
	switch {
	case rests(is), is == pipeline.Blocked && was != is:
		return Explains
	case was == pipeline.Blocked:
		return AnswerTo
	case was == pipeline.AgentDone && is == pipeline.New:
		return SentBack
	}
	return ""
}

// rests reports whether nobody is to work on a task, and its reason says why.
func rests(s pipeline.Status) bool { return s == pipeline.Cancelled || s == pipeline.Dormant }

func (e Edits) step(d *decision, edit StepEdit) {
	s := stepOfRow(d.task, edit.Row)
	if s == nil {
		return
	}
	by := cmp.Or(edit.By, d.By)
	id, title, done := s.ID, s.Title, s.Done
	if edit.Done != nil && *edit.Done != done {
		d.emitAs(by, d.At, StepDone{Step: id, Title: title, Done: *edit.Done, Seen: e.Seen})
	}
	if edit.Title != nil && *edit.Title != title {
		d.emitAs(by, d.At, EditedByPerson{Field: pipeline.FieldTitle, From: title, To: *edit.Title, Step: id, Seen: e.Seen})
	}
}

func (e Edits) status(d *decision) error {
	if e.Status == nil {
		return nil
	}
	to, m := *e.Status, TaskMoved{Seen: e.Seen}
	if to == pipeline.Pending { // the queue is OTM's: a person who chooses pending sets the task aside
		to, m.Shows = pipeline.Dormant, pipeline.Pending
	}
	if to == d.task.Status {
		return nil
	}
	if d.By.Kind == Agent {
		return e.asked(d, to, m)
	}
	if e.Accept {
		d.emit(Approved{})
	}
	if e.Reset {
		d.emit(CountReset{})
	}
	if err := d.move(to, m); err != nil {
		return err
	}
	// A person has an agent begin a task that it has not taken: it counts as taken, and the
	// agent is woken to go on with it.
	if t := d.task; to == pipeline.InProgress && t.Dispatch != nil && t.Dispatch.Workspace != "" && !t.Taken() {
		d.emitAs(ByAgent(t.Dispatch.Agent), d.At, Acknowledged{By: TakenByRow})
	}
	return nil
}

// asked carries out a change of the status by an agent that edits the board as a user of
// its own, if the agent could have reported it. Any other change is written back.
func (e Edits) asked(d *decision, to pipeline.Status, m TaskMoved) error {
	t := d.task
	from := t.Status
	if t.Queued() {
		from = pipeline.Assigned
	}
	_, ok := Permitted(from, to, Agent)
	if !ok || to == pipeline.Failed || t.Dispatch == nil || !SameAgent(t.Dispatch.Agent, d.By.Name) {
		d.emit(barred(pipeline.FieldStatus, string(cmp.Or(m.Shows, to))))
		return nil
	}
	if err := dequeue(d); err != nil {
		return err
	}
	if !t.Taken() {
		d.emit(Acknowledged{By: TakenByUpdate})
	}
	d.begin(&Report{Dropped: d.At})
	return d.move(to, m)
}

// barred has the board write back a field that an agent may not change.
func barred(field pipeline.Field, shows string) ReconciliationDrift {
	return ReconciliationDrift{Fields: []pipeline.Field{field}, Shows: map[pipeline.Field]string{field: shows}}
}

// assign gives the task to another agent. A task that is dispatched, waits for a retry,
// failed or was rejected is handed out again.
func (e Edits) assign(d *decision) error {
	t := d.task
	if e.Agent == nil || SameAgent(*e.Agent, t.Agent) {
		return nil
	}
	if d.By.Kind == Agent {
		d.emit(barred(pipeline.FieldAssignee, *e.Agent))
		return nil
	}
	d.emit(EditedByPerson{Field: pipeline.FieldAssignee, From: t.Agent, To: *e.Agent, Seen: e.Seen})
	blocked := e.Status != nil && *e.Status == pipeline.Blocked && d.task.Dispatch == nil // by the same edit, and nobody has it
	ended := e.Status == nil && (d.task.Status == pipeline.Failed || d.task.Status == pipeline.Rejected || d.task.Status == pipeline.Pending)
	again := d.task.Status.Active() && !blocked || ended
	if d.By.Kind == OTM { // otm.toml gave the same agent another name: what rests goes on resting
		again = d.task.Status == pipeline.Assigned || d.task.Status == pipeline.InProgress || d.task.Queued()
	}
	if again {
		d.emit(TaskMoved{From: d.task.Status, To: pipeline.New, Move: "TT-24"}) // of pending tasks, Permitted knows TT-05
		d.endRun()
	}
	return nil
}

// LoseRow notes that somebody deleted or archived the task's row.
type LoseRow struct{ Row string }

func (l LoseRow) decide(d *decision) error {
	if t := d.task; t != nil && t.RowID == l.Row && t.GoneAt.IsZero() {
		defer takeAway(d, nil)()
		d.emit(RowGone(l))
		if run := t.Runs.Open(); run != nil {
			d.emit(RunCanceled{Run: run.Number})
		}
	}
	return nil
}

// RestoreRow notes that the task's row is on the board again. Opened says that its
// status is none with which tasks are archived.
type RestoreRow struct {
	Row    string
	Opened bool
}

func (r RestoreRow) decide(d *decision) error {
	t := d.task
	switch {
	case t == nil || t.RowID != r.Row:
	case !t.GoneAt.IsZero():
		d.emit(RowBack{Row: r.Row})
	case !t.ArchivedAt.IsZero() && r.Opened:
		d.emit(RowBack{Row: r.Row, Archive: true})
	}
	return nil
}

// Drifted notes that the board shows something that nobody meant. It will be written
// again.
type Drifted ReconciliationDrift

func (f Drifted) decide(d *decision) error {
	if d.task != nil && len(f.Fields)+len(f.Steps) > 0 {
		d.emit(ReconciliationDrift(f))
	}
	return nil
}

// Written notes what OTM wrote to the board.
type Written BoardWritten

func (w Written) decide(d *decision) error {
	if d.task != nil {
		d.emit(BoardWritten(w))
	}
	return nil
}

// Archive notes that a task leaves the board for the history. Its rows are deleted
// afterwards.
type Archive struct {
	Row   pipeline.Row
	Steps []pipeline.Row
}

func (a Archive) decide(d *decision) error {
	t := d.task
	switch {
	case t == nil:
		return ErrNoTask
	case t.RowID != a.Row.ID || !t.ArchivedAt.IsZero():
		return nil
	case !t.Status.Over():
		return d.refuse(RuleMoved, Conflict)
	}
	d.emit(Archived(a))
	return nil
}
