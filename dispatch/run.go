package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"otm/heartbeat"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/pipeline"
)

// run is what the parts of one pass share.
//
//	reader      rows and records become tasks
//	adopter     rows that people typed become tasks; lost ids go back into their rows
//	departures  rows that people deleted
//	handout     record, entry, flip
//	keeper      dispatch files
//	waking      plans and sends wakes
type run struct {
	*Dispatcher
	report *heartbeat.Report
	byName map[string][]*task         // agent → its dispatched tasks
	away   map[pipeline.TaskID]string // tasks that a person gave to another agent → the agent in the record

	resolved map[string]resolved // by workspace
	unkept   map[string]bool     // identities of workspaces whose dispatch file could not be read or written
	inbox    unreadReports
}

func newRun(d *Dispatcher) *run {
	return &run{
		Dispatcher: d, report: newReport(), byName: map[string][]*task{}, resolved: map[string]resolved{}, unkept: map[string]bool{},
		inbox: unreadReports{read: d.Unread, now: d.Now},
	}
}

// failure reports a failure, and logs it the first time.
func (rn *run) failure(msg string, f explain.Finding) {
	rn.report.Failed = append(rn.report.Failed, f)
	rn.say(slog.LevelError, msg, &f)
}

// problem reports a task that was not dispatched.
func (rn *run) problem(id pipeline.TaskID, code explain.Code, args ...any) {
	rn.failure("task not dispatched", explain.New(code, args...).On(id))
}

// given reports something that needs a person.
func (rn *run) given(f explain.Finding) {
	rn.report.Needs(f)
	rn.say(slog.LevelWarn, "needs a person", &f)
}

// failed reports that the record of a task could not be read or written. It
// returns an error only if ctx is done: other tasks continue.
func (rn *run) failed(ctx context.Context, id pipeline.TaskID, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	rn.problem(id, explain.TaskRecordFailed, "error", err)
	return nil
}

// sayAgain is how long a problem must be absent before it is logged again.
const sayAgain = time.Hour

// say logs a finding: the first time at its level, repetitions at debug level.
func (rn *run) say(level slog.Level, msg string, f *explain.Finding) {
	kind := fmt.Sprint(f.Code, f.Task, f.Args)
	if f.Code == explain.WakeFailed || f.Code == explain.WakeUnknown {
		kind = fmt.Sprint(f.Code, f.Args["agent"]) // each try may fail with another error
	}
	if _, said := rn.saidAt[kind]; said {
		level = slog.LevelDebug
	}
	rn.saidAt[kind] = rn.Now()
	rn.Log.Log(context.Background(), level, msg, "reason", explain.Line(f, time.Time{})) // a log is read later
}

// forget forgets problems that have been absent for sayAgain.
func (d *Dispatcher) forget() {
	now := d.Now()
	maps.DeleteFunc(d.saidAt, func(_ string, at time.Time) bool { return reached(at, sayAgain, now) })
}

// each calls do for each task, and returns those for which it succeeded. It
// reports the others.
func (rn *run) each(ctx context.Context, tasks []*task, do func(context.Context, *task) error) (done []*task, err error) {
	for _, t := range tasks {
		rn.getsOn()
		if err := do(ctx, t); err == nil {
			done = append(done, t)
		} else if err := rn.failed(ctx, t.id, err); err != nil {
			return done, err
		}
	}
	return done, nil
}

func (rn *run) getsOn() {
	if rn.Progress != nil {
		rn.Progress()
	}
}

// edit changes a dispatch file, durably on return. It waits at most lockWait for the
// file's lock. It fills a file that was set aside with the open tasks.
func (rn *run) edit(ctx context.Context, workspace string, lockWait time.Duration, f func(*File) error) error {
	return rn.files.edit(ctx, workspace, rn.Now(), lockWait, func(file *File) error {
		if file.Aside != "" {
			rn.Log.Error("dispatch file was not JSON, set aside and begun anew", "workspace", workspace, "aside", filepath.Base(file.Aside))
			if err := beginAnew(file, rn.Records, rn.Agents, rn.files, workspace); err != nil {
				return err
			}
		}
		return f(file)
	})
}

// dispatched reports that a task was dispatched.
func (rn *run) dispatched(t *task) {
	rn.report.Did[dispatched].N++
	rn.Log.Info("dispatched task", "task", t.id, "agent", t.agent.Name, "priority", t.rec.Priority, "attempt", t.rec.Dispatch.Attempt)
}

// errVanished says that a record vanished during a pass. The next pass rebuilds it.
var errVanished = errors.New("it vanished")

// note changes the record of a task that was dispatched.
func (rn *run) note(ctx context.Context, t *task, f func(*pipeline.Record)) error {
	rec, err := rn.Records.Change(ctx, t.id, func(r *pipeline.Record) error {
		if isLost(r) || r.Dispatch == nil {
			return errVanished
		}
		f(r)
		return nil
	})
	if err == nil {
		t.rec = rec
	}
	return err
}

// isWaiting reports whether a task waits for its agent to take it.
func isWaiting(r *pipeline.Record) bool {
	return r.Status == pipeline.Assigned && r.Dispatch != nil && r.Dispatch.TakenAt == nil
}

// unready returns why OTM cannot dispatch to an agent; nil: it can.
func (rn *run) unready(a *pipeline.Agent) *explain.Finding {
	if a.Person {
		return nil
	}
	_, err := rn.resolve(a.Workspace)
	code := explain.WorkspaceUnreadable
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		code = explain.WorkspaceMissing
	case errors.Is(err, syscall.ENOTDIR):
		code = explain.WorkspaceNoDir
	case patience.IsSilent(err):
		code = explain.WorkspaceSilent
	}
	f := explain.New(code, "agent", a.Name, "path", a.Workspace, "error", err)
	return &f
}

// resolved is the identity of a workspace, or why it has none.
type resolved struct {
	id  string // see workspaces.identity
	err error
}

// resolve returns the identity of a workspace, as it was when the pass first asked.
func (rn *run) resolve(workspace string) (string, error) {
	r, known := rn.resolved[workspace]
	if !known {
		r.id, r.err = rn.files.identity(workspace)
		rn.resolved[workspace] = r
	}
	return r.id, r.err
}

// resolveAll resolves the workspaces of all agents at once, before the pass holds the
// board's lock: each silent workspace costs its deadline.
func (rn *run) resolveAll() {
	var mu sync.Mutex // guards rn.resolved
	var all sync.WaitGroup
	for i := range rn.Agents {
		workspace := rn.Agents[i].Workspace
		if workspace == "" {
			continue
		}
		all.Go(func() {
			id, err := rn.files.identity(workspace)
			mu.Lock()
			defer mu.Unlock()
			rn.resolved[workspace] = resolved{id, err}
		})
	}
	all.Wait()
}

// reachable reports whether an agent can be woken: its workspace exists, and its
// dispatch file was readable in this pass.
func (rn *run) reachable(a *pipeline.Agent) bool {
	id, err := rn.resolve(a.Workspace)
	return err == nil && !rn.unkept[id]
}
