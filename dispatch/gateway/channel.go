package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"
)

// channel carries frames to the gateway and back. Send and Ping may be used by
// several goroutines, Receive by one. After an error of Send or Receive the
// channel is of no more use.
type channel interface {
	Send(ctx context.Context, data []byte) error

	// Receive returns the next frame. Some goroutine must always be in it, as
	// it also answers pings. The end of ctx ends the channel.
	Receive(ctx context.Context) ([]byte, error)

	// Ping returns when the gateway has answered a ping.
	Ping(ctx context.Context) error

	// Close says goodbye and waits a moment for the answer.
	Close()
}

// Limits of a WebSocket to the gateway.
const (
	dialTimeout  = 10 * time.Second // for TCP, TLS and the HTTP upgrade
	writeTimeout = 10 * time.Second // after which the peer counts as dead
)

// socket is a channel over a WebSocket.
type socket struct{ ws *websocket.Conn }

func (s socket) Send(ctx context.Context, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return s.ws.Write(ctx, websocket.MessageText, data)
}

func (s socket) Receive(ctx context.Context) ([]byte, error) {
	_, data, err := s.ws.Read(ctx)
	if closed := (websocket.CloseError{}); errors.As(err, &closed) {
		err = fmt.Errorf("closed by the gateway: %d %q", closed.Code, closed.Reason)
	}
	return data, err
}

func (s socket) Ping(ctx context.Context) error { return s.ws.Ping(ctx) }

func (s socket) Close() { s.ws.Close(websocket.StatusNormalClosure, "") }

// dial opens a WebSocket that takes frames of up to limit bytes. Its errors are
// worth another attempt unless they match ErrOperator.
func dial(ctx context.Context, client *http.Client, url string, limit int64) (channel, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	// An Origin header would make us a browser, and 2026.9.6 asks browsers for
	// pairing.
	ws, resp, err := websocket.Dial(ctx, url, &websocket.DialOptions{
		HTTPClient:      client,
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, dialError(resp, err)
	}
	ws.SetReadLimit(limit)
	return socket{ws}, nil
}

func dialError(resp *http.Response, err error) error {
	if resp != nil {
		// A draining gateway answers 503 (2026.9.6); the others come from
		// proxies.
		switch status := resp.StatusCode; {
		case status == http.StatusServiceUnavailable:
			return &Error{Reason: ReasonLater, Err: fmt.Errorf("http status %d", status)}
		case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
			return fmt.Errorf("dial gateway: http status %d", status)
		default:
			return &Error{Reason: ReasonEndpoint, Err: fmt.Errorf("no WebSocket upgrade, http status %d", status)}
		}
	}
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	if errors.As(err, &cert) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) {
		return &Error{Reason: ReasonEndpoint, Err: err}
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // leaves out the library's own words
	}
	return fmt.Errorf("dial gateway: %w", err)
}

// newHTTPClient returns the client for the upgrade request. It follows no
// redirect: a server that answers gets the token.
func newHTTPClient() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // HTTP/2 has no upgrade
	return &http.Client{
		Transport: &http.Transport{
			Proxy:             http.ProxyFromEnvironment, // none for loopback
			Protocols:         protocols,
			DisableKeepAlives: true, // a refused upgrade leaves no connection open
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}
