package core

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"otm/pipeline"
)

// Apply changes a state by an event. It does nothing else, and nothing else changes a
// state. Events come in the order of their numbers, each once.
func Apply(s *State, e *Event) {
	if e.IncidentOf() != 0 { // its task stays as it is
		applyIncident(s, e)
		return
	}
	if e.Task == 0 {
		if c, ok := e.Data.(AgentChanged); ok {
			a, key := c.State, pipeline.FoldName(c.State.Agent)
			if s.Agents == nil {
				s.Agents = map[string]*AgentState{}
			}
			a.Version = 1
			if was := s.Agents[key]; was != nil {
				a.Version += was.Version
			}
			s.Agents[key] = &a
		}
		return
	}
	if s.Tasks == nil {
		s.Tasks = map[pipeline.TaskID]*Task{}
	}
	switch data := e.Data.(type) {
	case TaskRequested:
		s.Tasks[e.Task] = requested(e, &data)
	case Imported:
		t := data.Task.Clone()
		s.Tasks[e.Task] = t
	}
	if t := s.Tasks[e.Task]; t != nil {
		change{t, e}.apply()
		t.Version++
		if _, old := e.Data.(Imported); !old {
			t.ChangedAt = e.At
		}
	}
}

func requested(e *Event, r *TaskRequested) *Task {
	t := &Task{
		ID: e.Task, DropID: r.DropID, Drop: r.Drop, Title: r.Title, Agent: r.Agent, Priority: r.Priority, Project: r.Project, Type: r.Type,
		Context: r.Context, Inputs: r.Inputs, Body: r.Body, Parent: r.Parent, Trace: e.Trace, CreatedAt: r.CreatedAt.UTC(),
		Status: r.Status, StatusAt: e.At, StatusBy: e.By, Reason: r.Reason, Result: r.Result, Attempt: r.Attempt, Unverified: r.Unverified,
	}
	for _, title := range r.Steps {
		change{t, e}.addStep(Step{Title: title})
	}
	return t
}

// change is an event that changes its task.
type change struct {
	*Task
	e *Event
}

func (t change) addStep(s Step) {
	t.LastStep++
	s.ID = t.LastStep
	t.Steps = append(t.Steps, s)
}

// apply is the effect of an event on its task.
func (t change) apply() {
	e := t.e
	switch data := e.Data.(type) {
	case RowFound:
		t.foundRow(&data)
	case TaskMoved:
		t.moved(&data)
	case StepDone:
		t.stepDone(&data)
	case StepAdded:
		s := Step{Title: data.Title, Done: data.Done, RowID: data.Row}
		if data.Row != "" {
			s.Shown = StepShown{data.Title, data.Done}
		}
		t.addStep(s)
		t.stepsChanged()
	case StepGone:
		t.Steps = slices.DeleteFunc(t.Steps, func(s Step) bool { return s.ID == data.Step })
		if data.Row != "" {
			t.Dropped = append(t.Dropped, data.Row)
		}
		t.stepsChanged()
		if len(t.Steps) == 0 && t.Dispatch != nil {
			t.Dispatch.AllTicked = true
		}
	case EditedByPerson:
		t.edited(&data)
	case Noted:
		t.noted(&data)
	case Said:
		t.LastMessage = &LastMessage{e.At, e.By, data.Message}
		if !data.Heard.IsZero() {
			t.hear(e.By.Name, Heard{At: data.Heard, Reported: data.Heard})
		}
	case RowGone:
		t.GoneAt = e.At
	case RowBack:
		t.GoneAt = time.Time{}
		t.Losses = slices.DeleteFunc(t.Losses, func(l Loss) bool { return l.Gone })
		if data.Archive {
			t.ArchivedAt, t.Shown.Gone = time.Time{}, false
		}
	case BoardWritten:
		t.written(&data)
	case ReconciliationDrift:
		t.drifted(&data)
	case Archived:
		t.ArchivedAt = e.At
	case AuditPosted:
		t.Audit = &data
	default:
		t.applyRun()
	}
}

// applyRun is the effect of events about dispatches, wakes and runs.
func (t change) applyRun() {
	e := t.e
	switch data := e.Data.(type) {
	case HandedOut:
		t.Attempt = data.Attempt
		t.Dispatch = &Dispatch{
			Attempt: data.Attempt, Agent: data.Agent, Workspace: data.Workspace, Via: data.Via, At: e.At, AllTicked: data.AllTicked,
			Retry: t.Status == pipeline.Pending || data.Claimed,
		}
		if data.Claimed {
			t.Agent, t.Claimed = data.Agent, true
		}
	case WorkspaceMoved:
		t.Dispatch.Workspace = data.Workspace
	case Acknowledged:
		t.acknowledged(&data)
	case WakeBegun:
		t.Attempt = max(t.Attempt, data.Wake.Attempt)
		if w := t.WakeNamed(data.Wake.Key); w != nil {
			*w = data.Wake
		} else {
			t.Wakes = append(t.Wakes, data.Wake)
		}
	case TakenAway:
		forgetLoss(t.Task, data.Agent)
		t.Losses = append(t.Losses, data.Loss)
	case Notified:
		if data.Loss {
			forgetLoss(t.Task, data.Agent)
		} else {
			t.Woken = &Woken{Key: data.Key, Agent: data.Agent, Attempt: data.Attempt, At: e.At}
		}
		if w := t.WakeNamed(data.Key); w != nil && w.Accepted.IsZero() {
			w.Accepted = e.At
		}
	case WakeFailed:
		if w := t.WakeNamed(data.Key); w != nil {
			w.Refused, w.Sent = data.Refused, data.Refused != ""
		}
	case StartUnknown:
		if w := t.WakeNamed(data.Key); w != nil {
			w.Unknown = e.At
		}
	case StartEnded:
		if w := t.WakeNamed(data.Key); w != nil {
			w.StartResult = data.StartResult
		}
	case RunStarted:
		t.runStarted(&data)
	case RunSucceeded:
		t.runEnded(data.Run, EndSucceeded)
	case RunPaused:
		t.runEnded(data.Run, EndPaused)
	case RunCanceled:
		t.runEnded(data.Run, EndCanceled)
	case RunFailed:
		if r := t.runEnded(data.Run, EndFailed); r != nil {
			r.Failure = data.Failure
			if !data.Heard.IsZero() { // its agent ended it by a word, as by blocked
				t.hear(r.Agent, Heard{At: data.Heard, Ended: data.Heard})
			}
			t.setReason(Excerpt(data.Failure.String()), "")
		}
	case RetryScheduled:
		t.Wait = &data.Wait
	case Queued:
		t.Wait = &Wait{Why: WaitBusy}
	case RetryAdvised:
		for i := range t.Runs {
			if t.Runs[i].Number == data.Run {
				t.Runs[i].Advice = &data.Advice
			}
		}
	case CountReset:
		t.CountFrom = t.Runs.Number()
	}
}

// runStarted begins a run, or lets the last one go on. It clears the reason on the board if
// that still says why the last run failed.
func (t change) runStarted(r *RunStarted) {
	last := t.Runs.Last()
	if last != nil && last.Ending == EndFailed && t.Reason == Excerpt(last.Failure.String()) {
		t.setReason("", "")
	}
	if last != nil && last.Number == r.Run {
		last.Attempt, last.Ended, last.Ending, last.Failure = r.Attempt, time.Time{}, "", Failure{}
		return
	}
	began := t.e.At
	if !r.Heard.IsZero() {
		began = r.Heard.UTC()
	}
	t.Runs = append(t.Runs, Run{Number: r.Run, Agent: r.Agent, Attempt: r.Attempt, Began: began})
}

// runEnded ends a run, and returns it; nil: none has this number.
func (t change) runEnded(number int, ending Ending) *Run {
	run := pipeline.Find(t.Runs, func(r *Run) bool { return r.Number == number })
	if run != nil {
		run.Ended, run.Ending = t.e.At, ending
	}
	return run
}

func (t change) foundRow(f *RowFound) {
	t.RowID, t.Shown = f.Row, f.Shown
	for _, s := range f.Steps {
		if own := stepOf(t.Task, s.Step); own != nil {
			own.RowID, own.Done, own.Shown = s.Row, s.Done, StepShown{s.Title, s.Done}
		} else {
			t.addStep(Step{Title: s.Title, Done: s.Done, RowID: s.Row, Shown: StepShown{s.Title, s.Done}})
		}
	}
	switch status := f.Shown.Status; {
	case status == pipeline.Pending && t.Status != pipeline.Pending:
		t.Status = pipeline.Dormant // see Edits.status
	case status != "":
		t.Status = status
	}
}

// moved is the effect of a move. A task that a person sends back, releases or sets to
// assigned is to be handed out anew: it loses its dispatch.
func (t change) moved(m *TaskMoved) {
	at := t.e.At
	if !m.Heard.IsZero() {
		at = m.Heard.Add(1) // a report that comes after this one shows that the agent is at work
	}
	if t.Status == pipeline.Blocked && m.To == pipeline.InProgress {
		t.ResumedAt, t.ResumedBy = at.UTC(), t.e.By.Kind
	}
	if t.Status != t.Shown.Status && !slices.Contains(t.Passed, t.Status) {
		t.Passed = append(t.Passed, t.Status)
	}
	t.Previous, t.Status, t.StatusAt, t.StatusBy = t.Status, m.To, t.e.At, t.e.By
	if m.Seen {
		t.Shown.Status = cmp.Or(m.Shows, m.To)
	}
	if m.To != pipeline.Pending {
		t.Wait = nil
	}
	t.shownStatus()
	if t.Claimed {
		t.returned()
	}
	switch m.To {
	case pipeline.New:
		t.Dispatch, t.CompletedAt = nil, time.Time{}
	case pipeline.Assigned:
		if t.e.By.isPerson() {
			t.Dispatch = nil
		}
	case pipeline.AgentDone:
		t.CompletedAt = t.e.At
	case pipeline.Done:
		t.ValidatedAt = t.e.At
	case pipeline.Cancelled:
		t.CancelledAt = t.e.At
	}
	if t.e.By.Kind == Agent || t.e.By.Kind == Worker {
		h := Heard{At: m.Heard}
		if m.To != pipeline.InProgress {
			h.Ended = m.Heard
		}
		t.hear(t.e.By.Name, h)
	}
}

// returned puts a claimed task back into the shared queue if its run failed or somebody
// released it. An answer or a rework is for the agent that claimed it, and so is the task
// if OTM hands it out again because otm.toml gave that agent another name.
func (t change) returned() {
	switch {
	case t.Status == pipeline.Pending && t.Wait != nil && t.Wait.Why == WaitBackoff:
		t.Agent = pipeline.SharedQueue
	case t.Status == pipeline.New && t.e.By.Kind != OTM && slices.Contains(leavesAgent, t.Previous):
		t.Agent = pipeline.SharedQueue
	case t.Status == pipeline.InProgress && pipeline.IsSharedQueue(t.Agent): // its last run goes on after all
		t.Agent = holder(t.Task)
	}
}

// leavesAgent are the statuses out of which a claimed task that becomes new leaves its agent.
var leavesAgent = []pipeline.Status{pipeline.Pending, pipeline.Assigned, pipeline.InProgress, pipeline.Failed, pipeline.Dormant}

func (t change) stepDone(d *StepDone) {
	s := stepOf(t.Task, d.Step)
	if s == nil {
		return
	}
	s.Done = d.Done
	if d.Seen {
		s.Shown.Done = d.Done
	}
	if t.e.By.Kind == Agent || t.e.By.Kind == Worker {
		t.hear(t.e.By.Name, Heard{At: d.Heard, Progress: d.Heard})
	} else {
		t.stepsChanged()
	}
}

// stepsChanged notes whether the steps tell when the task is done: not if a person
// ticked them all before the agent took it, which is to look at it all the same; and
// again after a person opened one. A task of a person's is taken by nobody, and has no
// workspace.
func (t change) stepsChanged() {
	d := t.Dispatch
	if d == nil {
		return
	}
	switch open := t.StepsDone() < len(t.Steps); {
	case open && d.AllTicked:
		d.AllTicked = false
	case !open && !d.AllTicked && len(t.Steps) > 0 && t.Waiting() && d.Workspace != "":
		d.AllTicked = true
	}
}

func (t change) edited(p *EditedByPerson) {
	if p.Step != 0 {
		if s := stepOf(t.Task, p.Step); s != nil {
			s.Title = p.To
			if p.Seen {
				s.Shown.Title = p.To
			}
		}
		return
	}
	switch p.Field {
	case pipeline.FieldTitle:
		t.Title = p.To
	case pipeline.FieldPriority:
		t.Priority = pipeline.Priority(p.To)
	case pipeline.FieldReason:
		question := ""
		if p.Means == AnswerTo {
			question = t.Question // an answer may be corrected
			if !t.Answered {
				question = p.From
			}
		}
		t.setReason(p.To, question)
		t.Answered = t.Answered && p.Means != Explains
	case pipeline.FieldAssignee:
		t.Agent = p.To
		renamed := t.e.By.Kind == OTM // it is a new name of the same agent
		t.Claimed = t.Claimed && renamed
		if renamed && t.Status == pipeline.Blocked && t.Dispatch != nil {
			t.Dispatch.Agent = p.To // an answer is for the agent that asked
		}
	default:
		return
	}
	if p.Seen {
		t.Shown.Set(p.Field, p.To)
	}
}

// setReason sets the reason, and the question to which it is the answer. That of a person
// or a reviewer is for the agent.
func (t change) setReason(reason, question string) {
	by := t.e.By
	t.Reason, t.Question, t.Reviewer = reason, question, ""
	t.Answered = by.Kind == Person || by.Kind == Reviewer
	if by.Kind == Reviewer {
		t.Reviewer = by.Name
	}
}

func (t change) noted(n *Noted) {
	if n.Reason != nil {
		t.setReason(*n.Reason, "")
	}
	if n.Result != nil {
		t.Result = *n.Result
	}
	t.hear(t.e.By.Name, Heard{At: n.Heard, Reported: n.Heard})
}

func (t change) written(w *BoardWritten) {
	if w.Row != "" {
		t.RowID = w.Row
	}
	t.Shown = w.Shown
	t.shownStatus()
	t.Dropped = slices.DeleteFunc(t.Dropped, func(row string) bool { return slices.Contains(w.Gone, row) })
	for _, s := range w.Steps {
		if own := stepOf(t.Task, s.Step); own != nil {
			own.RowID, own.Shown = s.Row, s.Shown
		}
	}
	if d := t.Dispatch; d != nil && d.FlippedAt.IsZero() && t.Shown.Status == t.Status && w.Shown.Derived[pipeline.FieldAssignedAt] == stamp(d.At) {
		d.FlippedAt = t.e.At
	}
}

// shownStatus forgets the passed statuses once the board shows the one of the task.
func (t change) shownStatus() {
	if t.Shown.Status == t.Status {
		t.Passed = nil
	}
}

// drifted makes the fields unknown, so that they are written again.
func (t change) drifted(f *ReconciliationDrift) {
	t.Shown.Derived = maps.Clone(t.Shown.Derived)
	for _, field := range f.Fields {
		switch field {
		case pipeline.FieldTaskID:
			t.Shown.TaskID, t.IDBackAt = 0, t.e.At
		case pipeline.FieldChecked:
			t.Shown.Checked = t.Status != pipeline.Done
		default:
			t.Shown.Set(field, f.Shows[field])
		}
	}
	for _, id := range f.Steps {
		if s := stepOf(t.Task, id); s != nil {
			s.Shown.Title = ""
		}
	}
}

func (t change) acknowledged(a *Acknowledged) {
	at := t.e.At
	if !a.Heard.IsZero() {
		at = a.Heard
	}
	h := Heard{At: at}
	if a.By == TakenByNext {
		h.Given = at
	}
	if d := t.Dispatch; d != nil {
		if d.TakenAt.IsZero() {
			d.TakenAt, h.Took = t.e.At, at
			forgetLoss(t.Task, d.Agent)
		}
		d.TakenBy = a.By
	}
	t.hear(t.e.By.Name, h)
}

// hear notes that an agent did something about the task. A time before one that is
// noted does not replace it.
func (t change) hear(agent string, h Heard) {
	later := func(a, b time.Time) time.Time {
		if b.After(a) {
			return b.UTC()
		}
		return a
	}
	if t.Heard == nil {
		t.Heard = map[string]Heard{}
	}
	key := pipeline.FoldName(agent)
	was := t.Heard[key]
	t.Heard[key] = Heard{
		At: later(was.At, h.At), Took: later(was.Took, h.Took), Given: later(was.Given, h.Given),
		Progress: later(was.Progress, h.Progress), Ended: later(was.Ended, h.Ended), Reported: later(was.Reported, h.Reported),
	}
}
