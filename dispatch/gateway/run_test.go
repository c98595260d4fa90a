package gateway_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"otm/dispatch/gateway"
	"otm/dispatch/gateway/gatewaytest"
)

func TestRun(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		ended := newEnds()
		c := newClient(t, g, func(cfg *gateway.Config) { cfg.OnEnd = ended.hear })
		mustRun(t, c, "k-1")
		asked(t, g, "k-1", 1)
		ended.until(t, "k-1 ok")
		executed(t, g, "k-1", 1)
		if r := g.Runs()[0]; r.AgentID != "alpha" || r.Message != "Task T-00044 dispatched." || r.SessionKey != "agent:alpha:main" {
			t.Errorf("ran %+v", r)
		}
	})
}

func TestRunRefused(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		c := newClient(t, g)
		err := c.Run(t.Context(), "gamma", "hello", "k")
		refusedAs(t, err, gateway.ReasonUnknownAgent)
		for _, other := range []error{gateway.ErrLost, gateway.ErrOperator, gateway.ErrLater} {
			if errors.Is(err, other) {
				t.Errorf("err %v is %v", err, other)
			}
		}
		asked(t, g, "k", 1)
	})
}

// refusedAs checks that err holds a refusal with a reason.
func refusedAs(t *testing.T, err error, want gateway.Reason) {
	t.Helper()
	var refused *gateway.Error
	if !errors.As(err, &refused) || refused.Reason != want {
		t.Errorf("err %v, want reason %s", err, want)
	}
}

func TestRunInFlight(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		release := make(chan struct{})
		g := gatewaytest.Start(t, p, blocked(release))
		ended := newEnds()
		c := newClient(t, g, func(cfg *gateway.Config) { cfg.OnEnd = ended.hear })
		mustRun(t, c, "k")
		mustRun(t, c, "k")
		if len(ended) != 0 {
			t.Errorf("ended while it runs: %+v", ended.end(t))
		}
		close(release)
		ended.until(t, "k ok")
		executed(t, g, "k", 1)
	})
}

// A key that the gateway remembers answers for any agent: the second one never
// runs. The answer is the end of the first run.
func TestRunRemembered(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		ended := newEnds()
		c := newClient(t, g, func(cfg *gateway.Config) { cfg.OnEnd = ended.hear })
		mustRun(t, c, "k")
		ended.until(t, "k ok")
		g.Advance(4 * time.Minute)
		for _, agent := range []string{"alpha", "beta"} {
			if err := c.Run(t.Context(), agent, "hello", "k"); err != nil {
				t.Errorf("%s: %v", agent, err)
			}
			ended.until(t, "k ok")
		}
		executed(t, g, "k", 1)
	})
}

// The same key after five minutes: a second run on one version, a failure
// without a run on the other.
func TestRunForgotten(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		ended := newEnds()
		c := newClient(t, g, func(cfg *gateway.Config) { cfg.OnEnd = ended.hear })
		mustRun(t, c, "k")
		ended.until(t, "k ok")
		g.Advance(6 * time.Minute)
		mustRun(t, c, "k")
		want, runs := "k ok", 2
		if newer(p) {
			want, runs = "k error", 1
		}
		ended.until(t, want)
		executed(t, g, "k", runs)
	})
}

func TestRunFails(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			o.Agents = []gatewaytest.Agent{{ID: "alpha", Do: func(context.Context, gatewaytest.Run) error {
				return errors.New("rig failure")
			}}}
		})
		ended := newEnds()
		c := newClient(t, g, func(cfg *gateway.Config) { cfg.OnEnd = ended.hear })
		mustRun(t, c, "k")
		want := gateway.StatusOK // 2026.3.13 hides it
		if newer(p) {
			want = gateway.StatusError
		}
		ended.until(t, "k "+string(want))
		// The failure is remembered: an answer like a refusal, and none.
		mustRun(t, c, "k")
		ended.until(t, "k "+string(want))
		executed(t, g, "k", 1)
	})
}

func TestRunTimesOut(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		p.RunLimit = 10 * time.Millisecond
		g := gatewaytest.Start(t, p, blocked(nil))
		ended := newEnds()
		c := newClient(t, g, func(cfg *gateway.Config) { cfg.OnEnd = ended.hear })
		mustRun(t, c, "k")
		want := gateway.StatusOK // 2026.3.13 hides it
		if newer(p) {
			want = gateway.StatusTimeout
		}
		ended.until(t, "k "+string(want))
		if end, over, err := c.Wait(t.Context(), "k"); err != nil || !over || end.Status != want {
			t.Errorf("wait: %+v, %t, %v", end, over, err)
		}
	})
}

// Accepted, and then nothing or the wrong thing.
func TestAcceptedMeansLittle(t *testing.T) {
	tests := []struct {
		fault gatewaytest.Fault
		end   string // none if empty
	}{
		{gatewaytest.AcceptThenFail, "k error"},
		{gatewaytest.OKWithoutWork, "k ok"},
		{gatewaytest.AcceptNeverRun, ""},
	}
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		for _, tt := range tests {
			t.Run(tt.fault.String(), func(t *testing.T) {
				t.Parallel()
				g := gatewaytest.Start(t, p)
				ended := newEnds()
				c := newClient(t, g, func(cfg *gateway.Config) { cfg.OnEnd = ended.hear })
				g.Inject(tt.fault)
				mustRun(t, c, "k")
				if tt.end != "" {
					ended.until(t, tt.end)
				} else if end, over, err := c.Wait(t.Context(), "k"); err != nil || over {
					t.Errorf("wait: %+v, %t, %v", end, over, err)
				}
				if runs := g.Runs(); len(runs) != 0 || g.Asked("k") != 1 {
					t.Errorf("asked %d times, runs %+v", g.Asked("k"), runs)
				}
			})
		}
	})
}

// B52: the connection drops after the acceptance and before the end. Asking
// again under the same key starts nothing.
func TestDroppedAfterAcceptance(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		for _, fault := range []gatewaytest.Fault{gatewaytest.AcceptDropBefore, gatewaytest.AcceptDropAfter} {
			t.Run(fault.String(), func(t *testing.T) {
				t.Parallel()
				g := gatewaytest.Start(t, p)
				c := newClient(t, g)
				g.Inject(fault)
				mustRun(t, c, "k")
				executed(t, g, "k", 1)
				g.Until(t, func() bool { _, open := g.Connections(); return open == 0 })
				if n := g.Asked("k"); n != 1 {
					t.Errorf("asked %d times after an acceptance", n)
				}
				mustRun(t, c, "k")
				executed(t, g, "k", 1)
			})
		}
	})
}
