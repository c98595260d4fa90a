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
	ch    channel
	hello Hello
	ended func(End) // gets the ends of runs

	// ctx ends when the connection is to end. The reader closes done when it
	// has handed out everything that arrived.
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex              // guards what follows
	pending map[string]chan<- frame // request id → its call
	err     error                   // why it ended; the first reason
}

// newConn returns a connection over a channel that has shaken hands. The caller
// must run read on a goroutine.
func newConn(ch channel, hello Hello, ended func(End)) *conn {
	ctx, cancel := context.WithCancel(context.Background())
	return &conn{
		ch: ch, hello: hello, ended: ended,
		ctx: ctx, cancel: cancel, done: make(chan struct{}),
		pending: map[string]chan<- frame{},
	}
}

// read hands out frames until the connection ends. It ignores what is no frame.
func (cn *conn) read() {
	defer close(cn.done)
	defer cn.cancel()
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
	cn.mu.Lock()
	waiting := cn.pending[f.ID]
	delete(cn.pending, f.ID)
	cn.mu.Unlock()
	if waiting == nil {
		return false
	}
	waiting <- f // has room: a second response is no answer
	return true
}

// call sends a request and returns its first response. Errors: errNotTaken if
// nothing was sent; otherwise the request may have been sent, and the error
// matches errConnLost or is the cause of ctx.
func (cn *conn) call(ctx context.Context, id, method string, params any) (frame, error) {
	answer := make(chan frame, 1)
	if !cn.register(id, answer) {
		return frame{}, errNotTaken
	}
	defer cn.unregister(id)
	if err := cn.ch.Send(cn.ctx, newRequest(id, method, params)); err != nil {
		cn.end(err)
		return frame{}, cn.lost()
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
		return frame{}, cn.lost()
	}
}

// register announces a call, and reports whether the connection takes it.
func (cn *conn) register(id string, answer chan<- frame) bool {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.err != nil {
		return false
	}
	cn.pending[id] = answer
	return true
}

func (cn *conn) unregister(id string) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	delete(cn.pending, id)
}

// end ends the connection at once.
func (cn *conn) end(err error) {
	cn.fail(err)
	cn.cancel()
}

// fail sets the reason why the connection ends, unless there is one.
func (cn *conn) fail(err error) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.err == nil {
		cn.err = err
	}
}

// reason returns why the connection ended or is about to; nil while it takes
// calls.
func (cn *conn) reason() error {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.err
}

// lost is the error of a call whose connection ended before its answer came.
func (cn *conn) lost() error { return fmt.Errorf("%w: %w", errConnLost, cn.reason()) }

// keepAlive ends the connection if the gateway does not answer a ping within
// timeout. 2026.3.13 sends no pings of its own, and a suspended process keeps its
// sockets.
func (cn *conn) keepAlive(every, timeout time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-cn.ctx.Done():
			return
		case <-tick.C:
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
	cn.fail(ErrClosed)
	stop := time.AfterFunc(goodbyeTimeout, cn.cancel)
	defer stop.Stop()
	cn.ch.Close()
	cn.cancel()
}
