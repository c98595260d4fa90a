package gateway

import (
	"errors"
	"strings"
	"testing"
)

// The token travels in the first frame, so only loopback and TLS are dialled.
func TestURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"ws://127.0.0.1:18789", "ws://localhost:18789", "http://127.0.0.1:1/any/path", "ws://[::1]:1", "ws://127.9.9.9",
		"wss://gateway.example.org", "https://gateway.example.org:443", "WS://LocalHost:1", "ws://[::ffff:127.0.0.1]:1",
	} {
		if _, err := parseURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{
		"", "127.0.0.1:18789", "ws://", "ws://10.0.0.1:18789", "http://example.org", "ws://0.0.0.0:1", "ws://[::]:1",
		"ftp://127.0.0.1", "ws://127.0.0.1.example.org", "ws://localhost.example.org", "ws://user:secret@127.0.0.1:1",
		"ws://127.0.0.1:1/?token=secret", "ws://127.0.0.1:1/#secret", "ws://127.0.0.1:1\x00secret", "ws://2130706433:1",
	} {
		_, err := parseURL(url)
		var refused *Error
		if !errors.As(err, &refused) || refused.Reason != ReasonEndpoint {
			t.Errorf("%s: %v", url, err)
			continue
		}
		c := New(Config{URL: url})
		if got := c.Run(t.Context(), "alpha", "hello", "k"); !errors.As(got, &refused) || !errors.Is(got, ErrOperator) {
			t.Errorf("%s: run: %v", url, got)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
		c.Close()
	}
}
