package board

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
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
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL+"auth.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token())
	resp, err := http.DefaultClient.Do(req)
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

// If the port and all that are tried after it are taken, any free one is used.
func TestAllPortsTaken(t *testing.T) {
	t.Parallel()
	var held []net.Listener
	release := func() {
		for _, l := range held {
			l.Close()
		}
		held = nil
	}
	defer func() { release() }()
	hold := func(address string) int {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return 0
		}
		held = append(held, l)
		return l.Addr().(*net.TCPAddr).Port
	}
	var ports []int
	for tries := 0; len(held) == 0 || len(held) != len(ports); tries++ { // somebody else's port may become free
		if release(); tries == 100 {
			t.Fatal("no ports in a row can be held")
		}
		ports = portsFrom(hold(fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))) // below those that connections of others get
		for _, p := range ports[1:] {
			hold(fmt.Sprintf("127.0.0.1:%d", p))
		}
	}
	listener, err := Bind(fmt.Sprintf("127.0.0.1:%d", ports[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if port := listener.Addr().(*net.TCPAddr).Port; slices.Contains(ports, port) {
		t.Errorf("listens on %d, which is taken", port)
	}
}

// A board that cannot listen, or cannot write its endpoint, does not serve. It
// does once the cause is gone.
func TestCannotListen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir, Listen: "127.0.0.1:http"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), `"127.0.0.1:http"`) {
		t.Errorf("serve: %v, want one that names the address", err)
	}
	s.opts.Listen = "127.0.0.1:0"
	refused := syscall.ENOSPC
	crashtest.Below(t, dir, func(step, path string) error { return refused })
	if err := s.Serve(t.Context()); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("serve: %v, want ENOSPC", err)
	}
	crashtest.Below(t, dir, func(step, path string) error { return nil })
	if _, err := ReadEndpoint(dir); !errors.Is(err, fs.ErrNotExist) || s.listener != nil {
		t.Errorf("the board says where it listens, and does not: %v", err)
	}
	e, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	if read, err := ReadEndpoint(dir); err != nil || read != e {
		t.Errorf("ReadEndpoint: %+v, %v; want %+v", read, err, e)
	}
}

// The endpoint of a board with limits says so.
func TestEndpointOfLimitedBoard(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Limits: &Limits{}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if e, err := ReadEndpoint(s.opts.Dir); err != nil || e.Limits != "slack" {
		t.Errorf("endpoint %+v, %v", e, err)
	}
}

// The error of a damaged endpoint names the file, and the next board writes it
// anew.
func TestDamagedEndpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, endpointFile)
	for _, data := range []string{"", "{", `"http"`, strings.Repeat("\x00", 40)} {
		write(t, path, []byte(data))
		if _, err := ReadEndpoint(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v, want an error that names the file", data, err)
		}
	}
	mustOpen(t, dir)
	if _, err := ReadEndpoint(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the next open: %v", err)
	}
}

// A body that ends before its length is no call, even if the part that came is
// well-formed.
func TestCutBody(t *testing.T) {
	t.Parallel()
	s, e := openListening(t, "127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	for _, body := range []string{"list_id=" + s.ListID(), ""} {
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(e.Page, "http://"), "/"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /api/slackLists.items.create HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 500\r\n\r\n%s", s.Token(), body)
		conn.(*net.TCPConn).CloseWrite()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		if want := `{"ok":false,"error":"request_timeout"}`; err != nil || strings.TrimSpace(string(answer)) != want {
			t.Errorf("answer %s, %v; want %s", answer, err, want)
		}
	}
	if got := titles(t, s); len(got) != 0 {
		t.Errorf("rows %q", got)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
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
		"127.0.0.1:x":       false,
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
