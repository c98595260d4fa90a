package dispatch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"otm/internal/durable"
	"otm/internal/explain"
	"otm/pipeline"
)

// keeper keeps the dispatch files right.
type keeper struct{ *run }

// tend keeps the dispatch files right: it removes entries of tasks that have ended or
// belong to another agent, notes which were taken, and puts back those that
// vanished.
func (kp *keeper) tend(ctx context.Context) error {
	if err := kp.resume(ctx); err != nil {
		return err
	}
	shared := map[string]string{} // identity → one of the paths of the workspace
	for i := range kp.Agents {
		a := &kp.Agents[i]
		if a.Person || a.Workspace == "" {
			continue
		}
		reason := kp.unready(a)
		if reason == nil {
			id, _ := kp.resolve(a.Workspace)
			if _, known := shared[id]; !known {
				shared[id] = a.Workspace
			}
			continue
		}
		if kp.anyWaits(a) {
			kp.failure("workspace is gone, and tasks wait", *reason)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(shared)) {
		workspace := shared[id]
		kp.getsOn()
		kp.clean(workspace)
		if err := kp.tendWorkspace(ctx, workspace); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if large := (*TooLargeError)(nil); errors.As(err, &large) || isSilent(err) {
				kp.unkept[id] = true
			}
			kp.failure("dispatch file not kept", explain.New(explain.DispatchUnkept, "path", workspace, "error", err))
		}
	}
	return nil
}

// clean removes, once a process, what a crashed writer left in a workspace.
func (kp *keeper) clean(workspace string) {
	if !kp.cleaned[workspace] {
		kp.cleaned[workspace] = true
		now := kp.Now()
		kp.files.within(workspace, func() error {
			_, err := durable.RemoveLeftovers(workspace, time.Hour, now)
			return err
		}, func() {}) // where that fails, they are removed another time
	}
}

// resume finishes dispatches whose flip stands on the board but whose answer was
// lost, and follows agents that have moved to another workspace.
func (kp *keeper) resume(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(kp.byName)) {
		for _, t := range kp.byName[name] {
			d := t.rec.Dispatch
			if d == nil || !sameAgent(d.Agent, t.agent.Name) {
				continue // in the hands of somebody else than the board says: see isAgain
			}
			flipped := d.FlippedAt != nil
			moved := !kp.sameWorkspace(d.Workspace, t.agent.Workspace)
			if flipped && !moved {
				continue
			}
			now := kp.Now()
			err := kp.note(ctx, t, func(r *pipeline.Record) {
				if !flipped {
					r.Dispatch.FlippedAt = &now
				}
				if moved {
					r.Dispatch.Workspace, r.Dispatch.EntryAt, r.Dispatch.MissingAt = t.agent.Workspace, nil, nil
				}
			})
			if err != nil {
				if err := kp.failed(ctx, t.id, err); err != nil {
					return err
				}
				continue
			}
			if !flipped {
				kp.dispatched(t)
			}
		}
	}
	return nil
}

// openIn returns the tasks that have or should have an entry in a workspace.
func (kp *keeper) openIn(workspace string) map[pipeline.TaskID]*task {
	open := map[pipeline.TaskID]*task{}
	for _, tasks := range kp.byName {
		for _, t := range tasks {
			if d := t.rec.Dispatch; d != nil && kp.sameWorkspace(d.Workspace, workspace) && t.rec.Status.Active() {
				open[t.id] = t
			}
		}
	}
	return open
}

// findings are what a dispatch file showed.
type findings struct {
	taken   []*task // have a mark that the record does not know of
	missing []*task // have no entry
	found   []*task // have one, again or at last
	left    []pipeline.TaskID
}

func (kp *keeper) tendWorkspace(ctx context.Context, workspace string) error {
	open := kp.openIn(workspace)
	var see findings
	err := kp.edit(ctx, workspace, func(f *File) error {
		for _, e := range f.Entries() {
			if t := open[e.TaskID]; t != nil && sameAgent(t.rec.Dispatch.Agent, e.Agent) {
				continue
			}
			if kp.isOver(e) {
				f.Remove(e)
				see.left = append(see.left, e.TaskID)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(open)) {
			kp.tendEntry(f, open[id], &see)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return kp.noteFindings(ctx, &see)
}

// tendEntry looks after the entry of an open task.
func (kp *keeper) tendEntry(f *File, t *task, see *findings) {
	d := t.rec.Dispatch
	e := f.Find(t.id, d.Agent)
	switch {
	case e == nil && !kp.redeliver(t):
		see.missing = append(see.missing, t)
		return
	case e == nil || e.stale(d.Attempt):
		f.Put(entryOf(t.rec))
		see.found = append(see.found, t)
		return
	case e.Picked && d.TakenAt == nil:
		see.taken = append(see.taken, t)
	case !e.Picked && d.TakenAt == nil:
		refresh(e, t.rec)
	}
	if d.MissingAt != nil || d.EntryAt == nil {
		see.found = append(see.found, t)
	}
}

// refresh brings what people changed on the board into an entry that nobody
// took. What the agent bent out of shape is left alone.
func refresh(e *Entry, r *pipeline.Record) {
	if e.Title != "" {
		e.Title = r.Title
	}
	if e.Priority != "" {
		e.Priority = r.Priority
	}
	if len(e.Steps) > 0 {
		e.Steps = stepTitles(r)
	}
}

// isOver reports whether an entry of ours has no place in the file any more. An
// entry of a task that we know nothing of is somebody else's.
func (kp *keeper) isOver(e *Entry) bool {
	rec, err := kp.Records.Load(e.TaskID)
	from, away := kp.away[e.TaskID]
	switch {
	case err != nil, e.RowID != "" && e.RowID != rec.RowID:
		return false
	case rec.Status.Finished(), rec.Status == pipeline.Pending, away && sameAgent(from, e.Agent):
		return true
	case rec.Dispatch == nil:
		return rec.Attempt > 0 // taken away
	case !sameAgent(rec.Dispatch.Agent, e.Agent):
		return true
	}
	return rec.GoneAt != nil
}

// redeliver reports whether the entry of a task is to be written: it vanished
// long enough ago without a word from the agent, or was never written.
func (kp *keeper) redeliver(t *task) bool {
	d := t.rec.Dispatch
	if t.rec.Status != pipeline.Assigned || d.TakenAt != nil {
		return false
	}
	return d.EntryAt == nil || d.MissingAt != nil && reached(*d.MissingAt, kp.Times.RedeliverAfter, kp.Now())
}

// noteFindings writes what was found into the records.
func (kp *keeper) noteFindings(ctx context.Context, see *findings) error {
	now := kp.Now()
	type change struct {
		tasks []*task
		do    func(r *pipeline.Record)
	}
	missing := slices.DeleteFunc(see.missing, func(t *task) bool {
		return t.rec.Status != pipeline.Assigned || t.rec.Dispatch.TakenAt != nil
	})
	unseen := slices.DeleteFunc(slices.Clone(missing), func(t *task) bool { return t.rec.Dispatch.MissingAt != nil })
	for _, c := range []change{
		{see.taken, func(r *pipeline.Record) {
			if r.Dispatch.TakenAt == nil { // else "otm next" was about to say so itself
				r.Dispatch.TakenAt, r.Dispatch.TakenBy = &now, takenByFile
				r.Hear(r.Dispatch.Agent, now, func(h *pipeline.Heard) { h.Took = now })
				r.Note(now, pipeline.WhoAgent(r.Dispatch.Agent), pipeline.EventTaken, "marked in the dispatch file")
			}
		}},
		{unseen, func(r *pipeline.Record) { r.Dispatch.MissingAt = &now }},
		{see.found, func(r *pipeline.Record) {
			r.Dispatch.MissingAt = nil
			if r.Dispatch.EntryAt == nil {
				r.Dispatch.EntryAt = &now
			}
		}},
	} {
		if _, err := kp.each(ctx, c.tasks, func(ctx context.Context, t *task) error { return kp.note(ctx, t, c.do) }); err != nil {
			return err
		}
	}
	for _, t := range missing {
		if at := t.rec.Dispatch.MissingAt; at != nil {
			kp.report.due(at.Add(kp.Times.RedeliverAfter))
		}
	}
	return kp.noteLeft(ctx, see)
}

// noteLeft notes which entries we took out, so that they are written at once
// when their time comes again.
func (kp *keeper) noteLeft(ctx context.Context, see *findings) error {
	for _, id := range see.left {
		_, err := kp.Records.Change(ctx, id, func(r *pipeline.Record) error {
			if r.Dispatch == nil || r.Dispatch.EntryAt == nil || r.Status.Finished() {
				return pipeline.ErrUnchanged
			}
			r.Dispatch.EntryAt, r.Dispatch.MissingAt = nil, nil
			return nil
		})
		if err != nil {
			if err := kp.failed(ctx, id, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// reportSilent reports the tasks that an agent took and has not reported on for too
// long.
func (kp *keeper) reportSilent() {
	now := kp.Now()
	for i := range kp.Agents {
		s := &situation{agent: &kp.Agents[i], now: now, times: kp.Times}
		for _, t := range kp.byName[s.agent.Name] {
			if !AtWork(t.rec) {
				continue
			}
			last := t.rec.HeardOf(s.agent.Name).At
			if reached(last, kp.Times.SilentAfter, now) {
				kp.given(explain.New(explain.TaskSilent, "agent", s.agent.Name, "since", last).On(t.id))
				continue
			}
			kp.report.due(last.Add(kp.Times.SilentAfter))
		}
	}
}
