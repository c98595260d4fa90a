package dispatch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/pipeline"
)

// keeper brings dispatch files in line with the records.
type keeper struct{ *run }

// tend brings every dispatch file in line with the records: it removes entries of
// tasks that have ended or belong to another agent, notes which were taken, and
// puts back those that vanished.
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
		if slices.ContainsFunc(kp.byName[a.Name], func(t *task) bool { return isWaiting(t.rec) }) {
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
			if large := (*TooLargeError)(nil); errors.As(err, &large) || patience.IsSilent(err) {
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
		}, nil) // if that fails, the next process tries again
	}
}

// resume finishes dispatches whose flip is on the board but whose answer was lost.
// It moves the dispatches of an agent whose workspace was changed in otm.toml.
func (kp *keeper) resume(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(kp.byName)) {
		for _, t := range kp.byName[name] {
			d := t.rec.Dispatch
			if d == nil || !sameAgent(d.Agent, t.agent.Name) {
				continue // the board names another agent than the record: see isAgain
			}
			flipped := d.FlippedAt != nil
			moved := !samePlace(kp.resolve, d.Workspace, t.agent.Workspace)
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

// openIn returns the open tasks that belong into a workspace.
func (kp *keeper) openIn(workspace string) map[pipeline.TaskID]*task {
	open := map[pipeline.TaskID]*task{}
	for _, tasks := range kp.byName {
		for _, t := range tasks {
			if d := t.rec.Dispatch; d != nil && samePlace(kp.resolve, d.Workspace, workspace) && t.rec.Status.Active() {
				open[t.id] = t
			}
		}
	}
	return open
}

// findings are the differences between a dispatch file and the records.
type findings struct {
	taken   []*task           // marked in the file, not in the record
	missing []*task           // waiting, without an entry
	found   []*task           // with an entry that the record misses
	left    []pipeline.TaskID // whose entries were removed
}

func (kp *keeper) tendWorkspace(ctx context.Context, workspace string) error {
	open := kp.openIn(workspace)
	records := map[pipeline.TaskID]*pipeline.Record{} // a file may hold one task thousands of times
	left := map[pipeline.TaskID]bool{}
	var fs findings
	err := kp.edit(ctx, workspace, kp.fileWait, func(f *File) error {
		for _, e := range f.Entries() {
			if t := open[e.TaskID]; t != nil && sameAgent(t.rec.Dispatch.Agent, e.Agent) {
				continue
			}
			rec, known := records[e.TaskID]
			if !known {
				rec, _ = kp.Records.Load(e.TaskID) // nil: the entry is not known to be ours
				records[e.TaskID] = rec
			}
			if kp.isOver(e, rec) {
				f.Remove(e)
				left[e.TaskID] = true
			}
		}
		fs.left = slices.Sorted(maps.Keys(left))
		for _, id := range slices.Sorted(maps.Keys(open)) {
			kp.tendEntry(f, open[id], &fs)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return kp.noteFindings(ctx, &fs)
}

// tendEntry checks, updates or writes the entry of an open task.
func (kp *keeper) tendEntry(f *File, t *task, fs *findings) {
	d := t.rec.Dispatch
	e := f.Find(t.id, d.Agent)
	switch {
	case e == nil && !kp.redeliver(t):
		if isWaiting(t.rec) {
			fs.missing = append(fs.missing, t)
		}
		return
	case e == nil || e.stale(d.Attempt):
		f.Put(entryOf(t.rec))
		fs.found = append(fs.found, t)
		return
	case e.Picked && d.TakenAt == nil:
		fs.taken = append(fs.taken, t)
	case !e.Picked && d.TakenAt == nil:
		refresh(e, t.rec)
	}
	if d.MissingAt != nil || d.EntryAt == nil {
		fs.found = append(fs.found, t)
	}
}

// refresh copies changes on the board into an entry that nobody took. Fields that
// could not be read are left alone.
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

// isOver reports whether an entry of ours is to be removed. rec is the record of its
// task; an entry without a record is not ours.
func (kp *keeper) isOver(e *Entry, rec *pipeline.Record) bool {
	from, away := kp.away[e.TaskID]
	switch {
	case rec == nil, e.RowID != "" && e.RowID != rec.RowID:
		return false
	case rec.Status.Finished(), rec.Status == pipeline.Pending, away && sameAgent(from, e.Agent):
		return true
	case rec.Dispatch == nil:
		return rec.Attempt > 0 // a person took the task away
	case !sameAgent(rec.Dispatch.Agent, e.Agent):
		return true
	}
	return rec.GoneAt != nil
}

// redeliver reports whether to write the entry of a task: it was never written, or
// vanished RedeliverAfter ago without a report.
func (kp *keeper) redeliver(t *task) bool {
	d := t.rec.Dispatch
	return isWaiting(t.rec) && (d.EntryAt == nil || d.MissingAt != nil && reached(*d.MissingAt, kp.Times.RedeliverAfter, kp.Now()))
}

// noteFindings writes the findings into the records.
func (kp *keeper) noteFindings(ctx context.Context, fs *findings) error {
	now := kp.Now()
	type change struct {
		tasks []*task
		do    func(r *pipeline.Record)
	}
	unseen := slices.DeleteFunc(slices.Clone(fs.missing), func(t *task) bool { return t.rec.Dispatch.MissingAt != nil })
	for _, c := range []change{
		{fs.taken, func(r *pipeline.Record) {
			if r.Dispatch.TakenAt == nil { // else "otm next" noted it meanwhile
				r.Dispatch.TakenAt, r.Dispatch.TakenBy = &now, takenByFile
				r.Hear(r.Dispatch.Agent, now, func(h *pipeline.Heard) { h.Took = now })
				r.Note(now, pipeline.WhoAgent(r.Dispatch.Agent), pipeline.EventTaken, "marked in the dispatch file")
			}
		}},
		{unseen, func(r *pipeline.Record) { r.Dispatch.MissingAt = &now }},
		{fs.found, func(r *pipeline.Record) {
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
	for _, t := range fs.missing {
		if at := t.rec.Dispatch.MissingAt; at != nil {
			kp.report.RunBy(at.Add(kp.Times.RedeliverAfter))
		}
	}
	return kp.noteLeft(ctx, fs.left)
}

// noteLeft notes which entries were removed, so that they are written at once when
// their task is dispatched again.
func (kp *keeper) noteLeft(ctx context.Context, left []pipeline.TaskID) error {
	for _, id := range left {
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

// reportSilent reports the tasks that an agent took and has not reported on for
// SilentAfter.
func (kp *keeper) reportSilent() {
	now := kp.Now()
	for _, a := range kp.Agents {
		for _, t := range kp.byName[a.Name] {
			if !AtWork(t.rec) {
				continue
			}
			last := t.rec.HeardOf(a.Name).At
			if reached(last, kp.Times.SilentAfter, now) {
				kp.given(explain.New(explain.TaskSilent, "agent", a.Name, "since", last).On(t.id))
				continue
			}
			kp.report.RunBy(last.Add(kp.Times.SilentAfter))
		}
	}
}
