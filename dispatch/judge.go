package dispatch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/pipeline"
)

// judgeStart judges the end of an agent's last start, and what its process does. The reports
// that are in the inbox come first: they may show progress.
func (wg *waking) judgeStart(ctx context.Context, s *situation) error {
	end, over, err := wg.countedEnd(ctx, s)
	if err != nil {
		return err
	}
	last := s.state.LastStart
	if over {
		last = &end.Start
	}
	judge := core.JudgeStart{
		MaxFailures: wg.Times.RewakeMax, Over: !s.Running, Setup: setupOf(s.agent),
		Hangs: s.hangsSince(), Ends: s.ends(), Asked: s.askedSince(last) || s.gotOnSince(last), Rests: len(s.work()) == 0,
		Retries: slices.ContainsFunc(s.tasks, func(t *core.Task) bool { return t.Wait.BacksOff(s.now) }),
	}
	if over {
		judge.End = &end
	}
	_, w := s.lastWake()
	if judge.Rests || s.Running || !resumeAsked(s.state, w, s.now) {
		judge.Started = s.state.Resumed // it led to a start, or there is no work
	}
	c := core.Command{At: s.now, By: by(), Agent: s.agent.Name, Do: judge}
	is := &core.State{Agents: map[string]*core.AgentState{pipeline.FoldName(s.agent.Name): s.state}}
	if events, err := core.Decide(is, c); err != nil || len(events) == 0 {
		return err // most passes change nothing, and need no transaction
	}
	failed := s.failRuns(over, w, wg.Types)
	outcomes, err := wg.Store.Do(ctx, append([]core.Command{c}, failed...)...)
	if err == nil {
		err = outcomes[0].Err
	}
	if err == nil {
		s.state, err = wg.Store.Agent(ctx, s.agent.Name)
	}
	if err == nil && len(failed) > 0 {
		err = wg.reload(ctx, s)
		wg.report.RunBy(s.now) // the next run follows at once on one that made progress
	}
	if err == nil && over && !end.Progress && !end.Idle {
		wg.Log.Warn("run ended without progress", "agent", s.agent.Name, "run", end.Start.Key, "exit", end.Start.Exit, "failures", s.state.Failures, "next", s.state.NextStart)
	}
	return err
}

// failRuns returns the commands that fail the open runs of the agent's tasks: the process,
// or the run at the gateway, that worked in them is over and left no result. A turn at the
// gateway that ended well fails only those that the agent was woken to continue as often as
// RewakeMax says. over says that the end counts; w is the wake.
func (s *situation) failRuns(over bool, w *core.Wake, types pipeline.Types) (commands []core.Command) {
	if !over || w.Via == pipeline.TriggerGateway && !w.Outcome.Failed() && !endedWell(w) {
		return nil
	}
	later := w.TriesLater() || s.state.Ends.Canceled()
	for _, t := range s.known() {
		run := t.Runs.Open()
		if run == nil || !core.SameAgent(run.Agent, s.agent.Name) {
			continue
		}
		exit, times := w.Exit, s.continued(t)
		switch {
		case endedWell(w) && times < s.times.RewakeMax, !endedWell(w) && !t.HeardOf(s.agent.Name).At.After(w.AskedAt):
			continue
		case endedWell(w):
			exit = fmt.Sprintf("its turn ended, and so did %s to continue it, without a report", explain.Count(times, "turn", "turns"))
		}
		if ends := s.state.Ends; ends != nil && ends.Late && ends.Task == t.ID {
			exit = fmt.Sprintf("it lasted longer than max_runtime allows, %v, and was ended", types.Rules(t.Type).Runtime())
		}
		if t.EndsByWord() {
			exit = "every step was ticked before, and the agent did not report agent_done; " + exit
		}
		commands = append(commands, core.Command{At: s.now, By: by(), Task: t.ID, Agent: s.agent.Name, Do: core.FailRun{
			Run: run.Number, Failure: core.Failure{Exit: exit, Code: w.Code, Log: w.Log, Free: later}, NotBefore: w.RetryAt, Types: types,
		}})
	}
	return commands
}

// countedEnd returns the end of the agent's last start if it is not judged yet, after the
// agent's reports were applied; false: there is no such end.
func (wg *waking) countedEnd(ctx context.Context, s *situation) (end core.StartEnd, over bool, err error) {
	if end, over = s.endOfStart(); !over {
		return end, false, nil
	}
	changed, err := wg.Carry(ctx, s.agent)
	if err != nil {
		return end, false, err
	}
	wg.changed = wg.changed || changed
	// The injector may have applied a report, and the exit of the process may have been
	// noted, since the tasks were loaded.
	if err := wg.reload(ctx, s); err != nil {
		return end, false, err
	}
	if end, over = s.endOfStart(); !over {
		return end, false, nil
	}
	if _, w := s.lastWake(); w.Via == pipeline.TriggerExec && w.Ended.IsZero() && w.MaybeQueued() {
		// Its helper was killed before it could note the end.
		killed, _, _ := wg.askWaker(ctx, s.agent, w) // for the log's path
		killed.Key, killed.Process, killed.Ended, killed.Detail = w.Key, true, s.now, "killed; nobody saw how"
		if _, err := RecordEnd(ctx, wg.Store, killed, s.now); err != nil {
			return end, false, err
		}
		if err := wg.reload(ctx, s); err != nil {
			return end, false, err
		}
		end, over = s.endOfStart()
	}
	return end, over, nil
}

// hangsSince returns when the agent's process was woken if it hangs: it runs and
// takes nothing; zero: it does not hang.
func (s *situation) hangsSince() time.Time {
	if pl := s.planWake(); pl.action == hangs {
		return pl.wake.Accepted.UTC()
	}
	return time.Time{}
}

// askedSince reports whether a person has sent one of the agent's tasks out again since
// a run ended.
func (s *situation) askedSince(last *core.EndedStart) bool {
	if last == nil {
		return false
	}
	for _, t := range s.tasks { // sent out again, and not handed out yet
		if t.Status == pipeline.New && t.Previous != "" && t.StatusBy.Kind != core.OTM && past(t.StatusAt, s.now).After(last.Ended) {
			return true
		}
	}
	for _, t := range s.work() {
		d := t.Dispatch
		if d.Attempt > 1 && !d.Retry && past(d.At, s.now).After(last.Ended) || !t.ResumedAt.After(s.now) && resumedByOther(t, last.Ended) {
			return true
		}
	}
	return false
}

// gotOnSince reports whether the agent did a task after its last start ended, as one does that
// somebody else started. Reports that it may make without end are no such sign. A step is
// none either: that session is at work, and OTM would start another one beside it.
func (s *situation) gotOnSince(last *core.EndedStart) bool {
	return last != nil && slices.ContainsFunc(s.known(), func(t *core.Task) bool {
		h := t.HeardOf(s.agent.Name)
		return past(h.Ended, s.now).After(last.Ended) && t.Status == pipeline.AgentDone
	})
}

// setupOf describes how an agent is started now. Its program is the one that its command
// names; a path below the workspace, which may not answer, is not looked at.
func setupOf(a *pipeline.Agent) core.Setup {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", a.Trigger, a.Workspace, a.GatewayAgent, a.Command))
	setup := core.Setup{Config: fmt.Sprintf("%x", sum[:8])}
	if len(a.Command) == 0 || !filepath.IsAbs(a.Command[0]) && strings.ContainsRune(a.Command[0], filepath.Separator) {
		return setup
	}
	path, err := exec.LookPath(a.Command[0])
	if err != nil {
		return setup
	}
	info, err := os.Stat(path)
	if err != nil {
		return setup
	}
	setup.Program, setup.ChangedAt = path, info.ModTime()
	return setup
}

// RecordEnd notes the end of a start with the task that holds its wake, durably, and
// reports whether it was news. It does nothing if no wake has the key: the gateway also
// reports runs that others began.
func RecordEnd(ctx context.Context, store core.Store, end core.EndStart, now time.Time) (news bool, err error) {
	id, err := store.TaskOfWake(ctx, end.Key)
	if errors.Is(err, core.ErrNoTask) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	noted, err := core.DoOne(ctx, store, core.Command{At: now, By: by(), Task: id, Do: end})
	return len(noted.Events) > 0, err
}
