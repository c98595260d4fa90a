package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A Client calls one gateway over one connection, which it makes at first need
// and again after a loss. Its methods may be used concurrently.
//
// Run keeps trying. The other calls try once and at once: they do not sit out
// the pause between dials. They change nothing at the gateway, so an error of
// theirs only means that the answer is not known.
type Client struct {
	cfg      Config
	endpoint endpoint
	urlErr   error // the URL is refused; every call returns this
	http     *http.Client
	device   device         // signs if Config has no key
	random   func() float64 // jitter
	lastID   atomic.Int64

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // everything that the Client started

	turn  chan struct{} // has room for the one call that may dial; guards what follows
	made  chan struct{} // closed when the next connection is made
	dials int           // attempts so far

	mu       sync.Mutex // guards what follows
	conn     *conn      // the one connection; may have ended
	failures int        // dials in a row that failed
	notUntil time.Time  // the next dial is not due before
	closed   bool
}

// New returns a Client. It dials at once if Config.OnLink is set, else at the
// first call.
func New(cfg Config) *Client {
	cfg = cfg.withDefaults()
	c := &Client{
		cfg: cfg, device: newDevice(), random: rand.Float64,
		turn: make(chan struct{}, 1), made: make(chan struct{}),
	}
	c.endpoint, c.urlErr = parseURL(cfg.URL)
	c.http = newHTTPClient(c.endpoint)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if cfg.OnLink != nil {
		c.wg.Go(c.keep)
	}
	return c
}

// Close ends the connection and waits for everything that the Client started.
// Open calls return an error that matches ErrClosed. It may be called again.
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

// Hello returns what the gateway says about itself, after connecting if there
// is no connection.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	cn, err := c.connect(ctx, true)
	if err != nil {
		return Hello{}, fmt.Errorf("connect: %w", notSent(err))
	}
	return cn.hello, nil
}

// call makes one request that changes nothing at the gateway, and repeats it
// once if the connection had died unnoticed.
func (c *Client) call(ctx context.Context, method string, params any) (frame, error) {
	f, err := c.callOnce(ctx, method, params)
	if errors.Is(err, errConnLost) || errors.Is(err, errNotTaken) {
		f, err = c.callOnce(ctx, method, params)
	}
	if err != nil {
		return frame{}, fmt.Errorf("call %s: %w", method, err)
	}
	return f, nil
}

func (c *Client) callOnce(ctx context.Context, method string, params any) (frame, error) {
	cn, err := c.connect(ctx, true)
	if err != nil {
		return frame{}, notSent(err)
	}
	f, err := c.send(ctx, cn, c.nextID(), method, params)
	if err == nil && !f.OK {
		err = c.refused(cn, f)
	}
	return f, err
}

// errNoAnswer: the gateway took a request and did not answer in time.
var errNoAnswer = errors.New("no answer in time")

// send makes one request over cn. If the request may have been sent and its
// answer did not come, the error matches ErrLost.
func (c *Client) send(ctx context.Context, cn *conn, id, method string, params any) (frame, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.AnswerTimeout, errNoAnswer)
	defer cancel()
	f, err := cn.call(ctx, id, method, params)
	switch {
	case errors.Is(err, errNotTaken):
		return frame{}, notSent(err)
	case err != nil:
		return frame{}, fmt.Errorf("%w: %w", ErrLost, err)
	}
	return f, nil
}

// refused returns the error of a refused request. If an operator must act, the
// next call dials anew, to notice that somebody did.
func (c *Client) refused(cn *conn, f frame) error {
	err := f.refusal().afterHandshake()
	if errors.Is(err, ErrOperator) {
		cn.retire()
	}
	return err
}

// notSent marks an error that came before anything was sent. Lasting errors
// keep their own type.
func notSent(err error) error {
	if lasting(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotSent, err)
}

func (c *Client) nextID() string { return strconv.FormatInt(c.lastID.Add(1), 10) }
