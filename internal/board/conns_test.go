package board

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

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
