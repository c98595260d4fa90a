package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

const (
	codeInvalid     = "INVALID_REQUEST"
	codeUnavailable = "UNAVAILABLE"
	codeForbidden   = "FORBIDDEN"
	codeNotPaired   = "NOT_PAIRED"
)

// request is a frame from us.
type request struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Method string `json:"method"`
	Params any    `json:"params"`
}

func newRequest(id, method string, params any) ([]byte, error) {
	return json.Marshal(request{Type: "req", ID: id, Method: method, Params: params})
}

// frame is a frame from the gateway: a response or an event. What it carries
// is decoded by whoever asked for it.
type frame struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	OK      bool            `json:"ok"`
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload"`
	Error   json.RawMessage `json:"error"`
}

// parseFrame refuses what is not a JSON object, and what carries one of the
// fields above with another type.
func parseFrame(data []byte) (frame, error) {
	var f frame
	if err := json.Unmarshal(data, &f); err != nil {
		return frame{}, fmt.Errorf("parse frame of %d bytes: %w", len(data), err)
	}
	if f.Type == "" {
		return frame{}, errors.New("parse frame: no type")
	}
	return f, nil
}

// decode fills v with those fields of raw that fit it; a field of another type
// than expected is passed over, as are unknown ones.
func decode(raw json.RawMessage, v any) {
	// After a type mismatch the decoder goes on with the next field; anything
	// else was excluded when the frame was parsed.
	_ = json.Unmarshal(raw, v)
}

// refusal is the error object of a response.
type refusal struct {
	Code         string  `json:"code"`
	Message      string  `json:"message"`
	Retryable    bool    `json:"retryable"`
	RetryAfterMs float64 `json:"retryAfterMs"`
	Details      details `json:"details"`
}

type details struct {
	Code      string `json:"code"`
	Reason    string `json:"reason"`
	RequestID string `json:"requestId"`
}

func (f frame) refusal() refusal {
	var r refusal
	decode(f.Error, &r)
	return r
}

// maxRetryAfter bounds the pause that a gateway can impose.
const maxRetryAfter = time.Minute

func (r refusal) retryAfter() time.Duration {
	ms := math.Min(r.RetryAfterMs, float64(maxRetryAfter.Milliseconds()))
	return time.Duration(math.Max(ms, 0) * float64(time.Millisecond))
}

func (r refusal) refused() *RefusedError {
	return &RefusedError{
		Code: r.Code, Message: r.Message, DetailCode: r.Details.Code, Reason: r.Details.Reason,
		Retryable: r.Retryable, RetryAfter: r.retryAfter(),
	}
}

func (r refusal) auth(reason Reason) *AuthError {
	return &AuthError{
		Reason: reason, Code: r.Code, DetailCode: r.Details.Code,
		Message: r.Message, RequestID: r.Details.RequestID,
	}
}

// inHandshake is the error for a refused connect request.
func (r refusal) inHandshake() error {
	detail := r.Details.Code
	switch {
	case r.Code == codeUnavailable:
		return r.refused() // starting; nothing else is said with this code here
	case detail == "AUTH_TOKEN_MISMATCH" || detail == "AUTH_PASSWORD_MISMATCH":
		return r.auth(ReasonTokenWrong)
	case detail == "AUTH_TOKEN_MISSING" || detail == "AUTH_PASSWORD_MISSING":
		return r.auth(ReasonTokenMissing)
	case r.Code == codeNotPaired || detail == "PAIRING_REQUIRED":
		return r.auth(ReasonPairing)
	case strings.HasPrefix(detail, "DEVICE_AUTH_"):
		return r.auth(ReasonSignature)
	case detail == "PROTOCOL_MISMATCH" || strings.Contains(r.Message, "protocol mismatch"):
		return r.auth(ReasonProtocol) // 2026.3.13 sends no code
	default:
		return r.auth(ReasonRefused)
	}
}

// afterHandshake is the error for any other refused request.
func (r refusal) afterHandshake() error {
	// 2026.3.13 tells a missing scope in the message alone.
	if r.Code == codeForbidden || r.Details.Code == "MISSING_SCOPE" || strings.HasPrefix(r.Message, "missing scope") {
		return r.auth(ReasonScope)
	}
	return r.refused()
}
