package dispatch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"otm/internal/crash"
	"otm/pipeline"
)

// Desk is where an agent takes its tasks: what "otm next" does.
type Desk struct {
	Dir     string // the data directory
	Records pipeline.Records
	Agents  pipeline.Agents
	Now     func() time.Time
	// Said returns what the agent has said about a task in updates that are
	// still in the inbox, oldest first.
	Said func(pipeline.TaskID) ([]Said, error)
	// Warn is told when a dispatch file was set aside.
	Warn func(string)
}

// Said is an update that is not on the board yet.
type Said struct {
	Status pipeline.Status
	Steps  []string
}

const takenByNext = "otm next"

// Taken is a task that an agent was given.
type Taken struct {
	Entry    Entry
	Continue bool  // it was given before, and is unfinished
	Done     []int // numbers of the steps that are ticked, from 1
}

// Next gives an agent its next task: the one that it was given last, while
// that is unfinished, unless another is asked for; else the most urgent of its
// dispatch file. It returns nil where nothing waits. On return the entry is
// marked as picked, durably, and the record says so.
func (d *Desk) Next(ctx context.Context, a *pipeline.Agent, another bool) (*Taken, error) {
	state, _ := readState(statePath(d.Agents, a))
	var taken *Taken
	err := Edit(ctx, d.Dir, a.Workspace, d.Now(), func(f *File) error {
		if err := d.restore(f, a); err != nil {
			return err
		}
		var err error
		if !another {
			if taken, err = d.current(f, a, state.TaskID); taken != nil || err != nil {
				return err
			}
		}
		taken, err = d.pick(f, a)
		return err
	})
	if err != nil {
		return nil, err
	}
	crash.Point("next.picked")
	if taken != nil {
		if err := d.note(ctx, a, taken); err != nil {
			return nil, err
		}
	}
	return taken, d.writeState(a, taken)
}

// restore fills a dispatch file that was set aside with what the records say
// is open, so that an agent does not find its desk empty.
func (d *Desk) restore(f *File, a *pipeline.Agent) error {
	if f.Aside == "" {
		return nil
	}
	d.Warn("dispatch file was not JSON; it was set aside as " + filepath.Base(f.Aside))
	records, err := d.open(a)
	for _, r := range records {
		f.Put(entryOf(r))
	}
	return err
}

// open reads the records of all tasks that are dispatched to an agent.
func (d *Desk) open(a *pipeline.Agent) ([]*pipeline.Record, error) {
	ids, err := d.Records.IDs()
	if err != nil {
		return nil, err
	}
	var open []*pipeline.Record
	for _, id := range ids {
		r, err := d.Records.Load(id)
		if err != nil {
			continue // one bad record does not keep the others
		}
		if r.Dispatch != nil && r.Dispatch.Agent == a.Name && r.Status.Active() {
			open = append(open, r)
		}
	}
	return open, nil
}

// current returns the task that the agent was given last, if it is unfinished.
// Where the agent has lost its state file, it is among the picked entries;
// where these are gone as well, the records tell.
func (d *Desk) current(f *File, a *pipeline.Agent, stated *pipeline.TaskID) (*Taken, error) {
	var candidates []*pipeline.Record
	for _, e := range f.Entries() {
		if e.Picked && pipeline.FoldName(e.Agent) == pipeline.FoldName(a.Name) {
			if r, err := d.Records.Load(e.TaskID); err == nil {
				candidates = append(candidates, r)
			}
		}
	}
	if stated != nil {
		if r, err := d.Records.Load(*stated); err == nil {
			candidates = append(candidates, r)
		}
	}
	if len(candidates) == 0 {
		if _, err := os.Stat(statePath(d.Agents, a)); errors.Is(err, fs.ErrNotExist) {
			if candidates, err = d.open(a); err != nil {
				return nil, err
			}
		}
	}
	var last *Taken
	var lastAt time.Time
	for _, r := range candidates {
		e := f.Find(r.TaskID, a.Name)
		picked := e != nil && e.Picked
		if r.Dispatch == nil || r.Dispatch.Agent != a.Name || r.Dispatch.TakenAt == nil && !picked {
			continue
		}
		if r.Status == pipeline.New && r.Dispatch.FlippedAt != nil {
			continue // sent back, and not dispatched anew yet
		}
		r, err := d.withSaid(r)
		if err != nil {
			return nil, err
		}
		if !r.Unfinished() {
			continue
		}
		at := r.Dispatch.At
		if r.Dispatch.TakenAt != nil {
			at = *r.Dispatch.TakenAt
		}
		if last == nil || at.After(lastAt) {
			last, lastAt = takenOf(e, r), at
			last.Continue = true
		}
	}
	return last, nil
}

// pick marks the most urgent entry that nobody has taken and that is still to
// be done.
func (d *Desk) pick(f *File, a *pipeline.Agent) (*Taken, error) {
	entries := f.Entries()
	slices.SortStableFunc(entries, byUrgency)
	for _, e := range entries {
		if e.Picked || pipeline.FoldName(e.Agent) != pipeline.FoldName(a.Name) {
			continue
		}
		r, err := d.Records.Load(e.TaskID)
		if err != nil {
			r = &pipeline.Record{TaskID: e.TaskID, Status: pipeline.Assigned}
			for _, title := range e.Steps {
				r.Steps = append(r.Steps, pipeline.StepRecord{Title: title})
			}
		}
		if r, err = d.withSaid(r); err != nil {
			return nil, err
		}
		if !r.Unfinished() {
			continue
		}
		e.Picked = true
		return takenOf(e, r), nil
	}
	return nil, nil
}

// withSaid returns a copy of a record with what the agent has said since.
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

// takenOf is a task as it is given to an agent: the entry, with the steps as
// the record has them now.
func takenOf(e *Entry, r *pipeline.Record) *Taken {
	t := &Taken{}
	switch {
	case e != nil:
		t.Entry = *e
	case r.Dispatch != nil:
		t.Entry = entryOf(r)
		t.Entry.Picked = true
	}
	t.Entry.Steps = nil
	for i, s := range r.Steps {
		t.Entry.Steps = append(t.Entry.Steps, s.Title)
		if s.Done {
			t.Done = append(t.Done, i+1)
		}
	}
	return t
}

// note writes into the record that the agent took the task.
func (d *Desk) note(ctx context.Context, a *pipeline.Agent, t *Taken) error {
	now := d.Now()
	_, err := d.Records.Change(ctx, t.Entry.TaskID, func(r *pipeline.Record) error {
		if r.Dispatch == nil || r.Dispatch.TakenBy == takenByNext {
			return pipeline.ErrUnchanged
		}
		if r.Dispatch.TakenAt != nil { // the dispatcher saw our mark first
			r.Dispatch.TakenBy = takenByNext
			return nil
		}
		r.Dispatch.TakenAt, r.Dispatch.TakenBy = &now, takenByNext
		r.Note(now, "agent "+a.Name, "taken", takenByNext)
		return nil
	})
	return err
}

func (d *Desk) writeState(a *pipeline.Agent, t *Taken) error {
	path := statePath(d.Agents, a)
	now := d.Now().UTC()
	if t == nil {
		return writeState(path, agentState{Status: "idle", Since: now})
	}
	if s, ok := readState(path); ok && t.Continue && s.Status == "working" && s.TaskID != nil && *s.TaskID == t.Entry.TaskID {
		return nil
	}
	return writeState(path, agentState{Status: "working", TaskID: &t.Entry.TaskID, Since: now})
}
