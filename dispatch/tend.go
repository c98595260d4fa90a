package dispatch

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"

	"otm/pipeline"
)

// tend keeps the dispatch files right: entries of tasks that are over or
// somebody else's go, those that were taken are noted, those that vanished
// come back after a while.
func (p *pass) tend(ctx context.Context) error {
	if err := p.resumeFlipped(ctx); err != nil {
		return err
	}
	workspaces := map[string]bool{}
	for i := range p.Agents {
		if a := &p.Agents[i]; !a.Person && a.Workspace != "" {
			workspaces[a.Workspace] = true
		}
	}
	for _, workspace := range slices.Sorted(maps.Keys(workspaces)) {
		if info, err := os.Stat(workspace); err != nil || !info.IsDir() {
			continue // reported where a task is meant for it
		}
		if err := p.tendWorkspace(ctx, workspace); err != nil {
			p.report.Failed = append(p.report.Failed, "dispatch file in "+workspace+": "+err.Error())
			p.say(slog.LevelWarn, "dispatch file not kept", workspace+": "+err.Error())
		}
	}
	return nil
}

// resumeFlipped finishes dispatches whose flip stands on the board, but whose
// answer was lost, and hands tasks that a person gave to somebody else to that
// agent.
func (p *pass) resumeFlipped(ctx context.Context) error {
	now := p.Now()
	for _, tasks := range p.byName {
		for _, t := range tasks {
			d := t.rec.Dispatch
			switch {
			case t.rec.Status != pipeline.Assigned:
			case d != nil && d.Agent == t.agent.Name && d.FlippedAt == nil:
				if err := p.note(ctx, t, func(r *pipeline.Record) { r.Dispatch.FlippedAt = &now }); err != nil {
					return err
				}
			case d == nil || d.Agent != t.agent.Name:
				if err := p.begin(ctx, t); err != nil {
					return err
				}
				if err := p.note(ctx, t, func(r *pipeline.Record) { r.Dispatch.FlippedAt = &now }); err != nil {
					return err
				}
				p.Log.Info("task given to another agent", "task", t.id, "agent", t.agent.Name)
			}
		}
	}
	return nil
}

func (p *pass) tendWorkspace(ctx context.Context, workspace string) error {
	open := map[pipeline.TaskID]*task{}
	for _, tasks := range p.byName {
		for _, t := range tasks {
			if d := t.rec.Dispatch; d != nil && d.Workspace == workspace && t.rec.Status.Active() {
				open[t.id] = t
			}
		}
	}
	var taken []*task
	var missing, found []*task
	err := p.edit(ctx, workspace, func(f *File) error {
		taken, missing, found = nil, nil, nil
		for _, e := range f.Entries() {
			t := open[e.TaskID]
			if (t == nil || pipeline.FoldName(t.rec.Dispatch.Agent) != pipeline.FoldName(e.Agent)) && p.isOver(e) {
				f.Remove(e)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(open)) {
			t := open[id]
			e := f.Find(id, t.rec.Dispatch.Agent)
			switch {
			case e == nil && p.redeliver(t):
				f.Put(entryOf(t.rec))
				found = append(found, t)
			case e == nil:
				missing = append(missing, t)
			case e.Picked && t.rec.Dispatch.TakenAt == nil:
				taken = append(taken, t)
			case t.rec.Dispatch.MissingAt != nil:
				found = append(found, t)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.noteFile(ctx, taken, missing, found)
}

// isOver tells whether an entry of ours has no place in the file any more. An
// entry of a task that we know nothing of is somebody else's.
func (p *pass) isOver(e *Entry) bool {
	rec, err := p.Records.Load(e.TaskID)
	if err != nil || rec.Attempt == 0 {
		return false
	}
	if rec.Status.Finished() || rec.Status == pipeline.Pending {
		return true
	}
	return rec.Dispatch != nil && pipeline.FoldName(rec.Dispatch.Agent) != pipeline.FoldName(e.Agent)
}

// redeliver tells whether the entry of a task is to be written: it vanished
// long enough ago without a word from the agent, or was never written.
func (p *pass) redeliver(t *task) bool {
	d := t.rec.Dispatch
	if t.rec.Status != pipeline.Assigned || d.TakenAt != nil {
		return false
	}
	if d.EntryAt == nil {
		return true
	}
	return d.MissingAt != nil && !p.Now().Before(d.MissingAt.Add(p.Times.RedeliverAfter))
}

func (p *pass) noteFile(ctx context.Context, taken, missing, found []*task) error {
	now := p.Now()
	for _, t := range taken {
		if err := p.note(ctx, t, func(r *pipeline.Record) {
			if r.Dispatch.TakenAt == nil { // else "otm next" was about to say so itself
				r.Dispatch.TakenAt, r.Dispatch.TakenBy = &now, "file"
				r.Note(now, "agent "+r.Dispatch.Agent, "taken", "marked in the dispatch file")
			}
		}); err != nil {
			return err
		}
	}
	for _, t := range missing {
		if t.rec.Dispatch.MissingAt == nil && t.rec.Dispatch.TakenAt == nil && t.rec.Status == pipeline.Assigned {
			if err := p.note(ctx, t, func(r *pipeline.Record) { r.Dispatch.MissingAt = &now }); err != nil {
				return err
			}
		}
		if at := t.rec.Dispatch.MissingAt; at != nil {
			p.report.due(at.Add(p.Times.RedeliverAfter))
		}
	}
	for _, t := range found {
		if err := p.note(ctx, t, func(r *pipeline.Record) {
			r.Dispatch.MissingAt = nil
			if r.Dispatch.EntryAt == nil {
				r.Dispatch.EntryAt = &now
			}
		}); err != nil {
			return err
		}
	}
	return nil
}
