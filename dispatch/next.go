package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"otm/core"
	"otm/internal/crash"
	"otm/internal/ordered"
	"otm/pipeline"
)

// Desk gives agents their tasks, for "otm next".
type Desk struct {
	Dir string // the data directory
	// Store is nil if it cannot be opened, as in a sandbox: the dispatch file decides.
	Store  core.Store
	Agents pipeline.Agents
	Now    func() time.Time
	// Carry carries the agent's reports that wait in the inbox into the store; nil: there
	// are none.
	Carry func(context.Context) error
	// Said returns the agent's reports on a task that wait in the inbox, oldest first.
	// Only a desk without a store asks. nil: there are none.
	Said func(pipeline.TaskID) ([]Said, error)
	// Rendered returns the rendering of a task. Only a desk without a store asks. nil:
	// there is none.
	Rendered func(pipeline.TaskID) (*pipeline.Rendering, error)
	// Warn reports a file that was set aside, or could not be read or written.
	Warn func(string)

	files    *workspaces             // nil: Next makes its own
	stumbled map[pipeline.TaskID]int // AgentState.Stumbled
}

// Said is a report that is not in the store yet.
type Said struct {
	Status pipeline.Status
	Steps  []string // that were done
}

// Taken is a task that an agent was given.
type Taken struct {
	Entry    Entry
	Continue bool   // the agent was given it before, and it is unfinished
	Done     []int  // numbers of the ticked steps, from 1
	Reason   string // the reason on the board
	Answered bool   // a person wrote Reason, not the agent
	// Unstored says that only the dispatch file knows that the task is taken: the caller
	// has to drop a report that it is in progress.
	Unstored bool
}

// MarshalJSON writes the entry and the other fields. The task's id comes first. A
// runId with another task's id is left out, as models mistake it for the task: a
// wake for several tasks has the id of the first in its key.
func (t *Taken) MarshalJSON() ([]byte, error) {
	members, err := t.Entry.members()
	if err != nil {
		return nil, err
	}
	var o ordered.Object
	put := func(key string, v any) {
		m, merr := ordered.New(key, v)
		o, err = append(o, m), cmp.Or(err, merr)
	}
	put("taskId", t.Entry.TaskID)
	of, known := taskOfKey(t.Entry.RunID)
	for _, m := range members {
		if m.Key != "taskId" && (m.Key != "runId" || known && of == t.Entry.TaskID) {
			o = append(o, m)
		}
	}
	put("continue", t.Continue)
	put("done", append([]int{}, t.Done...))
	put("reason", t.Reason)
	put("answered", t.Answered)
	if err != nil {
		return nil, err
	}
	return o.Line()
}

// Next gives an agent its next task: the unfinished one that it was given last, unless it
// asks for another; else the most urgent one that waits. It returns nil if nothing
// waits. On return the store, or without one the dispatch file, says durably that the
// task is taken. If we crash in between, Next gives the same task again, to be
// continued.
func (d *Desk) Next(ctx context.Context, a *pipeline.Agent, another bool) (*Taken, error) {
	own := *d
	if own.files == nil {
		own.files = &workspaces{dir: d.Dir}
	}
	if own.Store != nil {
		if own.Carry != nil {
			if err := own.Carry(ctx); err != nil {
				return nil, err
			}
		}
		state, err := own.Store.Agent(ctx, a.Name)
		if err != nil {
			return nil, err
		}
		own.stumbled = state.Stumbled
	}
	return own.next(ctx, a, another)
}

func (d *Desk) next(ctx context.Context, a *pipeline.Agent, another bool) (*Taken, error) {
	var taken *Taken
	err := d.files.edit(ctx, a.Workspace, d.Now(), fileWait, func(f *File) error {
		if err := d.restore(ctx, f, a); err != nil {
			return err
		}
		for try := 1; ; try++ {
			var err error
			taken, err = d.takeOne(ctx, f, a, another)
			if err == nil || !errors.Is(err, core.ErrOutdated) || try == takeTries {
				return err
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("dispatch file of %s: %w", a.Name, err)
	}
	crash.Point("next.picked")
	if err := d.files.writeState(d.Agents, a, taken, d.Now()); err != nil {
		d.Warn("state file not written: " + err.Error()) // the task is taken: the file is for people
	}
	return taken, nil
}

// takeTries bounds how often Next chooses anew because the chosen task changed at this
// moment.
const takeTries = 5

// takeOne chooses a task, takes it and marks its entry; nil: nothing waits.
func (d *Desk) takeOne(ctx context.Context, f *File, a *pipeline.Agent, another bool) (*Taken, error) {
	tasks, err := d.tasks(ctx, f, a)
	if err != nil {
		return nil, err
	}
	ch := choice{d, f, a, tasks}
	t := ch.choose(another)
	if t == nil {
		return nil, nil
	}
	e := ch.entry(t)
	taken, err := d.take(ctx, a, e, t, ch.isTaken(t))
	if err != nil {
		return nil, err
	}
	crash.Point("next.noted")
	if e != nil {
		e.Picked = true
		e.Attempt = max(e.Attempt, t.Dispatch.Attempt) // else the mark would be stale
	}
	return taken, nil
}

// restore fills a dispatch file that was set aside with the open tasks.
func (d *Desk) restore(ctx context.Context, f *File, a *pipeline.Agent) error {
	if f.Aside == "" {
		return nil
	}
	d.Warn("dispatch file was not JSON; it was set aside as " + filepath.Base(f.Aside))
	if d.Store == nil {
		return nil // the next pass fills it
	}
	return beginAnew(ctx, f, d.Store, d.files, a.Workspace)
}

// tasks returns the tasks from which to choose.
func (d *Desk) tasks(ctx context.Context, f *File, a *pipeline.Agent) ([]*core.Task, error) {
	if d.Store == nil {
		return d.fromFile(f, a)
	}
	return d.Store.Tasks(ctx, core.Filter{Live: true, Agent: a.Name})
}

// take notes in the store that the agent takes a task.
func (d *Desk) take(ctx context.Context, a *pipeline.Agent, e *Entry, t *core.Task, again bool) (*Taken, error) {
	if d.Store != nil {
		outcomes, err := d.Store.Do(ctx, core.Command{At: d.Now(), By: core.ByAgent(a.Name), Task: t.ID, Do: core.Take{By: core.TakenByNext}})
		if err != nil {
			return nil, err
		}
		if err := outcomes[0].Err; err != nil {
			return nil, fmt.Errorf("%v: %w", t.ID, err)
		}
		t = outcomes[0].Task
	}
	taken := &Taken{Entry: entryOf(t), Continue: again, Reason: t.Reason, Answered: t.Answered, Unstored: d.Store == nil}
	if e != nil {
		taken.Entry = *e
	}
	taken.Entry.Picked, taken.Entry.Steps = true, t.StepTitles()
	for i, s := range t.Steps {
		if s.Done {
			taken.Done = append(taken.Done, i+1)
		}
	}
	return taken, nil
}

// choice chooses the task to give.
type choice struct {
	*Desk
	file  *File
	agent *pipeline.Agent
	tasks []*core.Task
}

// choose returns the task to give; nil: there is none.
func (ch *choice) choose(another bool) *core.Task {
	if another {
		return ch.pick()
	}
	if t := ch.current(); t != nil {
		return t
	}
	return ch.pick()
}

// current returns the unfinished task to continue; nil: there is none. It is the one
// that the agent was given last. If the last run ended without progress on that,
// another task comes first, so that a task that breaks every run does not block the
// others.
func (ch *choice) current() *core.Task {
	last := ch.lastGiven(func(*core.Task) bool { return true })
	if last == nil || ch.stumbled[last.ID] == 0 {
		return last
	}
	if other := ch.pick(); other != nil {
		return other
	}
	n := ch.stumbled[last.ID]
	if other := ch.lastGiven(func(t *core.Task) bool { return ch.stumbled[t.ID] < n }); other != nil {
		return other
	}
	return last
}

// lastGiven returns the unfinished task that the agent was given last, of those that
// are ok; nil: there is none.
func (ch *choice) lastGiven(ok func(*core.Task) bool) *core.Task {
	var last *core.Task
	var lastAt time.Time
	for _, t := range ch.tasks {
		if !ch.isOwn(t) || !ch.isTaken(t) || !t.Unfinished() || !ok(t) {
			continue
		}
		h := t.HeardOf(ch.agent.Name)
		at := h.Given
		if h.Took.After(at) {
			at = h.Took
		}
		if at.IsZero() {
			at = t.Dispatch.At
		}
		if last == nil || at.After(lastAt) {
			last, lastAt = t, at
		}
	}
	return last
}

// pick returns the most urgent task that waits; nil: there is none.
func (ch *choice) pick() *core.Task {
	var first *core.Task
	for _, t := range ch.tasks {
		if !ch.isOwn(t) || !t.Waiting() || ch.isTaken(t) || !t.Unfinished() {
			continue
		}
		if first == nil || cmp.Or(cmp.Compare(t.Priority.Rank(), first.Priority.Rank()), t.Dispatch.At.Compare(first.Dispatch.At), cmp.Compare(t.ID, first.ID)) < 0 {
			first = t
		}
	}
	return first
}

// isOwn reports whether a task is handed out to the agent.
func (ch *choice) isOwn(t *core.Task) bool {
	return t.Dispatch != nil && core.SameAgent(t.Dispatch.Agent, ch.agent.Name)
}

// isTaken reports whether the agent took a task, by the store or by the mark in the
// dispatch file.
func (ch *choice) isTaken(t *core.Task) bool {
	if t.Taken() {
		return true
	}
	e := ch.entry(t)
	return e != nil && e.Picked && !e.stale(t.Dispatch.Attempt)
}

// entry returns the entry of a task; nil: there is none.
func (ch *choice) entry(t *core.Task) *Entry { return ch.file.Find(t.ID, ch.agent.Name) }

// fromFile makes tasks from the entries of an agent, for a desk without a store: with
// what the renderings and the reports in the inbox say.
func (d *Desk) fromFile(f *File, a *pipeline.Agent) ([]*core.Task, error) {
	state, _ := d.files.state(d.Agents, a) // without it, the mark on the oldest entry counts
	var tasks []*core.Task
	seen := map[pipeline.TaskID]bool{}
	for _, e := range f.Entries() {
		if !core.SameAgent(e.Agent, a.Name) || seen[e.TaskID] {
			continue
		}
		seen[e.TaskID] = true
		t, err := d.fromEntry(e, a)
		if err != nil {
			return nil, err
		}
		if e.Picked && state.TaskID != nil && *state.TaskID == t.ID {
			t.Heard = map[string]core.Heard{pipeline.FoldName(a.Name): {Given: d.Now()}}
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

func (d *Desk) fromEntry(e *Entry, a *pipeline.Agent) (*core.Task, error) {
	t := &core.Task{
		ID: e.TaskID, Title: e.Title, Agent: a.Name, Priority: e.Priority, Project: e.Project, Type: e.Type, Context: e.Context, Inputs: e.Inputs, RowID: e.RowID,
		Status: pipeline.Assigned, Dispatch: &core.Dispatch{Attempt: e.Attempt, Agent: a.Name, Workspace: a.Workspace, At: e.DispatchedAt},
	}
	steps := make([]pipeline.Step, len(e.Steps))
	for i, title := range e.Steps {
		steps[i].Title = title
	}
	if d.Rendered != nil {
		if r, err := d.Rendered(e.TaskID); err == nil && core.SameAgent(r.Agent, a.Name) { // else the entry is all there is
			t.Status, steps = r.Status, r.Steps
		}
	}
	if d.Said != nil {
		said, err := d.Said(e.TaskID)
		if err != nil {
			return nil, err
		}
		applySaid(t, steps, said)
	}
	for i, s := range steps {
		t.Steps = append(t.Steps, core.Step{ID: i + 1, Title: s.Title, Done: s.Done})
	}
	// Nobody worked on it yet: it is given out although all its steps are ticked.
	t.Dispatch.AllTicked = !e.Picked && t.StepsDone() == len(t.Steps)
	return t, nil
}

// applySaid applies reports that wait in the inbox.
func applySaid(t *core.Task, steps []pipeline.Step, said []Said) {
	for _, u := range said {
		if u.Status != "" {
			t.Status = u.Status
		}
		for _, title := range u.Steps {
			if i := pipeline.FindStep(steps, title); i >= 0 {
				steps[i].Done = true
			}
		}
	}
}
