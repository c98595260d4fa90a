package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"otm/core"
	"otm/pipeline"
)

// queued makes a task of the shared queue.
func (w *world) queued(title string, p pipeline.Priority) pipeline.TaskID {
	w.Helper()
	return w.create(title, pipeline.SharedQueue, p)
}

// An agent without a task of its own claims the most urgent one of the shared queue, the
// oldest of equals. Nobody is woken for one.
func TestClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	low, first, second, urgent := w.queued("low", pipeline.Low), w.queued("first", pipeline.Normal), w.queued("second", pipeline.Normal), w.queued("urgent", pipeline.Critical)
	own := w.create("own", "alpha", pipeline.Batchable)
	want(t, "woken", w.pass().Woken, 1)
	want(t, "its own comes first", w.take("alpha", false), own)
	want(t, "at its limit", w.take("alpha", false), "continue "+own.String())
	want(t, "beside it", w.take("alpha", true), urgent)
	want(t, "beta", w.take("beta", false), first)
	want(t, "the board", words(w.boardStatus(low), w.entry("beta", first)["picked"], w.record(first).Agent), "new true beta")
	w.report(first, pipeline.AgentDone)
	w.pass()
	want(t, "the entry of a task that is done", w.ids("beta"), "")
	want(t, "then", w.take("beta", false), second)
	w.report(second, pipeline.Blocked)
	want(t, "nobody is busy with a blocked task", w.take("beta", false), low)
	w.report(low, pipeline.AgentDone)
	want(t, "at the end", w.take("beta", false), "nothing")
}

// An agent that a person paused claims nothing, and neither does a desk without a store.
func TestClaimNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.queued("a", pipeline.Normal)
	w.pass()
	without := w.desk()
	without.Store, without.Known = nil, func(*pipeline.Rendering) {}
	if taken, err := without.Next(t.Context(), w.agent("alpha"), false); taken != nil || err != nil {
		t.Errorf("without a store: %+v, %v", taken, err)
	}
	w.do(core.Command{By: core.ByPerson("rob"), Agent: "alpha", Do: core.PauseAgent{}})
	var paused *PausedError
	if taken, err := w.desk().Next(t.Context(), w.agent("alpha"), false); taken != nil || !errors.As(err, &paused) {
		t.Errorf("paused: %+v, %v", taken, err)
	}
	w.do(core.Command{By: core.ByPerson("rob"), Agent: "alpha", Do: core.ResumeAgent{}})
	want(t, "resumed", w.next("alpha"), id)
}

// Many agents that claim at once get a task each, and each task goes to one of them.
func TestClaimAtOnce(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	w := newWorld(t, names...)
	for range 5 {
		w.queued("x", pipeline.Normal)
	}
	w.pass()
	given := make([]pipeline.TaskID, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			taken, err := w.desk().Next(context.Background(), w.agent(name), false)
			if err != nil {
				t.Error(err)
			}
			if taken != nil {
				given[i] = taken.Task.ID
			}
		})
	}
	all.Wait()
	slices.Sort(given)
	want(t, "given", given, []pipeline.TaskID{0, 0, 0, 1, 2, 3, 4, 5})
}

// The process of an agent ends without a result of a task that it claimed. The task goes
// back to the shared queue, and another agent claims the retry once that is due. The agent
// is not woken for it.
func TestClaimedRunFails(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exit 1`)
	beta := *w.agent("alpha")
	beta.Name, beta.Label, beta.Trigger, beta.Workspace = "beta", "beta", pipeline.TriggerNone, t.TempDir()
	w.agents = append(w.agents, beta)
	w.restart()
	w.byExec()
	own, id := w.create("own", "alpha", pipeline.Normal), w.queued("a", pipeline.Normal)
	want(t, "woken", w.pass().Woken, 1)
	w.ended()
	want(t, "taken", w.next("alpha"), own)
	w.report(own, pipeline.AgentDone)
	want(t, "claimed", w.next("alpha"), id)
	w.pass()
	want(t, "after the end of its process", words(w.record(id).Agent, w.runsOf(id), w.record(id).Status), "queue 1 failed pending")
	w.pass()
	want(t, "the entry", w.ids("alpha"), "")
	want(t, "before the retry", w.next("beta"), pipeline.TaskID(0))
	w.clock.Advance(time.Minute)
	want(t, "woken", w.pass().Woken, 0)
	want(t, "the retry", w.next("beta"), id)
	want(t, "with", w.record(id).Agent, "beta")
}

// A task that nobody claims for a day needs a person, and after three days that is a failure.
func TestUnclaimed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.queued("a", pipeline.Normal)
	want(t, "at first", len(w.pass().Given), 0)
	for _, c := range []struct {
		after time.Duration
		given string
	}{
		{24 * time.Hour, "T-00001: new for 24h by now, without a word of anybody → otm why T-00001"},
		{48 * time.Hour, "T-00001: new for 3d by now, without a word of anybody → otm why T-00001"},
	} {
		w.clock.Advance(c.after)
		want(t, "after "+c.after.String(), w.pass().Given, []string{c.given})
	}
	want(t, "claimed", w.next("alpha"), pipeline.TaskID(1))
	want(t, "then", len(w.pass().Given), 0)
}

// An agent that claimed a task counts among those that max_running allows.
func TestClaimCountsAsWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	w.d.Times.MaxRunning = 1
	w.queued("a", pipeline.Normal)
	w.pass()
	want(t, "claimed", w.next("alpha"), pipeline.TaskID(1))
	w.create("b", "beta", pipeline.Normal)
	want(t, "woken meanwhile", w.pass().Woken, 0)
	w.report(1, pipeline.AgentDone)
	want(t, "woken then", w.pass().Woken, 1)
}

// Somebody starts a session of an agent with a command, and it claims a task. OTM starts
// nothing beside it while it may be at work: before its first start, and after one.
func TestClaimedByHand(t *testing.T) {
	t.Parallel()
	for name, started := range map[string]bool{"never started": false, "started before": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newExecWorld(t, `exit 0`)
			if started {
				own := w.create("own", "alpha", pipeline.Normal)
				want(t, "woken", w.pass().Woken, 1)
				want(t, "taken", w.next("alpha"), own)
				w.report(own, pipeline.AgentDone)
				w.ended()
				w.pass()
				w.clock.Advance(time.Minute)
			}
			id := w.queued("a", pipeline.Normal)
			want(t, "claimed", w.next("alpha"), id)
			for range 5 {
				w.clock.Advance(10 * time.Minute)
				want(t, "woken beside it", w.pass().Woken, 0)
			}
			w.report(id, pipeline.InProgress)
			w.clock.Advance(50 * time.Minute)
			want(t, "woken after a word of it", w.pass().Woken, 0)
			w.clock.Advance(11 * time.Minute)
			want(t, "woken, as it has been silent for an hour", w.pass().Woken, 1)
			want(t, "its run", w.runsOf(id), "1 ")
		})
	}
}
