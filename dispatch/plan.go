package dispatch

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/pipeline"
)

// askAfter is how long after a wake to ask the gateway how its run ended. The
// gateway forgets the end of a run after about ten minutes.
func askAfter(t *pipeline.Times) time.Duration { return min(9*time.Minute, t.RewakeAfter) }

const (
	// answerWait is how long a wake whose answer was lost is sent again under its
	// key. The gateway remembers keys for five minutes after a run's end.
	answerWait = 3 * time.Minute
	// afterTask is how long an agent has after a task to take the next one by itself.
	afterTask = time.Minute
	// askMissed is the pause between questions after a connection was lost, for a run that
	// goes on.
	askMissed = 10 * time.Minute
	// continueAfter is how long after the end of a turn at the gateway, and after the last
	// report, the agent is woken to go on with its task.
	continueAfter = 10 * time.Minute
)

// sureAfter are how long after its acceptance the gateway is asked what became of a wake
// that the agent has not acknowledged. After the last one that is a problem.
var sureAfter = []time.Duration{time.Minute, 3 * time.Minute}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// action is what to do about waking an agent.
type action int

const (
	rest       action = iota // there is no work
	hold                     // look again at plan.due, or when something happens
	unaccepted               // hold: its wake was refused, or not sent
	hangs                    // its process runs and takes nothing
	send                     // send a new wake
	resend                   // send the same wake again, under its key
	tell                     // tell the agent that plan.lost was taken from it
	ask                      // ask how the run of the outstanding wake ended
)

// situation is all that a plan depends on, for one agent.
type situation struct {
	workload
	state *core.AgentState
	Process
	unwoken *explain.Finding // why the last wake by this process failed; nil: it did not
	idle    func() time.Time // when "otm next" last found nothing for it; zero: never, or not known
	asked   question         // the last one for the end of its run at the gateway
}

// question is one to the gateway: how a run ended.
type question struct {
	at     time.Time // zero: this process asked none
	goesOn bool      // the answer: the run goes on
}

// plan is what to do, and for which tasks.
type plan struct {
	action action
	tasks  []*core.Task // that wait or are to be continued, most urgent first
	wake   *core.Wake   // the last one; nil: there was none
	of     *core.Task   // holds wake
	lost   *core.Task   // of tell: the task; wake is nil, or the one that tells of it and was not accepted
	due    time.Time    // when to look again; zero: when something happens
	why    string       // for the log
}

func (p plan) with(a action, why string) plan {
	p.action, p.why = a, why
	return p
}

func (p plan) until(due time.Time, why string) plan {
	p.due = sooner(p.due, due)
	return p.with(hold, why)
}

// sooner is the earlier of two times; a zero time is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// planWake decides what to do about waking the agent.
func (s *situation) planWake() plan {
	p := plan{tasks: s.work()}
	for _, t := range s.tasks {
		if at, ok := s.again(t); ok && at.After(s.now) {
			p.due = sooner(p.due, at)
		}
	}
	p.of, p.wake = s.lastWake()
	w := p.wake
	if t := lostBy(s); t != nil {
		return planTelling(s, p, t)
	}
	if at := s.asks(w); !at.IsZero() && !at.After(s.now) {
		return p.with(ask, "its run is not known to have ended")
	} else if p.due = sooner(p.due, at); len(p.tasks) == 0 {
		return p
	}
	_, over := s.ended(w)
	isNew := func(t *core.Task) bool { return t.Waiting() || s.isResumed(t) } // its wake is to be acknowledged
	switch {
	case s.Running:
		return s.planRunning(p)
	case s.state.Paused != nil:
		return p.with(hold, "a person paused it")
	case resumeAsked(s.state, w, s.now) && (w == nil || !w.Accepted.IsZero() || over):
		return p.with(send, "a person resumed it")
	case s.busy() && !s.reached(s.heard(), s.times.SilentAfter):
		return p.until(s.after(s.heard(), s.times.SilentAfter), "at work on a task")
	case s.busy() && w != nil && endedWell(w):
		return p.with(hold, "its turn ended, and its commands may go on")
	case over:
		return s.planAfterRun(p)
	case w == nil || s.tookSince(w.AskedAt) || !w.Accepted.IsZero() && !slices.ContainsFunc(p.tasks, isNew):
		return s.planAfterTask(p)
	case w.Accepted.IsZero():
		return s.planUnanswered(p)
	}
	return s.planOutstanding(p)
}

// turn returns the waiting task whose turn it is, which may be assigned; nil: none waits.
func (p plan) turn() *core.Task {
	if p.action == send {
		if first := p.tasks[0]; first.Waiting() {
			return first
		}
		return nil
	}
	waiting := slices.DeleteFunc(slices.Clone(p.tasks), func(t *core.Task) bool { return !t.Waiting() })
	switch {
	case len(waiting) == 0:
		return nil
	case slices.Contains(waiting, p.of):
		return p.of
	}
	i := slices.IndexFunc(waiting, func(t *core.Task) bool { return t.Status == pipeline.Assigned })
	return waiting[max(i, 0)]
}

// planRunning is for an agent whose process runs. A pass follows its end.
func (s *situation) planRunning(p plan) plan {
	w := p.wake
	if w == nil || w.Accepted.IsZero() || s.tookSince(w.AskedAt) {
		return p.with(hold, "its process is running")
	}
	if due := w.Accepted.Add(s.times.RewakeAfter); !reached(w.Accepted, s.times.RewakeAfter, s.now) {
		return p.until(due, "its process is running")
	}
	return p.with(hangs, "its process takes nothing")
}

// planAfterRun is for an agent whose last run has ended.
func (s *situation) planAfterRun(p plan) plan {
	if until, waits := s.state.Waits(s.now); waits {
		return p.until(until, "its last runs ended without progress")
	}
	return p.with(send, "its last run has ended")
}

// planUnanswered is for a wake that was refused, was not sent, or whose answer was
// lost. Each try adds events to the history of its task: so one follows another only
// after a pause, whatever happens meanwhile.
func (s *situation) planUnanswered(p plan) plan {
	w := p.wake
	until, waits := s.state.Waits(s.now)
	if w.Refused == "" {
		until, waits = w.AskedAt.Add(retryWake), !reached(w.AskedAt, retryWake, s.now)
	}
	if waits && !w.MaybeQueued() {
		p.due = until
		return p.with(unaccepted, "not accepted yet")
	}
	sameWay := w.Via == s.agent.Trigger // the configuration may have changed
	switch {
	case !w.MaybeQueued() && sameWay && slices.Contains(p.tasks, p.of):
		return p.with(resend, "not accepted yet") // its key is unused
	case w.MaybeQueued() && sameWay:
		return p.with(resend, "answer lost")
	}
	return p.with(send, "not accepted yet")
}

// planOutstanding is for an accepted wake after which the agent took nothing, and
// whose run is not known to have ended.
func (s *situation) planOutstanding(p plan) plan {
	w := p.wake
	since, wait := w.Accepted, askAfter(&s.times)
	if !w.Unknown.IsZero() {
		since, wait = w.Unknown, s.times.RewakeAfter
	}
	if !s.reached(since, wait) {
		return p.until(s.after(since, wait), "woken, waiting for it to take a task")
	}
	return p.with(ask, "woken, took nothing")
}

// unended reports whether a wake led to a turn at the gateway that may still go on.
func (s *situation) unended(w *core.Wake) bool {
	return w != nil && w.Via == pipeline.TriggerGateway && !w.Accepted.IsZero() && w.Ended.IsZero() &&
		(s.state.LastStart == nil || s.state.LastStart.Key != w.Key)
}

// asks returns when the gateway is to be asked next what became of the turn of a wake: while
// the agent has not acknowledged it, and once after the connection was lost, as its end may have
// been missed; again and again if the answer is that it goes on, as the gateway may have resumed
// it under another id. Zero: it need not be asked, or cannot be.
func (s *situation) asks(w *core.Wake) (at time.Time) {
	if !s.unended(w) || s.link != nil && !s.link.Up {
		return at
	}
	var times []time.Time
	if !s.tookSince(w.AskedAt) && w.Unknown.IsZero() {
		for _, d := range sureAfter {
			times = append(times, s.after(w.Accepted, d))
		}
	}
	if s.link != nil && s.link.Since.After(w.Accepted) {
		again := s.link.Since
		if s.asked.goesOn {
			again = later(again, past(s.asked.at, s.now).Add(askMissed))
		}
		times = append(times, again)
	}
	for _, t := range times {
		if t.After(past(s.asked.at, s.now)) {
			at = sooner(at, t)
		}
	}
	return at
}

// unheard reports whether the agent has not acknowledged its wake for too long.
func (s *situation) unheard(w *core.Wake) bool {
	return s.unended(w) && len(s.waiting()) > 0 && !s.tookSince(w.AskedAt) && s.reached(w.Accepted, sureAfter[len(sureAfter)-1])
}

// planAfterTask is for an agent that took a task since it was woken, or was never
// woken, and is not known to be at work.
func (s *situation) planAfterTask(p plan) plan {
	if s.busy() || slices.ContainsFunc(p.tasks, func(t *core.Task) bool { return s.isUnfinished(t) && !s.isResumed(t) }) {
		return p.with(send, "silent for too long")
	}
	heard := s.heard()
	// A process that ended, or an agent that looked and found nothing, does not take
	// the next task by itself.
	gone := s.agent.Trigger == pipeline.TriggerExec || !s.idle().Before(heard)
	if heard.IsZero() || gone || reached(heard, afterTask, s.now) || slices.ContainsFunc(p.tasks, s.isResumed) {
		return p.with(send, "tasks wait")
	}
	return p.until(heard.Add(afterTask), "has just ended a task and takes the next by itself")
}

// ends returns why OTM ends the agent's process; nil: it does not.
func (s *situation) ends() *core.Ends {
	if !s.Running {
		return nil
	}
	of, w := s.lastWake()
	ends := s.endsRun(of, w)
	if ends == nil && s.Orphan && of != nil {
		ends = &core.Ends{Task: of.ID, Since: s.now.UTC(), Orphan: true}
	}
	return ends
}

// endsRun returns that OTM ends the agent's process as the run in which it works was canceled,
// or lasts too long, or it took nothing for that long; nil: it does not. A process works in the
// run of the task that it took last, or was given last. The last wake is w, of a task.
func (s *situation) endsRun(of *core.Task, w *core.Wake) *core.Ends {
	since := s.Started
	if w != nil {
		since = w.AskedAt
	}
	var last *core.Task
	for _, t := range s.known() {
		if s.tookAt(t).After(since) && (last == nil || s.tookAt(t).After(s.tookAt(last))) {
			last = t
		}
	}
	if late := s.lateStart(); last == nil && !late.IsZero() && !s.now.Before(late) {
		return &core.Ends{Task: of.ID, Since: s.now.UTC(), Late: true}
	}
	if last == nil || last.Runs.LastOf(s.agent.Name) == nil {
		return nil
	}
	own, late := last.Runs.LastOf(s.agent.Name), lateAt(last, s.types)
	ends := core.Ends{Task: last.ID, Since: s.now.UTC(), Late: own == last.Runs.Open() && !late.IsZero() && !s.now.Before(late)}
	if !ends.Late && !core.TakenFrom(last, own) {
		return nil
	}
	return &ends
}

// lateStart is when the agent's process, which was started and took nothing, lasts longer than
// max_runtime of its first task allows; zero: never.
func (s *situation) lateStart() time.Time {
	of, w := s.lastWake()
	if w == nil || w.Via != pipeline.TriggerExec || s.tookSince(w.AskedAt) {
		return time.Time{}
	}
	if most := s.types.Rules(of.Type).Runtime(); most > 0 {
		return w.AskedAt.Add(most)
	}
	return time.Time{}
}

// lateAt is when the open run of a task lasts longer than max_runtime allows; zero: never.
func lateAt(t *core.Task, types pipeline.Types) time.Time {
	if most := types.Rules(t.Type).Runtime(); most > 0 && t.Runs.Open() != nil {
		return t.Runs.Open().Began.Add(most)
	}
	return time.Time{}
}

// ended returns when the run of a wake ended; false: it may still run or begin.
func (s *situation) ended(w *core.Wake) (time.Time, bool) {
	switch last := s.state.LastStart; {
	case w == nil || s.Running:
		return time.Time{}, false
	case last != nil && last.Key == w.Key:
		return last.Ended, true
	case !w.Ended.IsZero() && w.Ended.Before(w.AskedAt):
		return w.AskedAt, true // the clock was set back during the run
	case !w.Ended.IsZero():
		return w.Ended, true
	case w.Via == pipeline.TriggerExec && (!w.Accepted.IsZero() || w.MaybeQueued() && s.tookSince(w.AskedAt)):
		return s.now, true // its lock is free: its helper was killed before it could note the end
	case w.Accepted.IsZero():
		lost := w.MaybeQueued() && (reached(w.AskedAt, answerWait, s.now) || w.Via != s.agent.Trigger)
		return w.AskedAt, lost && !s.tookSince(w.AskedAt)
	case w.Unknown.IsZero():
		return time.Time{}, false
	}
	return w.Unknown, s.reached(w.Unknown, s.times.RewakeAfter) && !s.tookSince(w.AskedAt)
}

// endOfStart returns the end of the last run if it is not judged yet; false: there is
// no such end.
func (s *situation) endOfStart() (e core.StartEnd, ok bool) {
	of, w := s.lastWake()
	at, over := s.ended(w)
	if !over || s.state.LastStart != nil && s.state.LastStart.Key == w.Key {
		return e, false
	}
	e.Start = core.EndedStart{Key: w.Key, Via: w.Via, StartResult: w.StartResult}
	if e.Start.Ended = at; at.After(s.now) {
		e.Start.Ended = s.now // the clock was set back since
	}
	if ends := s.state.Ends; ends != nil && ends.Late && !s.tookSince(w.AskedAt) {
		e.Start.Exit = fmt.Sprintf("it took nothing for as long as max_runtime allows, %v, and was ended", s.types.Rules(of.Type).Runtime())
	}
	e.Unfinished, e.Blocked = map[pipeline.TaskID]bool{}, map[pipeline.TaskID]time.Time{}
	for _, t := range s.known() {
		h, counted := t.HeardOf(s.agent.Name), s.state.Blocked[t.ID]
		h.Progress, h.Ended = past(h.Progress, s.now), past(h.Ended, s.now)
		progress := gotOn(t, h, w, counted)
		e.Progress = e.Progress || progress
		given := slices.Contains(w.Tasks, t.ID) || s.tookAt(t).After(w.AskedAt)
		goesOn := s.isUnfinished(t) && given && endedWell(w) && s.continued(t) < s.times.RewakeMax
		e.GoesOn = e.GoesOn || goesOn
		if s.isUnfinished(t) && !progress {
			e.Unfinished[t.ID] = s.tookAt(t).After(w.AskedAt) && !goesOn
		}
		switch {
		case t.Status == pipeline.Blocked && progress:
			e.Blocked[t.ID] = h.Ended
		case !counted.IsZero() && t.Status.Active():
			e.Blocked[t.ID] = counted
		}
	}
	e.Idle = len(e.Unfinished) == 0 && !couldTake(s.waiting(), w, s.idle()) || s.state.Ends.Canceled()
	return e, true
}

// gotOn reports whether the run of a wake made progress on a task, by its agent's
// reports. Only reports that an agent can make a bounded number of times count, or OTM
// would start it for ever: tick an open step, end the task, or block it until the run
// ends. A block counts once until a person moves the task; otherwise an agent could
// block two tasks in turn. counted is when a block last counted; zero: never.
func gotOn(t *core.Task, h core.Heard, w *core.Wake, counted time.Time) bool {
	switch {
	case h.Progress.After(w.AskedAt):
		return true
	case !h.Ended.After(w.AskedAt):
		return false
	case resumedByOther(t, h.Ended):
		return true
	case t.Status == pipeline.Blocked:
		return counted.IsZero() || resumedByOther(t, counted) || t.Dispatch != nil && t.Dispatch.At.After(counted)
	}
	return !t.AtWork()
}

// resumedByOther reports whether somebody else than an agent unblocked a task after a time.
func resumedByOther(t *core.Task, after time.Time) bool {
	return t.ResumedAt.After(after) && t.ResumedBy != core.Agent
}

// couldTake reports whether the run of a wake could have taken one of the tasks that
// wait: it did not look for tasks and find none before they were handed out.
func couldTake(waiting []*core.Task, w *core.Wake, idle time.Time) bool {
	return slices.ContainsFunc(waiting, func(t *core.Task) bool {
		return !idle.After(w.AskedAt) || !t.Dispatch.FlippedAt.After(idle)
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
func (s *situation) work() []*core.Task {
	list := s.waiting()
	for _, t := range s.tasks {
		if at, ok := s.again(t); ok && !at.After(s.now) {
			list = append(list, t)
		}
	}
	ByPriority(list)
	return list
}

// again returns from when on the agent is woken to go on with a task that it took and has
// not finished; zero: from now on. False: it is not woken for it.
func (s *situation) again(t *core.Task) (at time.Time, ok bool) {
	if !s.isUnfinished(t) {
		return at, false
	}
	_, w := s.lastWake()
	ended, over := s.ended(w)
	heard := t.HeardOf(s.agent.Name)
	atGateway := s.agent.Trigger == pipeline.TriggerGateway && (w == nil || w.Via == pipeline.TriggerGateway)
	switch {
	case s.isResumed(t), !s.Running && resumeAsked(s.state, w, s.now):
		return at, true
	case s.Running:
		return at, false
	case w != nil && endedWell(w):
		return s.after(later(past(ended, s.now), past(heard.Reported, s.now)), continueAfter), true
	case s.byHand(t):
		// OTM starts nothing beside a session of which it does not know the end.
	case isFree(s.agent.Trigger, w):
		return at, true
	case !atGateway || w != nil && w.Accepted.IsZero() && slices.Contains(w.Tasks, t.ID):
		return at, over && !heard.At.After(ended) || atGateway && !w.MaybeQueued() && !heard.At.After(w.AskedAt)
	case w != nil && w.MaybeQueued() && !w.AskedAt.After(s.now) && w.AskedAt.After(past(heard.At, s.now)):
		return at, false // it was asked since
	}
	d, ok := s.types.Rules(t.Type).RungAfter(pipeline.RungAsked)
	if ok && !s.reached(heard.At, d) {
		at = s.after(heard.At, d)
	}
	return at, ok
}

// isLeftBy reports whether the process of an agent with a command took a task and ended without
// a result, and nobody has gone on with the task.
func isLeftBy(s *situation, t *core.Task) bool {
	_, w := s.lastWake()
	if !s.isUnfinished(t) || s.isResumed(t) || s.Works() || w == nil || s.agent.Trigger != pipeline.TriggerExec {
		return false
	}
	heard := t.LastHeard()
	if w.Ended.IsZero() {
		return w.Via == pipeline.TriggerExec && !w.Accepted.IsZero() && !heard.Before(w.AskedAt)
	}
	return !heard.After(w.Ended)
}

// byHand reports whether an agent with a command claimed a task in a session that somebody
// else started: no process of OTM was there, or it was heard of after that had ended.
func (s *situation) byHand(t *core.Task) bool {
	if s.agent.Trigger != pipeline.TriggerExec || s.Running || !t.Claimed {
		return false
	}
	_, w := s.lastWake()
	ended, over := s.ended(w)
	return w == nil || over && w.Via == pipeline.TriggerExec && past(t.HeardOf(s.agent.Name).At, s.now).After(ended)
}

// endedWell reports whether the run of a wake was a turn at the gateway that ended well.
// Commands that it began may go on in the background.
func endedWell(w *core.Wake) bool {
	return w.Via == pipeline.TriggerGateway && !w.Ended.IsZero() && !w.Outcome.Failed()
}

// isFree reports whether an agent without a process is known not to be at work, by
// its trigger and its last wake. An exec agent without a process is free. An agent at
// the gateway is free once the end of its last run is known.
func isFree(trigger pipeline.Trigger, w *core.Wake) bool {
	exec := trigger == pipeline.TriggerExec
	if w == nil {
		return exec
	}
	return !w.Ended.IsZero() || exec && w.Via == pipeline.TriggerExec
}

// ByPriority sorts tasks in the order in which their agent is given them.
func ByPriority(list []*core.Task) {
	slices.SortFunc(list, compareTurns)
}

// compareTurns orders tasks as their agent is given them, by otm next and by wakes: the most
// urgent first, then the one that was handed out first. A retry comes after what waited.
func compareTurns(a, b *core.Task) int {
	at := func(t *core.Task) time.Time {
		if t.Dispatch == nil {
			return time.Time{}
		}
		return t.Dispatch.At
	}
	return cmp.Or(cmp.Compare(a.Priority.Rank(), b.Priority.Rank()), at(a).Compare(at(b)), cmp.Compare(a.ID, b.ID))
}

// busy reports whether the agent is known to work on a task: it took the task and
// has not ended it, and the run that took it may still go on.
func (s *situation) busy() bool {
	left := s.work()
	return slices.ContainsFunc(s.tasks, func(t *core.Task) bool { return s.isUnfinished(t) && !slices.Contains(left, t) })
}

// resumeAsked reports whether a person asked with "otm resume" for a start, and no
// wake may have reached the agent since. w is the last wake; nil: there was none.
func resumeAsked(a *core.AgentState, w *core.Wake, now time.Time) bool {
	asked := past(a.Resumed, now)
	return !asked.IsZero() && (w == nil || !w.MaybeQueued() || asked.After(w.AskedAt))
}
