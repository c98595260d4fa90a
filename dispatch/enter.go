package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"otm/internal/crash"
	"otm/internal/explain"
	"otm/pipeline"
)

// handout hands tasks to their agents.
type handout struct{ *run }

// handOut dispatches tasks: records, entries, then the flip.
func (ho *handout) handOut(ctx context.Context, b pipeline.Batch, fresh []*task) error {
	begun, err := ho.each(ctx, fresh, ho.begin)
	if err != nil {
		return err
	}
	entered, err := ho.enter(ctx, begun)
	if err != nil {
		return err
	}
	return ho.flip(ctx, b, entered)
}

// begin notes the dispatch of a task in its record, with the next attempt. A
// dispatch that was begun before a crash and is not flipped stays as it is.
func (ho *handout) begin(ctx context.Context, t *task) error {
	now := ho.Now()
	rec, err := ho.Records.Change(ctx, t.id, func(r *pipeline.Record) error {
		if isLost(r) {
			return errVanished
		}
		if d := r.Dispatch; d != nil && d.FlippedAt == nil && sameAgent(d.Agent, t.agent.Name) && d.Workspace == t.agent.Workspace && !setBack(r) {
			return pipeline.ErrUnchanged
		}
		t.begun, t.rebuilt = true, r.Attempt == 0 && wasRebuilt(r)
		if t.rebuilt {
			r.Attempt = unusedAttempt(r, now)
		}
		r.Attempt++
		r.GiveTo(t.agent.Name, t.by, now)
		r.Dispatch = &pipeline.Dispatch{Attempt: r.Attempt, Agent: t.agent.Name, Workspace: t.agent.Workspace, At: now}
		r.Dispatch.AllTicked = r.StepsDone() == len(r.Steps)
		if r.Attempt > 1 {
			r.Note(now, Who, eventAgain, fmt.Sprintf("%s, attempt %d", t.agent.Name, r.Attempt))
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.rec = rec
	rec.LogPeople(ctx, ho.Log, now)
	return nil
}

func wasRebuilt(r *pipeline.Record) bool {
	return slices.ContainsFunc(r.History, func(e pipeline.Event) bool { return e.What == pipeline.EventRebuilt })
}

// unusedAttempt returns a number above all attempts of a record that was lost: no
// attempt lasts less than a second. The key of a wake must not be used twice.
func unusedAttempt(r *pipeline.Record, now time.Time) int {
	return max(0, int(now.Sub(r.CreatedAt)/time.Second)) + 1
}

// enter writes the entries, one edit per workspace. It returns the tasks that have
// their entry, and those of people, which need none.
func (ho *handout) enter(ctx context.Context, tasks []*task) ([]*task, error) {
	byWorkspace := map[string][]*task{}
	for _, t := range tasks {
		if !t.agent.Person {
			byWorkspace[t.agent.Workspace] = append(byWorkspace[t.agent.Workspace], t)
		}
	}
	failed := map[string]bool{}
	for _, workspace := range slices.Sorted(maps.Keys(byWorkspace)) {
		mine := byWorkspace[workspace]
		err := ho.edit(ctx, workspace, ho.fileWait, func(f *File) error {
			for _, t := range mine {
				e := entryOf(t.rec)
				if old := f.Find(e.TaskID, e.Agent); old != nil && t.begun {
					e.Picked = t.rebuilt && old.Picked // the record was lost: only the mark is left
					old.Picked = e.Picked
				}
				f.Put(e)
			}
			return nil
		})
		if err == nil {
			crash.Point("dispatch.entered")
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		failed[workspace] = true
		ho.report.RunBy(ho.Now().Add(fileAgain))
		for _, t := range mine { // they stay new
			ho.problem(t.id, explain.TaskEntryFailed, "agent", t.agent.Name, "error", err)
		}
	}
	return slices.DeleteFunc(tasks, func(t *task) bool { return failed[t.agent.Workspace] && !t.agent.Person }), nil
}

// fileAgain is the pause before a dispatch file is written again: its disk may be
// full for a moment.
const fileAgain = 30 * time.Second

// entryOf returns the entry of a task's current dispatch.
func entryOf(r *pipeline.Record) Entry {
	e := Entry{
		TaskID: r.TaskID, Title: r.Title, Priority: r.Priority, Project: r.Project, Type: r.Type, Steps: stepTitles(r),
		DispatchedAt: r.Dispatch.At, RowID: r.RowID, Agent: r.Dispatch.Agent, Attempt: r.Dispatch.Attempt,
		Picked: r.Dispatch.TakenAt != nil,
	}
	if n := len(r.Wakes); n > 0 {
		if w := r.Wakes[n-1]; w.Accepted != nil && w.Attempt >= e.Attempt && sameAgent(w.Agent, e.Agent) {
			e.Attempt, e.TriggeredAt, e.RunID = w.Attempt, *w.Accepted, w.Key
		}
	}
	return e
}

func stepTitles(r *pipeline.Record) []string {
	titles := make([]string, len(r.Steps))
	for i, s := range r.Steps {
		titles[i] = s.Title
	}
	return titles
}

// flip sets the tasks to assigned on the board, in as few calls as possible.
func (ho *handout) flip(ctx context.Context, b pipeline.Batch, tasks []*task) error {
	now := ho.Now()
	tasks, err := ho.each(ctx, tasks, func(ctx context.Context, t *task) error {
		return ho.note(ctx, t, func(r *pipeline.Record) {
			if !t.agent.Person && r.Dispatch.EntryAt == nil {
				r.Dispatch.EntryAt = &now
			}
		})
	})
	if err != nil || len(tasks) == 0 {
		return err
	}
	return ho.flipRows(ctx, b, tasks, now)
}

// flipRows is the part of flip that writes to the board. If the board refuses a row,
// flipRows tries each row alone.
func (ho *handout) flipRows(ctx context.Context, b pipeline.Batch, tasks []*task, now time.Time) error {
	changes := make([]pipeline.Change, len(tasks))
	for i, t := range tasks {
		changes[i] = pipeline.Change{Row: t.rec.RowID, Cells: []pipeline.Cell{
			{Field: pipeline.FieldStatus, Text: string(pipeline.Assigned)},
			{Field: pipeline.FieldAssignedAt, At: now},
		}}
	}
	err := b.Update(ctx, changes...)
	switch {
	case err == nil:
		return ho.flipped(ctx, tasks)
	case !concernsRow(err):
		ho.report.Trouble = err // the next pass resumes the dispatch
		return nil
	case len(tasks) == 1:
		ho.problem(tasks[0].id, explain.TaskFlipRefused, "error", err)
		return nil
	}
	for i := range tasks {
		if err := ho.flipRows(ctx, b, tasks[i:i+1:i+1], now); err != nil || ho.report.Trouble != nil {
			return err
		}
	}
	return nil
}

// concernsRow reports whether a write failed for a reason that other rows may not
// share: the board refused it, or lacks a column or an option. It needs a person.
func concernsRow(err error) bool {
	var missing *pipeline.MissingError
	return pipeline.IsRefused(err) || errors.As(err, &missing)
}

// flipped notes that the board shows the tasks as assigned.
func (ho *handout) flipped(ctx context.Context, tasks []*task) error {
	now := ho.Now()
	done, err := ho.each(ctx, tasks, func(ctx context.Context, t *task) error {
		return ho.note(ctx, t, func(r *pipeline.Record) {
			if r.Status != pipeline.Assigned {
				r.Note(now, Who, pipeline.EventStatus, fmt.Sprintf("%s to %s", r.Status, pipeline.Assigned))
			}
			r.Status = pipeline.Assigned
			r.Dispatch.FlippedAt = &now
		})
	})
	for _, t := range done {
		ho.dispatched(t)
		if !t.agent.Person {
			ho.byName[t.agent.Name] = append(ho.byName[t.agent.Name], t)
		}
	}
	crash.Point("dispatch.flipped")
	return err
}
