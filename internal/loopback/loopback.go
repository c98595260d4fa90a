// Package loopback serves HTTP to callers on this machine only.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Timeouts and bounds of Serve. Everybody on the machine can connect, so they hold
// for callers without a token too. The slowest honest request is a page of 1,000
// rows to a slow reader.
const (
	ReadHeaderTimeout = 5 * time.Second
	ReadTimeout       = 30 * time.Second
	WriteTimeout      = 60 * time.Second
	IdleTimeout       = 30 * time.Second
	MaxHeaderBytes    = 16 << 10
	maxConns          = 512 // each costs a descriptor, and anybody on this host may connect
	StopTimeout       = 5 * time.Second
)

// nextPorts is how many ports after the one asked for are tried.
const nextPorts = 20

// Bind listens on the address, such as 127.0.0.1:18780. If the port is taken, it
// uses the next free one.
func Bind(address string) (net.Listener, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: %w", address, err)
	}
	if !isName(host) {
		return nil, fmt.Errorf("listen address %q: only this machine is served; use 127.0.0.1, localhost or [::1]", address)
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return nil, fmt.Errorf("listen address %q: the port must be a number", address)
	}
	for _, p := range portsFrom(port) {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(p)))
		if err == nil {
			return listener, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
	}
	return net.Listen("tcp", net.JoinHostPort(host, "0"))
}

// portsFrom is the port and those after it.
func portsFrom(port int) []int {
	ports := []int{port}
	for p := port + 1; port != 0 && p <= 65535 && len(ports) <= nextPorts; p++ {
		ports = append(ports, p)
	}
	return ports
}

// Serve serves until ctx ends, then lets running requests finish for a few
// seconds; their contexts end at once. It closes the listener. The error is nil
// after a stop by ctx.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	base, cancel := context.WithCancel(context.Background())
	defer cancel()
	srv := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: ReadHeaderTimeout,
		ReadTimeout:       ReadTimeout,
		WriteTimeout:      WriteTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnState:         capConns(maxConns),
	}
	srv.RegisterOnShutdown(cancel) // long answers watch their context
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	stopping, stop := context.WithTimeout(context.Background(), StopTimeout)
	defer stop()
	if srv.Shutdown(stopping) != nil {
		srv.Close() // a request does not finish
	}
	return err
}

// capConns closes each new connection while limit others are open.
func capConns(limit int64) func(net.Conn, http.ConnState) {
	var open atomic.Int64
	return func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if open.Add(1) > limit {
				c.Close()
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
}

// Named reports whether the request calls the server by a name of this machine.
func Named(r *http.Request) bool { return isName(hostName(r.Host)) }

// SameOrigin reports whether no page of another origin made a browser send the
// request.
func SameOrigin(r *http.Request) bool {
	return !slices.ContainsFunc(r.Header.Values("Origin"), func(origin string) bool { return origin != "http://"+r.Host })
}

// isName reports whether the host, without a port, is a name of this machine. Any other
// name may belong to a foreign page that was made to point here (DNS rebinding).
func isName(host string) bool {
	switch strings.ToLower(host) {
	case "127.0.0.1", "localhost", "::1":
		return true
	}
	return false
}

// hostName cuts the port and the brackets off a Host header.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// Stream is an answer that goes on until the caller goes. It is for one goroutine.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

// NewStream begins a stream of a type. A caller who takes nothing for as long as limit is gone.
func NewStream(w http.ResponseWriter, contentType string, limit time.Duration) *Stream {
	s := &Stream{w, http.NewResponseController(w), limit}
	s.control.SetReadDeadline(time.Time{}) // the server's limits are for exchanges that end
	w.Header().Set("Content-Type", contentType)
	return s
}

// Send sends data at once. After an error the stream is over.
func (s *Stream) Send(data []byte) error {
	s.control.SetWriteDeadline(time.Now().Add(s.limit))
	if _, err := s.w.Write(data); err != nil {
		return err
	}
	return s.control.Flush()
}
