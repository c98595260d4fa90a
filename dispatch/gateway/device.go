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

// connectParams are the parameters of the connect request. The gateway refuses
// unknown properties.
type connectParams struct {
	MinProtocol int    `json:"minProtocol"`
	MaxProtocol int    `json:"maxProtocol"`
	Client      client `json:"client"`

	Role   string   `json:"role"`
	Scopes []string `json:"scopes"`
	Auth   *auth    `json:"auth,omitempty"`
	Device signed   `json:"device"`
}

type client struct {
	ID          string `json:"id"`
	DisplayName string `json:"displayName"`
	Version     string `json:"version"`
	Platform    string `json:"platform"`
	Mode        string `json:"mode"`
}

type auth struct {
	Token string `json:"token"`
}

type signed struct {
	ID        string `json:"id"`
	PublicKey string `json:"publicKey"`
	Signature string `json:"signature"`
	SignedAt  int64  `json:"signedAt"` // milliseconds since the epoch
	Nonce     string `json:"nonce"`
}

// device signs connections. On loopback the gateway does not remember it;
// elsewhere a person approves it.
type device struct {
	key    ed25519.PrivateKey
	id     string
	public string
}

// newDevice returns a throw-away identity.
func newDevice() device {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic("internal error: the system's random source failed: " + err.Error())
	}
	return deviceOf(key)
}

func deviceOf(key ed25519.PrivateKey) device {
	public := key.Public().(ed25519.PublicKey)
	sum := sha256.Sum256(public)
	return device{key: key, id: hex.EncodeToString(sum[:]), public: base64.RawURLEncoding.EncodeToString(public)}
}

// connect returns signed parameters that answer ch.
func (d device) connect(ch challenge, token, version string) connectParams {
	p := connectParams{
		MinProtocol: minProtocol,
		MaxProtocol: maxProtocol,
		Client: client{
			ID: clientID, DisplayName: clientName, Version: version,
			Platform: runtime.GOOS, Mode: clientMode,
		},
		Role:   role,
		Scopes: []string{scopeRead, scopeWrite},
		// The gateway's clock, not ours: it allows 120 s of skew.
		Device: signed{ID: d.id, PublicKey: d.public, SignedAt: ch.TS, Nonce: ch.Nonce},
	}
	if token != "" {
		p.Auth = &auth{Token: token}
	}
	signature := ed25519.Sign(d.key, []byte(signedText(p)))
	p.Device.Signature = base64.RawURLEncoding.EncodeToString(signature)
	return p
}

// signedText is the text that the device signs, in version 3, made from the
// values that are sent.
func signedText(p connectParams) string {
	token := ""
	if p.Auth != nil {
		token = p.Auth.Token
	}
	const deviceFamily = "" // not sent
	return strings.Join([]string{
		"v3", p.Device.ID, p.Client.ID, p.Client.Mode, p.Role, strings.Join(p.Scopes, ","),
		strconv.FormatInt(p.Device.SignedAt, 10), token, p.Device.Nonce,
		strings.ToLower(strings.TrimSpace(p.Client.Platform)), deviceFamily,
	}, "|")
}
