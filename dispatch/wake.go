package dispatch

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"otm/internal/explain"
	"otm/pipeline"
)

// waking plans the wakes of all agents and sends them.
type waking struct{ *run }

// wake wakes the agents that have work, all in parallel. It waits at most Patience
// for the answers. It does not wait for the runs.
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
			wg.failure("agent not woken", *notWoken(explain.AgentStateWrong, a, err))
			continue
		}
		switch pl := s.planWake(); pl.action {
		case send, resend, ask:
			wg.waking[a.Name] = wg.startWake(func() wakeResult { return wg.carryOut(ctx, s, pl, waker) })
		default:
			wg.woke(a.Name, s.held(pl))
			wg.Log.Debug("agent not woken", "agent", a.Name, "why", pl.why, "due", pl.due)
		}
	}
	wg.collect()
	return nil
}

// pendingWake is a wake without a result yet.
type pendingWake struct {
	done chan wakeResult
	late atomic.Bool // the pass that sent it is over
}

// startWake begins a wake. If its result comes after the pass, it calls Answered.
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

// lateAgain is the longest pause before a late result is looked for.
const lateAgain = time.Second

// collect takes the results that come within Patience.
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
				wg.report.Failed = append(wg.report.Failed, failed) // still true until the next answer
			}
			wg.report.RunBy(wg.Now().Add(lateAgain))
		}
	}
}

// Wait returns when no wake is pending.
func (d *Dispatcher) Wait() { d.wakers.Wait() }

// woke puts the result of one agent into the report.
func (wg *waking) woke(name string, r wakeResult) {
	delete(wg.waking, name)
	wg.report.RunBy(r.due)
	wg.report.Did[woken].N += r.woken
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

// wakeResult is the result of a pass for one agent.
type wakeResult struct {
	woken  int
	first  pipeline.TaskID  // the task whose record holds the wake; 0: none was recorded
	due    time.Time        // when to look at the agent again; zero: at the usual time
	failed *explain.Finding // why the wake failed; nil: it did not
	given  *explain.Finding // why the agent needs a person; nil: it does not
}

// notWoken says why an agent was not woken.
func notWoken(code explain.Code, a *pipeline.Agent, err error, args ...any) *explain.Finding {
	f := explain.New(code, append(args, "agent", a.Name, "error", err)...)
	return &f
}

// situation gathers the facts about an agent, and judges the end of its last run.
func (wg *waking) situation(ctx context.Context, a *pipeline.Agent, waker Waker) (*situation, error) {
	s := &situation{agent: a, idle: wg.files.idleSince(wg.Agents, a), now: wg.Now(), times: wg.Times}
	// A process from before the trigger was changed counts too.
	pid, held := agentProcess(wg.Dir, a.Name)
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

// held is the result of a plan that sends nothing.
func (s *situation) held(pl plan) wakeResult {
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

// carryOut does what is planned for an agent.
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
	return s.held(pl)
}

// askAgain is the pause before the same question is asked again.
const askAgain = time.Minute

// askEnded asks the waker whether the run of a wake has ended, notes the answer,
// and plans again. It is for a wake after which the agent took nothing.
func (wg *waking) askEnded(ctx context.Context, s *situation, pl plan) (plan, wakeResult) {
	end, ended, err := wg.askWaker(ctx, pl.wake)
	switch {
	case ctx.Err() != nil:
		return plan{}, wakeResult{} // the dispatcher stops
	case err != nil:
		return plan{}, wakeResult{due: wg.Now().Add(askAgain), failed: notWoken(explain.WakeUnknown, s.agent, err, "key", pl.wake.Key)}
	}
	now := wg.Now()
	_, err = wg.Records.Change(context.WithoutCancel(ctx), pl.of.TaskID, func(r *pipeline.Record) error {
		w := wakeNamed(r, pl.wake.Key)
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
		s.reload(wg.Records) // the agent may have taken something meanwhile
		s.now = now
		err = wg.judgeRun(ctx, s)
	}
	if err != nil {
		return plan{}, wakeResult{failed: notWoken(explain.AgentStateWrong, s.agent, err)}
	}
	if pl = s.planWake(); pl.action == ask {
		pl = pl.until(now.Add(askAgain), "the end of its run is not known")
	}
	return pl, wakeResult{}
}

// askWaker asks the waker of a wake whether its run has ended. If the trigger was
// changed since, no waker knows.
func (wg *waking) askWaker(ctx context.Context, w *pipeline.Wake) (end RunEnd, ended bool, err error) {
	waker := wg.Wakers[pipeline.Trigger(w.Via)]
	if waker == nil {
		return RunEnd{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	return waker.Ended(ctx, w.Key)
}

// reload reads the agent's records again. A record that cannot be read stays as it was.
func (s *situation) reload(records pipeline.Records) {
	for _, list := range [][]*pipeline.Record{s.records, s.gone} {
		for i, r := range list {
			if fresh, err := records.Load(r.TaskID); err == nil {
				list[i] = fresh
			}
		}
	}
}

// wakeNamed returns the wake with a key; nil: the record has none.
func wakeNamed(r *pipeline.Record, key string) *pipeline.Wake {
	i := slices.IndexFunc(r.Wakes, func(w pipeline.Wake) bool { return w.Key == key })
	if i < 0 {
		return nil
	}
	return &r.Wakes[i]
}
