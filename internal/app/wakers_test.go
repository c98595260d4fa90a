package app

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"otm/core"
	"otm/dispatch"
	"otm/dispatch/gateway"
	"otm/dispatch/gateway/gatewaytest"
	"otm/internal/crash/crashtest"
	"otm/internal/logx"
	"otm/pipeline"
)

// TestWakeRefused: a refused wake is not queued, and the message says what to do
// about this very reason.
func TestWakeRefused(t *testing.T) {
	t.Parallel()
	dial := func(f gatewaytest.DialFault) func(*gatewaytest.Gateway, *Home, *dispatch.Request) {
		return func(g *gatewaytest.Gateway, _ *Home, _ *dispatch.Request) { g.InjectDial(f) }
	}
	said := map[string]string{}
	for name, c := range map[string]struct {
		trouble func(*gatewaytest.Gateway, *Home, *dispatch.Request)
		want    string
	}{
		"token wrong":   {dial(gatewaytest.DialRefuse("AUTH_TOKEN_MISMATCH")), "put gateway.auth.token of openclaw.json into the file that gateway.token_file of otm.toml names"},
		"token missing": {dial(gatewaytest.DialRefuse("AUTH_TOKEN_MISSING")), "put gateway.auth.token of openclaw.json into the file that gateway.token_file of otm.toml names"},
		"token unreadable": {func(_ *gatewaytest.Gateway, h *Home, _ *dispatch.Request) {
			os.Remove(filepath.Join(h.Dir, "secrets", "gateway"))
		}, "the file that gateway.token_file of otm.toml names must be readable"},
		"pairing":       {dial(gatewaytest.DialRefuse("PAIRING_REQUIRED")), "OTM must reach the gateway on loopback"},
		"signature":     {dial(gatewaytest.DialRefuse("DEVICE_AUTH_SIGNATURE_EXPIRED")), "set the clock of this machine"},
		"no gateway":    {dial(gatewaytest.DialStatus(404)), "check gateway.url of otm.toml"},
		"something new": {dial(gatewaytest.DialRefuse("UNEXPLAINED_NO")), "see what the gateway logged: openclaw logs"},
		"scope":         {func(g *gatewaytest.Gateway, _ *Home, _ *dispatch.Request) { g.GrantScopes("operator.read") }, "the token must be allowed operator.write"},
		"agent":         {func(_ *gatewaytest.Gateway, _ *Home, r *dispatch.Request) { r.Agent.GatewayAgent = "gamma" }, `knows no agent "gamma": add it: openclaw agents add gamma; or name another one with gateway_agent in [agents.alpha] of otm.toml`},
		"protocol":      {nil, "this version of the gateway is too old or too new"},
	} {
		g := gatewaytest.Start(t, gatewaytest.Profile2026_9_6, func(o *gatewaytest.Options) {
			if name == "protocol" {
				o.Protocol = 99
			}
		})
		h := gatewayHome(t, g, "alpha")
		r := dispatch.Request{Agent: &pipeline.Agent{Name: "alpha", GatewayAgent: "alpha"}, Key: "otm-T-00001-alpha-1", Message: "Task T-00001 dispatched."}
		if c.trouble != nil {
			c.trouble(g, h, &r)
		}
		wakers, stop := newWakers(h, storeOf(t, h), slog.New(slog.DiscardHandler), false)
		err := wakers[pipeline.TriggerGateway].Wake(t.Context(), r)
		stop()
		if !errors.Is(err, dispatch.ErrRefused) || !strings.Contains(err.Error(), c.want) || len(g.Runs()) > 0 {
			t.Errorf("%s: %v, %d runs; want %q", name, err, len(g.Runs()), c.want)
		}
		if other := said[c.want]; other != "" && !strings.HasPrefix(name, "token") {
			t.Errorf("%s has the advice of %s", name, other)
		}
		said[c.want] = name
	}
}

// TestWakeEnded: the gateway says by the key alone whether a run is over. If it
// cannot be asked, the answer is an error.
func TestWakeEnded(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Profile2026_9_6)
	h := gatewayHome(t, g, "alpha")
	if err := wakeAlpha(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	g.Until(t, func() bool { return len(g.Runs()) == 1 && g.Runs()[0].Status == "ok" })
	wakers, stop := newWakers(h, storeOf(t, h), slog.New(slog.DiscardHandler), false)
	defer stop()
	w := wakers[pipeline.TriggerGateway]
	for key, want := range map[string]bool{"otm-T-00001-alpha-1": true, "otm-T-00002-alpha-1": false} {
		if state, ended, err := w.Ended(t.Context(), h.Agents().Named("alpha"), key); err != nil || ended != want || ended != (state.Outcome == core.OutcomeOK) {
			t.Errorf("%s: %+v, ended %t, %v", key, state, ended, err)
		}
	}
	writeToken(t, h, "another")
	g.Cut(gatewaytest.CutReset)
	if state, ended, err := w.Ended(t.Context(), h.Agents().Named("alpha"), "otm-T-00001-alpha-1"); err == nil || ended {
		t.Errorf("with a token that is refused: %+v, ended %t, %v", state, ended, err)
	}
}

// TestRunEndNotRecorded: a run that failed is in the log even if the record cannot
// be written.
func TestRunEndNotRecorded(t *testing.T) {
	t.Parallel()
	run := func(h *Home, status gateway.Status) (log string) {
		var said bytes.Buffer
		n := &gatewayNotes{dir: h.Dir, tasks: storeOf(t, h), log: logx.New(&said, slog.LevelInfo), now: h.Now}
		n.ended(gateway.End{RunID: "otm-T-00001-devdas-1", Status: status, Message: "no\nmodel"})
		return said.String()
	}
	woken := func() (h *Home, noted func() string) {
		h = newHome(t, "")
		seedTask(t, h, core.Task{ID: 1, Agent: "devdas", Wakes: []core.Wake{{Key: "otm-T-00001-devdas-1"}}})
		return h, func() string { return stateOf(t, h, 1).Wakes[0].Exit }
	}
	h, noted := woken()
	if log := run(h, gateway.StatusOK); log != "" || noted() != "ok" {
		t.Errorf("a run that went well: noted %q, logged %s", noted(), log)
	}
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		h, noted := woken()
		log := ""
		refused, _ := refuse(h.Dir, func() error {
			log = run(h, gateway.StatusError)
			return nil
		})
		failed := refused.Came() && !refused.Of("", "/board/changed")
		if !strings.Contains(log, `no\nmodel`) || strings.Contains(log, "not recorded") != failed || (noted() == "no model") == failed {
			t.Errorf("refused %q: noted %q, logged %s", refused, noted(), log)
		}
	})
}
