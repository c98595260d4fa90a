package gatewaytest

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"slices"
	"time"

	"github.com/coder/websocket"
)

// Seen and read: a first frame holds 64 KiB, later ones 25 MiB.
const (
	firstFrameLimit = 64 << 10
	frameLimit      = 25 << 20
)

// conn is one connection to the gateway.
type conn struct {
	p      *process
	ws     *websocket.Conn
	raw    net.Conn
	fault  DialFault
	origin string
	host   string
	number int
	nonce  string
	ts     int64 // of the challenge

	out     chan outItem
	written chan struct{} // closed when the writer has ended
	ctx     context.Context
	cancel  context.CancelFunc

	scopes []string // what it may do; the reader's
	seq    int64    // mu of the gateway
	noises int      // mu of the gateway
}

// outItem is something the writer does.
type outItem struct {
	data   []byte
	cut    bool
	how    Cut
	reason string
}

func newConn(p *process, raw net.Conn, fault DialFault) *conn {
	ctx, cancel := context.WithCancel(p.ctx)
	return &conn{
		p: p, raw: raw, fault: fault, nonce: uuid(),
		out: make(chan outItem, 4096), written: make(chan struct{}),
		ctx: ctx, cancel: cancel,
	}
}

// serve reads until the connection ends.
func (c *conn) serve() {
	if (greeting{c}).shakeHands() {
		c.ws.SetReadLimit(frameLimit)
		for c.handleNext() {
		}
	}
	// Reading on lets the peer's close frame be seen.
	for {
		if _, _, err := c.ws.Read(c.ctx); err != nil {
			break
		}
	}
	c.cancel()
	<-c.written
	g := c.p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(c.p.conns, c)
	g.note()
}

// request is a frame from the client.
type request struct {
	Type   string          `json:"type"`
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// hasID reports whether the request's id is a non-empty string.
func (r request) hasID() bool {
	var id string
	return json.Unmarshal(r.ID, &id) == nil && id != ""
}

// handleNext reads and answers one frame, and reports whether to go on.
func (c *conn) handleNext() bool {
	_, data, err := c.ws.Read(c.ctx)
	if err != nil {
		return false
	}
	var req request
	if json.Unmarshal(data, &req) != nil || req.Type != "req" {
		return true // bad JSON is ignored (2026.9.6)
	}
	c.p.g.mu.Lock()
	defer c.p.g.mu.Unlock()
	if !req.hasID() {
		c.reply(req.ID, refused(invalid("invalid request frame: at /id: must be string")))
		return true
	}
	calls{c}.handle(req)
	return true
}

// write is the only writer of data frames and closes.
func (c *conn) write() {
	defer close(c.written)
	defer c.ws.CloseNow()
	for {
		select {
		case <-c.ctx.Done():
			return
		case item := <-c.out:
			if item.cut {
				c.end(item)
				return
			}
			if err := c.ws.Write(c.ctx, websocket.MessageText, item.data); err != nil {
				return
			}
		}
	}
}

func (c *conn) end(item outItem) {
	switch {
	case item.how == CutReset:
		reset(c.raw)
	case item.how == CutEOF:
		c.raw.Close()
	default:
		// A close reason holds 123 bytes.
		c.ws.Close(item.how.closeCode(), item.reason[:min(len(item.reason), 123)])
	}
}

// enqueue gives item to the writer. A peer that falls behind is cut off.
func (c *conn) enqueue(item outItem) {
	select {
	case c.out <- item:
	default:
		c.resetNow()
	}
}

// cut ends the connection after what was sent before.
func (c *conn) cut(how Cut) { c.enqueue(outItem{cut: true, how: how}) }

func (c *conn) close(code websocket.StatusCode, reason string) {
	c.enqueue(outItem{cut: true, how: Cut(code), reason: reason})
}

// resetNow ends the connection before what was sent.
func (c *conn) resetNow() {
	c.cancel()
	reset(c.raw)
}

// waitWritten waits until the writer has ended, but not long for a client that
// does not answer a close frame.
func (c *conn) waitWritten() {
	select {
	case <-c.written:
	case <-time.After(time.Second):
	case <-c.p.ctx.Done():
	}
}

// reply sends a response, with noise in front. The caller holds mu.
func (c *conn) reply(id json.RawMessage, a answer) {
	c.noise()
	c.enqueue(outItem{data: a.frame(id)})
}

// event sends an event. The caller holds mu.
func (c *conn) event(name string, payload any) {
	c.seq++
	c.p.seq++
	seq := c.seq
	if !c.p.g.profile.seqPerConn {
		seq = c.p.seq
	}
	c.enqueue(outItem{data: mustJSON(struct {
		Type    string `json:"type"`
		Event   string `json:"event"`
		Payload any    `json:"payload,omitempty"`
		Seq     int64  `json:"seq"`
	}{"event", name, payload, seq})})
}

// noise sends what may come between any two responses. The caller holds mu.
func (c *conn) noise() {
	if c.p.g.o.Quiet {
		return
	}
	now := c.p.g.now().UnixMilli()
	kinds := []func(){
		func() { c.event("tick", object{"ts": now}) },
		func() { c.event("health", object{"ok": true, "ts": now, "agents": []object{{"agentId": "alpha"}}}) },
		func() {
			c.event("agent", object{"runId": uuid(), "stream": "assistant", "data": object{"text": "…"}})
		},
		func() { c.event("chat", nil) },
		func() { c.event("never.heard-of", []any{nil, 1, object{"deep": []any{[]any{}}}}) },
		func() {
			c.enqueue(outItem{data: []byte(`{"type":"event","event":"tick","payload":"odd","surprise":{"id":7},"seq":"x"}`)})
		},
		func() { c.enqueue(outItem{data: []byte(`{"type":"res","id":"nobody-asked","ok":true,"payload":{}}`)}) },
		func() { c.enqueue(outItem{data: []byte(`{"type":"later-version","id":"1","ok":false}`)}) },
	}
	for range 2 {
		kinds[c.noises%len(kinds)]()
		c.noises++
	}
}

// pinged answers a ping unless told not to.
func (c *conn) pinged(context.Context, []byte) bool {
	c.p.g.mu.Lock()
	defer c.p.g.mu.Unlock()
	return !c.p.g.ignorePings
}

// ping cuts off a client that does not answer, without a close frame, as
// 2026.9.6 does.
func (c *conn) ping() {
	every := c.p.g.profile.PingEvery
	if every <= 0 {
		return
	}
	limit := cmp.Or(c.p.g.o.PongLimit, every)
	for sleep(c.ctx, every) {
		ctx, cancel := context.WithTimeout(c.ctx, limit)
		err := c.ws.Ping(ctx)
		cancel()
		if err != nil {
			c.cancel()
			c.raw.Close()
			return
		}
		c.p.g.mu.Lock()
		c.p.g.pongs++
		c.p.g.note()
		c.p.g.mu.Unlock()
	}
}

// may reports whether the connection has a scope.
func (c *conn) may(scope string) bool {
	switch {
	case scope == "", slices.Contains(c.scopes, "operator.admin"), slices.Contains(c.scopes, scope):
		return true
	}
	return scope == "operator.read" && slices.Contains(c.scopes, "operator.write")
}
