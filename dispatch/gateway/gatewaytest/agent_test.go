package gatewaytest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"otm/dispatch/gateway/gatewaytest"
)

func run(key string, change func(object)) object {
	p := object{"message": "hello rig", "agentId": "alpha", "idempotencyKey": key}
	if change != nil {
		change(p)
	}
	return p
}

func TestAgentAnswersTwice(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		r := connected(t, g)
		id := r.ask("agent", run("k-001", nil))
		f := r.next(id)
		if !f.OK || f.Payload["runId"] != "k-001" || f.Payload["status"] != "accepted" || f.Payload["acceptedAt"] == nil {
			t.Fatalf("first response %+v", f)
		}
		if got := f.Payload["sessionKey"]; newer(p) != (got == "agent:alpha:main") || newer(p) != (f.Payload["agentId"] == "alpha") {
			t.Errorf("session %v, agent %v", got, f.Payload["agentId"])
		}
		f = r.next(id)
		if !f.OK || f.Payload["status"] != "ok" || f.Payload["summary"] != "completed" {
			t.Errorf("second response %+v", f)
		}
		runs := g.Runs()
		if len(runs) != 1 || runs[0].Message != "hello rig" || runs[0].SessionKey != "agent:alpha:main" || runs[0].Status != "ok" {
			t.Errorf("runs %+v", runs)
		}
	})
}

func TestAgentRefused(t *testing.T) {
	tests := []struct {
		name   string
		change func(object)
		want   string
	}{
		{"unknown agent", func(p object) { p["agentId"] = "gamma" }, `invalid agent params: unknown agent id "gamma"`},
		{"unknown agent in capitals", func(p object) { p["agentId"] = "Gamma" }, `invalid agent params: unknown agent id "Gamma"`},
		{"extra property", func(p object) { p["foo"] = 1 }, "invalid agent params: at root: unexpected property 'foo'"},
		{"no key", func(p object) { delete(p, "idempotencyKey") }, "invalid agent params: must have required property 'idempotencyKey'"},
		{"empty message", func(p object) { p["message"] = "" }, "invalid agent params: at /message"},
		{"session of another agent", func(p object) { p["sessionKey"] = "agent:beta:main" }, ""},
	}
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		r := connected(t, g)
		for _, tt := range tests {
			f := r.call("agent", run("k-"+tt.name, tt.change))
			if f.OK || f.Error.Code != "INVALID_REQUEST" || !strings.HasPrefix(f.Error.Message, tt.want) {
				t.Errorf("%s: %+v", tt.name, f)
			}
		}
		if runs := g.Runs(); len(runs) != 0 {
			t.Errorf("runs %+v", runs)
		}
		f := r.call("agent", run("k-reset", func(p object) { p["message"] = "/new" }))
		if f.OK == newer(p) {
			t.Errorf("reset command: %+v", f)
		}
	})
}

func TestAgentWithoutID(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		r := connected(t, gatewaytest.Start(t, p))
		id := r.ask("agent", run("k", func(p object) { delete(p, "agentId") }))
		f := r.next(id)
		if f.OK == newer(p) {
			t.Fatalf("first response %+v", f)
		}
		if newer(p) {
			return
		}
		f = r.next(id)
		if f.OK || !strings.HasPrefix(f.Error.Message, "Error: Pass --to") || f.Payload["status"] != "error" {
			t.Errorf("second response %+v", f)
		}
	})
}

func TestAgentBlankMessage(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		r := connected(t, g)
		id := r.ask("agent", run("k", func(p object) { p["message"] = "   " }))
		if f := r.next(id); !f.OK || f.Payload["status"] != "accepted" {
			t.Errorf("first response %+v", f)
		}
		if f := r.next(id); f.OK || f.Error.Code != "UNAVAILABLE" || f.Payload["status"] != "error" {
			t.Errorf("second response %+v", f)
		}
		// Remembered, whatever the message is now.
		if f := r.call("agent", run("k", nil)); f.OK || f.Payload["status"] != "error" {
			t.Errorf("again %+v", f)
		}
		if runs := g.Runs(); len(runs) != 0 {
			t.Errorf("runs %+v", runs)
		}
	})
}

func TestSessions(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		release := make(chan struct{})
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			o.Agents = []gatewaytest.Agent{{ID: "alpha", Do: func(ctx context.Context, run gatewaytest.Run) error {
				if run.SessionKey == "agent:alpha:main" {
					<-release
				}
				return nil
			}}}
		})
		r := connected(t, g)
		r.ask("agent", run("k-1", nil))
		second := r.ask("agent", run("k-2", func(p object) { p["agentId"] = "Alpha" }))
		other := r.ask("agent", run("k-3", func(p object) { p["sessionKey"] = "agent:alpha:task-43" }))
		r.next(other) // accepted
		if f := r.next(other); !f.OK {
			t.Errorf("other session: %+v", f)
		}
		g.Until(t, func() bool { return len(g.RunsOf("k-1")) == 1 })
		if runs := g.Runs(); len(runs) != 2 {
			t.Errorf("while the first turn runs: %+v", runs)
		}
		if f := r.call("agent", run("k-4", func(p object) { p["sessionKey"] = "task-44" })); f.OK != newer(p) {
			t.Errorf("session without a prefix: %+v", f)
		} else if f.OK && f.Payload["sessionKey"] != "agent:alpha:task-44" {
			t.Errorf("filed under %v", f.Payload["sessionKey"])
		}
		close(release)
		if f := r.next(second); !f.OK || f.Payload["status"] != "ok" {
			t.Errorf("second turn: %+v", f)
		}
	})
}

// A key is the gateway's, not the agent's: it answers for whatever comes with
// it.
func TestKeyReplayed(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		r := connected(t, g)
		id := r.ask("agent", run("k", nil))
		r.next(id)
		r.next(id)
		f := r.call("agent", run("k", func(p object) { p["agentId"] = "beta"; p["message"] = "other" }))
		if !f.OK || f.Payload["status"] != "ok" {
			t.Errorf("replay %+v", f)
		}
		if runs := g.Runs(); len(runs) != 1 || runs[0].AgentID != "alpha" {
			t.Errorf("runs %+v", runs)
		}
	})
}

func TestKeyInFlight(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		release := make(chan struct{})
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			o.Agents = []gatewaytest.Agent{{ID: "alpha", Do: func(context.Context, gatewaytest.Run) error { <-release; return nil }}}
		})
		r := connected(t, g)
		id := r.ask("agent", run("k", nil))
		first := r.next(id)
		again := r.call("agent", run("k", nil))
		want := "accepted"
		if newer(p) {
			want = "in_flight"
		}
		if !again.OK || again.Payload["status"] != want {
			t.Errorf("again %+v, want %s", again, want)
		}
		if !newer(p) && again.Payload["acceptedAt"] != first.Payload["acceptedAt"] {
			t.Error("another acceptedAt")
		}
		close(release)
		r.next(id)
		if n := len(g.Runs()); n != 1 {
			t.Errorf("%d runs", n)
		}
	})
}

// What a forgotten key does is opposite in the two versions.
func TestKeyForgotten(t *testing.T) {
	forget := map[string]func(g *gatewaytest.Gateway) error{
		"after five minutes": func(g *gatewaytest.Gateway) error { g.Advance(5*time.Minute + time.Second); return nil },
		"by a restart":       (*gatewaytest.Gateway).Restart,
		"by a crash":         (*gatewaytest.Gateway).Crash,
	}
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		for name, f := range forget {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g := gatewaytest.Start(t, p)
				r := connected(t, g)
				id := r.ask("agent", run("k", nil))
				r.next(id)
				r.next(id)
				if err := f(g); err != nil {
					t.Fatal(err)
				}
				r = connected(t, g)
				id = r.ask("agent", run("k", nil))
				if f := r.next(id); f.Payload["status"] != "accepted" {
					t.Fatalf("first response %+v", f)
				}
				end := r.next(id)
				if newer(p) {
					if !end.OK || end.Payload["status"] != "error" || end.Payload["summary"] != "failed" || len(g.Runs()) != 1 {
						t.Errorf("end %+v, runs %+v", end, g.Runs())
					}
					return
				}
				if end.Payload["status"] != "ok" || len(g.Runs()) != 2 {
					t.Errorf("end %+v, runs %+v", end, g.Runs())
				}
			})
		}
	})
}

// In another session even 2026.9.6 runs a forgotten key.
func TestKeyForgottenOtherSession(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		r := connected(t, g)
		for _, session := range []string{"agent:alpha:main", "agent:alpha:other"} {
			id := r.ask("agent", run("k", func(p object) { p["sessionKey"] = session }))
			r.next(id)
			if f := r.next(id); f.Payload["status"] != "ok" {
				t.Errorf("%s: %+v", session, f)
			}
			g.Advance(time.Hour)
		}
		if n := len(g.Runs()); n != 2 {
			t.Errorf("%d runs", n)
		}
	})
}

func TestModelFails(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			o.Agents = []gatewaytest.Agent{{ID: "alpha", Do: func(context.Context, gatewaytest.Run) error {
				return errors.New("rig failure")
			}}}
		})
		r := connected(t, g)
		id := r.ask("agent", run("k", nil))
		r.next(id)
		f := r.next(id)
		if newer(p) {
			if f.OK || f.Error.Code != "UNAVAILABLE" || f.Payload["status"] != "error" {
				t.Errorf("end %+v", f)
			}
		} else if !f.OK || f.Payload["status"] != "ok" {
			t.Errorf("end %+v", f)
		}
		// Remembered too.
		if again := r.call("agent", run("k", nil)); again.OK != f.OK || len(g.Runs()) != 1 {
			t.Errorf("again %+v, runs %+v", again, g.Runs())
		}
	})
}

// obedient is an agent that goes on until it is told to stop.
func obedient(o *gatewaytest.Options) {
	o.Agents = []gatewaytest.Agent{{ID: "alpha", Do: func(ctx context.Context, _ gatewaytest.Run) error {
		<-ctx.Done()
		return ctx.Err()
	}}}
}

func TestRunTimesOut(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		r := connected(t, gatewaytest.Start(t, p, obedient))
		id := r.ask("agent", run("k", func(p object) { p["timeout"] = 0.01 }))
		r.next(id)
		want := "ok" // 2026.3.13 hides it
		if newer(p) {
			want = "timeout"
		}
		if f := r.next(id); !f.OK || f.Payload["status"] != want || newer(p) != (f.Payload["timeoutPhase"] == "provider") {
			t.Errorf("end %+v", f)
		}
		if f := r.call("agent.wait", object{"runId": "k", "timeoutMs": 1}); f.Payload["status"] != want || f.Payload["endedAt"] == nil {
			t.Errorf("wait: %+v", f)
		}
	})
}

func TestAbort(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p, obedient)
		r := connected(t, g)
		if f := r.call("sessions.abort", object{"runId": "unknown"}); f.OK {
			t.Errorf("abort of nothing: %+v", f)
		}
		id := r.ask("agent", run("k", nil))
		r.next(id)
		g.Until(t, func() bool { return len(g.Runs()) == 1 })
		abort := r.ask("sessions.abort", object{"runId": "k"})
		if !newer(p) {
			if f := r.next(abort); f.OK {
				t.Errorf("abort: %+v", f)
			}
			return
		}
		if f := r.next(id); !f.OK || f.Payload["status"] != "timeout" || f.Payload["stopReason"] != "rpc" {
			t.Errorf("end %+v", f)
		}
		if f := r.call("agent.wait", object{"runId": "k", "timeoutMs": 1}); f.Payload["status"] != "error" || f.Payload["endedAt"] == nil {
			t.Errorf("wait: %+v", f)
		}
	})
}

func TestAgentWait(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		release := make(chan struct{})
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			o.Agents = []gatewaytest.Agent{{ID: "alpha", Do: func(context.Context, gatewaytest.Run) error { <-release; return nil }}}
		})
		r := connected(t, g)
		id := r.ask("agent", run("k", nil))
		r.next(id)
		for _, runID := range []string{"k", "unknown"} {
			f := r.call("agent.wait", object{"runId": runID, "timeoutMs": 1})
			if !f.OK || f.Payload["status"] != "timeout" || f.Payload["endedAt"] != nil {
				t.Errorf("%s: %+v", runID, f)
			}
		}
		waiting := r.ask("agent.wait", object{"runId": "k", "timeoutMs": 30000})
		close(release)
		if f := r.next(waiting); f.Payload["status"] != "ok" || f.Payload["endedAt"] == nil {
			t.Errorf("ended: %+v", f)
		}
		g.Advance(11 * time.Minute)
		if f := r.call("agent.wait", object{"runId": "k", "timeoutMs": 1}); f.Payload["endedAt"] != nil {
			t.Errorf("after ten minutes: %+v", f)
		}
	})
}

func TestRestartDuringRun(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		release := make(chan struct{})
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			o.Agents = []gatewaytest.Agent{{ID: "alpha", Do: func(ctx context.Context, _ gatewaytest.Run) error {
				select {
				case <-release:
				case <-ctx.Done():
				}
				return ctx.Err()
			}}}
		})
		r := connected(t, g)
		id := r.ask("agent", run("k", nil))
		r.next(id)
		g.Until(t, func() bool { return len(g.Runs()) == 1 })
		restarted := make(chan error)
		go func() { restarted <- g.Restart() }()
		if newer(p) {
			g.Until(t, func() bool { return !r.call("health", object{}).OK }) // draining
			close(release)
			if f := r.next(id); f.Payload["status"] != "ok" {
				t.Errorf("drained run: %+v", f)
			}
		}
		shutdown := false
		for {
			f, err := r.read()
			shutdown = shutdown || f.Event == "shutdown"
			if err != nil {
				break
			}
			if f.Type == "res" && f.ID == id {
				t.Errorf("second response %+v", f)
			}
		}
		if !shutdown {
			t.Error("no shutdown event")
		}
		if err := <-restarted; err != nil {
			t.Fatal(err)
		}
		want := "dropped"
		if newer(p) {
			want = "ok"
		}
		if runs := g.Runs(); len(runs) != 1 || runs[0].Status != want {
			t.Errorf("runs %+v, want one that is %s", runs, want)
		}
	})
}

// After a crash 2026.9.6 resumes the turn by itself, under a new run id.
func TestCrashDuringRun(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			o.Agents = []gatewaytest.Agent{{ID: "alpha", Do: func(ctx context.Context, run gatewaytest.Run) error {
				if run.Boot == 1 {
					<-ctx.Done()
				}
				return ctx.Err()
			}}}
		})
		r := connected(t, g)
		r.next(r.ask("agent", run("k", nil)))
		g.Until(t, func() bool { return len(g.Runs()) == 1 })
		if err := g.Crash(); err != nil {
			t.Fatal(err)
		}
		r = connected(t, g)
		if newer(p) {
			g.Until(t, func() bool { runs := g.Runs(); return len(runs) == 2 && runs[1].Status == "ok" })
			if again := g.Runs()[1]; !again.Resumed || again.RunID == "k" || again.Key != "k" || again.Message != "hello rig" {
				t.Errorf("resumed as %+v", again)
			}
		}
		f := r.call("agent.wait", object{"runId": "k", "timeoutMs": 1})
		if f.Payload["status"] != "timeout" || f.Payload["endedAt"] != nil {
			t.Errorf("wait for the old id: %+v", f)
		}
		if first := g.Runs()[0]; first.Status != "dropped" {
			t.Errorf("first run %+v", first)
		}
	})
}

func TestAfterHandshake(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		r := connected(t, gatewaytest.Start(t, p))
		r.send("no JSON") // ignored
		r.send(`{"type":"req","id":7,"method":"health"}`)
		if f := r.next(float64(7)); f.OK || f.Error.Message != "invalid request frame: at /id: must be string" {
			t.Errorf("numeric id: %+v", f)
		}
		f := r.call("no.such", object{})
		if f.OK || f.Error.Message != "missing scope: operator.admin" {
			t.Errorf("unknown method: %+v", f)
		}
		f = r.call("agents.list", object{})
		if agents, _ := f.Payload["agents"].([]any); !f.OK || len(agents) != 2 || f.Payload["defaultId"] != "alpha" {
			t.Errorf("agents.list: %+v", f)
		}
	})
}
