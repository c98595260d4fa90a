package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"otm/internal/crash"
	"otm/internal/ordered"
	"otm/pipeline"
)

// Desk gives agents their tasks, for "otm next".
type Desk struct {
	Dir     string // the data directory
	Records pipeline.Records
	Agents  pipeline.Agents
	Now     func() time.Time
	// Said returns the agent's updates on a task that are still in the inbox, oldest
	// first.
	Said func(pipeline.TaskID) ([]Said, error)
	// Known returns the agent's tasks in the last snapshot of the board. Next calls
	// it only if nothing else waits, as reading all records takes long.
	Known func(*pipeline.Agent) ([]pipeline.TaskID, error)
	// Over reports whether a task is ended or put off in the last snapshot of the
	// board; nil: not known.
	Over func(pipeline.TaskID) bool
	// Warn reports a dispatch file that was set aside, and a record or state that
	// cannot be read.
	Warn func(string)

	files     *workspaces             // nil: Next makes its own
	stateLost bool                    // the agent's state file is missing
	stumbled  map[pipeline.TaskID]int // AgentState.Stumbled
}

// warnRecords warns once of each record that cannot be read.
type warnRecords struct {
	pipeline.Records
	warn   func(string)
	warned map[pipeline.TaskID]bool
}

// Load implements pipeline.Records.
func (w warnRecords) Load(id pipeline.TaskID) (*pipeline.Record, error) {
	r, err := w.Records.Load(id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !w.warned[id] {
		w.warned[id] = true
		w.warn(fmt.Sprintf("the record of %v cannot be read: %v", id, err))
	}
	return r, err
}

// Said is an update that is not on the board yet.
type Said struct {
	Status pipeline.Status
	Steps  []string // that were done
}

// Values of Dispatch.TakenBy: how OTM learned that the task was taken.
const (
	takenByNext = "otm next"
	takenByFile = "file"
)

// Taken is a task that an agent was given.
type Taken struct {
	Entry    Entry
	Continue bool   // the agent was given it before, and it is unfinished
	Done     []int  // numbers of the ticked steps, from 1
	Reason   string // the reason on the board
	Answered bool   // a person wrote Reason, not the agent
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

// Next gives an agent its next task: the unfinished one that it was given last,
// unless it asks for another; else the most urgent one in its dispatch file. It
// returns nil if nothing waits. On return the entry, if there is one, and the record
// say durably that the task is taken. If we crash in between, Next gives the same
// task again, to be continued.
func (d *Desk) Next(ctx context.Context, a *pipeline.Agent, another bool) (*Taken, error) {
	own := *d
	state, err := LoadAgentState(d.Dir, a.Name)
	if err != nil {
		d.Warn("the task that was given last comes first: " + err.Error())
	}
	own.stumbled = state.Stumbled
	if own.files == nil {
		own.files = &workspaces{dir: d.Dir}
	}
	own.Records = warnRecords{d.Records, d.Warn, map[pipeline.TaskID]bool{}}
	return own.next(ctx, a, another)
}

func (d *Desk) next(ctx context.Context, a *pipeline.Agent, another bool) (*Taken, error) {
	state, err := d.files.state(d.Agents, a)
	d.stateLost = errors.Is(err, fs.ErrNotExist)
	var taken *Taken
	err = d.files.edit(ctx, a.Workspace, d.Now(), fileWait, func(f *File) error {
		if err := d.restore(f, a); err != nil {
			return err
		}
		var err error
		if !another {
			if taken, err = d.current(f, a, state.TaskID); taken != nil || err != nil {
				return err
			}
		}
		if taken, err = d.pick(f, a); taken == nil && err == nil && !another {
			taken, err = d.forgotten(f, a)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dispatch file of %s: %w", a.Name, err)
	}
	crash.Point("next.picked")
	if taken != nil {
		if err := d.note(ctx, a, taken); err != nil {
			return nil, err
		}
	}
	crash.Point("next.noted")
	if err := d.files.writeState(d.Agents, a, taken, d.Now()); err != nil {
		d.Warn("state file not written: " + err.Error()) // the task is taken: the file is for people
	}
	return taken, nil
}

// restore fills a dispatch file that was set aside with the open tasks.
func (d *Desk) restore(f *File, a *pipeline.Agent) error {
	if f.Aside == "" {
		return nil
	}
	d.Warn("dispatch file was not JSON; it was set aside as " + filepath.Base(f.Aside))
	return beginAnew(f, d.Records, d.Agents, d.files, a.Workspace)
}

// beginAnew puts the open tasks of a workspace's agents into its new dispatch file,
// by their records.
func beginAnew(f *File, records pipeline.Records, agents pipeline.Agents, files *workspaces, workspace string) error {
	ids, err := records.IDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		r, err := records.Load(id)
		if err != nil || r.Dispatch == nil || !r.Status.Active() {
			continue // an unreadable record must not block the others
		}
		a := agents.Named(r.Dispatch.Agent)
		if a != nil && a.Workspace != "" && samePlace(files.identity, a.Workspace, workspace) {
			f.Put(entryOf(r))
		}
	}
	return nil
}

// current returns the unfinished task to continue; nil: there is none. It is the one
// that the agent was given last. If the last run ended without progress on that,
// another task comes first, so that a task that breaks every run does not block the
// others.
func (d *Desk) current(f *File, a *pipeline.Agent, stated *pipeline.TaskID) (*Taken, error) {
	last, err := d.lastGiven(f, a, stated)
	if last == nil || err != nil || d.stumbled[last.Entry.TaskID] == 0 {
		return last, err
	}
	if other, err := d.pick(f, a); other != nil || err != nil {
		return other, err
	}
	for _, id := range idsIn(f, a) {
		if d.stumbled[id] >= d.stumbled[last.Entry.TaskID] {
			continue
		}
		if t, err := d.lastTaken(f, a, id); err != nil {
			return nil, err
		} else if t != nil {
			last = t
		}
	}
	return last, nil
}

// lastGiven returns the task that the agent was given last if it is unfinished; nil:
// there is none. The state file names it. Otherwise it is the one taken last of the
// tasks in the dispatch file, or of all tasks if the state file is missing.
func (d *Desk) lastGiven(f *File, a *pipeline.Agent, stated *pipeline.TaskID) (*Taken, error) {
	if stated != nil {
		if t, err := d.lastTaken(f, a, *stated); t != nil || err != nil {
			return t, err
		}
	}
	candidates := idsIn(f, a)
	if d.stateLost {
		all, err := d.Records.IDs()
		if err != nil {
			return nil, err
		}
		candidates = append(candidates, all...)
	}
	return d.lastTaken(f, a, candidates...)
}

// idsIn returns the tasks of an agent in a dispatch file.
func idsIn(f *File, a *pipeline.Agent) (ids []pipeline.TaskID) {
	for _, e := range f.Entries() {
		if sameAgent(e.Agent, a.Name) {
			ids = append(ids, e.TaskID)
		}
	}
	return ids
}

// forgotten returns the unfinished task that the agent took last, of its tasks on
// the board; nil: there is none. Only the record knows the task if we crashed before
// the state file was written and the dispatch file was lost.
func (d *Desk) forgotten(f *File, a *pipeline.Agent) (*Taken, error) {
	ids, err := d.Known(a)
	if err != nil {
		return nil, fmt.Errorf("its tasks on the board: %w", err)
	}
	return d.lastTaken(f, a, ids...)
}

// lastTaken returns the unfinished task that the agent took last, of some tasks;
// nil: there is none.
func (d *Desk) lastTaken(f *File, a *pipeline.Agent, candidates ...pipeline.TaskID) (*Taken, error) {
	var last *Taken
	var lastAt time.Time
	for _, id := range candidates {
		r, err := d.Records.Load(id)
		if err != nil {
			continue // an unreadable record must not block the others
		}
		t, at, err := d.unfinished(f, a, r)
		if err != nil {
			return nil, err
		}
		if t != nil && (last == nil || at.After(lastAt)) {
			last, lastAt = t, at
		}
	}
	return last, nil
}

// unfinished returns a task that the agent took and has not finished, and when it
// was taken; nil: it is no such task.
func (d *Desk) unfinished(f *File, a *pipeline.Agent, r *pipeline.Record) (*Taken, time.Time, error) {
	e := f.Find(r.TaskID, a.Name)
	if !isTaken(r, e, a) || isSentBack(r) || d.isOver(r.TaskID) {
		return nil, time.Time{}, nil
	}
	r, err := d.withSaid(r)
	if err != nil || !r.Unfinished() {
		return nil, time.Time{}, err
	}
	t := takenOf(e, r)
	t.Continue = true
	at := t.Entry.DispatchedAt
	if r.Dispatch != nil && r.Dispatch.TakenAt != nil {
		at = *r.Dispatch.TakenAt
	}
	return t, at, nil
}

// isOver reports whether the board shows a task as ended or put off. The record may
// not say so yet.
func (d *Desk) isOver(id pipeline.TaskID) bool { return d.Over != nil && d.Over(id) }

// isTaken reports whether the agent took a task, by the record or by the mark in the
// dispatch file.
func isTaken(r *pipeline.Record, e *Entry, a *pipeline.Agent) bool {
	switch d := r.Dispatch; {
	case d == nil:
		return r.Attempt == 0 && e != nil && e.Picked // the record was lost
	case !sameAgent(d.Agent, a.Name):
		return false
	default:
		return d.TakenAt != nil || e != nil && e.Picked && !e.stale(d.Attempt)
	}
}

// isSentBack reports whether a task was sent back and is not dispatched anew yet.
func isSentBack(r *pipeline.Record) bool {
	return r.Status == pipeline.New && r.Dispatch != nil && r.Dispatch.FlippedAt != nil
}

// belongsTo reports whether the record allows to give a task to an agent: a person
// has neither given it to another nor taken it back.
func belongsTo(r *pipeline.Record, a *pipeline.Agent) bool {
	if r.Dispatch == nil {
		return r.Attempt == 0 // the record was lost
	}
	return sameAgent(r.Dispatch.Agent, a.Name) && !isSentBack(r)
}

// pick marks the most urgent entry that is not taken and not done, and returns its
// task; nil: there is none.
func (d *Desk) pick(f *File, a *pipeline.Agent) (*Taken, error) {
	entries := f.Entries()
	slices.SortStableFunc(entries, byUrgency)
	for _, e := range entries {
		if !sameAgent(e.Agent, a.Name) {
			continue
		}
		r, err := d.Records.Load(e.TaskID)
		if err != nil {
			r = recordOf(e)
		}
		if isTaken(r, e, a) || !belongsTo(r, a) || d.isOver(e.TaskID) {
			continue
		}
		if r, err = d.withSaid(r); err != nil {
			return nil, err
		}
		if r.Unfinished() {
			e.Picked = true
			if r.Dispatch != nil {
				e.Attempt = max(e.Attempt, r.Dispatch.Attempt) // else the mark would be stale
			}
			return takenOf(e, r), nil
		}
	}
	return nil, nil
}

// recordOf makes up a record from an entry if the real one cannot be read.
func recordOf(e *Entry) *pipeline.Record {
	r := &pipeline.Record{TaskID: e.TaskID, Status: pipeline.Assigned}
	for _, title := range e.Steps {
		r.Steps = append(r.Steps, pipeline.StepRecord{Title: title})
	}
	return r
}

// withSaid returns a record with the agent's updates in the inbox applied. It does
// not change r.
func (d *Desk) withSaid(r *pipeline.Record) (*pipeline.Record, error) {
	said, err := d.Said(r.TaskID)
	if err != nil || len(said) == 0 {
		return r, err
	}
	after := *r
	after.Steps = slices.Clone(r.Steps)
	for _, u := range said {
		if u.Status != "" {
			after.Status = u.Status
		}
		for _, title := range u.Steps {
			if i := pipeline.FindStep(after.PlainSteps(), title); i >= 0 {
				after.Steps[i].Done = true
			}
		}
	}
	return &after, nil
}

// takenOf returns a task for an agent: its entry, with the steps of the record.
func takenOf(e *Entry, r *pipeline.Record) *Taken {
	t := &Taken{Reason: r.Reason, Answered: r.Answered}
	if e != nil {
		t.Entry = *e
	} else {
		t.Entry = entryOf(r)
	}
	t.Entry.Picked, t.Entry.Steps = true, stepTitles(r)
	for i, s := range r.Steps {
		if s.Done {
			t.Done = append(t.Done, i+1)
		}
	}
	return t
}

// note writes into the record that the agent took the task, durably.
func (d *Desk) note(ctx context.Context, a *pipeline.Agent, t *Taken) error {
	now := d.Now()
	_, err := d.Records.Change(ctx, t.Entry.TaskID, func(r *pipeline.Record) error {
		if r.Dispatch == nil || !sameAgent(r.Dispatch.Agent, a.Name) {
			return pipeline.ErrUnchanged
		}
		r.Hear(a.Name, now, func(h *pipeline.Heard) { h.Given = now })
		if r.Dispatch.TakenAt != nil { // it is continued, or the dispatcher saw our mark first
			r.Dispatch.TakenBy = takenByNext
			return nil
		}
		r.Hear(a.Name, now, func(h *pipeline.Heard) { h.Took = now })
		r.Dispatch.TakenAt, r.Dispatch.TakenBy = &now, takenByNext
		r.Note(now, pipeline.WhoAgent(a.Name), pipeline.EventTaken, takenByNext)
		return nil
	})
	return err
}
