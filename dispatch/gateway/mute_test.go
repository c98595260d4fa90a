package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// The client leaves a peer that upgrades and then does not behave as a gateway.
// No part of the token gets into the error.
func TestMuteGateway(t *testing.T) {
	t.Parallel()
	const token = "secret-of-the-gateway"
	challenge := []byte(`{"type":"event","event":"connect.challenge","payload":{"nonce":"n","ts":1}}`)
	for name, c := range map[string]struct {
		serve func(ctx context.Context, ws *websocket.Conn)
		limit time.Duration
		want  string
	}{
		"says nothing": {func(ctx context.Context, ws *websocket.Conn) { ws.Read(ctx) }, 300 * time.Millisecond, "wait for challenge"},
		"hangs up":     {func(_ context.Context, ws *websocket.Conn) { ws.CloseNow() }, time.Minute, "wait for challenge"},
		"says nothing more": {func(ctx context.Context, ws *websocket.Conn) {
			ws.Write(ctx, websocket.MessageText, challenge)
			ws.Read(ctx) // the request
			ws.Read(ctx)
		}, 300 * time.Millisecond, "deadline exceeded"},
		"repeats the token": {func(ctx context.Context, ws *websocket.Conn) {
			ws.Write(ctx, websocket.MessageText, challenge)
			ws.Read(ctx)
			ws.Close(4000, "what is "+token+"?")
		}, time.Minute, "what is [token]?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ws, err := websocket.Accept(w, r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer ws.CloseNow()
				c.serve(r.Context(), ws)
			}))
			defer web.Close()
			cfg := Config{
				URL: "ws" + strings.TrimPrefix(web.URL, "http"), Version: "test", Limits: DefaultLimits,
				Token: func() (string, error) { return token, nil }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			}
			cfg.HandshakeTimeout = c.limit
			client := New(cfg)
			defer client.Close()
			_, err := client.Hello(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), token) {
				t.Errorf("error %v, want %q in it, and no token", err, c.want)
			}
			if errors.Is(err, ErrLost) || errors.Is(err, ErrOperator) {
				t.Errorf("error %v: nothing was sent, and it may pass", err)
			}
		})
	}
}
