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
	c := gateway.New(gateway.Config{
		URL: s.url, Version: "test", OnEnd: s.ended.hear,
		Token: func() (string, error) { return token, nil },
	})
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *scenario) run(t *testing.T, agent, message, key string) gateway.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := s.c.Run(ctx, agent, message, s.prefix+key)
	if err != nil {
		t.Fatalf("run %s: %v", key, err)
	}
	if got.RunID != s.prefix+key {
		t.Errorf("run %s: id %q", key, got.RunID)
	}
	return got.Status
}

func (s *scenario) play(t *testing.T) {
	s.ended = make(ends, 10)
	s.c = s.client(t, s.token)
	s.introductions(t)
	s.runs(t)
	s.failures(t)
	s.refusals(t)
}

func (s *scenario) introductions(t *testing.T) {
	hello, err := s.c.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.newer = hello.Protocol == 4
	if s.newer != (hello.Scopes != nil) || s.newer != (hello.BootID != "") || hello.Version == "" {
		t.Errorf("hello %+v", hello)
	}
	agents, err := s.c.Agents(t.Context())
	if err != nil || len(agents) != 2 || agents[0].ID != "alpha" || agents[1].ID != "beta" {
		t.Errorf("agents %+v, %v", agents, err)
	}
}

func (s *scenario) runs(t *testing.T) {
	if got := s.run(t, "alpha", "SLOW, please", "1"); got != gateway.StatusAccepted {
		t.Errorf("first: %s", got)
	}
	want := gateway.StatusAccepted
	if s.newer {
		want = gateway.StatusInFlight
	}
	if got := s.run(t, "alpha", "SLOW, please", "1"); got != want {
		t.Errorf("while it runs: %s, want %s", got, want)
	}
	close(s.asked)
	if got := s.ended.next(t); got != s.prefix+"1 ok" {
		t.Errorf("ended %q", got)
	}
	for _, agent := range []string{"alpha", "beta"} {
		if got := s.run(t, agent, "hello", "1"); got != gateway.StatusOK {
			t.Errorf("%s, after its end: %s", agent, got)
		}
	}
	if state, err := s.c.Wait(t.Context(), s.prefix+"1"); err != nil || !state.Ended || state.Status != gateway.StatusOK || state.EndedAt.IsZero() {
		t.Errorf("wait: %+v, %v", state, err)
	}
	if state, err := s.c.Wait(t.Context(), s.prefix+"never"); err != nil || state.Ended {
		t.Errorf("wait for an unknown run: %+v, %v", state, err)
	}
}

func (s *scenario) failures(t *testing.T) {
	want := gateway.StatusOK
	if s.newer {
		want = gateway.StatusError
	}
	s.run(t, "beta", "FAIL, please", "2")
	if got := s.ended.next(t); got != s.prefix+"2 "+string(want) {
		t.Errorf("ended %q, want %s", got, want)
	}
	if got := s.run(t, "beta", "hello", "2"); got != want {
		t.Errorf("after the failure: %s, want %s", got, want)
	}
}

func (s *scenario) refusals(t *testing.T) {
	_, err := s.c.Run(t.Context(), "gamma", "hello", s.prefix+"3")
	var refused *gateway.RefusedError
	if !errors.As(err, &refused) || !refused.UnknownAgent() || errors.Is(err, gateway.ErrLost) {
		t.Errorf("unknown agent: %v", err)
	}
	_, err = s.client(t, "wrong-token").Hello(t.Context())
	operator(t, err, gateway.ReasonTokenWrong)
	_, err = s.client(t, "").Hello(t.Context())
	operator(t, err, gateway.ReasonTokenMissing)
}
