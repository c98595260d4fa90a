package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

// newHTTPClient returns the client for the upgrade request. It follows no
// redirect and, for a loopback URL, connects to nothing but loopback: the
// token is sent to whoever answers.
func newHTTPClient(e endpoint) *http.Client {
	dialer := &net.Dialer{}
	if e.loopback {
		dialer.Control = onlyLoopback
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // an upgrade does not exist in HTTP/2
	transport := &http.Transport{
		DialContext:       dialer.DialContext,
		Protocols:         protocols,
		DisableKeepAlives: true, // a refused upgrade leaves nothing open
	}
	if !e.loopback {
		transport.Proxy = http.ProxyFromEnvironment
	}
	return &http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

func onlyLoopback(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || !ap.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s is not a loopback address", address)
	}
	return nil
}

// upgrade opens the WebSocket. Its errors are worth another attempt unless
// they match ErrOperator.
func (c *Client) upgrade(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
	defer cancel()
	// No Origin header is sent: with one the gateway takes us for a browser
	// and asks for pairing (2026.9.6).
	ws, resp, err := websocket.Dial(ctx, c.endpoint.url, &websocket.DialOptions{
		HTTPClient:      c.http,
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, dialError(resp, err)
	}
	ws.SetReadLimit(c.cfg.ReadLimit)
	return ws, nil
}

func dialError(resp *http.Response, err error) error {
	if resp != nil {
		if temporaryStatus(resp.StatusCode) {
			return fmt.Errorf("dial gateway: http status %d", resp.StatusCode)
		}
		return &AuthError{Reason: ReasonEndpoint, Err: fmt.Errorf("no WebSocket upgrade, http status %d", resp.StatusCode)}
	}
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	if errors.As(err, &cert) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) {
		return &AuthError{Reason: ReasonEndpoint, Err: err}
	}
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err // without the library's own story around it
	}
	return fmt.Errorf("dial gateway: %w", err)
}

// temporaryStatus: a draining gateway answers the upgrade 503 (2026.9.6); the
// others come from proxies in front of one.
func temporaryStatus(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// backoff returns the pause before the n-th further attempt, n from 0, but at
// least floor.
func (c *Client) backoff(n int, floor time.Duration) time.Duration {
	d := c.cfg.MaxBackoff
	if n < 30 { // so that the shift stays in range
		d = min(d, c.cfg.MinBackoff<<n)
	}
	jitter := 0.8 + 0.4*c.random()
	return max(floor, time.Duration(float64(d)*jitter))
}
