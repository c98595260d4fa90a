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
	open := false // it was sent before, and may be queued
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
		return notWoken(explain.AgentStateWrong, a, err)
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
		wakeErr = fmt.Errorf("%w before: %w", ErrLost, wakeErr) // whatever it says of this time
	}
	r := wg.answered(ctx, a, first.TaskID, w, wakeErr, pl.why)
	if wakeErr != nil && ctx.Err() != nil {
		return wakeResult{} // we are told to stop: the next start goes on
	}
	return r
}

// errOutdated says that something happened since a wake was planned.
var errOutdated = errors.New("something happened since")

// outdated reports whether a plan that was made on the record seen is outdated: the
// task was taken, ended, given away or lost, or another process has sent a wake.
// works is false where the task is none that the wake is for, and its record only
// holds the wake.
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

// sentAgain prepares the wake of a record to be sent once more. Where it was
// surely not queued, it may name other tasks than before; else the same wake is
// repeated to the letter, and open is true.
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

// newWake adds a wake to a record, under a key that no other ever had: the
// record's counter of attempts is raised unless its number is unused.
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

// askedAfter is the time of a wake that comes after last. The order of wakes is
// known by their times, so it is now unless the clock was set back a little.
func (wg *waking) askedAfter(last *pipeline.Wake) time.Time {
	now := wg.Now()
	if last == nil || last.AskedAt.Before(now) || last.AskedAt.After(now.Add(wg.Times.RewakeAfter)) {
		return now
	}
	return last.AskedAt.Add(1)
}

// firstOf puts id in front of a list that holds it.
func firstOf(id pipeline.TaskID, ids []pipeline.TaskID) []pipeline.TaskID {
	return append([]pipeline.TaskID{id}, slices.DeleteFunc(ids, func(o pipeline.TaskID) bool { return o == id })...)
}

// retryWake is when to try again after a wake that was not accepted.
const retryWake = 15 * time.Second

// answered notes what came of a wake.
func (wg *waking) answered(ctx context.Context, a *pipeline.Agent, first pipeline.TaskID, w pipeline.Wake, wakeErr error, why string) wakeResult {
	now := wg.Now()
	ctx = context.WithoutCancel(ctx) // the answer is here: it is noted even if we are told to stop
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
			mine.Sent = false // it never went out: its key is unused
		}
		return nil
	})
	if err != nil {
		r := notWoken(explain.AgentStateWrong, a, err)
		r.first = first
		return r
	}
	if wakeErr != nil {
		r := wakeResult{first: first, due: now.Add(retryWake)}
		switch {
		case errors.Is(wakeErr, errBusy): // it will be looked at again when its process ends
		case errors.Is(wakeErr, ErrRefused) && !errors.Is(wakeErr, ErrLost):
			r.due = time.Time{} // the usual time is soon enough
			r.failed = notWoken(explain.WakeBarred, a, wakeErr).failed
		default:
			r.failed = notWoken(explain.WakeFailed, a, wakeErr).failed
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

// copyWake writes the wake into the entries, for people, and into the history
// of the other tasks that the message named.
func (wg *waking) copyWake(ctx context.Context, a *pipeline.Agent, w pipeline.Wake, at time.Time) error {
	for _, id := range w.Tasks[:min(len(w.Tasks), maxNamed)] {
		if id == w.Tasks[0] {
			continue // has the wake itself
		}
		if _, err := wg.Records.Change(ctx, id, func(r *pipeline.Record) error {
			if r.RowID == "" {
				return pipeline.ErrUnchanged // lost: it is rebuilt with the next pass
			}
			r.Note(at, Who, "woken", fmt.Sprintf("%s, %s %s", a.Name, w.Via, w.Key))
			return nil
		}); err != nil {
			return err
		}
	}
	return wg.files.edit(ctx, a.Workspace, at, fileWait, func(f *File) error {
		if err := wg.restore(f, a.Workspace); err != nil {
			return err
		}
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
