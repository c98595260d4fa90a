package gateway_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"otm/dispatch/gateway"
	"otm/dispatch/gateway/gatewaytest"
)

// A target is a gateway with agents alpha and beta, whose model takes a moment
// over a message with SLOW in it and fails one with FAIL.
type target struct {
	name, url, token string
	asked            chan struct{} // closed when the slow run has been asked for again
}

// TestScenario holds for the fake, and for real gateways: URLs of those, with
// agents and a model as above, may stand in OTM_REAL_GATEWAYS, separated by
// spaces, their token in OTM_REAL_TOKEN.
func TestScenario(t *testing.T) {
	t.Parallel()
	var targets []target
	for _, p := range gatewaytest.Profiles() {
		p.HandshakeLimit = time.Minute
		asked := make(chan struct{})
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			do := func(ctx context.Context, run gatewaytest.Run) error {
				switch {
				case strings.Contains(run.Message, "FAIL"):
					return errors.New("rig failure")
				case strings.Contains(run.Message, "SLOW"):
					select {
					case <-asked:
					case <-ctx.Done():
					}
				}
				return ctx.Err()
			}
			o.Agents = []gatewaytest.Agent{{ID: "alpha", Do: do, Delay: time.Millisecond}, {ID: "beta", Do: do}}
			o.TokenDelay = func(int) time.Duration { return 0 }
		})
		targets = append(targets, target{"fake " + p.Version, g.URL(), g.Token(), asked})
	}
	for _, url := range strings.Fields(os.Getenv("OTM_REAL_GATEWAYS")) {
		targets = append(targets, target{"real " + url, url, os.Getenv("OTM_REAL_TOKEN"), make(chan struct{})})
	}
	for _, tt := range targets {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			(&scenario{target: tt, prefix: rand.Text() + "-"}).play(t)
		})
	}
}

type scenario struct {
	target
	prefix string // of keys: a real gateway remembers
	ended  ends
	c      *gateway.Client
	newer  bool
}

func (s *scenario) client(t *testing.T, token string) *gateway.Client {
	cfg := bare(s.url)
	cfg.OnEnd, cfg.Token = s.ended.hear, func() (string, error) { return token, nil }
	c := gateway.New(cfg)
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *scenario) run(t *testing.T, agent, message, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.c.Run(ctx, agent, message, s.prefix+key); err != nil {
		t.Fatalf("run %s: %v", key, err)
	}
}

// next waits for the end of a run of ours.
func (s *scenario) next(t *testing.T, key string, want gateway.Status) gateway.End {
	t.Helper()
	return s.ended.until(t, s.prefix+key+" "+string(want))
}

func (s *scenario) play(t *testing.T) {
	s.ended = newEnds()
	s.c = s.client(t, s.token)
	s.introductions(t)
	s.runs(t)
	s.failures(t)
	s.refusals(t)
}

func (s *scenario) introductions(t *testing.T) {
	version, err := s.c.Hello(t.Context())
	if err != nil || version == "" {
		t.Fatalf("version %q, %v", version, err)
	}
	s.newer = version >= gatewaytest.Profile2026_9_6.Version
	agents, err := s.c.Agents(t.Context())
	if err != nil || len(agents) != 2 || agents[0].ID != "alpha" || agents[1].ID != "beta" {
		t.Errorf("agents %+v, %v", agents, err)
	}
}

func (s *scenario) runs(t *testing.T) {
	s.run(t, "alpha", "SLOW, please", "1")
	s.run(t, "alpha", "SLOW, please", "1") // while it runs
	close(s.asked)
	if end := s.next(t, "1", gateway.StatusOK); end.LastWords == "" {
		t.Errorf("no last words: %+v", end)
	}
	for _, agent := range []string{"alpha", "beta"} { // remembered for any agent
		s.run(t, agent, "hello", "1")
		s.next(t, "1", gateway.StatusOK)
	}
	if end, over, err := s.c.Wait(t.Context(), s.prefix+"1"); err != nil || !over || end.Status != gateway.StatusOK || end.At.IsZero() {
		t.Errorf("wait: %+v, %t, %v", end, over, err)
	}
	if end, over, err := s.c.Wait(t.Context(), s.prefix+"never"); err != nil || over {
		t.Errorf("wait for an unknown run: %+v, %t, %v", end, over, err)
	}
	if skill, found, err := s.c.Skill(t.Context(), "alpha", "no-such-skill"); err != nil || found {
		t.Errorf("unknown skill: %+v, %t, %v", skill, found, err)
	}
}

func (s *scenario) failures(t *testing.T) {
	want := gateway.StatusOK
	if s.newer {
		want = gateway.StatusError
	}
	s.run(t, "beta", "FAIL, please", "2")
	s.next(t, "2", want)
	s.run(t, "beta", "hello", "2") // remembered
	s.next(t, "2", want)
}

func (s *scenario) refusals(t *testing.T) {
	err := s.c.Run(t.Context(), "gamma", "hello", s.prefix+"3")
	if refusedAs(t, err, gateway.ReasonUnknownAgent); errors.Is(err, gateway.ErrLost) {
		t.Errorf("unknown agent: %v", err)
	}
	_, err = s.client(t, "wrong-token").Hello(t.Context())
	operator(t, err, gateway.ReasonTokenWrong)
	_, err = s.client(t, "").Hello(t.Context())
	operator(t, err, gateway.ReasonTokenMissing)
}
