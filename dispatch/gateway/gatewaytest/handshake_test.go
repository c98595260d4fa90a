package gatewaytest_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"otm/dispatch/gateway/gatewaytest"
)

func scopesOf(f response) []string {
	auth, _ := f.Payload["auth"].(object)
	raw, ok := auth["scopes"].([]any)
	if !ok {
		return nil
	}
	scopes := []string{}
	for _, s := range raw {
		scopes = append(scopes, s.(string))
	}
	return scopes
}

func TestHello(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		r := dial(t, gatewaytest.Start(t, p), nil)
		f := r.call("connect", r.params(nil))
		if !f.OK || f.Payload["type"] != "hello-ok" || f.Payload["protocol"] != float64(p.Protocol) {
			t.Fatalf("answer %+v", f)
		}
		if got := scopesOf(f); (got != nil) != newer(p) {
			t.Errorf("scopes %v", got)
		}
	})
}

func TestHelloPadded(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		g.PadHello(40 << 10)
		r := dial(t, g, nil)
		r.ws.SetReadLimit(32 << 10)
		r.ask("connect", r.params(nil))
		for {
			if _, err := r.read(); err != nil {
				if !errors.Is(err, websocket.ErrMessageTooBig) {
					t.Fatalf("err %v", err)
				}
				return
			}
		}
	})
}

// The table of refused connect requests.
func TestConnectRefused(t *testing.T) {
	client := func(id, mode string) func(object) {
		return func(p object) {
			p["client"] = object{"id": id, "version": "1", "platform": "linux", "mode": mode}
		}
	}
	unsigned := func(f func(object)) func(object) {
		return func(p object) { f(p); delete(p, "device") }
	}
	tests := []struct {
		name    string
		change  func(object)
		code    string
		message string
		detail  string // on both, or
		only    string // on this version
		close   websocket.StatusCode
	}{
		{name: "wrong token", change: func(p object) { p["auth"] = object{"token": "x"} },
			code: "INVALID_REQUEST", message: "unauthorized: gateway token mismatch", detail: "AUTH_TOKEN_MISMATCH"},
		{name: "no token no device", change: unsigned(func(p object) { delete(p, "auth") }),
			code: "NOT_PAIRED", message: "device identity required", detail: "DEVICE_IDENTITY_REQUIRED"},
		{name: "no token", change: func(p object) { delete(p, "auth") },
			code: "INVALID_REQUEST", message: "unauthorized: gateway token missing", detail: "AUTH_TOKEN_MISSING"},
		{name: "signature", change: func(p object) { p["device"].(object)["signature"] = "AAAA" },
			code: "INVALID_REQUEST", message: "device signature invalid", detail: "DEVICE_AUTH_SIGNATURE_INVALID"},
		{name: "nonce", change: func(p object) { p["device"].(object)["nonce"] = "other" },
			code: "INVALID_REQUEST", message: "device nonce mismatch", detail: "DEVICE_AUTH_NONCE_MISMATCH"},
		{name: "age", change: func(p object) {
			d := p["device"].(object)
			d["signedAt"] = d["signedAt"].(int64) - 121_000
		}, code: "INVALID_REQUEST", message: "device signature expired", detail: "DEVICE_AUTH_SIGNATURE_EXPIRED"},
		{name: "protocol too low", change: func(p object) { p["minProtocol"], p["maxProtocol"] = 1, 2 }, only: "2026.3.13",
			code: "INVALID_REQUEST", message: "protocol mismatch", close: websocket.StatusProtocolError},
		{name: "3 alone", change: func(p object) { p["maxProtocol"] = 3 }, only: "2026.9.6",
			code: "INVALID_REQUEST", message: "protocol mismatch", detail: "PROTOCOL_MISMATCH", close: websocket.StatusProtocolError},
		{name: "4 alone", change: func(p object) { p["minProtocol"] = 4 }, only: "2026.3.13",
			code: "INVALID_REQUEST", message: "protocol mismatch", close: websocket.StatusProtocolError},
		{name: "client id", change: client("otm", "backend"), only: "2026.9.6",
			code: "INVALID_REQUEST", message: "invalid connect params: at /client/id: must be equal to one of"},
		{name: "newer client id", change: client("openclaw-tui", "ui"), only: "2026.3.13",
			code: "INVALID_REQUEST", message: "invalid connect params: at /client/id: must be equal to constant; at /client/id: must match"},
		{name: "mode of the documentation", change: client("cli", "operator"),
			code: "INVALID_REQUEST", message: "invalid connect params: at /client/mode"},
		{name: "unknown property", change: func(p object) { p["foo"] = 1 },
			code: "INVALID_REQUEST", message: "invalid connect params: at root: unexpected property 'foo'"},
		{name: "unknown property of client", change: func(p object) { p["client"].(object)["foo"] = 1 },
			code: "INVALID_REQUEST", message: "invalid connect params: at /client: unexpected property 'foo'"},
		{name: "unknown property of device", change: func(p object) { p["device"].(object)["foo"] = 1 },
			code: "INVALID_REQUEST", message: "invalid connect params: at /device: unexpected property 'foo'"},
		{name: "unknown property of auth", change: func(p object) { p["auth"].(object)["foo"] = 1 },
			code: "INVALID_REQUEST", message: "invalid connect params: at /auth: unexpected property 'foo'"},
		{name: "null scopes", change: func(p object) { p["scopes"] = nil },
			code: "INVALID_REQUEST", message: "invalid connect params: at /scopes"},
		{name: "role", change: func(p object) { p["role"] = "admin" }, code: "INVALID_REQUEST", message: "invalid role"},
		{name: "node without device", change: unsigned(func(p object) { p["role"] = "node" }),
			code: "NOT_PAIRED", message: "device identity required", detail: "DEVICE_IDENTITY_REQUIRED"},
		{name: "device id", change: func(p object) { p["device"].(object)["id"] = "00" },
			code: "INVALID_REQUEST", message: "device identity mismatch", detail: "DEVICE_AUTH_DEVICE_ID_MISMATCH"},
		{name: "no client", change: unsigned(func(p object) { delete(p, "client") }),
			code: "INVALID_REQUEST", message: "invalid connect params: must have required property 'client'"},
		{name: "no version", change: func(p object) { delete(p["client"].(object), "version") },
			code: "INVALID_REQUEST", message: "invalid connect params: at /client: must have required property 'version'"},
		{name: "tui without device", change: unsigned(client("openclaw-tui", "ui")), only: "2026.9.6",
			code: "INVALID_REQUEST", message: "control ui requires device identity", detail: "CONTROL_UI_DEVICE_IDENTITY_REQUIRED"},
		{name: "webchat", change: unsigned(client("webchat", "webchat")),
			code: "INVALID_REQUEST", message: "origin not allowed", detail: "CONTROL_UI_ORIGIN_NOT_ALLOWED"},
	}
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
			o.TokenDelay = func(int) time.Duration { return 0 }
		})
		for _, tt := range tests {
			if tt.only != "" && tt.only != p.Version {
				continue
			}
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				r := dial(t, g, nil)
				f := r.call("connect", r.params(tt.change))
				if f.OK || f.Error.Code != tt.code || !strings.HasPrefix(f.Error.Message, tt.message) {
					t.Fatalf("answer %+v, error %+v", f, f.Error)
				}
				if got, _ := f.Error.Details["code"].(string); got != tt.detail {
					t.Errorf("details.code %q, want %q", got, tt.detail)
				}
				want := websocket.CloseError{Code: tt.close, Reason: f.Error.Message[:min(len(f.Error.Message), 123)]}
				if want.Code == 0 {
					want.Code = websocket.StatusPolicyViolation
				}
				if got := r.closed(); got != want {
					t.Errorf("closed with %v, want %v", got, want)
				}
			})
		}
	})
}

func TestFirstFrame(t *testing.T) {
	tests := []struct {
		name, frame string
		answer      bool
		close       websocket.CloseError
	}{
		{"other method", `{"type":"req","id":"a","method":"health"}`, true,
			websocket.CloseError{Code: 1008, Reason: "invalid handshake: first request must be connect"}},
		{"no request", `{"type":"event","event":"x"}`, false, websocket.CloseError{Code: 1008, Reason: "invalid request frame"}},
		{"numeric id", `{"type":"req","id":1,"method":"connect"}`, false, websocket.CloseError{Code: 1008, Reason: "invalid request frame"}},
		{"no JSON", `hello`, false, websocket.CloseError{Code: 1000}},
	}
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				r := dial(t, g, nil)
				r.send(tt.frame)
				if tt.answer && r.next("a").OK {
					t.Error("answered ok")
				}
				if got := r.closed(); got != tt.close {
					t.Errorf("closed with %v, want %v", got, tt.close)
				}
			})
		}
	})
}

func TestFirstFrameTooBig(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		r := dial(t, gatewaytest.Start(t, p), nil)
		r.send(`{"type":"req","id":"` + strings.Repeat("x", 64<<10) + `","method":"connect"}`)
		if got := r.closed(); got.Code != websocket.StatusMessageTooBig {
			t.Errorf("closed with %v", got)
		}
	})
}

func TestHandshakeLimit(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) { o.HandshakeLimit = 10 * time.Millisecond })
		if got := dial(t, g, nil).closed(); got != (websocket.CloseError{Code: 1000}) {
			t.Errorf("closed with %v, want 1000 without a reason", got)
		}
	})
}

// A client that does not answer pings is cut off, without a close frame, by
// the version that sends them.
func TestUnansweredPings(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Profile2026_9_6, func(o *gatewaytest.Options) {
		o.PingEvery = 5 * time.Millisecond
	})
	ws, _, err := websocket.Dial(t.Context(), g.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	// Nobody reads, so nobody answers.
	g.Until(t, func() bool { made, open := g.Connections(); return made == 1 && open == 0 })
	for {
		if _, _, err := ws.Read(t.Context()); err != nil {
			if websocket.CloseStatus(err) != -1 {
				t.Errorf("ended with %v, want no close frame", err)
			}
			return
		}
	}
}

// Who may come without a device, and with which scopes.
func TestUnsigned(t *testing.T) {
	tests := []struct {
		id, mode string
		kept     bool // by 2026.9.6; 2026.3.13 empties all
	}{
		{"gateway-client", "backend", true}, {"cli", "cli", true},
		{"gateway-client", "cli", false}, {"cli", "backend", false}, {"test", "test", false},
		{"openclaw-probe", "probe", false}, {"node-host", "backend", false},
	}
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		for _, tt := range tests {
			t.Run(tt.id+"/"+tt.mode, func(t *testing.T) {
				t.Parallel()
				r := dial(t, g, nil)
				f := r.call("connect", r.params(func(p object) {
					p["client"] = object{"id": tt.id, "version": "1", "platform": "linux", "mode": tt.mode}
					delete(p, "device")
				}))
				if !f.OK {
					t.Fatalf("refused: %+v", f.Error)
				}
				got := r.call("agent", object{"message": "m", "agentId": "alpha", "idempotencyKey": "k-" + tt.id + tt.mode})
				if got.OK != (tt.kept && newer(p)) {
					t.Fatalf("agent: ok %v, error %+v", got.OK, got.Error)
				}
				if got.OK {
					return
				}
				want := "INVALID_REQUEST"
				if newer(p) {
					want = "FORBIDDEN"
				}
				if got.Error.Code != want || got.Error.Message != "missing scope: operator.write" {
					t.Errorf("error %+v", got.Error)
				}
			})
		}
	})
}

func TestScopesDefaultToNone(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		r := dial(t, gatewaytest.Start(t, p), nil)
		if f := r.call("connect", r.params(func(p object) { delete(p, "scopes") })); !f.OK {
			t.Fatalf("refused: %+v", f.Error)
		}
		if f := r.call("agents.list", object{}); f.OK {
			t.Error("agents.list without operator.read")
		}
		if f := r.call("health", object{}); !f.OK {
			t.Errorf("health refused: %+v", f.Error)
		}
	})
}

func TestSignatureVersions(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		r := dial(t, g, nil)
		if f := r.call("connect", r.params(func(p object) { r.sign(p, p["device"].(object), "v2") })); !f.OK {
			t.Errorf("v2 refused: %+v", f.Error)
		}
		// Scopes must be signed in the order in which they are sent.
		r = dial(t, g, nil)
		f := r.call("connect", r.params(func(p object) {
			r.sign(p, p["device"].(object), "v3")
			p["scopes"] = []string{"operator.write", "operator.read"}
		}))
		if f.OK {
			t.Error("scopes in another order than signed were accepted")
		}
	})
}

func TestPinnedPlatform(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		connect := func(r *raw, platform string) response {
			return r.call("connect", r.params(func(p object) {
				p["client"] = object{"id": "cli", "version": "1", "platform": platform, "mode": "cli"}
			}))
		}
		first := dial(t, g, nil)
		f := connect(first, "linux")
		if auth, _ := f.Payload["auth"].(object); auth["deviceToken"] == nil {
			t.Fatalf("no device token in %+v", f)
		}
		second := dial(t, g, nil)
		second.key = first.key
		f = connect(second, "darwin")
		if f.OK || f.Error.Details["reason"] != "metadata-upgrade" {
			t.Errorf("answer %+v", f)
		}
	})
}

func TestOrigin(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		for origin, want := range map[string]string{
			strings.Replace(g.URL(), "ws", "http", 1): "PAIRING_REQUIRED",
			"http://example.org":                      "CONTROL_UI_ORIGIN_NOT_ALLOWED",
		} {
			r := dial(t, g, http.Header{"Origin": {origin}})
			f := r.call("connect", r.params(nil))
			if f.OK || f.Error.Details["code"] != want {
				t.Errorf("origin %s: answer %+v, want %s", origin, f, want)
			}
		}
	})
}

func TestPasswordField(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		r := dial(t, gatewaytest.Start(t, p), nil)
		f := r.call("connect", r.params(func(p object) {
			p["auth"] = object{"password": gatewaytest.DefaultToken}
			delete(p, "device")
		}))
		if f.OK != newer(p) {
			t.Errorf("ok %v, error %+v", f.OK, f.Error)
		}
	})
}

func TestWrongTokenDelays(t *testing.T) {
	t.Parallel()
	var delays []int
	asked := make(chan int, 10)
	g := gatewaytest.Start(t, gatewaytest.Profile2026_9_6, func(o *gatewaytest.Options) {
		o.TokenDelay = func(n int) time.Duration { asked <- n; return time.Millisecond }
	})
	for range 3 {
		r := dial(t, g, nil)
		r.call("connect", r.params(func(p object) { p["auth"] = object{"token": "x"} }))
		delays = append(delays, <-asked)
	}
	if !slices.Equal(delays, []int{0, 1, 2}) {
		t.Errorf("delays asked for %v", delays)
	}
	if r := dial(t, g, nil); !r.call("connect", r.params(nil)).OK {
		t.Error("the right token does not work any more")
	}
}

func TestStartingAndDraining(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		open := connected(t, g)

		g.Starting()
		r := dial(t, g, nil)
		f := r.call("connect", r.params(nil))
		if f.OK || f.Error.Code != "UNAVAILABLE" || !f.Error.Retryable || f.Error.RetryAfterMs != 500 ||
			f.Error.Details["reason"] != "startup-sidecars" {
			t.Errorf("starting: %+v", f.Error)
		}
		if got := r.closed(); got != (websocket.CloseError{Code: 1013, Reason: "gateway starting"}) {
			t.Errorf("starting: closed with %v", got)
		}

		g.Drain()
		_, resp, err := websocket.Dial(t.Context(), g.URL(), nil)
		if err == nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("draining: upgrade gave %v", resp)
		}
		for _, method := range []string{"agent", "agent.wait", "health"} {
			f := open.call(method, object{})
			if f.OK || f.Error.Code != "UNAVAILABLE" || f.Error.Message != method+" unavailable during gateway restart" ||
				f.Error.RetryAfterMs != 1000 || f.Error.Details["reason"] != "gateway-restarting" {
				t.Errorf("draining: %s: %+v", method, f.Error)
			}
		}
		g.Ready()
		if f := open.call("health", object{}); !f.OK {
			t.Errorf("ready: %+v", f.Error)
		}
	})
}
