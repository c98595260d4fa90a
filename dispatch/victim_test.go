package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/core/store"
	"otm/dispatch/gateway"
	"otm/dispatch/gateway/gatewaytest"
	"otm/internal/durable"
	"otm/pipeline"
)

// order is the order for a process that is to be killed.
type order struct {
	Dir                   string
	Agents                pipeline.Agents
	Do                    string // "pass", or the name of an agent that takes a task
	Gateway, GatewayToken string // "": wakes are noted in the file wakes of the data directory
}

// wakers are those of the process; stop ends their connections.
func (o *order) wakers() (wakers map[pipeline.Trigger]Waker, stop func()) {
	wakers = map[pipeline.Trigger]Waker{
		pipeline.TriggerGateway: noting(filepath.Join(o.Dir, "wakes")),
		pipeline.TriggerExec:    &Exec{Dir: o.Dir, LogDir: filepath.Join(o.Dir, "logs"), PathDir: "/nowhere"},
	}
	if o.Gateway == "" {
		return wakers, func() {}
	}
	w := newGatewayWaker(o.Gateway, o.GatewayToken)
	wakers[pipeline.TriggerGateway] = w
	return wakers, func() { w.client.Close() }
}

func (o *order) dispatcher(s engine) (d *Dispatcher, stop func()) {
	d = newDispatcher(o.Dir, s, &board{store: s, now: time.Now}, o.Agents, time.Now, slog.New(slog.DiscardHandler))
	d.Wakers, stop = o.wakers()
	return d, stop
}

// noting is a waker that appends each key to a file.
type noting string

func (n noting) Wake(_ context.Context, r Request) error {
	f, err := os.OpenFile(string(n), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, r.Key)
	return errors.Join(err, f.Close())
}

func (noting) Ended(context.Context, *pipeline.Agent, string) (core.EndStart, bool, error) {
	return core.EndStart{}, false, nil
}

func (noting) Ready(context.Context, *pipeline.Agent) error { return nil }

// gatewayWaker wakes over a gateway, as the product does.
type gatewayWaker struct{ client *gateway.Client }

func newGatewayWaker(url, token string, change ...func(*gateway.Config)) *gatewayWaker {
	cfg := gateway.Config{
		URL: url, Token: func() (string, error) { return token, nil }, Version: "test", Limits: gateway.DefaultLimits,
		Log: slog.New(slog.DiscardHandler),
	}
	cfg.MinBackoff, cfg.MaxBackoff, cfg.WaitTimeout = time.Millisecond, 20*time.Millisecond, 10*time.Millisecond
	for _, c := range change {
		c(&cfg)
	}
	return &gatewayWaker{gateway.New(cfg)}
}

func (g *gatewayWaker) Wake(ctx context.Context, r Request) error {
	for _, key := range r.Abort {
		g.client.Abort(ctx, key)
	}
	return wakeError(g.client.Run(ctx, r.Agent.GatewayAgent, r.Message, r.Key))
}

func (g *gatewayWaker) Ready(ctx context.Context, _ *pipeline.Agent) error {
	return wakeError(g.client.Connect(ctx))
}

func wakeError(err error) error {
	var refused *gateway.Error
	switch {
	case errors.Is(err, gateway.ErrLost):
		return fmt.Errorf("%w: %w", ErrLost, err)
	case errors.As(err, &refused) && !errors.Is(err, gateway.ErrLater):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

func (g *gatewayWaker) Ended(ctx context.Context, a *pipeline.Agent, key string) (core.EndStart, bool, error) {
	end, ended, goesOn, err := g.client.Ended(ctx, a.GatewayAgent, key)
	if goesOn {
		err = ErrGoesOn
	}
	return core.EndStart{Key: key, Ended: end.At, Outcome: core.StartOutcome(end.Status)}, ended, err
}

// victimMain carries out its order, if it lives that long.
func victimMain(raw string) int {
	var o order
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	s, err := store.Open(ctx, o.Dir, store.Options{BusyTimeout: time.Minute})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	if o.Do != "pass" {
		desk := &Desk{Dir: o.Dir, Store: s, Agents: o.Agents, Now: time.Now, Warn: func(string) {}}
		taken, err := desk.Next(ctx, o.Agents.Named(o.Do), false)
		if err != nil || taken == nil {
			fmt.Fprintln(os.Stderr, taken, err)
			return 1
		}
		return 0
	}
	d, stop := o.dispatcher(s)
	defer stop()
	if r, err := d.Pass(ctx, 0); err != nil || r.Trouble != nil || len(r.Failed) > 0 {
		fmt.Fprintln(os.Stderr, r.Details(), err)
		return 1
	}
	return 0
}

// order returns the world as an order for a process.
func (w *world) order(do string) *order {
	return &order{Dir: w.dir, Agents: w.agents, Do: do}
}

// kill runs an order in a process that is killed at a point. It returns false if
// the process never reached the point and carried out the order.
func (o *order) kill(t *testing.T, at string) bool {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+string(raw), crashEnv+"="+at)
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", at, err, out)
	}
	return false
}

// dispatchPoints are the crash points of a pass, and how often three tasks for
// three agents reach each.
var dispatchPoints = map[string]int{
	"durable.named": 3, "dispatch.file.before": 3, "dispatch.file.after": 3, "dispatch.entered": 3, "dispatch.flipped": 1,
	"wake.before": 3, "wake.after": 3, "sqlite.commit": 3, "store.done": 3,
}

// B35, B54a: the dispatcher is killed at each point, the first and the third time.
// The next start finishes the work: one entry, one hand-out, one executed wake for
// each task.
func TestKilledDispatcher(t *testing.T) {
	t.Parallel()
	for point, hits := range dispatchPoints {
		for _, hit := range []int{1, 3}[:1+hits/3] {
			at := fmt.Sprintf("%s:%d", point, hit)
			t.Run(at, func(t *testing.T) {
				t.Parallel()
				w := newKillWorld(t)
				o := w.order("pass")
				if !o.kill(t, at) {
					t.Fatal("the point was not reached")
				}
				w.recover(o)
				data, err := os.ReadFile(filepath.Join(w.dir, "wakes"))
				if err != nil {
					t.Fatal(err)
				}
				keys := strings.Fields(string(data)) // a gateway wakes once for a key
				slices.Sort(keys)
				want(t, "wakes", slices.Compact(keys), "[otm-T-00001-alpha-1 otm-T-00002-beta-1 otm-T-00003-gamma-1]")
			})
		}
	}
}

// The same around the wake, with a gateway.
func TestKilledDispatcherGateway(t *testing.T) {
	t.Parallel()
	for _, p := range gatewaytest.Profiles() {
		p.HandshakeLimit = time.Minute // a busy machine is not what is tested
		for _, at := range []string{"wake.before:1", "wake.after:3"} {
			t.Run(p.Version+", "+at, func(t *testing.T) {
				t.Parallel()
				w := newKillWorld(t)
				g := gatewaytest.Start(t, p, func(opt *gatewaytest.Options) {
					for _, id := range []string{"alpha", "beta", "gamma"} {
						opt.Agents = append(opt.Agents, gatewaytest.Agent{ID: id, Do: func(ctx context.Context, _ gatewaytest.Run) error {
							<-ctx.Done() // its turn does not end
							return ctx.Err()
						}})
					}
				})
				o := w.order("pass")
				o.Gateway, o.GatewayToken = g.URL(), g.Token()
				if !o.kill(t, at) {
					t.Fatal("the point was not reached")
				}
				w.recover(o)
				for _, key := range []string{"otm-T-00001-alpha-1", "otm-T-00002-beta-1", "otm-T-00003-gamma-1"} {
					g.Until(t, func() bool { return len(g.RunsOf(key)) > 0 })
				}
				want(t, "runs", len(g.Runs()), 3)
			})
		}
	}
}

func newKillWorld(t *testing.T) *world {
	w := newWorld(t, "alpha", "beta", "gamma")
	for _, a := range w.agents {
		w.create("x", a.Name, pipeline.Normal)
	}
	return w
}

// recover is the next start. It checks what must hold afterwards.
func (w *world) recover(o *order) {
	w.Helper()
	d, stop := o.dispatcher(w.store)
	defer stop()
	w.clock.Advance(2 * time.Minute) // the leases of the killed process lapsed
	d.Now = w.clock.Now
	d.Deliver = newRunner(w.store, d.Entries, w.board, w.clock.Now).Run
	for range 2 { // within two ticks
		if r, err := d.Pass(w.Context(), 0); err != nil || r.Trouble != nil || len(r.Failed) > 0 {
			w.Fatalf("next pass: %s, %v", r.Details(), err)
		}
	}
	for i, a := range w.agents {
		id := pipeline.TaskID(i + 1)
		want(w, "entries of "+a.Name, w.ids(a.Name), id)
		t := w.record(id)
		want(w, "record", words(t.Attempt, t.Status, len(t.Wakes), t.Wakes[0].Accepted.IsZero(), t.Dispatch.FlippedAt.IsZero()), "1 assigned 1 false false")
		want(w, "entry", words(w.entry(a.Name, id)["attempt"]), "1")
		want(w, "status", w.boardStatus(id), pipeline.Assigned)
		want(w, "hand-outs of "+id.String(), w.count(id, "HandedOut"), 1)
		left, err := filepath.Glob(filepath.Join(a.Workspace, durable.TempPrefix+"*"))
		if err != nil || len(left) > 1 {
			w.Errorf("left in the workspace: %v, %v", left, err)
		}
	}
}

// otm next is killed at each point: the same agent is given the same task again,
// to be continued if the store knew it.
func TestKilledNext(t *testing.T) {
	t.Parallel()
	for at, noted := range map[string]bool{
		"sqlite.commit:1": false, "store.done:1": true, "next.noted:1": true, "dispatch.file.before:1": true, "durable.named:1": true, "dispatch.file.after:1": true,
		"next.picked:1": true,
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			id := w.create("x", "alpha", pipeline.High)
			w.create("y", "alpha", pipeline.Normal)
			w.pass()
			if !w.order("alpha").kill(t, at) {
				t.Fatal("the point was not reached")
			}
			for n := range 2 {
				taken, err := w.desk().Next(t.Context(), w.agent("alpha"), false)
				if err != nil || taken == nil || taken.Task.ID != id || taken.Continue != (noted || n > 0) {
					t.Fatalf("taken: %+v, %v", taken, err)
				}
			}
			r := w.record(id)
			want(t, "record", words(r.Dispatch.TakenAt.IsZero(), r.Dispatch.TakenBy, r.Status), "false otm next in_progress")
			state, err := w.d.Entries.files().state(w.agents, w.agent("alpha"))
			if err != nil || state.Status != stateWorking || *state.TaskID != id {
				t.Errorf("state: %+v", state)
			}
			w.pass()
			want(t, "the entry is marked", w.entry("alpha", id)["picked"], true)
			want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
		})
	}
}
