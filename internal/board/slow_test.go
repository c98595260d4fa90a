package board

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"otm/internal/loopback"
)

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

// A client that sends slowly, or stops sending, or reads nothing, keeps its
// connection for a limited time. One without a token keeps it for no longer than
// its header takes: its body is not read (C36).
func TestSlowClients(t *testing.T) {
	t.Parallel()
	const anybody = "POST /api/auth.test HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
	const request = anybody + "Authorization: Bearer xoxb-1\r\n"
	drip := func(begin string) func(net.Conn) {
		return func(conn net.Conn) {
			_, err := io.WriteString(conn, begin)
			for err == nil {
				time.Sleep(time.Second) // virtual
				_, err = io.WriteString(conn, "x")
			}
		}
	}
	for _, c := range []struct {
		name   string
		client func(net.Conn)
		limit  time.Duration
	}{
		{"says nothing", func(net.Conn) {}, loopback.ReadHeaderTimeout},
		{"a header that drips", drip(request + "X-Long: "), loopback.ReadHeaderTimeout},
		{"a body that does not come", func(conn net.Conn) { io.WriteString(conn, request+"Content-Length: 9\r\n\r\n") }, loopback.ReadTimeout},
		{"a body that drips", drip(request + "Content-Length: 1000\r\n\r\n"), loopback.ReadTimeout},
		{"no token, and a body that does not come", func(conn net.Conn) { io.WriteString(conn, anybody+"Content-Length: 9\r\n\r\n") }, 0},
		{"no token, and nothing after the answer", func(conn net.Conn) { io.WriteString(conn, anybody+"Content-Length: 0\r\n\r\n") }, 0},
		{"nothing after an answer", func(conn net.Conn) { io.WriteString(conn, request+"Content-Length: 0\r\n\r\n") }, loopback.IdleTimeout},
		{"an answer that nobody reads", nil, loopback.WriteTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				write(t, filepath.Join(dir, tokenFile), []byte("xoxb-1\n"))
				s, err := Open(Options{Dir: dir})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				l := &pipes{conns: make(chan net.Conn)}
				s.listener = l
				ctx, cancel := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- s.Serve(ctx) }()

				var clients sync.WaitGroup
				here, there := net.Pipe()
				ended := &closes{Conn: there, at: make(chan time.Time, 1)}
				l.conns <- ended
				began := time.Now()
				if c.client != nil {
					clients.Go(func() { io.Copy(io.Discard, here) })
					clients.Go(func() { c.client(here) })
				} else {
					io.WriteString(here, request+"Content-Length: 0\r\n\r\n")
				}
				if took := (<-ended.at).Sub(began); took < c.limit || took > c.limit+time.Second {
					t.Errorf("the connection ended after %v, want %v", took, c.limit)
				}
				here.Close()
				clients.Wait()
				cancel()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// closes is a connection that tells when the server closes it.
type closes struct {
	net.Conn
	at chan time.Time
}

func (c *closes) Close() error {
	select {
	case c.at <- time.Now():
	default:
	}
	return c.Conn.Close()
}
