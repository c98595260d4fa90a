package gateway

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
)

// connect returns the connection, after making it if there is none. Calls take
// turns to dial and share the pauses between attempts; with hurry, a call dials
// although the next attempt is not due.
func (c *Client) connect(ctx context.Context, hurry bool) (*conn, error) {
	if c.urlErr != nil {
		return nil, c.urlErr
	}
	if !c.begin() {
		return nil, ErrClosed
	}
	defer c.wg.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })()
	waited := -1 // how many dials there had been when the pause began that is over
	for {
		select {
		case c.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		cn, pause := c.current()
		if cn == nil && (hurry || pause <= 0 || waited == c.dials) {
			cn, err := c.dial(ctx)
			<-c.turn
			return cn, err
		}
		made, dials := c.made, c.dials
		<-c.turn
		if cn != nil {
			return cn, nil
		}
		select {
		case <-c.cfg.After(pause):
			waited = dials
		case <-made: // by another call
		case <-ctx.Done():
		}
	}
}

// begin has Close wait until the caller has called wg.Done. It reports false if
// Close was called already.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wg.Add(1)
	}
	return !c.closed
}

// current returns the connection, or how long to wait before the next attempt.
func (c *Client) current() (*conn, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil && c.conn.usable() {
		return c.conn, 0
	}
	// A clock that was set back must not make the pause long.
	return nil, min(c.notUntil.Sub(c.cfg.Now()), max(c.cfg.MaxBackoff*2, maxRetryAfter))
}

// errReplaced ends a retired connection when there is another.
var errReplaced = errors.New("replaced")

// dial makes one attempt. The caller holds the turn.
func (c *Client) dial(ctx context.Context) (*conn, error) {
	c.dials++
	cn, err := c.open(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed && cn != nil {
		cn.end(ErrClosed)
		err = ErrClosed
	}
	switch {
	case err == nil:
		c.cfg.Log.Info("connected to gateway", slog.String("version", cn.hello.Version),
			slog.Int("protocol", cn.hello.Protocol))
		if c.conn != nil {
			c.conn.end(errReplaced)
		}
		c.conn, c.failures, c.notUntil = cn, 0, time.Time{}
		close(c.made)
		c.made = make(chan struct{})
		return cn, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case lasting(err):
		// The caller reports it, and somebody may be mending it right now.
		c.failures, c.notUntil = 0, time.Time{}
		return nil, err
	}
	c.cfg.Log.Debug("gateway not reached", slog.Any("err", err), slog.Int("attempt", c.failures+1))
	c.notUntil = c.cfg.Now().Add(c.backoff(c.failures, retryAfter(err)))
	c.failures++
	return nil, err
}

// open dials, shakes hands, and starts the goroutines of the connection.
func (c *Client) open(ctx context.Context) (*conn, error) {
	ch, err := dial(ctx, c.http, c.endpoint, c.cfg.ReadLimit)
	if err != nil {
		return nil, err
	}
	cn := newConn(c.ctx, ch, c.cfg.Log, &ends{asked: map[string]bool{}, report: c.ended})
	c.wg.Go(cn.read)
	if cn.hello, err = c.handshake(ctx, cn); err != nil {
		cn.end(err)
		return nil, err
	}
	c.wg.Go(func() {
		cn.keepAlive(c.cfg.PingEvery, c.cfg.PingTimeout)
		<-cn.done
		c.cfg.Log.Info("gateway connection ended", slog.Any("err", cn.reason()))
	})
	return cn, nil
}

func (c *Client) handshake(ctx context.Context, cn *conn) (Hello, error) {
	token, err := c.cfg.Token()
	if err != nil {
		return Hello{}, &Error{Reason: ReasonTokenUnreadable, Err: err}
	}
	signer := c.device
	if c.cfg.Key != nil {
		signer = deviceOf(c.cfg.Key())
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.HandshakeTimeout)
	defer cancel()
	return shakeHands(ctx, cn, signer, strings.TrimSpace(token), c.cfg.Version)
}

// ended hands the end of a run to Config.OnEnd.
func (c *Client) ended(end End) {
	if c.cfg.OnEnd != nil {
		c.wg.Go(func() { c.cfg.OnEnd(end) })
	}
}

// backoff returns the pause before the n-th further attempt, n from 0, but at
// least floor.
func (c *Client) backoff(n int, floor time.Duration) time.Duration {
	d := c.cfg.MaxBackoff
	if n < 30 { // keeps the shift in range
		d = min(d, c.cfg.MinBackoff<<n)
	}
	jitter := 0.8 + 0.4*c.random()
	return max(floor, time.Duration(float64(d)*jitter))
}

// Link says whether the Client is connected to the gateway.
type Link struct {
	Up    bool
	Since time.Time // of the connection, or of its loss
	Err   error     // why it is not up
}

// operatorPause is how long keep waits after an error that a person must mend.
const operatorPause = 2 * time.Minute

// keep holds a connection open until Close, and reports its fate.
func (c *Client) keep() {
	down := c.cfg.Now()
	for {
		cn, err := c.connect(c.ctx, false)
		if err == nil {
			c.cfg.OnLink(Link{Up: true, Since: c.cfg.Now()})
			<-cn.done
			down, err = c.cfg.Now(), cn.reason()
		}
		if c.ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return
		}
		c.cfg.OnLink(Link{Since: down, Err: err})
		if !errors.Is(err, ErrOperator) {
			continue
		}
		select {
		case <-c.cfg.After(operatorPause):
		case <-c.ctx.Done():
		}
	}
}
