package gatewaytest

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"time"

	"github.com/coder/websocket"
)

// connectParams are the parameters of the connect request.
type connectParams struct {
	MinProtocol int `json:"minProtocol"`
	MaxProtocol int `json:"maxProtocol"`
	Client      struct {
		ID           string `json:"id"`
		Version      string `json:"version"`
		Platform     string `json:"platform"`
		Mode         string `json:"mode"`
		DeviceFamily string `json:"deviceFamily"`
	} `json:"client"`
	Role   string   `json:"role"`
	Scopes []string `json:"scopes"`
	Auth   struct {
		Token       string `json:"token"`
		Password    string `json:"password"`
		DeviceToken string `json:"deviceToken"`
	} `json:"auth"`
	Device *devicePart `json:"device"`
}

type devicePart struct {
	ID        string `json:"id"`
	PublicKey string `json:"publicKey"`
	Signature string `json:"signature"`
	SignedAt  int64  `json:"signedAt"`
	Nonce     string `json:"nonce"`
}

// greeting is the handshake of a connection.
type greeting struct{ *conn }

// shakeHands takes the connection through the handshake, and reports whether
// it may go on.
func (c greeting) shakeHands() bool {
	g := c.p.g
	c.ws.SetReadLimit(firstFrameLimit)
	g.mu.Lock()
	c.challenge()
	g.mu.Unlock()
	limit := time.AfterFunc(g.profile.HandshakeLimit, func() { c.close(websocket.StatusNormalClosure, "") })
	_, data, err := c.ws.Read(c.ctx)
	if c.fault.stall {
		return false // the limit closes it
	}
	limit.Stop()
	if err != nil {
		return false
	}
	req, ok := c.firstFrame(data)
	if !ok {
		return false
	}
	if c.fault.closed {
		c.enqueue(outItem{cut: true, how: c.fault.cut, reason: c.fault.detail})
		return false
	}
	hello, refusal := c.connect(req)
	g.mu.Lock()
	defer g.mu.Unlock()
	if refusal != nil {
		c.refuse(req.ID, *refusal)
		return false
	}
	c.reply(req.ID, answer{ok: true, payload: hello})
	return true
}

func (c greeting) challenge() {
	c.ts = c.p.g.now().UnixMilli()
	payload := object{"nonce": c.nonce, "ts": c.ts}
	if c.p.g.profile.bootID {
		payload["capabilities"] = []string{"model-catalog-snapshot"}
	}
	c.enqueue(outItem{data: mustJSON(object{"type": "event", "event": "connect.challenge", "payload": payload})})
}

// firstFrame takes the first frame apart, and answers one that is none.
func (c greeting) firstFrame(data []byte) (request, bool) {
	if !json.Valid(data) {
		c.close(websocket.StatusNormalClosure, "")
		return request{}, false
	}
	var req request
	if json.Unmarshal(data, &req) != nil || req.Type != "req" || req.Method == "" || !req.hasID() {
		c.close(websocket.StatusPolicyViolation, "invalid request frame")
		return request{}, false
	}
	if req.Method != "connect" {
		c.p.g.mu.Lock()
		defer c.p.g.mu.Unlock()
		c.refuse(req.ID, refusals["FIRST_REQUEST"])
		return request{}, false
	}
	return req, true
}

// refuse sends the response and then closes with its words. The caller holds
// mu.
func (c greeting) refuse(id json.RawMessage, r refusal) {
	if r.close == 0 {
		r.close = websocket.StatusPolicyViolation
	}
	if r.reason == "" {
		r.reason = r.err.Message
	}
	c.reply(id, refused(r.err))
	c.close(r.close, r.reason)
}

// connect judges the request, and returns the hello or the refusal.
func (c greeting) connect(req request) (object, *refusal) {
	g := c.p.g
	if c.fault.refuse != "" {
		r := refusals[c.fault.refuse]
		return nil, &r
	}
	g.mu.Lock()
	starting := c.p.starting || c.fault.starting
	g.mu.Unlock()
	if starting {
		return nil, g.o.starting()
	}
	if problem := g.profile.checkConnect(req.Params); problem != "" {
		return nil, &refusal{err: invalid("invalid connect params: " + problem)}
	}
	var p connectParams
	if err := json.Unmarshal(req.Params, &p); err != nil {
		return nil, &refusal{err: invalid("invalid connect params: " + err.Error())}
	}
	if p.MinProtocol > g.profile.Protocol || p.MaxProtocol < g.profile.Protocol {
		return nil, g.profile.protocolMismatch(p.MinProtocol, p.MaxProtocol)
	}
	deviceToken, name := c.admit(p)
	if name != "" {
		r := refusals[name]
		return nil, &r
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return c.hello(deviceToken), nil
}

// admit judges role, origin, token and device, and sets the scopes. It returns
// the device token if one is issued, or the name of a refusal.
func (c greeting) admit(p connectParams) (deviceToken, refusal string) {
	if p.Role == "" {
		p.Role = "operator"
	}
	switch {
	case p.Role == "node" && p.Device == nil:
		return "", "DEVICE_IDENTITY_REQUIRED"
	case p.Role != "operator" && p.Role != "node":
		return "", "INVALID_ROLE"
	}
	if name := c.judgeOrigin(p); name != "" {
		return "", name
	}
	if name := c.judgeToken(p); name != "" {
		return "", name
	}
	if p.Device == nil {
		c.scopes = c.unsignedScopes(p)
	} else {
		if name := c.judgeDevice(p); name != "" {
			return "", name
		}
		var name string
		if deviceToken, name = c.pair(p); name != "" {
			return "", name
		}
		c.scopes = p.Scopes
	}
	c.p.g.mu.Lock()
	defer c.p.g.mu.Unlock()
	if granted := c.p.g.granted; granted != nil {
		c.scopes = *granted
	}
	return deviceToken, ""
}

// judgeOrigin: with an Origin seen on 2026.9.6 alone; the other profile does the
// same.
func (c greeting) judgeOrigin(p connectParams) string {
	u, err := url.Parse(c.origin)
	switch {
	case c.origin == "" && (p.Client.ID == "webchat" || p.Client.ID == "openclaw-control-ui"):
		return "CONTROL_UI_ORIGIN_NOT_ALLOWED"
	case c.origin == "":
		return ""
	case err != nil || u.Host != c.host:
		return "CONTROL_UI_ORIGIN_NOT_ALLOWED"
	}
	return "PAIRING_REQUIRED"
}

func (c greeting) judgeToken(p connectParams) string {
	g := c.p.g
	sent := p.Auth.Token
	if sent == "" && g.profile.secretAnyField {
		sent = p.Auth.Password
	}
	g.mu.Lock()
	right := sent == g.token
	var delay time.Duration
	if sent != "" && !right && g.profile.tokenDelays {
		delay = g.o.TokenDelay(c.p.wrongTokens)
		c.p.wrongTokens++
	}
	g.mu.Unlock()
	switch {
	case right && p.Client.ID == "openclaw-tui" && p.Device == nil:
		return "CONTROL_UI_DEVICE_IDENTITY_REQUIRED"
	case right:
		return ""
	case sent == "" && p.Device == nil:
		return "DEVICE_IDENTITY_REQUIRED"
	case sent == "":
		return "AUTH_TOKEN_MISSING"
	}
	sleep(c.ctx, delay)
	return "AUTH_TOKEN_MISMATCH"
}

// unsignedScopes are what a client without a device keeps on loopback.
func (c greeting) unsignedScopes(p connectParams) []string {
	if slices.Contains(c.p.g.profile.keepsScopes, p.Client.ID+"/"+p.Client.Mode) {
		return p.Scopes
	}
	return []string{}
}

// pair lets gateway-client/backend through without pairing; any other client
// on loopback is paired silently, and its platform pinned. From elsewhere a
// device comes in when it was approved.
func (c greeting) pair(p connectParams) (deviceToken, refusal string) {
	g := c.p.g
	if p.Client.ID == "gateway-client" && p.Client.Mode == "backend" && !g.o.Remote {
		return "", ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	platform, known := g.paired[p.Device.ID]
	if known && platform != p.Client.Platform {
		return "", "PAIRING_METADATA"
	}
	if !known && g.o.Remote {
		g.asking = [2]string{p.Device.ID, p.Client.Platform}
		return "", "PAIRING_REQUIRED"
	}
	g.paired[p.Device.ID] = p.Client.Platform
	return "device-token-" + p.Device.ID[:8], ""
}

// sleep waits, and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
