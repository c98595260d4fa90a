package gateway

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// newRequest encodes a request. The id must not be empty. Our parameters always encode.
func newRequest(id, method string, params any) []byte {
	data, err := json.Marshal(map[string]any{"type": "req", "id": id, "method": method, "params": params})
	if err != nil {
		panic(fmt.Sprintf("internal error: parameters of %s do not encode: %v", method, err))
	}
	return data
}

// frame is a frame from the gateway: a response or an event. Its user decodes
// what it carries.
type frame struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	OK      bool            `json:"ok"`
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload"`
	Error   json.RawMessage `json:"error"`
}

// parseFrame is not ok for text that is not a JSON object, and one whose fields
// have other types than above.
func parseFrame(data []byte) (f frame, ok bool) {
	err := json.Unmarshal(data, &f)
	return f, err == nil && f.Type != ""
}

// decode fills v with the fields of raw that fit. It skips unknown fields and
// those of another type.
func decode(raw json.RawMessage, v any) {
	// After a type mismatch the decoder goes on with the next field. parseFrame
	// has excluded other errors.
	_ = json.Unmarshal(raw, v)
}

// refusal is the error object of a response.
type refusal struct {
	Code         string  `json:"code"`
	Message      string  `json:"message"`
	RetryAfterMs float64 `json:"retryAfterMs"`
	Details      struct {
		Code             string `json:"code"`
		ExpectedProtocol int    `json:"expectedProtocol"`
	} `json:"details"`
}

func (f frame) refusal() refusal {
	var r refusal
	decode(f.Error, &r)
	return r
}

func (r refusal) because(reason Reason) *Error {
	return &Error{Reason: reason, Message: r.Message, RetryAfter: r.retryAfter()}
}

// maxRetryAfter bounds the pause that a gateway can impose.
const maxRetryAfter = time.Minute

// retryAfter is the pause that the gateway asks for; zero: none.
func (r refusal) retryAfter() time.Duration {
	ms := math.Min(r.RetryAfterMs, float64(maxRetryAfter.Milliseconds()))
	return time.Duration(math.Max(ms, 0) * float64(time.Millisecond))
}

// inHandshake is the error for a refused connect request.
func (r refusal) inHandshake() *Error {
	reason := ReasonRefused
	switch detail := r.Details.Code; {
	case r.Code == "UNAVAILABLE":
		reason = ReasonLater
	case detail == "AUTH_TOKEN_MISMATCH" || detail == "AUTH_PASSWORD_MISMATCH":
		reason = ReasonTokenWrong
	case detail == "AUTH_TOKEN_MISSING" || detail == "AUTH_PASSWORD_MISSING":
		reason = ReasonTokenMissing
	case r.Code == "NOT_PAIRED" || detail == "PAIRING_REQUIRED":
		reason = ReasonPairing
	case strings.HasPrefix(detail, "DEVICE_AUTH_"):
		reason = ReasonSignature
	case r.Details.ExpectedProtocol != 0:
		reason = ReasonProtocol
	}
	return r.because(reason)
}

// afterHandshake is the error for any other refused request. A missing scope has
// no code on 2026.3.13, and an unknown agent has none on either version: only
// the message tells.
func (r refusal) afterHandshake() *Error {
	reason := ReasonRequest
	switch {
	case r.Code == "UNAVAILABLE": // as a first response, it means nothing else
		reason = ReasonLater
	case r.Code == "FORBIDDEN" || strings.HasPrefix(r.Message, "missing scope"):
		reason = ReasonScope
	case strings.Contains(r.Message, "unknown agent"):
		reason = ReasonUnknownAgent
	}
	return r.because(reason)
}
