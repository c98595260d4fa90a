package inject

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"otm/core"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// holds says which reports must wait for an earlier one in this round.
type holds struct {
	tasks map[pipeline.TaskID]bool // tasks with a report that waits
	all   bool                     // a report waits whose task is not known
}

// holdAll holds back all updates behind one that could not be read: it may be of any
// task. It does so for at most UpdateWait.
func (sw *sweep) holdAll(f inbox.File) {
	if f.Kind == inbox.TaskUpdates && sw.Now().Sub(f.Info.ModTime()).Abs() < sw.Times.UpdateWait {
		sw.held.all = true
	}
}

// updates plans and settles updates.
type updates struct{ *sweep }

// update plans the command of a file of task-updates/.
func (sw updates) update(ctx context.Context, w *waiting) verdict {
	u := w.update
	w.command = commandOf(u, w.file, sw.Types, sw.Now())
	if _, did, err := sw.Engine.Did(ctx, w.command.ID); did || err != nil {
		return verdict{stop: err}
	}
	t, err := sw.taskOf(ctx, u.TaskID)
	switch {
	case err != nil:
		return engineTrouble(err)
	case t == nil && sw.line.creating[u.TaskID]:
		return verdict{waits: true} // its task is on its way
	case t == nil:
		return sw.unmatched(w.file, u.TaskID)
	}
	// A person may have moved the task, or given it to somebody else.
	if err := sw.look(ctx, pipeline.StatusAge); err != nil {
		return engineTrouble(err)
	}
	if t, err = sw.Engine.Task(ctx, u.TaskID); err != nil {
		return verdict{stop: err}
	}
	w.command.By = reporter(t, sw.Agents)
	switch open := t.Status == pipeline.New && w.command.By.Kind != core.Worker && !t.Away(); {
	case open && t.RowID == "" && !sw.line.creating[t.ID]:
		return sw.unmatched(w.file, t.ID) // its create failed
	case open:
		return verdict{waits: true} // until it is handed out
	}
	return verdict{}
}

// commandOf is the report that an update asks for. By is missing.
func commandOf(u *drop.Update, f inbox.File, types pipeline.Types, now time.Time) core.Command {
	if u.ID == "" {
		u.ID = foreignID(f.Name, u.Encode())
	}
	return core.Command{ID: core.DropCommand(u.ID, u.TaskID), Sum: u.Sum(), At: now, Trace: u.Trace, Task: u.TaskID, Do: core.Report{
		Drop: f.Name, Dropped: f.Dropped(now), Status: u.Status, Steps: u.StepsDone, Reason: u.Reason, Result: u.Result, Message: u.Message,
		Claims: u.By, Run: u.Run, Terminal: u.Terminal, Types: types,
	}}
}

// CommandOf is the command of an update on a task, as the injector makes it. Two programs
// that carry it out change the task once.
func CommandOf(u *drop.Update, f inbox.File, t *core.Task, agents pipeline.Agents, types pipeline.Types, now time.Time) core.Command {
	c := commandOf(u, f, types, now)
	c.By = reporter(t, agents)
	return c
}

// reporter is by whom a report on a task is: its agent, or the person to whom it was
// given.
func reporter(t *core.Task, agents pipeline.Agents) core.Actor {
	name := core.ReporterOf(t)
	if a := cmp.Or(agents.Named(name), agents.Assigned(name)); a != nil && a.Person {
		return core.Actor{Kind: core.Worker, Name: a.Name}
	}
	return core.ByAgent(name)
}

// taskOf returns a task; nil if nobody knows it, also after a look at the board.
func (sw updates) taskOf(ctx context.Context, id pipeline.TaskID) (*core.Task, error) {
	t, err := sw.Engine.Task(ctx, id)
	if !errors.Is(err, core.ErrNoTask) || sw.line.creating[id] {
		return t, ignoreNoTask(err)
	}
	if err := sw.look(ctx, createAge); err != nil {
		return nil, err
	}
	t, err = sw.Engine.Task(ctx, id)
	return t, ignoreNoTask(err)
}

func ignoreNoTask(err error) error {
	if errors.Is(err, core.ErrNoTask) {
		return nil
	}
	return err
}

// unmatched is the verdict on an update of an unknown task. Its create may still come.
func (sw updates) unmatched(f inbox.File, id pipeline.TaskID) verdict {
	if until := f.Info.ModTime().Add(sw.Times.UpdateWait); until.After(sw.Now()) {
		return wait(until)
	}
	return fail(inbox.Unmatched, "otm list", "no task %v is known, and none came within %v", id, sw.Times.UpdateWait)
}

// reported is how an update settles that the board shows.
func (sw updates) reported(w *waiting, t *core.Task) verdict {
	if v, lost := rowLost(t); lost {
		return v
	}
	result := &inbox.Result{SlackItemID: t.RowID}
	if w.outcome.Before {
		twice, err := sw.isTwice(w)
		if err != nil {
			return ownTrouble(err)
		}
		result.SkippedDuplicate = twice
	}
	for _, e := range w.outcome.Events {
		if done, ok := e.Data.(core.StepDone); ok {
			for _, s := range t.Steps {
				if s.ID == done.Step {
					result.SubtaskItemIDs = append(result.SubtaskItemIDs, s.RowID)
				}
			}
		}
	}
	sw.Log.Info("applied update", "task", t.ID, "status", t.Status, "agent", t.Agent)
	return verdict{result: result}
}

// rowLost is the verdict on a file if somebody deleted the row of its task before it
// showed the task as it is.
func rowLost(t *core.Task) (v verdict, lost bool) {
	stale := func(s core.Step) bool { return s.IsStale() }
	if t.GoneAt.IsZero() || t.OnBoard() && len(t.Stale()) == 0 && !slices.ContainsFunc(t.Steps, stale) {
		return verdict{}, false
	}
	return fail(inbox.Conflict, "otm show "+t.ID.String(), "%v", &core.Refused{Rule: core.RuleRowGone, Task: t.ID}), true
}
