package gateway

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pipe is one end of a channel in memory.
type pipe struct {
	in, out chan []byte
	over    chan struct{} // closed when either end is closed
	close   func()
}

// newPair returns both ends of a channel in memory.
func newPair() (ours, theirs *pipe) {
	a, b, over := make(chan []byte), make(chan []byte), make(chan struct{})
	stop := sync.OnceFunc(func() { close(over) })
	return &pipe{a, b, over, stop}, &pipe{b, a, over, stop}
}

func (p *pipe) Send(ctx context.Context, data []byte) error {
	select {
	case p.out <- data:
		return nil
	case <-p.over:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pipe) Receive(ctx context.Context) ([]byte, error) {
	select {
	case data := <-p.in:
		return data, nil
	case <-p.over:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (p *pipe) Ping(context.Context) error { return nil }

func (p *pipe) Close() { p.close() }

// newPipeConn returns a connection over a channel in memory, and its other end.
func newPipeConn(t *testing.T, heard func(End)) (*conn, *pipe) {
	t.Helper()
	ours, theirs := newPair()
	cn := newConn(ours, Server{}, heard)
	go cn.read()
	t.Cleanup(func() {
		cn.end(errors.New("test over"))
		<-cn.done
	})
	return cn, theirs
}

// say sends frames from the gateway's side.
func (p *pipe) say(t *testing.T, frames ...string) {
	t.Helper()
	for _, f := range frames {
		if err := p.Send(t.Context(), []byte(f)); err != nil {
			t.Fatal(err)
		}
	}
}

// Answers find their calls by id, in any order and between other frames.
func TestCallsOverAPipe(t *testing.T) {
	t.Parallel()
	cn, gateway := newPipeConn(t, func(End) {})
	got := map[string]chan string{"1": make(chan string), "2": make(chan string)}
	for _, id := range []string{"1", "2"} {
		go func() {
			f, err := cn.call(t.Context(), id, "agents.list", nil)
			if err != nil {
				t.Error(err)
			}
			got[id] <- string(f.Payload)
		}()
		if data, err := gateway.Receive(t.Context()); err != nil || !strings.Contains(string(data), `"id":"`+id+`"`) {
			t.Fatalf("request %s, %v", data, err)
		}
	}
	gateway.say(t, `{"type":"event","event":"tick"}`, `nonsense`, `{"type":"res","id":"2","ok":true,"payload":"two"}`,
		`{"type":"res","id":"7","ok":true}`, `{"type":"res","id":"1","ok":true,"payload":"one"}`)
	if one, two := <-got["1"], <-got["2"]; one != `"one"` || two != `"two"` {
		t.Errorf("answers %s and %s", one, two)
	}
}

// A connection that has ended takes no call, and an open call does not wait for
// ever.
func TestConnTakesNoMore(t *testing.T) {
	t.Parallel()
	why := errors.New("told to stop")
	for name, c := range map[string]struct {
		end  func(cn *conn, gateway *pipe, cancel func(error))
		want error
	}{
		"the caller gives up":  {func(_ *conn, _ *pipe, cancel func(error)) { cancel(why) }, why},
		"it is ended":          {func(cn *conn, _ *pipe, _ func(error)) { cn.end(why) }, errConnLost},
		"the gateway hangs up": {func(_ *conn, gateway *pipe, _ func(error)) { gateway.Close() }, errConnLost},
	} {
		cn, gateway := newPipeConn(t, func(End) {})
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error)
		go func() {
			_, err := cn.call(ctx, "1", "agents.list", nil)
			result <- err
		}()
		if _, err := gateway.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.end(cn, gateway, cancel)
		if err := <-result; !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		cn.end(why)
		if _, err := cn.call(t.Context(), "2", "agents.list", nil); !errors.Is(err, errNotTaken) {
			t.Errorf("%s: a later call: %v", name, err)
		}
		cancel(nil)
	}
}

// C56: the end of a run is reported at once, as data: the connection that asked
// for it gets an event and its second response, any other one the event.
func TestC56EndsOfRuns(t *testing.T) {
	t.Parallel()
	const (
		start  = `{"type":"event","event":"agent","payload":{"runId":"k","stream":"lifecycle","data":{"phase":"start"}}}`
		spoke  = `{"type":"event","event":"agent","payload":{"runId":"k","stream":"assistant","data":{"text":"x"}}}`
		ended  = `{"type":"event","event":"agent","payload":{"runId":"k","stream":"lifecycle","data":{"phase":"end","aborted":false,"terminalReply":{"text":"no task waiting"}}}}`
		killed = `{"type":"event","event":"agent","payload":{"runId":"k","stream":"lifecycle","data":{"phase":"end","aborted":true,"stopReason":"rpc"}}}`
		failed = `{"type":"event","event":"agent","payload":{"runId":"k","stream":"lifecycle","data":{"phase":"error","error":"no model"}}}`
		gaveUp = `{"type":"event","event":"agent","payload":{"runId":"k","stream":"lifecycle","data":{"phase":"error","error":"no model","executionSettled":true}}}`
		final  = `{"type":"res","id":"1:k","ok":true,"payload":{"runId":"k","status":"ok","result":{"payloads":[{"text":"exec needs approval"},{"text":"more"}]}}}`
		broken = `{"type":"res","id":"1:k","ok":false,"payload":{"runId":"k","status":"error"},"error":{"code":"UNAVAILABLE","message":"no model","retryAfterMs":1000}}`
		odd    = `{"type":"res","id":"1:k","ok":false,"payload":{"status":"ok"},"error":{"message":"no"}}`
		again  = `{"type":"res","id":"1:k","ok":true,"payload":{"runId":"k","status":"accepted"}}`
		busy   = `{"type":"res","id":"1:k","ok":false,"error":{"code":"UNAVAILABLE","message":"restarting"}}`
	)
	for name, c := range map[string]struct {
		frames []string
		want   []End
	}{
		"second response":         {[]string{start, spoke, ended, final}, []End{{RunID: "k", Status: StatusOK, LastWords: "no task waiting"}, {RunID: "k", Status: StatusOK, LastWords: "exec needs approval"}}},
		"failure":                 {[]string{start, failed, broken}, []End{{RunID: "k", Status: StatusError, Message: "no model", RetryAfter: 1e9}}},
		"contradiction":           {[]string{odd}, []End{{RunID: "k", Status: StatusError, Message: "no"}}},
		"event alone":             {[]string{start, spoke, ended}, []End{{RunID: "k", Status: StatusOK, LastWords: "no task waiting"}}},
		"aborted":                 {[]string{killed}, []End{{RunID: "k", Status: StatusTimeout}}},
		"an attempt failed":       {[]string{start, failed, start, ended}, []End{{RunID: "k", Status: StatusOK, LastWords: "no task waiting"}}},
		"the last attempt failed": {[]string{start, gaveUp}, []End{{RunID: "k", Status: StatusError, Message: "no model"}}},
		"late answers":            {[]string{again, busy}, nil},
	} {
		var got []End
		read := make(chan struct{})
		_, gateway := newPipeConn(t, func(end End) {
			if end.RunID == "last" {
				close(read)
				return
			}
			got = append(got, end)
		})
		gateway.say(t, append(c.frames, `{"type":"res","id":"2:last","ok":true,"payload":{"status":"ok"}}`)...)
		<-read
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: reported %+v, want %+v", name, got, c.want)
		}
	}
}
