package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// parseURL returns the URL to dial. It refuses a host that is not loopback unless
// it has TLS, because the token travels in the first frame. The error shows scheme and host only, as the rest
// may hold a secret.
func parseURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil {
		// The parser's error repeats the whole string.
		return "", &Error{Reason: ReasonEndpoint, Err: errors.New("gateway url: not a URL")}
	}
	refuse := func(why string) (string, error) {
		return "", &Error{Reason: ReasonEndpoint, Err: fmt.Errorf("gateway url %q: %s", u.Scheme+"://"+u.Host, why)}
	}
	switch strings.ToLower(u.Scheme) {
	case "ws", "http":
		u.Scheme = "ws"
	case "wss", "https":
		u.Scheme = "wss"
	default:
		return refuse("the scheme must be ws or wss")
	}
	if u.Hostname() == "" {
		return refuse("no host")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return refuse("user, query and fragment have no meaning here; the token has a setting of its own")
	}
	if u.Scheme == "ws" && !isLoopback(u.Hostname()) {
		return refuse("neither loopback nor wss")
	}
	return u.String(), nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
