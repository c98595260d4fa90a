package gateway_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/dispatch/gateway"
	"otm/dispatch/gateway/gatewaytest"
)

func TestHello(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		hello, err := newClient(t, g).Hello(t.Context())
		if err != nil || hello.Version != p.Version || hello.Protocol != p.Protocol {
			t.Fatalf("hello %+v, %v", hello, err)
		}
		if !newer(p) {
			if hello.Scopes != nil || hello.BootID != "" {
				t.Errorf("hello %+v", hello)
			}
			return
		}
		if !slices.Equal(hello.Scopes, []string{"operator.read", "operator.write"}) || hello.BootID == "" {
			t.Errorf("hello %+v", hello)
		}
	})
}

func TestAgents(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			o.Agents = []gatewaytest.Agent{{ID: "alpha", Name: "Alpha", Workspace: "/w/alpha"}, {ID: "beta"}}
		})
		got, err := newClient(t, g).Agents(t.Context())
		want := []gateway.Agent{{ID: "alpha", Name: "Alpha", Default: true}, {ID: "beta"}}
		if newer(p) {
			want[0].Workspace = "/w/alpha"
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("agents %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestWait(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		release := make(chan struct{})
		g := gatewaytest.Start(t, p, blocked(release))
		ended := make(ends, 1)
		c := newClient(t, g, func(cfg *gateway.Config) { cfg.OnEnd = ended.hear })
		mustRun(t, c, "k")
		for _, id := range []string{"k", "never-seen"} {
			if s, err := c.Wait(t.Context(), id); err != nil || s.Ended || s.RunID != id || s.Status != gateway.StatusTimeout {
				t.Errorf("%s: %+v, %v", id, s, err)
			}
		}
		close(release)
		ended.next(t)
		s, err := c.Wait(t.Context(), "k")
		if err != nil || !s.Ended || s.Status != gateway.StatusOK || s.EndedAt.IsZero() {
			t.Errorf("ended: %+v, %v", s, err)
		}
		g.Drain()
		_, err = c.Wait(t.Context(), "k")
		var refused *gateway.RefusedError
		if !errors.As(err, &refused) || refused.Code != "UNAVAILABLE" || refused.Reason != "gateway-restarting" || refused.RetryAfter != time.Second {
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
		_, err := c.Hello(t.Context())
		if !errors.Is(err, gateway.ErrNotSent) {
			t.Errorf("hello: %v", err)
		}
		if _, err = c.Agents(t.Context()); !errors.Is(err, gateway.ErrNotSent) {
			t.Errorf("agents: %v", err)
		}
		if _, err = c.Wait(t.Context(), "k"); !errors.Is(err, gateway.ErrNotSent) {
			t.Errorf("wait: %v", err)
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
		if _, err := newClient(t, g, long, impatient).Wait(t.Context(), "k"); !errors.Is(err, gateway.ErrLost) {
			t.Errorf("unanswered: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() {
			_, err := c.Wait(ctx, "k")
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

func TestURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"ws://127.0.0.1:18789", "ws://localhost:18789", "http://127.0.0.1:1/any/path", "ws://[::1]:1", "ws://127.9.9.9",
		"wss://gateway.example.org", "https://gateway.example.org:443", "WS://LocalHost:1", "ws://[::ffff:127.0.0.1]:1",
	} {
		if err := gateway.CheckURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{
		"", "127.0.0.1:18789", "ws://", "ws://10.0.0.1:18789", "http://example.org", "ws://0.0.0.0:1", "ws://[::]:1",
		"ftp://127.0.0.1", "ws://127.0.0.1.example.org", "ws://localhost.example.org", "ws://user:secret@127.0.0.1:1",
		"ws://127.0.0.1:1/?token=secret", "ws://127.0.0.1:1/#secret", "ws://127.0.0.1:1\x00secret", "ws://2130706433:1",
	} {
		err := gateway.CheckURL(url)
		var urlErr *gateway.URLError
		if !errors.As(err, &urlErr) || !errors.Is(err, gateway.ErrOperator) {
			t.Errorf("%s: %v", url, err)
			continue
		}
		c := gateway.New(gateway.Config{URL: url})
		if _, got := run(t, c, "k"); !errors.As(got, &urlErr) {
			t.Errorf("%s: run: %v", url, got)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
		c.Close()
	}
}
