package gateway

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// challenge is the gateway's first event.
type challenge struct {
	Nonce string `json:"nonce"`
	TS    int64  `json:"ts"` // milliseconds since the epoch
}

// Server is the process at the other end of a connection.
type Server struct {
	Version string
	BootID  string // changes with every process; "": 2026.3.13 has none

	// It began between these two, by the monotonic clock of this process.
	after, before time.Time
	methods       []string // that it has
}

// Restarted reports whether this is another process than an earlier one, for certain.
func (s *Server) Restarted(since *Server) bool {
	if s.BootID != "" || since.BootID != "" {
		return s.BootID != since.BootID
	}
	return s.after.After(since.before)
}

// Began returns when the process began, at the earliest.
func (s *Server) Began() time.Time { return s.after.Round(0) }

// uptimeSlack is more than the rounding of an uptime.
const uptimeSlack = 5 * time.Millisecond

// maxUptimeMs bounds what a gateway says of its uptime: ten years.
const maxUptimeMs = 10 * 366 * 24 * 3600 * 1000

// shakeHands makes a fresh channel one that takes calls, and returns who answered. Its
// errors are worth another attempt unless they match ErrOperator; they never hold the
// token, as they are logged.
func shakeHands(ctx context.Context, ch channel, d device, token, ours string) (server Server, err error) {
	redact := func(text string) string {
		if token == "" {
			return text
		}
		return strings.ReplaceAll(text, token, "[token]")
	}
	first, err := receive(ctx, ch, func(f frame) bool { return f.Event == "connect.challenge" })
	if err != nil {
		return Server{}, fmt.Errorf("wait for challenge: %w", err)
	}
	var c challenge
	decode(first.Payload, &c)
	asked := time.Now()
	if err := ch.Send(ctx, newRequest("connect", "connect", d.connectParams(c, token, ours))); err != nil {
		return Server{}, fmt.Errorf("send connect: %w", err)
	}
	f, err := receive(ctx, ch, func(f frame) bool { return f.Type == "res" && f.ID == "connect" })
	if err != nil {
		return Server{}, fmt.Errorf("wait for hello: %s", redact(err.Error()))
	}
	if !f.OK {
		r := f.refusal()
		r.Message = redact(r.Message)
		return Server{}, r.inHandshake()
	}
	var hello struct {
		Server   Server
		Features struct{ Methods []string }
		Snapshot struct{ UptimeMs float64 }
	}
	decode(f.Payload, &hello)
	up := time.Duration(min(max(hello.Snapshot.UptimeMs, 0), maxUptimeMs) * float64(time.Millisecond))
	server = hello.Server
	server.methods = hello.Features.Methods
	server.after, server.before = asked.Add(-up-uptimeSlack), time.Now().Add(-up+uptimeSlack)
	return server, nil
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

// Our identity. On loopback both versions let gateway-client/backend with a
// signed device in without pairing, and pin nothing about it. Ids and modes are
// closed lists.
const (
	clientID    = "gateway-client"
	clientMode  = "backend"
	clientName  = "OTM"
	role        = "operator"
	scopeRead   = "operator.read"
	scopeWrite  = "operator.write"
	minProtocol = 3 // 2026.3.13 speaks only 3,
	maxProtocol = 4 // 2026.9.6 only 4
)

// device signs connections. A gateway on loopback does not remember it.
type device struct {
	key    ed25519.PrivateKey
	id     string
	public string
}

// newDevice returns a throw-away identity.
func newDevice() device {
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic("internal error: the system's random source failed: " + err.Error())
	}
	sum := sha256.Sum256(public)
	return device{key: key, id: hex.EncodeToString(sum[:]), public: base64.RawURLEncoding.EncodeToString(public)}
}

// connectParams returns signed parameters of the connect request, which answer ch.
// The gateway refuses unknown properties.
func (d device) connectParams(ch challenge, token, version string) map[string]any {
	scopes := []string{scopeRead, scopeWrite}
	signature := ed25519.Sign(d.key, []byte(d.signedText(ch, token, scopes)))
	p := map[string]any{
		"minProtocol": minProtocol,
		"maxProtocol": maxProtocol,
		"client": map[string]string{
			"id": clientID, "displayName": clientName, "version": version, "platform": runtime.GOOS, "mode": clientMode,
		},
		"role":   role,
		"scopes": scopes,
		"device": map[string]any{
			"id": d.id, "publicKey": d.public, "signature": base64.RawURLEncoding.EncodeToString(signature),
			"signedAt": ch.TS, // the gateway's clock, not ours: it allows 120 s of skew
			"nonce":    ch.Nonce,
		},
	}
	if token != "" {
		p["auth"] = map[string]string{"token": token}
	}
	return p
}

// signedText is the text that the device signs, in version 3. It holds the values
// that are sent, the platform in lower case, and no device family.
func (d device) signedText(ch challenge, token string, scopes []string) string {
	return strings.Join([]string{
		"v3", d.id, clientID, clientMode, role, strings.Join(scopes, ","),
		strconv.FormatInt(ch.TS, 10), token, ch.Nonce, runtime.GOOS, "",
	}, "|")
}
