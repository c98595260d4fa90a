package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coder/websocket"
)

// Hello is what the gateway told about itself when the connection was made.
type Hello struct {
	Version  string // of the server, such as "2026.9.6"
	Protocol int
	BootID   string // changes with every start; empty on 2026.3.13

	// Scopes are what the connection may really do; nil where the gateway
	// does not tell (2026.3.13).
	Scopes []string
}

// MayWrite reports whether the gateway has not said that operator.write is
// missing.
func (h Hello) MayWrite() bool {
	return h.Scopes == nil || slices.Contains(h.Scopes, scopeWrite) || slices.Contains(h.Scopes, "operator.admin")
}

// challenge is the first thing the gateway says.
type challenge struct {
	Nonce string `json:"nonce"`
	TS    int64  `json:"ts"` // milliseconds since the epoch
}

// handshake makes a fresh WebSocket a connection that takes requests. Its
// errors are worth another attempt unless they match ErrOperator.
func (c *Client) handshake(ctx context.Context, ws *websocket.Conn) (Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.HandshakeTimeout)
	defer cancel()

	token, err := c.cfg.Token()
	if err != nil {
		return Hello{}, &AuthError{Reason: ReasonTokenUnreadable, Err: err}
	}
	token = strings.TrimSpace(token)
	hello, err := c.shakeHands(ctx, ws, token)
	return hello, withoutToken(err, token)
}

func (c *Client) shakeHands(ctx context.Context, ws *websocket.Conn, token string) (Hello, error) {
	first, err := readUntil(ctx, ws, func(f frame) bool {
		return f.Type == "event" && f.Event == "connect.challenge"
	})
	if err != nil {
		return Hello{}, fmt.Errorf("wait for challenge: %w", err)
	}
	var ch challenge
	decode(first.Payload, &ch)

	const id = "connect"
	data, err := newRequest(id, "connect", c.identity().connect(ch, token, c.cfg.Version))
	if err != nil {
		return Hello{}, fmt.Errorf("encode connect request: %w", err)
	}
	if err := ws.Write(ctx, websocket.MessageText, data); err != nil {
		return Hello{}, fmt.Errorf("send connect request: %w", err)
	}
	answer, err := readUntil(ctx, ws, func(f frame) bool {
		return f.Type == "res" && f.ID == id
	})
	if err != nil {
		return Hello{}, fmt.Errorf("wait for hello: %w", err)
	}
	if !answer.OK {
		return Hello{}, answer.refusal().inHandshake()
	}
	return parseHello(answer), nil
}

// readUntil passes over every frame until one is wanted: events may come at
// any time.
func readUntil(ctx context.Context, ws *websocket.Conn, wanted func(frame) bool) (frame, error) {
	for {
		_, data, err := ws.Read(ctx)
		if err != nil {
			return frame{}, closedEarly(err)
		}
		if f, err := parseFrame(data); err == nil && wanted(f) {
			return f, nil
		}
	}
}

// closedEarly judges a close before hello-ok that no answer explained. 1008
// and 1002 are verdicts on what we sent; 1000 without a reason is the
// gateway's handshake limit on a busy machine, and every other code is a
// gateway on its way up or down.
func closedEarly(err error) error {
	if errors.Is(err, websocket.ErrMessageTooBig) {
		return ErrTooLarge
	}
	var ce websocket.CloseError
	if !errors.As(err, &ce) {
		return err
	}
	switch ce.Code {
	case websocket.StatusPolicyViolation:
		return &AuthError{Reason: ReasonRefused, Message: ce.Reason, Err: err}
	case websocket.StatusProtocolError:
		return &AuthError{Reason: ReasonProtocol, Message: ce.Reason, Err: err}
	}
	return err
}

func parseHello(f frame) Hello {
	var p struct {
		Protocol int `json:"protocol"`
		Server   struct {
			Version string `json:"version"`
			BootID  string `json:"bootId"`
		} `json:"server"`
		Auth struct {
			Scopes []string `json:"scopes"`
		} `json:"auth"`
	}
	decode(f.Payload, &p)
	return Hello{Version: p.Server.Version, Protocol: p.Protocol, BootID: p.Server.BootID, Scopes: p.Auth.Scopes}
}

// withoutToken takes the token out of the gateway's words, should it repeat
// them: errors are logged.
func withoutToken(err error, token string) error {
	if err == nil || token == "" {
		return err
	}
	scrub := func(s string) string { return strings.ReplaceAll(s, token, "[token]") }
	var auth *AuthError
	var refused *RefusedError
	switch {
	case errors.As(err, &auth):
		clean := *auth
		clean.Message = scrub(auth.Message)
		if auth.Err != nil {
			clean.Err = errors.New(scrub(auth.Err.Error()))
		}
		return &clean
	case errors.As(err, &refused):
		clean := *refused
		clean.Message = scrub(refused.Message)
		return &clean
	case strings.Contains(err.Error(), token):
		return errors.New(scrub(err.Error()))
	}
	return err
}
