// Package view is the read model: everything that a reader needs to know about
// a data directory and its board, read once and indexed once. The commands that
// tell how things stand, the page and the checks build on it.
//
// A view is a snapshot. It calls no board and no gateway, takes no lock that it
// would wait for, and changes nothing. It is for one goroutine.
package view

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
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
	Timers    bool   // the units are timers: no process stays
	Start     string // the command that starts the components
	Apply     string // what makes them take up a changed otm.toml
}

// View is a data directory and its board at one time.
type View struct {
	Sources
	Board      *slacklist.Snapshot
	Components []Component // those that should run, in the order in which people read them
	Creates    []Create    // new tasks that wait in the inbox, in the order of their names
	Inbox      Inbox
	Unread     []error        // files that could not be read: nothing follows from what they may hold
	Link       *dispatch.Link // the dispatcher's connection to the gateway; nil: it keeps none, or nobody knows

	tops    []*pipeline.Row // rows that are no steps, in the order of the board
	byID    map[string]*pipeline.Row
	bearers map[pipeline.TaskID][]*pipeline.Row // rows by the task id they bear
	steps   map[string][]*pipeline.Row          // by parent

	updates       map[pipeline.TaskID][]time.Time // when the waiting updates came
	failedCreates map[pipeline.TaskID]*inbox.Settled
	failedUpdates map[pipeline.TaskID][]*inbox.Settled

	records   map[pipeline.TaskID]loaded // that were read
	owners    map[string]pipeline.TaskID // tasks by row, as the records say; nil: not read yet
	ownersErr error                      // why owners may be incomplete
	agents    map[string]*Agent          // those that were asked for
	outlooks  *dispatch.Outlooks
}

// Create is a new task that waits in the inbox.
type Create struct {
	*drop.Create
	At time.Time // when it was delivered
}

// Inbox counts what waits, readable or not, and what failed.
type Inbox struct {
	Waiting map[inbox.Kind]int
	Oldest  time.Time // when the oldest that waits was delivered; zero: nothing waits
	Failed  []string  // the names of the files in failed/, in their order
}

// Failure is a file in failed/.
type Failure struct {
	Name string
	inbox.Settled
	Err error // why it could not be read
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
		Sources: s, Board: s.Snapshot,
		byID: map[string]*pipeline.Row{}, bearers: map[pipeline.TaskID][]*pipeline.Row{}, steps: map[string][]*pipeline.Row{},
		updates: map[pipeline.TaskID][]time.Time{}, failedCreates: map[pipeline.TaskID]*inbox.Settled{}, failedUpdates: map[pipeline.TaskID][]*inbox.Settled{},
		agents: map[string]*Agent{}, records: map[pipeline.TaskID]loaded{},
		outlooks: &dispatch.Outlooks{Dir: s.Dir, Agents: s.Agents, Records: s.Records, Now: s.Now, Times: s.Times},
	}
	for i := range v.Board.Rows {
		v.addRow(&v.Board.Rows[i])
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
	return v, errors.Join(v.readInboxes(), v.readFailed(), context.Cause(ctx))
}

func (v *View) addRow(r *pipeline.Row) {
	v.byID[r.ID] = r
	if r.Parent != "" {
		v.steps[r.Parent] = append(v.steps[r.Parent], r)
		return
	}
	v.tops = append(v.tops, r)
	if id := r.Task(); id != 0 {
		v.bearers[id] = append(v.bearers[id], r)
	}
}

func (v *View) readInboxes() error {
	box := inbox.Open(v.Dir)
	v.Inbox.Waiting = map[inbox.Kind]int{}
	for _, kind := range inbox.Kinds {
		files, err := box.List(kind)
		if err != nil {
			return err
		}
		v.Inbox.Waiting[kind] = len(files)
		for _, f := range files {
			at := f.Info.ModTime()
			if v.Inbox.Oldest.IsZero() || at.Before(v.Inbox.Oldest) {
				v.Inbox.Oldest = at
			}
			if !f.Regular() || v.CountOnly {
				continue
			}
			switch data, _, err := box.Read(f); {
			case err == nil:
				v.addDrop(kind, data, at)
			case !errors.Is(err, fs.ErrNotExist): // else it was settled meanwhile
				v.Unread = append(v.Unread, fmt.Errorf("%s/%s cannot be read: %w", kind, f.Name, err))
			}
		}
	}
	return nil
}

// addDrop notes a drop that waits. One that cannot be parsed is the injector's
// to judge.
func (v *View) addDrop(kind inbox.Kind, data []byte, at time.Time) {
	if kind == inbox.TaskUpdates {
		if u, err := drop.ParseUpdate(data); err == nil {
			v.updates[u.TaskID] = append(v.updates[u.TaskID], at)
		}
		return
	}
	if c, err := drop.ParseCreate(data); err == nil {
		v.Creates = append(v.Creates, Create{c, at})
	}
}

func (v *View) readFailed() (err error) {
	if v.Inbox.Failed, err = inbox.Open(v.Dir).SettledNames(inbox.FailedDir); err != nil || v.CountOnly {
		return err
	}
	for _, f := range v.failures(v.Inbox.Failed) {
		switch id := f.TaskID(); {
		case f.Err != nil:
			v.Unread = append(v.Unread, fmt.Errorf("%s/%s cannot be read: %w", inbox.FailedDir, f.Name, f.Err))
		case f.Object == nil || id == 0:
		case f.Result.Inbox == inbox.NewTasks:
			v.failedCreates[id] = &f.Settled
		case f.Result.Inbox == inbox.TaskUpdates:
			v.failedUpdates[id] = append(v.failedUpdates[id], &f.Settled)
		}
	}
	return nil
}

// failures reads files in failed/, without those that somebody put back
// meanwhile.
func (v *View) failures(names []string) []Failure {
	var failed []Failure
	box := inbox.Open(v.Dir)
	for _, name := range names {
		switch f, err := box.ReadSettled(inbox.FailedDir, name); {
		case err == nil:
			failed = append(failed, Failure{Name: name, Settled: *f})
		case !errors.Is(err, fs.ErrNotExist):
			failed = append(failed, Failure{Name: name, Err: err})
		}
	}
	return failed
}

// Failures reads the files that failed last, at most n of them, the newest
// first.
func (v *View) Failures(n int) []Failure {
	failed := v.failures(v.Inbox.Failed[max(0, len(v.Inbox.Failed)-n):])
	slices.Reverse(failed)
	return failed
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

// Waits returns the longest time for which the board's rate limit holds off one
// of the methods; ok is false where it holds off none.
func (v *View) Waits(methods ...string) (l slacklist.Limited, ok bool) {
	for _, l := range v.Board.Limits {
		if slices.Contains(methods, l.Method) {
			return l, true
		}
	}
	return l, false
}

// Full reports whether the list takes no more rows, as far as its size is
// known.
func (v *View) Full() bool { return v.Board.Limit > 0 && v.Board.Count >= v.Board.Limit }

// NearlyFull reports whether a tenth or less of the list is free.
func (v *View) NearlyFull() bool { return v.Board.Limit > 0 && v.Board.Count*10 >= v.Board.Limit*9 }

// ManyRows is the size from which on a list's limit is one that nobody reaches:
// the embedded board names a million.
const ManyRows = 100_000

// RowLimit is how many rows the list may hold; 0: unknown, or so many that
// nobody reaches the limit.
func (v *View) RowLimit() int {
	if v.Board.Limit >= ManyRows {
		return 0
	}
	return v.Board.Limit
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
