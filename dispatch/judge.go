package dispatch

import (
	"context"
	"time"

	"otm/pipeline"
)

// judgeRun looks whether the last run of an agent has ended, and if its end counts
// by now, notes it in the agent's state. An end counts once the reports that stood
// in the inbox at that moment are applied: they may bring progress.
func (wg *waking) judgeRun(ctx context.Context, s *situation) error {
	var err error
	if s.state, err = LoadAgentState(wg.Dir, s.agent.Name); err != nil {
		return err
	}
	config := configSum(s.agent)
	end, over := s.endOfRun()
	if over {
		if s.unread, err = wg.unread(s.agent, end.run.Ended); err != nil {
			return err
		}
		// What left the inbox before that look, and how the process ended, may have
		// been noted since the records were read.
		if err := s.reload(wg.Records); err != nil {
			return err
		}
		end, over = s.endOfRun()
	}
	over = over && !s.unread
	hanging, lingers := s.hangsSince(), s.lingersOn()
	if over || s.state.Config != config || !s.state.Hangs.Equal(hanging) || s.state.Lingers != lingers {
		s.state, err = changeAgentState(ctx, wg.Dir, s.agent.Name, func(a *AgentState) {
			a.Hangs, a.Lingers = hanging, lingers
			if over {
				*a = a.judged(end, maxFailures(&wg.Times))
			}
			if a.Config != config && a.Config != "" {
				a.forgive() // those runs were started in another way
			}
			a.Config = config
		})
	}
	if err == nil && s.state.Fruitless > 0 && s.askedFor() {
		s.state, err = changeAgentState(ctx, wg.Dir, s.agent.Name, func(a *AgentState) { a.forgive() })
	}
	if err == nil && over && !end.progress && !end.idle {
		wg.Log.Warn("run ended without progress", "agent", s.agent.Name, "run", end.run.Key, "exit", end.run.Words, "failures", s.state.Failures, "next", s.state.NextStart)
	}
	return err
}

// hangsSince is since when the process of the agent takes nothing; zero if it does
// not hang.
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

// unread reports whether reports of an agent on its own tasks stand in the inbox
// that were dropped by a given time.
func (wg *waking) unread(a *pipeline.Agent, by time.Time) (bool, error) {
	if wg.Unread == nil {
		return false, nil
	}
	dropped, err := wg.Unread()
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
