package gateway_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"otm/dispatch/gateway"
	"otm/dispatch/gateway/gatewaytest"
)

// operator fails unless err is an *AuthError of a reason that came from one
// dial and no queued request.
func operator(t *testing.T, err error, want gateway.Reason) *gateway.Error {
	t.Helper()
	var auth *gateway.Error
	if !errors.As(err, &auth) || !errors.Is(err, gateway.ErrOperator) {
		t.Fatalf("err %v, want an *Error of an operator", err)
	}
	if auth.Reason != want {
		t.Errorf("reason %q, want %q (%v)", auth.Reason, want, err)
	}
	if errors.Is(err, gateway.ErrLost) {
		t.Errorf("err %v matches too much", err)
	}
	if strings.Contains(err.Error(), gatewaytest.DefaultToken) {
		t.Errorf("err %v holds the token", err)
	}
	return auth
}

// A refused handshake is reported with the gateway's words, and not repeated
// within the call.
func TestHandshakeRefused(t *testing.T) {
	want := map[string]gateway.Reason{
		"AUTH_TOKEN_MISMATCH":                 gateway.ReasonTokenWrong,
		"AUTH_TOKEN_MISSING":                  gateway.ReasonTokenMissing,
		"DEVICE_IDENTITY_REQUIRED":            gateway.ReasonPairing,
		"CONTROL_UI_DEVICE_IDENTITY_REQUIRED": gateway.ReasonRefused,
		"DEVICE_AUTH_DEVICE_ID_MISMATCH":      gateway.ReasonSignature,
		"PAIRING_REQUIRED":                    gateway.ReasonPairing,
		"PAIRING_SCOPES":                      gateway.ReasonPairing,
		"PAIRING_METADATA":                    gateway.ReasonPairing,
		"PAIRING_ROLE":                        gateway.ReasonPairing,
		"DEVICE_AUTH_SIGNATURE_INVALID":       gateway.ReasonSignature,
		"DEVICE_AUTH_NONCE_MISMATCH":          gateway.ReasonSignature,
		"DEVICE_AUTH_SIGNATURE_EXPIRED":       gateway.ReasonSignature,
		"CONTROL_UI_ORIGIN_NOT_ALLOWED":       gateway.ReasonRefused,
		"INVALID_ROLE":                        gateway.ReasonRefused,
		"FIRST_REQUEST":                       gateway.ReasonRefused,
		"UNKNOWN_FIELD":                       gateway.ReasonRefused,
		"UNKNOWN_ID":                          gateway.ReasonRefused,
		"UNEXPLAINED_NO":                      gateway.ReasonRefused,
		"TOKEN_IN_ANSWER":                     gateway.ReasonRefused,
	}
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		for _, name := range gatewaytest.Refusals() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g := gatewaytest.Start(t, p)
				c := newClient(t, g)
				g.InjectDial(gatewaytest.DialRefuse(name))
				err := run(t, c, "k")
				auth := operator(t, err, want[name])
				if auth.Message == "" {
					t.Errorf("error without the gateway's words: %+v", auth)
				}
				if made, _ := g.Connections(); made != 1 {
					t.Errorf("%d connections", made)
				}
				// The fault is over, as if a person had acted.
				mustRun(t, c, "k")
				executed(t, g, "k", 1)
			})
		}
	})
}

func TestProtocol(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p, func(o *gatewaytest.Options) { o.Protocol = 5 })
		err := run(t, newClient(t, g), "k")
		operator(t, err, gateway.ReasonProtocol)
	})
}

func TestToken(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		start := func(t *testing.T) *gatewaytest.Gateway {
			return gatewaytest.Start(t, p, func(o *gatewaytest.Options) {
				o.TokenDelay = func(int) time.Duration { return time.Millisecond }
			})
		}
		token := func(s string, err error) func(*gateway.Config) {
			return func(cfg *gateway.Config) { cfg.Token = func() (string, error) { return s, err } }
		}
		err := run(t, newClient(t, start(t), token("wrong", nil)), "k")
		operator(t, err, gateway.ReasonTokenWrong)
		err = run(t, newClient(t, start(t), token("", nil)), "k")
		operator(t, err, gateway.ReasonTokenMissing)

		err = run(t, newClient(t, start(t), token("", fs.ErrNotExist)), "k")
		if operator(t, err, gateway.ReasonTokenUnreadable); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("err %v", err)
		}
		// As read from a file.
		if err = run(t, newClient(t, start(t), token(gatewaytest.DefaultToken+"\n", nil)), "k"); err != nil {
			t.Error(err)
		}
	})
}

// C62: the token is read for every dial, so a changed one counts without a restart.
func TestTokenRotated(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		c := newClient(t, g)
		mustRun(t, c, "k-1")
		g.SetToken("another-token-0123456789")
		mustRun(t, c, "k-2") // on the old connection
		if err := g.Restart(); err != nil {
			t.Fatal(err)
		}
		mustRun(t, c, "k-3")
	})
}

// A token that may not run agents is refused at the first call.
func TestScopeMissing(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		c := newClient(t, g)
		g.GrantScopes("operator.read")
		err := run(t, c, "k")
		operator(t, err, gateway.ReasonScope)
		asked(t, g, "k", 1)
		if _, err := c.Agents(t.Context()); err != nil {
			t.Errorf("agents: %v", err)
		}
		_, _, err = c.Wait(t.Context(), "k")
		operator(t, err, gateway.ReasonScope)

		g.GrantScopes("operator.read", "operator.write")
		mustRun(t, newClient(t, g), "k")
		executed(t, g, "k", 1)
	})
}

func TestNoGateway(t *testing.T) {
	t.Parallel()
	target := ""
	tests := map[string]http.HandlerFunc{
		"not found": http.NotFound,
		"web page":  func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
		"forbidden": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		// The token would go to wherever it points.
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) },
	}
	followed := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("redirect followed")
	}))
	target = followed.URL
	t.Cleanup(followed.Close)
	for name, handler := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(handler)
			t.Cleanup(srv.Close)
			c := gateway.New(bare(srv.URL))
			t.Cleanup(func() { c.Close() })
			err := run(t, c, "k")
			operator(t, err, gateway.ReasonEndpoint)
		})
	}
}

func TestUntrustedCertificate(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("request sent")
	}))
	srv.Config.ErrorLog = discardLog()
	srv.StartTLS()
	t.Cleanup(srv.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for _, url := range []string{srv.URL, strings.Replace(plain.URL, "http", "wss", 1)} {
		c := gateway.New(bare(url))
		t.Cleanup(func() { c.Close() })
		err := run(t, c, "k")
		operator(t, err, gateway.ReasonEndpoint)
	}
}
