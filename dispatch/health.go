package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/pipeline"
)

// Health is what an agent's runs and its process come to.
type Health struct {
	*core.AgentState
	Process
}

// AgentHealth returns the health of an agent. It changes nothing. The error is one of
// the store.
func AgentHealth(ctx context.Context, store core.Reader, dir string, a *pipeline.Agent) (Health, error) {
	state, err := store.Agent(ctx, a.Name)
	return Health{state, processOf(dir, a.Name)}, err
}

// Ignores returns since when the agent takes nothing: its process hangs, a person paused
// it, or OTM starts it only for a probe; zero: it may take something.
func (h Health) Ignores() time.Time {
	switch {
	case h.Running:
		return h.Hangs
	case h.Paused != nil:
		return h.Paused.At
	case h.Rests:
		return time.Time{}
	}
	return h.LeftAlone
}

// NextRun is when the next run of a task can begin that waits for it: after the pauses of the
// task and of its agent. It is that of the task where a person paused the agent, who may end
// that at any time.
func (h Health) NextRun(t *core.Task, now time.Time) time.Time {
	if h.AgentState == nil || h.Paused != nil || h.NextStart.After(now.Add(core.ProbeEvery)) { // the clock was set back
		return t.Wait.Until
	}
	return later(t.Wait.Until, h.NextStart)
}

// Finding returns the first of Findings; nil: there is none.
func (h Health) Finding(now time.Time) *explain.Finding {
	if found := h.Findings(now); len(found) > 0 {
		return &found[0]
	}
	return nil
}

// Findings returns the agent's problems: what its process does, and why it is not started.
// An agent that rests has none, whatever its last runs came to. A process that OTM ends is
// no problem until it should have ended.
func (h Health) Findings(now time.Time) (found []explain.Finding) {
	switch {
	case h.Stray:
		what := "a process that it had started"
		if h.PID != 0 {
			what += fmt.Sprintf(", pid %d,", h.PID)
		}
		found = append(found, h.found(explain.AgentStray, "what", what, "end", h.End()))
	case h.Running && !h.Hangs.IsZero():
		found = append(found, h.found(explain.AgentHangs, "since", h.Hangs, "pid", h.PID))
	case h.Running && h.Ends != nil:
		why := fmt.Sprintf("%v was taken from it", h.Ends.Task)
		switch {
		case h.Ends.Late:
			why = fmt.Sprintf("%v takes longer than its max_runtime", h.Ends.Task)
		case h.Ends.Orphan:
			why = fmt.Sprintf("the command was killed that had started it for %v", h.Ends.Task)
		}
		code := explain.AgentEnding
		if h.endsLate(now) {
			code = explain.AgentWillNotEnd
		}
		found = append(found, h.found(code, "task", h.Ends.Task, "since", h.Ends.Since, "pid", h.PID, "why", why))
	case h.Orphan:
		found = append(found, h.found(explain.AgentOrphan, "pid", h.PID))
	}
	if h.Paused != nil {
		reason := h.Paused.Reason
		if reason != "" {
			reason = " (" + reason + ")"
		}
		return append(found, h.found(explain.AgentPaused, "since", h.Paused.At, "by", h.Paused.By.String(), "reason", reason))
	}
	if f := h.afterRuns(); f != nil && len(found) == 0 {
		return []explain.Finding{*f}
	}
	return found
}

// Due returns the health as it counts once there is work: the agent no longer rests.
func (h Health) Due() Health {
	if h.AgentState != nil && h.Rests {
		state := *h.AgentState
		state.Rests, h.AgentState = false, &state
	}
	return h
}

// endsLate reports whether the process was told to end, and should have ended by now.
func (h Health) endsLate(now time.Time) bool {
	return h.Ends != nil && !now.Before(h.Ends.Since.Add(endLate))
}

// limitedAfter is how often in a row an agent has to ask for a later start, without a failure,
// until people are told of a rate limit.
const limitedAfter = 3

// afterRuns says that OTM delays the next start after runs without progress; nil: it does
// not.
func (h Health) afterRuns() *explain.Finding {
	code := explain.AgentPausing
	switch {
	case !h.Running && h.Rests, h.LastStart == nil:
		return nil
	case !h.LeftAlone.IsZero(): // also while a probe runs
		code = explain.AgentLeftAlone
	case h.Running || h.Fruitless == 0:
		return nil
	}
	run := h.LastStart
	n := h.Failures
	switch {
	case code != explain.AgentPausing || !run.TriesLater():
	case n == 0 && h.Fruitless >= limitedAfter:
		code, n = explain.AgentLimited, h.Fruitless
	default:
		code = explain.AgentLater
	}
	look := "tail " + safe.Quote(run.Log)
	switch {
	case run.Via == pipeline.TriggerGateway:
		look = "openclaw logs"
	case run.Log == "":
		look = "otm agents"
	}
	// The agent's last message usually says why it took nothing (C60). Quoting shows
	// control characters as \x1b.
	how := cmp.Or(run.Exit, "nobody saw how")
	if run.LastWords != "" {
		how += ", and it said last: " + strconv.Quote(run.LastWords)
	}
	return new(h.found(code, "n", n, "ended", run.Ended, "how", how, "next", h.NextStart, "look", look))
}

func (h Health) found(code explain.Code, args ...any) explain.Finding {
	return explain.New(code, append(args, "agent", h.Agent)...)
}

// Outlooks tell what is known of agents, and apply the rules of waking to it. They read the
// store once for all agents. They are for one goroutine.
type Outlooks struct {
	Dir    string
	Agents pipeline.Agents
	Store  core.Reader
	Now    time.Time
	Times  pipeline.Times
	Types  pipeline.Types
	Link   *Link         // the connection to the gateway; nil: none is kept, or nobody knows
	Wait   time.Duration // the deadline for each touch of a workspace; zero: that of the dispatcher

	files  *workspaces
	states map[string]*core.AgentState // by folded name; nil: not read yet
	woken  map[string][]*core.Task     // by folded name: tasks that hold a wake of the agent since wakeMemory
}

// Outlook is when and why an agent is woken next.
type Outlook struct {
	Wake *core.Wake // the last one, for any task; nil: there was none
	Took bool       // it took a task since Wake
	Over bool       // the start that followed Wake has ended
	// AtWork reports whether the agent counts for max_running: it is at work, or may begin at
	// any moment.
	AtWork bool
	Due    time.Time // when the dispatcher looks at it again at the latest; zero: when something happens
	// Left are the tasks that the agent took, if its process has ended with them unfinished and
	// nobody has gone on with them.
	Left map[pipeline.TaskID]bool
	// Continues are the unfinished tasks for which the agent is woken to continue, as its
	// turn at the gateway ended well; each with when.
	Continues map[pipeline.TaskID]time.Time
	Health    Health
}

// Of returns the outlook of an agent with its tasks on the board. The error is one of
// the store.
func (o *Outlooks) Of(ctx context.Context, a *pipeline.Agent, tasks []*core.Task) (Outlook, error) {
	s, err := o.situation(ctx, a, tasks)
	if err != nil {
		return Outlook{}, err
	}
	s.foresee()
	s.state.Hangs = s.hangsSince() // the dispatcher has not noted it yet
	_, last := s.lastWake()
	next := s.planWake()
	if next.action == ask { // what comes next if the gateway says that the run goes on
		s.asked.at = s.now
		next = s.planWake()
	}
	look := Outlook{Wake: last, Took: last != nil && s.tookSince(last.AskedAt), Due: next.due, Health: Health{s.state, s.Process}, Left: map[pipeline.TaskID]bool{}}
	_, look.Over = s.ended(last)
	look.AtWork = s.atWork()
	for _, t := range s.tasks {
		if isLeftBy(s, t) {
			look.Left[t.ID] = true
		}
	}
	if last != nil && endedWell(last) {
		look.Continues = map[pipeline.TaskID]time.Time{}
		for _, t := range s.tasks {
			if at, ok := s.again(t); ok {
				look.Continues[t.ID] = at
			}
		}
	}
	return look, nil
}

// foresee forgets what is known of starts before, once that tells nothing about the next one:
// a person asked for it, or the last start has ended and is not judged yet. The end of a probe
// changes nothing until it is judged.
func (s *situation) foresee() {
	last := s.state.LastStart
	end, over := s.endOfStart()
	if over {
		last = &end.Start
	}
	asked := s.state.Fruitless > 0 && (s.askedSince(last) || s.gotOnSince(last))
	if asked || over && s.state.LeftAlone.IsZero() {
		s.state.Forgive()
		s.state.LastStart = last
	}
}

// wakeMemory is how long a wake is remembered without its row: longer than any wait
// that depends on it.
const wakeMemory = 24 * time.Hour

// read reads what the store knows of all agents.
func (o *Outlooks) read(ctx context.Context) error {
	if o.states != nil {
		return nil
	}
	from := o.Now.Add(-wakeMemory)
	tasks, err := o.Store.Tasks(ctx, core.Filter{Woken: o.Agents.Names(), WokenFrom: from})
	if err != nil {
		return err
	}
	states, err := o.Store.AgentStates(ctx)
	if err != nil {
		return err
	}
	if o.states, o.woken = states, map[string][]*core.Task{}; o.files == nil {
		o.files = &workspaces{wait: o.Wait}
	}
	for _, t := range tasks {
		for _, w := range t.Wakes {
			name := pipeline.FoldName(w.Agent)
			if of := o.woken[name]; !w.AskedAt.Before(from) && (len(of) == 0 || of[len(of)-1] != t) {
				o.woken[name] = append(of, t)
			}
		}
	}
	return nil
}

// situation gathers what is known of an agent. A wake counts until it ends, also if its
// task leaves the board or the agent. left are tasks that left it in a run.
func (o *Outlooks) situation(ctx context.Context, a *pipeline.Agent, tasks []*core.Task, left ...*core.Task) (*situation, error) {
	if err := o.read(ctx); err != nil {
		return nil, err
	}
	s := &situation{workload: workload{agent: a, tasks: tasks, now: o.Now, times: o.Times, types: o.Types, link: o.Link}}
	s.idle = sync.OnceValue(func() time.Time { return o.files.idleSince(o.Agents, a) })
	s.Process = processOf(o.Dir, a.Name) // also one from before the trigger was changed
	own := map[pipeline.TaskID]bool{}
	for _, t := range tasks {
		own[t.ID] = true
	}
	name := pipeline.FoldName(a.Name)
	for _, t := range slices.Concat(left, o.woken[name]) {
		if !own[t.ID] {
			own[t.ID] = true
			s.gone = append(s.gone, t)
		}
	}
	if s.state = o.states[name]; s.state == nil {
		s.state = &core.AgentState{Agent: a.Name}
	}
	return s, nil
}
