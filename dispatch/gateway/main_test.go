package gateway_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/dispatch/gateway"
	"otm/dispatch/gateway/gatewaytest"
	"otm/internal/leak"
)

// TestMain checks that after all tests no goroutine is left: Close waits for
// everything that a Client started.
func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// each runs a test on both versions of the gateway.
func each(t *testing.T, f func(t *testing.T, p gatewaytest.Profile)) {
	t.Parallel()
	for _, p := range gatewaytest.Profiles() {
		p.HandshakeLimit = time.Minute // a busy machine is not what is tested
		t.Run(p.Version, func(t *testing.T) {
			t.Parallel()
			f(t, p)
		})
	}
}

func newer(p gatewaytest.Profile) bool { return p.Version == gatewaytest.Profile2026_9_6.Version }

// pauses are the pauses that a Client asked for; it gets a moment instead.
type pauses struct {
	mu    sync.Mutex
	asked []time.Duration
	each  chan struct{} // gets a value for each of the first thousand
}

func newPauses() *pauses { return &pauses{each: make(chan struct{}, 1000)} }

func (p *pauses) after(d time.Duration) <-chan time.Time {
	p.mu.Lock()
	p.asked = append(p.asked, d)
	p.mu.Unlock()
	select {
	case p.each <- struct{}{}:
	default:
	}
	return time.After(min(d, time.Millisecond))
}

func (p *pauses) all() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// ends collects the calls of OnEnd.
type ends chan gateway.End

func newEnds() ends { return make(ends, 100) }

func (e ends) hear(end gateway.End) { e <- end }

// end returns the next end.
func (e ends) end(t *testing.T) gateway.End {
	t.Helper()
	select {
	case end := <-e:
		return end
	case <-time.After(patience):
		t.Fatal("no end was reported")
	}
	return gateway.End{}
}

// until waits for an end of the given run and status, written "run status". A run
// may be reported twice.
func (e ends) until(t *testing.T, want string) gateway.End {
	t.Helper()
	for {
		if end := e.end(t); end.RunID+" "+string(end.Status) == want {
			return end
		}
	}
}

// bare is the configuration of a client without a token.
func bare(url string) gateway.Config {
	return gateway.Config{URL: url, Version: "test", Log: slog.New(slog.DiscardHandler), Token: func() (string, error) { return "", nil }}
}

// newClient returns an impatient client of g, and checks its log when the test
// ends.
func newClient(t *testing.T, g *gatewaytest.Gateway, changes ...func(*gateway.Config)) *gateway.Client {
	t.Helper()
	log := &logBuffer{}
	cfg := bare(g.URL())
	cfg.Token = func() (string, error) { return g.Token(), nil }
	cfg.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.After, cfg.Limits = newPauses().after, gateway.DefaultLimits
	cfg.WaitTimeout = time.Millisecond
	cfg.AnswerTimeout = time.Minute // a busy machine is not what is tested
	for _, change := range changes {
		change(&cfg)
	}
	c := gateway.New(cfg)
	t.Cleanup(func() {
		c.Close()
		if text := log.String(); strings.Contains(text, gatewaytest.DefaultToken) || strings.Contains(text, "signature=") {
			t.Errorf("secret in the log:\n%s", text)
		}
	})
	return c
}

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// impatient makes a client give up on answers soon.
func impatient(cfg *gateway.Config) { cfg.AnswerTimeout = 50 * time.Millisecond }

// patience is for what comes at once unless the machine is very busy.
const patience = 2 * time.Minute

// run asks for a run of alpha.
func run(t *testing.T, c *gateway.Client, key string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return c.Run(ctx, "alpha", "Task T-00044 dispatched.", key)
}

// mustRun is run, which must be accepted.
func mustRun(t *testing.T, c *gateway.Client, key string) {
	t.Helper()
	if err := run(t, c, key); err != nil {
		t.Fatalf("run %s: %v", key, err)
	}
}

// asked checks how many requests for a run came under a key.
func asked(t *testing.T, g *gatewaytest.Gateway, key string, want int) {
	t.Helper()
	if n := g.Asked(key); n != want {
		t.Errorf("%s: asked %d times, want %d", key, n, want)
	}
}

// executed waits until key has run n times and ended, and fails if it ran more
// often.
func executed(t *testing.T, g *gatewaytest.Gateway, key string, n int) {
	t.Helper()
	g.Until(t, func() bool {
		runs := g.RunsOf(key)
		return len(runs) >= n && !slices.ContainsFunc(runs, func(r gatewaytest.Run) bool { return r.Status == "" })
	})
	if runs := g.RunsOf(key); len(runs) != n {
		t.Errorf("%s ran %d times, want %d: %+v", key, len(runs), n, runs)
	}
}

// blocked is an agent whose turns wait for release.
func blocked(release <-chan struct{}) func(*gatewaytest.Options) {
	return func(o *gatewaytest.Options) {
		o.Agents = []gatewaytest.Agent{{ID: "alpha", Do: func(ctx context.Context, _ gatewaytest.Run) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}, {ID: "beta"}}
	}
}
