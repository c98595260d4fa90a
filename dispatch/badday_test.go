package dispatch

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/internal/crash/crashtest"
	"otm/internal/explain"
	"otm/pipeline"
)

// runsOf is the chain of a task's runs.
func (w *world) runsOf(id pipeline.TaskID) string {
	w.Helper()
	var all []string
	for _, r := range w.record(id).Runs {
		all = append(all, fmt.Sprint(r.Number, " ", r.Ending))
	}
	return strings.Join(all, ", ")
}

// wakesOf counts the wakes of an agent.
func (w *world) wakesOf(agent string) int {
	w.Helper()
	tasks, err := w.store.Tasks(w.Context(), core.Filter{})
	if err != nil {
		w.Fatal(err)
	}
	n := 0
	for _, t := range tasks {
		for _, k := range t.Wakes {
			if core.SameAgent(k.Agent, agent) {
				n++
			}
		}
	}
	return n
}

// while passes for a time, whenever a pass is due. Each process that is started does what
// run does, and is waited for.
func (w *world) while(d time.Duration, run func()) {
	w.Helper()
	for until := w.clock.Now().Add(d); w.clock.Now().Before(until); {
		r := w.pass()
		for n := 0; r.Woken > 0; r = w.pass() { // its end follows at once
			if n++; n > 50 {
				w.Fatal("it is started in a loop")
			}
			run()
			w.ended()
			w.clock.Advance(time.Second)
		}
		next := w.clock.Now().Add(10 * time.Minute)
		if !r.Due.IsZero() && r.Due.Before(next) {
			next = r.Due
		}
		w.clock.Advance(max(next.Sub(w.clock.Now()), time.Second))
	}
}

// An agent takes its only task and dies, each time: four runs, and a dead letter. The
// agent was left alone after the third, and the probe was the fourth. Other tasks
// went on.
func TestDiesEachTime(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exit 1`)
	id := w.create("x", "alpha", pipeline.Normal)
	w.while(2*time.Hour, func() { w.next("alpha") })
	want(t, "runs", w.runsOf(id), "1 failed, 2 failed, 3 failed, 4 failed")
	want(t, "status", words(w.record(id).Status, w.wakesOf("alpha")), "failed 4")
	health, err := AgentHealth(w.Context(), w.store, w.dir, w.agent("alpha"))
	want(t, "left alone", words(!health.LeftAlone.IsZero(), err), "true <nil>")
	other := w.create("y", "alpha", pipeline.Normal)
	w.while(time.Hour, func() {
		want(t, "takes", w.next("alpha"), other)
		w.report(other, pipeline.AgentDone)
	})
	want(t, "the other", words(w.record(other).Status, w.wakesOf("alpha")), "agent_done 5")
}

// Its first task breaks the agent, and the others do not: they are done while that one
// waits, and it is a dead letter in the end.
func TestOnePoisonousTask(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exit 1`)
	poison := w.create("x", "alpha", pipeline.Critical)
	var others []pipeline.TaskID
	for range 5 {
		others = append(others, w.create("y", "alpha", pipeline.Normal))
	}
	w.while(2*time.Hour, func() {
		for id := w.next("alpha"); id != 0 && id != poison; id = w.next("alpha") {
			w.report(id, pipeline.AgentDone)
		}
	})
	for _, id := range others {
		want(t, id.String(), w.runsOf(id), "1 succeeded")
	}
	want(t, "poison", words(w.record(poison).Status, w.runsOf(poison)), "failed 1 failed, 2 failed, 3 failed, 4 failed")
}

// Two hundred tasks wait for an agent that is not logged in: it takes one and dies. At
// most four starts in the first hour, and no dead letter within a day; mended, it goes on
// within 30 minutes, or at once by otm resume.
func TestBrokenAgent(t *testing.T) {
	t.Parallel()
	for name, takes := range map[string]bool{"takes one and dies": true, "dies at once": false} {
		for _, resumed := range crashtest.Some(t, []bool{false, true}, 1) {
			t.Run(fmt.Sprint(name, ", resumed: ", resumed), func(t *testing.T) {
				t.Parallel()
				w := newExecWorld(t, `exit 1`)
				tasks := max(7, crashtest.Fewer(20)) // of fewer, one would have all its runs in eight hours
				if crashtest.Whole() {
					tasks = 200
				}
				for n := range tasks {
					w.create(fmt.Sprint("task ", n), "alpha", pipeline.Normal)
				}
				die := func() {
					if takes {
						w.next("alpha")
					}
				}
				w.while(time.Hour, die)
				if n := w.wakesOf("alpha"); n > 4 {
					t.Errorf("started %d times in the first hour", n)
				}
				w.while(7*time.Hour, die)
				all, err := w.store.Tasks(w.Context(), core.Filter{})
				if err != nil || slices.ContainsFunc(all, func(t *core.Task) bool { return t.Status == pipeline.Failed }) {
					t.Errorf("a dead letter, or %v", err)
				}
				wait := 30 * time.Minute
				if resumed {
					w.do(core.Command{By: core.ByPerson("robin"), Agent: "alpha", Do: core.ResumeAgent{}})
					wait = time.Second
				}
				done := 0
				w.while(wait, func() {
					for id := w.next("alpha"); id != 0; id = w.next("alpha") {
						w.report(id, pipeline.AgentDone)
						done++
					}
				})
				if done < tasks-1 {
					t.Errorf("%d of %d are done", done, tasks)
				}
			})
		}
	}
}

// The clock jumps while a task waits for its next run, and while it is in one. Nobody
// waits for longer than the jump, nobody is started in a loop, and no progress of a
// former run counts for a later one.
func TestClockJumpsInBackoff(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{
		"back an hour": -time.Hour, "back 20 minutes": -20 * time.Minute, "back a year": -365 * 24 * time.Hour, "ahead a year": 365 * 24 * time.Hour,
	} {
		for _, when := range crashtest.Some(t, []string{"in the run", "before a step and back", "after a step", "in the backoff"}, 1) {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				w := newExecWorld(t, `exit 1`)
				id := w.create("x", "alpha", pipeline.Normal, "one", "two")
				w.pass()
				w.next("alpha")
				switch when {
				case "before a step and back":
					w.clock.Advance(jump)
					w.report(id, "", 1)
					w.clock.Advance(-jump)
				case "after a step":
					w.report(id, "", 1)
					w.clock.Advance(jump)
				case "in the run":
					w.clock.Advance(jump)
				}
				w.ended()
				w.pass()
				if when == "in the backoff" {
					w.clock.Advance(jump)
				}
				started := 0
				w.while(90*time.Minute, func() {
					w.next("alpha")
					started++
				})
				if started < 1 || started > 4 {
					t.Errorf("started %d times in 90 minutes", started)
				}
				w.while(2*time.Hour, func() { w.next("alpha") })
				want(t, "in the end", w.record(id).Status, pipeline.Failed)
				w.create("y", "alpha", pipeline.Normal)
				started = 0
				w.while(90*time.Minute, func() { started++ }) // it takes nothing
				if started < 1 || started > 6 {               // at once, after 10 s and 1 min, and three probes
					t.Errorf("started %d times in 90 minutes, and took nothing", started)
				}
			})
		}
	}
}

// The agent was woken for a task, and takes a more urgent one that came meanwhile. Its
// process ends without a result: that run failed, and the other task is as it was.
func TestTakesAnotherThanWokenFor(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exit 1`)
	first := w.create("x", "alpha", pipeline.Normal)
	want(t, "woken", w.pass().Woken, 1)
	urgent := w.create("y", "alpha", pipeline.Critical)
	w.ended()
	w.d.Wakers = nil // it is not started again
	w.pass()
	want(t, "takes", w.next("alpha"), urgent)
	w.d.Wakers = map[pipeline.Trigger]Waker{pipeline.TriggerExec: w.waker}
	w.pass()
	want(t, "runs", words(w.runsOf(urgent), w.record(urgent).Status), "1 failed pending")
	want(t, "the other", words(w.runsOf(first), w.record(first).Status, w.record(first).Runs.Tries(0)), " pending 0")
}

// A task is sent back with all its steps ticked: they are no result of the rework. Each
// run of it that ends without a word fails.
func TestReworkWithAllStepsTicked(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exit 0`)
	id := w.create("x", "alpha", pipeline.Normal, "one", "two")
	w.while(time.Minute, func() { w.report(w.next("alpha"), pipeline.AgentDone, 1, 2) })
	w.edit(id, w.status(pipeline.New))
	w.board.write(w.Context(), w.record(id))
	w.while(4*time.Hour, func() { want(t, "takes", w.next("alpha"), id) })
	want(t, "runs", w.runsOf(id), "1 succeeded, 2 failed, 3 failed, 4 failed, 5 failed")
	want(t, "status", w.record(id).Status, pipeline.Failed)
	want(t, "why", w.record(id).Runs.Last().Failure.String(),
		"the run ended without a result: every step was ticked before, and the agent did not report agent_done; exit status 0")
	w.edit(id, w.status(pipeline.New))
	w.board.write(w.Context(), w.record(id))
	w.while(time.Hour, func() { w.report(w.next("alpha"), pipeline.AgentDone) })
	want(t, "in the end", w.record(id).Status, pipeline.AgentDone)
}

// A blocked agent is answered while it works on another task. That wakes nobody. It is given
// the answered task next: by itself, or it is woken for it once its process or turn has ended.
func TestAnsweredWhileItWorksOnAnother(t *testing.T) {
	t.Parallel()
	turn := func(w *world) { w.turnEnds("alpha", core.OutcomeOK) }
	for name, c := range map[string]struct {
		exec bool
		done bool           // the other task is done
		ends func(w *world) // nil: it goes on by itself
	}{
		"a command":                {true, true, (*world).letGo},
		"a command that dies":      {true, false, (*world).letGo},
		"a turn":                   {false, true, turn},
		"a turn that takes it too": {false, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			if c.exec {
				w = newExecWorld(t, `cat go; exit 1`)
				if err := syscall.Mkfifo(filepath.Join(w.agent("alpha").Workspace, "go"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			id, other, third := w.create("x", "alpha", pipeline.Normal), w.create("y", "alpha", pipeline.Normal), w.create("z", "alpha", pipeline.Normal)
			want(t, "woken", w.pass().Woken, 1)
			want(t, "takes", w.next("alpha"), id)
			w.report(id, pipeline.Blocked)
			want(t, "goes on with", w.next("alpha"), other)
			w.edit(id, w.status(pipeline.InProgress), func(e *core.Edits) { answer := "green"; e.Reason = &answer })
			want(t, "woken while it works", w.pass().Woken, 0)
			want(t, "still at", w.next("alpha"), other)
			if c.done {
				w.report(other, pipeline.AgentDone)
			}
			if c.ends != nil {
				c.ends(w)
				want(t, "woken for the answer", w.pass().Woken, 1)
				wakes := w.record(id).Wakes
				want(t, "the first of its wake", wakes[len(wakes)-1].Tasks[0], id)
			}
			want(t, "takes", words(w.next("alpha"), w.record(id).Reason), words(id, "green"))
			w.report(id, pipeline.AgentDone)
			want(t, "runs", words(w.runsOf(id), w.runsOf(third)), "1 paused, 2 succeeded ")
			want(t, "runs of the other", w.runsOf(other), map[bool]string{true: "1 succeeded", false: "1 failed"}[c.done])
			if c.exec {
				w.letGo()
			}
		})
	}
}

// letGo lets a process of alpha that reads from the pipe "go" end, and waits for that.
func (w *world) letGo() {
	w.Helper()
	w.write(filepath.Join(w.agent("alpha").Workspace, "go"), nil)
	w.ended()
}

// Two reviewers decide at once, and one decides while a person edits the board: the
// first decision stands, the second one is refused or changes nothing, and says so.
func TestTwoDecideAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta", "gamma")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.report(w.next("alpha"), pipeline.AgentDone)
	decide := func(by core.Actor, seen bool, to pipeline.Status) error {
		e := core.Edits{Seen: seen, Status: &to, From: []pipeline.Status{pipeline.AgentDone}, Accept: to == pipeline.Done}
		if seen {
			e.From = nil // of an edit on the board, nobody knows what the person saw
		}
		outcomes, err := w.store.Do(w.Context(), core.Command{At: w.clock.Now(), By: by, Task: id, Do: e})
		if err != nil {
			t.Fatal(err)
		}
		return outcomes[0].Err
	}
	beta, gamma := core.Actor{Kind: core.Reviewer, Name: "beta"}, core.Actor{Kind: core.Reviewer, Name: "gamma"}
	if err := decide(beta, false, pipeline.Done); err != nil {
		t.Fatal(err)
	}
	want(t, "the second reviewer", decide(gamma, false, pipeline.Rejected), "it is done by now")
	want(t, "the board says the same", decide(core.ByPerson("robin"), true, pipeline.Done), nil)
	want(t, "status", words(w.record(id).Status, w.record(id).StatusBy), "done reviewer beta")
	want(t, "decisions", w.count(id, "Approved"), 1)
	want(t, "the board says something else", decide(core.ByPerson("robin"), true, pipeline.New), nil) // the last word of a person counts
	want(t, "a reviewer who saw it done", decide(gamma, false, pipeline.Done), "it is new by now")
	want(t, "status", words(w.record(id).Status, w.record(id).StatusBy), "new robin")
}

// turnEnds ends the last turn of an agent at the gateway, as the gateway reports it.
func (w *world) turnEnds(agent string, outcome core.StartOutcome) {
	w.Helper()
	tasks, err := w.store.Tasks(w.Context(), core.Filter{})
	if err != nil {
		w.Fatal(err)
	}
	_, last := (&workload{agent: w.agent(agent), tasks: tasks, now: w.clock.Now(), times: w.d.Times}).lastWake()
	if last == nil {
		w.Fatalf("%s was never woken", agent)
	}
	w.clock.Advance(time.Second)
	if news, err := RecordEnd(w.Context(), w.store, core.EndStart{Key: last.Key, Outcome: outcome}, w.clock.Now()); err != nil || !news {
		w.Fatal(last.Key, news, err)
	}
}

// A turn at the gateway ends well while a command that it began goes on. The agent is
// woken to continue ten minutes later, and ten minutes after each report. That costs it
// no pause and the task no try.
func TestTurnEndsBeforeItsCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id, other := w.create("x", "alpha", pipeline.High), w.create("y", "alpha", pipeline.Normal)
	w.pass()
	want(t, "takes", w.next("alpha"), id)
	for n := range 6 {
		w.turnEnds("alpha", core.OutcomeOK)
		w.clock.Advance(9 * time.Minute)
		want(t, "too early", w.pass().Woken, 0)
		w.report(id, pipeline.InProgress) // by the command
		w.edit(id, func(e *core.Edits) { title := fmt.Sprint("title ", n); e.Title = &title })
		w.clock.Advance(9 * time.Minute)
		r := w.pass()
		want(t, "too early after the report", words(r.Woken, r.Given), "0 []")
		w.clock.Advance(r.Due.Sub(w.clock.Now()) + time.Second)
		want(t, "woken", w.pass().Woken, 1)
		want(t, "continues", w.next("alpha"), id)
	}
	w.report(id, pipeline.AgentDone)
	want(t, "runs", w.runsOf(id), "1 succeeded")
	want(t, "then", w.next("alpha"), other)
	health, err := AgentHealth(w.Context(), w.store, w.dir, w.agent("alpha"))
	want(t, "failures", words(health.Fruitless, err), "0 <nil>")
}

// Each turn ends well, and the agent never reports: after it was woken three times to
// continue, its run failed without a result. A report begins the count anew.
func TestTurnsWithoutReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.High)
	w.create("y", "alpha", pipeline.Normal)
	w.pass()
	want(t, "takes", w.next("alpha"), id)
	wakes := func() (n int) {
		for w.record(id).Runs.Open() != nil {
			w.turnEnds("alpha", core.OutcomeOK)
			w.pass()
			w.clock.Advance(continueAfter)
			if woken := w.pass().Woken; w.record(id).Runs.Open() != nil {
				n += woken
				want(t, "excused", words(w.record(id).Runs.Tries(0), w.record(id).Status), "0 in_progress")
			}
			if n > 10 {
				t.Fatal("it is woken for ever")
			}
			if n == 2 && w.record(id).HeardOf("alpha").Reported.IsZero() {
				w.report(id, pipeline.InProgress)
			}
		}
		return n
	}
	want(t, "woken to continue", wakes(), 2+pipeline.DefaultTimes.RewakeMax)
	want(t, "then", words(w.runsOf(id), w.record(id).Runs.Tries(0)), "1 failed 1")
	health, err := AgentHealth(w.Context(), w.store, w.dir, w.agent("alpha"))
	want(t, "failures", words(health.Failures, err), "1 <nil>")
}

// A model thinks for an hour, or for days, and says nothing. Its turn is doubled by nobody:
// the agent is asked once, and its other task goes on after an hour. The silence is told
// with rising weight, and forgotten with the first word.
func TestThinksForAnHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	want(t, "takes", w.next("alpha"), id)
	told := func(d time.Duration) string {
		w.clock.Advance(d)
		var all []string
		for _, f := range w.pass().NeedsPerson {
			all = append(all, fmt.Sprint(f.Code, " ", f.Level()))
		}
		found, _ := newRun(w.d).looks().SilentOn(w.agent("alpha"), []*core.Task{w.record(id)})
		if len(found) == 1 && found[0].Level() == explain.OK {
			all = append(all, fmt.Sprint(found[0].Code, " ", found[0].Level()))
		}
		return strings.Join(all, ", ")
	}
	want(t, "at first", told(9*time.Minute), "")
	want(t, "after 10 minutes", told(2*time.Minute), "task_quiet ok")
	want(t, "not asked yet", w.wakesOf("alpha"), 1)
	want(t, "after an hour", told(50*time.Minute), "task_silent warn")
	want(t, "asked", w.wakesOf("alpha"), 2)
	want(t, "after a day", told(24*time.Hour), "task_silent warn")
	want(t, "after three days", told(48*time.Hour), "task_silent_long fail")
	want(t, "asked once, and nothing else happened", words(w.wakesOf("alpha"), w.runsOf(id), w.record(id).Status), "2 1  in_progress")
	w.report(id, pipeline.InProgress)
	want(t, "after a word", told(time.Minute), "")
	want(t, "an hour later", told(time.Hour), "task_silent warn")
	want(t, "asked again", w.wakesOf("alpha"), 3)
	w.report(id, pipeline.AgentDone)
	want(t, "the result", w.runsOf(id), "1 succeeded")
	want(t, "its review rests", told(25*time.Hour), "task_rests warn")
	want(t, "its review rests for long", told(48*time.Hour), "task_rests_long fail")
}

// An agent that is silent for four hours is the orchestrator's matter: each agent that may review
// is told by a message on the task, once for this silence, but not of its own silence.
func TestSilenceIsEscalated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta", "gamma")
	w.d.Reviewers = []string{"beta", "alpha"}
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	want(t, "takes", w.next("alpha"), id)
	said := func(d time.Duration) (thread, mentions string) {
		w.clock.Advance(d)
		w.pass()
		_, mentions = w.news("beta")
		return fmt.Sprint(w.count(id, "Said")), mentions
	}
	expect := func(what string, d time.Duration, messages int, mentions string) {
		t.Helper()
		n, told := said(d)
		want(t, what, n+" "+told, fmt.Sprint(messages, " ", mentions))
	}
	since := func() string { return w.record(id).HeardOf("alpha").At.UTC().Format(time.RFC3339) }
	expect("after three hours", 3*time.Hour, 0, "[]")
	expect("after four hours", time.Hour+time.Minute, 1, "[said Nothing was heard of it from alpha since "+since()+".]")
	expect("once", time.Hour, 1, "[]")
	w.says(core.ByPerson("Ada"), id, "I look at it")
	w.restart()
	w.d.Reviewers = []string{"beta", "alpha"}
	expect("once, whoever wrote since", 30*time.Hour, 2, "[]")
	_, own := w.news("alpha")
	want(t, "of its own silence", own, "[]")
	w.report(id, pipeline.InProgress)
	expect("after a word", time.Hour, 2, "[]")
	expect("the next silence", 4*time.Hour, 3, "[said Nothing was heard of it from alpha since "+since()+".]")
}

// The types of tasks have rungs of their own. Without rungs nobody is told and asked.
func TestRungsOfATypes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rungs []time.Duration
		want  string
	}{
		"none": {[]time.Duration{}, "[] 1"}, "quick": {[]time.Duration{time.Minute, 2 * time.Minute}, "[task_silent] 2"}, "shown only": {[]time.Duration{time.Minute}, "[] 1"},
	} {
		w := newWorld(t, "alpha")
		rules := pipeline.DefaultTypeRules
		rules.Silence = c.rungs
		w.d.Types = pipeline.Types{pipeline.Action: rules}
		w.create("x", "alpha", pipeline.Normal)
		w.pass()
		w.next("alpha")
		w.clock.Advance(50 * time.Minute)
		codes := []explain.Code{}
		for _, f := range w.pass().NeedsPerson {
			codes = append(codes, f.Code)
		}
		want(t, name, words(codes, w.wakesOf("alpha")), c.want)
	}
}

// An agent says nothing while its process lives. It is not free: once another task waits,
// that is told at once, with the command that ends it.
func TestSilentProcess(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exec sleep 1000`)
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	want(t, "takes", w.next("alpha"), id)
	defer func() { syscall.Kill(-processOf(w.dir, "alpha").PID, syscall.SIGTERM); w.ended() }()
	w.clock.Advance(30 * time.Minute)
	want(t, "it lives", w.pass().Given, []string(nil))
	w.clock.Advance(31 * time.Minute)
	if told := fmt.Sprint(w.pass().Given); !strings.Contains(told, "and its process, pid ") || !strings.Contains(told, "otm stop T-00001") {
		t.Errorf("told: %s", told)
	}
	w.create("y", "alpha", pipeline.Normal)
	if told := fmt.Sprint(w.pass().Given); !strings.Contains(told, "1 other task waits behind it → otm stop T-00001") {
		t.Errorf("told: %s", told)
	}
	want(t, "wakes", w.wakesOf("alpha"), 1)
}

// A type whose reclaim_after accepts double work: its task is taken from a silent agent,
// costs no try, and is handed out again. A late report names a former run, and is refused.
func TestReclaimed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	rules := pipeline.DefaultTypeRules
	rules.ReclaimAfter = 3 * time.Hour
	w.d.Types = pipeline.Types{pipeline.Action: rules}
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.next("alpha")
	w.clock.Advance(2 * time.Hour)
	w.report(id, pipeline.InProgress)
	w.clock.Advance(2*time.Hour + 59*time.Minute)
	w.pass()
	want(t, "not yet", w.record(id).Status, pipeline.InProgress)
	w.clock.Advance(2 * time.Minute)
	carry := w.d.Carry
	w.d.Carry = func(context.Context, *pipeline.Agent) (bool, error) {
		w.report(id, pipeline.InProgress)
		return true, nil
	}
	w.pass()
	want(t, "a report was on its way", w.record(id).Status, pipeline.InProgress)
	w.d.Carry = carry
	w.clock.Advance(3*time.Hour + time.Minute)
	w.pass()
	want(t, "taken away", words(w.runsOf(id), w.record(id).Status, w.record(id).Runs.Tries(0)), "1 canceled pending 0")
	late := func() error {
		c := w.reported(id, pipeline.AgentDone)
		r := c.Do.(core.Report)
		r.Run = 1
		c.Do = r
		outcomes, err := w.store.Do(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return outcomes[0].Err
	}
	if err := late(); err == nil {
		t.Error("a late report counts")
	}
	w.clock.Advance(time.Minute)
	w.pass()
	want(t, "handed out again", w.record(id).Status, pipeline.Assigned)
	if err := late(); err == nil {
		t.Error("a report of the former run counts")
	}
	want(t, "takes", w.next("alpha"), id)
	w.report(id, pipeline.AgentDone)
	want(t, "in the end", w.runsOf(id), "1 canceled, 2 succeeded")
}

// The gateway is away for a day, while five agents have fifty tasks, each one of them at
// hand. Silence is not counted, nobody is woken, and nothing is told of the agents. Once it
// is back it is asked for each run, once. Agents whose turn still goes on get on by
// themselves; those whose turn was lost are asked after an hour of silence in which it was
// reachable. No task is lost or charged.
func TestGatewayAwayForADay(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint("restarted ", restarted), func(t *testing.T) {
			t.Parallel()
			names := []string{"a", "b", "c", "d", "e"}
			w := newWorld(t, names...)
			for n := range 50 {
				w.create("x", names[n%5], pipeline.Normal)
			}
			link := Link{}.Turned(true, w.clock.Now())
			w.d.Link = func() *Link { return &link }
			want(t, "woken", w.pass().Woken, 5)
			for _, name := range names {
				w.next(name)
			}
			link = link.Turned(false, w.clock.Now())
			for range 24 {
				w.clock.Advance(time.Hour)
				r := w.pass()
				want(t, "while it is away", words(r.Woken, r.Given, r.Failed), "0 [] []")
			}
			want(t, "asked while it is away", len(w.waker.asked), 0)
			link = link.Turned(true, w.clock.Now())
			r := w.pass()
			want(t, "when it is back", words(r.Woken, r.Given, r.Failed, len(w.waker.asked)), "0 [] [] 5")
			act := func(name string) { // it does all that it has
				for id := w.next(name); id != 0; id = w.next(name) {
					w.report(id, pipeline.AgentDone)
				}
			}
			if !restarted { // their turns went on all the time
				for _, name := range names {
					act(name)
					w.turnEnds(name, core.OutcomeOK)
				}
			}
			for range 16 {
				w.clock.Advance(10 * time.Minute)
				before := len(w.waker.requests)
				r := w.pass()
				for _, req := range w.waker.requests[before:] {
					act(req.Agent.Name)
					w.turnEnds(req.Agent.Name, core.OutcomeOK)
				}
				if slices.ContainsFunc(r.NeedsPerson, func(f explain.Finding) bool { return f.Level() == explain.Fail }) {
					t.Errorf("told: %s", r.Given)
				}
			}
			for id := range pipeline.TaskID(50) {
				want(t, (id + 1).String(), w.runsOf(id+1), "1 succeeded")
			}
			wakes := map[bool]int{false: 5, true: 10}[restarted]
			want(t, "wakes", len(w.waker.requests), wakes)
			want(t, "asked again", len(w.waker.asked), 5)
		})
	}
}

// Outages count once, also while one lasts, and only those since the time that is asked for.
func TestLinkAway(t *testing.T) {
	t.Parallel()
	l := Link{}.Turned(false, minute(0)).Turned(false, minute(1)).Turned(true, minute(10)).Turned(true, minute(11)).Turned(false, minute(20))
	for _, c := range []struct{ since, now, want float64 }{
		{-5, 25, 15}, {5, 25, 10}, {10, 15, 0}, {15, 25, 5}, {22, 25, 3}, {25, 25, 0}, {5, 8, 3}, {30, 25, 0},
	} {
		want(t, fmt.Sprint(c), l.Away(minute(c.since), minute(c.now)).Minutes(), c.want)
	}
	for n := range 500 {
		l = l.Turned(n%2 == 0, minute(float64(30+n)))
	}
	want(t, "remembered", len(l.Outages), maxOutages)
	want(t, "no link", (*Link)(nil).Away(minute(0), minute(5)), "0s")
}
