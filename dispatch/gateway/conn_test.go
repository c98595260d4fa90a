package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/dispatch/gateway"
	"otm/dispatch/gateway/gatewaytest"
)

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// fifty are the agents of a squad.
func fifty(o *gatewaytest.Options) {
	for i := range 50 {
		o.Agents = append(o.Agents, gatewaytest.Agent{ID: fmt.Sprintf("agent-%02d", i)})
	}
}

// All agents at once, on one connection, with the answers in reverse order:
// each call gets its own.
func TestManyAtOnce(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p, fifty)
		c := newClient(t, g)
		g.Reorder(50)
		var wg sync.WaitGroup
		for i := range 50 {
			agent := fmt.Sprintf("agent-%02d", i)
			key := "otm-" + agent + "-1"
			wg.Go(func() {
				if err := c.Run(t.Context(), agent, "hello", key); err != nil {
					t.Errorf("%s: %v", agent, err)
				}
				asked(t, g, key, 1)
			})
		}
		wg.Wait()
		g.Until(t, func() bool { return len(g.Runs()) == 50 })
		for _, r := range g.Runs() {
			if r.Key != "otm-"+r.AgentID+"-1" {
				t.Errorf("ran %+v", r)
			}
		}
		if made, open := g.Connections(); made != 1 || open != 1 {
			t.Errorf("%d connections made, %d open", made, open)
		}
	})
}

// C63: an accept that takes its time holds up no other wake.
func TestC63SlowAcceptHoldsUpNobody(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		c := newClient(t, g)
		g.Inject(gatewaytest.NoAnswer)
		ctx, cancel := context.WithCancel(t.Context())
		slow := make(chan error)
		go func() { slow <- c.Run(ctx, "alpha", "hello", "k-slow") }()
		g.Until(t, func() bool { return g.Asked("k-slow") == 1 })
		for _, key := range []string{"k-1", "k-2"} {
			if err := c.Run(t.Context(), "beta", "hello", key); err != nil {
				t.Error(err)
			}
		}
		cancel()
		if err := <-slow; !errors.Is(err, gateway.ErrLost) {
			t.Errorf("the slow one: %v", err)
		}
	})
}

func TestLargeHello(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		g.PadHello(200 << 10)
		c := newClient(t, g)
		if version, err := c.Hello(t.Context()); err != nil || version != p.Version {
			t.Errorf("hello %s, %v", version, err)
		}
		mustRun(t, c, "k")
	})
}

// A frame at the read limit passes; one that is a byte longer ends the
// connection, and the next call makes another.
func TestReadLimit(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	g := gatewaytest.Start(t, gatewaytest.Profile2026_9_6)
	c := newClient(t, g, func(cfg *gateway.Config) { cfg.ReadLimit = limit })
	mustRun(t, c, "k-1")
	g.Broadcast(strings.Repeat("x", limit))
	mustRun(t, c, "k-2")
	if made, _ := g.Connections(); made != 1 {
		t.Fatalf("at the limit: %d connections", made)
	}
	g.Broadcast(strings.Repeat("x", limit+1))
	g.Until(t, func() bool { _, open := g.Connections(); return open == 0 })
	mustRun(t, c, "k-3")
	if made, _ := g.Connections(); made != 2 {
		t.Errorf("past the limit: %d connections", made)
	}
}

// An idle client answers the gateway's pings: it is not cut off.
func TestAnswersPings(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Profile2026_9_6, func(o *gatewaytest.Options) {
		o.PingEvery, o.PongLimit = 5*time.Millisecond, time.Minute
	})
	c := newClient(t, g)
	if _, err := c.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.Until(t, func() bool { return g.Pongs() >= 5 })
	mustRun(t, c, "k")
}

// The client leaves a gateway that shows no sign of life.
func TestDeadConnection(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) { o.PingEvery = -1 })
		c := newClient(t, g, func(cfg *gateway.Config) {
			cfg.PingEvery, cfg.PingTimeout = 10*time.Millisecond, 10*time.Millisecond
		})
		g.IgnorePings()
		if _, err := c.Hello(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.Until(t, func() bool { made, open := g.Connections(); return made == 1 && open == 0 })
	})
}

// Odd frames are ignored.
func TestOddFrames(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		c := newClient(t, g)
		mustRun(t, c, "k-1")
		for _, frame := range []string{
			``, `null`, `[]`, `7`, `"x"`, `{`, `{}`, `{"type":7}`, `{"type":"res"}`, `{"type":"res","id":7,"ok":true}`,
			`{"type":"res","id":"","ok":"yes"}`, `{"type":"res","id":"99:k","ok":false,"error":"no object"}`,
			`{"type":"event"}`, `{"type":"event","event":null,"payload":1e999}`, `{"type":"req","id":"1","method":"x"}`,
			"{\"type\":\"event\",\"event\":\"\xff\xfe\"}", strings.Repeat("[", 100000),
		} {
			g.Broadcast(frame)
		}
		mustRun(t, c, "k-2")
		if made, _ := g.Connections(); made != 1 {
			t.Errorf("%d connections", made)
		}
	})
}

func TestClose(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		c := newClient(t, g)
		g.Inject(gatewaytest.NoAnswer)
		result := make(chan error)
		go func() { result <- c.Run(t.Context(), "alpha", "hello", "k") }()
		g.Until(t, func() bool { return g.Asked("k") == 1 })
		c.Close()
		if err := <-result; !errors.Is(err, gateway.ErrClosed) || !errors.Is(err, gateway.ErrLost) {
			t.Errorf("open call: %v", err)
		}
		c.Close()
		if err := run(t, c, "k"); !errors.Is(err, gateway.ErrClosed) || errors.Is(err, gateway.ErrLost) {
			t.Errorf("later run: %v", err)
		}
		if _, err := c.Hello(t.Context()); !errors.Is(err, gateway.ErrClosed) {
			t.Errorf("later hello: %v", err)
		}
		g.Until(t, func() bool { _, open := g.Connections(); return open == 0 })
	})
}

// Close does not wait for a gateway that hangs, nor for a pause.
func TestCloseWhileDialling(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*gatewaytest.Gateway){
		"hanging": func(g *gatewaytest.Gateway) { g.InjectDial(gatewaytest.DialStall()) },
		"pausing": func(g *gatewaytest.Gateway) { g.InjectDial(gatewaytest.DialStatus(503)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.Start(t, gatewaytest.Profile2026_9_6)
			pauses := newPauses()
			c := newClient(t, g, func(cfg *gateway.Config) {
				cfg.After = func(d time.Duration) <-chan time.Time { pauses.after(d); return nil } // for ever
			})
			spoil(g)
			result := make(chan error)
			go func() { result <- c.Run(context.Background(), "alpha", "hello", "k") }()
			if name == "pausing" {
				<-pauses.each
			} else {
				g.Until(t, func() bool { made, _ := g.Connections(); return made == 1 })
			}
			c.Close()
			if err := <-result; !errors.Is(err, gateway.ErrClosed) || errors.Is(err, gateway.ErrLost) {
				t.Errorf("open call: %v", err)
			}
		})
	}
}

// The upgrade has no Origin, which would make us a browser, and offers no
// compression.
func TestUpgradeHeaders(t *testing.T) {
	t.Parallel()
	headers := make(chan http.Header, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		http.NotFound(w, r)
	}))
	t.Cleanup(srv.Close)
	c := gateway.New(bare(srv.URL))
	t.Cleanup(func() { c.Close() })
	c.Hello(t.Context())
	h := <-headers
	for _, name := range []string{"Origin", "Sec-Websocket-Extensions", "Authorization"} {
		if h.Get(name) != "" {
			t.Errorf("header %s: %q", name, h.Get(name))
		}
	}
}
