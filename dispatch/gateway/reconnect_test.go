package gateway_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"otm/dispatch/gateway"
	"otm/dispatch/gateway/gatewaytest"
)

// B53: connections are refused for a while. Then the wake is delivered, under the
// key of its first request.
func TestRefusedConnections(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		pauses := newPauses()
		c := newClient(t, g, func(cfg *gateway.Config) { cfg.After = pauses.after })
		g.Kill()
		booted := make(chan error, 1)
		go func() {
			for range 4 {
				<-pauses.each
			}
			booted <- g.Boot()
		}()
		mustRun(t, c, "k")
		asked(t, g, "k", 1)
		if err := <-booted; err != nil {
			t.Fatal(err)
		}
		executed(t, g, "k", 1)
	})
}

// Each fault on the way to hello-ok that passes by itself.
func TestFaultsOfTheHandshake(t *testing.T) {
	tests := map[string]gatewaytest.DialFault{
		"503":               gatewaytest.DialStatus(http.StatusServiceUnavailable),
		"502 of a proxy":    gatewaytest.DialStatus(http.StatusBadGateway),
		"reset":             gatewaytest.DialReset(),
		"starting, 1013":    gatewaytest.DialStarting(),
		"handshake limit":   gatewaytest.DialStall(), // 1000 without a reason
		"1000":              gatewaytest.DialCut(1000, ""),
		"1008 unexplained":  gatewaytest.DialCut(1008, "invalid request frame"),
		"1001":              gatewaytest.DialCut(1001, ""),
		"EOF, 1006":         gatewaytest.DialCut(gatewaytest.CutEOF, ""),
		"reset after hello": gatewaytest.DialCut(gatewaytest.CutReset, ""),
		"1012":              gatewaytest.DialCut(1012, "service restart"),
		"1013 unexplained":  gatewaytest.DialCut(1013, ""),
	}
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		for name, fault := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
					if name == "handshake limit" {
						o.HandshakeLimit = 100 * time.Millisecond
					}
				})
				c := newClient(t, g)
				g.InjectDial(fault, fault)
				mustRun(t, c, "k")
				asked(t, g, "k", 1)
				executed(t, g, "k", 1)
			})
		}
	})
}

// The client leaves a silent gateway after its own limit.
func TestHandshakeTimeout(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		c := newClient(t, g, func(cfg *gateway.Config) { cfg.HandshakeTimeout = 100 * time.Millisecond })
		g.InjectDial(gatewaytest.DialStall())
		mustRun(t, c, "k")
		executed(t, g, "k", 1)
	})
}

func TestDraining(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		for _, connected := range []bool{true, false} {
			g := gatewaytest.Start(t, p)
			pauses := newPauses()
			c := newClient(t, g, func(cfg *gateway.Config) { cfg.After = pauses.after })
			if connected {
				if _, err := c.Hello(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			g.Drain()
			go func() {
				<-pauses.each
				<-pauses.each
				g.Ready()
			}()
			mustRun(t, c, "k")
			executed(t, g, "k", 1)
		}
	})
}

// The pause that an answer or a refused handshake asks for is honoured.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Profile2026_9_6)
	pauses := newPauses()
	c := newClient(t, g, func(cfg *gateway.Config) {
		cfg.After = pauses.after
		cfg.MinBackoff, cfg.MaxBackoff = time.Microsecond, time.Microsecond
	})
	g.InjectDial(gatewaytest.DialStarting())
	g.Inject(gatewaytest.Unavailable)
	mustRun(t, c, "k")
	want := []time.Duration{500 * time.Millisecond, time.Second}
	if got := pauses.all(); !slices.Equal(got, want) {
		t.Errorf("paused %v, want %v", got, want)
	}
}

// A restart of the gateway between two wakes and during a run.
func TestRestart(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		c := newClient(t, g)
		mustRun(t, c, "k-1")
		executed(t, g, "k-1", 1)
		if err := g.Restart(); err != nil {
			t.Fatal(err)
		}
		mustRun(t, c, "k-2")
		executed(t, g, "k-2", 1)
	})
}

// After a crash the gateway does not know the run; 2026.9.6 resumes it by itself.
func TestCrash(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		release := make(chan struct{})
		g := gatewaytest.Start(t, p, blocked(release))
		c := newClient(t, g)
		mustRun(t, c, "k")
		g.Until(t, func() bool { return len(g.Runs()) == 1 })
		if err := g.Crash(); err != nil {
			t.Fatal(err)
		}
		g.Until(t, func() bool { // the client notices
			end, over, err := c.Wait(t.Context(), "k")
			if over {
				t.Errorf("wait: %+v, %v", end, err)
			}
			return err == nil
		})
		if end, over, goesOn, err := c.Ended(t.Context(), "alpha", "k"); over || goesOn != newer(p) || err != nil {
			t.Errorf("after the crash: %+v, over %v, goes on %v, %v", end, over, goesOn, err)
		}
		close(release)
		want := 1
		if newer(p) {
			want = 2
		}
		executed(t, g, "k", want)
		g.Until(t, func() bool { // the resumed run is over
			end, over, _, err := c.Ended(t.Context(), "alpha", "k")
			if err != nil || over && (end.Status != gateway.StatusOK || end.RunID != "k" || end.At.IsZero()) {
				t.Errorf("in the end: %+v, %v", end, err)
			}
			return over == newer(p)
		})
	})
}

// TestEndedLongAgo: agent.wait forgets an end after ten minutes. 2026.9.6 tells it by its list.
func TestEndedLongAgo(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		c := newClient(t, g)
		mustRun(t, c, "k")
		g.Until(t, func() bool { return len(g.Runs()) == 1 && g.Runs()[0].Status != "" })
		g.Advance(20 * time.Minute)
		end, over, goesOn, err := c.Ended(t.Context(), "alpha", "k")
		if over != newer(p) || goesOn || err != nil || over && (end.Status != gateway.StatusOK || end.At.IsZero()) {
			t.Errorf("%+v, over %v, goes on %v, %v", end, over, goesOn, err)
		}
		if _, over, goesOn, err := c.Ended(t.Context(), "alpha", "never"); over || goesOn || err != nil {
			t.Errorf("of an unknown run: over %v, goes on %v, %v", over, goesOn, err)
		}
	})
}

// TestRestarted: a client tells another process of the gateway from the same one, to which
// the connection was lost: by its boot id, or by its uptime where it has none.
func TestRestarted(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		servers := make(chan *gateway.Server, 100)
		pauses := newPauses()
		newClient(t, g, func(cfg *gateway.Config) {
			cfg.After = pauses.after
			cfg.OnLink = func(s *gateway.Server, _ error) {
				if s != nil {
					servers <- s
				}
			}
		})
		first := <-servers
		if first.Version != p.Version || (first.BootID != "") != newer(p) {
			t.Errorf("server %+v", first)
		}
		g.Cut(gatewaytest.CutReset)
		again := <-servers
		if again.Restarted(first) {
			t.Errorf("the same process counts as another one: %+v, before %+v", again, first)
		}
		// The uptime proves a restart once the new process is younger than our question is old.
		for before := again; ; before = again {
			if err := g.Restart(); err != nil {
				t.Fatal(err)
			}
			if again = <-servers; again.Restarted(before) {
				return
			}
			if newer(p) {
				t.Fatalf("a restart was not noticed: %+v, before %+v", again, before)
			}
		}
	})
}
