package gateway_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"otm/dispatch/gateway"
	"otm/dispatch/gateway/gatewaytest"
)

func TestAgents(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			o.Agents = []gatewaytest.Agent{{ID: "alpha", Name: "Alpha", Workspace: "/w/alpha"}, {ID: "beta"}}
		})
		got, err := newClient(t, g).Agents(t.Context())
		want := []gateway.Agent{{ID: "alpha"}, {ID: "beta"}}
		if newer(p) {
			want[0].Workspace = "/w/alpha"
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("agents %+v, %v, want %+v", got, err, want)
		}
	})
}

// TestWorkspaces: both versions tell where their agents work.
func TestWorkspaces(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			o.Agents = []gatewaytest.Agent{{ID: "alpha", Name: "Alpha", Workspace: "/w/alpha"}, {ID: "beta"}}
		})
		got, err := newClient(t, g).Workspaces(t.Context())
		if want := []gateway.Agent{{ID: "alpha", Workspace: "/w/alpha"}, {ID: "beta"}}; err != nil || !slices.Equal(got, want) {
			t.Errorf("agents %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestWait(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		release := make(chan struct{})
		g := gatewaytest.Start(t, p, blocked(release))
		ended := newEnds()
		c := newClient(t, g, func(cfg *gateway.Config) { cfg.OnEnd = ended.hear })
		mustRun(t, c, "k")
		for _, id := range []string{"k", "never-seen"} {
			if end, over, err := c.Wait(t.Context(), id); err != nil || over || end.RunID != id || end.Status != gateway.StatusTimeout {
				t.Errorf("%s: %+v, %t, %v", id, end, over, err)
			}
		}
		close(release)
		ended.until(t, "k ok")
		end, over, err := c.Wait(t.Context(), "k")
		if err != nil || !over || end.Status != gateway.StatusOK || end.At.IsZero() {
			t.Errorf("ended: %+v, %t, %v", end, over, err)
		}
		g.Drain()
		_, _, err = c.Wait(t.Context(), "k")
		var refused *gateway.Error
		if !errors.As(err, &refused) || !errors.Is(err, gateway.ErrLater) || refused.RetryAfter != time.Second {
			t.Errorf("draining: %v", err)
		}
	})
}

// Calls other than Run try once.
func TestCallsTryOnce(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		c := newClient(t, g)
		g.Kill()
		_, hello := c.Hello(t.Context())
		_, agents := c.Agents(t.Context())
		_, _, wait := c.Wait(t.Context(), "k")
		for _, err := range []error{hello, agents, wait} {
			if err == nil || errors.Is(err, gateway.ErrLost) || errors.Is(err, gateway.ErrOperator) {
				t.Errorf("error %v", err)
			}
		}
	})
}

func TestCallUnanswered(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		release := make(chan struct{})
		g := gatewaytest.Start(t, p, blocked(release))
		long := func(cfg *gateway.Config) { cfg.WaitTimeout = time.Hour }
		c := newClient(t, g, long)
		mustRun(t, c, "k")
		if _, _, err := newClient(t, g, long, impatient).Wait(t.Context(), "k"); !errors.Is(err, gateway.ErrLost) {
			t.Errorf("unanswered: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() {
			_, _, err := c.Wait(ctx, "k")
			result <- err
		}()
		g.Until(t, func() bool {
			requests := g.Requests()
			return requests[len(requests)-1].Method == "agent.wait" && requests[len(requests)-1].Conn == 1
		})
		cancel()
		if err := <-result; !errors.Is(err, gateway.ErrLost) || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		close(release)
	})
}
