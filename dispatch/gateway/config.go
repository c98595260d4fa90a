package gateway

import (
	"crypto/ed25519"
	"log/slog"
	"time"
)

// Config says where the gateway is and how patient a Client is. Only URL is
// required.
type Config struct {
	// URL of the gateway, such as ws://127.0.0.1:18789. It must be loopback
	// or TLS (CheckURL), and is dialled as it stands: through another name or
	// a proxy the gateway takes the client for a remote one and asks for
	// pairing.
	URL string

	// Token returns the gateway's shared secret. It is called for every
	// dial, so that a token that was changed meanwhile is seen. If nil, or if
	// the token is empty, none is sent.
	Token func() (string, error)

	// Key returns the key that signs connections, and by which the gateway
	// knows this client again where it asks for pairing. It is called for
	// every dial. If nil, a key that lives as long as the Client.
	Key func() ed25519.PrivateKey

	// Version is OTM's own, shown in the gateway's list of clients. If empty,
	// "dev".
	Version string

	// OnEnd, if not nil, hears of the end of runs whose request was made by
	// this Client over a connection that still stands then: at most once a
	// request, in any order, each call on a goroutine of its own. It must not
	// call Close, which waits for it.
	OnEnd func(End)

	// Log gets what happens between calls. If nil, nothing is logged. The
	// token and signatures are never logged.
	Log *slog.Logger

	// Now is the clock by which redialling is spaced; time.Now if nil.
	Now func() time.Time

	// After times the pauses between attempts; time.After if nil. Tests
	// shorten it.
	After func(time.Duration) <-chan time.Time

	// MinBackoff and MaxBackoff bound the pause between attempts, which
	// doubles each time and is jittered by a fifth. Default 500 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration

	// DialTimeout bounds TCP, TLS and the HTTP upgrade. Default 10 s.
	DialTimeout time.Duration

	// HandshakeTimeout bounds the time from the upgrade to hello-ok. Default
	// 20 s: the gateway's own limit is 15 s (2026.9.6), and its refusal of a
	// wrong token may take 5 s.
	HandshakeTimeout time.Duration

	// AnswerTimeout is the time without an answer after which Run asks again
	// and the other calls give up. Default 20 s: an acceptance takes up to 3 s
	// just after a start (2026.9.6).
	AnswerTimeout time.Duration

	// WriteTimeout ends a connection whose peer takes no bytes. Default 10 s.
	WriteTimeout time.Duration

	// WaitTimeout is how long the gateway may hold the answer to Wait.
	// Default 500 ms.
	WaitTimeout time.Duration

	// PingEvery and PingTimeout find a connection that is dead without
	// saying so: it is ended when neither the pong nor any frame came in
	// PingTimeout after a ping. Default 30 s and 60 s; an idle gateway sends
	// a tick every 30 s.
	PingEvery, PingTimeout time.Duration

	// ReadLimit is the greatest frame taken, in bytes. Default 32 MiB: the
	// gateway's own limit is 25 MiB.
	ReadLimit int64
}

// withDefaults returns cfg with every unset field filled in.
func (cfg Config) withDefaults() Config {
	if cfg.Token == nil {
		cfg.Token = func() (string, error) { return "", nil }
	}
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	if cfg.ReadLimit <= 0 {
		cfg.ReadLimit = 32 << 20
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&cfg.MinBackoff, 500 * time.Millisecond},
		{&cfg.MaxBackoff, 30 * time.Second},
		{&cfg.DialTimeout, 10 * time.Second},
		{&cfg.HandshakeTimeout, 20 * time.Second},
		{&cfg.AnswerTimeout, 20 * time.Second},
		{&cfg.WriteTimeout, 10 * time.Second},
		{&cfg.WaitTimeout, 500 * time.Millisecond},
		{&cfg.PingEvery, 30 * time.Second},
		{&cfg.PingTimeout, 60 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return cfg
}
