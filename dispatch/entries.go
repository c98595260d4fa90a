package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"sync"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/internal/crash"
	"otm/pipeline"
)

// Entries is the sink of the entries in dispatch files: the file of a workspace holds
// an entry for each open task of its agents. It is safe for use by several goroutines.
type Entries struct {
	Dir   string // the data directory
	Store core.Reader
	Times pipeline.Times
	Now   func() time.Time
	Log   *slog.Logger

	lockWait time.Duration // how long to wait for a dispatch file's lock; zero: passWait
	patience time.Duration // the deadline of an operation on a workspace; zero: workspaceWait

	mu sync.Mutex
	// stood is when this process last saw the entry of a task; zero: it left the file
	// because of us, and is put back without delay.
	stood map[pipeline.TaskID]time.Time
}

func (en *Entries) files() *workspaces {
	return &workspaces{
		dir: en.Dir, wait: en.patience, lockWait: cmp.Or(en.lockWait, passWait), store: en.Store,
		aside: func(workspace, path string) {
			en.Log.Error("dispatch file was not JSON, set aside and begun anew", "workspace", workspace, "aside", path)
		},
	}
}

// Deliver implements outbox.Deliverer: it brings the entries of tasks to what the store
// holds. An entry in the workspace of another agent is left to the next pass.
func (en *Entries) Deliver(ctx context.Context, effects []core.Pending) []outbox.Result {
	results := make([]outbox.Result, len(effects))
	tasks, err := en.Store.Tasks(ctx, core.Filter{IDs: core.TasksOf(effects)})
	failed := map[pipeline.TaskID]error{}
	byWorkspace := map[string][]*core.Task{}
	for _, t := range tasks {
		if t.Dispatch != nil && t.Dispatch.Workspace != "" {
			byWorkspace[t.Dispatch.Workspace] = append(byWorkspace[t.Dispatch.Workspace], t)
		}
	}
	var mu sync.Mutex // guards failed
	var all sync.WaitGroup
	for workspace, tasks := range byWorkspace { // one that does not answer delays no other
		all.Go(func() {
			left := en.deliverTo(ctx, workspace, tasks)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(failed, left)
		})
	}
	all.Wait()
	for i, e := range effects {
		results[i].Err = cmp.Or(err, failed[e.Task])
	}
	return results
}

// deliverTo brings the entries of tasks in one workspace up to date. It returns why it
// could not, by task.
func (en *Entries) deliverTo(ctx context.Context, workspace string, tasks []*core.Task) map[pipeline.TaskID]error {
	ByPriority(tasks) // for people
	err := en.files().edit(ctx, workspace, en.Now(), func(f *File) error {
		for _, t := range tasks {
			en.bring(f, t, !isWoken(t))
		}
		return nil
	})
	if err == nil {
		crash.Point("dispatch.entered")
		return nil
	}
	failed := map[pipeline.TaskID]error{}
	for _, t := range tasks {
		if !t.Out() && errors.Is(err, fs.ErrNotExist) {
			continue // the entry left with the workspace
		}
		failed[t.ID] = fmt.Errorf("dispatch file of %s: %w", t.Dispatch.Agent, err)
	}
	return failed
}

// openIn returns the open tasks that belong into a workspace.
func openIn(tasks []*core.Task, identity func(string) (string, error), workspace string) []*core.Task {
	return pipeline.Filter(tasks, func(t *core.Task) bool {
		return t.Out() && t.Dispatch.Workspace != "" && samePlace(identity, t.Dispatch.Workspace, workspace)
	})
}

// isWoken reports whether the agent was woken for a task since it was handed out. Its
// entry was written before that.
func isWoken(t *core.Task) bool {
	return t.Dispatch != nil && t.Woken != nil && !t.Woken.At.Before(t.Dispatch.At) && core.SameAgent(t.Woken.Agent, t.Dispatch.Agent)
}

// bring brings the entry of a task to what the task is, and returns it; nil: there is
// none. If unwritten, an absent entry was not written for this dispatch yet. Else it
// vanished, and is put back after a while.
func (en *Entries) bring(f *File, t *core.Task, unwritten bool) *Entry {
	d := t.Dispatch
	e := f.Find(t.ID, d.Agent)
	switch {
	case !t.Out():
		if e != nil && isLeft(e, t) {
			en.remove(f, e, t)
		}
		return nil
	case e == nil:
		if !t.Waiting() || !unwritten && !reached(en.missingSince(t), en.Times.RedeliverAfter, en.Now()) {
			return nil
		}
		f.Put(entryOf(t))
	case e.stale(d.Attempt), e.Attempt == 0 && d.FlippedAt.IsZero():
		e.replace("picked", nil) // the mark belongs to an earlier dispatch
		f.Put(entryOf(t))
	default:
		e.refresh(t)
	}
	en.saw(t.ID, en.Now())
	return f.Find(t.ID, d.Agent)
}

// missingSince is since when the entry of a task may be missing: this process saw it
// last then, or, if it never did, the agent was given or woken for the task then.
func (en *Entries) missingSince(t *core.Task) time.Time {
	en.mu.Lock()
	defer en.mu.Unlock()
	if at, ok := en.stood[t.ID]; ok && (at.IsZero() || !at.Before(t.Dispatch.At)) {
		return at
	}
	if w := t.Woken; w != nil && w.At.After(t.Dispatch.At) {
		return w.At
	}
	return t.Dispatch.At
}

// saw notes when the entry of a task stood in its file; zero: it left because of us.
func (en *Entries) saw(id pipeline.TaskID, at time.Time) {
	en.mu.Lock()
	defer en.mu.Unlock()
	if en.stood == nil {
		en.stood = map[pipeline.TaskID]time.Time{}
	}
	en.stood[id] = at
}

// remove removes an entry of a task. If the task is open for the agent again, the entry
// comes back at once.
func (en *Entries) remove(f *File, e *Entry, t *core.Task) {
	f.Remove(e)
	if t.Dispatch != nil && core.SameAgent(t.Dispatch.Agent, e.Agent) {
		en.saw(t.ID, time.Time{})
	}
}

// isLeft reports whether an entry of a task is to be removed.
func isLeft(e *Entry, t *core.Task) bool {
	switch {
	case e.RowID != "" && e.RowID != t.RowID:
		return false
	case t.Away(), t.Status.Finished(), t.Status == pipeline.Pending && !t.Queued(), t.Status == pipeline.Dormant:
		return true
	case t.Dispatch == nil:
		return t.Attempt > 0 // a person took the task away
	}
	return !core.SameAgent(t.Dispatch.Agent, e.Agent)
}
