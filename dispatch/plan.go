package dispatch

import (
	"cmp"
	"slices"
	"time"

	"otm/pipeline"
)

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
	rest   action = iota // nothing waits
	hold                 // look again at plan.due, or when something happens
	send                 // a new wake
	resend               // the same wake again, under its key
	ask                  // ask what became of the outstanding wake
	giveUp               // woken often enough: a person has to look
	stuck                // its process runs and takes nothing: a person has to look
)

// situation is what is known of one agent when its wake is planned.
type situation struct {
	agent   *pipeline.Agent
	records []*pipeline.Record // of the agent's tasks on the board
	gone    []*pipeline.Record // of others, which hold a wake of the agent: their rows left, or are somebody else's now
	running bool               // its process lives
	pauses  bool               // between starts of a command that takes nothing
	idle    time.Time          // when "otm next" last found nothing for it; zero: never, or not known
	now     time.Time
	times   pipeline.Times
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

// whyWaiting is the usual reason for a wake.
const whyWaiting = "tasks wait"

func (p plan) with(a action, why string) plan {
	p.action, p.why = a, why
	return p
}

func (p plan) until(due time.Time, why string) plan {
	p.due = due
	return p.with(hold, why)
}

// planWake applies the rules.
func (s *situation) planWake() plan {
	p := plan{tasks: s.waiting()}
	if len(p.tasks) == 0 {
		return p
	}
	p.of, p.wake = s.lastWake()
	switch w := p.wake; {
	case s.running:
		return s.planRunning(p)
	case s.working() && !reached(s.heard(), s.times.SilentAfter, s.now):
		return p.until(s.heard().Add(s.times.SilentAfter), "at work on a task")
	case w == nil || s.tookSince(w.AskedAt):
		return s.planAfterTask(p)
	case w.Accepted == nil && w.Ended == nil:
		return s.planUnanswered(p)
	}
	return s.planOutstanding(p)
}

// planRunning is for an agent whose process lives. Its end is a hint to look
// again.
func (s *situation) planRunning(p plan) plan {
	w := p.wake
	if w == nil || w.Accepted == nil || s.tookSince(w.AskedAt) {
		return p.with(hold, "its process is running")
	}
	if due := w.Accepted.Add(s.times.RewakeAfter); !reached(*w.Accepted, s.times.RewakeAfter, s.now) {
		return p.until(due, "its process is running")
	}
	return p.with(stuck, "its process takes nothing")
}

// planUnanswered is for a wake that was refused, never sent, or whose answer
// was lost.
func (s *situation) planUnanswered(p plan) plan {
	w := p.wake
	sameWay := w.Via == string(s.agent.Trigger) // the configuration may have changed
	switch {
	case !maybeQueued(w) && sameWay && slices.Contains(p.tasks, p.of):
		return p.with(resend, "not accepted yet") // its key is unused
	case !maybeQueued(w):
		return p.with(send, "not accepted yet")
	case sameWay && !reached(w.AskedAt, answerWait, s.now):
		return p.with(resend, "answer lost")
	}
	return s.again(p, "answer lost for good")
}

// planOutstanding is for an accepted wake after which nothing was taken.
func (s *situation) planOutstanding(p plan) plan {
	w := p.wake
	// A process that ended without taking anything will not any more.
	if w.Ended == nil && w.Via != string(pipeline.TriggerExec) {
		since := *w.Accepted
		if w.Unknown != nil {
			since = *w.Unknown
		}
		if !reached(since, s.times.RewakeAfter, s.now) {
			return p.until(since.Add(s.times.RewakeAfter), "woken, waiting for it to take a task")
		}
		if w.Unknown == nil {
			return p.with(ask, "woken, took nothing")
		}
		return s.again(p, "woken, took nothing")
	}
	if pause, since := s.startPause(p), endOf(w); !reached(since, pause, s.now) {
		return p.until(since.Add(pause), "its run ended without taking a task")
	}
	return s.again(p, "woken, took nothing")
}

// startPause is how long to wait after a run that ended without taking
// anything. A run that fails at once must not use up all attempts at once: the
// pause grows. After a command a resident waits not at all the first time, and
// single passes never wait.
func (s *situation) startPause(p plan) time.Duration {
	reported := p.wake.Outcome != pipeline.OutcomeUnknown
	switch n := s.wakesInVain(p); {
	case !reported && (n <= 1 || !s.pauses):
		return 0
	case n <= 2:
		return min(10*time.Second, s.times.RewakeAfter)
	}
	return min(time.Minute, s.times.RewakeAfter)
}

// endOf is when a wake ended, or, where that was not noted, was accepted.
func endOf(w *pipeline.Wake) time.Time {
	if w.Ended != nil {
		return *w.Ended
	}
	return *w.Accepted
}

// again plans one more wake, unless there were enough since the first of the
// tasks that wait was handed out. One that no wake has named yet is a reason
// for one more.
func (s *situation) again(p plan, why string) plan {
	unnamed := func(r *pipeline.Record) bool { return s.wakesFor(r) == 0 }
	if s.wakesInVain(p) <= s.times.RewakeMax || slices.ContainsFunc(p.tasks, unnamed) {
		return p.with(send, why)
	}
	return p.with(giveUp, why)
}

// wakesInVain counts the wakes since the first of the waiting tasks was handed
// out, after the agent last took something.
func (s *situation) wakesInVain(p plan) int {
	most := 0
	for _, task := range p.tasks {
		most = max(most, s.wakesSince(past(task.Dispatch.At, s.now), func(*pipeline.Wake) bool { return true }))
	}
	return most
}

// planAfterTask is for an agent that took something since it was woken, or
// never was, and is not at work as far as is known.
func (s *situation) planAfterTask(p plan) plan {
	if s.working() {
		return p.with(send, "silent for too long")
	}
	ended := s.ended()
	// A process that is gone, or an agent that looked and found nothing, will
	// not take the next one by itself.
	gone := s.agent.Trigger == pipeline.TriggerExec || !s.idle.Before(ended)
	if ended.IsZero() || gone || reached(ended, afterTask, s.now) {
		return p.with(send, whyWaiting)
	}
	return p.until(ended.Add(afterTask), "has just ended a task and takes the next by itself")
}

// reached tells whether d has passed since t. A time that is further ahead
// than d was written before the clock was set back, and nothing is known of
// when that was: it counts as passed, so that nobody waits for a year.
func reached(t time.Time, d time.Duration, now time.Time) bool {
	return !now.Before(t.Add(d)) || t.After(now.Add(d))
}

// past is t, or the zero time where t is ahead of the clock: what happened
// before the clock was set back happened long ago.
func past(t, now time.Time) time.Time {
	if t.After(now) {
		return time.Time{}
	}
	return t
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

// known are all records that tell something of the agent.
func (s *situation) known() []*pipeline.Record { return slices.Concat(s.records, s.gone) }

// lastWake finds the last wake of the agent. One that is further ahead of the
// clock than any wait comes before all others.
func (s *situation) lastWake() (of *pipeline.Record, last *pipeline.Wake) {
	when := func(w *pipeline.Wake) time.Time {
		if w.AskedAt.After(s.now.Add(s.times.RewakeAfter)) {
			return time.Time{}
		}
		return w.AskedAt
	}
	for _, r := range s.known() {
		for i := range r.Wakes {
			w := &r.Wakes[i]
			if s.isMe(w.Agent) && (last == nil || !when(w).Before(when(last))) {
				of, last = r, w
			}
		}
	}
	return of, last
}

// wakesFor counts the wakes that named a task since it was dispatched and in
// vain: after the agent last took something.
func (s *situation) wakesFor(task *pipeline.Record) int {
	return s.wakesSince(past(task.Dispatch.At, s.now), func(w *pipeline.Wake) bool { return slices.Contains(w.Tasks, task.TaskID) })
}

// wakesSince counts wakes of a kind that may have reached the agent since a
// time, and after it last took something.
func (s *situation) wakesSince(since time.Time, kind func(*pipeline.Wake) bool) int {
	if took := s.lastTook(); took.After(since) {
		since = took
	}
	n := 0
	for _, r := range s.known() {
		for i := range r.Wakes {
			if w := &r.Wakes[i]; s.isMe(w.Agent) && maybeQueued(w) && kind(w) && !w.AskedAt.Before(since) {
				n++
			}
		}
	}
	return n
}

// maybeQueued tells whether a wake may have reached the agent.
func maybeQueued(w *pipeline.Wake) bool {
	return w.Accepted != nil || w.Ended != nil || w.Sent && w.Refused == ""
}

func (s *situation) isMe(agent string) bool { return sameAgent(agent, s.agent.Name) }

func sameAgent(a, b string) bool { return a == b || pipeline.FoldName(a) == pipeline.FoldName(b) }

// tookSince tells whether the agent took a task after t.
func (s *situation) tookSince(t time.Time) bool { return s.lastTook().After(t) }

// lastTook is when the agent last took a task. One that was sent back or given
// away since was taken all the same: the history tells.
func (s *situation) lastTook() (last time.Time) {
	latest := func(at time.Time) {
		if at = past(at, s.now); at.After(last) {
			last = at
		}
	}
	for _, r := range s.known() {
		if d := r.Dispatch; d != nil && d.TakenAt != nil && s.isMe(d.Agent) {
			latest(*d.TakenAt)
		}
		for _, e := range r.History {
			if e.What == pipeline.EventTaken && s.saidIt(e) {
				latest(e.At)
			}
		}
	}
	return last
}

// saidIt tells whether an event is of the agent's making.
func (s *situation) saidIt(e pipeline.Event) bool {
	name, ok := e.Agent()
	return ok && s.isMe(name)
}

// working tells whether the agent took a task and has not ended it.
func (s *situation) working() bool { return slices.ContainsFunc(s.records, AtWork) }

// AtWork tells whether a task was taken and is not ended.
func AtWork(r *pipeline.Record) bool {
	return r.Dispatch != nil && r.Dispatch.TakenAt != nil && r.Status.Active() && r.Unfinished()
}

// heard is when the agent last said or did something.
func (s *situation) heard() time.Time {
	var last time.Time
	for _, r := range s.known() {
		at := s.heardOf(r)
		if at.After(last) && !at.After(s.now.Add(s.times.SilentAfter)) {
			last = at
		}
	}
	return last
}

// heardOf is when the agent last said or did something about a task.
func (s *situation) heardOf(r *pipeline.Record) time.Time {
	var last time.Time
	if d := r.Dispatch; d != nil && d.TakenAt != nil && s.isMe(d.Agent) {
		last = *d.TakenAt
	}
	for _, e := range slices.Backward(r.History) {
		if s.saidIt(e) {
			if e.At.After(last) {
				last = e.At
			}
			break
		}
	}
	return last
}

// LastHeard is when the agent to whom a task was handed out last said or did
// something about it; zero: it has not.
func LastHeard(r *pipeline.Record) time.Time {
	if r.Dispatch == nil {
		return time.Time{}
	}
	s := situation{agent: &pipeline.Agent{Name: r.Dispatch.Agent}}
	return s.heardOf(r)
}

// ended is when the agent ended its last task: the last thing that was heard
// of it, or that somebody else took the task out of its hands.
func (s *situation) ended() time.Time {
	last := s.heard()
	if last.IsZero() {
		return last
	}
	for _, r := range s.known() {
		if s.heardOf(r).IsZero() {
			continue
		}
		if at := past(stoppedAt(r), s.now); at.After(last) {
			last = at
		}
	}
	return last
}

// stoppedAt is when a task last ceased to be one to work on.
func stoppedAt(r *pipeline.Record) time.Time {
	for _, e := range slices.Backward(r.History) {
		from, to, ok := e.Move()
		if ok && (from == pipeline.Assigned || from == pipeline.InProgress) && to != pipeline.InProgress {
			return e.At
		}
	}
	return time.Time{}
}
