package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// A Gateway is a fake gateway. Its methods may be used concurrently, also from
// within an agent's turn.
type Gateway struct {
	profile Profile
	o       Options
	addr    string
	wg      sync.WaitGroup

	mu      sync.Mutex // guards what follows, and all of the process
	changed chan struct{}
	proc    *process
	boots   int
	conns   int // made so far
	token   string
	offset  time.Duration // of the gateway's clock

	// What a gateway keeps on disk.
	transcripts map[string]map[string]bool // session key, idempotency key
	paired      map[string]string          // device id, its platform
	asking      [2]string                  // device id and platform that wait for approval
	interrupted []*turn                    // cut off by a crash
	ledger      []*entry                   // all runs, which tasks.list tells

	seen   // by tests
	faults // set by tests
}

// Start runs a gateway until the test ends.
func Start(t testing.TB, p Profile, opts ...func(*Options)) *Gateway {
	t.Helper()
	var o Options
	for _, opt := range opts {
		opt(&o)
	}
	g, err := start(p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// Serve runs a gateway until ctx ends, and calls ready once when it answers.
func Serve(ctx context.Context, p Profile, o Options, ready func(*Gateway)) error {
	g, err := start(p, o)
	if err != nil {
		return err
	}
	ready(g)
	<-ctx.Done()
	return g.Stop()
}

func start(p Profile, o Options) (*Gateway, error) {
	o = o.withDefaults()
	g := &Gateway{
		profile: o.apply(p), o: o,
		changed:     make(chan struct{}),
		token:       o.Token,
		transcripts: map[string]map[string]bool{},
		paired:      map[string]string{},
	}
	g.seen.lock, g.faults.lock = &g.mu, &g.mu
	ln, err := listen(o.Listen)
	if err != nil {
		return nil, err
	}
	g.addr = ln.Addr().String()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.boot(ln)
	return g, nil
}

// listen returns a listener on addr. Without one it takes a port below those
// the system's ephemeral range, so that no other socket gets it while the gateway
// is down.
func listen(addr string) (net.Listener, error) {
	if addr != "" {
		return net.Listen("tcp", addr)
	}
	var ln net.Listener
	var err error
	for range 100 {
		ln, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			break
		}
	}
	return ln, err
}

// Stop ends the gateway for good, and waits for its goroutines and turns.
func (g *Gateway) Stop() error {
	g.mu.Lock()
	g.proc.die()
	err := g.fileErr
	g.mu.Unlock()
	g.wg.Wait()
	return err
}

// URL returns where the gateway listens, also while it is down.
func (g *Gateway) URL() string { return "ws://" + g.addr }

// Profile is its version.
func (g *Gateway) Profile() Profile { return g.profile }

// Token returns the gateway's token.
func (g *Gateway) Token() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.token
}

// SetAgents gives the gateway other agents.
func (g *Gateway) SetAgents(agents ...Agent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.o.Agents = agents
}

// Connections returns how many connections have been opened and are open.
func (g *Gateway) Connections() (made, open int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conns, len(g.proc.conns)
}

// Boots returns how often the gateway has started.
func (g *Gateway) Boots() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.boots
}

// Advance moves the gateway's clock.
func (g *Gateway) Advance(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.offset += d
}

func (g *Gateway) now() time.Time { return g.o.Now().Add(g.offset) }

// note wakes Until. The caller holds mu.
func (g *Gateway) note() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// Until waits until cond holds; it is asked again whenever something has
// happened at the gateway. The test fails after a generous time.
func (g *Gateway) Until(t testing.TB, cond func() bool) {
	t.Helper()
	giveUp := time.After(30 * time.Second)
	for {
		g.mu.Lock()
		changed := g.changed
		g.mu.Unlock()
		if cond() {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("gatewaytest: test ended in Until")
		case <-giveUp:
			t.Fatalf("gatewaytest: condition never held; latest runs %+v, latest requests %+v",
				latest(g.Runs()), latest(g.Requests()))
		}
	}
}

func latest[T any](all []T) []T { return all[max(0, len(all)-10):] }

// record notes that an agent is being given a message, and returns the run's
// index. The caller holds mu.
func (g *Gateway) record(r Run) int {
	g.runs = append(g.runs, r)
	if g.o.RunsFile != "" {
		if err := appendLine(g.o.RunsFile, r); err != nil && g.fileErr == nil {
			g.fileErr = err
		}
	}
	g.note()
	return len(g.runs) - 1
}

func appendLine(name string, r Run) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
