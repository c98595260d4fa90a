package gateway

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A Client calls one gateway. Its methods may be used concurrently.
//
// Run keeps trying. The others ask once and at once, without sitting out a
// pause between dials; they change nothing at the gateway, so any error of
// theirs means no more than that the answer is not known.
type Client struct {
	cfg      Config
	endpoint endpoint
	urlErr   error // the URL is refused; every call returns this
	http     *http.Client
	device   device         // where Config has no key
	random   func() float64 // jitter
	lastID   atomic.Int64

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // everything the Client started

	mu       sync.Mutex // guards what follows
	conn     *conn      // the one connection; may have ended
	dialling *dialling  // not nil while one is being made
	failures int        // dials in a row that failed
	notUntil time.Time  // next dial, because of those
	closed   bool
}

// New returns a Client that has not dialled yet.
func New(cfg Config) *Client {
	cfg = cfg.withDefaults()
	c := &Client{cfg: cfg, device: newDevice(), random: rand.Float64}
	c.endpoint, c.urlErr = parseURL(cfg.URL)
	c.http = newHTTPClient(c.endpoint)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close ends the connection and waits for everything that the Client started.
// Calls that are open return an error that matches ErrClosed. It may be called
// more than once.
func (c *Client) Close() error {
	c.mu.Lock()
	cn := c.conn
	c.conn = nil
	c.closed = true
	c.mu.Unlock()
	if cn != nil {
		cn.goodbye()
	}
	c.cancel()
	c.wg.Wait()
	return nil
}

// dialling is one attempt to connect, shared by all calls that need it.
type dialling struct {
	hurry chan struct{} // closed to cut its pause short
	done  chan struct{} // closed when conn or err is set
	once  sync.Once
	conn  *conn
	err   error
}

// connectNow returns the connection, if need be after dialling. It does not
// wait for the turn that spaces attempts; who keeps trying uses join.
func (c *Client) connectNow(ctx context.Context) (*conn, error) {
	d, cn, err := c.join()
	if d == nil {
		return cn, err
	}
	d.once.Do(func() { close(d.hurry) })
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join returns the connection if there is one, else the attempt under way,
// which it starts if there is none. Attempts in a row are spaced for all calls
// together.
func (c *Client) join() (*dialling, *conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.urlErr != nil:
		return nil, nil, c.urlErr
	case c.closed:
		return nil, nil, ErrClosed
	case c.conn != nil && c.conn.usable():
		return nil, c.conn, nil
	case c.dialling == nil:
		d := &dialling{hurry: make(chan struct{}), done: make(chan struct{})}
		c.dialling = d
		pause := min(c.notUntil.Sub(c.cfg.Now()), max(c.cfg.MaxBackoff*2, maxRetryAfter))
		c.wg.Go(func() { c.dial(d, pause) })
	}
	return c.dialling, nil, nil
}

// dial makes one attempt and publishes its outcome.
func (c *Client) dial(d *dialling, pause time.Duration) {
	if pause > 0 {
		select {
		case <-c.cfg.After(pause):
		case <-d.hurry:
		case <-c.ctx.Done():
		}
	}
	cn, err := c.open()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialling = nil
	if c.closed {
		if cn != nil {
			cn.cancel()
		}
		cn, err = nil, ErrClosed
	}
	c.noteDial(cn, err)
	c.conn = cn
	d.conn, d.err = cn, err
	close(d.done)
}

// noteDial reckons when the next attempt is due. The caller holds mu.
func (c *Client) noteDial(cn *conn, err error) {
	switch {
	case c.closed:
	case err == nil:
		c.cfg.Log.Info("connected to gateway", slog.String("version", cn.hello.Version),
			slog.Int("protocol", cn.hello.Protocol))
		c.failures, c.notUntil = 0, time.Time{}
	case !retryable(err):
		// The caller reports it, and somebody may be mending it right now.
		c.failures, c.notUntil = 0, time.Time{}
	default:
		level := slog.LevelWarn
		if c.failures > 0 {
			level = slog.LevelDebug // said once
		}
		c.cfg.Log.Log(c.ctx, level, "gateway not reached", slog.Any("err", err), slog.Int("attempt", c.failures+1))
		c.notUntil = c.cfg.Now().Add(c.backoff(c.failures, retryAfter(err)))
		c.failures++
	}
}

// open dials, shakes hands, and starts the goroutines of the connection.
func (c *Client) open() (*conn, error) {
	ws, err := c.upgrade(c.ctx)
	if err != nil {
		return nil, err
	}
	hello, err := c.handshake(c.ctx, ws)
	if err != nil {
		ws.CloseNow()
		return nil, err
	}
	cn := newConn(c.ctx, ws, hello, c.cfg)
	if c.cfg.OnEnd != nil {
		cn.ended = func(e End) { c.wg.Go(func() { c.cfg.OnEnd(e) }) }
	}
	c.wg.Go(func() {
		cn.read()
		c.cfg.Log.Info("gateway connection ended", slog.Any("err", cn.reason()))
	})
	c.wg.Go(cn.write)
	c.wg.Go(cn.ping)
	return cn, nil
}

// requestSep parts a request id from the key of the run it asks for, so that a
// second response tells its run without anything having been remembered.
const requestSep = ":"

// nextID returns a fresh request id. The gateway wants a non-empty string.
func (c *Client) nextID() string {
	return strconv.FormatInt(c.lastID.Add(1), 10)
}
