package dispatch

import (
	"cmp"
	"context"
	"slices"

	"otm/pipeline"
)

// candidate is an agent to wake, and how.
type candidate struct {
	*situation
	plan  plan
	waker Waker
}

// start begins to wake an agent.
func (wg *waking) start(ctx context.Context, c candidate) {
	wg.waking[c.agent.Name] = wg.startWake(func() wakeResult {
		r := wg.carryOut(ctx, c.situation, c.plan, c.waker)
		r.asked = c.asked
		return r
	})
}

// limit chooses which agents may be woken now: at most max may be at work at once.
type limit struct {
	max     int // 0: no limit
	running int
	waiting []candidate
}

// count counts an agent if it is at work, see situation.atWork.
func (l *limit) count(s *situation) {
	if s.atWork() {
		l.running++
	}
}

func (l *limit) wait(c candidate) { l.waiting = append(l.waiting, c) }

// admitted returns the agents that may be woken, those with the most urgent tasks first. An
// agent that is at work already takes no place. The others wait: a pass follows the end of
// each run.
func (l *limit) admitted() []candidate {
	slices.SortStableFunc(l.waiting, func(a, b candidate) int {
		first, second := a.plan.tasks[0], b.plan.tasks[0]
		return cmp.Or(cmp.Compare(first.Priority.Rank(), second.Priority.Rank()), cmp.Compare(first.ID, second.ID))
	})
	return slices.DeleteFunc(l.waiting, func(c candidate) bool {
		if l.max == 0 || c.atWork() {
			return false
		}
		l.running++
		return l.running > l.max
	})
}

// atWork reports whether the agent is at work, or was woken and may begin at any moment.
func (s *situation) atWork() bool {
	_, w := s.lastWake()
	_, over := s.ended(w)
	outstanding := w != nil && w.MaybeQueued() && !over && !s.tookSince(w.AskedAt) && w.Via != pipeline.TriggerExec && !s.reached(w.AskedAt, s.times.SilentAfter)
	return s.Running || outstanding || s.busy() && !s.reached(s.heard(), s.times.SilentAfter)
}
