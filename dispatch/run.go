package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"otm/internal/explain"
	"otm/pipeline"
)

// run is what the parts of one pass share: what they found, and how they report.
//
//	reader      rows and records become tasks
//	adopter     rows that people typed become tasks, ids go back into their rows
//	departures  rows that people deleted
//	handout     record, entry, flip
//	keeper      dispatch files
//	waking      plans and sends wakes
type run struct {
	*Dispatcher
	report *Report
	byName map[string][]*task         // agent → its tasks on the board that were handed out
	away   map[pipeline.TaskID]string // tasks that the board gives to another than their record does, and whom that names

	resolved map[string]resolved // by workspace
	unkept   map[string]bool     // identities of workspaces whose dispatch file could not be read or written
}

func newRun(d *Dispatcher) *run {
	return &run{Dispatcher: d, report: &Report{At: d.Now()}, byName: map[string][]*task{}, resolved: map[string]resolved{}, unkept: map[string]bool{}}
}

// failure reports what failed, and logs it the first time.
func (rn *run) failure(msg string, f explain.Finding) {
	rn.report.Failed = append(rn.report.Failed, f)
	rn.say(slog.LevelError, msg, &f)
}

// problem reports a task that stays as it is.
func (rn *run) problem(id pipeline.TaskID, code explain.Code, args ...any) {
	rn.failure("task not dispatched", explain.New(code, args...).On(id))
}

// given reports something that a person has to look at.
func (rn *run) given(f explain.Finding) {
	rn.report.Given = append(rn.report.Given, f)
	rn.say(slog.LevelWarn, "needs a person", &f)
}

// failed reports that the record of a task could not be read or written; the
// others go on. It returns an error if we are to stop.
func (rn *run) failed(ctx context.Context, id pipeline.TaskID, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	rn.problem(id, explain.TaskRecordFailed, "error", err)
	return nil
}

// sayAgain is how long a problem must not have been met to be logged again.
const sayAgain = time.Hour

// say logs a finding that stays for a while: the first time at its level, then only
// for those who debug.
func (rn *run) say(level slog.Level, msg string, f *explain.Finding) {
	kind := fmt.Sprint(f.Code, f.Task, f.Args)
	if f.Code == explain.WakeFailed || f.Code == explain.WakeUnknown {
		kind = fmt.Sprint(f.Code, f.Args["agent"]) // each try may fail in another way
	}
	if _, said := rn.saidAt[kind]; said {
		level = slog.LevelDebug
	}
	rn.saidAt[kind] = rn.Now()
	rn.Log.Log(context.Background(), level, msg, "reason", sentence(f, rn.Now()))
}

// forget lets problems be logged again that were not met for a while.
func (d *Dispatcher) forget() {
	now := d.Now()
	maps.DeleteFunc(d.saidAt, func(_ string, at time.Time) bool { return reached(at, sayAgain, now) })
}

// each does something with the record of each task, and returns those with
// which it succeeded; the others are reported.
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

// edit changes a dispatch file, and says loudly if it was set aside.
func (rn *run) edit(ctx context.Context, workspace string, f func(*File) error) error {
	return rn.files.edit(ctx, workspace, rn.Now(), cmp.Or(rn.fileWait, passWait), func(file *File) error {
		if err := rn.restore(file, workspace); err != nil {
			return err
		}
		return f(file)
	})
}

// restore says loudly that a dispatch file was set aside, and fills it with
// what is open.
func (rn *run) restore(file *File, workspace string) error {
	if file.Aside == "" {
		return nil
	}
	rn.Log.Error("dispatch file was not JSON, set aside and begun anew", "workspace", workspace, "aside", filepath.Base(file.Aside))
	return beginAnew(file, rn.Records, rn.Agents, rn.files, workspace)
}

// dispatched reports that a task was handed out.
func (rn *run) dispatched(t *task) {
	rn.report.Dispatched++
	rn.Log.Info("dispatched task", "task", t.id, "agent", t.agent.Name, "priority", t.rec.Priority, "attempt", t.rec.Dispatch.Attempt)
}

// errVanished says that a record was taken away while it was worked on. The
// next pass rebuilds it.
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

// anyWaits reports cheaply whether there may be a reason to wake an agent.
func (rn *run) anyWaits(a *pipeline.Agent) bool {
	return slices.ContainsFunc(rn.byName[a.Name], func(t *task) bool {
		d := t.rec.Dispatch
		return t.rec.Status == pipeline.Assigned && d != nil && d.TakenAt == nil
	})
}

// unready says why nothing can be handed out to an agent; nil if it can.
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
	case isSilent(err):
		code = explain.WorkspaceSilent
	}
	f := explain.New(code, "agent", a.Name, "path", a.Workspace, "error", err)
	return &f
}

// resolved is what was found out about a workspace during a pass.
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

// sameWorkspace reports whether two paths name one workspace, as far as is known.
func (rn *run) sameWorkspace(a, b string) bool {
	if a == b {
		return true
	}
	ai, aerr := rn.resolve(a)
	bi, berr := rn.resolve(b)
	return aerr == nil && berr == nil && ai == bi
}

// reachable reports whether an agent can be woken: its workspace is there, and its
// dispatch file could be read.
func (rn *run) reachable(a *pipeline.Agent) bool {
	id, err := rn.resolve(a.Workspace)
	return err == nil && !rn.unkept[id]
}
