package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"otm/core"
	"otm/internal/crash"
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
	// Known completes what an entry says of a task by its rendering, and by the reports
	// in the inbox. Only a desk without a store asks.
	Known func(*pipeline.Rendering)
	// Warn reports a file that was set aside, or could not be read or written.
	Warn func(string)

	patience time.Duration // see workspaces.wait
}

// Taken is a task that an agent was given.
type Taken struct {
	Task     *core.Task // as far as it is known
	Continue bool       // the agent was given it before, and it is unfinished
	// Unstored says that only the dispatch file knows that the task is taken: the caller
	// has to drop a report that it is in progress.
	Unstored bool
	// Messages are what others wrote on the task since the agent was last given it. Earlier
	// counts the ones before. The caller adds messages that mention the agent elsewhere.
	Messages []Message
	Earlier  int

	entry Entry
}

// Run is the number of the run in which the agent works; 0: not known.
func (t *Taken) Run() int {
	if t.Unstored {
		return t.entry.Run
	}
	return t.Task.Runs.Number()
}

// Failure is the run before, if it failed; nil: it did not.
func (t *Taken) Failure() *core.Run {
	if n := len(t.Task.Runs); n > 1 && t.Task.Runs[n-2].Ending == core.EndFailed {
		return &t.Task.Runs[n-2]
	}
	return nil
}

// MarshalJSON writes the entry and what else is known. The task's id comes first. A
// runId with another task's id is left out, as models mistake it for the task: a
// wake for several tasks has the id of the first in its key.
func (t *Taken) MarshalJSON() ([]byte, error) {
	e := t.entry
	if of, known := taskOfKey(e.RunID); !known || of != t.Task.ID {
		e.replace("runId", nil)
	}
	e.set("picked", true)
	e.set("subtasks", t.Task.StepTitles())
	e.noteAnswer(t.Task)
	e.replace("taskId", nil)
	e.replace("run", nil)
	done := []int{}
	for i, s := range t.Task.Steps {
		if s.Done {
			done = append(done, i+1)
		}
	}
	var out Entry
	out.set("taskId", t.Task.ID)
	out.members = append(out.members, e.members...)
	if t.Task.Body != "" {
		out.set("body", t.Task.Body)
	}
	out.set("continue", t.Continue)
	out.set("done", done)
	if run := t.Run(); run > 0 {
		out.set("run", run)
	}
	if failed := t.Failure(); failed != nil {
		out.set("failedRun", failed)
	}
	out.set("reason", t.Task.Reason)
	out.set("answered", t.Task.Answered)
	out.set("messages", append([]Message{}, t.Messages...))
	out.set("earlierMessages", t.Earlier)
	return out.members.Line()
}

// Next gives an agent its next task: the unfinished one that it was given last, unless it
// asks for another; else the most urgent one that waits for it; else the most urgent one of
// the shared queue, which the agent claims. It returns nil if nothing waits,
// and a *PausedError if a person paused the agent. On return the store, or without one the
// dispatch file, says durably that the task is taken. If we crash in between, Next gives
// the same task again, to be continued.
func (d *Desk) Next(ctx context.Context, a *pipeline.Agent, another bool) (taken *Taken, err error) {
	ch := choice{Desk: d, files: &workspaces{dir: d.Dir, wait: d.patience, lockWait: fileWait}, agent: a, another: another}
	ch.files.aside = func(_, path string) { d.Warn("dispatch file was not JSON; it was set aside as " + path) }
	if d.Store != nil {
		ch.files.store = d.Store
		if d.Carry != nil {
			if err := d.Carry(ctx); err != nil {
				return nil, err
			}
		}
		state, err := d.Store.Agent(ctx, a.Name)
		if err != nil {
			return nil, err
		}
		if state.Paused != nil {
			return nil, &PausedError{*state.Paused}
		}
		ch.process = processOf(d.Dir, a.Name).Running
		ch.stumbled = state.Stumbled
	}
	err = ch.files.edit(ctx, a.Workspace, d.Now(), func(f *File) error {
		ch.file = f
		for try := 1; ; try++ {
			taken, err = ch.takeOne(ctx)
			switch {
			case errors.Is(err, core.ErrEnding):
				return nil
			case !errors.Is(err, core.ErrOutdated) || try == takeTries:
				return err
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("dispatch file of %s: %w", a.Name, err)
	}
	crash.Point("next.picked")
	if err := ch.files.writeState(d.Agents, a, taken, d.Now()); err != nil {
		d.Warn("state file not written: " + err.Error()) // the task is taken: the file is for people
	}
	return taken, nil
}

// PausedError says that a person paused the agent, and that Next gives it no task.
type PausedError struct{ core.Pause }

func (e *PausedError) Error() string {
	return "paused: " + cmp.Or(e.Reason, e.By.String()+" paused this agent")
}

// takeTries bounds how often Next chooses anew because the chosen task changed at this
// moment.
const takeTries = 5

// choice chooses the task to give.
type choice struct {
	*Desk
	files    *workspaces
	agent    *pipeline.Agent
	another  bool
	file     *File
	tasks    []*core.Task            // from which to choose
	stumbled map[pipeline.TaskID]int // AgentState.Stumbled
	process  bool                    // a process of the agent's runs
}

// takeOne chooses a task, takes it and marks its entry; nil: nothing waits.
func (ch *choice) takeOne(ctx context.Context) (taken *Taken, err error) {
	if ch.Store == nil {
		ch.tasks = ch.fromFile()
	} else {
		ch.tasks, err = ch.Store.Tasks(ctx, core.Filter{Live: true, Agent: ch.agent.Name})
	}
	if err != nil {
		return nil, err
	}
	t := ch.choose()
	if t == nil {
		return ch.claim(ctx)
	}
	e := ch.entry(t)
	taken = &Taken{Task: t, Continue: ch.isTaken(t), Unstored: ch.Store == nil}
	if ch.Store != nil {
		if err := ch.take(ctx, taken, core.Take{By: core.TakenByNext}); err != nil {
			return nil, err
		}
	}
	crash.Point("next.noted")
	if e == nil {
		taken.entry = *entryOf(taken.Task)
		return taken, nil
	}
	if !e.Picked {
		e.set("picked", true)
	}
	e.set("attempt", max(e.Attempt, t.Dispatch.Attempt)) // else the mark would be stale
	taken.entry = *e
	return taken, nil
}

// take has the store note that the agent takes a task.
func (ch *choice) take(ctx context.Context, taken *Taken, how core.Action) error {
	take := core.Command{At: ch.Now(), By: core.ByAgent(ch.agent.Name), Task: taken.Task.ID, Do: how}
	if ch.process {
		take.Agent = ch.agent.Name
	}
	took, err := core.DoOne(ctx, ch.Store, take)
	if err != nil {
		return fmt.Errorf("%v: %w", taken.Task.ID, err)
	}
	taken.Task = took.Task
	taken.Messages, taken.Earlier, err = ch.thread(ctx, taken.Task, ch.agent.Name, took.Events[0].Seq)
	return err
}

// claim claims the most urgent task of the shared queue, and gives it an entry; nil: there
// is none. Of several agents that want one at once, one gets it, and the others the next.
func (ch *choice) claim(ctx context.Context) (*Taken, error) {
	if ch.Store == nil {
		return nil, nil // only the store knows who was first
	}
	tasks, err := ch.Store.Tasks(ctx, core.Filter{Live: true, Agent: pipeline.SharedQueue})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(tasks, func(a, b *core.Task) int {
		return cmp.Or(cmp.Compare(a.Priority.Rank(), b.Priority.Rank()), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	for _, t := range tasks {
		if !core.Claimable(t, ch.Now()) {
			continue
		}
		taken := &Taken{Task: t}
		err := ch.take(ctx, taken, core.Claim{Workspace: ch.agent.Workspace, Via: ch.agent.Trigger})
		if errors.Is(err, core.ErrOutdated) {
			continue
		}
		if err != nil {
			return nil, err
		}
		crash.Point("next.noted")
		e := entryOf(taken.Task)
		ch.file.Put(e)
		taken.entry = *e
		return taken, nil
	}
	return nil, nil
}

// choose returns the task to give; nil: there is none.
func (ch *choice) choose() *core.Task {
	if !ch.another {
		if t := ch.current(); t != nil {
			return t
		}
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
	waits := slices.DeleteFunc(slices.Clone(ch.tasks), func(t *core.Task) bool {
		return !ch.isOwn(t) || !t.Waiting() || ch.isTaken(t) || !t.Unfinished()
	})
	if len(waits) == 0 {
		return nil
	}
	return slices.MinFunc(waits, compareTurns)
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

// fromFile makes tasks from the entries of the agent, for a desk without a store.
func (ch *choice) fromFile() []*core.Task {
	state, _ := ch.files.state(ch.Agents, ch.agent) // without it, the mark on the oldest entry counts
	var tasks []*core.Task
	seen := map[pipeline.TaskID]bool{}
	for _, e := range ch.file.Entries() {
		if !core.SameAgent(e.Agent, ch.agent.Name) || seen[e.TaskID] {
			continue
		}
		seen[e.TaskID] = true
		t := ch.fromEntry(e)
		if e.Picked && state.TaskID != nil && *state.TaskID == t.ID {
			t.Heard = map[string]core.Heard{pipeline.FoldName(ch.agent.Name): {Given: ch.Now()}}
		}
		tasks = append(tasks, t)
	}
	return tasks
}

func (ch *choice) fromEntry(e *Entry) *core.Task {
	d := &core.Dispatch{Attempt: e.Attempt, Agent: ch.agent.Name, Workspace: ch.agent.Workspace}
	t := &core.Task{ID: e.TaskID, Agent: ch.agent.Name, RowID: e.RowID, Dispatch: d}
	r := &pipeline.Rendering{TaskID: e.TaskID, Agent: ch.agent.Name, Status: pipeline.Assigned}
	var titles []string
	for key, into := range map[string]any{
		"title": &t.Title, "priority": &t.Priority, "project": &t.Project, "type": &t.Type, "context": &t.Context, "inputFiles": &t.Inputs, "parent": &t.Parent,
		"dispatchedAt": &d.At, "question": &t.Question, "answer": &t.Reason,
	} {
		e.get(key, into)
	}
	t.Answered = t.Question != ""
	if !e.get("subtasks", &titles) {
		titles = nil // a part may be filled
	}
	for _, title := range titles {
		r.Steps = append(r.Steps, pipeline.Step{Title: title})
	}
	ch.Known(r)
	t.Status, t.Body = r.Status, r.Body
	if t.Status == pipeline.Pending { // one that waits for a retry has no entry
		t.Wait = &core.Wait{Why: core.WaitBusy}
	}
	for i, s := range r.Steps {
		t.Steps = append(t.Steps, core.Step{ID: i + 1, Title: s.Title, Done: s.Done})
	}
	// Nobody worked on it yet: it is given out although all its steps are ticked.
	d.AllTicked = !e.Picked && t.StepsDone() == len(t.Steps)
	return t
}
