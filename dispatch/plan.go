package dispatch

import (
	"cmp"
	"slices"
	"time"

	"otm/pipeline"
)

// maxFailures is how many failed runs in a row make OTM leave an agent alone.
func maxFailures(t *pipeline.Times) int { return max(t.RewakeMax, 1) }

// askAfter is how long after a wake to ask the gateway how its run ended. The
// gateway forgets the end of a run after about ten minutes.
func askAfter(t *pipeline.Times) time.Duration { return min(9*time.Minute, t.RewakeAfter) }

const (
	// answerWait is how long a wake whose answer was lost is sent again under its
	// key. The gateway remembers keys for five minutes after a run's end.
	answerWait = 3 * time.Minute
	// afterTask is how long an agent has after a task to take the next one by itself.
	afterTask = time.Minute
)

// action is what to do about waking an agent.
type action int

const (
	rest      action = iota // there is no work
	hold                    // look again at plan.due, or when something happens
	pausing                 // hold: its last runs ended without progress
	leftAlone               // hold until the next probe: too many runs ended without progress
	hangs                   // its process runs and takes nothing
	send                    // send a new wake
	resend                  // send the same wake again, under its key
	ask                     // ask how the run of the outstanding wake ended
)

// situation is all that a plan depends on, for one agent.
type situation struct {
	agent   *pipeline.Agent
	records []*pipeline.Record // of the agent's tasks on the board
	gone    []*pipeline.Record // of other tasks that hold a wake of the agent: their row is gone, or another agent has them
	state   AgentState
	running bool      // its process runs
	pid     int       // of the process that holds its lock; 0: not known
	unread  bool      // reports that count for its last run are not applied yet
	idle    time.Time // when "otm next" last found nothing for it; zero: never, or not known
	now     time.Time
	times   pipeline.Times
}

// plan is what to do, and for which tasks.
type plan struct {
	action action
	tasks  []*pipeline.Record // that wait or are to be continued, most urgent first
	wake   *pipeline.Wake     // the last one; nil: there was none
	of     *pipeline.Record   // holds wake
	due    time.Time          // when to look again; zero: when something happens
	why    string             // for the log
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

// planWake decides what to do about waking the agent.
func (s *situation) planWake() plan {
	p := plan{tasks: s.work()}
	if len(p.tasks) == 0 {
		return p
	}
	p.of, p.wake = s.lastWake()
	w := p.wake
	_, over := s.ended(w)
	switch {
	case s.running:
		return s.planRunning(p)
	case s.state.resumeAsked(w, s.now) && (w == nil || w.Accepted != nil || over):
		return p.with(send, "a person resumed it")
	case over && s.unread:
		return p.with(hold, "its run has ended, its last reports are not applied yet")
	case s.busy() && !reached(s.heard(), s.times.SilentAfter, s.now):
		return p.until(s.heard().Add(s.times.SilentAfter), "at work on a task")
	case over:
		return s.planAfterRun(p)
	case w == nil || s.tookSince(w.AskedAt):
		return s.planAfterTask(p)
	case w.Accepted == nil:
		return s.planUnanswered(p)
	}
	return s.planOutstanding(p)
}

// planRunning is for an agent whose process runs. A pass follows its end.
func (s *situation) planRunning(p plan) plan {
	w := p.wake
	if w == nil || w.Accepted == nil || s.tookSince(w.AskedAt) {
		return p.with(hold, "its process is running")
	}
	if due := w.Accepted.Add(s.times.RewakeAfter); !reached(*w.Accepted, s.times.RewakeAfter, s.now) {
		return p.until(due, "its process is running")
	}
	return p.with(hangs, "its process takes nothing")
}

// planAfterRun is for an agent whose last run has ended.
func (s *situation) planAfterRun(p plan) plan {
	until, waits := s.state.waits(s.now)
	switch {
	case !waits:
		return p.with(send, "its last run has ended")
	case !s.state.LeftAlone.IsZero():
		p.due = until
		return p.with(leftAlone, "its last runs ended without progress")
	}
	p.due = until
	return p.with(pausing, "its last run ended without progress")
}

// planUnanswered is for a wake that was refused, was not sent, or whose answer was
// lost.
func (s *situation) planUnanswered(p plan) plan {
	w := p.wake
	sameWay := w.Via == string(s.agent.Trigger) // the configuration may have changed
	switch {
	case !maybeQueued(w) && sameWay && slices.Contains(p.tasks, p.of):
		return p.with(resend, "not accepted yet") // its key is unused
	case maybeQueued(w) && sameWay:
		return p.with(resend, "answer lost")
	}
	return p.with(send, "not accepted yet")
}

// planOutstanding is for an accepted wake after which the agent took nothing, and
// whose run is not known to have ended.
func (s *situation) planOutstanding(p plan) plan {
	w := p.wake
	since, wait := *w.Accepted, askAfter(&s.times)
	if w.Unknown != nil {
		since, wait = *w.Unknown, s.times.RewakeAfter
	}
	if !reached(since, wait, s.now) {
		return p.until(since.Add(wait), "woken, waiting for it to take a task")
	}
	return p.with(ask, "woken, took nothing")
}

// planAfterTask is for an agent that took a task since it was woken, or was never
// woken, and is not known to be at work.
func (s *situation) planAfterTask(p plan) plan {
	if s.busy() {
		return p.with(send, "silent for too long")
	}
	heard := s.heard()
	// A process that ended, or an agent that looked and found nothing, does not take
	// the next task by itself.
	gone := s.agent.Trigger == pipeline.TriggerExec || !s.idle.Before(heard)
	if heard.IsZero() || gone || reached(heard, afterTask, s.now) || slices.ContainsFunc(p.tasks, s.isResumed) {
		return p.with(send, whyWaiting)
	}
	return p.until(heard.Add(afterTask), "has just ended a task and takes the next by itself")
}

// lingersOn returns the task on which the agent's process still works although a
// person ended it or put it off; 0: there is none.
func (s *situation) lingersOn() pipeline.TaskID {
	if !s.running {
		return 0
	}
	_, w := s.lastWake()
	var last *pipeline.Record
	for _, r := range s.known() {
		if w != nil && s.tookAt(r).After(w.AskedAt) && (last == nil || s.tookAt(r).After(s.tookAt(last))) {
			last = r
		}
	}
	if last == nil {
		return 0
	}
	switch last.Status {
	case pipeline.Cancelled, pipeline.Rejected, pipeline.Failed, pipeline.Archived, pipeline.Pending:
		return last.TaskID
	}
	if last.GoneAt != nil {
		return last.TaskID
	}
	return 0
}

// ended returns when the run of a wake ended; false: it may still run or begin.
func (s *situation) ended(w *pipeline.Wake) (time.Time, bool) {
	switch last := s.state.LastRun; {
	case w == nil || s.running:
		return time.Time{}, false
	case last != nil && last.Key == w.Key:
		return last.Ended, true
	case w.Ended != nil && w.Ended.Before(w.AskedAt):
		return w.AskedAt, true // the clock was set back during the run
	case w.Ended != nil:
		return *w.Ended, true
	case w.Via == string(pipeline.TriggerExec) && (w.Accepted != nil || maybeQueued(w) && s.tookSince(w.AskedAt)):
		return s.now, true // its lock is free: its helper was killed before it could note the end
	case w.Accepted == nil:
		lost := maybeQueued(w) && (reached(w.AskedAt, answerWait, s.now) || w.Via != string(s.agent.Trigger))
		return w.AskedAt, lost && !s.tookSince(w.AskedAt)
	case w.Unknown == nil:
		return time.Time{}, false
	}
	return *w.Unknown, reached(*w.Unknown, s.times.RewakeAfter, s.now) && !s.tookSince(w.AskedAt)
}

// endOfRun returns the end of the last run if it is not judged yet; false: there is
// no such end.
func (s *situation) endOfRun() (runEnd, bool) {
	_, w := s.lastWake()
	at, over := s.ended(w)
	if !over || s.state.LastRun != nil && s.state.LastRun.Key == w.Key {
		return runEnd{}, false
	}
	e := runEnd{run: EndedRun{Key: w.Key, Via: w.Via, Tasks: w.Tasks, Started: w.AskedAt, Ended: at, Code: w.Code, Words: w.Exit, Log: w.Log, LastWords: w.LastWords}}
	e.killed = w.Ended == nil && w.Via == string(pipeline.TriggerExec) && maybeQueued(w)
	if w.RetryAt != nil {
		e.run.RetryAt = *w.RetryAt
	}
	e.unfinished, e.blocked = map[pipeline.TaskID]bool{}, map[pipeline.TaskID]time.Time{}
	for _, r := range s.known() {
		h, counted := r.HeardOf(s.agent.Name), s.state.Blocked[r.TaskID]
		progress := gotOn(r, h, w, counted)
		e.progress = e.progress || progress
		if s.isUnfinished(r) && !progress {
			e.unfinished[r.TaskID] = s.tookAt(r).After(w.AskedAt)
		}
		switch {
		case r.Status == pipeline.Blocked && progress:
			e.blocked[r.TaskID] = h.Ended
		case !counted.IsZero() && r.Status.Active():
			e.blocked[r.TaskID] = counted
		}
	}
	e.idle = len(e.unfinished) == 0 && !couldTake(s.waiting(), w, s.idle)
	return e, true
}

// gotOn reports whether the run of a wake made progress on a task, by its agent's
// reports. Only reports that an agent can make a bounded number of times count, or OTM
// would start it for ever: tick an open step, end the task, or block it until the run
// ends. A block counts once until a person moves the task; otherwise an agent could
// block two tasks in turn. counted is when a block last counted; zero: never.
func gotOn(r *pipeline.Record, h pipeline.Heard, w *pipeline.Wake, counted time.Time) bool {
	switch {
	case h.Progress.After(w.AskedAt):
		return true
	case !h.Ended.After(w.AskedAt):
		return false
	case r.ResumedAt.After(h.Ended):
		return true
	case r.Status == pipeline.Blocked:
		return counted.IsZero() || r.ResumedAt.After(counted) || r.Dispatch != nil && r.Dispatch.At.After(counted)
	}
	return !AtWork(r)
}

// couldTake reports whether the run of a wake could have taken one of the tasks that
// wait: it did not look for tasks and find none before they were handed out.
func couldTake(waiting []*pipeline.Record, w *pipeline.Wake, idle time.Time) bool {
	return slices.ContainsFunc(waiting, func(r *pipeline.Record) bool {
		return !idle.After(w.AskedAt) || !r.Dispatch.FlippedAt.After(idle)
	})
}

// reached reports whether d has passed since t. A time further ahead than d was
// written before the clock was set back. It counts as reached, so that nobody waits
// for a year.
func reached(t time.Time, d time.Duration, now time.Time) bool {
	return !now.Before(t.Add(d)) || t.After(now.Add(d))
}

// past is t, or the zero time if t is ahead of the clock: t is then from before the
// clock was set back, and counts as long ago.
func past(t, now time.Time) time.Time {
	if t.After(now) {
		return time.Time{}
	}
	return t
}

// work returns the tasks to wake the agent for, most urgent first: those that it has
// not taken, and those that its last run left unfinished.
func (s *situation) work() []*pipeline.Record {
	list := s.waiting()
	_, w := s.lastWake()
	at, over := s.ended(w)
	free := !s.running && (isFree(s.agent.Trigger, w) || s.state.resumeAsked(w, s.now))
	for _, r := range s.records {
		if s.isUnfinished(r) && (free || over && !r.HeardOf(s.agent.Name).At.After(at) || s.isResumed(r)) {
			list = append(list, r)
		}
	}
	byPriority(list)
	return list
}

// isFree reports whether an agent without a process is known not to be at work, by
// its trigger and its last wake. An exec agent without a process is free. An agent at
// the gateway is free once the end of its last run is known.
func isFree(trigger pipeline.Trigger, w *pipeline.Wake) bool {
	exec := trigger == pipeline.TriggerExec
	if w == nil {
		return exec
	}
	return w.Ended != nil || exec && w.Via == string(pipeline.TriggerExec)
}

// waiting returns the tasks that the agent has not taken.
func (s *situation) waiting() []*pipeline.Record {
	var list []*pipeline.Record
	for _, r := range s.records {
		if isWaiting(r) && r.Dispatch.FlippedAt != nil {
			list = append(list, r)
		}
	}
	return list
}

func byPriority(list []*pipeline.Record) {
	slices.SortFunc(list, func(a, b *pipeline.Record) int {
		return cmp.Or(cmp.Compare(a.Priority.Rank(), b.Priority.Rank()), cmp.Compare(a.TaskID, b.TaskID))
	})
}

// isUnfinished reports whether the agent took a task and has not ended it.
func (s *situation) isUnfinished(r *pipeline.Record) bool {
	return AtWork(r) && s.isMe(r.Dispatch.Agent)
}

// isResumed reports whether a person set a blocked task to in progress, and the
// agent has not reported since.
func (s *situation) isResumed(r *pipeline.Record) bool {
	return s.isUnfinished(r) && r.ResumedAt.After(r.HeardOf(s.agent.Name).At)
}

// AtWork reports whether an agent took a task and has not ended it.
func AtWork(r *pipeline.Record) bool {
	return r.Dispatch != nil && r.Dispatch.TakenAt != nil && r.Status.Active() && r.Unfinished()
}

// busy reports whether the agent is known to work on a task: it took the task and
// has not ended it, and the run that took it may still go on.
func (s *situation) busy() bool {
	left := s.work()
	return slices.ContainsFunc(s.records, func(r *pipeline.Record) bool { return s.isUnfinished(r) && !slices.Contains(left, r) })
}

// known returns all records that concern the agent.
func (s *situation) known() []*pipeline.Record { return slices.Concat(s.records, s.gone) }

// lastWake returns the last wake of the agent and the record that holds it. A wake
// further ahead of the clock than any wait counts as the earliest.
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

// maybeQueued reports whether a wake may have reached the agent.
func maybeQueued(w *pipeline.Wake) bool {
	return w.Accepted != nil || w.Ended != nil || w.Sent && w.Refused == ""
}

func (s *situation) isMe(agent string) bool { return sameAgent(agent, s.agent.Name) }

func sameAgent(a, b string) bool { return a == b || pipeline.FoldName(a) == pipeline.FoldName(b) }

// tookSince reports whether the agent took a task after t, or was given one again.
func (s *situation) tookSince(t time.Time) bool { return s.latest(s.tookAt).After(t) }

// tookAt is when the agent last took a task or was given it again; zero: never.
func (s *situation) tookAt(r *pipeline.Record) time.Time {
	h := r.HeardOf(s.agent.Name)
	if h.Given.After(h.Took) {
		return h.Given
	}
	return h.Took
}

// heard is when the agent last took a task or reported on one; zero: never.
func (s *situation) heard() time.Time {
	return s.latest(func(r *pipeline.Record) time.Time { return r.HeardOf(s.agent.Name).At })
}

// latest is the latest of the records' times that are not ahead of the clock.
func (s *situation) latest(of func(*pipeline.Record) time.Time) (last time.Time) {
	for _, r := range s.known() {
		if at := past(of(r), s.now); at.After(last) {
			last = at
		}
	}
	return last
}

// LastHeard is when the agent of a task's dispatch last took the task or reported on
// it; zero: never.
func LastHeard(r *pipeline.Record) time.Time {
	if r.Dispatch == nil {
		return time.Time{}
	}
	return r.HeardOf(r.Dispatch.Agent).At
}
