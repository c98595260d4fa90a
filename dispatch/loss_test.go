package dispatch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/dispatch/gateway/gatewaytest"
	"otm/pipeline"
)

// told are the messages about losses that reached the recorder, one a line.
func (w *world) told() string {
	w.waker.mu.Lock()
	defer w.waker.mu.Unlock()
	var all []string
	for _, r := range w.waker.requests {
		if text, _, ok := strings.Cut(r.Message, ". Stop working on it"); ok {
			all = append(all, r.Agent.Name+": "+text)
		}
	}
	return strings.Join(all, "\n")
}

// an agent at the gateway is told once that a task was taken from it, with the
// reason, in whatever way that happened. One that was not woken for the task hears nothing, nor
// does one that ended it.
func TestLossIsTold(t *testing.T) {
	t.Parallel()
	reason := func(text string) func(*core.Edits) { return func(e *core.Edits) { e.Reason = &text } }
	taken := func(w *world) { w.next("alpha") }
	cancel := func(w *world) { w.edit(1, w.status(pipeline.Cancelled), reason("not \"wanted\"\nany more")) }
	for _, c := range []struct {
		name        string
		before, act func(*world)
		told        string
	}{
		{"cancelled at work", taken, cancel, `alpha: Task T-00001 was cancelled: "not \"wanted\" any more"`},
		{"cancelled before it was taken", func(*world) {}, cancel, `alpha: Task T-00001 was cancelled: "not \"wanted\" any more"`},
		{"stopped", taken, func(w *world) { w.edit(1, w.status(pipeline.Dormant)) }, "alpha: Task T-00001 was stopped and set aside"},
		{"given away", taken, func(w *world) { w.edit(1, w.assignee("beta")) }, "alpha: Task T-00001 was given to another agent"},
		{"given to nobody", taken, func(w *world) { w.edit(1, w.assignee("")) }, "alpha: Task T-00001 was taken from you"},
		{"released, so that it gets it again", taken, func(w *world) { w.edit(1, w.status(pipeline.New)) }, ""},
		{"answered by a new hand-out", func(w *world) { w.next("alpha"); w.report(1, pipeline.Blocked) }, func(w *world) { w.edit(1, w.status(pipeline.New)) }, ""},
		{"row deleted", taken, func(w *world) { w.deleteRow(1) }, "alpha: Task T-00001 was deleted"},
		{"cancelled while blocked", func(w *world) { w.next("alpha"); w.report(1, pipeline.Blocked) }, cancel, `alpha: Task T-00001 was cancelled: "not \"wanted\" any more"`},
		{"by a reviewing agent", taken, func(w *world) {
			status, why := pipeline.Cancelled, "no"
			w.do(core.Command{By: core.Actor{Kind: core.Reviewer, Name: "lead"}, Task: 1, Do: core.Edits{Status: &status, Reason: &why}})
		}, `alpha: Task T-00001 was cancelled: "no"`},
		{"row deleted and restored", taken, func(w *world) {
			row := w.record(1).RowID
			w.deleteRow(1)
			w.do(core.Command{By: core.ByPerson(""), Task: 1, Do: core.RestoreRow{Row: row}})
		}, ""},
		{"cancelled and opened again", taken, func(w *world) { cancel(w); w.edit(1, w.status(pipeline.New)) }, `alpha: Task T-00001 was cancelled: "not \"wanted\" any more"`},
		{"cancelled in its queue", func(*world) {}, func(w *world) { w.edit(2, w.status(pipeline.Cancelled)) }, ""},
		{"cancelled after its end", func(w *world) { w.next("alpha"); w.report(1, pipeline.AgentDone) }, cancel, ""},
		{"accepted at work", taken, func(w *world) { w.edit(1, w.status(pipeline.Done)) }, ""},
		{"blocked by a person", taken, func(w *world) { w.edit(1, w.status(pipeline.Blocked)) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha", "beta")
			w.create("x", "alpha", pipeline.High)
			w.pass()
			w.create("y", "alpha", pipeline.Normal)
			w.pass()
			c.before(w)
			w.pass()
			c.act(w)
			for range 3 {
				w.pass()
				w.clock.Advance(20 * time.Second)
				w.restart()
			}
			want(t, "told", w.told(), c.told)
			losses := 0
			for id := range pipeline.TaskID(3) {
				if id > 0 {
					losses += w.count(id, "TakenAway")
					want(t, "left to tell", len(w.record(id).Losses), 0)
				}
			}
			if c.told != "" {
				want(t, "losses", losses, 1)
			}
		})
	}
}

// A message about a loss says how the agent goes on.
func TestLossMessage(t *testing.T) {
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.High)
	w.pass()
	w.next("alpha")
	w.edit(1, w.status(pipeline.Cancelled))
	w.d.MessageDir = "/a dir"
	w.pass()
	r := w.waker.requests[1]
	want(t, "message", r.Message, `Task T-00001 was cancelled. Stop working on it, and report nothing more on it. `+
		`Then run "otm next --agent alpha --dir '/a dir'" and do what it gives you; stop at "no task waiting".`)
	want(t, "key", r.Key, "otm-T-00001-alpha-1-loss")
	want(t, "aborts", r.Abort, "[otm-T-00001-alpha-1]")
	events, err := w.store.Events(w.Context(), core.EventFilter{Task: 1, Types: []string{"Notified"}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "code", events[len(events)-1].Code(), "OE-04")
}

// An agent that was told takes its next task, and is woken for it where it does not. Its turn
// that was aborted is no failure of it.
func TestWorkAfterALoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.High)
	w.create("y", "alpha", pipeline.Normal)
	w.pass()
	w.next("alpha")
	w.edit(1, w.status(pipeline.Cancelled))
	w.pass()
	w.do(core.Command{By: by(), Task: 1, Do: core.EndStart{Key: "otm-T-00001-alpha-1", Outcome: core.OutcomeTimeout, Detail: "aborted"}})
	w.pass()
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1 otm-T-00001-alpha-1-loss")
	want(t, "takes", w.next("alpha"), "T-00002")
	w.report(2, pipeline.AgentDone)
	w.do(core.Command{By: by(), Task: 1, Do: core.EndStart{Key: "otm-T-00001-alpha-1-loss", Outcome: core.OutcomeOK}})
	r := w.pass()
	state, err := w.store.Agent(w.Context(), "alpha")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "failures", words(state.Failures, state.Fruitless, len(r.Failed)+len(r.NeedsPerson)), "0 0 0")
	w.create("z", "alpha", pipeline.Normal)
	w.clock.Advance(2 * time.Minute)
	w.pass()
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1 otm-T-00001-alpha-1-loss otm-T-00003-alpha-1")
}

// Only turns in which the agent may still be at work on the lost task are aborted.
func TestAbortsNoOtherTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act  func(*world)
		want string
	}{
		"it took another task since": {func(w *world) { w.report(1, pipeline.Blocked); w.next("alpha") }, "[]"},
		"its turn ended": {func(w *world) {
			w.do(core.Command{By: by(), Task: 1, Do: core.EndStart{Key: "otm-T-00001-alpha-1", Outcome: core.OutcomeOK}})
		}, "[]"},
		"it was asked since": {func(w *world) { w.clock.Advance(61 * time.Minute); w.pass() }, "[otm-T-00001-alpha-1 otm-T-00001-alpha-2]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			w.create("x", "alpha", pipeline.High)
			w.create("y", "alpha", pipeline.Normal)
			w.pass()
			w.next("alpha")
			c.act(w)
			w.edit(1, w.status(pipeline.Cancelled))
			w.pass()
			last := w.waker.requests[len(w.waker.requests)-1]
			want(t, "told", strings.Contains(last.Message, "was cancelled"), true)
			want(t, "aborts", last.Abort, c.want)
		})
	}
}

// A pause by a person keeps nobody from being told. A gateway that cannot be reached, or refuses,
// delays it, at most for a day; a lost answer is asked for under the same key, for as long as the
// gateway remembers that.
func TestLossInTrouble(t *testing.T) {
	t.Parallel()
	absent, refused := fmt.Errorf("connection refused"), fmt.Errorf("%w: no such agent", ErrRefused)
	for name, c := range map[string]struct {
		errs  []error
		pause time.Duration
		sent  int // messages
		keys  int
		left  int
	}{
		"refused":                {[]error{refused, refused, nil}, time.Minute, 3, 1, 0},
		"absent":                 {[]error{absent, absent, absent, nil}, time.Minute, 4, 1, 0},
		"absent for a day":       {[]error{absent}, 25 * time.Hour, 1, 1, 1},
		"answer lost":            {[]error{errQueued, errQueued, nil}, time.Minute, 3, 1, 0},
		"no answer for too long": {[]error{errQueued}, 4 * time.Minute, 1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			w.create("x", "alpha", pipeline.High)
			w.pass()
			w.next("alpha")
			w.edit(1, w.status(pipeline.Cancelled))
			w.do(core.Command{By: core.ByPerson("robin"), Agent: "alpha", Do: core.PauseAgent{}})
			n := 0
			w.waker.answer = func(context.Context, Request) error {
				n++
				return c.errs[min(n, len(c.errs))-1]
			}
			for range 6 {
				w.pass()
				w.restart()
				w.clock.Advance(c.pause)
			}
			keys := map[string]bool{}
			for _, r := range w.waker.requests[1:] {
				keys[r.Key] = true
			}
			want(t, "sent, keys, left", words(n, len(keys), len(w.record(1).Losses)), words(c.sent, c.keys, c.left))
		})
	}
}

// A dispatcher that is killed while it tells an agent of a loss: the next one finishes that, and
// the agent hears it once.
func TestKilledWhileItTells(t *testing.T) {
	t.Parallel()
	for _, p := range gatewaytest.Profiles() {
		p.HandshakeLimit = time.Minute // a busy machine is not what is tested
		for _, at := range []string{"store.done:1", "wake.before:1", "wake.after:1", "store.done:2"} {
			t.Run(p.Version+", "+at, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, "alpha")
				g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) { o.Agents = []gatewaytest.Agent{{ID: "alpha"}} })
				w.overGateway(g, time.Minute)
				w.create("x", "alpha", pipeline.Normal)
				w.pass()
				w.next("alpha")
				w.edit(1, w.status(pipeline.Cancelled))
				if _, err := w.d.Deliver(w.Context()); err != nil {
					t.Fatal(err)
				}
				o := w.order("pass")
				o.Gateway, o.GatewayToken = g.URL(), g.Token()
				if !o.kill(t, at) {
					t.Fatal("the point was not reached")
				}
				for range 2 {
					w.restart()
					w.overGateway(g, time.Minute)
					w.pass()
				}
				g.Until(t, func() bool { return len(g.RunsOf("otm-T-00001-alpha-1-loss")) > 0 })
				want(t, "runs", words(len(g.Runs()), len(g.RunsOf("otm-T-00001-alpha-1-loss"))), "2 1")
				want(t, "left to tell", len(w.record(1).Losses), 0)
			})
		}
	}
}

// Where the gateway can, the turn that works on a cancelled task is aborted, and the agent hears
// of it at once; else after that turn.
func TestLossAbortsTheTurn(t *testing.T) {
	t.Parallel()
	for _, p := range gatewaytest.Profiles() {
		p.HandshakeLimit = time.Minute
		t.Run(p.Version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			let := make(chan struct{})
			g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
				o.Agents = []gatewaytest.Agent{{ID: "alpha", Do: func(ctx context.Context, r gatewaytest.Run) error {
					if r.Key != "otm-T-00001-alpha-1" {
						return nil
					}
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-let:
						return nil
					}
				}}}
			})
			w.overGateway(g, time.Minute)
			w.create("x", "alpha", pipeline.Normal)
			w.pass()
			w.next("alpha")
			g.Until(t, func() bool { return len(g.RunsOf("otm-T-00001-alpha-1")) == 1 })
			w.edit(1, w.status(pipeline.Cancelled))
			w.pass()
			aborts := p.Version != gatewaytest.Profile2026_3_13.Version
			if !aborts {
				want(t, "turns while the first goes on", len(g.Runs()), 1)
				close(let)
			}
			g.Until(t, func() bool { return len(g.RunsOf("otm-T-00001-alpha-1-loss")) == 1 })
			status := "ok"
			if aborts {
				status = "timeout"
			}
			want(t, "the first turn", g.RunsOf("otm-T-00001-alpha-1")[0].Status, status)
		})
	}
}
