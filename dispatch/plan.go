package dispatch

import (
	"cmp"
	"slices"
	"time"

	"otm/pipeline"
)

// Times are the delays of the configuration.
type Times struct {
	AdoptAfter     time.Duration // for which a person's row must not have changed
	RedeliverAfter time.Duration // after which a vanished entry is put back
	RewakeAfter    time.Duration // after which an accepted wake counts as not heard
	SilentAfter    time.Duration // after which a working agent counts as gone
	RewakeMax      int           // wakes after the first before giving up
}

// DefaultTimes are those of the contract.
var DefaultTimes = Times{
	AdoptAfter: time.Minute, RedeliverAfter: 5 * time.Minute, RewakeAfter: 15 * time.Minute,
	SilentAfter: time.Hour, RewakeMax: 3,
}

const (
	// answerWait is how long a wake whose answer was lost is asked again under
	// its key. The gateway remembers keys for five minutes after a run's end.
	answerWait = 3 * time.Minute
	// afterTask is how long an agent that has ended a task gets to take the
	// next one by itself.
	afterTask = time.Minute
)

// action is what to do about waking an agent.
type action int

const (
	rest   action = iota // nothing waits, or the agent is at it
	hold                 // look again at plan.due, or when something happens
	send                 // a new wake
	resend               // the same wake again, under its key
	ask                  // ask what became of the outstanding wake
	giveUp               // woken often enough: a person has to look
)

// situation is what is known of one agent when its wake is planned.
type situation struct {
	agent   *pipeline.Agent
	records []*pipeline.Record // of all the agent's tasks on the board
	running bool               // exec: its child lives
	idle    time.Time          // when "otm next" last found nothing for it; zero: never, or not known
}

// plan is what to do, and for which tasks.
type plan struct {
	action action
	tasks  []*pipeline.Record // that wait, most urgent first
	wake   *pipeline.Wake     // the last one, where there is one
	of     *pipeline.Record   // the record that holds it
	due    time.Time          // of hold: when to look again; zero: when something happens
	why    string
}

// planWake applies the rules.
func (s *situation) planWake(now time.Time, t Times) plan {
	p := plan{tasks: s.waiting()}
	if len(p.tasks) == 0 {
		return p
	}
	p.of, p.wake = s.lastWake()
	if s.running {
		p.action, p.why = hold, "the agent's process is running"
		return p
	}
	if w := p.wake; w != nil && w.Accepted == nil && w.Ended == nil {
		return s.planUnanswered(p, now, t)
	}
	if w := p.wake; w != nil && !s.tookSince(w.AskedAt) {
		return s.planOutstanding(p, now, t)
	}
	return s.planAfterTask(p, now, t)
}

// planUnanswered is for a wake that was refused or whose answer was lost.
func (s *situation) planUnanswered(p plan, now time.Time, t Times) plan {
	switch {
	case !p.wake.Sent || p.wake.Refused != "":
		p.action, p.why = resend, "not accepted yet" // surely not queued: the key is unused
	case now.Sub(p.wake.AskedAt) < answerWait:
		p.action, p.why = resend, "answer lost"
	default:
		return s.again(p, t, "answer lost for good")
	}
	return p
}

// planOutstanding is for an accepted wake after which nothing was taken.
func (s *situation) planOutstanding(p plan, now time.Time, t Times) plan {
	w := p.wake
	// An agent that was started and ended without taking anything will not any
	// more.
	passed := w.Ended != nil || s.agent.Trigger == pipeline.TriggerExec
	if !passed {
		since := *w.Accepted
		if w.Unknown != nil {
			since = *w.Unknown
		}
		if due := since.Add(t.RewakeAfter); now.Before(due) {
			p.action, p.due, p.why = hold, due, "woken, waiting for it to take a task"
			return p
		}
		if w.Unknown == nil {
			p.action, p.why = ask, "woken, took nothing"
			return p
		}
	}
	return s.again(p, t, "woken, took nothing")
}

// again plans one more wake, unless there were enough. Only wakes for what
// waits now count: a task that came later is a reason to try once more.
func (s *situation) again(p plan, t Times, why string) plan {
	newest := slices.MaxFunc(p.tasks, func(a, b *pipeline.Record) int { return a.Dispatch.At.Compare(b.Dispatch.At) })
	p.action, p.why = send, why
	if s.wakesSince(newest.Dispatch.At) > t.RewakeMax {
		p.action = giveUp
	}
	return p
}

// planAfterTask is for an agent that took something since it was woken, or
// never was.
func (s *situation) planAfterTask(p plan, now time.Time, t Times) plan {
	if s.working() {
		if due := s.heard().Add(t.SilentAfter); now.Before(due) {
			p.action, p.due, p.why = hold, due, "at work on a task"
			return p
		}
		p.action, p.why = send, "silent for too long"
		return p
	}
	ended := s.ended()
	due := ended.Add(afterTask)
	if ended.IsZero() || !now.Before(due) || s.agent.Trigger == pipeline.TriggerExec || !s.idle.Before(ended) {
		p.action, p.why = send, "tasks wait"
		return p
	}
	p.action, p.due, p.why = hold, due, "has just ended a task and takes the next by itself"
	return p
}

// waiting returns the tasks that the agent has not taken, most urgent first.
func (s *situation) waiting() []*pipeline.Record {
	var list []*pipeline.Record
	for _, r := range s.records {
		if r.Status == pipeline.Assigned && r.Dispatch != nil && r.Dispatch.FlippedAt != nil && r.Dispatch.TakenAt == nil {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *pipeline.Record) int {
		return cmp.Or(cmp.Compare(a.Priority.Rank(), b.Priority.Rank()), cmp.Compare(a.TaskID, b.TaskID))
	})
	return list
}

func (s *situation) lastWake() (of *pipeline.Record, last *pipeline.Wake) {
	for _, r := range s.records {
		for i := range r.Wakes {
			w := &r.Wakes[i]
			if w.Agent == s.agent.Name && (last == nil || w.AskedAt.After(last.AskedAt)) {
				of, last = r, w
			}
		}
	}
	return of, last
}

func (s *situation) wakesSince(t time.Time) int {
	n := 0
	for _, r := range s.records {
		for _, w := range r.Wakes {
			if w.Agent == s.agent.Name && !w.AskedAt.Before(t) {
				n++
			}
		}
	}
	return n
}

func (s *situation) tookSince(t time.Time) bool {
	return slices.ContainsFunc(s.records, func(r *pipeline.Record) bool {
		return r.Dispatch != nil && r.Dispatch.TakenAt != nil && !r.Dispatch.TakenAt.Before(t)
	})
}

// working tells whether the agent took a task and has not ended it.
func (s *situation) working() bool {
	return slices.ContainsFunc(s.records, func(r *pipeline.Record) bool {
		return r.Dispatch != nil && r.Dispatch.TakenAt != nil && r.Status.Active() && r.Unfinished()
	})
}

// heard is when the agent last said or did something.
func (s *situation) heard() time.Time {
	var last time.Time
	for _, r := range s.records {
		if at := lastHeard(r); at.After(last) {
			last = at
		}
	}
	return last
}

func lastHeard(r *pipeline.Record) time.Time {
	var last time.Time
	if r.Dispatch != nil && r.Dispatch.TakenAt != nil {
		last = *r.Dispatch.TakenAt
	}
	for i := len(r.History) - 1; i >= 0; i-- {
		if e := r.History[i]; e.Who == "agent "+r.Agent {
			if e.At.After(last) {
				last = e.At
			}
			break
		}
	}
	return last
}

// ended is when the agent ended the last task that it took: the last thing
// heard of a task that is finished, blocked or has all steps ticked.
func (s *situation) ended() time.Time {
	var last time.Time
	for _, r := range s.records {
		if r.Dispatch == nil || r.Dispatch.TakenAt == nil || r.Unfinished() && r.Status.Active() {
			continue
		}
		if at := lastHeard(r); at.After(last) {
			last = at
		}
	}
	return last
}
