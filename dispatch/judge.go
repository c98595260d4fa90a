package dispatch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/pipeline"
)

// judgeRun judges the end of an agent's last run, and what its process does. An end
// counts once the reports that were in the inbox at that moment are applied: they may
// show progress.
func (wg *waking) judgeRun(ctx context.Context, s *situation) error {
	stored, err := wg.Store.Agent(ctx, s.agent.Name)
	if err != nil {
		return err
	}
	s.state = stored
	end, over, err := wg.countedEnd(ctx, s)
	if err != nil {
		return err
	}
	judge := core.JudgeRun{
		MaxFailures: maxFailures(&wg.Times), Over: !s.running && !s.unread, Start: startOf(s.agent),
		Hangs: s.hangsSince(), Lingers: s.lingersOn(), Asked: s.askedFor(), Rests: stored.Rests,
	}
	if over {
		judge.End = &end.RunEnd
	}
	if s.state, _, err = s.judged(stored, judge); err != nil {
		return err
	}
	// Whether the agent rests follows from its state after the judgement.
	_, w := s.lastWake()
	idle := s.planWake().action == rest
	judge.Rests = idle && s.state.Fruitless > 0
	if asked := s.state.Resumed; !asked.IsZero() && (idle || s.running || !resumeAsked(s.state, w, s.now)) {
		judge.Started = asked // it led to a start, or there is no work
	}
	var changed bool
	if s.state, changed, err = s.judged(stored, judge); err != nil || !changed {
		return err // most passes change nothing, and need no transaction
	}
	if err := wg.noteJudged(ctx, s, judge); err != nil {
		return err
	}
	if over && !end.Progress && !end.Idle {
		wg.Log.Warn("run ended without progress", "agent", s.agent.Name, "run", end.Run.Key, "exit", end.Run.Exit, "failures", s.state.Failures, "next", s.state.NextStart)
	}
	return nil
}

// judged returns what a judgement makes of a state of the agent, and reports whether
// that is another state.
func (s *situation) judged(stored *core.AgentState, judge core.JudgeRun) (state *core.AgentState, changed bool, err error) {
	key := pipeline.FoldName(s.agent.Name)
	is := &core.State{Agents: map[string]*core.AgentState{key: stored}}
	events, err := core.Decide(is, core.Command{At: s.now, By: by(), Agent: s.agent.Name, Do: judge})
	return is.Agents[key], len(events) > 0, err
}

// noteJudged stores a judgement, durably.
func (wg *waking) noteJudged(ctx context.Context, s *situation, judge core.JudgeRun) error {
	outcomes, err := wg.Store.Do(ctx, core.Command{At: s.now, By: by(), Agent: s.agent.Name, Do: judge})
	if err != nil {
		return err
	}
	for _, e := range outcomes[0].Events {
		if c, ok := e.Data.(core.AgentChanged); ok {
			s.state = c.State.Clone()
		}
	}
	return outcomes[0].Err
}

// countedEnd returns the end of the agent's last run if it counts by now; false:
// there is no such end. It sets s.unread.
func (wg *waking) countedEnd(ctx context.Context, s *situation) (end runEnd, over bool, err error) {
	if end, over = s.endOfRun(); !over {
		return end, false, nil
	}
	if s.unread, err = wg.unread(s.agent, end.Run.Ended); err != nil {
		return end, false, err
	}
	// A report that left the inbox before that look, and the exit of the process, may
	// have been noted since the tasks were loaded.
	if err := wg.reload(ctx, s); err != nil {
		return end, false, err
	}
	if end, over = s.endOfRun(); !over || s.unread {
		return end, false, nil
	}
	if end.killed {
		if err := wg.noteKilled(ctx, s); err != nil {
			return end, false, err
		}
		end, over = s.endOfRun()
	}
	return end, over, nil
}

// killed is the exit of a process whose helper was killed with it.
const killed = "killed; nobody saw how"

// noteKilled notes that the process of the last wake has ended, durably. The helper
// usually does this, but it was killed.
func (wg *waking) noteKilled(ctx context.Context, s *situation) error {
	of, w := s.lastWake()
	end, _, _ := wg.askWaker(ctx, w) // for the log's path
	end.Key, end.Process, end.Ended, end.Detail = w.Key, true, s.now, killed
	if _, err := wg.Store.Do(ctx, core.Command{At: s.now, By: by(), Task: of.ID, Do: end}); err != nil {
		return err
	}
	return wg.reload(ctx, s)
}

// hangsSince returns when the agent's process was woken if it hangs: it runs and
// takes nothing; zero: it does not hang.
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
	for _, t := range s.work() {
		d := t.Dispatch
		if d.Attempt > 1 && past(d.At, s.now).After(last.Ended) || !t.ResumedAt.After(s.now) && resumedByOther(t, last.Ended) {
			return true
		}
	}
	return false
}

// unread reports whether the inbox holds reports of an agent on its own tasks that
// were dropped until a given time, which is past.
func (wg *waking) unread(a *pipeline.Agent, until time.Time) (bool, error) {
	if wg.Unread == nil {
		return false, nil
	}
	dropped, err := wg.Unread()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(wg.byName[a.Name], func(t *core.Task) bool {
		at, ok := dropped[t.ID]
		return ok && !at.After(until) && t.Dispatch != nil && core.SameAgent(t.Dispatch.Agent, a.Name)
	}), nil
}

// startOf describes how an agent is started now. Its program is the one that its command
// names; a path below the workspace, which may not answer, is not looked at.
func startOf(a *pipeline.Agent) core.Start {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", a.Trigger, a.Workspace, a.GatewayAgent, a.Command))
	start := core.Start{Config: fmt.Sprintf("%x", sum[:8])}
	if len(a.Command) == 0 || !filepath.IsAbs(a.Command[0]) && strings.ContainsRune(a.Command[0], filepath.Separator) {
		return start
	}
	path, err := exec.LookPath(a.Command[0])
	if err != nil {
		return start
	}
	info, err := os.Stat(path)
	if err != nil {
		return start
	}
	start.Program, start.ChangedAt = path, info.ModTime()
	return start
}
