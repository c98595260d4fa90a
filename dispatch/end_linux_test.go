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
	"otm/internal/explain"
	"otm/internal/lock"
	"otm/pipeline"
)

// newStopWorld is a world whose alpha was started, hangs with a child, and took id. The
// task other waits behind it. Later processes end at once. gone is closed when all of the process are gone.
func newStopWorld(t *testing.T) (w *world, id, other pipeline.TaskID, gone <-chan string) {
	t.Helper()
	w, id, other, gone = newHangingWorld(t)
	want(t, "takes", w.next("alpha"), id)
	want(t, "nothing to tell", len(w.pass().Given), 0)
	return w, id, other, gone
}

// newHangingWorld is one whose alpha takes nothing.
func newHangingWorld(t *testing.T) (w *world, id, other pipeline.TaskID, gone <-chan string) {
	t.Helper()
	w = newExecWorld(t, `test -e begun && exit; : > begun
(exec 4> alive; exec sleep 1000) & exec 4> alive; echo $$ > up; read go < go`)
	if err := syscall.Mkfifo(filepath.Join(w.agent("alpha").Workspace, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	up, gone := w.fifo("up"), w.fifo("alive")
	id = w.create("x", "alpha", pipeline.High)
	other = w.create("y", "alpha", pipeline.Normal)
	want(t, "woken", w.pass().Woken, 1)
	w.line(up)
	pid := w.health().PID
	t.Cleanup(func() { syscall.Kill(-pid, syscall.SIGKILL) }) // what is left of it
	return w, id, other, gone
}

func (w *world) health() Health {
	w.Helper()
	h, err := AgentHealth(context.Background(), w.store, w.dir, w.agent("alpha"))
	if err != nil {
		w.Fatal(err)
	}
	return h
}

// outlook is the one of alpha with its tasks.
func (w *world) outlook() Outlook {
	w.Helper()
	tasks, err := w.store.Tasks(context.Background(), core.Filter{Live: true, Agent: "alpha"})
	if err != nil {
		w.Fatal(err)
	}
	o := &Outlooks{Dir: w.dir, Agents: w.agents, Store: w.store, Now: w.clock.Now(), Times: pipeline.DefaultTimes}
	look, err := o.Of(context.Background(), w.agent("alpha"), tasks)
	if err != nil {
		w.Fatal(err)
	}
	return look
}

// letEnd lets alpha's process end by itself.
func (w *world) letEnd() {
	w.Helper()
	w.release("go")
	w.ended()
}

// ending are the ways in which a person takes a task out of the hands of its agent.
var ending = map[string]func(w *world, id pipeline.TaskID){
	"stopped":   func(w *world, id pipeline.TaskID) { w.edit(id, w.status(pipeline.Dormant)) },
	"cancelled": func(w *world, id pipeline.TaskID) { w.edit(id, w.status(pipeline.Cancelled)) },
	"released":  func(w *world, id pipeline.TaskID) { w.edit(id, w.status(pipeline.New)) },
	"failed":    func(w *world, id pipeline.TaskID) { w.edit(id, w.status(pipeline.Failed)) },
	"given":     func(w *world, id pipeline.TaskID) { w.edit(id, w.assignee("beta")) },
	"deleted":   func(w *world, id pipeline.TaskID) { w.deleteRow(id) },
}

// C5, B31: a task is taken out of the hands of an agent whose process works on it. OTM ends the
// process with all that it started; that is no failure of the agent, and its other task is
// started at once.
func TestC5ProcessOfCanceledRunEnds(t *testing.T) {
	t.Parallel()
	for name, end := range ending {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, id, other, gone := newStopWorld(t)
			end(w, id)
			r := w.pass()
			want(t, "the report needs nobody", len(r.Given), 0)
			want(t, "it is gone with its child", w.line(gone), "")
			w.ended()
			run := w.record(id).Runs.Last()
			want(t, "its run", words(run.Number, run.Ending), "1 canceled")
			woken := w.pass().Woken
			h := w.health()
			want(t, "its agent", words(woken, h.Ends == nil, h.Failures, h.Fruitless, len(h.Findings(w.clock.Now()))), "1 true 0 0 0")
			wakes, status := w.record(other).Wakes, pipeline.Assigned
			if name == "released" {
				wakes, status = w.record(id).Wakes, pipeline.Pending
			}
			want(t, "the other", words(w.record(other).Status, w.count(other, "RunFailed")), words(status, 0))
			want(t, "for it", wakes[len(wakes)-1].Via, pipeline.TriggerExec)
		})
	}
}

// wantEnded passes until the process of alpha is gone with its child, and its end counts for nothing.
func (w *world) wantEnded(gone <-chan string) {
	w.Helper()
	w.pass()
	want(w.T, "it is gone with its child", w.line(gone), "")
	w.ended()
	w.pass()
	h := w.health()
	want(w.T, "its agent", words(h.Ends == nil, h.Failures, h.Fruitless), "true 0 0")
}

// The same where the task was blocked before, so that its run was over. The process goes
// on if somebody answers, or sends the task back to the same agent.
func TestProcessOfBlockedRunEnds(t *testing.T) {
	t.Parallel()
	for name, end := range ending {
		if name == "released" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, id, _, gone := newStopWorld(t)
			w.report(id, pipeline.Blocked)
			if name == "stopped" { // nobody stops a blocked one
				w.edit(id, w.status(pipeline.InProgress))
				w.pass()
				want(t, "answered: it runs", words(w.health().Running, w.health().Ends == nil), "true true")
			}
			end(w, id)
			w.wantEnded(gone)
		})
	}
}

// An agent leaves the configuration while its process works: the end is judged all the same,
// and OTM ends the process if somebody else is given the task.
func TestProcessOfAnAgentThatLeft(t *testing.T) {
	t.Parallel()
	for name, want1 := range map[string]string{"given": "1 canceled new", "ends by itself": "1 failed pending"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, id, _, gone := newStopWorld(t)
			w.d.Agents = slices.DeleteFunc(slices.Clone(w.agents), func(a pipeline.Agent) bool { return a.Name == "alpha" })
			w.pass()
			want(t, "it runs", words(w.health().Running, w.health().Ends == nil), "true true")
			if name == "given" {
				w.edit(id, w.assignee("gamma"))
				w.pass()
				want(t, "it is gone with its child", w.line(gone), "")
				w.ended()
			} else {
				w.letEnd()
			}
			w.pass()
			want(t, "the task", words(w.runsOf(id), w.record(id).Status), want1)
		})
	}
}

// The agent that was given the task instead takes it before the process of the former one has
// ended: that is still ended, and its end is no failure.
func TestEndedBesideTheNextAgent(t *testing.T) {
	t.Parallel()
	w, id, other, gone := newStopWorld(t)
	w.edit(id, w.assignee("beta"))
	w.d.Store = &staleStore{w.store, func() { want(t, "takes", w.next("beta"), id) }}
	w.wantEnded(gone)
	want(t, "the runs", w.runsOf(id), "1 canceled, 2 ")
	want(t, "its other task", words(w.record(other).Status, len(w.record(other).Wakes)), words(pipeline.Assigned, 1))
}

// A process is ended only for the run in which it works now: not for one that it left for
// another task, nor for one that is over by its own word.
func TestProcessOfAnotherRunGoesOn(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(w *world, id, other pipeline.TaskID){
		"it took another one": func(w *world, id, other pipeline.TaskID) {
			w.report(id, pipeline.Blocked)
			want(w.T, "takes", w.next("alpha"), other)
			w.edit(id, w.status(pipeline.Cancelled))
		},
		"the other one is cancelled": func(w *world, _, other pipeline.TaskID) { w.edit(other, w.status(pipeline.Cancelled)) },
		"it was done": func(w *world, id, _ pipeline.TaskID) {
			w.report(id, pipeline.AgentDone)
			w.edit(id, w.status(pipeline.Cancelled))
		},
		"it is blocked":  func(w *world, id, _ pipeline.TaskID) { w.report(id, pipeline.Blocked) },
		"it is accepted": func(w *world, id, _ pipeline.TaskID) { w.edit(id, w.status(pipeline.Done)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, id, other, _ := newStopWorld(t)
			play(w, id, other)
			w.pass()
			h := w.health()
			want(t, "it runs", words(h.Running, h.Ends == nil), "true true")
			w.letEnd()
			want(t, "it ended by itself", w.record(id).Wakes[0].Exit, "exit status 0")
		})
	}
}

// staleStore lets something happen after a pass loaded the tasks.
type staleStore struct {
	core.Store
	then func()
}

func (s *staleStore) AgentStates(ctx context.Context) (map[string]*core.AgentState, error) {
	states, err := s.Store.AgentStates(ctx)
	if then := s.then; then != nil {
		s.then = nil
		then()
	}
	return states, err
}

// The process takes another task while the dispatcher decides to end it: it goes on. Once
// that is noted, it is given nothing.
func TestEndingProcessTakesNothing(t *testing.T) {
	t.Parallel()
	w, id, other, gone := newStopWorld(t)
	w.edit(id, w.status(pipeline.Cancelled))
	w.d.Store = &staleStore{w.store, func() { want(t, "takes", w.next("alpha"), other) }}
	w.pass()
	want(t, "it runs", w.health().Running, true)
	w.pass()
	want(t, "nothing is noted any more", w.health().Ends == nil, true)

	w.edit(other, w.status(pipeline.Dormant))
	third := w.create("z", "alpha", pipeline.Normal)
	w.d.Store = &staleStore{w.store, nil}
	w.pass() // hands it out, and ends the process
	want(t, "noted", w.health().Ends.Task, other)
	if w.health().Running {
		want(t, "takes nothing", w.next("alpha"), pipeline.TaskID(0))
	}
	want(t, "gone", w.line(gone), "")
	w.ended()
	want(t, "woken for the third", w.pass().Woken, 1)
	want(t, "given to the next process", w.next("alpha"), third)
}

// The dispatcher is killed around its word to a process. The next one ends it.
func TestKilledBeforeItEndsAProcess(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"sqlite.commit:1", "store.done:1", "end.before:1", "end.after:1"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w, id, _, gone := newStopWorld(t)
			w.edit(id, w.status(pipeline.Dormant))
			if !w.order("pass").kill(t, at) {
				t.Fatal("the point was not reached")
			}
			w.clock.Advance(2 * time.Minute) // the leases of the killed one lapsed
			started := w.pass().Woken        // one that was told to end before the kill may have ended by now
			want(t, "gone", w.line(gone), "")
			w.ended()
			if started == 0 {
				started = w.pass().Woken
			}
			want(t, "the next is started", started, 1)
			want(t, "once", words(w.count(id, "RunCanceled"), w.count(id, "StartEnded"), w.health().Failures), "1 1 0")
		})
	}
}

// The helper was killed: what it left is told to end, and killed if it does not.
func TestLeftGroupOfCanceledRunEnds(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `(trap 'echo told > told' TERM; exec 4> alive 2> /dev/null; echo up > up; while :; do sleep 0.05; done) & exec sleep 1000`)
	up, told, gone := w.fifo("up"), w.fifo("told"), w.fifo("alive")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.line(up)
	want(t, "takes", w.next("alpha"), id)
	pid := w.health().PID
	w.killHelper(pid)
	w.edit(id, w.status(pipeline.Dormant))
	w.pass()
	want(t, "told", w.line(told), "told")
	h := w.health()
	want(t, "it does not care", words(h.Running, h.Ends.Task), words(true, id))
	begun := h.Finding(w.clock.Now())
	want(t, "no problem yet", words(begun.Code, begun.Next(w.clock.Now())), words(explain.AgentEnding, ""))
	want(t, "a problem later", h.Finding(h.Ends.Since.Add(endLate)).Code, explain.AgentWillNotEnd)
	w.clock.Advance(endWait)
	w.pass()
	want(t, "killed", w.line(gone), "")
	w.freed(groupLock(w.dir, "alpha"))
	w.pass()
	want(t, "over", w.health().Ends == nil, true)
}

// Nothing is ended whose id may be another process's by now.
func TestEndsNoOtherProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{groupLock(dir, "alpha"), execLock(dir, "beta")} {
		l, err := lock.Acquire(t.Context(), path, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
	}
	err := endProcess(dir, "alpha", true) // the group of a dead helper, with the id of this process
	if err == nil || !strings.Contains(err.Error(), "is another one now") {
		t.Error(err)
	}
	want(t, "nobody", endProcess(dir, "gamma", true), "os: process already finished")
}

// A run that lasts longer than max_runtime of its type is ended, and retried. Its process
// is not ended for the sake of a clock that was set back.
func TestMaxRuntime(t *testing.T) {
	t.Parallel()
	two := 2 * time.Hour
	for name, c := range map[string]struct {
		types pipeline.Types
		after time.Duration // zero: never
	}{
		"by default":    {nil, 24 * time.Hour},
		"as configured": {pipeline.Types{pipeline.Action: {Review: true, MaxRetries: 3, MaxRuntime: &two}}, two},
		"without limit": {pipeline.Types{pipeline.Action: {Review: true, MaxRetries: 3, MaxRuntime: new(time.Duration)}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, id, _, gone := newStopWorld(t)
			w.d.Types = c.types
			if c.after == 0 {
				w.clock.Advance(100 * 24 * time.Hour)
				w.pass()
				want(t, "it runs", words(w.health().Running, w.health().Ends == nil), "true true")
				w.letEnd()
				return
			}
			w.clock.Advance(c.after - time.Minute)
			due := w.pass().Due
			want(t, "not yet", w.health().Ends == nil, true)
			if late := w.record(id).Runs.Open().Began.Add(c.after); !due.Equal(late) {
				t.Errorf("due %v, want %v", due, late)
			}
			w.clock.Advance(time.Minute)
			w.pass()
			want(t, "gone", w.line(gone), "")
			w.ended()
			w.pass()
			task := w.record(id)
			want(t, "the task", words(task.Status, task.Runs.Last().Ending, task.Wait.Why), "pending failed backoff")
			want(t, "why", task.Reason, fmt.Sprintf("the run ended without a result: it lasted longer than max_runtime allows, %v, and was ended", c.after))
			want(t, "tries", words(task.Runs.Tries(0), w.health().Failures, w.health().Ends == nil), "1 1 true")
			w.clock.Advance(time.Minute)
			w.pass()
			want(t, "hand-outs", w.record(id).Dispatch.Attempt, 2) // it may wait behind the other one
		})
	}
}

// A process that takes nothing is ended as well after max_runtime: its agent failed to start.
// No task loses a try.
func TestMaxRuntimeOfAStart(t *testing.T) {
	t.Parallel()
	w, id, _, gone := newHangingWorld(t)
	two := 2 * time.Hour
	w.d.Types = pipeline.Types{pipeline.Action: {Review: true, MaxRetries: 3, MaxRuntime: &two}}
	w.clock.Advance(two - time.Minute)
	r := w.pass()
	want(t, "not yet", w.health().Ends == nil, true)
	if late := w.record(id).Wakes[0].AskedAt.Add(two); !r.Due.Equal(late) {
		t.Errorf("due %v, want %v", r.Due, late)
	}
	w.clock.Advance(time.Minute)
	w.pass()
	want(t, "gone", w.line(gone), "")
	w.ended()
	w.pass()
	h := w.health()
	want(t, "its agent", words(h.Failures, h.Fruitless, h.LeftAlone.IsZero(), h.Ends == nil, h.NextStart.IsZero()), "1 1 true true false")
	want(t, "why", h.LastStart.Exit, "it took nothing for as long as max_runtime allows, 2h0m0s, and was ended")
	want(t, "tries", words(w.record(id).Runs.Tries(0), w.record(id).Status.Active() || w.record(id).Queued()), "0 true")
}
