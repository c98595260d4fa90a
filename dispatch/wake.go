package dispatch

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"otm/core"
	"otm/internal/crash"
	"otm/internal/explain"
	"otm/pipeline"
)

// waking plans the wakes of all agents and sends them.
type waking struct {
	*run
	unwritten map[pipeline.TaskID]bool // tasks whose entry is to be written
	changed   bool                     // tasks were put back into the queue of their agent, or reports applied
	outlooks  *Outlooks
}

// wake wakes the agents that have work, all in parallel. It waits at most Patience
// for the answers. It does not wait for the runs.
func (wg *waking) wake(ctx context.Context) error {
	pending, err := wg.Outbox.Pending(ctx, core.SinkEntry)
	if err != nil {
		return err
	}
	wg.unwritten = map[pipeline.TaskID]bool{}
	for _, p := range pending {
		wg.unwritten[p.Task] = true
	}
	wg.outlooks = wg.looks()
	held, holds := wg.Held(), false
	limit := &limit{max: wg.Times.MaxRunning, running: len(wg.waking)}
	for i := range wg.Agents {
		a := &wg.Agents[i]
		waker := wg.Wakers[a.Trigger]
		id, err := wg.files.identity(a.Workspace)
		reachable := err == nil && !wg.unkept[id] // its workspace exists, and its dispatch file was readable in this pass
		if a.Person || waker == nil || wg.waking[a.Name] != nil || !reachable && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		s, err := wg.look(ctx, a, wg.byName[a.Name], wg.left[a.Name])
		if err != nil {
			return err
		}
		if s == nil {
			continue
		}
		limit.count(s)
		if !reachable {
			continue // the end of its last start counts all the same
		}
		pl := s.planWake()
		if err := wg.queue(ctx, s, pl); err != nil {
			return err
		}
		if held && (pl.action == send || pl.action == resend) {
			holds = true
			continue
		}
		switch pl.action {
		case send:
			limit.wait(candidate{s, pl, waker})
		case resend, ask, tell:
			wg.start(ctx, candidate{s, pl, waker})
		default:
			wg.woke(a.Name, s.held(pl))
			wg.Log.Debug("agent not woken", "agent", a.Name, "why", pl.why, "due", pl.due)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wg.former)) { // their processes are judged, ended if due, and count for max_running
		s, err := wg.look(ctx, &pipeline.Agent{Name: name, Trigger: pipeline.TriggerExec}, nil, wg.former[name])
		if err != nil {
			return err
		}
		if s != nil {
			limit.count(s)
		}
	}
	if holds {
		wg.report.RunBy(wg.Now().Add(retryWake))
	}
	for _, c := range limit.admitted() {
		wg.start(ctx, c)
	}
	wg.collect()
	if wg.report.Did[woken].N == 0 && !wg.changed || ctx.Err() != nil {
		return nil
	}
	return wg.deliver(ctx) // the entries show the wake, for people
}

// queue puts tasks of the agent that are assigned back into its queue, except the one that
// it is, or was, woken for. None stays assigned while it works on another task, or is not
// started for a while.
func (wg *waking) queue(ctx context.Context, s *situation, pl plan) error {
	if !s.agent.OneTask() {
		return nil
	}
	var keep *core.Task
	if _, waits := s.state.Waits(s.now); s.state.Paused == nil && !s.busy() && !(waits && pl.action == hold) {
		keep = pl.turn()
	}
	var commands []core.Command
	for _, t := range s.tasks {
		if t.Status == pipeline.Assigned && t.Waiting() && t != keep {
			commands = append(commands, core.Command{At: s.now, By: by(), Task: t.ID, Do: core.Queue{}})
		}
	}
	if len(commands) == 0 {
		return nil
	}
	wg.changed = true
	_, err := wg.Store.Do(ctx, commands...)
	return err
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
		if w.late.Load() {
			d.Answered()
		}
	})
	return w
}

// lateAgain is the longest pause before a late result is looked for.
const lateAgain = time.Second

// collect takes the results that come within Patience.
func (wg *waking) collect() {
	patience, cancel := context.WithCancel(context.Background())
	if wg.Patience > 0 {
		patience, cancel = context.WithTimeout(patience, wg.Patience)
	}
	defer cancel()
	for _, name := range slices.Sorted(maps.Keys(wg.waking)) {
		pending := wg.waking[name]
		select {
		case r := <-pending.done:
			wg.woke(name, r)
			continue
		case <-patience.Done():
		}
		pending.late.Store(true)
		select {
		case r := <-pending.done:
			wg.woke(name, r)
		default:
			if failed, ok := wg.unwoken[name]; ok {
				wg.report.Fail(failed) // still true until the next answer
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
	if !r.asked.at.IsZero() {
		wg.asked[name] = r.asked
	}
	delete(wg.unwoken, name)
	if r.failed != nil {
		wg.unwoken[name] = *r.failed
		wg.report.Fail(*r.failed)
	}
	if r.needs != nil {
		wg.report.Needs(*r.needs)
	}
}

// wakeResult is the result of a pass for one agent.
type wakeResult struct {
	woken  int
	due    time.Time        // when to look at the agent again; zero: at the usual time
	failed *explain.Finding // why the wake failed; nil: it did not
	needs  *explain.Finding // why the agent needs a person; nil: it does not
	asked  question         // the last one for the end of its run at the gateway
}

// notWoken says why an agent was not woken.
func notWoken(code explain.Code, a *pipeline.Agent, err error, args ...any) *explain.Finding {
	return new(explain.New(code, append(args, "agent", a.Name, "error", err)...))
}

// look gathers the facts about an agent, judges the end of its last run, and ends its process
// if that is due; nil: it reported why it could not. The error says that ctx ended.
func (wg *waking) look(ctx context.Context, a *pipeline.Agent, tasks, left []*core.Task) (*situation, error) {
	s, err := wg.situation(ctx, a, tasks, left)
	if err == nil {
		err = wg.endLeft(ctx, s)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		wg.report.Fail(*notWoken(explain.AgentStateWrong, a, err))
		return nil, nil
	}
	return s, nil
}

// situation gathers the facts about an agent, and judges the end of its last run.
func (wg *waking) situation(ctx context.Context, a *pipeline.Agent, tasks, left []*core.Task) (*situation, error) {
	s, err := wg.outlooks.situation(ctx, a, slices.Clone(tasks), left...)
	if err != nil {
		return nil, err
	}
	s.unwritten, s.asked = wg.unwritten, wg.asked[a.Name]
	if failed, ok := wg.unwoken[a.Name]; ok {
		s.unwoken = &failed
	}
	return s, wg.judgeStart(ctx, s)
}

// strayAgain is the pause before a pass looks again whether what holds up the agent's tasks
// has ended: nobody tells.
const strayAgain = 10 * time.Second

// endLeft ends the agent's process if that is noted in the agent's state. From then on it
// can take no other task: so what is seen of the tasks after that note is final. If we
// crash, the next pass does it again, which changes nothing.
func (wg *waking) endLeft(ctx context.Context, s *situation) error {
	for _, t := range s.known() {
		if s.Running {
			wg.report.RunBy(lateAt(t, s.types))
		}
	}
	if s.Running {
		wg.report.RunBy(s.lateStart())
	}
	if s.Stray && len(s.known()) > 0 {
		wg.report.RunBy(s.now.Add(strayAgain))
	}
	if !s.Running || s.Stray || s.state.Ends == nil {
		return nil
	}
	if err := wg.reload(ctx, s); err != nil {
		return err
	}
	wg.report.RunBy(s.now.Add(soonAgain)) // a pass follows the end of a helper; what a killed one left tells nothing
	noted, now := s.state.Ends, s.ends()
	if noted == nil || now == nil || now.Task != noted.Task {
		return nil
	}
	crash.Point("end.before")
	err := endProcess(wg.Dir, s.agent.Name, !s.now.Before(noted.Since.Add(endWait)))
	crash.Point("end.after")
	wg.Log.Info("told a process to end", "agent", s.agent.Name, "pid", s.PID, "task", noted.Task, "late", noted.Late, "err", err)
	return nil
}

// held is the result of a plan that sends nothing.
func (s *situation) held(pl plan) wakeResult {
	r := wakeResult{due: pl.due}
	if pl.action == unaccepted {
		r.failed = s.unwoken
		if r.failed == nil && pl.wake.Refused != "" { // by another process
			r.failed = notWoken(explain.WakeBarred, s.agent, errors.New(pl.wake.Refused))
		}
	}
	if pl.action == hold && s.unheard(pl.wake) {
		r.needs = new(explain.New(explain.WakeUnheard, "agent", s.agent.Name, "at", pl.wake.Accepted, "key", pl.wake.Key))
	}
	if h := (Health{s.state, s.Process}); pl.action != rest && (h.Ends == nil || h.endsLate(s.now)) {
		r.needs = cmp.Or(h.Finding(s.now), r.needs)
	}
	return r
}

func idsOf(tasks []*core.Task) []pipeline.TaskID {
	return pipeline.Map(tasks, func(t *core.Task) pipeline.TaskID { return t.ID })
}

// carryOut does what is planned for an agent.
func (wg *waking) carryOut(ctx context.Context, s *situation, pl plan, waker Waker) wakeResult {
	if pl.action == ask {
		var r wakeResult
		if pl, r = wg.askEnded(ctx, s, pl); r.failed != nil {
			return r
		}
		if pl.action == send && wg.Times.MaxRunning > 0 {
			return wakeResult{due: s.now} // the next pass counts who is at work
		}
	}
	switch pl.action {
	case send, resend:
		return wg.sendWake(ctx, s.agent, waker, pl)
	case tell:
		return wg.tellLoss(ctx, s, waker, pl)
	}
	return s.held(pl)
}

// askAgain is the pause before the same question is asked again.
const askAgain = time.Minute

// askEnded asks the waker whether the run of a wake has ended, notes the answer,
// and plans again. If nobody knows, and the agent took nothing for as long as the gateway
// would know, that is noted, too.
func (wg *waking) askEnded(ctx context.Context, s *situation, pl plan) (plan, wakeResult) {
	end, ended, err := wg.askWaker(ctx, s.agent, pl.wake)
	goesOn := errors.Is(err, ErrGoesOn) && !s.reached(pl.wake.Accepted, s.times.SilentAfter)
	switch {
	case errors.Is(err, ErrGoesOn):
		err = nil
	case ctx.Err() != nil:
		return plan{}, wakeResult{} // the dispatcher stops
	case err != nil:
		return plan{}, wakeResult{due: wg.Now().Add(askAgain), failed: notWoken(explain.WakeUnknown, s.agent, err, "key", pl.wake.Key)}
	}
	now := wg.Now()
	s.asked = question{now, goesOn}
	c := core.Command{At: now, By: by(), Task: pl.of.ID, Do: core.LoseStart{Key: pl.wake.Key}}
	if ended {
		c.Do = end
	}
	if ended || !goesOn && len(pl.tasks) > 0 && s.reached(pl.wake.Accepted, askAfter(&s.times)) && !s.tookSince(pl.wake.AskedAt) {
		_, err = wg.Store.Do(context.WithoutCancel(ctx), c)
	}
	if err == nil {
		err = wg.reload(ctx, s) // the agent may have taken something meanwhile
	}
	if err == nil {
		s.now = now
		err = wg.judgeStart(ctx, s)
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
func (wg *waking) askWaker(ctx context.Context, a *pipeline.Agent, w *core.Wake) (end core.EndStart, ended bool, err error) {
	waker := wg.Wakers[w.Via]
	if waker == nil {
		return core.EndStart{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	return waker.Ended(ctx, a, w.Key)
}

// reload loads the agent's tasks again, and its state.
func (wg *waking) reload(ctx context.Context, s *situation) (err error) {
	s.now = wg.Now() // the agent may have reported since
	if s.state, err = wg.Store.Agent(ctx, s.agent.Name); err != nil {
		return err
	}
	fresh, err := wg.Store.Tasks(ctx, core.Filter{IDs: idsOf(s.known())})
	if err != nil {
		return err
	}
	byID := core.ByID(fresh)
	for _, list := range [][]*core.Task{s.tasks, s.gone} {
		for i, t := range list {
			if byID[t.ID] != nil {
				list[i] = byID[t.ID]
			}
		}
	}
	return nil
}

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
