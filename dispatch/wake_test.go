package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/pipeline"
)

// slow answers wakes on demand.
type slow struct {
	came   chan string // the agent of each wake
	answer chan error
}

// newSlowWorld is a world in which a slow gateway wakes alpha, and others at once.
// Passes wait for its answers for the given time.
func newSlowWorld(t *testing.T, patience time.Duration, names ...string) (*world, *slow) {
	t.Helper()
	w, s := newWorld(t, append([]string{"alpha"}, names...)...), &slow{make(chan string, 10), make(chan error)}
	w.d.Patience = patience
	w.waker.answer = func(ctx context.Context, r Request) error {
		if r.Agent.Name != "alpha" {
			return nil
		}
		s.came <- r.Agent.Name
		select {
		case err := <-s.answer:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrLost, context.Cause(ctx))
		}
	}
	return w, s
}

// While a failed wake is retried, each pass still reports it.
func TestFailedWakeStaysTold(t *testing.T) {
	t.Parallel()
	w, s := newSlowWorld(t, time.Millisecond)
	w.create("x", "alpha", pipeline.Normal)
	want(t, "at first", w.pass().Failed, []string(nil))
	<-s.came
	s.answer <- errors.New("connection refused")
	w.d.Wait()
	failed := []string{"agent alpha: connection refused"}
	want(t, "the answer", w.pass().Failed, failed)
	want(t, "not tried again at once", w.pass().Failed, failed)
	w.clock.Advance(retryWake)
	want(t, "tried again", w.pass().Failed, failed)
	<-s.came
	want(t, "still", w.pass().Failed, failed)
	s.answer <- nil
	w.d.Wait()
	r := w.pass()
	want(t, "in the end", words(r.Woken, r.Failed), "1 []")
}

// Wakes outlive a pass: other agents are woken, nothing is sent twice, and a later
// pass reports the result.
func TestWakeOutlivesPass(t *testing.T) {
	t.Parallel()
	for _, answer := range []error{nil, ErrLost, errors.New("connection refused")} {
		t.Run(fmt.Sprint(answer), func(t *testing.T) {
			t.Parallel()
			w, s := newSlowWorld(t, time.Millisecond, "beta")
			id := w.create("x", "alpha", pipeline.Normal)
			other := w.create("y", "beta", pipeline.Normal)
			r := w.pass()
			<-s.came
			if r.Dispatched != 2 || r.Due.IsZero() || r.Due.After(w.clock.Now().Add(time.Second)) {
				t.Errorf("report: %+v", r)
			}
			for range 3 {
				w.create("z", "alpha", pipeline.Normal)
				w.pass()
			}
			want(t, "wakes meanwhile", len(s.came), 0)
			want(t, "record meanwhile", words(len(w.record(id).Wakes), w.record(id).Wakes[0].Sent, w.record(id).Wakes[0].Accepted.IsZero()), "1 true true")
			want(t, "the other", words(!w.record(other).Wakes[0].Accepted.IsZero()), "true")
			s.answer <- answer
			w.d.Wait()
			w.d.Patience = 0
			w.waker.set(nil)
			r = w.pass()
			if answer == nil {
				want(t, "told", words(r.Woken, r.Failed), "1 []")
			} else {
				want(t, "told", words(r.Woken, r.Failed), fmt.Sprintf("0 [agent alpha: %v]", answer))
				w.clock.Advance(retryWake)
				want(t, "sent again, under its key", w.pass().Woken, 1)
			}
			want(t, "nothing more", w.pass().Woken, 0)
			want(t, "wakes", w.waker.keys(), "otm-T-00002-beta-1 otm-T-00001-alpha-1")
			want(t, "record", words(len(w.record(id).Wakes), !w.record(id).Wakes[0].Accepted.IsZero()), "1 true")
		})
	}
}

// B82: at the stop, a pending wake is given up and noted as unanswered. The next
// start sends it again under its key.
func TestWakeAtStop(t *testing.T) {
	t.Parallel()
	w, s := newSlowWorld(t, time.Hour)
	id := w.create("x", "alpha", pipeline.Normal)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		<-s.came
		stop()
	}()
	r, err := w.d.Pass(ctx, 0)
	if err != nil || len(r.Failed) != 0 {
		t.Errorf("pass: %+v, %v", r, err)
	}
	w.d.Wait()
	want(t, "record", words(len(w.record(id).Wakes), w.record(id).Wakes[0].Sent, w.record(id).Wakes[0].Accepted.IsZero()), "1 true true")
	want(t, "errors logged", w.log.count(slog.LevelError, ""), 0)
	w.waker.set(nil)
	w.restart()
	w.pass()
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
	// A pass that begins during the stop does nothing.
	w.create("y", "alpha", pipeline.Normal)
	if r, err = w.d.Pass(ctx, -1); err == nil {
		err = r.Trouble
	}
	want(t, "a pass of a stopped process", errors.Is(err, context.Canceled), true)
	want(t, "errors logged", w.log.count(slog.LevelError, ""), 0)
}

// All agents are woken at once: one that does not answer delays no other.
func TestWakesInParallel(t *testing.T) {
	t.Parallel()
	names := []string{"alpha", "beta", "gamma", "delta"}
	w := newWorld(t, names...)
	var all sync.WaitGroup
	all.Add(len(names))
	w.waker.set(func(Request) error {
		all.Done()
		all.Wait() // each waits for the others
		return nil
	})
	for _, name := range names {
		w.create("x", name, pipeline.Normal)
	}
	want(t, "woken", w.pass().Woken, len(names))
}

// B54a: however often the process restarts during a burst, no task is dispatched
// or woken for twice.
func TestRestartsInABurst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	const tasks = 8
	for i := range tasks {
		w.create("x", []string{"alpha", "beta"}[i%2], pipeline.Normal)
		w.restart()
		w.pass()
	}
	for id := range pipeline.TaskID(tasks) {
		want(t, "attempt", w.record(id+1).Attempt, 1)
	}
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1 otm-T-00002-beta-1")
	want(t, "files", len(w.entries("alpha"))+len(w.entries("beta")), tasks)
}

// The row of the task that holds the wake leaves the board, in this process or
// before: the wake still counts.
func TestWakeOfARowThatLeft(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"deleted", "reassigned"} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", how, restart), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, "alpha", "+robin")
				id := w.create("x", "alpha", pipeline.Normal)
				w.pass()
				if how == "deleted" {
					w.deleteRow(id)
				} else {
					w.edit(id, w.assignee("robin"))
				}
				w.clock.Advance(time.Minute)
				if restart {
					w.restart()
				}
				w.create("y", "alpha", pipeline.Normal)
				w.pass() // tells alpha
				want(t, "woken", w.pass().Woken, 0)
				w.clock.Advance(pipeline.DefaultTimes.RewakeAfter)
				w.pass() // asks
				w.clock.Advance(pipeline.DefaultTimes.RewakeAfter)
				want(t, "woken", w.pass().Woken, 1)
				want(t, "asked for", slices.Compact(w.waker.asked), []string{"otm-T-00001-alpha-1-loss"})
				want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1 otm-T-00001-alpha-1-loss otm-T-00002-alpha-1")
			})
		}
	}
}

// The agent takes its task while the gateway is asked about its wake.
func TestTakenWhileAsking(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.clock.Advance(pipeline.DefaultTimes.RewakeAfter)
	w.waker.ended = func(key string) (core.EndStart, bool, error) {
		want(t, "it takes", w.next("alpha"), id)
		return core.EndStart{Key: key, Outcome: core.OutcomeOK}, true, nil
	}
	want(t, "woken", w.pass().Woken, 0)
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
}

// The agent takes its task right before the wake.
func TestTakenBeforeWake(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.waker.ready = func() { want(t, "it takes", w.next("alpha"), id) }
	r := w.pass()
	want(t, "report", words(r.Dispatched, r.Woken, r.Failed, r.Due.IsZero()), "1 0 [] false")
	want(t, "wakes", len(w.record(id).Wakes), 0)
}

// However often a pass is made, an agent whose wakes are refused is tried with pauses that
// grow up to half an hour. What a person repairs counts at once.
func TestRefusalsPause(t *testing.T) {
	t.Parallel()
	for name, repair := range map[string]func(w *world){
		"configured": func(w *world) { w.agents[0].GatewayAgent = "omega" },
		"resumed": func(w *world) {
			w.do(core.Command{By: core.ByPerson("robin"), Agent: "alpha", Do: core.ResumeAgent{}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			w.waker.set(func(Request) error { return fmt.Errorf("%w: no such agent", ErrRefused) })
			id := w.create("x", "alpha", pipeline.Normal)
			failed := []string{"agent alpha: wake refused: no such agent"}
			var tries []string
			for minutes := range 3 * 60 {
				if minutes == 40 {
					w.restart() // a new process knows it too
				}
				before := len(w.waker.requests)
				for range 3 {
					if r := w.pass(); !slices.Equal(r.Failed, failed) {
						t.Fatalf("minute %d: told %q", minutes, r.Failed)
					}
				}
				if len(w.waker.requests) > before {
					tries = append(tries, fmt.Sprint(minutes))
				}
				w.clock.Advance(time.Minute)
			}
			want(t, "tries in these minutes", tries, "[0 1 2 7 22 52 82 112 142 172]")
			want(t, "events", words(w.count(id, "WakeBegun"), w.count(id, "WakeFailed")), "10 10")
			repair(w)
			want(t, "tried again", words(w.pass().Failed, len(w.waker.requests)), words(failed, 11))
			w.waker.set(nil)
			want(t, "at once, once", words(w.pass().Woken, len(w.waker.requests)), words(0, 11))
			w.clock.Advance(time.Minute)
			want(t, "woken", words(w.pass().Woken, w.waker.keys()), "1 otm-T-00001-alpha-1")
			state, err := w.store.Agent(t.Context(), "alpha")
			want(t, "forgotten", words(state.Refusals, state.NextStart.IsZero(), err), "0 true <nil>")
		})
	}
}

// The order of wakes is kept if the clock was set back a little.
func TestAskedAfter(t *testing.T) {
	t.Parallel()
	now := minute(0)
	p := waking{run: newRun(&Dispatcher{Entries: &Entries{}, Now: func() time.Time { return now }, Times: pipeline.DefaultTimes})}
	last := func(m float64) *core.Wake { return &core.Wake{AskedAt: minute(m)} }
	want(t, "none", p.askedAfter(nil), now)
	want(t, "before", p.askedAfter(last(-1)), now)
	want(t, "in the same moment", p.askedAfter(last(0)), now.Add(1))
	want(t, "ahead of the clock", p.askedAfter(last(10)), minute(10).Add(1))
	want(t, "far ahead of the clock", p.askedAfter(last(100)), now)
}

// An agent with trigger none looks by itself. Nothing is expected of it for a day.
func TestTriggerNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.agents[0].Trigger = pipeline.TriggerNone
	id := w.create("x", "alpha", pipeline.Normal)
	want(t, "report", w.pass().Details(), "Dispatched 1 task, woke 0 agents, 0 failures")
	w.clock.Advance(23 * time.Hour)
	want(t, "later", w.pass().Details(), "Dispatched 0 tasks, woke 0 agents, 0 failures")
	w.clock.Advance(100 * time.Hour)
	if r := w.pass(); r.Woken != 0 || len(r.NeedsPerson) != 1 || r.NeedsPerson[0].Code != explain.TaskRests {
		t.Errorf("after days: %+v", r)
	}
	want(t, "it takes", w.next("alpha"), id)
}

// An agent that looked and found nothing is woken at once for new tasks.
func TestIdleAgentWokenAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.next("alpha")
	w.report(id, pipeline.AgentDone)
	w.pass()
	w.create("y", "alpha", pipeline.Normal)
	r := w.pass()
	if d := r.Due.Sub(w.clock.Now()); r.Woken != 0 || d <= 0 || d > afterTask {
		t.Errorf("it is to look by itself: %+v", r)
	}
	if err := (&workspaces{}).writeState(w.agents, w.agent("alpha"), nil, w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	want(t, "woken", w.pass().Woken, 1)
	if !strings.Contains(w.waker.keys(), "otm-T-00002-alpha-1") {
		t.Errorf("wakes: %s", w.waker.keys())
	}
}

// C63: a gateway that answers slowly delays nobody's dispatch. The pass does not
// wait for it, and the answer begins another pass.
func TestC63LateAnswerBeginsAPass(t *testing.T) {
	t.Parallel()
	w, s := newSlowWorld(t, time.Millisecond)
	answered := make(chan struct{})
	w.d.Answered = func() { close(answered) }
	w.create("x", "alpha", pipeline.Normal)
	want(t, "the pass", words(w.pass().Dispatched), "1")
	<-s.came
	s.answer <- nil
	<-answered
	want(t, "told by the next", w.pass().Woken, 1)
}

// C4: a person moves a blocked task back to in progress, and the agent's process
// is gone. The next pass wakes the agent, as for a new task.
func TestC4ResumedByAPerson(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exit 0`)
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	want(t, "takes", w.next("alpha"), id) // as its process would
	w.report(id, pipeline.Blocked)
	w.ended()
	want(t, "blocked", w.pass().Woken, 0)
	w.clock.Advance(time.Hour)
	w.edit(id, w.status(pipeline.InProgress))
	want(t, "woken", w.pass().Woken, 1)
	w.ended()
	wakes := w.record(id).Wakes
	want(t, "for it", wakes[len(wakes)-1].Tasks, []pipeline.TaskID{id})
}

// The store was lost, and a task was adopted from its row: the keys of its wakes before
// are not used again.
func TestKeyOfLostTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.last++
	shown := core.Shown{TaskID: w.last, Title: "x", Agent: "alpha", Priority: pipeline.Normal, Type: pipeline.Action, Status: pipeline.Assigned}
	typed := w.clock.Now()
	w.clock.Advance(3 * time.Second)
	w.do(core.Command{By: by(), Task: w.last, Do: core.Adopt{
		Task:   pipeline.Task{ID: w.last, Title: "x", Agent: "alpha", Priority: pipeline.Normal, Type: pipeline.Action},
		Status: pipeline.Assigned, Typed: core.ByPerson("robin"), TypedAt: typed, Lost: true,
		Row: core.RowFound{Row: "Rec1", Shown: shown, Steps: []core.FoundStep{{Row: "Rec1.1", Title: "one"}}},
	}})
	want(t, "woken", w.pass().Woken, 1)
	attempt := w.record(1).Attempt
	want(t, "its key", words(w.waker.keys(), attempt > 3), words(core.WakeKey(1, "alpha", attempt), true))
}

// While no agent could work, such as with an otm.toml that otm next cannot read, none is
// started, and none fails for it.
func TestHeld(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, "exit 1")
	id := w.create("x", "alpha", pipeline.Normal)
	w.d.Held = func() bool { return true }
	for range 5 {
		r := w.pass()
		want(t, "woken, failed", words(r.Woken, len(r.Failed)), "0 0") // the program says what is wrong
		w.clock.Advance(time.Minute)
	}
	want(t, "starts", len(w.record(id).Wakes), 0)
	w.d.Held = func() bool { return false }
	want(t, "woken", w.pass().Woken, 1)
	w.ended()
}
