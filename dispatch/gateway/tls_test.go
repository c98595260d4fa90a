package gateway

import (
	"log/slog"
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
			c := New(Config{URL: proxy.URL, Version: "test", Log: slog.New(slog.DiscardHandler), Token: func() (string, error) { return g.Token(), nil }})
			t.Cleanup(func() { c.Close() })
			c.http.Transport.(*http.Transport).TLSClientConfig = proxy.Client().Transport.(*http.Transport).TLSClientConfig
			if err := c.Run(t.Context(), "alpha", "hello", "k"); err != nil {
				t.Error(err)
			}
		})
	}
}
