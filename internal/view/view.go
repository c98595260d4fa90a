// Package view is the read model: everything that a reader needs to know about
// a data directory and its board, read once and indexed once. The commands that
// tell how things stand, the page and the checks build on it.
//
// A view is a snapshot, but for the tasks in the store: they are read when they are
// asked for. It calls no board and no gateway, takes no lock that it would wait for, and
// changes nothing. It is for one goroutine.
package view

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/pipeline"
	"otm/slacklist"
)

// Sources say what a view is made from.
type Sources struct {
	Dir    string // the data directory
	LogDir string // where the logs are, for next steps
	Agents pipeline.Agents
	// AgentsErr is why agents are not known that openclaw.json names; nil: they are.
	AgentsErr error
	Times     pipeline.Times
	Types     pipeline.Types
	Runner    Runner
	Now       time.Time
	Store     Store
	// Snapshot is the board as the caller has it. Nil: as it was last read.
	Snapshot *slacklist.Snapshot
	Config   string // the sum of the present otm.toml, as heartbeats hold it; "": not known
	// CountOnly leaves the contents of inbox and failed files unread: tasks then
	// say nothing about them.
	CountOnly bool
	Untold    []explain.Finding // of outlets that take nothing
	Disk      *explain.Finding  // why the data directory takes no more files; nil: it takes them
}

// Store is the store as a view reads it.
type Store interface {
	core.Reader
	Pending(ctx context.Context, sink core.Sink, tasks ...pipeline.TaskID) ([]core.Pending, error)
}

// Runner is what keeps the components running.
type Runner struct {
	Installed bool   // otm install wrote units for this directory
	Start     string // the command that starts the components
	Flag      string // what a program is to be given to find the directory: " --dir …", or ""
	Others    bool   // some program, or the embedded board, stays here already
	Apply     string // what makes them take up a changed otm.toml
}

// StartOf is the command that starts a program that does not run: Start, or the program itself
// if others run without it, as Start is refused then.
func (r Runner) StartOf(program string) string {
	if r.Installed || !r.Others {
		return r.Start
	}
	return program + r.Flag
}

// View is a data directory and its board at one time.
type View struct {
	Sources
	Board
	Inbox
	Components []Component    // those that should run, in the order in which people read them
	Link       *dispatch.Link // the dispatcher's connection to the gateway; nil: it keeps none, or nobody knows

	ctx      context.Context                // of Load
	err      error                          // see Err
	states   map[pipeline.TaskID]*core.Task // that were read; nil: the store does not know it
	owners   map[string]pipeline.TaskID     // tasks by row, as far as they were read; 0: it is no task's
	pending  map[pipeline.TaskID][]core.Pending
	late     []explain.Finding // about effects that have waited too long to be delivered
	agents   map[string]*Agent // those that were asked for
	outlooks *dispatch.Outlooks
	// workspaces is what LookAtWorkspaces returned; nil: nobody asked for it yet.
	workspaces map[string]*explain.Finding
}

// Load reads the directory. The error is one of reading a folder, or the
// board's snapshot; a single file that cannot be read is noted in Unread.
func Load(ctx context.Context, s Sources) (*View, error) {
	if s.Snapshot == nil {
		snap, err := slacklist.ReadSnapshot(s.Dir)
		if err != nil {
			return nil, err
		}
		s.Snapshot = snap
	}
	v := &View{
		Sources: s, Board: indexed(s.Snapshot),
		ctx: ctx, agents: map[string]*Agent{}, states: map[pipeline.TaskID]*core.Task{}, owners: map[string]pipeline.TaskID{},
		pending:  map[pipeline.TaskID][]core.Pending{},
		outlooks: &dispatch.Outlooks{Dir: s.Dir, Agents: s.Agents, Store: s.Store, Now: s.Now, Times: s.Times, Types: s.Types, Wait: patience.Reader},
	}
	pending, err := s.Store.Pending(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, p := range pending {
		v.pending[p.Task] = append(v.pending[p.Task], p)
	}
	v.late = outbox.Late(pending, s.Now)
	if v.Inbox, err = readFiles(s.Dir, s.CountOnly); err != nil {
		return nil, err
	}
	v.Components = Components(s)
	for i := range v.Components {
		if c := &v.Components[i]; c.Err != nil {
			v.Unread = append(v.Unread, fmt.Errorf("the heartbeat of %s cannot be read: %w", c.ID, c.Err))
		}
	}
	if c := v.Component(heartbeat.Dispatcher); c.Resident && c.State == heartbeat.Green { // else it is what a dead one left
		if link, err := dispatch.ReadLink(s.Dir); err == nil {
			v.Link, v.outlooks.Link = &link, &link
		}
	}
	return v, context.Cause(ctx)
}

// Err is the first error of reading tasks from the store. Who asked for tasks asks for
// it at the end.
func (v *View) Err() error { return v.err }

// read reads the tasks that a filter selects.
func (v *View) read(f core.Filter) []*core.Task {
	tasks, err := v.Store.Tasks(v.ctx, f)
	v.err = cmp.Or(v.err, err)
	for _, t := range tasks {
		v.states[t.ID] = t
		if t.RowID != "" {
			v.owners[t.RowID] = t.ID
		}
	}
	return tasks
}

// own reads the tasks whose rows these are.
func (v *View) own(rows ...*pipeline.Row) {
	var ids []string
	for _, r := range rows {
		if _, known := v.owners[r.ID]; !known {
			ids, v.owners[r.ID] = append(ids, r.ID), 0
		}
	}
	for some := range slices.Chunk(ids, 500) {
		v.read(core.Filter{Rows: some})
	}
}

// IDs lists the tasks that are not over, or about which the board, an inbox or a failed
// file says something, in ascending order.
func (v *View) IDs() []pipeline.TaskID {
	ids := pipeline.Map(v.read(core.Filter{Live: true}), func(t *core.Task) pipeline.TaskID { return t.ID })
	ids = slices.AppendSeq(ids, maps.Keys(v.Bearers))
	ids = slices.AppendSeq(ids, maps.Keys(v.failedCreates))
	ids = slices.AppendSeq(ids, maps.Keys(v.updates))
	ids = slices.AppendSeq(ids, maps.Keys(v.failedUpdates))
	ids = append(ids, pipeline.Map(v.Creates, func(c Create) pipeline.TaskID { return c.Task.ID })...)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Component returns a component by its id.
func (v *View) Component(id string) *Component {
	if c := pipeline.Find(v.Components, func(c *Component) bool { return c.ID == id }); c != nil {
		return c
	}
	return &Component{ID: id, State: heartbeat.NotInstalled, Health: heartbeat.NotInstalled}
}

// AnyResident reports whether a process stays for any component.
func (v *View) AnyResident() bool {
	return pipeline.Find(v.Components, func(c *Component) bool { return c.Resident }) != nil
}

// History is what happened to a task, oldest first. Nothing is known of one that the
// store does not know. Where an archive is damaged, the first line says so.
func (v *View) History(id pipeline.TaskID) ([]Line, error) {
	if id == 0 {
		return nil, nil
	}
	events, damage, err := core.EventsAtHand(v.ctx, v.Store, core.EventFilter{Task: id})
	lines := Lines(events)
	if damage != nil {
		missing := Line{At: v.Now, Who: "otm", What: "earlier events cannot be read", Detail: damage.Error()}
		if len(lines) > 0 {
			missing.At = lines[0].At
		}
		lines = slices.Insert(lines, 0, missing)
	}
	return lines, err
}
