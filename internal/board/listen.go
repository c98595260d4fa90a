package board

import (
	"cmp"
	"context"
	"os"
	"strings"

	"otm/internal/crash"
	"otm/internal/loopback"
)

// DefaultListen is where the board listens unless told otherwise.
const DefaultListen = "127.0.0.1:18780"

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
	listener, err := loopback.Bind(cmp.Or(s.opts.Listen, DefaultListen))
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

// Serve answers calls until ctx ends, then lets those that run finish for a
// few seconds. It listens first if Listen was not called. The error is nil
// after a stop by ctx or Close. The Server still has to be closed.
func (s *Server) Serve(ctx context.Context) error {
	if _, err := s.Listen(); err != nil {
		return err
	}
	err := loopback.Serve(ctx, s.listener, s.handler, s.log)
	if s.isClosed() {
		err = nil
	}
	if removeErr := removeEndpoint(s.opts.Dir); err == nil {
		err = removeErr
	}
	return err
}
