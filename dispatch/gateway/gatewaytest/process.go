package gatewaytest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// process is one life of the gateway: everything it keeps in memory only.
type process struct {
	g      *Gateway
	bootID string
	began  time.Time
	ctx    context.Context // ends with the process
	cancel context.CancelFunc
	ln     net.Listener
	srv    *http.Server
	lane   chan struct{} // a place for each turn that may run at a time

	// The gateway's mu guards what follows.
	dead        bool
	drain       bool
	starting    bool
	conns       map[*conn]struct{}
	keys        map[string]*entry   // by idempotency key
	known       map[string]*entry   // by run id, for agent.wait
	sessions    map[string]*session // by session key
	running     map[*turn]struct{}
	active      int // turns queued or running
	seq         int64
	wrongTokens int
}

// boot starts a process on ln. The caller holds mu.
func (g *Gateway) boot(ln net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{
		g: g, bootID: uuid(), began: time.Now(), ctx: ctx, cancel: cancel, ln: ln,
		lane:     make(chan struct{}, g.profile.MaxConcurrent),
		conns:    map[*conn]struct{}{},
		keys:     map[string]*entry{},
		known:    map[string]*entry{},
		sessions: map[string]*session{},
		running:  map[*turn]struct{}{},
		seq:      80, // 2026.3.13 counts per gateway: the first one seen was 81
	}
	p.srv = &http.Server{
		Handler: http.HandlerFunc(p.serveHTTP),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, netConnKey{}, c)
		},
	}
	g.proc = p
	g.boots++
	g.wg.Go(func() { p.srv.Serve(ln) })
	for _, e := range g.ledger {
		if e.endedAt.IsZero() {
			e.cutOff, e.endedAt = true, g.now()
		}
	}
	p.resume()
	g.note()
}

// die ends the process like SIGKILL: connections are reset, turns are cut off.
// The caller holds mu.
func (p *process) die() {
	if p.dead {
		return
	}
	p.dead = true
	p.ln.Close()
	p.srv.Close()
	for c := range p.conns {
		c.resetNow()
	}
	p.cutOffTurns()
	p.cancel()
	p.g.note()
}

// cutOffTurns marks the running turns as dropped, and remembers them for a
// version that resumes them. The caller holds mu.
func (p *process) cutOffTurns() {
	for t := range p.running {
		p.g.runs[t.run].Status = "dropped"
		if p.g.profile.resumes {
			p.g.interrupted = append(p.g.interrupted, t)
		}
	}
	clear(p.running)
}

// Kill ends the gateway as SIGKILL does: resets, and then connections are
// refused until Boot.
func (g *Gateway) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.proc.die()
}

// Boot starts the gateway again, at the same URL and with empty memory. It
// does nothing while the gateway is up.
func (g *Gateway) Boot() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.proc.dead {
		return nil
	}
	ln, err := listen(g.addr)
	for range 500 {
		if err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond) // another socket has the port for a moment; there is no signal when it is free
		ln, err = listen(g.addr)
	}
	if err != nil {
		return fmt.Errorf("gatewaytest: boot: %w", err)
	}
	g.boot(ln)
	return nil
}

// Crash is Kill and Boot. 2026.9.6 resumes the turns it cut off by itself,
// under new run ids.
func (g *Gateway) Crash() error {
	g.Kill()
	return g.Boot()
}

// Shutdown ends the gateway as SIGTERM does. 2026.9.6 first waits for its
// turns, answering UNAVAILABLE and 503 meanwhile; 2026.3.13 drops them. Both
// then send the event shutdown and close with 1012.
func (g *Gateway) Shutdown() {
	g.mu.Lock()
	p := g.proc
	if g.profile.drains {
		p.drain = true
		g.note()
		g.mu.Unlock()
		p.waitIdle(g.o.DrainLimit)
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	if p.dead {
		return
	}
	var closing []*conn
	for c := range p.conns {
		c.event("shutdown", object{"reason": "gateway stopping"})
		c.close(websocket.StatusServiceRestart, "service restart")
		closing = append(closing, c)
	}
	p.ln.Close()
	g.mu.Unlock()
	for _, c := range closing {
		c.waitWritten()
	}
	g.mu.Lock()
	if g.profile.drains {
		clear(p.running) // those over the drain limit; not resumed, it was no crash
	}
	p.die()
}

// Restart is Shutdown and Boot.
func (g *Gateway) Restart() error {
	g.Shutdown()
	return g.Boot()
}

// waitIdle waits until no turn is queued or running.
func (p *process) waitIdle(limit time.Duration) {
	giveUp := time.After(limit)
	for {
		p.g.mu.Lock()
		idle, changed := p.active == 0, p.g.changed
		p.g.mu.Unlock()
		if idle {
			return
		}
		select {
		case <-changed:
		case <-giveUp:
			return
		case <-p.ctx.Done():
			return
		}
	}
}

// Drain makes the gateway behave as one that is going down (2026.9.6): open
// connections are answered UNAVAILABLE, new ones 503.
func (g *Gateway) Drain() { g.phase(true, false) }

// Starting makes the gateway behave as one that is coming up (2026.9.6): a
// connect request is answered UNAVAILABLE and closed with 1013.
func (g *Gateway) Starting() { g.phase(false, true) }

// Ready ends Drain and Starting.
func (g *Gateway) Ready() { g.phase(false, false) }

func (g *Gateway) phase(drain, starting bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.proc.drain, g.proc.starting = drain, starting
	g.note()
}

// uuid returns a random UUID.
func uuid() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
