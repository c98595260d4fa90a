package gatewaytest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// signatureSkew is how far signedAt may be from the gateway's clock.
const signatureSkew = 120 * time.Second

// judgeDevice checks the device's proof, and returns the name of a refusal.
func (c greeting) judgeDevice(p connectParams) string {
	g := c.p.g
	g.mu.Lock()
	age := g.now().Sub(time.UnixMilli(p.Device.SignedAt)).Abs()
	g.mu.Unlock()
	key, err := base64.RawURLEncoding.DecodeString(p.Device.PublicKey)
	sum := sha256.Sum256(key)
	switch {
	case err != nil, len(key) != ed25519.PublicKeySize, hex.EncodeToString(sum[:]) != p.Device.ID:
		return "DEVICE_AUTH_DEVICE_ID_MISMATCH"
	case age > signatureSkew:
		return "DEVICE_AUTH_SIGNATURE_EXPIRED"
	case p.Device.Nonce != c.nonce:
		return "DEVICE_AUTH_NONCE_MISMATCH"
	}
	signature, err := base64.RawURLEncoding.DecodeString(p.Device.Signature)
	if err != nil {
		return "DEVICE_AUTH_SIGNATURE_INVALID"
	}
	for _, text := range signedTexts(p) {
		if ed25519.Verify(key, []byte(text), signature) {
			return ""
		}
	}
	return "DEVICE_AUTH_SIGNATURE_INVALID"
}

// signedTexts are the texts a device may have signed: version 3, and version 2
// without the last two fields.
func signedTexts(p connectParams) []string {
	role := p.Role
	if role == "" {
		role = "operator"
	}
	secret := p.Auth.Token
	if secret == "" {
		secret = p.Auth.DeviceToken
	}
	fields := p.Device.ID + "|" + p.Client.ID + "|" + p.Client.Mode + "|" + role + "|" +
		strings.Join(p.Scopes, ",") + "|" + strconv.FormatInt(p.Device.SignedAt, 10) + "|" +
		secret + "|" + p.Device.Nonce
	platform := strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, strings.TrimSpace(p.Client.Platform))
	return []string{"v3|" + fields + "|" + platform + "|" + p.Client.DeviceFamily, "v2|" + fields}
}
