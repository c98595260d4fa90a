package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
)

// CheckURL refuses an address to which a token must not be sent: it must be
// encrypted or on this machine. plain and encrypted are the two schemes.
func CheckURL(raw, plain, encrypted string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return errors.New("is not an address") // the text may hold a secret
	}
	shown := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String() // without parts that may be secret
	switch {
	case u.User != nil:
		return errors.New("holds credentials: put them into a file of their own or into the environment")
	case u.Scheme != plain && u.Scheme != encrypted:
		return fmt.Errorf("%q: the scheme must be %s, or %s to this machine", shown, encrypted, plain)
	case u.Hostname() == "":
		return fmt.Errorf("%q has no host", shown)
	case u.Scheme == plain && !isLoopback(u.Hostname()):
		return fmt.Errorf("%q is not encrypted: everybody on the way could read the token; use %s", shown, encrypted)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func checkListen(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if !isLoopback(host) {
		return fmt.Errorf("%q is reachable from other machines: use 127.0.0.1", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q has no port such as 18780; 0 means any free one", addr)
	}
	return nil
}
