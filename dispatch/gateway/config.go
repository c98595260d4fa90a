package gateway

import (
	"log/slog"
	"time"
)

// Config says where the gateway is and how a Client behaves.
type Config struct {
	// URL of the gateway, such as ws://127.0.0.1:18789. It must be loopback or TLS, as
	// the token travels in the first frame. Through another name or a proxy the gateway
	// takes the client for a remote one and asks for pairing, which OTM does not do.
	URL string

	// Token returns the gateway's shared secret. It is called for every dial,
	// so a changed token counts at the next one. If it is empty, none is sent.
	Token func() (string, error)

	Version string // of OTM, for the gateway's list of clients

	// OnEnd, if not nil, is called with the end of each run that the gateway
	// reports, runs of other clients included, in any order, each call on a
	// goroutine of its own. A run may be reported twice. OnEnd must not call
	// Close, which waits for it.
	OnEnd func(End)

	// OnLink, if not nil, makes the Client keep a connection from the start
	// until Close. It is called, one call at a time, when the connection is made (with
	// whom), and when it is lost or could not be made (why). It must not call Close.
	OnLink func(*Server, error)

	Log *slog.Logger // gets events between calls, never the token or a signature

	After func(time.Duration) <-chan time.Time // times pauses; nil: time.After

	// Limits are DefaultLimits if zero.
	Limits
}

// Limits say how patient a Client is.
type Limits struct {
	MinBackoff, MaxBackoff time.Duration // pause between attempts: doubles
	HandshakeTimeout       time.Duration // from the upgrade to hello-ok
	AnswerTimeout          time.Duration // without an answer; then Run asks again, and other calls fail
	WaitTimeout            time.Duration // for which the gateway may hold the answer to Wait
	PingEvery, PingTimeout time.Duration // a connection without pong after a ping is dead
	ReadLimit              int64         // size of the largest frame taken, in bytes
}

// DefaultLimits are generous to a busy gateway. 2026.9.6 gives a handshake 15 s,
// delays the refusal of a wrong token by 5 s, accepts within 3 s just after a
// start, sends a tick every 30 s, and frames of up to 25 MiB.
var DefaultLimits = Limits{
	MinBackoff: 500 * time.Millisecond, MaxBackoff: 30 * time.Second,
	HandshakeTimeout: 20 * time.Second,
	AnswerTimeout:    20 * time.Second,
	WaitTimeout:      500 * time.Millisecond,
	PingEvery:        30 * time.Second, PingTimeout: 60 * time.Second,
	ReadLimit: 32 << 20,
}

// withDefaults returns cfg with After and Limits filled in.
func (cfg Config) withDefaults() Config {
	if cfg.After == nil {
		cfg.After = time.After
	}
	if cfg.Limits == (Limits{}) {
		cfg.Limits = DefaultLimits
	}
	return cfg
}
