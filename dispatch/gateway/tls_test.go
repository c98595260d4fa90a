package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"otm/dispatch/gateway/gatewaytest"
)

// Over TLS, through a proxy that ends it, with a certificate that is trusted.
func TestTLS(t *testing.T) {
	t.Parallel()
	for _, p := range gatewaytest.Profiles() {
		t.Run(p.Version, func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.Start(t, p)
			target, err := url.Parse("http" + g.URL()[len("ws"):])
			if err != nil {
				t.Fatal(err)
			}
			proxy := httptest.NewTLSServer(&httputil.ReverseProxy{
				Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
			})
			t.Cleanup(proxy.Close)
			c := New(Config{URL: proxy.URL, Token: func() (string, error) { return g.Token(), nil }})
			t.Cleanup(func() { c.Close() })
			c.http.Transport.(*http.Transport).TLSClientConfig = proxy.Client().Transport.(*http.Transport).TLSClientConfig
			if err := c.Run(t.Context(), "alpha", "hello", "k"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A loopback URL never leads anywhere else, whatever its name resolves to.
func TestOnlyLoopback(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "[::ffff:127.0.0.1]:80": true,
		"10.0.0.1:80": false, "[2001:db8::1]:80": false, "93.184.216.34:443": false, "nonsense": false,
	} {
		if err := onlyLoopback("tcp", address, nil); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}
