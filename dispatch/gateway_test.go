package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/dispatch/gateway"
	"otm/dispatch/gateway/gatewaytest"
	"otm/internal/explain"
	"otm/pipeline"
)

// TestCrashedGatewayResumesItsTurn: a gateway crashes while an agent thinks. 2026.9.6 resumes the
// turn under another id: OTM sees by its list of tasks that it goes on, wakes nobody beside it, and
// sees its end, which no event names.
func TestCrashedGatewayResumesItsTurn(t *testing.T) {
	for _, taken := range []bool{true, false} {
		t.Run(fmt.Sprintf("taken %v", taken), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			p, let := gatewaytest.Profile2026_9_6, make(chan struct{})
			p.HandshakeLimit = time.Minute
			g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
				o.Agents = []gatewaytest.Agent{{ID: "alpha", Do: func(ctx context.Context, _ gatewaytest.Run) error {
					select {
					case <-let:
					case <-ctx.Done():
					}
					return ctx.Err()
				}}}
			})
			w.overGateway(g, time.Minute)
			w.create("x", "alpha", pipeline.Normal)
			w.pass()
			if taken {
				w.next("alpha")
			}
			g.Until(t, func() bool { return len(g.Runs()) == 1 })
			if err := g.Crash(); err != nil {
				t.Fatal(err)
			}
			g.Until(t, func() bool { return len(g.Runs()) == 2 })
			w.clock.Advance(time.Second)
			link := &Link{Up: true, Since: w.clock.Now()}
			pass := func() {
				w.restart()
				w.overGateway(g, time.Minute)
				w.d.Link = func() *Link { return link }
				w.pass()
			}
			for range 5 {
				pass()
				w.clock.Advance(10 * time.Minute)
			}
			wake := w.record(1).Wakes[0]
			want(t, "while it goes on", words(len(g.Runs()), wake.Ended.IsZero(), wake.Unknown.IsZero(), len(w.record(1).Wakes)), "2 true true 1")
			close(let)
			g.Until(t, func() bool { pass(); return !w.record(1).Wakes[0].Ended.IsZero() })
			want(t, "outcome", w.record(1).Wakes[0].Outcome, core.OutcomeOK)
		})
	}
}

// onGateway runs a test with each generation of the gateway. The world has the
// agent alpha with a task, dispatched through a real client.
func onGateway(t *testing.T, f func(w *world, g *gatewaytest.Gateway)) {
	t.Parallel()
	for _, p := range gatewaytest.Profiles() {
		p.HandshakeLimit = time.Minute // a busy machine is not what is tested
		t.Run(p.Version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
				o.Agents, o.RetryAfter = []gatewaytest.Agent{{ID: "alpha"}}, time.Millisecond
			})
			w.overGateway(g, time.Minute)
			w.create("x", "alpha", pipeline.Normal)
			f(w, g)
		})
	}
}

// overGateway makes the dispatcher wake over g with the given patience, as a
// resident does. The client is closed with the test.
func (w *world) overGateway(g *gatewaytest.Gateway, wait time.Duration) {
	waker := newGatewayWaker(g.URL(), g.Token(), func(c *gateway.Config) { c.AnswerTimeout = wait })
	w.Cleanup(func() { waker.client.Close() })
	w.d.Wakers[pipeline.TriggerGateway] = waker
	w.d.Patience = time.Hour
}

// B52, B53: connections drop and gateways restart at bad moments. The wake is
// delivered, under one key, and executed once.
func TestGatewayTrouble(t *testing.T) {
	onGateway(t, func(w *world, g *gatewaytest.Gateway) {
		w.overGateway(g, 200*time.Millisecond)
		agent := []gatewaytest.Fault{
			gatewaytest.DropUnqueued, gatewaytest.DropUnqueued.By(1012), gatewaytest.DropQueued, gatewaytest.DropQueued.By(gatewaytest.CutReset),
			gatewaytest.DropExecuted, gatewaytest.AcceptDropBefore, gatewaytest.AcceptDropAfter.By(1001), gatewaytest.Unavailable,
			gatewaytest.NoAnswer, gatewaytest.NeverDelivered,
		}
		dial := []gatewaytest.DialFault{
			gatewaytest.DialReset(), gatewaytest.DialStatus(503), gatewaytest.DialStarting(),
			gatewaytest.DialCut(gatewaytest.CutEOF, ""), gatewaytest.DialCut(1012, "service restart"), gatewaytest.DialCut(1001, ""),
		}
		for i := range len(agent) {
			g.Inject(agent[i])
			if i < len(dial) {
				g.Cut(1001)
				g.InjectDial(dial[i])
			}
			id := w.last
			r := w.pass()
			want(w, fmt.Sprintf("%v: report", agent[i]), r.Details(), "Dispatched 1 task, woke 1 agent, 0 failures")
			key := core.WakeKey(id, "alpha", 1)
			g.Until(w, func() bool { return len(g.RunsOf(key)) > 0 })
			w.pass()
			w.restart() // a new process knows it too
			w.overGateway(g, 200*time.Millisecond)
			w.pass()
			want(w, fmt.Sprintf("%v: runs", agent[i]), len(g.RunsOf(key)), 1)
			want(w, "taken", w.next("alpha"), id)
			w.report(id, pipeline.AgentDone)
			w.clock.Advance(2 * time.Minute)
			w.create("x", "alpha", pipeline.Normal)
		}
		want(w, "runs", len(g.Runs()), len(agent))
	})
}

// A gateway that is down delays neither the pass nor the stop, and is logged once.
// The history does not grow meanwhile. When it is back, the agent is woken.
func TestGatewayDown(t *testing.T) {
	onGateway(t, func(w *world, g *gatewaytest.Gateway) {
		g.Kill()
		ctx, stop := context.WithCancel(w.Context())
		w.d.Patience = time.Millisecond
		r, err := w.d.Pass(ctx, 0)
		if err != nil || r.Did[dispatched].N != 1 || r.Did[woken].N != 0 || r.Due.IsZero() {
			w.Errorf("pass: %+v, %v", r, err)
		}
		if r, err = w.d.Pass(ctx, 0); err != nil || r.Did[dispatched].N+r.Did[woken].N != 0 {
			w.Errorf("another: %+v, %v", r, err)
		}
		stop()
		w.d.Wait()
		want(w, "wakes", words(len(w.record(1).Wakes), w.count(1, "WakeBegun")), "0 0")
		want(w, "told as failures when it was only stopped", w.log.count(slog.LevelError, "msg=failed"), 0)
		if err := g.Boot(); err != nil {
			w.Fatal(err)
		}
		w.restart()
		w.overGateway(g, 200*time.Millisecond)
		want(w, "woken", w.pass().Woken, 1)
		g.Until(w, func() bool { return len(g.RunsOf("otm-T-00001-alpha-1")) == 1 })
	})
}

// B37 at the gateway: it knows no such agent. The task stays assigned, and its history
// does not grow with each pass. Once the configuration is fixed, the wake is sent at
// once, under the same key.
func TestGatewayKnowsNoAgent(t *testing.T) {
	onGateway(t, func(w *world, g *gatewaytest.Gateway) {
		w.agents[0].GatewayAgent = "omega"
		for range 3 {
			r := w.pass()
			if len(r.Failed) != 1 || !strings.Contains(r.Failed[0], "agent alpha: wake refused") || !strings.Contains(r.Failed[0], "omega") {
				w.Errorf("failed: %q", r.Failed)
			}
		}
		want(w, "logged", w.log.count(slog.LevelError, "msg=failed"), 1)
		want(w, "status", w.boardStatus(1), pipeline.Assigned)
		want(w, "tries", w.count(1, "WakeBegun"), 1)
		w.agents[0].GatewayAgent = "alpha"
		want(w, "woken", w.pass().Woken, 1)
		g.Until(w, func() bool { return len(g.RunsOf("otm-T-00001-alpha-1")) == 1 })
		want(w, "attempt", w.record(1).Attempt, 1)
	})
}

// B54b, C56: a wake was accepted and its run did nothing. OTM asks while the
// gateway still knows the run, and never sends the key again. After the next
// attempts it leaves the agent alone but for a probe each half hour.
func TestGatewayNothingHappens(t *testing.T) {
	onGateway(t, func(w *world, g *gatewaytest.Gateway) {
		g.Inject(gatewaytest.AcceptNeverRun)
		want(w, "woken", w.pass().Woken, 1)
		for minute, told := range []string{"[]", "[]", "[]", "wake_unheard", "wake_unheard", "wake_unheard"} {
			w.clock.Advance(time.Second)
			r := w.pass()
			want(w, fmt.Sprint("not yet, minute ", minute), words(r.Woken, len(r.Failed)), "0 0")
			if len(r.NeedsPerson) > 0 {
				told = strings.Replace(told, string(r.NeedsPerson[0].Code), "[]", 1)
			}
			want(w, fmt.Sprint("told, minute ", minute), told, "[]")
			w.clock.Advance(time.Minute)
		}
		asked := 0
		for _, r := range g.Requests() {
			if r.Method == "agent.wait" {
				asked++
			}
		}
		want(w, "asked after one minute and after three, and sent once", words(asked, g.Asked("otm-T-00001-alpha-1")), "2 1")
		w.clock.Advance(3 * time.Minute)
		want(w, "its run is unknown", w.pass().Woken, 0)
		if w.record(1).Wakes[0].Unknown.IsZero() {
			w.Error("the record does not say so")
		}
		w.clock.Advance(pipeline.DefaultTimes.RewakeAfter)
		want(w, "the next attempt", w.pass().Woken, 1)
		want(w, "said", w.log.count(slog.LevelWarn, "run ended without progress"), 1)
		for attempt := 2; attempt <= 4; attempt++ {
			key := core.WakeKey(1, "alpha", attempt)
			g.Until(w, func() bool { runs := g.RunsOf(key); return len(runs) == 1 && runs[0].Status != "" })
			w.clock.Advance(askAfter(&pipeline.DefaultTimes))
			r := w.pass()
			want(w, "asked under each key", g.Asked(key), 1)
			want(w, "told", words(r.Woken, len(r.Failed), len(r.Given)), "0 0 1")
			w.clock.Advance(core.ProbeEvery)
			want(w, "the next attempt", w.pass().Woken, 1)
		}
		g.Until(w, func() bool { return len(g.RunsOf("otm-T-00001-alpha-5")) == 1 })
		health, err := AgentHealth(context.Background(), w.store, w.dir, w.agent("alpha"))
		want(w, "health", words(health.Finding(w.clock.Now()).Code, health.Failures, err), words(explain.AgentLeftAlone, 4, nil))
		// A person sends it out again.
		w.clock.Advance(askAfter(&pipeline.DefaultTimes))
		want(w, "asked", w.pass().Woken, 0)
		w.edit(1, w.status(pipeline.New))
		want(w, "woken", w.pass().Woken, 1)
		g.Until(w, func() bool { return len(g.RunsOf("otm-T-00001-alpha-6")) == 1 })
	})
}

// C57: the end of a run at the gateway counts at once, and the pauses are those of
// commands.
func TestC57FailedRunIsStartedAgain(t *testing.T) {
	onGateway(t, func(w *world, g *gatewaytest.Gateway) {
		want(w, "woken", w.pass().Woken, 1)
		if _, err := RecordEnd(w.Context(), w.store, core.EndStart{Key: "otm-T-00001-alpha-1", Outcome: core.OutcomeFailed, Detail: "no model"}, w.clock.Now()); err != nil {
			w.Fatal(err)
		}
		r := w.pass()
		want(w, "told", words(r.Woken, len(r.Given)), "0 1")
		if pause := r.Due.Sub(w.clock.Now()); pause <= 0 || pause > 10*time.Second {
			w.Errorf("started again in %v", pause)
		}
		w.clock.Advance(10 * time.Second)
		want(w, "woken again", w.pass().Woken, 1)
	})
}

// A gateway that cannot be asked is reported, and asked again.
func TestGatewayCannotBeAsked(t *testing.T) {
	onGateway(t, func(w *world, g *gatewaytest.Gateway) {
		w.pass()
		g.Until(w, func() bool { return len(g.Runs()) == 1 })
		w.clock.Advance(pipeline.DefaultTimes.RewakeAfter)
		g.Kill()
		for range 2 {
			r := w.pass()
			if len(r.Failed) != 1 || !strings.Contains(r.Failed[0], "agent alpha: not known what became of otm-T-00001-alpha-1") || r.Due.IsZero() {
				w.Errorf("report: %+v", r)
			}
		}
		want(w, "logged", w.log.count(slog.LevelError, "not known what became"), 1)
		if err := g.Boot(); err != nil {
			w.Fatal(err)
		}
		w.pass() // 2026.3.13 has forgotten the run, 2026.9.6 knows how it ended
		wake := w.record(1).Wakes[0]
		known := g.Profile().Version != gatewaytest.Profile2026_3_13.Version
		want(w, "unknown, ended", words(!wake.Unknown.IsZero(), !wake.Ended.IsZero()), words(!known, known))
	})
}
