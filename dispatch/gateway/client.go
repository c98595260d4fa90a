package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Client calls one gateway over one connection, which it makes at first need
// and again after a loss. Its methods may be used concurrently.
//
// Run keeps trying. The other calls try once. They change nothing at the
// gateway, so an error of theirs only means that the answer is not known.
type Client struct {
	cfg    Config
	http   *http.Client
	device device
	lastID atomic.Int64

	ctx   context.Context // ends with Close
	stop  context.CancelCauseFunc
	wg    sync.WaitGroup // everything that the Client started
	close sync.Once

	turn chan struct{} // has room for the one call that may dial; guards conn
	conn *conn         // may have ended
}

// New returns a Client. It dials at once if Config.OnLink is set, else at the
// first call.
func New(cfg Config) *Client {
	c := &Client{
		cfg: cfg.withDefaults(), http: newHTTPClient(), device: newDevice(), turn: make(chan struct{}, 1),
	}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	if cfg.OnLink != nil {
		c.wg.Go(c.keep)
	}
	return c
}

// Close ends the connection and waits for everything that the Client started.
// Open calls return an error that matches ErrClosed. It may be called again.
func (c *Client) Close() {
	c.close.Do(func() {
		c.stop(ErrClosed)
		c.turn <- struct{}{} // for good: nobody dials any more
		if c.conn != nil {
			c.conn.goodbye()
		}
		c.wg.Wait()
	})
}

// connect returns the connection, after one attempt to make it if there is
// none. Calls take turns to dial.
func (c *Client) connect(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.conn != nil && c.conn.reason() == nil {
		return c.conn, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	cn, err := c.open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c.cfg.Log.Debug("gateway not reached", slog.Any("err", err))
		return nil, err
	}
	c.cfg.Log.Info("connected to gateway", slog.String("version", cn.server.Version))
	c.conn = cn
	return cn, nil
}

// open dials, shakes hands, and starts the goroutines of the connection.
func (c *Client) open(ctx context.Context) (*conn, error) {
	ch, err := dial(ctx, c.http, c.cfg.URL, c.cfg.ReadLimit)
	if err != nil {
		return nil, err
	}
	server, err := c.handshake(ctx, ch)
	if err != nil {
		ch.Close()
		return nil, err
	}
	cn := newConn(ch, server, c.ended)
	c.wg.Go(cn.read)
	c.wg.Go(func() {
		cn.keepAlive(c.cfg.PingEvery, c.cfg.PingTimeout)
		<-cn.done
		c.cfg.Log.Info("gateway connection ended", slog.Any("err", cn.reason()))
	})
	return cn, nil
}

func (c *Client) handshake(ctx context.Context, ch channel) (server Server, err error) {
	token, err := c.cfg.Token()
	if err != nil {
		return Server{}, &Error{Reason: ReasonTokenUnreadable, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.HandshakeTimeout)
	defer cancel()
	return shakeHands(ctx, ch, c.device, strings.TrimSpace(token), c.cfg.Version)
}

// ended hands the end of a run to Config.OnEnd.
func (c *Client) ended(end End) {
	if c.cfg.OnEnd != nil {
		c.wg.Go(func() { c.cfg.OnEnd(end) })
	}
}

// Hello returns the version of the gateway, after connecting if there is no connection.
func (c *Client) Hello(ctx context.Context) (version string, err error) {
	cn, err := c.connect(ctx)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	return cn.server.Version, nil
}

// call makes one request that changes nothing at the gateway, and decodes the
// answer into v.
func (c *Client) call(ctx context.Context, method string, params, v any) error {
	cn, err := c.connect(ctx)
	if err == nil {
		var f frame
		if f, err = c.send(ctx, cn, c.nextID(), method, params); err == nil && !f.OK {
			err = f.refusal().afterHandshake()
		}
		decode(f.Payload, v)
	}
	if err != nil {
		return fmt.Errorf("call %s: %w", method, err)
	}
	return nil
}

// errNoAnswer: the gateway took a request and did not answer in time.
var errNoAnswer = errors.New("no answer in time")

// send makes one request over cn. If the request may have been sent and its
// answer did not come, the error matches ErrLost.
func (c *Client) send(ctx context.Context, cn *conn, id, method string, params any) (frame, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.AnswerTimeout, errNoAnswer)
	defer cancel()
	f, err := cn.call(ctx, id, method, params)
	if err != nil && !errors.Is(err, errNotTaken) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return f, err
}

func (c *Client) nextID() string { return strconv.FormatInt(c.lastID.Add(1), 10) }

// operatorPause is how long keep waits after an error that a person must mend.
const operatorPause = 2 * time.Minute

// keep holds a connection open until Close, and reports its fate to Config.OnLink.
func (c *Client) keep() {
	for try := 0; ; try++ {
		cn, err := c.connect(c.ctx)
		if err == nil {
			try = 0
			c.cfg.OnLink(&cn.server, nil)
			<-cn.done
			err = cn.reason()
		}
		if c.ctx.Err() != nil {
			return
		}
		c.cfg.OnLink(nil, err)
		pause := c.backoff(try, err)
		if errors.Is(err, ErrOperator) {
			pause = operatorPause
		}
		c.pause(c.ctx, pause)
	}
}

// pause waits, and returns the cause if ctx or the Client ends first.
func (c *Client) pause(ctx context.Context, d time.Duration) error {
	if ctx.Err() == nil {
		select {
		case <-c.cfg.After(d):
			return nil
		case <-ctx.Done():
		case <-c.ctx.Done():
			return ErrClosed
		}
	}
	return context.Cause(ctx)
}

// backoff returns the pause before the n-th further attempt, n from 0: at least
// the one that the gateway asked for in err.
func (c *Client) backoff(n int, err error) time.Duration {
	d := c.cfg.MaxBackoff
	if n < 30 { // keeps the shift in range
		d = min(d, c.cfg.MinBackoff<<n)
	}
	if refused, ok := errors.AsType[*Error](err); ok {
		d = max(d, refused.RetryAfter)
	}
	return d
}

// Config says where the gateway is and how a Client behaves.
type Config struct {
	// URL of the gateway, such as ws://127.0.0.1:18789. It must be loopback or TLS, as
	// the token travels in the first frame. Through another name or a proxy the gateway
	// takes the client for a remote one and asks for pairing, which OTM does not do.
	URL string

	// Token returns the gateway's shared secret. It is called for every dial,
	// so a changed token counts at the next one. If it is empty, none is sent.
	Token func() (string, error)

	Version string // of OTM, for the gateway's list of clients

	// OnEnd, if not nil, is called with the end of each run that the gateway
	// reports, runs of other clients included, in any order, each call on a
	// goroutine of its own. A run may be reported twice. OnEnd must not call
	// Close, which waits for it.
	OnEnd func(End)

	// OnLink, if not nil, makes the Client keep a connection from the start
	// until Close. It is called, one call at a time, when the connection is made (with
	// whom), and when it is lost or could not be made (why). It must not call Close.
	OnLink func(*Server, error)

	Log *slog.Logger // gets events between calls, never the token or a signature

	After func(time.Duration) <-chan time.Time // times pauses; nil: time.After

	// Limits are DefaultLimits if zero.
	Limits
}

// Limits say how patient a Client is.
type Limits struct {
	MinBackoff, MaxBackoff time.Duration // pause between attempts: doubles
	HandshakeTimeout       time.Duration // from the upgrade to hello-ok
	AnswerTimeout          time.Duration // without an answer; then Run asks again, and other calls fail
	WaitTimeout            time.Duration // for which the gateway may hold the answer to Wait
	PingEvery, PingTimeout time.Duration // a connection without pong after a ping is dead
	ReadLimit              int64         // size of the largest frame taken, in bytes
}

// DefaultLimits are generous to a busy gateway. 2026.9.6 gives a handshake 15 s,
// delays the refusal of a wrong token by 5 s, accepts within 3 s just after a
// start, sends a tick every 30 s, and frames of up to 25 MiB.
var DefaultLimits = Limits{
	MinBackoff: 500 * time.Millisecond, MaxBackoff: 30 * time.Second,
	HandshakeTimeout: 20 * time.Second,
	AnswerTimeout:    20 * time.Second,
	WaitTimeout:      500 * time.Millisecond,
	PingEvery:        30 * time.Second, PingTimeout: 60 * time.Second,
	ReadLimit: 32 << 20,
}

// withDefaults returns cfg with After and Limits filled in.
func (cfg Config) withDefaults() Config {
	if cfg.After == nil {
		cfg.After = time.After
	}
	if cfg.Limits == (Limits{}) {
		cfg.Limits = DefaultLimits
	}
	return cfg
}
