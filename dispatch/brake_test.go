package dispatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/pipeline"
)

// C1: an agent that reports, and gets nothing on, is not started in an endless
// loop: what it can do again and again is no progress.
func TestC1NoEndlessRestart(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(w *world, n int){
		"says that it works on": func(w *world, _ int) { w.report(w.next("alpha"), pipeline.InProgress) },
		"blocks its task and takes it up again": func(w *world, _ int) {
			id := w.next("alpha")
			w.report(id, pipeline.Blocked)
			w.report(id, pipeline.InProgress)
		},
		"blocks two tasks in turn": func(w *world, n int) {
			if n == 0 {
				w.report(w.next("alpha"), pipeline.InProgress)
				w.report(w.take2("alpha"), pipeline.InProgress)
			}
			w.report(pipeline.TaskID(n%2+1), pipeline.Blocked)
			w.report(pipeline.TaskID((n+1)%2+1), pipeline.InProgress)
		},
		"changes its own program": func(w *world, n int) {
			link := filepath.Join(w.agent("alpha").Workspace, "program")
			os.Remove(link)
			if err := os.Symlink([]string{"/bin/sh", "/usr/bin/env"}[n%2], link); err != nil {
				w.Fatal(err)
			}
			w.agents[0].Command = []string{link, "true"}
		},
		"empties its dispatch file, looks, and finds nothing": func(w *world, _ int) {
			w.rewrite("alpha", func(file map[string]any) { file["tasks"] = []any{} })
			w.next("alpha")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newExecWorld(t, `exit 0`)
			w.create("x", "alpha", pipeline.Normal, "one")
			w.create("y", "alpha", pipeline.Normal, "one")
			started := 0
			for range 90 {
				if w.pass().Woken > 0 {
					w.ended()
					run(w, started)
					started++
				}
				w.clock.Advance(time.Second)
			}
			// Two blocks count once each, as does another command. The first pause is
			// 10 s, the second a minute.
			if started < 2 || started > 5 {
				t.Errorf("started %d times in 90 s", started)
			}
		})
	}
}

// take2 gives an agent another task than the one that it has.
func (w *world) take2(agent string) pipeline.TaskID {
	w.Helper()
	taken, err := w.desk().Next(w.Context(), w.agent(agent), true)
	if err != nil || taken == nil {
		w.Fatalf("no other task: %v", err)
	}
	return taken.Task.ID
}

// A run that ticks a step, blocks its task, or ends it got on: the next one starts
// at once, for another task first. A task that a person resumed may be blocked again.
func TestProgressStartsAtOnce(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exit 0`)
	id := w.create("x", "alpha", pipeline.Normal, "one", "two", "three")
	other := w.create("y", "alpha", pipeline.Normal)
	for n, run := range []func(){
		func() { w.report(w.next("alpha"), pipeline.InProgress, 1) },
		func() {
			want(t, "then", w.next("alpha"), other)
			w.report(other, pipeline.AgentDone)
		},
		func() { w.report(w.next("alpha"), pipeline.InProgress, 2) },
		func() { w.report(w.next("alpha"), pipeline.Blocked) },
		func() { w.report(id, pipeline.Blocked) },
	} {
		started := w.pass().Woken
		if started == 0 {
			started = w.pass().Woken // the one before judged the run, this one hands its task out again
		}
		want(t, fmt.Sprint("start ", n+1), started, 1)
		run() // as its process would
		w.ended()
		if n == 3 {
			w.pass()
			w.edit(id, w.status(pipeline.InProgress))
		}
		w.clock.Advance(10 * time.Millisecond)
	}
	want(t, "nothing is left", w.pass().Woken, 0)
	health, err := AgentHealth(context.Background(), w.store, w.dir, w.agent("alpha"))
	want(t, "health", words(health.Finding(w.clock.Now()), health.Failures, err), "<nil> 0 <nil>")
}

// OTM leaves an agent alone, and somebody starts it by hand: otm next gives it its task. With
// the first task that it gets done it is started again. What it may say for ever is no such
// thing, and neither is a step: its session goes on.
func TestGettingOnEndsThePause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report func(w *world, id pipeline.TaskID)
		ends   bool
	}{
		"a step":    {func(w *world, id pipeline.TaskID) { w.report(id, "", 1) }, false},
		"its end":   {func(w *world, id pipeline.TaskID) { w.report(id, pipeline.AgentDone) }, true},
		"a status":  {func(w *world, id pipeline.TaskID) { w.report(id, pipeline.InProgress) }, false},
		"a block":   {func(w *world, id pipeline.TaskID) { w.report(id, pipeline.Blocked) }, false},
		"a failure": {func(w *world, id pipeline.TaskID) { w.report(id, pipeline.Failed) }, false},
		"nothing":   {func(*world, pipeline.TaskID) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newExecWorld(t, `exit 1`)
			id := w.create("x", "alpha", pipeline.High, "one", "two")
			w.create("y", "alpha", pipeline.Normal)
			w.while(10*time.Minute, func() {})
			leftAlone := func() bool {
				health, err := AgentHealth(w.Context(), w.store, w.dir, w.agent("alpha"))
				if err != nil {
					t.Fatal(err)
				}
				return !health.LeftAlone.IsZero()
			}
			want(t, "left alone", leftAlone(), true)
			want(t, "takes", w.next("alpha"), id)
			c.report(w, id)
			w.pass()
			want(t, "left alone after its report", leftAlone(), !c.ends)
		})
	}
}

// Between the end of a start, or a person's request for another one, and the pass that notes
// it, nothing is told of starts before. One that is left alone stays so until it is judged.
func TestOutlookForesees(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exit 1`)
	id := w.create("x", "alpha", pipeline.Normal)
	look := func() Outlook {
		t.Helper()
		o := &Outlooks{Dir: w.dir, Agents: w.agents, Store: w.store, Now: w.clock.Now(), Times: pipeline.DefaultTimes}
		of, err := o.Of(w.Context(), w.agent("alpha"), []*core.Task{w.record(id)})
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	start := func() string {
		t.Helper()
		want(t, "started", w.pass().Woken, 1)
		w.ended()
		return w.record(id).Woken.Key
	}
	start()
	w.pass() // judges it
	want(t, "judged", look().Health.Finding(w.clock.Now()).Code, explain.AgentPausing)

	w.clock.Advance(time.Minute)
	second := start()
	of := look()
	want(t, "before it is judged", words(of.Health.Finding(w.clock.Now()), of.Health.LastStart.Key == second), "<nil> true")
	w.pass()
	of = look()
	want(t, "once it is", words(of.Health.Finding(w.clock.Now()).Code, of.Health.Failures), "agent_pausing 2")

	w.clock.Advance(time.Second)
	w.edit(id, w.status(pipeline.New))
	of = look()
	want(t, "sent out again", words(of.Health.Finding(w.clock.Now()), of.Health.NextStart.IsZero()), "<nil> true")
	want(t, "started at once", w.pass().Woken, 1)
	w.ended()
	w.while(10*time.Minute, func() {})
	want(t, "in the end", look().Health.Finding(w.clock.Now()).Code, explain.AgentLeftAlone)
	w.clock.Advance(core.ProbeEvery)
	start()
	want(t, "before its probe is judged", look().Health.Finding(w.clock.Now()).Code, explain.AgentLeftAlone)
}

// Without work nothing is wrong with an agent, and nothing is promised, whatever its
// last run came to. Its failures are not forgotten.
func TestNoWorkNoProblem(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]func(w *world, id pipeline.TaskID){
		"set aside": func(w *world, id pipeline.TaskID) { w.edit(id, w.status(pipeline.Dormant)) },
		"blocked":   func(w *world, id pipeline.TaskID) { w.report(id, pipeline.Blocked) },
		"cancelled": func(w *world, id pipeline.TaskID) { w.edit(id, w.status(pipeline.Cancelled)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newExecWorld(t, `exit 1`)
			first, id := w.create("x", "alpha", pipeline.Normal), w.create("z", "alpha", pipeline.Normal)
			want(t, "woken", w.pass().Woken, 1)
			want(t, "takes", w.next("alpha"), first)
			w.ended()
			health := func() Health {
				t.Helper()
				h, err := AgentHealth(context.Background(), w.store, w.dir, w.agent("alpha"))
				if err != nil {
					t.Fatal(err)
				}
				return h
			}
			if given := w.pass().Given; len(given) != 1 || !strings.Contains(given[0], "exit status 1") {
				t.Errorf("given: %q", given)
			}
			want(t, "with work", health().Finding(w.clock.Now()).Code, explain.AgentPausing)
			finish(w, id)
			want(t, "given", len(w.pass().Given), 0)
			want(t, "without work", health().Finding(w.clock.Now()) == nil, true)
			w.create("y", "alpha", pipeline.Normal)
			w.pass()
			want(t, "with work again", words(health().Finding(w.clock.Now()).Code, health().Failures), words(explain.AgentPausing, 1))
		})
	}
}

// The process of a command is a fact: without one, unfinished work is started for,
// whoever moved the task. The hint for a blocked task is such a move, and so is an
// otm next by hand.
func TestMovedByHand(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(w *world, id pipeline.TaskID){
		"otm next by hand":    func(w *world, id pipeline.TaskID) { w.next("alpha") },
		"otm-update by hand":  func(w *world, id pipeline.TaskID) { w.report(id, pipeline.InProgress) },
		"unblocked by report": func(w *world, id pipeline.TaskID) { w.report(id, pipeline.Blocked); w.report(id, pipeline.InProgress) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newExecWorld(t, `exit 0`)
			id := w.create("x", "alpha", pipeline.Normal)
			want(t, "woken", w.pass().Woken, 1)
			w.ended()
			w.pass()
			w.clock.Advance(time.Second)
			move(w, id)
			w.clock.Advance(10 * time.Second)
			want(t, "after the agent's pause", w.pass().Woken, 1)
			w.ended()
		})
	}
}

// A paused agent is not woken, neither for new tasks nor for an answer that was lost, and
// is given nothing, until a person resumes it. Its reports count.
func TestPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	first := w.create("x", "alpha", pipeline.Normal)
	w.waker.set(func(Request) error { return ErrLost })
	want(t, "answer lost", w.pass().Woken, 0)
	w.waker.set(nil)
	pause := func() {
		t.Helper()
		w.do(core.Command{By: core.ByPerson("robin"), Agent: "alpha", Do: core.PauseAgent{Reason: "not now"}})
	}
	pause()
	w.create("y", "beta", pipeline.Normal)
	w.clock.Advance(retryWake)
	want(t, "paused: the other one is woken", w.pass().Woken, 1)
	w.create("z", "alpha", pipeline.High)
	w.clock.Advance(24 * time.Hour)
	w.pass()
	want(t, "wakes", w.waker.keys(), "otm-T-00002-beta-1")
	var paused *PausedError
	if _, err := w.desk().Next(t.Context(), w.agent("alpha"), false); !errors.As(err, &paused) || err.Error() != "paused: not now" {
		t.Errorf("otm next: %v", err)
	}
	w.report(first, pipeline.AgentDone)
	w.do(core.Command{By: core.ByPerson("robin"), Agent: "alpha", Do: core.ResumeAgent{}})
	want(t, "resumed", w.pass().Woken, 1)
	want(t, "it is given the other task", w.next("alpha") != first, true)
}

// otm resume starts: a command in its pause, and an agent at the gateway whose run
// may be under way. It does so once.
func TestResumeStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.Normal)
	want(t, "woken", w.pass().Woken, 1)
	w.next("alpha")
	want(t, "at work", w.pass().Woken, 0)
	resume := func() {
		t.Helper()
		w.do(core.Command{By: core.ByPerson("robin"), Agent: "alpha", Do: core.ResumeAgent{}})
	}
	resume()
	w.waker.set(func(Request) error { return syscall.ECONNREFUSED })
	want(t, "the gateway takes no runs", w.pass().Woken, 0)
	w.waker.set(nil)
	w.clock.Advance(retryWake)
	want(t, "resumed", w.pass().Woken, 1)
	want(t, "once", w.pass().Woken, 0)
	state, err := w.store.Agent(context.Background(), "alpha")
	want(t, "state", words(state.Resumed.IsZero(), err), "true <nil>")
	w.report(1, pipeline.AgentDone)
	resume()
	want(t, "without work", w.pass().Woken, 0)
	w.create("y", "alpha", pipeline.Normal)
	want(t, "the next task", w.pass().Woken, 0) // it takes the next one by itself
}

// An agent that says of each task that it failed is alive: its other tasks do not wait.
func TestSaysFailed(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exit 0`)
	for n := range 5 {
		w.create(fmt.Sprint("x", n), "alpha", pipeline.Normal)
	}
	for n := range 5 {
		want(t, fmt.Sprint("start ", n+1), w.pass().Woken, 1)
		id := w.next("alpha")
		w.do(core.Command{By: core.ByAgent("alpha"), Task: id, Do: core.Report{
			Drop: "u", Dropped: w.clock.Now().Add(time.Millisecond), Status: pipeline.Failed, Reason: "read-only", Run: 1,
		}})
		want(t, "it is", w.record(id).Status, pipeline.Pending)
		w.ended()
		w.clock.Advance(10 * time.Millisecond)
	}
	w.pass()
	health, err := AgentHealth(context.Background(), w.store, w.dir, w.agent("alpha"))
	want(t, "failures", words(health.Failures, health.LeftAlone.IsZero(), err), "0 true <nil>")
}

// An agent that is left alone is a problem while its only task waits for the next run, and
// none when it has no task any more.
func TestLeftAloneBeforeARetry(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exit 1`)
	id := w.create("x", "alpha", pipeline.Normal)
	found := func() (code explain.Code) {
		t.Helper()
		health, err := AgentHealth(t.Context(), w.store, w.dir, w.agent("alpha"))
		if err != nil {
			t.Fatal(err)
		}
		if f := health.Finding(w.clock.Now()); f != nil {
			code = f.Code
		}
		return code
	}
	for n := range 3 {
		want(t, fmt.Sprint("start ", n+1), w.pass().Woken, 1)
		w.next("alpha")
		w.ended()
		w.clock.Advance(10 * time.Millisecond)
		w.pass()
		if n < 2 {
			w.clock.Advance(20 * time.Minute)
		}
	}
	w.pass()
	want(t, "it waits for its next run", w.record(id).Wait.BacksOff(w.clock.Now()), true)
	want(t, "the agent", found(), explain.AgentLeftAlone)
	w.edit(id, w.status(pipeline.Cancelled))
	w.pass()
	want(t, "without a task", found(), "")
}
