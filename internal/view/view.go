// Package view is the read model: everything that a reader needs to know about
// a data directory and its board, read once and indexed once. The commands that
// tell how things stand, the page and the checks build on it.
//
// A view is a snapshot. It calls no board and no gateway, takes no lock that it
// would wait for, and changes nothing. It is for one goroutine.
package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/pipeline"
	"otm/pipeline/task"
	"otm/slacklist"
)

// Sources say what a view is made from.
type Sources struct {
	Dir    string // the data directory
	LogDir string // where the logs are, for next steps
	Agents pipeline.Agents
	Times  pipeline.Times
	Runner Runner
	Now    time.Time
	// Records reads the tasks' records. Nil: they are read from Dir.
	Records *task.Store
	// Snapshot is the board as the caller has it. Nil: as it was last read.
	Snapshot *slacklist.Snapshot
	Budget   float64 // see slacklist.ReadSnapshot; used where Snapshot is nil
	Config   string  // the sum of the present otm.toml, as heartbeats hold it; "": not known
	Embedded bool    // the board is the embedded one, which has a page
	// CountOnly leaves the contents of inbox and failed files unread: tasks then
	// say nothing about them.
	CountOnly bool
	// Workspaces is what LookAtWorkspaces returned. Nil: they are looked at when
	// they are asked for.
	Workspaces map[string]*explain.Finding
}

// Runner is what keeps the components running.
type Runner struct {
	Installed bool   // otm install wrote units for this directory
	Start     string // the command that starts the components
	Apply     string // what makes them take up a changed otm.toml
}

// View is a data directory and its board at one time.
type View struct {
	Sources
	Board
	Inbox
	Components []Component    // those that should run, in the order in which people read them
	Link       *dispatch.Link // the dispatcher's connection to the gateway; nil: it keeps none, or nobody knows

	records   map[pipeline.TaskID]loaded // that were read
	owners    map[string]pipeline.TaskID // tasks by row, as the records say; nil: not read yet
	ownersErr error                      // why owners may be incomplete
	agents    map[string]*Agent          // those that were asked for
	outlooks  *dispatch.Outlooks
}

// Load reads the directory. The error is one of reading a folder, or the
// board's snapshot; a single file that cannot be read is noted in Unread.
func Load(ctx context.Context, s Sources) (*View, error) {
	if s.Records == nil {
		s.Records = task.Open(s.Dir, nil)
	}
	if s.Snapshot == nil {
		snap, err := slacklist.ReadSnapshot(s.Dir, s.Budget, s.Now)
		if err != nil {
			return nil, err
		}
		s.Snapshot = snap
	}
	v := &View{
		Sources: s, Board: indexed(s.Snapshot),
		agents: map[string]*Agent{}, records: map[pipeline.TaskID]loaded{},
		outlooks: &dispatch.Outlooks{Dir: s.Dir, Agents: s.Agents, Records: s.Records, Now: s.Now, Times: s.Times, Wait: patience.Reader},
	}
	var err error
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
			v.Link = &link
		}
	}
	return v, context.Cause(ctx)
}

// IDs lists the tasks about which anything is known, in ascending order.
func (v *View) IDs() ([]pipeline.TaskID, error) {
	ids, err := v.Records.IDs()
	if err != nil {
		return nil, err
	}
	ids = slices.AppendSeq(ids, maps.Keys(v.bearers))
	ids = slices.AppendSeq(ids, maps.Keys(v.failedCreates))
	ids = slices.AppendSeq(ids, maps.Keys(v.updates))
	ids = slices.AppendSeq(ids, maps.Keys(v.failedUpdates))
	for _, c := range v.Creates {
		ids = append(ids, c.Task.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Component returns a component by its id.
func (v *View) Component(id string) *Component {
	for i := range v.Components {
		if v.Components[i].ID == id {
			return &v.Components[i]
		}
	}
	return &Component{ID: id, State: heartbeat.NotInstalled, Health: heartbeat.NotInstalled}
}

// AnyResident reports whether a process stays for any component.
func (v *View) AnyResident() bool {
	for i := range v.Components {
		if v.Components[i].Resident {
			return true
		}
	}
	return false
}
