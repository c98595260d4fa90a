package gateway

import (
	"context"
	"fmt"
	"strings"
)

// challenge is the gateway's first event.
type challenge struct {
	Nonce string `json:"nonce"`
	TS    int64  `json:"ts"` // milliseconds since the epoch
}

// shakeHands makes a fresh channel one that takes calls, and returns the version of
// the gateway. Its errors are worth another attempt unless they match ErrOperator;
// they never hold the token, as they are logged.
func shakeHands(ctx context.Context, ch channel, d device, token, ours string) (version string, err error) {
	redact := func(text string) string {
		if token == "" {
			return text
		}
		return strings.ReplaceAll(text, token, "[token]")
	}
	first, err := receive(ctx, ch, func(f frame) bool { return f.Event == "connect.challenge" })
	if err != nil {
		return "", fmt.Errorf("wait for challenge: %w", err)
	}
	var c challenge
	decode(first.Payload, &c)
	if err := ch.Send(ctx, newRequest("connect", "connect", d.connectParams(c, token, ours))); err != nil {
		return "", fmt.Errorf("send connect: %w", err)
	}
	f, err := receive(ctx, ch, func(f frame) bool { return f.Type == "res" && f.ID == "connect" })
	if err != nil {
		return "", fmt.Errorf("wait for hello: %s", redact(err.Error()))
	}
	if !f.OK {
		r := f.refusal()
		r.Message = redact(r.Message)
		return "", r.inHandshake()
	}
	var hello struct {
		Server struct{ Version string }
	}
	decode(f.Payload, &hello)
	return hello.Server.Version, nil
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
