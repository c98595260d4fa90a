package board

import (
	"cmp"
	"context"
	"errors"
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
	listener, err := loopback.Bind(cmp.Or(s.opts.Listen, DefaultListen))
	if err != nil {
		return Endpoint{}, err
	}
	page := "http://" + listener.Addr().String() + "/"
	e := Endpoint{URL: page + strings.TrimPrefix(apiPrefix, "/"), Page: page, ListID: s.store.listID, PID: os.Getpid()}
	if s.opts.Limits != nil {
		e.Limits = "slack"
	}
	if err := e.Write(EndpointPath(s.opts.Dir)); err != nil {
		listener.Close()
		return Endpoint{}, err
	}
	// If we crash here, the endpoint names a server that has ended. Callers
	// reach nobody, and the next Open removes it.
	crash.Point("board.listening")
	s.listener = listener
	s.log.Info("board listens", "url", e.URL, "list", e.ListID)
	return e, nil
}

// Serve answers calls until ctx ends, then lets those that run finish for a few seconds.
// Listen was called before, and Close is called afterwards.
func (s *Server) Serve(ctx context.Context) error {
	return errors.Join(loopback.Serve(ctx, s.listener, s.handler, s.log), RemoveEndpoint(EndpointPath(s.opts.Dir)))
}
