package gatewaytest

import (
	"encoding/json"

	"github.com/coder/websocket"
)

// wireError is the error object of a response.
type wireError struct {
	Code         string `json:"code"`
	Message      string `json:"message"`
	Details      any    `json:"details,omitempty"`
	Retryable    bool   `json:"retryable,omitempty"`
	RetryAfterMs int64  `json:"retryAfterMs,omitempty"`
}

type object = map[string]any

// refusal is how a handshake fails: a response, then a close whose reason
// repeats the message.
type refusal struct {
	err    wireError
	close  websocket.StatusCode // zero: 1008
	reason string               // empty: the message
}

func invalid(message string) wireError {
	return wireError{Code: "INVALID_REQUEST", Message: message}
}

// refusals are those whose words do not depend on what was sent, by their
// details.code if they have one. Seen on both versions unless a comment says
// otherwise.
var refusals = map[string]refusal{
	"AUTH_TOKEN_MISMATCH": {err: wireError{
		Code: "INVALID_REQUEST", Message: "unauthorized: gateway token mismatch (provide gateway auth token)",
		Details: object{
			"code": "AUTH_TOKEN_MISMATCH", "authReason": "token_mismatch", "canRetryWithDeviceToken": false,
			"recommendedNextStep": "update_auth_credentials",
		},
	}},
	"AUTH_TOKEN_MISSING": {err: wireError{
		Code: "INVALID_REQUEST", Message: "unauthorized: gateway token missing (provide gateway auth token)",
		Details: object{
			"code": "AUTH_TOKEN_MISSING", "authReason": "token_missing", "canRetryWithDeviceToken": false,
			"recommendedNextStep": "update_auth_configuration",
		},
	}},
	"DEVICE_IDENTITY_REQUIRED": {err: wireError{
		Code: "NOT_PAIRED", Message: "device identity required",
		Details: object{"code": "DEVICE_IDENTITY_REQUIRED"},
	}},
	"CONTROL_UI_DEVICE_IDENTITY_REQUIRED": coded("CONTROL_UI_DEVICE_IDENTITY_REQUIRED",
		"control ui requires device identity (use HTTPS or localhost secure context)", ""), // 2026.9.6
	"CONTROL_UI_ORIGIN_NOT_ALLOWED": coded("CONTROL_UI_ORIGIN_NOT_ALLOWED",
		"origin not allowed (open the Control UI from the gateway host or allow it in gateway.controlUi.allowedOrigins)",
		"origin missing or invalid"),

	// Reasons other than not-paired and metadata-upgrade, and the rest of the
	// message, were only read.
	"PAIRING_REQUIRED": pairing("not-paired"),
	"PAIRING_SCOPES":   pairing("scope-upgrade"),
	"PAIRING_METADATA": pairing("metadata-upgrade"),
	"PAIRING_ROLE":     pairing("role-upgrade"),

	"DEVICE_AUTH_SIGNATURE_INVALID":  coded("DEVICE_AUTH_SIGNATURE_INVALID", "device signature invalid", "device-signature"),
	"DEVICE_AUTH_NONCE_MISMATCH":     coded("DEVICE_AUTH_NONCE_MISMATCH", "device nonce mismatch", "device-nonce-mismatch"),
	"DEVICE_AUTH_SIGNATURE_EXPIRED":  coded("DEVICE_AUTH_SIGNATURE_EXPIRED", "device signature expired", "device-signature-stale"),
	"DEVICE_AUTH_DEVICE_ID_MISMATCH": coded("DEVICE_AUTH_DEVICE_ID_MISMATCH", "device identity mismatch", "device-id-mismatch"),

	"INVALID_ROLE":  {err: invalid("invalid role")},
	"FIRST_REQUEST": {err: invalid("invalid handshake: first request must be connect")},
	"UNKNOWN_FIELD": {err: invalid("invalid connect params: at root: unexpected property 'foo'")},
	"UNKNOWN_ID":    {err: invalid("invalid connect params: at /client/id: must be equal to one of the allowed values")},

	// Not seen: a code of the future, and an answer that no client may log.
	"UNEXPLAINED_NO":  {err: wireError{Code: "SOMETHING_NEW", Message: "no"}},
	"TOKEN_IN_ANSWER": {err: invalid("unauthorized: got " + DefaultToken)},
}

func coded(code, message, reason string) refusal {
	details := object{"code": code}
	if reason != "" {
		details["reason"] = reason
	}
	e := invalid(message)
	e.Details = details
	return refusal{err: e}
}

// Refusals returns the names that DialRefuse knows.
func Refusals() []string {
	var names []string
	for name := range refusals {
		names = append(names, name)
	}
	return names
}

func pairing(reason string) refusal {
	return refusal{err: wireError{
		Code: "NOT_PAIRED", Message: "pairing required",
		Details: object{
			"code": "PAIRING_REQUIRED", "reason": reason,
			"requestId": "6b9f1a0e-52f0-4f6f-a7c9-0d5d1f2f8b11",
		},
	}}
}

// protocolMismatch is the refusal of a range without the profile's protocol.
func (p Profile) protocolMismatch(low, high int) *refusal {
	details := object{"expectedProtocol": p.Protocol}
	if p.codedProtocol {
		details["code"] = "PROTOCOL_MISMATCH"
		details["clientMinProtocol"] = low
		details["clientMaxProtocol"] = high
		details["minimumProbeProtocol"] = 3
	}
	e := invalid("protocol mismatch")
	e.Details = details
	return &refusal{err: e, close: websocket.StatusProtocolError}
}

// starting is the refusal of a gateway that is not ready. 2026.3.13 does not
// listen then, so it never says this by itself.
func (o Options) starting() *refusal {
	return &refusal{
		err: wireError{
			Code: "UNAVAILABLE", Message: "gateway starting; retry shortly", Retryable: true,
			RetryAfterMs: o.retryAfter(500), Details: object{"reason": "startup-sidecars"},
		},
		close: websocket.StatusTryAgainLater, reason: "gateway starting",
	}
}

// draining is the answer of a gateway that goes down, to every method.
func (o Options) draining(method string) wireError {
	return wireError{
		Code: "UNAVAILABLE", Message: method + " unavailable during gateway restart", Retryable: true,
		RetryAfterMs: o.retryAfter(1000),
		Details:      object{"reason": "gateway-restarting", "method": method, "phase": "accepting"},
	}
}

func (o Options) retryAfter(ms int64) int64 {
	if o.RetryAfter > 0 {
		return o.RetryAfter.Milliseconds()
	}
	return ms
}

// missingScope is the answer to a method that needs another scope.
func (p Profile) missingScope(scope string) wireError {
	e := wireError{Code: "INVALID_REQUEST", Message: "missing scope: " + scope}
	if p.forbidden {
		e.Code = "FORBIDDEN"
		e.Details = object{"code": "MISSING_SCOPE", "missingScope": scope, "requiredScopes": []string{scope}}
	}
	return e
}

// answer is a response without its id: a failed run has payload and error.
type answer struct {
	ok      bool
	payload any
	err     *wireError
}

func refused(e wireError) answer { return answer{err: &e} }

func (a answer) frame(id json.RawMessage) []byte {
	return mustJSON(struct {
		Type    string          `json:"type"`
		ID      json.RawMessage `json:"id"`
		OK      bool            `json:"ok"`
		Payload any             `json:"payload,omitempty"`
		Error   *wireError      `json:"error,omitempty"`
	}{"res", id, a.ok, a.payload, a.err})
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("gatewaytest: " + err.Error())
	}
	return data
}
