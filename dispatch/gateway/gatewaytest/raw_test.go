package gatewaytest_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"otm/dispatch/gateway/gatewaytest"
)

type object = map[string]any

// raw is a client without any manners, to see what the gateway does.
type raw struct {
	t     *testing.T
	ws    *websocket.Conn
	key   ed25519.PrivateKey
	nonce string
	ts    int64
	ids   int
}

// response is a response frame.
type response struct {
	Type    string
	ID      any
	OK      bool
	Event   string
	Payload object
	Error   *struct {
		Code, Message string
		Details       object
		Retryable     bool
		RetryAfterMs  int
	}
}

// dial connects and takes the challenge.
func dial(t *testing.T, g *gatewaytest.Gateway, header http.Header) *raw {
	t.Helper()
	return dialWith(t, g.URL(), header)
}

func dialURL(t *testing.T, url string) *raw {
	t.Helper()
	return dialWith(t, url, nil)
}

func dialWith(t *testing.T, url string, header http.Header) *raw {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { ws.CloseNow() })
	ws.SetReadLimit(64 << 20)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{t: t, ws: ws, key: key}
	challenge, err := r.read()
	if err != nil || challenge.Event != "connect.challenge" {
		t.Fatalf("first frame %+v, %v; want the challenge", challenge, err)
	}
	r.nonce = challenge.Payload["nonce"].(string)
	r.ts = int64(challenge.Payload["ts"].(float64))
	return r
}

func (r *raw) read() (response, error) {
	_, data, err := r.ws.Read(r.t.Context())
	if err != nil {
		return response{}, err
	}
	var f response
	// Odd frames are part of what the gateway sends.
	_ = json.Unmarshal(data, &f)
	return f, nil
}

// send writes a frame as it stands.
func (r *raw) send(frame string) {
	r.t.Helper()
	if err := r.ws.Write(r.t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		r.t.Fatalf("send: %v", err)
	}
}

// ask sends a request and returns its id.
func (r *raw) ask(method string, params any) string {
	r.t.Helper()
	r.ids++
	id := fmt.Sprintf("r%d", r.ids)
	data, err := json.Marshal(object{"type": "req", "id": id, "method": method, "params": params})
	if err != nil {
		r.t.Fatal(err)
	}
	r.send(string(data))
	return id
}

// next returns the next response to id.
func (r *raw) next(id any) response {
	r.t.Helper()
	for {
		f, err := r.read()
		if err != nil {
			r.t.Fatalf("no response to %v: %v", id, err)
		}
		if f.Type == "res" && f.ID == id {
			return f
		}
	}
}

// call is ask and next.
func (r *raw) call(method string, params any) response {
	r.t.Helper()
	return r.next(r.ask(method, params))
}

// closed returns how the connection ends.
func (r *raw) closed() websocket.CloseError {
	r.t.Helper()
	for {
		if _, err := r.read(); err != nil {
			var ce websocket.CloseError
			if !errors.As(err, &ce) {
				r.t.Fatalf("connection ended with %v, want a close frame", err)
			}
			return ce
		}
	}
}

// params are connect parameters that both versions take. change may spoil
// them before they are signed, spoil after.
func (r *raw) params(change func(object)) object {
	public := r.key.Public().(ed25519.PublicKey)
	sum := sha256.Sum256(public)
	p := object{
		"minProtocol": 3, "maxProtocol": 4, "role": "operator",
		"client": object{"id": "gateway-client", "version": "0.0.1", "platform": "linux", "mode": "backend"},
		"scopes": []string{"operator.read", "operator.write"},
		"auth":   object{"token": gatewaytest.DefaultToken},
		"device": object{
			"id": hex.EncodeToString(sum[:]), "publicKey": base64.RawURLEncoding.EncodeToString(public),
			"signedAt": r.ts, "nonce": r.nonce,
		},
	}
	if change != nil {
		change(p)
	}
	if d, ok := p["device"].(object); ok && d["signature"] == nil {
		r.sign(p, d, "v3")
	}
	return p
}

func (r *raw) sign(p, d object, version string) {
	client := p["client"].(object)
	token := ""
	if auth, ok := p["auth"].(object); ok {
		token, _ = auth["token"].(string)
	}
	scopes, _ := p["scopes"].([]string)
	text := fmt.Sprintf("%s|%s|%s|%s|operator|%s|%d|%s|%s", version, d["id"], client["id"], client["mode"],
		strings.Join(scopes, ","), d["signedAt"], token, d["nonce"])
	if version == "v3" {
		text += fmt.Sprintf("|%s|", client["platform"])
	}
	d["signature"] = base64.RawURLEncoding.EncodeToString(ed25519.Sign(r.key, []byte(text)))
}

// connected returns a client past the handshake.
func connected(t *testing.T, g *gatewaytest.Gateway) *raw {
	t.Helper()
	r := dial(t, g, nil)
	if f := r.call("connect", r.params(nil)); !f.OK {
		t.Fatalf("connect refused: %+v", f.Error)
	}
	return r
}

// each runs a test on both versions.
func each(t *testing.T, f func(t *testing.T, p gatewaytest.Profile)) {
	t.Parallel()
	for _, p := range gatewaytest.Profiles() {
		p.HandshakeLimit = time.Minute // a busy machine is not what is tested
		t.Run(p.Version, func(t *testing.T) {
			t.Parallel()
			f(t, p)
		})
	}
}

func newer(p gatewaytest.Profile) bool { return p.Version == gatewaytest.Profile2026_9_6.Version }
