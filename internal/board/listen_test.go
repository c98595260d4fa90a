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
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
	"otm/internal/loopback"
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
	raw, err := os.ReadFile(EndpointPath(s.opts.Dir))
	want := fmt.Sprintf(`{"url":%q,"page":%q,"listId":%q,"pid":%d}`+"\n", e.URL, e.Page, e.ListID, e.PID)
	if err != nil || string(raw) != want {
		t.Errorf("the endpoint holds %s, want %s", raw, want)
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

func TestTakenPort(t *testing.T) {
	t.Parallel()
	_, first := openListening(t, "127.0.0.1:0")
	address := strings.TrimSuffix(strings.TrimPrefix(first.Page, "http://"), "/")
	_, second := openListening(t, address)
	if first.URL == second.URL || !strings.HasPrefix(second.URL, "http://127.0.0.1:") {
		t.Errorf("two boards at %s and %s", first.URL, second.URL)
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
	if _, err := s.Listen(); err == nil || !strings.Contains(err.Error(), `"127.0.0.1:http"`) {
		t.Errorf("listen: %v, want one that names the address", err)
	}
	s.opts.Listen = "127.0.0.1:0"
	refused := syscall.ENOSPC
	crashtest.Below(t, dir, func(step, path string) error { return refused })
	if _, err := s.Listen(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("listen: %v, want ENOSPC", err)
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
	path := EndpointPath(dir)
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
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", strings.Repeat("x", loopback.MaxHeaderBytes+8<<10))
	status, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(status, "431") {
		t.Errorf("answer %q, %v; want 431", status, err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}
