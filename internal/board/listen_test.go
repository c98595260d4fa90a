package board

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

func openListening(t *testing.T, listen string) (*Server, Endpoint) {
	t.Helper()
	s, err := Open(Options{Dir: t.TempDir(), Listen: listen})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	e, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	return s, e
}

func TestServe(t *testing.T) {
	t.Parallel()
	s, e := openListening(t, "127.0.0.1:0")
	if !strings.HasPrefix(e.URL, "http://127.0.0.1:") || e.URL != e.Page+"api/" || e.ListID != s.ListID() || e.PID != os.Getpid() {
		t.Errorf("endpoint %+v", e)
	}
	if read, err := ReadEndpoint(s.opts.Dir); err != nil || read != e {
		t.Errorf("ReadEndpoint: %+v, %v; want %+v", read, err, e)
	}
	if again, err := s.Listen(); err != nil || again != e {
		t.Errorf("second Listen: %+v, %v", again, err)
	}
	raw, err := os.ReadFile(s.opts.Dir + "/" + endpointFile)
	want := fmt.Sprintf(`{"url":%q,"page":%q,"listId":%q,"pid":%d}`+"\n", e.URL, e.Page, e.ListID, e.PID)
	if err != nil || string(raw) != want {
		t.Errorf("%s holds %s, want %s", endpointFile, raw, want)
	}

	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	resp, err := http.Post(e.URL+"auth.test", "application/x-www-form-urlencoded", strings.NewReader("token="+s.Token()))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(body), `"ok":true`) {
		t.Errorf("auth.test: %s, %v", body, err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	if _, err := ReadEndpoint(s.opts.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("endpoint after a clean stop: %v", err)
	}
	mustClose(t, s)
}

// Close ends Serve too.
func TestCloseEndsServe(t *testing.T) {
	t.Parallel()
	s, e := openListening(t, "127.0.0.1:0")
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context()) }()
	resp, err := http.Get(e.Page)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	mustClose(t, s)
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestTakenPort(t *testing.T) {
	t.Parallel()
	_, first := openListening(t, "127.0.0.1:0")
	address := strings.TrimSuffix(strings.TrimPrefix(first.Page, "http://"), "/")
	_, second := openListening(t, address)
	if first.URL == second.URL || !strings.HasPrefix(second.URL, "http://127.0.0.1:") {
		t.Errorf("two boards at %s and %s", first.URL, second.URL)
	}
}

func TestPortsFrom(t *testing.T) {
	t.Parallel()
	if got := portsFrom(18780); len(got) != 21 || got[0] != 18780 || got[20] != 18800 {
		t.Errorf("ports %v", got)
	}
	if got := fmt.Sprint(portsFrom(65534)); got != "[65534 65535]" {
		t.Errorf("ports %v", got)
	}
	if got := fmt.Sprint(portsFrom(0)); got != "[0]" {
		t.Errorf("ports %v", got)
	}
}

func TestListenAddresses(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"localhost:0":       true,
		"127.0.0.1:0":       true,
		":0":                false,
		"0.0.0.0:0":         false,
		"[::]:0":            false,
		"192.0.2.1:0":       false,
		"board.example:0":   false,
		"127.0.0.1":         false,
		"127.0.0.1:http":    false,
		"127.0.0.1:70000":   false,
		"127.0.0.1:-1":      false,
		"localhost.evil:80": false,
	} {
		listener, err := Bind(address)
		if (err == nil) != ok {
			t.Errorf("bind %q: %v", address, err)
		}
		if err == nil {
			if host, _, _ := net.SplitHostPort(listener.Addr().String()); !net.ParseIP(host).IsLoopback() {
				t.Errorf("bind %q: listens on %s", address, host)
			}
			listener.Close()
		}
	}
}

// The server bounds what a peer may send before it is known.
func TestLargeHeader(t *testing.T) {
	t.Parallel()
	s, e := openListening(t, "127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(e.Page, "http://"), "/"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", strings.Repeat("x", maxHeaderBytes+8<<10))
	status, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(status, "431") {
		t.Errorf("answer %q, %v; want 431", status, err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}
