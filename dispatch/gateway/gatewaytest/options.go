package gatewaytest

import (
	"context"
	"log/slog"
	"time"
)

// DefaultToken is the gateway's token unless Options has another.
const DefaultToken = "rig-token-0123456789abcdef0123456789abcdef"

// Options change what a Gateway is like from its start.
type Options struct {
	Token  string  // default DefaultToken
	Listen string  // default a free port of 127.0.0.1, the same after a restart
	Agents []Agent // default alpha and beta, whose turns end at once

	// RunsFile, if set, gets each executed run as a line of JSON, appended
	// when the run begins.
	RunsFile string

	// These replace the profile's own values. PingEvery below zero means no
	// pings; PongLimit is the time to answer one, by default PingEvery.
	Protocol       int
	HandshakeLimit time.Duration
	PingEvery      time.Duration
	PongLimit      time.Duration
	MaxConcurrent  int

	// TokenDelay returns the delay of the n-th answer to a wrong token, n
	// from 0. Default as seen on 2026.9.6: 0.25 s doubling to 5 s.
	TokenDelay func(n int) time.Duration

	// RetryAfter replaces the pauses of 500 ms and 1 s that UNAVAILABLE
	// answers ask for.
	RetryAfter time.Duration

	// DrainLimit bounds the wait for running turns in a shutdown. Default
	// 315 s.
	DrainLimit time.Duration

	// Remote makes all clients remote ones, as a proxy does whose headers the
	// gateway reads: each device needs Approve.
	Remote bool

	// Quiet leaves out the events between responses.
	Quiet bool

	Now func() time.Time // default time.Now
	Log *slog.Logger     // default none
}

func (o Options) withDefaults() Options {
	if o.Token == "" {
		o.Token = DefaultToken
	}
	if len(o.Agents) == 0 {
		o.Agents = []Agent{{ID: "alpha", Name: "Alpha"}, {ID: "beta", Name: "Beta"}}
	}
	if o.TokenDelay == nil {
		o.TokenDelay = func(n int) time.Duration {
			return min(250*time.Millisecond<<min(n, 8), 5*time.Second)
		}
	}
	if o.DrainLimit == 0 {
		o.DrainLimit = 315 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// apply returns p with the values that o replaces.
func (o Options) apply(p Profile) Profile {
	if o.Protocol != 0 {
		p.Protocol = o.Protocol
	}
	if o.HandshakeLimit != 0 {
		p.HandshakeLimit = o.HandshakeLimit
	}
	if o.PingEvery != 0 {
		p.PingEvery = max(o.PingEvery, 0)
	}
	if o.MaxConcurrent != 0 {
		p.MaxConcurrent = o.MaxConcurrent
	}
	return p
}

// Agent is an agent of the gateway.
type Agent struct {
	ID        string // lower case
	Name      string
	Workspace string
	Skills    []Skill
	Says      string // the last words of its turns; if empty, RIG_OK

	// Delay is how long a turn takes before Do or Command begin.
	Delay time.Duration

	// Do is the agent's turn: what it does with run.Message. An error is a
	// failed model call. It ends early when ctx does.
	Do func(ctx context.Context, run Run) error

	// Command is run instead if Do is nil, in Workspace, with the message on
	// stdin. Its elements may hold {message}, {agent} and {dir}. A failure is
	// a failed model call.
	Command []string
}

// Skill is a skill of an agent.
type Skill struct {
	Name    string
	Missing []string // programs that the gateway does not find; none: the skill is eligible
}

// Run is one execution of an agent's turn.
type Run struct {
	RunID      string    `json:"runId"`
	Key        string    `json:"key"` // the idempotency key; differs from RunID if the gateway resumed the run by itself
	AgentID    string    `json:"agentId"`
	SessionKey string    `json:"sessionKey"`
	Message    string    `json:"message"`
	Boot       int       `json:"boot"` // which process of the gateway, from 1
	Resumed    bool      `json:"resumed,omitempty"`
	StartedAt  time.Time `json:"startedAt"`

	// Status is empty while the run lasts, then ok, error or timeout as the
	// agent's turn went, or dropped if the gateway died.
	Status string `json:"status,omitempty"`
}

// Request is a request that reached the gateway after the handshake.
type Request struct {
	Method  string
	Key     string // idempotencyKey, of method agent
	AgentID string
	Boot    int
	Conn    int // which connection, from 1
}
