package gateway

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"runtime"
	"strconv"
	"strings"
)

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
