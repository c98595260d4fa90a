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

// lostAnswers are faults after which no answer arrives; in some the run takes
// place.
var lostAnswers = []gatewaytest.Fault{
	gatewaytest.NoAnswer,
	gatewaytest.DropUnqueued,
	gatewaytest.DropQueued,
	gatewaytest.DropExecuted,
	gatewaytest.NeverDelivered,
}

// One key is one run, whatever happens to the first answer and to the second.
func TestLostAnswers(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		for _, first := range lostAnswers {
			for _, second := range append(lostAnswers, gatewaytest.None, gatewaytest.Unavailable) {
				t.Run(first.String()+","+second.String(), func(t *testing.T) {
					t.Parallel()
					g := gatewaytest.Start(t, p)
					c := newClient(t, g, impatient)
					g.Inject(first, second)
					mustRun(t, c, "k")
					if n := g.Asked("k"); n < 2 {
						t.Errorf("asked %d times", n)
					}
					executed(t, g, "k", 1)
					g.Advance(4 * time.Minute)
					mustRun(t, c, "k")
					executed(t, g, "k", 1)
				})
			}
		}
	})
}

// B53: whatever cuts the connection, the request is repeated under its key.
func TestLostByClose(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		for name, how := range map[string]gatewaytest.Cut{
			"EOF, 1006": gatewaytest.CutEOF, "reset": gatewaytest.CutReset,
			"1000": 1000, "1001": 1001, "1008 slow consumer": 1008, "1011": 1011, "1012": 1012, "1013": 1013,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g := gatewaytest.Start(t, p)
				c := newClient(t, g)
				g.Inject(gatewaytest.DropUnqueued.By(how), gatewaytest.DropQueued.By(how))
				mustRun(t, c, "k")
				asked(t, g, "k", 3)
				executed(t, g, "k", 1)
				for _, r := range g.Requests() {
					if r.Key != "k" {
						t.Errorf("asked under key %q", r.Key)
					}
				}
			})
		}
	})
}

// An answer to an earlier request of the same run ends up nowhere, and does no
// harm.
func TestLateAcceptance(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		release := make(chan struct{})
		g := gatewaytest.Start(t, p, blocked(release))
		c := newClient(t, g, impatient)
		g.Reorder(3)
		mustRun(t, c, "k")
		if n := g.Asked("k"); n < 3 {
			t.Errorf("asked %d times", n)
		}
		close(release)
		executed(t, g, "k", 1)
	})
}

// The end of the run may overtake its acceptance.
func TestEndFirst(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		ended := newEnds()
		c := newClient(t, g, func(cfg *gateway.Config) { cfg.OnEnd = ended.hear })
		g.Reorder(2) // holds the acceptance
		mustRun(t, c, "k-1")
		ended.until(t, "k-1 ok")
		mustRun(t, c, "k-2")
		executed(t, g, "k-1", 1)
	})
}

func TestOutcomes(t *testing.T) {
	many := func(f gatewaytest.Fault) []gatewaytest.Fault {
		return slices.Repeat([]gatewaytest.Fault{f}, 10000)
	}
	tests := []struct {
		name    string
		spoil   func(g *gatewaytest.Gateway)
		is, not []error
		later   bool
	}{
		{"never reached", func(g *gatewaytest.Gateway) { g.Kill() },
			nil, []error{gateway.ErrLost, gateway.ErrOperator}, false},
		{"never answered", func(g *gatewaytest.Gateway) { g.Inject(many(gatewaytest.NoAnswer)...) },
			[]error{gateway.ErrLost}, []error{gateway.ErrOperator}, false},
		{"always cut", func(g *gatewaytest.Gateway) { g.Inject(many(gatewaytest.DropUnqueued)...) },
			[]error{gateway.ErrLost}, []error{gateway.ErrOperator}, false},
		{"always put off", func(g *gatewaytest.Gateway) { g.Inject(many(gatewaytest.Unavailable)...) },
			nil, []error{gateway.ErrLost, gateway.ErrOperator}, true},
		{"cut, then put off", func(g *gatewaytest.Gateway) {
			g.Inject(append([]gatewaytest.Fault{gatewaytest.DropUnqueued}, many(gatewaytest.Unavailable)...)...)
		}, []error{gateway.ErrLost}, nil, true},
	}
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				g := gatewaytest.Start(t, p)
				ctx, cancel := context.WithCancel(t.Context())
				pauses := newPauses()
				c := newClient(t, g, func(cfg *gateway.Config) {
					cfg.After = func(d time.Duration) <-chan time.Time {
						if len(pauses.all()) == 5 {
							cancel() // in a pause, when no request is on its way
							return nil
						}
						return pauses.after(d)
					}
					if tt.name == "never answered" {
						impatient(cfg)
					}
				})
				tt.spoil(g)
				err := c.Run(ctx, "alpha", "hello", "k")
				for _, target := range append(tt.is, context.Canceled) {
					if !errors.Is(err, target) {
						t.Errorf("err %v is not %v", err, target)
					}
				}
				for _, target := range tt.not {
					if errors.Is(err, target) {
						t.Errorf("err %v is %v", err, target)
					}
				}
				if errors.Is(err, gateway.ErrLater) != tt.later {
					t.Errorf("err %v, ErrLater wanted: %v", err, tt.later)
				}
			})
		}
	})
}

// A lost answer and then a refusal: the error must say both.
func TestLostAndThenRefused(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		t.Run("token", func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.Start(t, p)
			c := newClient(t, g)
			if _, err := c.Hello(t.Context()); err != nil {
				t.Fatal(err)
			}
			g.Inject(gatewaytest.DropQueued)
			g.InjectDial(gatewaytest.DialRefuse("AUTH_TOKEN_MISMATCH"))
			err := run(t, c, "k")
			if !errors.Is(err, gateway.ErrLost) || !errors.Is(err, gateway.ErrOperator) {
				t.Errorf("err %v", err)
			}
			executed(t, g, "k", 1)
		})
		t.Run("agent", func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.Start(t, p)
			c := newClient(t, g)
			g.Inject(gatewaytest.DropUnqueued)
			err := c.Run(t.Context(), "gamma", "hello", "k")
			refusedAs(t, err, gateway.ReasonUnknownAgent)
			if !errors.Is(err, gateway.ErrLost) {
				t.Errorf("err %v", err)
			}
		})
	})
}
