package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"otm/internal/crash"
	"otm/pipeline"
)

// wake wakes every agent whose turn it is, all in parallel. It waits for the
// answers, not for the runs, and for the answers no longer than Patience: a
// gateway that does not answer holds up nobody but its own agents.
func (p *pass) wake(ctx context.Context) error {
	for i := range p.Agents {
		a := &p.Agents[i]
		waker := p.Wakers[a.Trigger]
		if a.Person || waker == nil || len(p.byName[a.Name]) == 0 || p.waking[a.Name] != nil {
			continue
		}
		done := make(chan wakeResult, 1)
		p.waking[a.Name] = done
		p.wakers.Go(func() { done <- p.wakeAgent(ctx, a, waker) })
	}
	var patience <-chan time.Time
	if p.Patience > 0 {
		timer := time.NewTimer(p.Patience)
		defer timer.Stop()
		patience = timer.C
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(p.waking)) {
		select {
		case r := <-p.waking[name]:
			delete(p.waking, name)
			errs = append(errs, p.woke(r))
		case <-patience:
			closed := make(chan time.Time)
			close(closed)
			patience = closed // the others only if they are there
			p.report.due(p.Now().Add(p.Patience))
		}
	}
	return errors.Join(errs...)
}

// Wait returns when no wake is under way any more.
func (d *Dispatcher) Wait() { d.wakers.Wait() }

// woke puts what came of one agent into the report.
func (p *pass) woke(r wakeResult) error {
	p.report.due(r.due)
	p.report.Woken += r.woken
	if r.failed != "" {
		p.report.Failed = append(p.report.Failed, r.failed)
		p.say(slog.LevelError, "agent not woken", r.failed)
	}
	if r.given != "" {
		p.report.Given = append(p.report.Given, r.given)
		p.say(slog.LevelError, "agent takes nothing", r.given)
	}
	return r.err
}

// wakeResult is what came of one agent.
type wakeResult struct {
	woken  int
	due    time.Time
	failed string
	given  string
	err    error
}

func (p *pass) wakeAgent(ctx context.Context, a *pipeline.Agent, waker Waker) wakeResult {
	s := &situation{agent: a, running: waker.Running(a.Name), idle: p.idleSince(a)}
	for _, t := range p.byName[a.Name] {
		s.records = append(s.records, t.rec)
	}
	now := p.Now()
	pl := s.planWake(now, p.Times)
	if pl.action == ask {
		var err error
		if pl, err = p.askEnded(ctx, s, pl, waker); err != nil {
			return wakeResult{err: err}
		}
	}
	switch pl.action {
	case hold:
		p.Log.Debug("agent not woken", "agent", a.Name, "why", pl.why, "due", pl.due)
		return wakeResult{due: pl.due}
	case giveUp:
		return wakeResult{given: fmt.Sprintf("agent %s was woken %d times and took nothing: %s", a.Name, s.wakesSince(pl.tasks[0].Dispatch.At), waitingIDs(pl))}
	case send, resend:
		return p.sendWake(ctx, a, waker, pl)
	}
	return wakeResult{}
}

func waitingIDs(pl plan) string {
	var ids []pipeline.TaskID
	for _, r := range pl.tasks {
		ids = append(ids, r.TaskID)
	}
	return fmt.Sprint(ids)
}

// askEnded asks what became of a wake after which nothing was taken, notes the
// answer, and plans again.
func (p *pass) askEnded(ctx context.Context, s *situation, pl plan, waker Waker) (plan, error) {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	key := pl.wake.Key
	how, ended, err := waker.Ended(ctx, key)
	if err != nil {
		p.Log.Warn("run not asked for", "agent", s.agent.Name, "run", key, "err", err)
		return plan{action: hold, due: p.Now().Add(time.Minute), why: "gateway out of reach"}, nil
	}
	now := p.Now()
	rec, err := p.Records.Change(ctx, pl.of.TaskID, func(r *pipeline.Record) error {
		w := wakeNamed(r, key)
		if w == nil {
			return pipeline.ErrUnchanged
		}
		if ended {
			w.Ended, w.Exit = &now, how
		} else {
			w.Unknown = &now
		}
		return nil
	})
	if err != nil {
		return plan{}, err
	}
	s.replace(rec)
	return s.planWake(p.Now(), p.Times), nil
}

func (s *situation) replace(rec *pipeline.Record) {
	for i, r := range s.records {
		if r.TaskID == rec.TaskID {
			s.records[i] = rec
		}
	}
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
func (p *pass) sendWake(ctx context.Context, a *pipeline.Agent, waker Waker, pl plan) wakeResult {
	var ids []pipeline.TaskID
	for _, r := range pl.tasks {
		ids = append(ids, r.TaskID)
	}
	first := pl.tasks[0].TaskID
	if pl.action == resend {
		first = pl.of.TaskID
	}
	var w pipeline.Wake
	_, err := p.Records.Change(ctx, first, func(r *pipeline.Record) error {
		now := p.Now()
		if pl.action == resend {
			old := wakeNamed(r, pl.wake.Key)
			if !old.Sent || old.Refused != "" {
				old.AskedAt = now
			}
			old.Sent, old.Refused = true, ""
			w = *old
			return nil
		}
		attempt := r.Attempt
		if slices.ContainsFunc(r.Wakes, func(w pipeline.Wake) bool { return w.Attempt == attempt }) || attempt == 0 {
			r.Attempt++
			attempt = r.Attempt
		}
		w = pipeline.Wake{Attempt: attempt, Key: Key(first, a.Name, attempt), Agent: a.Name, Via: string(a.Trigger), Tasks: ids, AskedAt: now, Sent: true}
		r.Wakes = append(r.Wakes, w)
		return nil
	})
	if err != nil {
		return wakeResult{err: err}
	}
	crash.Point("wake.before")
	wakeCtx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	wakeErr := waker.Wake(wakeCtx, Request{
		Agent: a, Key: w.Key, Task: first, Message: message(a.Name, ids, p.MessageDir),
		File: filepath.Join(a.Workspace, FileName),
	})
	crash.Point("wake.after")
	return p.answered(ctx, a, first, w, wakeErr, ids)
}

// retryWake is when to try again after a wake that was not accepted.
const retryWake = 15 * time.Second

// answered notes what came of a wake.
func (p *pass) answered(ctx context.Context, a *pipeline.Agent, first pipeline.TaskID, w pipeline.Wake, wakeErr error, ids []pipeline.TaskID) wakeResult {
	now := p.Now()
	ctx = context.WithoutCancel(ctx) // the answer is here: it is noted even if we are told to stop
	_, err := p.Records.Change(ctx, first, func(r *pipeline.Record) error {
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
		case errors.Is(wakeErr, ErrLost):
		case errors.Is(wakeErr, ErrRefused):
			mine.Refused = wakeErr.Error()
		default:
			mine.Sent = false // it never went out: its key is unused
		}
		return nil
	})
	if err != nil {
		return wakeResult{err: err}
	}
	if wakeErr != nil {
		due := now.Add(retryWake)
		if errors.Is(wakeErr, ErrRefused) {
			due = time.Time{} // the usual time is soon enough
		}
		return wakeResult{due: due, failed: fmt.Sprintf("agent %s: %v", a.Name, wakeErr)}
	}
	p.Log.Info("woke agent", "agent", a.Name, "via", w.Via, "run", w.Key, "tasks", ids)
	if err := p.copyWake(ctx, a, w, now, ids); err != nil {
		p.Log.Warn("wake not copied to the dispatch file", "agent", a.Name, "err", err)
	}
	return wakeResult{woken: 1}
}

// copyWake writes the wake into the entries, for people, and into the history
// of the other tasks.
func (p *pass) copyWake(ctx context.Context, a *pipeline.Agent, w pipeline.Wake, at time.Time, ids []pipeline.TaskID) error {
	for _, id := range ids {
		if id == w.Tasks[0] {
			continue
		}
		if _, err := p.Records.Change(ctx, id, func(r *pipeline.Record) error {
			r.Note(at, Who, "woken", fmt.Sprintf("%s, %s %s", a.Name, w.Via, w.Key))
			return nil
		}); err != nil {
			return err
		}
	}
	return Edit(ctx, p.Dir, a.Workspace, at, func(f *File) error {
		for _, id := range ids {
			if e := f.Find(id, a.Name); e != nil {
				e.TriggeredAt, e.RunID = at, w.Key
				if id == w.Tasks[0] {
					e.Attempt = w.Attempt
				}
			}
		}
		return nil
	})
}
