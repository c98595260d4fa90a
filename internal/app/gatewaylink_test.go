package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/dispatch"
	"otm/dispatch/gateway"
	"otm/dispatch/gateway/gatewaytest"
	"otm/internal/config"
	"otm/pipeline"
)

// untilLink waits until the file says something of the link.
func untilLink(t *testing.T, h *Home, what string, ok func(dispatch.Link, error) bool) dispatch.Link {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		l, err := dispatch.ReadLink(h.Dir)
		if ok(l, err) {
			return l
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: link %+v, %v", what, l, err)
		}
	}
}

// C7: while the gateway is dead, a file says since when, so that readers need not
// say "devdas is at it".
func TestC7GatewayLink(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Profile2026_9_6)
	h := gatewayHome(t, g, "alpha")
	began := h.Now()
	changed := func() time.Time {
		info, err := os.Stat(filepath.Join(h.Dir, "board", "changed"))
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	_, stop := newWakers(h, storeOf(t, h), slog.New(slog.DiscardHandler), true)
	up := untilLink(t, h, "connected", func(l dispatch.Link, _ error) bool { return l.Up })
	if up.Since.Before(began) || up.Error != "" {
		t.Errorf("connected: %+v", up)
	}
	g.Kill()
	first := untilLink(t, h, "lost", func(l dispatch.Link, err error) bool { return err == nil && !l.Up })
	down := untilLink(t, h, "out of reach", func(l dispatch.Link, _ error) bool { return strings.Contains(l.Error, "connection refused") })
	if first.Since.Before(up.Since) || !down.Since.Equal(first.Since) || down.Reason != "" || down.Next != "" {
		t.Errorf("lost %+v, later %+v", first, down)
	}
	for changed().Before(began) { // the dispatcher is told, after the file was written
		time.Sleep(time.Millisecond)
	}
	writeToken(t, h, "another")
	if err := g.Boot(); err != nil {
		t.Fatal(err)
	}
	refused := untilLink(t, h, "refused", func(l dispatch.Link, _ error) bool { return l.Reason == string(gateway.ReasonTokenWrong) })
	if !strings.HasPrefix(refused.Next, "put gateway.auth.token of openclaw.json into") {
		t.Errorf("what to do about a wrong token: %q", refused.Next)
	}
	stop()
	stopped, err := dispatch.ReadLink(h.Dir)
	if err != nil {
		t.Fatal(err)
	}
	_, stop = newWakers(h, storeOf(t, h), slog.New(slog.DiscardHandler), false)
	stop()
	if is, err := dispatch.ReadLink(h.Dir); err != nil || !is.Since.Equal(stopped.Since) || is.Up {
		t.Errorf("a single pass keeps no connection, and tells of none: %+v, %v", is, err)
	}
	// The next resident goes on with the outage.
	writeToken(t, h, g.Token())
	_, stop = newWakers(h, storeOf(t, h), slog.New(slog.DiscardHandler), true)
	back := untilLink(t, h, "connected again", func(l dispatch.Link, _ error) bool { return l.Up })
	stop()
	if len(back.Outages) != 1 || !back.Outages[0].From.Equal(down.Since) {
		t.Errorf("outages: %+v", back)
	}
	h.Config.Agents = nil
	_, stop = newWakers(h, storeOf(t, h), slog.New(slog.DiscardHandler), true)
	stop()
	if _, err := dispatch.ReadLink(h.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no agent is at a gateway any more: %v", err)
	}
}

// C59: an agent that has our skill and is not told of it shows in otm doctor, with
// the program that the gateway process does not find.
func TestC59SkillNotEligible(t *testing.T) {
	t.Parallel()
	for _, p := range gatewaytest.Profiles() {
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			o.Agents = []gatewaytest.Agent{
				{ID: "alpha", Skills: []gatewaytest.Skill{{Name: "other", Missing: []string{"ffmpeg"}}, {Name: "otm", Missing: []string{"otm", "otm-update"}}}},
				{ID: "beta", Skills: []gatewaytest.Skill{{Name: "otm"}}},
				{ID: "gamma"},
				{ID: "delta", Skills: []gatewaytest.Skill{{Name: "otm", Missing: []string{"otm"}}}}, // never works for OTM
			}
		})
		h := gatewayHome(t, g, "alpha", "beta", "gamma")
		if _, err := config.WriteList(h.Dir, []config.Listed{{ID: "delta", Workspace: t.TempDir()}}); err != nil || h.Agents().Named("delta") == nil {
			t.Fatalf("agents %q, %v", h.Agents().Names(), err)
		}
		got := saysOfGateway(t, h)
		for _, want := range []string{
			"fail  gateway    alpha has the skill otm and is not told of it: the gateway process does not find otm, otm-update on its PATH",
			"~/.local/bin", "openclaw gateway restart",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: it does not say %q:\n%s", p, want, got)
			}
		}
		for _, other := range []string{"ffmpeg", "beta has", "gamma has", "delta"} {
			if strings.Contains(got, other) {
				t.Errorf("%s: it says %q:\n%s", p, other, got)
			}
		}
	}
}

// C56, C60: a run that ends without taking its task is recorded at once, with the
// agent's last words, which say why; the dispatcher is told to look.
func TestC60LastWordsOfARun(t *testing.T) {
	t.Parallel()
	for _, p := range gatewaytest.Profiles() {
		ends := make(chan struct{})
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			says := "otm: exec needs approval\x1b[2J\n" + strings.Repeat("x", 1000)
			o.Agents = []gatewaytest.Agent{{ID: "alpha", Says: says, Do: func(ctx context.Context, _ gatewaytest.Run) error {
				<-ends
				return nil
			}}}
		})
		h := gatewayHome(t, g, "alpha")
		seedTask(t, h, core.Task{ID: 1, Agent: "alpha", Wakes: []core.Wake{{Key: "otm-T-00001-alpha-1", Agent: "alpha", Via: pipeline.TriggerGateway, AskedAt: h.Now(), Sent: true}}})
		wakers, stop := newWakers(h, storeOf(t, h), slog.New(slog.DiscardHandler), true)
		err := wakers[pipeline.TriggerGateway].Wake(t.Context(), dispatch.Request{
			Agent: &pipeline.Agent{Name: "alpha", GatewayAgent: "alpha"}, Key: "otm-T-00001-alpha-1", Message: "Task T-00001 dispatched.",
		})
		if err != nil {
			t.Fatal(err)
		}
		changed := filepath.Join(h.Dir, "board", "changed") // was touched when the connection was made
		exists := func(path string) bool {
			_, err := os.Stat(path)
			return err == nil
		}
		for !exists(changed) {
			time.Sleep(time.Millisecond)
		}
		if err := os.Remove(changed); err != nil {
			t.Fatal(err)
		}
		close(ends)
		var w core.Wake
		for deadline := time.Now().Add(2 * time.Minute); w.Ended.IsZero() && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			w = stateOf(t, h, 1).Wakes[0]
		}
		for deadline := time.Now().Add(2 * time.Minute); !exists(changed); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: the dispatcher is not told of the end", p)
			}
		}
		stop()
		if w.Ended.IsZero() || w.Outcome != core.OutcomeOK || !strings.HasPrefix(w.LastWords, "otm: exec needs approval") || len(w.LastWords) != 500 {
			t.Errorf("%s: recorded %+v", p, w)
		}
	}
}

// TestAgentsOfTheGateway: who is known follows the gateway's own list, on both versions. An
// agent that left the list is known no more; one of otm.toml stays.
func TestAgentsOfTheGateway(t *testing.T) {
	t.Parallel()
	for _, p := range gatewaytest.Profiles() {
		ws := t.TempDir()
		alpha, gamma := gatewaytest.Agent{ID: "alpha"}, gatewaytest.Agent{ID: "gamma", Workspace: ws}
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) { o.Agents = []gatewaytest.Agent{alpha, gamma} })
		h := gatewayHome(t, g, "alpha")
		until := func(want string) {
			t.Helper()
			for deadline := time.Now().Add(2 * time.Minute); strings.Join(h.Agents().Names(), " ") != want; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%s: agents %q, want %q", p, h.Agents().Names(), want)
				}
			}
		}
		const ours = "alpha archibald devdas robin"
		until(ours)
		wakers, stop := newWakers(h, storeOf(t, h), slog.New(slog.DiscardHandler), true)
		until(ours + " gamma")
		if a := h.Agents()[4]; a.Workspace != ws || a.Trigger != pipeline.TriggerGateway || a.GatewayAgent != "gamma" || a.Source != pipeline.SourceGateway {
			t.Errorf("%s: agent %+v", p, a)
		}
		g.SetAgents(gamma)
		if err := g.Restart(); err != nil {
			t.Fatal(err)
		}
		until(ours + " gamma")
		g.SetAgents(gatewaytest.Agent{ID: "delta", Workspace: ws})
		wakers[pipeline.TriggerGateway].(*gatewayWaker).notes.list.ask()
		until(ours + " delta")
		stop()
	}
}

// Runs that a gateway without a boot id had accepted are over once another process answers
// in its place: a newer version too, and one that was started while no dispatcher ran, as
// after a restart of the machine.
func TestRunsOfAFormerGateway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, now string // boot ids
		starts      int
		lost        bool
	}{{"", "", 0, false}, {"", "b", 1, true}, {"a", "b", 1, false}, {"a", "a", 0, false}, {"a", "", 1, true}} {
		n := &gatewayNotes{now: time.Now}
		n.reached(&gateway.Server{BootID: c.before})
		n.reached(&gateway.Server{BootID: c.now})
		if n.listed(); len(n.starts) != c.starts || c.starts > 0 && n.starts[0].Lost.IsZero() == c.lost {
			t.Errorf("%q after %q: starts %+v", c.now, c.before, n.starts)
		}
	}

	g := gatewaytest.Start(t, gatewaytest.Profile2026_3_13)
	h := gatewayHome(t, g, "alpha")
	starts := func() []dispatch.Start {
		was, _ := dispatch.ReadLink(h.Dir)
		wakers, stop := newWakers(h, storeOf(t, h), slog.New(slog.DiscardHandler), true)
		defer stop()
		untilLink(t, h, "connected", func(l dispatch.Link, _ error) bool { return l.Up && !l.Since.Equal(was.Since) })
		n := wakers[pipeline.TriggerGateway].(*gatewayWaker).notes
		n.listed()
		return n.takeStarts()
	}
	if first, again := starts(), starts(); len(first)+len(again) != 0 {
		t.Errorf("the same process counts as another one: %+v, %+v", first, again)
	}
	for noticed := false; !noticed; { // its uptime shows it once it is younger than the end of the link
		ended := time.Now()
		if err := g.Restart(); err != nil {
			t.Fatal(err)
		}
		found := starts()
		if noticed = len(found) == 1; noticed && (found[0].Lost.Before(ended.Add(-time.Second)) || found[0].Lost.After(time.Now())) {
			t.Errorf("lost until %v, it ended at %v", found[0].Lost, ended)
		}
	}
}
