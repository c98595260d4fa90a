package slacklist

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A board that says nothing, or never comes to an end, costs a call its half
// minute and no more, and what was written may have been applied.
func TestSilentBoard(t *testing.T) {
	t.Parallel()
	answering := func(answer func(net.Conn)) func(net.Conn) {
		return func(conn net.Conn) {
			defer conn.Close()
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				io.Copy(io.Discard, r.Body)
				answer(conn)
			}
		}
	}
	silence := func(conn net.Conn) { io.Copy(io.Discard, conn) } // until the client hangs up
	for name, serve := range map[string]func(net.Conn){
		"takes no byte":       nil,
		"reads, says nothing": answering(silence),
		"half a header": answering(func(conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: applica")
			silence(conn)
		}),
		"a header, and no body": answering(func(conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n")
			silence(conn)
		}),
		"a body that drips": answering(func(conn net.Conn) {
			_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n{\"ok\":true,")
			for err == nil {
				time.Sleep(time.Second) // virtual
				_, err = io.WriteString(conn, " ")
			}
		}),
		"a header that drips": answering(func(conn net.Conn) {
			_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Long: ")
			for err == nil {
				time.Sleep(time.Second) // virtual
				_, err = io.WriteString(conn, "x")
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var serving sync.WaitGroup
				defer serving.Wait()
				c := New(Options{Dir: t.TempDir(), URL: "http://127.0.0.1/api/", ListID: "F1", Token: "xoxb-1"})
				c.api.client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
					here, there := net.Pipe()
					if serve != nil {
						serving.Go(func() { serve(there) })
					}
					return here, nil
				}
				began := time.Now()
				_, err := c.api.call(t.Context(), createMethod, nil)
				if e := boardError(t, err); !e.MaybeApplied || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %+v, want one of a call that may have been applied, for want of time", e)
				}
				if took := time.Since(began); took != callTimeout {
					t.Errorf("it took %v, want %v", took, callTimeout)
				}
			})
		})
	}
}
