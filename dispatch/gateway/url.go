package gateway

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// A URLError says why a gateway's URL is not used. It matches ErrOperator.
type URLError struct {
	URL    string // scheme and host alone: the rest may hold a secret
	Reason string
}

func (e *URLError) Error() string {
	return fmt.Sprintf("gateway url %q: %s", e.URL, e.Reason)
}

// Is reports whether target is ErrOperator.
func (e *URLError) Is(target error) bool { return target == ErrOperator }

// CheckURL returns a *URLError if a Client would refuse to dial s: the token
// travels in the first frame, so a host that is not loopback must have TLS.
func CheckURL(s string) error {
	_, err := parseURL(s)
	return err
}

// endpoint is a URL that may be dialled.
type endpoint struct {
	url      string
	loopback bool
}

func parseURL(s string) (endpoint, error) {
	u, err := url.Parse(s)
	if err != nil {
		// The parser's error repeats the whole string.
		return endpoint{}, &URLError{Reason: "not a URL"}
	}
	refuse := func(reason string) (endpoint, error) {
		return endpoint{}, &URLError{URL: u.Scheme + "://" + u.Host, Reason: reason}
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
	e := endpoint{url: u.String(), loopback: isLoopback(u.Hostname())}
	if u.Scheme == "ws" && !e.loopback {
		return refuse("neither loopback nor wss")
	}
	return e, nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
