package board

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"otm/internal/crash"
)

// DefaultListen is where the board listens unless told otherwise.
const DefaultListen = "127.0.0.1:18780"

// Timeouts and bounds of the HTTP server. Everybody on the machine can connect,
// so they hold for callers without a token too. The slowest honest request is a
// page of 1,000 rows to a slow reader.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 30 * time.Second
	maxHeaderBytes    = 16 << 10
	maxConns          = 512 // each costs a descriptor, and anybody on this host may connect
	stopTimeout       = 5 * time.Second
)

// nextPorts is how many ports after the one asked for are tried.
const nextPorts = 20

// Listen binds the address of the options, or one of the ports after it if it
// is taken, and makes endpoint.json, durable. Calls wait until Serve runs.
func (s *Server) Listen() (Endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return Endpoint{}, ErrClosed
	case s.listener != nil:
		return s.endpoint, nil
	}
	listener, err := Bind(s.opts.Listen)
	if err != nil {
		return Endpoint{}, err
	}
	page := "http://" + listener.Addr().String() + "/"
	e := Endpoint{URL: page + strings.TrimPrefix(apiPrefix, "/"), Page: page, ListID: s.store.listID, PID: os.Getpid()}
	if s.opts.Limits != nil {
		e.Limits = "slack"
	}
	if err := e.write(s.opts.Dir); err != nil {
		listener.Close()
		return Endpoint{}, err
	}
	// If we crash here, the endpoint names a server that has ended. Callers
	// reach nobody, and the next Open removes it.
	crash.Point("board.listening")
	s.listener, s.endpoint = listener, e
	s.log.Info("board listens", "url", e.URL, "list", e.ListID)
	return e, nil
}

// Bind listens on the address, or on DefaultListen if it is empty. If the port
// is taken, it uses the next free one.
func Bind(address string) (net.Listener, error) {
	if address == "" {
		address = DefaultListen
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: %w", address, err)
	}
	if !isLoopbackName(host) {
		return nil, fmt.Errorf("listen address %q: the board serves this machine only; use 127.0.0.1, localhost or [::1]", address)
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

// Serve answers calls until ctx ends, then lets those that run finish for a
// few seconds. It listens first if Listen was not called. The error is nil
// after a stop by ctx or Close. The Server still has to be closed.
func (s *Server) Serve(ctx context.Context) error {
	if _, err := s.Listen(); err != nil {
		return err
	}
	err := ServeHTTP(ctx, s.listener, s.handler, s.log)
	if s.isClosed() {
		err = nil
	}
	if removeErr := removeEndpoint(s.opts.Dir); err == nil {
		err = removeErr
	}
	return err
}

// ServeHTTP serves until ctx ends, then lets running requests finish for a few
// seconds; their contexts end at once. It closes the listener. The error is nil
// after a stop by ctx.
func ServeHTTP(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	base, cancel := context.WithCancel(context.Background())
	defer cancel()
	srv := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
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
	stopping, stop := context.WithTimeout(context.Background(), stopTimeout)
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
