package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errConnLost: the connection ended before the answer came.
var errConnLost = errors.New("connection lost")

// errNotTaken: the connection takes no more calls, so nothing was sent.
var errNotTaken = errors.New("connection takes no more calls")

// conn makes calls over a channel. Responses may come in any order; conn finds
// the call of each by its id.
type conn struct {
	ch     channel
	server Server
	ended  func(End) // gets the ends of runs

	// ctx ends when the connection is to end; its cause says why. The reader
	// closes done when it has handed out everything that arrived.
	ctx  context.Context
	end  context.CancelCauseFunc
	done chan struct{}

	pending sync.Map // request id → the channel of its call
}

// newConn returns a connection over a channel that has shaken hands. The caller
// must run read on a goroutine.
func newConn(ch channel, server Server, ended func(End)) *conn {
	cn := &conn{ch: ch, server: server, ended: ended, done: make(chan struct{})}
	cn.ctx, cn.end = context.WithCancelCause(context.Background())
	return cn
}

// read hands out frames until the connection ends. It ignores what is no frame.
func (cn *conn) read() {
	defer close(cn.done)
	for {
		data, err := cn.ch.Receive(cn.ctx)
		if err != nil {
			cn.end(err)
			return
		}
		if f, ok := parseFrame(data); ok {
			cn.handle(f)
		}
	}
}

// handle routes one frame. It must not block: meanwhile no ping is answered.
func (cn *conn) handle(f frame) {
	if f.Type == "res" && cn.answer(f) {
		return
	}
	if end, ok := endIn(f); ok {
		cn.ended(end)
	}
}

// answer gives a response to the call that waits for it, and reports whether
// there is one.
func (cn *conn) answer(f frame) bool {
	waiting, ok := cn.pending.LoadAndDelete(f.ID)
	if ok {
		waiting.(chan frame) <- f // has room: a second response is no answer
	}
	return ok
}

// call sends a request and returns its first response. Errors: errNotTaken if
// nothing was sent; otherwise the request may have been sent, and the error
// matches errConnLost or is the cause of ctx.
func (cn *conn) call(ctx context.Context, id, method string, params any) (frame, error) {
	if cn.ctx.Err() != nil {
		return frame{}, errNotTaken
	}
	answer := make(chan frame, 1)
	cn.pending.Store(id, answer)
	defer cn.pending.Delete(id)
	if err := cn.ch.Send(cn.ctx, newRequest(id, method, params)); err != nil {
		cn.end(err)
		return frame{}, fmt.Errorf("%w: %w", errConnLost, cn.reason())
	}
	select {
	case f := <-answer:
		return f, nil
	case <-ctx.Done():
		return frame{}, context.Cause(ctx)
	case <-cn.done:
	}
	select {
	case f := <-answer: // came just before the end
		return f, nil
	default:
		return frame{}, fmt.Errorf("%w: %w", errConnLost, cn.reason())
	}
}

// reason returns why the connection ended or is about to; nil while it takes
// calls.
func (cn *conn) reason() error { return context.Cause(cn.ctx) }

// keepAlive ends the connection if the gateway does not answer a ping within
// timeout. 2026.3.13 sends no pings of its own, and a suspended process keeps its
// sockets.
func (cn *conn) keepAlive(every, timeout time.Duration) {
	tick := time.Tick(every)
	for {
		select {
		case <-cn.ctx.Done():
			return
		case <-tick:
		}
		ctx, cancel := context.WithTimeout(cn.ctx, timeout)
		err := cn.ch.Ping(ctx)
		cancel()
		if err != nil {
			cn.end(fmt.Errorf("no pong in %v", timeout))
			return
		}
	}
}

// goodbyeTimeout bounds a polite close.
const goodbyeTimeout = time.Second

// goodbye ends the connection with a close frame, so that the gateway sees no
// failure.
func (cn *conn) goodbye() {
	stop := time.AfterFunc(goodbyeTimeout, func() { cn.end(ErrClosed) })
	defer stop.Stop()
	cn.ch.Close()
	cn.end(ErrClosed)
}
