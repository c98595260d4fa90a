package dispatch

import (
	"context"
	"sync"
	"time"

	"otm/pipeline"
)

// judgeRun notes the end of an agent's last run in its state, durably. An end
// counts once the reports that were in the inbox at that moment are applied: they
// may show progress.
func (wg *waking) judgeRun(ctx context.Context, s *situation) error {
	var err error
	if s.state, err = LoadAgentState(wg.Dir, s.agent.Name); err != nil {
		return err
	}
	end, over, err := wg.countedEnd(ctx, s)
	if err != nil {
		return err
	}
	judged := !s.running && !s.unread // the last run is over, and its end is known
	before := s.state
	reconfigured := before.configured(s.agent, judged, wg.Now())
	hanging, lingers := s.hangsSince(), s.lingersOn()
	if over || reconfigured || !s.state.Hangs.Equal(hanging) || s.state.Lingers != lingers {
		s.state, err = changeAgentState(ctx, wg.Dir, s.agent.Name, func(a *AgentState) {
			a.Hangs, a.Lingers = hanging, lingers
			if over {
				*a = a.judged(end, maxFailures(&wg.Times))
			}
			a.configured(s.agent, judged, wg.Now())
		})
	}
	if err == nil && s.state.Fruitless > 0 && s.askedFor() {
		s.state, err = changeAgentState(ctx, wg.Dir, s.agent.Name, func(a *AgentState) { a.forgive() })
	}
	if err == nil {
		err = wg.noteRest(ctx, s)
	}
	if err == nil && over && !end.progress && !end.idle {
		wg.Log.Warn("run ended without progress", "agent", s.agent.Name, "run", end.run.Key, "exit", end.run.Words, "failures", s.state.Failures, "next", s.state.NextStart)
	}
	return err
}

// countedEnd returns the end of the agent's last run if it counts by now; false:
// there is no such end. It sets s.unread.
func (wg *waking) countedEnd(ctx context.Context, s *situation) (end runEnd, over bool, err error) {
	if end, over = s.endOfRun(); !over {
		return end, false, nil
	}
	if s.unread, err = wg.unread(s.agent, end.run.Ended); err != nil {
		return end, false, err
	}
	// A report that left the inbox before that look, and the exit of the process, may
	// have been noted since the records were read.
	s.reload(wg.Records)
	if end, over = s.endOfRun(); !over || s.unread {
		return end, false, nil
	}
	if end.killed {
		if err := wg.noteKilled(ctx, s); err != nil {
			return end, false, err
		}
		end, over = s.endOfRun()
	}
	return end, over, nil
}

// killed is the exit of a process whose helper was killed with it.
const killed = "killed; nobody saw how"

// noteKilled notes in the record of the last wake that its process has ended,
// durably. The helper usually does this, but it was killed.
func (wg *waking) noteKilled(ctx context.Context, s *situation) error {
	of, w := s.lastWake()
	end, _, _ := wg.askWaker(ctx, w) // for the log's path
	_, err := wg.Records.Change(ctx, of.TaskID, func(r *pipeline.Record) error {
		mine := wakeNamed(r, w.Key)
		if mine == nil || mine.Ended != nil {
			return pipeline.ErrUnchanged
		}
		mine.Ended, mine.Exit, mine.Log = &s.now, killed, end.Log
		r.Note(s.now, Who, "ended", "process of "+s.agent.Name+": "+killed)
		return nil
	})
	s.reload(wg.Records)
	return err
}

// noteRest notes whether the agent rests (AgentState.Rests), durably. It clears an
// otm resume that led to a start or found no work.
func (wg *waking) noteRest(ctx context.Context, s *situation) error {
	_, w := s.lastWake()
	idle := s.planWake().action == rest
	rests := idle && s.state.Fruitless > 0
	resumed := !s.state.Resumed.IsZero() && (idle || s.running || !s.state.resumeAsked(w, s.now))
	if rests == s.state.Rests && !resumed {
		return nil
	}
	asked := s.state.Resumed
	var err error
	s.state, err = changeAgentState(ctx, wg.Dir, s.agent.Name, func(a *AgentState) {
		a.Rests = rests
		if resumed && a.Resumed.Equal(asked) {
			a.Resumed = time.Time{}
		}
	})
	return err
}

// hangsSince returns when the agent's process was woken if it hangs: it runs and
// takes nothing; zero: it does not hang.
func (s *situation) hangsSince() time.Time {
	if pl := s.planWake(); pl.action == hangs {
		return pl.wake.Accepted.UTC()
	}
	return time.Time{}
}

// askedFor reports whether a person has sent one of the agent's tasks out again
// since its last run ended.
func (s *situation) askedFor() bool {
	last := s.state.LastRun
	if last == nil {
		return false
	}
	for _, r := range s.work() {
		d := r.Dispatch
		if d.Attempt > 1 && past(d.At, s.now).After(last.Ended) || past(r.ResumedAt, s.now).After(last.Ended) {
			return true
		}
	}
	return false
}

// unread reports whether the inbox holds reports of an agent on its own tasks that
// were dropped by a given time.
func (wg *waking) unread(a *pipeline.Agent, by time.Time) (bool, error) {
	dropped, err := wg.inbox.droppedBy(by)
	if err != nil {
		return false, err
	}
	for _, t := range wg.byName[a.Name] {
		if at, ok := dropped[t.id]; ok && !at.After(by) && t.rec.Dispatch != nil && sameAgent(t.rec.Dispatch.Agent, a.Name) {
			return true, nil
		}
	}
	return false, nil
}

// unreadReports reads the inbox once a pass, unless a run ended after that.
type unreadReports struct {
	read func() (map[pipeline.TaskID]time.Time, error) // nil: there is no inbox
	now  func() time.Time

	mu      sync.Mutex // wakes are carried out in parallel
	at      time.Time  // when dropped was read
	dropped map[pipeline.TaskID]time.Time
}

// droppedBy returns the tasks with reports in the inbox, each with when the oldest
// was dropped. All reports that were dropped by a given time are among them.
func (u *unreadReports) droppedBy(by time.Time) (map[pipeline.TaskID]time.Time, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.read == nil || u.at.After(by) {
		return u.dropped, nil
	}
	at := u.now()
	dropped, err := u.read()
	if err != nil {
		return nil, err
	}
	u.at, u.dropped = at, dropped
	return dropped, nil
}
