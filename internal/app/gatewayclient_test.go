package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"otm/dispatch"
	"otm/dispatch/gateway"
	"otm/dispatch/gateway/gatewaytest"
	"otm/heartbeat"
	"otm/internal/cli"
	"otm/pipeline"
)

// gatewayHome is a directory whose agent alpha is woken over a gateway.
func gatewayHome(t *testing.T, g *gatewaytest.Gateway, agents ...string) *Home {
	t.Helper()
	config := fmt.Sprintf("[gateway]\nurl = %q\ntoken_file = \"secrets/gateway\"\n", g.URL())
	for _, a := range agents {
		config += fmt.Sprintf("[agents.%s]\nworkspace = %q\ntrigger = \"gateway\"\n", a, t.TempDir())
	}
	h := newHome(t, config)
	writeToken(t, h, g.Token())
	return h
}

func writeToken(t *testing.T, h *Home, token string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.Dir, "secrets", "gateway"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// saysOfGateway is what otm doctor prints about the gateway.
func saysOfGateway(t *testing.T, h *Home) string {
	t.Helper()
	var out bytes.Buffer
	home := *h
	home.Streams = cli.Streams{Out: &out, Err: &out, Getenv: h.Getenv}
	d := &doctor{home: &home}
	d.gateway(t.Context(), nil)
	d.print()
	return out.String()
}

// otm doctor reports each trouble at the gateway, with what to do about it.
func TestDoctorGateway(t *testing.T) {
	t.Parallel()
	for _, p := range gatewaytest.Profiles() {
		t.Run(p.Version, func(t *testing.T) {
			t.Parallel()
			elsewhere := t.TempDir()
			g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
				o.TokenDelay = func(int) time.Duration { return 0 }
				o.Agents = []gatewaytest.Agent{{ID: "alpha"}, {ID: "beta", Workspace: elsewhere}}
			})
			h := gatewayHome(t, g, "alpha", "stranger")
			says := func(want ...string) {
				t.Helper()
				got := saysOfGateway(t, h)
				for _, w := range want {
					if !strings.Contains(got, w) {
						t.Errorf("it does not say %q:\n%s", w, got)
					}
				}
			}
			says("ok    gateway", "version "+p.Version, `it knows no agent "stranger"; it has alpha, beta`, "→ add it: openclaw agents add stranger; or name another one with gateway_agent in [agents.stranger]")
			writeToken(t, h, "another")
			says("fail  gateway", "→ put gateway.auth.token of openclaw.json into the file")
			writeToken(t, h, g.Token())
			if strings.Contains(saysOfGateway(t, h), "dispatch file") {
				t.Error("the workspaces are the same")
			}
			long := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
				o.Agents = []gatewaytest.Agent{{ID: "alpha", Name: strings.Repeat("x", 33<<20)}}
			})
			if got := saysOfGateway(t, gatewayHome(t, long, "alpha")); !strings.Contains(got, "ok    gateway") || !strings.Contains(got, "warn  gateway    its agents are not known: ") || !strings.Contains(got, "→ openclaw agents list") {
				t.Errorf("an agent list above the read limit:\n%.500s", got)
			}
			h = gatewayHome(t, g, "beta")
			if got := saysOfGateway(t, h); strings.Contains(got, "warn  gateway    beta works in "+elsewhere+", and") != strings.HasPrefix(p.Version, "2026.9.") {
				t.Errorf("of another workspace it says\n%s", got)
			}
			g.GrantScopes("operator.read")
			says("fail  gateway", "operator.write")
			if got := saysOfGateway(t, h); strings.Contains(got, "ok ") {
				t.Errorf("without the scope:\n%s", got)
			}
			g.Kill()
			// A process that another test just forks holds the port until its exec: the dial may be reset.
			says("fail  gateway", "dial gateway: ", "→ openclaw gateway status")
		})
	}
}

func wakeAlpha(ctx context.Context, h *Home) error {
	store, err := h.OpenStore(context.Background()) // ctx may have ended
	if err != nil {
		return err
	}
	wakers, stop := newWakers(h, store, slog.New(slog.DiscardHandler), false)
	defer stop()
	return wakers[pipeline.TriggerGateway].Wake(ctx, dispatch.Request{
		Agent: &pipeline.Agent{Name: "alpha", GatewayAgent: "alpha"}, Key: "otm-T-00001-alpha-1", Message: "Task T-00001 dispatched.",
	})
}

// If a wake is not accepted, the message says what to do.
func TestWakeSaysWhatToDo(t *testing.T) {
	for name, tt := range map[string]struct {
		trouble  func(g *gatewaytest.Gateway)
		happened func(g *gatewaytest.Gateway) bool
		want     string
	}{
		"not there": {
			func(g *gatewaytest.Gateway) { g.Kill() },
			func(*gatewaytest.Gateway) bool { return true },
			"start the gateway",
		},
		// C61: a gateway that restarts is no refusal to mend.
		"C61 draining": {
			func(g *gatewaytest.Gateway) { g.Drain() },
			func(g *gatewaytest.Gateway) bool { return g.Dials() >= 2 }, // after the first was put off
			"takes no runs at the moment: it is starting or going down; the wake is sent again in 15 s, nothing to mend",
		},
		"no answer": {
			func(g *gatewaytest.Gateway) { g.Inject(gatewaytest.NoAnswer) },
			func(g *gatewaytest.Gateway) bool { return g.Asked("otm-T-00001-alpha-1") == 1 },
			"no answer to the wake: nothing to do unless it goes on",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.Start(t, gatewaytest.Profile2026_9_6)
			h := gatewayHome(t, g, "alpha")
			tt.trouble(g)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := make(chan error, 1)
			go func() { failed <- wakeAlpha(ctx, h) }()
			g.Until(t, func() bool { return tt.happened(g) })
			cancel()
			err := <-failed
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if errors.Is(err, dispatch.ErrRefused) || errors.Is(err, gateway.ErrLater) != strings.HasPrefix(name, "C61") {
				t.Errorf("error %v: refused, or not put off", err)
			}
		})
	}
}

// Log, heartbeat and otm why report at once that an accepted run failed. It does
// not use up the wakes.
func TestRunFailsAtTheGateway(t *testing.T) {
	t.Parallel()
	l := newLife(t, pipeline.TriggerGateway)
	l.g.Inject(gatewaytest.AcceptThenFail)
	id, err := pipeline.ParseTaskID(l.run("otm-create", "--title", "Say hello", "--agent", "devdas"))
	if err != nil {
		t.Fatal(err)
	}
	l.id = id
	failed := func() bool { wakes := l.task().Wakes; return len(wakes) == 1 && wakes[0].Exit != "" }
	for n := 0; !failed(); n++ {
		if n == 100 {
			t.Fatalf("nothing noted: %+v", l.task().Wakes)
		}
		for _, c := range l.all {
			if err := l.once(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.once(l.all[1]); err != nil {
		t.Fatal(err)
	}
	beat, err := heartbeat.Read(l.h.Dir, heartbeat.Dispatcher)
	if err != nil || beat.Result != heartbeat.Partial || !strings.Contains(beat.Details, "without progress (Error: refused after acceptance)") {
		t.Errorf("heartbeat %+v, %v", beat, err)
	}
	if said := l.run("otm", "why", id.String()); !strings.Contains(said, "without progress (Error: refused after acceptance)") {
		t.Errorf("otm why: %s", said)
	}
	if n := len(l.task().Wakes); n != 1 {
		t.Errorf("%d wakes before their time", n)
	}
}
