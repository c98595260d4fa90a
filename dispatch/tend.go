package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"otm/core"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/pipeline"
)

// keeper reads the dispatch files, which agents and people change as they like.
type keeper struct{ *run }

// tend looks at every dispatch file: it removes entries of tasks that have ended or
// belong to another agent, notes which were taken, and puts back those that vanished.
func (kp *keeper) tend(ctx context.Context) error {
	shared := map[string]string{} // identity → one of the paths of the workspace
	for i := range kp.Agents {
		a := &kp.Agents[i]
		if a.Person || a.Workspace == "" {
			continue
		}
		reason := kp.unready(a)
		if reason == nil {
			id, _ := kp.files.identity(a.Workspace)
			if _, known := shared[id]; !known {
				shared[id] = a.Workspace
			}
			continue
		}
		if slices.ContainsFunc(kp.byName[a.Name], (*core.Task).Waiting) {
			kp.report.Fail(*reason)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(shared)) {
		workspace := shared[id]
		kp.Progress()
		kp.clean(workspace)
		if err := kp.tendWorkspace(ctx, workspace); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if large := (*TooLargeError)(nil); errors.As(err, &large) || patience.IsSilent(err) {
				kp.unkept[id] = true
			}
			kp.report.Fail(explain.New(explain.DispatchUnkept, "path", workspace, "error", err))
		}
	}
	return nil
}

// clean removes, once a process, what a crashed writer left in a workspace.
func (kp *keeper) clean(workspace string) {
	if !kp.cleaned[workspace] {
		kp.cleaned[workspace] = true
		now := kp.Now()
		patience.Do(workspace, kp.Entries.files().deadline(), nil, func() error {
			_, err := durable.RemoveLeftovers(workspace, time.Hour, now)
			return err
		}) // if that fails, the next process tries again
	}
}

// tendWorkspace brings one dispatch file in line with the tasks, and notes which tasks
// were marked as taken in it.
func (kp *keeper) tendWorkspace(ctx context.Context, workspace string) error {
	open := openIn(kp.tasks, kp.files.identity, workspace)
	var taken []*core.Task
	err := kp.Entries.files().edit(ctx, workspace, kp.Now(), func(f *File) error {
		if err := kp.removeLeft(ctx, f, open); err != nil {
			return err
		}
		for _, t := range open {
			e := kp.Entries.bring(f, t, false)
			switch {
			case e == nil && t.Waiting():
				kp.report.RunBy(kp.Entries.missingSince(t).Add(kp.Times.RedeliverAfter))
			case e != nil && e.Picked && !t.Taken():
				taken = append(taken, t)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return kp.noteTaken(ctx, taken)
}

// removeLeft removes the entries of tasks that are not open in the workspace.
func (kp *keeper) removeLeft(ctx context.Context, f *File, open []*core.Task) error {
	others := slices.DeleteFunc(f.Entries(), func(e *Entry) bool {
		return slices.ContainsFunc(open, func(t *core.Task) bool {
			return t.ID == e.TaskID && core.SameAgent(t.Dispatch.Agent, e.Agent)
		})
	})
	if len(others) == 0 {
		return nil
	}
	ids := pipeline.Map(others, func(e *Entry) pipeline.TaskID { return e.TaskID })
	slices.Sort(ids)
	tasks, err := kp.Store.Tasks(ctx, core.Filter{IDs: slices.Compact(ids)})
	for _, e := range others {
		if i := slices.IndexFunc(tasks, func(t *core.Task) bool { return t.ID == e.TaskID }); i >= 0 && isLeft(e, tasks[i]) {
			kp.Entries.remove(f, e, tasks[i])
		}
	}
	return err
}

// noteTaken notes the tasks that were marked as taken in their file.
func (kp *keeper) noteTaken(ctx context.Context, taken []*core.Task) error {
	if len(taken) == 0 {
		return nil
	}
	commands := pipeline.Map(taken, func(t *core.Task) core.Command {
		return core.Command{At: kp.Now(), By: core.ByAgent(t.Dispatch.Agent), Task: t.ID, Do: core.Take{By: core.TakenByFile}}
	})
	if _, err := kp.Store.Do(ctx, commands...); err != nil {
		return err
	}
	return kp.load(ctx)
}

// reportSilent reports the tasks of which nothing was heard for too long, and agents that
// have too many.
func (kp *keeper) reportSilent() {
	looks := kp.looks()
	tell := func(found []explain.Finding, next time.Time) {
		for _, f := range found {
			if f.Level() != explain.OK {
				kp.report.Needs(f)
			}
		}
		kp.report.RunBy(next)
	}
	tell(looks.Unclaimed(kp.byName[pipeline.SharedQueue]))
	for i := range kp.Agents {
		a := &kp.Agents[i]
		tell(looks.SilentOn(a, kp.byName[a.Name]))
		if f := SeveralOf(a, kp.byName[a.Name]); f != nil {
			kp.report.Needs(*f)
		}
	}
}

// escalateSilent tells the agents that may review of the tasks whose agents have been silent for
// so long as the rung says: otm next shows them the message, once.
func (kp *keeper) escalateSilent(ctx context.Context) error {
	looks := kp.looks()
	var commands []core.Command
	for i := range kp.Agents {
		a := &kp.Agents[i]
		others := slices.DeleteFunc(slices.Clone(kp.Reviewers), func(name string) bool { return core.SameAgent(name, a.Name) })
		for _, t := range kp.byName[a.Name] {
			s := looks.Silence(a, t)
			told := t.LastMessage != nil && t.LastMessage.By == by() && !t.LastMessage.At.Before(s.Since)
			if !s.Works || s.Rung < pipeline.RungLate || told || len(others) == 0 {
				continue
			}
			since := s.Since.UTC().Format(time.RFC3339)
			message := pipeline.Message{Text: fmt.Sprintf("Nothing was heard of it from %s since %s.", a.Name, since), Tag: pipeline.TagEscalate, Mentions: others}
			// The id keeps it from being told twice where somebody else wrote since.
			c := core.Command{ID: fmt.Sprintf("silent-%v-%s", t.ID, since), At: looks.Now, By: by(), Task: t.ID, Do: core.Say{Message: message}}
			commands = append(commands, c)
		}
	}
	if len(commands) == 0 {
		return nil
	}
	_, err := kp.Store.Do(ctx, commands...)
	return err
}

// reclaim takes tasks from agents that have been silent for as long as reclaim_after allows.
// Reports in the inbox come first.
func (kp *keeper) reclaim(ctx context.Context) error {
	looks := kp.looks()
	var commands []core.Command
	for i := range kp.Agents {
		a := &kp.Agents[i]
		for _, t := range kp.byName[a.Name] {
			after, run := kp.Types.Rules(t.Type).ReclaimAfter, t.Runs.Open()
			if a.Person || after == 0 || run == nil || !t.AtWork() || !core.SameAgent(run.Agent, a.Name) {
				continue
			}
			heard := t.HeardOf(a.Name).At
			if after += looks.away(a, heard); !reached(heard, after, looks.Now) {
				kp.report.RunBy(heard.Add(after))
				continue
			}
			if _, err := kp.Carry(ctx, a); err != nil {
				return err
			}
			commands = append(commands, core.Command{At: looks.Now, By: by(), Task: t.ID, Do: core.ReclaimRun{Run: run.Number, Heard: heard}})
		}
	}
	if len(commands) == 0 {
		return nil
	}
	outcomes, err := kp.Store.Do(ctx, commands...)
	if err != nil {
		return err
	}
	for i, o := range outcomes {
		if o.Err == nil && len(o.Events) > 0 { // else the agent was heard of meanwhile
			kp.Log.Warn("task taken from a silent agent", "task", commands[i].Task)
		}
	}
	kp.report.RunBy(looks.Now) // the board is to show what changed
	return kp.load(ctx)
}
