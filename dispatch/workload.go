package dispatch

import (
	"slices"
	"time"

	"otm/core"
	"otm/pipeline"
)

// workload is what an agent has to do, and what was heard of it.
type workload struct {
	agent *pipeline.Agent
	tasks []*core.Task // of the agent, on the board
	gone  []*core.Task // other tasks that hold a wake of the agent: their row is gone, or another agent has them
	// unwritten are tasks whose entry is to be written; nil: not known.
	unwritten map[pipeline.TaskID]bool
	now       time.Time
	times     pipeline.Times
	types     pipeline.Types
	link      *Link // the connection to the gateway; nil: none is kept, or nobody knows
}

// after is when a duration has passed since a time. For an agent at the gateway the time in
// which that could not be reached does not count.
func (s *workload) after(t time.Time, d time.Duration) time.Time {
	if s.agent.Trigger == pipeline.TriggerGateway {
		d += s.link.Away(t, s.now)
	}
	return t.Add(d)
}

// reached reports whether a duration has passed since a time, as after counts it. See the
// function reached.
func (s *workload) reached(t time.Time, d time.Duration) bool {
	return reached(t, s.after(t, d).Sub(t), s.now)
}

// continued counts the turns at the gateway that were to go on with a task and ended well,
// since the agent took the task or reported on it.
func (s *workload) continued(t *core.Task) int {
	h := t.HeardOf(s.agent.Name)
	since := later(past(h.Took, s.now), past(h.Reported, s.now))
	n := 0
	for _, of := range s.known() {
		for i := range of.Wakes {
			w := &of.Wakes[i]
			if core.SameAgent(w.Agent, s.agent.Name) && endedWell(w) && w.AskedAt.After(since) && slices.Contains(w.Tasks, t.ID) {
				n++
			}
		}
	}
	return n
}

// waiting returns the tasks that the agent has not taken, and which stand in its
// dispatch file and on the board.
func (s *workload) waiting() []*core.Task {
	return pipeline.Filter(s.tasks, func(t *core.Task) bool {
		return t.Waiting() && !t.Dispatch.FlippedAt.IsZero() && (!s.unwritten[t.ID] || isWoken(t))
	})
}

// isUnfinished reports whether the agent took a task and has not ended it.
func (s *workload) isUnfinished(t *core.Task) bool {
	return t.AtWork() && core.SameAgent(t.Dispatch.Agent, s.agent.Name)
}

// isResumed reports whether a person set a blocked task of the agent to in progress, and the
// agent has not reported since.
func (s *workload) isResumed(t *core.Task) bool {
	return s.isUnfinished(t) && core.IsResumed(t, s.agent.Name)
}

// known returns all tasks that concern the agent.
func (s *workload) known() []*core.Task { return slices.Concat(s.tasks, s.gone) }

// lastWake returns the last wake of the agent and the task that holds it. A wake
// further ahead of the clock than any wait counts as the earliest.
func (s *workload) lastWake() (of *core.Task, last *core.Wake) {
	when := func(w *core.Wake) time.Time {
		if w.AskedAt.After(s.now.Add(s.times.RewakeAfter)) {
			return time.Time{}
		}
		return w.AskedAt
	}
	for _, t := range s.known() {
		for i := range t.Wakes {
			w := &t.Wakes[i]
			if core.SameAgent(w.Agent, s.agent.Name) && (last == nil || !when(w).Before(when(last))) {
				of, last = t, w
			}
		}
	}
	return of, last
}

// tookSince reports whether the agent took a task after t, or was given one again.
func (s *workload) tookSince(t time.Time) bool { return s.latest(s.tookAt).After(t) }

// tookAt is when the agent last took a task or was given it again; zero: never.
func (s *workload) tookAt(t *core.Task) time.Time {
	h := t.HeardOf(s.agent.Name)
	if h.Given.After(h.Took) {
		return h.Given
	}
	return h.Took
}

// heard is when the agent last took a task or reported on one; zero: never.
func (s *workload) heard() time.Time {
	return s.latest(func(t *core.Task) time.Time { return t.HeardOf(s.agent.Name).At })
}

// latest is the latest of the tasks' times that are not ahead of the clock.
func (s *workload) latest(of func(*core.Task) time.Time) (last time.Time) {
	for _, t := range s.known() {
		if at := past(of(t), s.now); at.After(last) {
			last = at
		}
	}
	return last
}
