package loopback

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"otm/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

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

// pipes is a listener on which one connection comes in.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	conn, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.conns) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// When the server stops, a request that does not finish is cut off after a while,
// and one that watches its context ends at once.
func TestStopWaitsNotForEver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path string
		took time.Duration
	}{{"/watches", 0}, {"/sleeps", StopTimeout}} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/watches":
					<-r.Context().Done()
				case "/sleeps":
					<-release
				}
			})
			l := &pipes{conns: make(chan net.Conn)}
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- Serve(ctx, l, handler, slog.New(slog.DiscardHandler)) }()
			here, there := net.Pipe()
			l.conns <- there
			go io.Copy(io.Discard, here)
			io.WriteString(here, "GET "+c.path+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
			synctest.Wait()
			began := time.Now()
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took < c.took || took > c.took+time.Second {
				t.Errorf("%s: stopped after %v, want %v", c.path, took, c.took)
			}
			close(release)
			here.Close()
		})
	}
}

// C36: a local user without a token could open connections until the process
// had no descriptors left. Above a limit the server closes new ones, and it
// takes others again when some have ended.
func TestC36Connections(t *testing.T) {
	t.Parallel()
	const limit = 3
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	web.Config.ConnState = capConns(limit)
	web.Start()
	defer web.Close()
	// connect returns a connection on which the server has answered; nil if it closed it.
	connect := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") // it may be closed already
		w, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			c.Close()
			return nil
		}
		if w.StatusCode != http.StatusOK {
			t.Errorf("status %d", w.StatusCode)
		}
		return c
	}
	var held []net.Conn
	for range limit {
		c := connect()
		if c == nil {
			t.Fatalf("the server closed connection %d", len(held)+1)
		}
		held = append(held, c)
	}
	if c := connect(); c != nil {
		c.Close()
		t.Errorf("the server took %d connections", limit+1)
	}
	held[0].Close()
	for { // the server notices the end a moment later
		if c := connect(); c != nil {
			held[0] = c
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the server takes no connection after one has ended")
		}
	}
	for _, c := range held {
		c.Close()
	}
}
