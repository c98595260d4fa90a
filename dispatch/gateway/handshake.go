package gateway

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// challenge is the gateway's first event.
type challenge struct {
	Nonce string `json:"nonce"`
	TS    int64  `json:"ts"` // milliseconds since the epoch
}

// Server is the process at the other end of a connection.
type Server struct {
	Version string
	BootID  string // changes with every process; "": 2026.3.13 has none

	// It began between these two, by the monotonic clock of this process.
	after, before time.Time
	methods       []string // that it has
}

// Restarted reports whether this is another process than an earlier one, for certain.
func (s *Server) Restarted(since *Server) bool {
	if s.BootID != "" || since.BootID != "" {
		return s.BootID != since.BootID
	}
	return s.after.After(since.before)
}

// uptimeSlack is more than the rounding of an uptime.
const uptimeSlack = 5 * time.Millisecond

// maxUptimeMs bounds what a gateway says of its uptime: ten years.
const maxUptimeMs = 10 * 366 * 24 * 3600 * 1000

// shakeHands makes a fresh channel one that takes calls, and returns who answered. Its
// errors are worth another attempt unless they match ErrOperator; they never hold the
// token, as they are logged.
func shakeHands(ctx context.Context, ch channel, d device, token, ours string) (server Server, err error) {
	redact := func(text string) string {
		if token == "" {
			return text
		}
		return strings.ReplaceAll(text, token, "[token]")
	}
	first, err := receive(ctx, ch, func(f frame) bool { return f.Event == "connect.challenge" })
	if err != nil {
		return Server{}, fmt.Errorf("wait for challenge: %w", err)
	}
	var c challenge
	decode(first.Payload, &c)
	asked := time.Now()
	if err := ch.Send(ctx, newRequest("connect", "connect", d.connectParams(c, token, ours))); err != nil {
		return Server{}, fmt.Errorf("send connect: %w", err)
	}
	f, err := receive(ctx, ch, func(f frame) bool { return f.Type == "res" && f.ID == "connect" })
	if err != nil {
		return Server{}, fmt.Errorf("wait for hello: %s", redact(err.Error()))
	}
	if !f.OK {
		r := f.refusal()
		r.Message = redact(r.Message)
		return Server{}, r.inHandshake()
	}
	var hello struct {
		Server   Server
		Features struct{ Methods []string }
		Snapshot struct{ UptimeMs float64 }
	}
	decode(f.Payload, &hello)
	up := time.Duration(min(max(hello.Snapshot.UptimeMs, 0), maxUptimeMs) * float64(time.Millisecond))
	server = hello.Server
	server.methods = hello.Features.Methods
	server.after, server.before = asked.Add(-up-uptimeSlack), time.Now().Add(-up+uptimeSlack)
	return server, nil
}

// receive returns the first frame that is wanted.
func receive(ctx context.Context, ch channel, wanted func(frame) bool) (frame, error) {
	for {
		data, err := ch.Receive(ctx)
		if err != nil {
			return frame{}, err
		}
		if f, ok := parseFrame(data); ok && wanted(f) {
			return f, nil
		}
	}
}
