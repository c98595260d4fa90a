package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Hello is what the gateway says about itself when a connection is made.
type Hello struct {
	Version  string // of the gateway, such as "2026.9.6"
	Protocol int

	// Scopes are what the connection may do; nil if the gateway does not say
	// (2026.3.13).
	Scopes []string
}

// MayWrite reports whether the connection may run agents, as far as known.
func (h Hello) MayWrite() bool {
	return h.Scopes == nil || slices.Contains(h.Scopes, scopeWrite) || slices.Contains(h.Scopes, "operator.admin")
}

// challenge is the gateway's first event.
type challenge struct {
	Nonce string `json:"nonce"`
	TS    int64  `json:"ts"` // milliseconds since the epoch
}

// shakeHands makes a fresh channel one that takes calls. Its errors are worth
// another attempt unless they match ErrOperator; they never hold the token, as
// they are logged.
func shakeHands(ctx context.Context, ch channel, d device, token, version string) (Hello, error) {
	redact := func(text string) string {
		if token == "" {
			return text
		}
		return strings.ReplaceAll(text, token, "[token]")
	}
	first, err := receive(ctx, ch, func(f frame) bool { return f.Event == "connect.challenge" })
	if err != nil {
		return Hello{}, fmt.Errorf("wait for challenge: %w", closedEarly(err, redact))
	}
	var c challenge
	decode(first.Payload, &c)
	request, err := newRequest("connect", "connect", d.connectParams(c, token, version))
	if err == nil {
		err = ch.Send(ctx, request)
	}
	if err != nil {
		return Hello{}, fmt.Errorf("send connect: %w", err)
	}
	f, err := receive(ctx, ch, func(f frame) bool { return f.Type == "res" && f.ID == "connect" })
	if err != nil {
		return Hello{}, fmt.Errorf("wait for hello: %w", closedEarly(err, redact))
	}
	if !f.OK {
		r := f.refusal()
		r.Message = redact(r.Message)
		return Hello{}, r.inHandshake()
	}
	return parseHello(f), nil
}

// receive returns the first frame that is wanted.
func receive(ctx context.Context, ch channel, wanted func(frame) bool) (frame, error) {
	for {
		data, err := ch.Receive(ctx)
		if err != nil {
			return frame{}, err
		}
		if f, err := parseFrame(data); err == nil && wanted(f) {
			return f, nil
		}
	}
}

// closedEarly judges the end of a connection before hello-ok. 1008 and 1002 are
// verdicts on what we sent. 1000 without a reason is the gateway's handshake
// limit on a busy machine; with any other code it is starting or going down.
func closedEarly(err error, redact func(string) string) error {
	var closed *closedError
	if !errors.As(err, &closed) {
		return err
	}
	reason := redact(closed.reason)
	switch closed.code {
	case 1008:
		return &Error{Reason: ReasonRefused, Message: reason}
	case 1002:
		return &Error{Reason: ReasonProtocol, Message: reason}
	}
	return &closedError{code: closed.code, reason: reason}
}

func parseHello(f frame) Hello {
	var p struct {
		Protocol int `json:"protocol"`
		Server   struct {
			Version string `json:"version"`
		} `json:"server"`
		Auth struct {
			Scopes []string `json:"scopes"`
		} `json:"auth"`
	}
	decode(f.Payload, &p)
	return Hello{Version: p.Server.Version, Protocol: p.Protocol, Scopes: p.Auth.Scopes}
}
