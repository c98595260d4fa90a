package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"otm/internal/crash"
	"otm/internal/explain"
	"otm/internal/lock"
	"otm/pipeline"
)

// waking plans the wakes of all agents and sends them.
type waking struct{ *run }

// wake wakes every agent whose turn it is, all in parallel. It waits for the
// answers, not for the runs, and for the answers no longer than Patience: a
// gateway that does not answer holds up nobody but its own agents.
func (wg *waking) wake(ctx context.Context) error {
	for i := range wg.Agents {
		a := &wg.Agents[i]
		waker := wg.Wakers[a.Trigger]
		if a.Person || waker == nil || wg.waking[a.Name] != nil || !wg.reachable(a) {
			continue
		}
		s, err := wg.situation(ctx, a, waker)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			wg.failure("agent not woken", *notWoken(explain.AgentStateWrong, a, err).failed)
			continue
		}
		if pl := s.planWake(); wg.settled(s, pl) {
			delete(wg.unwoken, a.Name)
		} else {
			wg.waking[a.Name] = wg.startWake(func() wakeResult { return wg.carryOut(ctx, s, pl, waker) })
		}
	}
	wg.collect()
	return nil
}

// pendingWake is a wake that is under way.
type pendingWake struct {
	done chan wakeResult
	late atomic.Bool // no pass waits for its result
}

// startWake begins a wake. If its result comes late, Answered is called.
func (d *Dispatcher) startWake(wake func() wakeResult) *pendingWake {
	w := &pendingWake{done: make(chan wakeResult, 1)}
	d.wakers.Go(func() {
		w.done <- wake()
		if w.late.Load() && d.Answered != nil {
			d.Answered()
		}
	})
	return w
}

// lateAgain is when to look for a late result at the latest.
const lateAgain = time.Second

// collect takes the results that are there, or come in within Patience.
func (wg *waking) collect() {
	var patience <-chan time.Time
	if wg.Patience > 0 {
		timer := time.NewTimer(wg.Patience)
		defer timer.Stop()
		patience = timer.C
	}
	late := false
	for _, name := range slices.Sorted(maps.Keys(wg.waking)) {
		pending := wg.waking[name]
		if !late {
			select {
			case r := <-pending.done:
				wg.woke(name, r)
				continue
			case <-patience:
				late = true
			}
		}
		pending.late.Store(true)
		select {
		case r := <-pending.done:
			wg.woke(name, r)
		default:
			if failed, ok := wg.unwoken[name]; ok {
				wg.report.Failed = append(wg.report.Failed, failed) // until the next answer, that is how it stands
			}
			wg.report.due(wg.Now().Add(lateAgain))
		}
	}
}

// Wait returns when no wake is under way any more.
func (d *Dispatcher) Wait() { d.wakers.Wait() }

// woke puts what came of one agent into the report.
func (wg *waking) woke(name string, r wakeResult) {
	delete(wg.waking, name)
	wg.report.due(r.due)
	wg.report.Woken += r.woken
	if r.first != 0 {
		wg.holders.add(name, r.first)
	}
	delete(wg.unwoken, name)
	if r.failed != nil {
		wg.unwoken[name] = *r.failed
		wg.failure("agent not woken", *r.failed)
	}
	if r.given != nil {
		wg.given(*r.given)
	}
}

// wakeResult is what came of one agent.
type wakeResult struct {
	woken  int
	first  pipeline.TaskID // whose record holds the wake; 0: none was recorded
	due    time.Time
	failed *explain.Finding // why it was not woken; nil: it was, or need not be
	given  *explain.Finding // what a person has to look at; nil: nothing
}

// notWoken is the result of a wake that failed.
func notWoken(code explain.Code, a *pipeline.Agent, err error, args ...any) wakeResult {
	f := explain.New(code, append(args, "agent", a.Name, "error", err)...)
	return wakeResult{failed: &f}
}

// situation gathers what is known of an agent, and judges the end of its last run.
func (wg *waking) situation(ctx context.Context, a *pipeline.Agent, waker Waker) (*situation, error) {
	s := &situation{agent: a, idle: wg.files.idleSince(wg.Agents, a), now: wg.Now(), times: wg.Times}
	// A process that was started before the trigger was changed counts too.
	pid, held := lock.Holder(execLock(wg.Dir, a.Name))
	s.pid = pid
	s.running = held || waker.Running(a.Name)
	mine := map[pipeline.TaskID]bool{}
	for _, t := range wg.byName[a.Name] {
		s.records = append(s.records, t.rec)
		mine[t.id] = true
	}
	var err error
	if s.gone, err = wg.holders.others(wg.Records, a.Name, mine, s.now); err != nil {
		return nil, err
	}
	return s, wg.judgeRun(ctx, s)
}

// settled deals with a plan that needs nobody's answer.
func (wg *waking) settled(s *situation, pl plan) bool {
	switch pl.action {
	case send, resend, ask:
		return false
	default:
		r := told(s, pl)
		wg.report.due(r.due)
		if r.given != nil {
			wg.given(*r.given)
		}
		wg.Log.Debug("agent not woken", "agent", s.agent.Name, "why", pl.why, "due", pl.due)
		return true
	}
}

// told is the result of a plan to do nothing.
func told(s *situation, pl plan) wakeResult {
	r := wakeResult{due: pl.due}
	if pl.action != rest {
		r.given = s.state.health(s.running, s.pid).Finding()
	}
	return r
}

func idsOf(records []*pipeline.Record) []pipeline.TaskID {
	ids := make([]pipeline.TaskID, len(records))
	for i, r := range records {
		ids[i] = r.TaskID
	}
	return ids
}

// carryOut does what was planned for an agent.
func (wg *waking) carryOut(ctx context.Context, s *situation, pl plan, waker Waker) wakeResult {
	if pl.action == ask {
		var r wakeResult
		if pl, r = wg.askEnded(ctx, s, pl); r.failed != nil {
			return r
		}
	}
	if pl.action == send || pl.action == resend {
		return wg.sendWake(ctx, s.agent, waker, pl)
	}
	return told(s, pl)
}

// askAgain is when to ask again what became of a run.
const askAgain = time.Minute

// askEnded asks what became of a wake after which nothing was taken, notes the
// answer, and plans again.
func (wg *waking) askEnded(ctx context.Context, s *situation, pl plan) (plan, wakeResult) {
	key := pl.wake.Key
	var end RunEnd
	ended := false
	if waker := wg.Wakers[pipeline.Trigger(pl.wake.Via)]; waker != nil { // else the trigger was changed: nobody knows
		askCtx, cancel := context.WithTimeout(ctx, wakeTimeout)
		defer cancel()
		var err error
		if end, ended, err = waker.Ended(askCtx, key); ctx.Err() != nil {
			return plan{}, wakeResult{} // we are told to stop
		} else if err != nil {
			r := notWoken(explain.WakeUnknown, s.agent, err, "key", key)
			r.due = wg.Now().Add(askAgain)
			return plan{}, r
		}
	}
	now := wg.Now()
	_, err := wg.Records.Change(context.WithoutCancel(ctx), pl.of.TaskID, func(r *pipeline.Record) error {
		w := wakeNamed(r, key)
		switch {
		case w == nil:
			return pipeline.ErrUnchanged // the record was lost
		case ended:
			noteRunEnd(w, end, now)
		default:
			w.Unknown = &now
		}
		return nil
	})
	if err == nil {
		err = s.reload(wg.Records) // it may have taken something meanwhile
	}
	if err != nil {
		return plan{}, notWoken(explain.AgentStateWrong, s.agent, err)
	}
	s.now = now
	if err := wg.judgeRun(ctx, s); err != nil {
		return plan{}, notWoken(explain.AgentStateWrong, s.agent, err)
	}
	if pl = s.planWake(); pl.action == ask {
		pl = pl.until(now.Add(askAgain), "asked in vain")
	}
	return pl, wakeResult{}
}

// reload reads the agent's records again.
func (s *situation) reload(records pipeline.Records) error {
	for _, list := range [][]*pipeline.Record{s.records, s.gone} {
		for i, r := range list {
			fresh, err := records.Load(r.TaskID)
			if err != nil {
				return err
			}
			list[i] = fresh
		}
	}
	return nil
}

func wakeNamed(r *pipeline.Record, key string) *pipeline.Wake {
	i := slices.IndexFunc(r.Wakes, func(w pipeline.Wake) bool { return w.Key == key })
	if i < 0 {
		return nil
	}
	return &r.Wakes[i]
}

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
