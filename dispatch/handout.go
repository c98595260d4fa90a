package dispatch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/internal/crash"
	"otm/internal/explain"
	"otm/pipeline"
)

// handout hands tasks to their agents.
type handout struct{ *run }

// maxChunk is how many tasks are handed out in one transaction.
const maxChunk = 50

// handOut hands out the tasks that are ready, and delivers what is to be delivered:
// entries first, then the board.
func (ho *handout) handOut(ctx context.Context) error {
	if err := ho.load(ctx); err != nil {
		return err
	}
	pending, err := ho.Outbox.Pending(ctx, "")
	if err != nil {
		return err
	}
	// Those whose hand-out the board does not show yet.
	unshown := map[pipeline.TaskID]bool{}
	for _, t := range ho.tasks {
		if isUnshown(t) {
			unshown[t.ID] = true
		}
	}
	moved, err := ho.moveAgents(ctx)
	if err != nil {
		return err
	}
	if err := ho.handReady(ctx, unshown); err != nil {
		return err
	}
	if len(unshown)+len(moved)+len(pending) == 0 {
		return nil
	}
	maps.Copy(moved, unshown)
	if err := ho.deliverAll(ctx, moved); err != nil {
		return err
	}
	if err := ho.load(ctx); err != nil {
		return err
	}
	ho.tellUndelivered()
	for _, t := range ho.tasks {
		if unshown[t.ID] && t.Dispatch != nil && !t.Dispatch.FlippedAt.IsZero() {
			ho.dispatched(t)
		}
	}
	crash.Point("dispatch.flipped")
	return nil
}

// isUnshown reports whether the board does not show yet that a task was handed out.
func isUnshown(t *core.Task) bool {
	return t.Out() && t.Dispatch.FlippedAt.IsZero()
}

// handReady hands out the tasks that are ready, most urgent first, and adds them to
// handed. While the board is in trouble it hands out nothing: a person may have changed
// a task meanwhile.
func (ho *handout) handReady(ctx context.Context, handed map[pipeline.TaskID]bool) error {
	ready := ho.ready()
	if ho.report.Trouble != nil {
		return nil
	}
	busy := map[string]bool{} // agents that have a task that they may work on
	for name, tasks := range ho.byName {
		busy[name] = slices.ContainsFunc(tasks, func(t *core.Task) bool { return t.Out() && t.Status != pipeline.Blocked })
	}
	for chunk := range slices.Chunk(ready, maxChunk) {
		ho.Progress()
		var commands []core.Command
		for _, t := range chunk {
			a := ho.Agents.Named(t.Agent)
			commands = append(commands, core.Command{
				At: ho.Now(), By: by(), Task: t.ID,
				Do: core.HandOut{Agent: a.Name, Workspace: a.Workspace, Via: a.Trigger, Queue: a.OneTask() && busy[a.Name]},
			})
			busy[a.Name] = true
		}
		outcomes, err := ho.Store.Do(ctx, commands...)
		if err != nil {
			return err
		}
		for i, o := range outcomes {
			if o.Err == nil { // else it changed meanwhile: the next pass looks at it again
				handed[chunk[i].ID] = true
			}
		}
	}
	return nil
}

// ready returns the tasks to hand out, most urgent first. It reports those that cannot
// be handed out to their agent.
func (ho *handout) ready() []*core.Task {
	var ready []*core.Task
	for _, t := range ho.tasks {
		if t.Away() || t.RowID == "" || t.Agent == "" || pipeline.IsSharedQueue(t.Agent) || len(ho.Agents) == 0 {
			continue // without configured agents, names are not checked
		}
		if t.Wait.Waits(ho.Now()) {
			ho.report.RunBy(t.Wait.Until)
		}
		a := ho.Agents.Named(t.Agent)
		switch {
		case a == nil && t.Status.NeedsAgent() && (t.Status != pipeline.New || t.OnBoard()):
			ho.report.Fail(explain.New(explain.TaskNoAgent, "name", t.Agent).On(t.ID))
		case a == nil || !t.Ready(ho.Now()) || !t.OnBoard():
		default:
			if reason := ho.unready(a); reason != nil {
				ho.report.Fail(reason.On(t.ID))
				continue
			}
			ready = append(ready, t)
		}
	}
	ByPriority(ready)
	return ready
}

// moveAgents follows changes of otm.toml: it gives the tasks of an agent whose name
// changed to the new name, and notes the new workspace in the dispatches of the
// others. It returns the tasks whose entries are to be written into another file.
func (ho *handout) moveAgents(ctx context.Context) (moved map[pipeline.TaskID]bool, err error) {
	var commands []core.Command
	moved = map[pipeline.TaskID]bool{}
	for _, t := range ho.tasks {
		if t.Away() || t.Status.Over() {
			continue
		}
		c := core.Command{At: ho.Now(), By: by(), Task: t.ID}
		a := ho.Agents.Named(t.Agent)
		switch d := t.Dispatch; {
		case a == nil:
			if a = ho.Agents.Assigned(t.Agent); a == nil {
				continue
			}
			c.Do = core.Edits{Agent: &a.Name} // the board shows its label
		case d == nil || !t.Out() || samePlace(ho.files.identity, d.Workspace, a.Workspace):
			continue
		default:
			c.Do = core.MoveWorkspace{Workspace: a.Workspace}
			moved[t.ID] = true
			ho.Entries.saw(t.ID, time.Time{}) // it is absent from the new one
		}
		commands = append(commands, c)
	}
	if len(commands) == 0 {
		return moved, nil
	}
	if _, err := ho.Store.Do(ctx, commands...); err != nil {
		return nil, err
	}
	return moved, ho.load(ctx)
}

// deliverAll delivers the effects of the given tasks, whatever became of earlier tries,
// and those of others that are due. While the board is in trouble, all have to be due.
func (ho *handout) deliverAll(ctx context.Context, tasks map[pipeline.TaskID]bool) error {
	if len(tasks) > 0 && ho.report.Trouble == nil {
		if err := ho.deliver(ctx, slices.Sorted(maps.Keys(tasks))...); err != nil {
			return err
		}
	}
	return ho.deliver(ctx)
}

// deliver delivers effects. It keeps why some are undelivered.
func (rn *run) deliver(ctx context.Context, ids ...pipeline.TaskID) error {
	rn.Progress()
	failed, err := rn.Deliver(ctx, ids...)
	if err != nil {
		return err
	}
	for id, err := range failed {
		if rn.undelivered[id] == nil {
			rn.undelivered[id] = err
		}
	}
	return context.Cause(ctx)
}

// soonAgain is the pause before a pass looks again at what another process does.
const soonAgain = time.Second

// tellUndelivered reports the effects that could not be delivered.
func (ho *handout) tellUndelivered() {
	for _, id := range slices.Sorted(maps.Keys(ho.undelivered)) {
		err := ho.undelivered[id]
		i := slices.IndexFunc(ho.tasks, func(t *core.Task) bool { return t.ID == id })
		var left *outbox.LeftError
		if errors.As(err, &left) && left.Due.After(ho.Now()) { // else it waits for another one
			ho.report.RunBy(left.Due)
		}
		switch {
		case left != nil && left.Err == nil && left.Owner != "": // another process delivers it
			ho.report.RunBy(ho.Now().Add(soonAgain))
		case left != nil && (left.Err == nil || left.Looks()):
		case pipeline.NeedsPerson(err) && (i < 0 || !isUnshown(ho.tasks[i])): // the row shows something old; why and doctor say so
		default:
			ho.report.Undelivered(id, err)
		}
	}
}
