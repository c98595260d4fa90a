package gateway

import (
	"errors"
	"fmt"
	"time"
)

// What a caller of Run must tell apart. Unless an error matches ErrLost,
// nothing is queued at the gateway.
var (
	// ErrLater: the gateway is starting or going down. That passes by itself.
	ErrLater = errors.New("the gateway takes no requests at the moment")

	// ErrLost: the request was sent and no answer came, so it may be queued.
	// For a few minutes it may be repeated under the same key. An error may
	// match ErrLost and hold an *Error as well, if a later attempt was refused
	// while an earlier one is unaccounted for.
	ErrLost = errors.New("request sent, answer lost")

	// ErrOperator: another attempt fails as well until a person has changed
	// something about our access to the gateway.
	ErrOperator = errors.New("an operator must act")

	// ErrClosed: Close was called.
	ErrClosed = errors.New("client closed")
)

// Reason is why something was refused, and so what must change.
type Reason string

// Reasons of an Error. The first one matches ErrLater; those after
// ReasonUnknownAgent match ErrOperator.
const (
	ReasonLater        Reason = "later"         // the gateway is starting or going down
	ReasonRequest      Reason = "request"       // this one request, whatever its fault is
	ReasonUnknownAgent Reason = "unknown_agent" // the gateway has no agent of the name

	ReasonTokenWrong      Reason = "token_wrong"      // the gateway has another token
	ReasonTokenMissing    Reason = "token_missing"    // none was sent
	ReasonTokenUnreadable Reason = "token_unreadable" // Config.Token failed
	ReasonPairing         Reason = "pairing"          // the gateway takes us for a client from elsewhere
	ReasonScope           Reason = "scope"            // connected, but without operator.write
	ReasonProtocol        Reason = "protocol"         // the gateway speaks neither 3 nor 4
	ReasonSignature       Reason = "signature"        // the device signature was refused
	ReasonEndpoint        Reason = "endpoint"         // no OpenClaw gateway there, or a URL or certificate that is not trusted
	ReasonRefused         Reason = "refused"          // any other refusal of the handshake
)

// An Error is a refusal, by the gateway or by us: nothing was queued.
type Error struct {
	Reason     Reason
	Message    string        // the gateway's words; untrusted
	RetryAfter time.Duration // the pause that the gateway asks for; zero: none
	Err        error         // the cause, if the gateway did not answer
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("gateway (%s): %v", e.Reason, e.Err)
	}
	return fmt.Sprintf("refused by the gateway (%s): %q", e.Reason, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is ErrLater or ErrOperator and the reason is one of
// theirs.
func (e *Error) Is(target error) bool {
	switch e.Reason {
	case ReasonLater:
		return target == ErrLater
	case ReasonRequest, ReasonUnknownAgent:
		return false
	}
	return target == ErrOperator
}

// lasting reports whether another attempt would end the same way.
func lasting(err error) bool {
	var refused *Error
	return errors.Is(err, ErrClosed) || errors.As(err, &refused) && refused.Reason != ReasonLater
}
