package dispatch

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"otm/internal/crash"
	"otm/pipeline"
)

// enter begins the dispatch of each task and writes the entries, one change a
// workspace.
func (p *pass) enter(ctx context.Context, fresh []*task) error {
	byWorkspace := map[string][]*task{}
	for _, t := range fresh {
		if err := p.begin(ctx, t); err != nil {
			return err
		}
		if !t.agent.Person {
			byWorkspace[t.agent.Workspace] = append(byWorkspace[t.agent.Workspace], t)
		}
	}
	for _, workspace := range slices.Sorted(maps.Keys(byWorkspace)) {
		tasks := byWorkspace[workspace]
		err := p.edit(ctx, workspace, func(f *File) error {
			for _, t := range tasks {
				f.Put(entryOf(t.rec))
			}
			return nil
		})
		if err != nil {
			// The tasks stay new; the others go on.
			for _, t := range tasks {
				p.problem(t.id, "dispatch file of %s: %v", t.agent.Name, err)
				t.rec = nil
			}
			continue
		}
		crash.Point("dispatch.entered")
	}
	return nil
}

// begin notes the dispatch of a task in its record: a new one with the next
// attempt, or the one that was begun and not flipped before a crash.
func (p *pass) begin(ctx context.Context, t *task) (err error) {
	now := p.Now()
	t.rec, err = p.Records.Change(ctx, t.id, func(r *pipeline.Record) error {
		if d := r.Dispatch; d != nil && d.FlippedAt == nil && d.Agent == t.agent.Name && d.Workspace == t.agent.Workspace {
			return pipeline.ErrUnchanged
		}
		r.Attempt++
		r.Agent = t.agent.Name
		r.Dispatch = &pipeline.Dispatch{Attempt: r.Attempt, Agent: t.agent.Name, Workspace: t.agent.Workspace, At: now}
		if r.Attempt > 1 {
			r.Note(now, Who, "dispatched again", fmt.Sprintf("attempt %d", r.Attempt))
		}
		return nil
	})
	return err
}

// entryOf is the entry of a task's present dispatch.
func entryOf(r *pipeline.Record) Entry {
	e := Entry{
		TaskID: r.TaskID, Title: r.Title, Priority: r.Priority, Project: r.Project, Type: r.Type,
		DispatchedAt: r.Dispatch.At, RowID: r.RowID, Agent: r.Dispatch.Agent, Attempt: r.Dispatch.Attempt,
		Picked: r.Dispatch.TakenAt != nil,
	}
	for _, s := range r.Steps {
		e.Steps = append(e.Steps, s.Title)
	}
	if w := lastWakeOf(r); w != nil && w.Accepted != nil {
		e.Attempt, e.TriggeredAt, e.RunID = w.Attempt, *w.Accepted, w.Key
	}
	return e
}

// lastWakeOf is the last wake for the present dispatch whose first task is r.
func lastWakeOf(r *pipeline.Record) *pipeline.Wake {
	if len(r.Wakes) == 0 {
		return nil
	}
	if w := &r.Wakes[len(r.Wakes)-1]; !w.AskedAt.Before(r.Dispatch.At) && w.Agent == r.Dispatch.Agent {
		return w
	}
	return nil
}

// edit changes a dispatch file, and says loudly if it was set aside.
func (p *pass) edit(ctx context.Context, workspace string, f func(*File) error) error {
	return Edit(ctx, p.Dir, workspace, p.Now(), func(file *File) error {
		if file.Aside != "" {
			p.Log.Error("dispatch file was not JSON, set aside and begun anew", "workspace", workspace, "aside", filepath.Base(file.Aside))
			p.restore(file, workspace)
		}
		return f(file)
	})
}

// restore puts back all open entries of a workspace.
func (p *pass) restore(file *File, workspace string) {
	for _, tasks := range p.byName {
		for _, t := range tasks {
			if d := t.rec.Dispatch; d != nil && d.Workspace == workspace && t.rec.Status.Active() {
				file.Put(entryOf(t.rec))
			}
		}
	}
}

// flip sets the tasks to assigned on the board, in as few calls as it allows.
func (p *pass) flip(ctx context.Context, b pipeline.Batch, fresh []*task) error {
	fresh = slices.DeleteFunc(fresh, func(t *task) bool { return t.rec == nil })
	if len(fresh) == 0 {
		return nil
	}
	now := p.Now()
	var all []pipeline.Change
	for _, t := range fresh {
		if err := p.note(ctx, t, func(r *pipeline.Record) {
			r.Dispatch.FlipAt = &now
			if !t.agent.Person && r.Dispatch.EntryAt == nil {
				r.Dispatch.EntryAt = &now
			}
		}); err != nil {
			return err
		}
		all = append(all, flipOf(t, now))
	}
	err := b.Update(ctx, all...)
	if !pipeline.IsRefused(err) {
		if p.report.Trouble = err; err != nil {
			return nil // the next pass goes on with the dispatch that was begun
		}
		return p.flipped(ctx, fresh)
	}
	for i, t := range fresh {
		err := b.Update(ctx, all[i])
		switch {
		case pipeline.IsRefused(err):
			p.problem(t.id, "the board refuses to assign it: %v", err)
		case err != nil:
			p.report.Trouble = err
			return nil
		default:
			if err := p.flipped(ctx, []*task{t}); err != nil {
				return err
			}
		}
	}
	return nil
}

func flipOf(t *task, now time.Time) pipeline.Change {
	return pipeline.Change{Row: t.rec.RowID, Cells: []pipeline.Cell{
		{Field: pipeline.FieldStatus, Text: string(pipeline.Assigned)},
		{Field: pipeline.FieldAssignedAt, At: now},
	}}
}

// flipped notes that the board has flipped.
func (p *pass) flipped(ctx context.Context, tasks []*task) error {
	now := p.Now()
	for _, t := range tasks {
		err := p.note(ctx, t, func(r *pipeline.Record) {
			r.Note(now, Who, "status", fmt.Sprintf("%s to %s", pipeline.New, pipeline.Assigned))
			r.Status, r.Written = pipeline.Assigned, pipeline.Assigned
			r.Dispatch.FlippedAt = &now
		})
		if err != nil {
			return err
		}
		p.report.Dispatched++
		p.Log.Info("dispatched task", "task", t.id, "agent", t.agent.Name, "priority", t.rec.Priority, "attempt", t.rec.Dispatch.Attempt)
		if !t.agent.Person {
			p.byName[t.agent.Name] = append(p.byName[t.agent.Name], t)
		}
	}
	crash.Point("dispatch.flipped")
	return nil
}

// note changes the record of a task.
func (p *pass) note(ctx context.Context, t *task, f func(*pipeline.Record)) error {
	rec, err := p.Records.Change(ctx, t.id, func(r *pipeline.Record) error {
		f(r)
		return nil
	})
	if err != nil {
		return err
	}
	t.rec = rec
	return nil
}
