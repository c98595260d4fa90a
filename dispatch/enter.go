package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"otm/internal/crash"
	"otm/pipeline"
)

// handOut hands out tasks: records, entries, then the flip.
func (p *pass) handOut(ctx context.Context, b pipeline.Batch, fresh []*task) error {
	begun, err := p.each(ctx, fresh, p.begin)
	if err != nil {
		return err
	}
	entered, err := p.enter(ctx, begun)
	if err != nil {
		return err
	}
	return p.flip(ctx, b, entered)
}

// each does something with the record of each task, and returns those with
// which it succeeded; the others are reported.
func (p *pass) each(ctx context.Context, tasks []*task, do func(context.Context, *task) error) (done []*task, err error) {
	for _, t := range tasks {
		p.getsOn()
		if err := do(ctx, t); err == nil {
			done = append(done, t)
		} else if err := p.failed(ctx, t.id, err); err != nil {
			return done, err
		}
	}
	return done, nil
}

func (p *pass) getsOn() {
	if p.Progress != nil {
		p.Progress()
	}
}

// begin notes the dispatch of a task in its record: a new one with the next
// attempt, or the one that was begun and not flipped before a crash.
func (p *pass) begin(ctx context.Context, t *task) error {
	now := p.Now()
	rec, err := p.Records.Change(ctx, t.id, func(r *pipeline.Record) error {
		if isLost(r) {
			return errVanished
		}
		if d := r.Dispatch; d != nil && d.FlippedAt == nil && sameAgent(d.Agent, t.agent.Name) && d.Workspace == t.agent.Workspace && !setBack(r) {
			return pipeline.ErrUnchanged
		}
		t.begun, t.rebuilt = true, r.Attempt == 0 && wasRebuilt(r)
		if t.rebuilt {
			r.Attempt = beyond(r, now)
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
	rec.LogPeople(ctx, p.Log, now)
	return nil
}

func wasRebuilt(r *pipeline.Record) bool {
	return slices.ContainsFunc(r.History, func(e pipeline.Event) bool { return e.What == pipeline.EventRebuilt })
}

// beyond is a number that is surely above the attempts of a record that was
// lost, as none of them lasts less than a second: a key that was used must not
// be used again.
func beyond(r *pipeline.Record, now time.Time) int {
	return max(0, int(now.Sub(r.CreatedAt)/time.Second)) + 1
}

// enter writes the entries, one change a workspace, and returns the tasks that
// have theirs, and those that need none.
func (p *pass) enter(ctx context.Context, tasks []*task) ([]*task, error) {
	byWorkspace := map[string][]*task{}
	for _, t := range tasks {
		if !t.agent.Person {
			byWorkspace[t.agent.Workspace] = append(byWorkspace[t.agent.Workspace], t)
		}
	}
	failed := map[string]bool{}
	for _, workspace := range slices.Sorted(maps.Keys(byWorkspace)) {
		mine := byWorkspace[workspace]
		err := p.edit(ctx, workspace, func(f *File) error {
			for _, t := range mine {
				e := entryOf(t.rec)
				if old := f.Find(e.TaskID, e.Agent); old != nil && t.begun {
					e.Picked = t.rebuilt && old.Picked // where the record was lost, the mark is what tells
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
		p.report.due(p.Now().Add(fileAgain))
		for _, t := range mine { // they stay new; the others go on
			p.problem(t.id, "dispatch file of %s: %v", t.agent.Name, err)
		}
	}
	return slices.DeleteFunc(tasks, func(t *task) bool { return failed[t.agent.Workspace] && !t.agent.Person }), nil
}

// fileAgain is when to try again to write a dispatch file: its disk may be full
// for a moment.
const fileAgain = 30 * time.Second

// entryOf is the entry of a task's present dispatch.
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

// edit changes a dispatch file, and says loudly if it was set aside.
func (p *pass) edit(ctx context.Context, workspace string, f func(*File) error) error {
	return p.files.edit(ctx, workspace, p.Now(), cmp.Or(p.fileWait, passWait), func(file *File) error {
		if err := p.restore(file, workspace); err != nil {
			return err
		}
		return f(file)
	})
}

// restore says loudly that a dispatch file was set aside, and fills it with
// what is open.
func (p *pass) restore(file *File, workspace string) error {
	if file.Aside == "" {
		return nil
	}
	p.Log.Error("dispatch file was not JSON, set aside and begun anew", "workspace", workspace, "aside", filepath.Base(file.Aside))
	return beginAnew(file, p.Records, p.Agents, p.files, workspace)
}

// flip sets the tasks to assigned on the board, in as few calls as it allows.
func (p *pass) flip(ctx context.Context, b pipeline.Batch, tasks []*task) error {
	now := p.Now()
	tasks, err := p.each(ctx, tasks, func(ctx context.Context, t *task) error {
		return p.note(ctx, t, func(r *pipeline.Record) {
			r.Dispatch.FlipAt = &now
			if !t.agent.Person && r.Dispatch.EntryAt == nil {
				r.Dispatch.EntryAt = &now
			}
		})
	})
	if err != nil || len(tasks) == 0 {
		return err
	}
	all := make([]pipeline.Change, len(tasks))
	for i, t := range tasks {
		all[i] = flipOf(t, now)
	}
	err = b.Update(ctx, all...)
	switch {
	case err == nil:
		return p.flipped(ctx, tasks)
	case !concernsRow(err):
		p.report.Trouble = err // the next pass goes on with the dispatch that was begun
		return nil
	}
	for i, t := range tasks {
		err := b.Update(ctx, all[i])
		switch {
		case err == nil:
			if err := p.flipped(ctx, []*task{t}); err != nil {
				return err
			}
		case concernsRow(err):
			p.problem(t.id, "the board refuses to assign it: %v", err)
		default:
			p.report.Trouble = err
			return nil
		}
	}
	return nil
}

// concernsRow tells whether a write failed for a reason that need not concern
// other rows: it was refused, or the board lacks a column or an option. A
// person has to act, and may meanwhile have others do so.
func concernsRow(err error) bool {
	var missing *pipeline.MissingError
	return pipeline.IsRefused(err) || errors.As(err, &missing)
}

func flipOf(t *task, now time.Time) pipeline.Change {
	return pipeline.Change{Row: t.rec.RowID, Cells: []pipeline.Cell{
		{Field: pipeline.FieldStatus, Text: string(pipeline.Assigned)},
		{Field: pipeline.FieldAssignedAt, At: now},
	}}
}

// flipped notes that the board has flipped.
func (p *pass) flipped(ctx context.Context, tasks []*task) error {
	done, err := p.each(ctx, tasks, p.noteFlipped)
	for _, t := range done {
		if !t.agent.Person {
			p.byName[t.agent.Name] = append(p.byName[t.agent.Name], t)
		}
	}
	crash.Point("dispatch.flipped")
	return err
}

// noteFlipped notes in the record of a task that the board was flipped.
func (p *pass) noteFlipped(ctx context.Context, t *task) error {
	now := p.Now()
	err := p.note(ctx, t, func(r *pipeline.Record) {
		if r.Status != pipeline.Assigned {
			r.Note(now, Who, pipeline.EventStatus, fmt.Sprintf("%s to %s", r.Status, pipeline.Assigned))
		}
		r.Status, r.Written = pipeline.Assigned, pipeline.Assigned
		r.Dispatch.FlippedAt = &now
	})
	if err == nil {
		p.dispatched(t)
	}
	return err
}

// dispatched reports that a task was handed out.
func (p *pass) dispatched(t *task) {
	p.report.Dispatched++
	p.Log.Info("dispatched task", "task", t.id, "agent", t.agent.Name, "priority", t.rec.Priority, "attempt", t.rec.Dispatch.Attempt)
}

// errVanished says that a record was taken away while it was worked on. The
// next pass rebuilds it.
var errVanished = errors.New("it vanished")

// note changes the record of a task that was dispatched.
func (p *pass) note(ctx context.Context, t *task, f func(*pipeline.Record)) error {
	rec, err := p.Records.Change(ctx, t.id, func(r *pipeline.Record) error {
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
