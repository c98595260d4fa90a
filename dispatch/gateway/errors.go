package gateway

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// What a caller of Run must tell apart. Unless an error matches ErrLost,
// nothing is queued at the gateway.
var (
	// ErrNotSent: until the context ended there was no connection to send
	// the request over, or the gateway refused it each time as not queued.
	ErrNotSent = errors.New("request not sent")

	// ErrLost: the request was sent and no answer came. It may be queued; it
	// may be asked again under the same key, within minutes. An error may
	// match ErrLost and carry an *AuthError or a *RefusedError as well, when
	// a later attempt was refused while an earlier one is unaccounted for.
	ErrLost = errors.New("request sent, answer lost")

	// ErrOperator: trying again does not help until somebody has changed
	// something. Matched by *AuthError and *URLError.
	ErrOperator = errors.New("an operator must act")

	// ErrTooLarge: the gateway sent a frame above Config.ReadLimit, and the
	// connection was given up. It comes with ErrLost or ErrNotSent.
	ErrTooLarge = errors.New("the gateway sent a frame above our limit")

	// ErrClosed: Close was called.
	ErrClosed = errors.New("client closed")
)

// A RefusedError is the gateway's no to one request: nothing was queued.
type RefusedError struct {
	Code       string        // INVALID_REQUEST, UNAVAILABLE, ...
	Message    string        // the gateway's words
	DetailCode string        // details.code, where there is one
	Reason     string        // details.reason: "gateway-restarting", "startup-sidecars"
	Retryable  bool          // the gateway says that it is worth trying again
	RetryAfter time.Duration // the pause it asks for, zero where it does not say
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused by the gateway: %s %q", e.Code, e.Message)
}

// UnknownAgent reports whether the gateway has no agent of the name. It shows
// in the message alone (both versions).
func (e *RefusedError) UnknownAgent() bool {
	return strings.Contains(strings.ToLower(e.Message), "unknown agent")
}

// temporary reports whether the gateway is starting or going down, and
// refuses for that reason only. 2026.3.13 knows no retryable flag.
func (e *RefusedError) temporary() bool {
	return e.Code == codeUnavailable &&
		(e.Retryable || e.Reason == "gateway-restarting" || e.Reason == "startup-sidecars")
}

// retryable reports whether the same attempt may succeed later by itself.
func retryable(err error) bool {
	return !errors.Is(err, ErrOperator) && !errors.Is(err, ErrClosed)
}

// retryAfter returns the pause that the gateway asked for, if it did.
func retryAfter(err error) time.Duration {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused.RetryAfter
	}
	return 0
}

// notSent marks an error that came before anything was sent. What no further
// attempt would change is told by its own type.
func notSent(err error) error {
	if !retryable(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotSent, err)
}

// Reason says what an operator must look at.
type Reason string

// Reasons of an AuthError.
const (
	ReasonTokenWrong      Reason = "token_wrong"      // the gateway has another token
	ReasonTokenMissing    Reason = "token_missing"    // none was sent
	ReasonTokenUnreadable Reason = "token_unreadable" // Config.Token failed
	ReasonPairing         Reason = "pairing"          // the gateway wants this device approved
	ReasonScope           Reason = "scope"            // connected, but without operator.write
	ReasonProtocol        Reason = "protocol"         // the gateway speaks neither 3 nor 4
	ReasonSignature       Reason = "signature"        // the device signature was refused
	ReasonEndpoint        Reason = "endpoint"         // no OpenClaw gateway, or a certificate that is not trusted
	ReasonRefused         Reason = "refused"          // anything else the handshake was refused for
)

// An AuthError is a refusal that lasts until an operator acts. It matches
// ErrOperator. The next call dials anew, so that the change is seen at once;
// 2026.9.6 delays its answers to wrong tokens, up to 5 s each.
type AuthError struct {
	Reason     Reason
	Code       string // the gateway's code: INVALID_REQUEST, NOT_PAIRED, FORBIDDEN
	DetailCode string // details.code: AUTH_TOKEN_MISMATCH, PAIRING_REQUIRED, ...
	Message    string // the gateway's words
	RequestID  string // of a pairing that waits for approval
	Err        error  // the cause, where it is not the gateway's answer
}

func (e *AuthError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("gateway access (%s): %v", e.Reason, e.Err)
	}
	return fmt.Sprintf("gateway access (%s): %q", e.Reason, e.Message)
}

// Unwrap returns the cause.
func (e *AuthError) Unwrap() error { return e.Err }

// Is reports whether target is ErrOperator.
func (e *AuthError) Is(target error) bool { return target == ErrOperator }
