package dispatch

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"otm/core"
	"otm/pipeline"
)

// lossMemory is for how long OTM tries to tell an agent of a loss.
const lossMemory = 24 * time.Hour

// lostBy returns a lost task that the agent is still to be told of; nil: there is none. The
// message is not sent again once the gateway may have forgotten its key.
func lostBy(s *situation) *core.Task {
	if s.agent.Trigger != pipeline.TriggerGateway {
		return nil
	}
	for _, t := range s.known() {
		l := core.LossOf(t, s.agent.Name)
		if l == nil || reached(l.At, lossMemory, s.now) {
			continue
		}
		if w := t.WakeNamed(l.Key(t.ID)); w == nil || !w.MaybeQueued() || !reached(w.AskedAt, answerWait, s.now) {
			return t
		}
	}
	return nil
}

// planTelling tells the agent of a loss, whatever else it does: a session takes the message
// after its present turn.
func planTelling(s *situation, p plan, t *core.Task) plan {
	p.lost, p.wake = t, t.WakeNamed(core.LossOf(t, s.agent.Name).Key(t.ID))
	if w := p.wake; w != nil && !w.MaybeQueued() {
		until, waits := s.state.Waits(s.now)
		if w.Refused == "" {
			until, waits = w.AskedAt.Add(retryWake), !reached(w.AskedAt, retryWake, s.now)
		}
		if waits {
			p.due = until
			return p.with(unaccepted, "not told yet that a task was taken from it")
		}
	}
	return p.with(tell, "a task was taken from it")
}

// turnsOn returns the keys of the agent's turns at the gateway in which it may still work on a
// task that it lost: none if it took another task since.
func turnsOn(s *situation, t *core.Task) (keys []string) {
	took := s.tookAt(t)
	if took.IsZero() || s.tookSince(took) {
		return nil
	}
	var wakes []*core.Wake
	var begun time.Time // of the turn in which it took the task
	for _, of := range s.known() {
		for i := range of.Wakes {
			w := &of.Wakes[i]
			if !core.SameAgent(w.Agent, s.agent.Name) || w.Loss {
				continue
			}
			wakes = append(wakes, w)
			if w.AskedAt.Before(took) {
				begun = later(begun, w.AskedAt)
			}
		}
	}
	for _, w := range wakes {
		if !w.AskedAt.Before(begun) && s.unended(w) {
			keys = append(keys, w.Key)
		}
	}
	return keys
}

// lossMessage returns the text that tells an agent of its loss. It quotes the reason of a person
// or a reviewer on one line.
func lossMessage(t *core.Task, agent, dir string) string {
	l := core.LossOf(t, agent)
	what := map[pipeline.Status]string{pipeline.Cancelled: "was cancelled", pipeline.Dormant: "was stopped and set aside"}[l.Status]
	switch {
	case l.Gone:
		what = "was deleted"
	case l.To != "":
		what = "was given to another agent"
	}
	reason := ""
	if l.Reason != "" {
		reason = ": " + strconv.Quote(l.Reason)
	}
	return fmt.Sprintf("Task %v %s%s. Stop working on it, and report nothing more on it. Then run \"%s\" and do what it gives you; stop at \"no task waiting\".",
		t.ID, cmp.Or(what, "was taken from you"), reason, nextLine(agent, dir))
}
