package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"otm/internal/crash"
	"otm/internal/explain"
	"otm/pipeline"
)

// sendWake records a wake, sends it, and records the answer. If we crash
// between, the next pass sends it again under its key.
func (wg *waking) sendWake(ctx context.Context, a *pipeline.Agent, waker Waker, pl plan) wakeResult {
	first := pl.tasks[0]
	if pl.action == resend {
		first = pl.of
	}
	var w pipeline.Wake
	open := false // an earlier try may be queued
	_, err := wg.Records.Change(ctx, first.TaskID, func(r *pipeline.Record) error {
		if outdated(r, first, slices.Contains(pl.tasks, first)) {
			return errOutdated
		}
		var err error
		if pl.action == resend {
			w, open, err = wg.sentAgain(r, pl)
		} else {
			w = wg.newWake(r, a, pl)
		}
		return err
	})
	switch {
	case errors.Is(err, errOutdated):
		return wakeResult{due: wg.Now().Add(time.Second)}
	case err != nil:
		return wakeResult{failed: notWoken(explain.AgentStateWrong, a, err)}
	}
	crash.Point("wake.before")
	wakeCtx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	wakeErr := waker.Wake(wakeCtx, Request{
		Agent: a, Key: w.Key, Task: first.TaskID, Message: message(a.Name, w.Tasks, wg.MessageDir),
		File: filepath.Join(a.Workspace, FileName),
	})
	crash.Point("wake.after")
	if open && wakeErr != nil && !errors.Is(wakeErr, ErrLost) {
		wakeErr = fmt.Errorf("%w before: %w", ErrLost, wakeErr) // the earlier try may still be queued
	}
	r := wg.answered(ctx, a, first.TaskID, w, wakeErr, pl.why)
	if wakeErr != nil && ctx.Err() != nil {
		return wakeResult{} // the dispatcher stops: the next one resumes the wake
	}
	return r
}

// errOutdated says that the record changed since a wake was planned.
var errOutdated = errors.New("the record changed since the wake was planned")

// outdated reports whether a plan made on the record seen is stale: the task was
// taken, ended, given away or lost, or another process has sent a wake. works is
// false if the wake is not for the task and the record only holds the wake.
func outdated(now, seen *pipeline.Record, works bool) bool {
	d, was := now.Dispatch, seen.Dispatch
	switch {
	case len(now.Wakes) != len(seen.Wakes), now.RowID == "":
		return true
	case !works:
		return false
	case d == nil || d.Attempt != was.Attempt || now.Status != seen.Status:
		return true
	}
	return !now.HeardOf(d.Agent).At.Equal(seen.HeardOf(d.Agent).At) || (d.TakenAt == nil) != (was.TakenAt == nil)
}

// sentAgain prepares a wake in a record to be sent again. If the wake may be queued,
// open is true and it stays the same. Otherwise it names the tasks that wait now.
func (wg *waking) sentAgain(r *pipeline.Record, pl plan) (wake pipeline.Wake, open bool, err error) {
	w := wakeNamed(r, pl.wake.Key)
	if w == nil {
		return pipeline.Wake{}, false, errOutdated
	}
	open = maybeQueued(w)
	if !open || len(w.Tasks) == 0 {
		w.AskedAt = wg.askedAfter(w)
		w.Tasks = firstOf(r.TaskID, idsOf(pl.tasks))
	}
	w.Sent, w.Refused = true, ""
	return *w, open, nil
}

// newWake adds a wake to a record, under an unused key: it raises the record's
// attempt if a wake has used that number.
func (wg *waking) newWake(r *pipeline.Record, a *pipeline.Agent, pl plan) pipeline.Wake {
	used := slices.ContainsFunc(r.Wakes, func(w pipeline.Wake) bool { return w.Attempt >= r.Attempt })
	if used || r.Attempt == 0 {
		r.Attempt++
	}
	w := pipeline.Wake{
		Attempt: r.Attempt, Key: Key(r.TaskID, a.Name, r.Attempt), Agent: a.Name, Via: string(a.Trigger),
		Tasks: idsOf(pl.tasks), AskedAt: wg.askedAfter(pl.wake), Sent: true,
	}
	r.Wakes = append(r.Wakes, w)
	return w
}

// askedAfter is the time of a wake that comes after last. It is now, unless the
// clock was set back a little: times give the order of wakes.
func (wg *waking) askedAfter(last *pipeline.Wake) time.Time {
	now := wg.Now()
	if last == nil || last.AskedAt.Before(now) || last.AskedAt.After(now.Add(wg.Times.RewakeAfter)) {
		return now
	}
	return last.AskedAt.Add(1)
}

// firstOf moves id to the front of a list.
func firstOf(id pipeline.TaskID, ids []pipeline.TaskID) []pipeline.TaskID {
	return append([]pipeline.TaskID{id}, slices.DeleteFunc(ids, func(o pipeline.TaskID) bool { return o == id })...)
}

// retryWake is the pause before a wake that was not accepted is sent again.
const retryWake = 15 * time.Second

// answered notes the answer to a wake in the record, durably.
func (wg *waking) answered(ctx context.Context, a *pipeline.Agent, first pipeline.TaskID, w pipeline.Wake, wakeErr error, why string) wakeResult {
	now := wg.Now()
	ctx = context.WithoutCancel(ctx) // note the answer even if the dispatcher stops
	_, err := wg.Records.Change(ctx, first, func(r *pipeline.Record) error {
		mine := wakeNamed(r, w.Key)
		if mine == nil {
			return fmt.Errorf("record of %v lost its wake %s", first, w.Key)
		}
		switch {
		case wakeErr == nil:
			if mine.Accepted == nil {
				mine.Accepted = &now
			}
			r.Note(now, Who, "woken", fmt.Sprintf("%s, %s %s", a.Name, w.Via, w.Key))
		case errors.Is(wakeErr, ErrLost): // it may be queued
		case errors.Is(wakeErr, ErrRefused):
			mine.Refused = wakeErr.Error()
		default:
			mine.Sent = false // it was not sent: its key is unused
		}
		return nil
	})
	if err != nil {
		return wakeResult{first: first, failed: notWoken(explain.AgentStateWrong, a, err)}
	}
	if wakeErr != nil {
		r := wakeResult{first: first, due: now.Add(retryWake)}
		switch {
		case errors.Is(wakeErr, errBusy): // a pass follows the end of its process
		case errors.Is(wakeErr, ErrRefused) && !errors.Is(wakeErr, ErrLost):
			r.due = time.Time{}
			if r.failed = CommandProblem(a); r.failed == nil {
				r.failed = notWoken(explain.WakeBarred, a, wakeErr)
			}
		default:
			r.failed = notWoken(explain.WakeFailed, a, wakeErr)
		}
		return r
	}
	level := slog.LevelInfo
	if why != whyWaiting {
		level = slog.LevelWarn
	}
	wg.Log.Log(ctx, level, "woke agent", "agent", a.Name, "via", w.Via, "run", w.Key, "tasks", w.Tasks, "why", why)
	if err := wg.copyWake(ctx, a, w, now); err != nil {
		wg.Log.Warn("wake not copied to the dispatch file", "agent", a.Name, "err", err)
	}
	return wakeResult{woken: 1, first: first}
}

// copyWake writes the wake into the entries, for people, and into the histories
// of the other tasks that the message names.
func (wg *waking) copyWake(ctx context.Context, a *pipeline.Agent, w pipeline.Wake, at time.Time) error {
	for _, id := range w.Tasks[:min(len(w.Tasks), maxNamed)] {
		if id == w.Tasks[0] {
			continue // its record holds the wake
		}
		if _, err := wg.Records.Change(ctx, id, func(r *pipeline.Record) error {
			if r.RowID == "" {
				return pipeline.ErrUnchanged // lost: the next pass rebuilds it
			}
			r.Note(at, Who, "woken", fmt.Sprintf("%s, %s %s", a.Name, w.Via, w.Key))
			return nil
		}); err != nil {
			return err
		}
	}
	return wg.edit(ctx, a.Workspace, fileWait, func(f *File) error {
		for i, id := range w.Tasks {
			if e := f.Find(id, a.Name); e != nil {
				e.TriggeredAt, e.RunID = at, w.Key
				if i == 0 {
					e.Attempt = max(e.Attempt, w.Attempt)
				}
			}
		}
		return nil
	})
}
