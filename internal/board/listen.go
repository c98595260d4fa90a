package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"otm/internal/crash"
	"otm/internal/durable"
)

// Timeouts and bounds of the HTTP server. The slowest honest request is a page
// of 1,000 rows to a slow reader.
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

// An Endpoint says where a board can be reached; it is the endpoint.json.
type Endpoint struct {
	// URL is the base of the API and ends in "/".
	URL string `json:"url"`
	// Page is the address of the web page.
	Page string `json:"page"`
	// ListID is the default list.
	ListID string `json:"listId"`
	// PID is the process that serves.
	PID int `json:"pid"`
	// Limits is "slack" where the board refuses calls beyond Slack's limits;
	// empty where it refuses none.
	Limits string `json:"limits,omitempty"`
}

// ReadEndpoint returns where the board of dir says it listens. The error
// matches fs.ErrNotExist if none runs. A killed board leaves its endpoint
// behind: only a call to it proves that it is there.
func ReadEndpoint(dir string) (Endpoint, error) {
	raw, err := durable.ReadFile(filepath.Join(dir, endpointFile))
	if err != nil {
		return Endpoint{}, err
	}
	var e Endpoint
	if err := json.Unmarshal(raw, &e); err != nil {
		return Endpoint{}, fmt.Errorf("read %q: %w", filepath.Join(dir, endpointFile), err)
	}
	return e, nil
}

func removeEndpoint(dir string) error {
	err := durable.Remove(filepath.Join(dir, endpointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Listen binds the address of the options, or one of the ports after it if it
// is taken, and makes endpoint.json, durable. Calls are answered once Serve
// runs; until then they wait.
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
	e := Endpoint{URL: page + strings.TrimPrefix(apiPrefix, "/"), Page: page, ListID: s.listID, PID: os.Getpid()}
	if s.opts.Limits != nil {
		e.Limits = "slack"
	}
	raw, err := json.Marshal(e)
	if err == nil {
		err = durable.Replace(filepath.Join(s.opts.Dir, endpointFile), append(raw, '\n'))
	}
	if err != nil {
		listener.Close()
		removeEndpoint(s.opts.Dir) // it may stand, and is only not known to stay
		return Endpoint{}, fmt.Errorf("write endpoint: %w", err)
	}
	// If we crash here, the endpoint names a server that is gone; who calls it
	// finds nobody, and the next Open removes it.
	crash.Point("board.listening")
	s.listener, s.endpoint = listener, e
	s.log.Info("board listens", "url", e.URL, "list", e.ListID)
	return e, nil
}

// Bind listens on the address, or DefaultListen where it is empty, and if its
// port is taken, on the next free one.
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
// after a stop by ctx; otherwise the server or the store failed, and the
// process should end. The Server still has to be closed.
func (s *Server) Serve(ctx context.Context) error {
	if _, err := s.Listen(); err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-s.store.broken:
			stop()
		case <-serving.Done():
		}
	}()
	err := ServeHTTP(serving, s.listener, s.handler, s.log)
	select {
	case <-s.store.broken:
		err = s.store.failure
	default:
		if s.isClosed() {
			err = nil
		}
	}
	if removeErr := removeEndpoint(s.opts.Dir); err == nil {
		err = removeErr
	}
	return err
}

// ServeHTTP serves until ctx ends, then lets what runs finish for a few seconds;
// the contexts of those requests end at once. It closes the listener. The error
// is nil after a stop by ctx.
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
		srv.Close() // somebody does not finish
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

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
