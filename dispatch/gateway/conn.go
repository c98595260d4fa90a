package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// errConnLost: the connection ended before the answer came.
var errConnLost = errors.New("connection lost")

// conn is one connection after its handshake.
type conn struct {
	ws    *websocket.Conn
	hello Hello
	cfg   Config
	ended func(End) // a run's second response

	// ctx lives as long as the connection. Whoever wants to end it calls
	// fail; only the reader closes lost, when it has handed out everything
	// that had arrived.
	ctx    context.Context
	cancel context.CancelFunc
	lost   chan struct{}

	out    chan []byte  // to the writer; unbuffered, so that handed over means being written
	frames atomic.Int64 // received, a sign of life

	mu        sync.Mutex              // guards what follows
	pending   map[string]chan<- frame // by request id
	abandoned map[string]bool         // ids of runs whose first response nobody waits for any more
	retired   bool                    // takes no new requests
	err       error                   // why it ended
}

func newConn(ctx context.Context, ws *websocket.Conn, hello Hello, cfg Config) *conn {
	ctx, cancel := context.WithCancel(ctx)
	return &conn{
		ws: ws, hello: hello, cfg: cfg,
		ended: func(End) {},
		ctx:   ctx, cancel: cancel,
		lost:      make(chan struct{}),
		out:       make(chan []byte),
		pending:   map[string]chan<- frame{},
		abandoned: map[string]bool{},
	}
}

// read hands out what comes until the connection ends.
func (cn *conn) read() {
	defer close(cn.lost)
	defer cn.ws.CloseNow()
	for {
		_, data, err := cn.ws.Read(cn.ctx)
		if err != nil {
			cn.fail(err)
			return
		}
		cn.frames.Add(1)
		cn.handle(data)
	}
}

// handle routes one frame. It never blocks: while it runs, no ping is
// answered.
func (cn *conn) handle(data []byte) {
	f, err := parseFrame(data)
	if err != nil {
		cn.cfg.Log.Debug("ignored frame", slog.Any("err", err))
		return
	}
	switch {
	case f.Type == "res":
		cn.answer(f)
	case f.Type == "event" && f.Event == "shutdown":
		// It comes when running turns have ended or are given up, so no end
		// is missed by closing.
		cn.cfg.Log.Info("gateway is shutting down")
		cn.retire()
	}
}

// answer gives a response to the call that waits for it. One that nobody waits
// for is a run's second response, or comes too late.
func (cn *conn) answer(f frame) {
	cn.mu.Lock()
	waiting := cn.pending[f.ID]
	delete(cn.pending, f.ID)
	first := cn.abandoned[f.ID]
	delete(cn.abandoned, f.ID)
	cn.mu.Unlock()
	if waiting != nil {
		select {
		case waiting <- f:
		default: // its call has many unread already, and needs one
		}
		cn.closeIfRetired()
		return
	}
	if _, key, isRun := strings.Cut(f.ID, requestSep); isRun {
		if end, ok := ending(f, key, first); ok {
			cn.ended(end)
		}
	}
}

func (cn *conn) write() {
	for {
		select {
		case <-cn.ctx.Done():
			return
		case data := <-cn.out:
			ctx, cancel := context.WithTimeout(cn.ctx, cn.cfg.WriteTimeout)
			err := cn.ws.Write(ctx, websocket.MessageText, data)
			cancel()
			if err != nil {
				cn.fail(err)
				return
			}
		}
	}
}

// ping ends the connection when the gateway shows no sign of life: 2026.3.13
// sends no pings of its own, and a suspended process keeps its sockets.
func (cn *conn) ping() {
	tick := time.NewTicker(cn.cfg.PingEvery)
	defer tick.Stop()
	for {
		select {
		case <-cn.ctx.Done():
			return
		case <-tick.C:
		}
		before := cn.frames.Load()
		ctx, cancel := context.WithTimeout(cn.ctx, cn.cfg.PingTimeout)
		err := cn.ws.Ping(ctx)
		cancel()
		if err != nil && cn.frames.Load() == before {
			cn.fail(fmt.Errorf("no pong and no frame in %v", cn.cfg.PingTimeout))
			return
		}
	}
}

// register announces that an answer to id goes to ch. It refuses when the
// connection takes no more requests; nothing was sent then.
func (cn *conn) register(id string, ch chan<- frame) error {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.err != nil || cn.retired {
		return errConnLost
	}
	cn.pending[id] = ch
	return nil
}

// unregister forgets id.
func (cn *conn) unregister(id string) {
	cn.mu.Lock()
	delete(cn.pending, id)
	cn.mu.Unlock()
	cn.closeIfRetired()
}

// abandon gives up waiting for the answer to id, a run's, and remembers that
// the first response is still to come.
func (cn *conn) abandon(id string) {
	cn.mu.Lock()
	if _, ok := cn.pending[id]; ok {
		delete(cn.pending, id)
		cn.abandoned[id] = true
	}
	cn.mu.Unlock()
	cn.closeIfRetired()
}

// send hands data to the writer. If it returns an error, nothing of data was
// written; if not, some or all of it may have been.
func (cn *conn) send(ctx context.Context, data []byte) error {
	select {
	case cn.out <- data:
		return nil
	case <-cn.lost:
		return errConnLost
	case <-cn.ctx.Done():
		return errConnLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// usable reports whether a new call may use the connection.
func (cn *conn) usable() bool {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.err == nil && !cn.retired
}

// retire lets the open calls finish and then ends the connection.
func (cn *conn) retire() {
	cn.mu.Lock()
	cn.retired = true
	cn.mu.Unlock()
	cn.closeIfRetired()
}

func (cn *conn) closeIfRetired() {
	cn.mu.Lock()
	done := cn.retired && len(cn.pending) == 0
	cn.mu.Unlock()
	if done {
		cn.fail(errors.New("retired"))
	}
}

// fail ends the connection; the first reason counts.
func (cn *conn) fail(err error) {
	cn.mu.Lock()
	if cn.err == nil {
		cn.err = err
	}
	cn.mu.Unlock()
	cn.cancel()
}

// gone is the error of a request whose connection ended before its answer.
func (cn *conn) gone() error {
	switch reason := cn.reason(); {
	case reason == nil:
		return errConnLost
	case errors.Is(reason, websocket.ErrMessageTooBig):
		return fmt.Errorf("%w: %w", errConnLost, ErrTooLarge)
	default:
		return fmt.Errorf("%w: %v", errConnLost, reason)
	}
}

// reason says why the connection ended.
func (cn *conn) reason() error {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.err
}

// goodbyeTimeout is how long a polite close may take.
const goodbyeTimeout = time.Second

// goodbye closes with a close frame, so that the gateway sees no failure.
func (cn *conn) goodbye() {
	cn.mu.Lock()
	cn.retired = true
	if cn.err == nil {
		cn.err = ErrClosed
	}
	cn.mu.Unlock()
	stop := time.AfterFunc(goodbyeTimeout, cn.cancel)
	defer stop.Stop()
	cn.ws.Close(websocket.StatusNormalClosure, "")
	cn.cancel()
}
