package gatewaytest

import (
	"net"
	"net/http"
	"strings"

	"github.com/coder/websocket"
)

type netConnKey struct{}

func (p *process) serveHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		p.upgrade(w, r) // any path
	case r.URL.Path == "/healthz":
		writeJSON(w, http.StatusOK, object{"ok": true, "status": "live"})
	case r.URL.Path == "/readyz":
		p.readyz(w)
	default:
		http.NotFound(w, r)
	}
}

func (p *process) readyz(w http.ResponseWriter) {
	p.g.mu.Lock()
	drain, starting := p.drain, p.starting
	p.g.mu.Unlock()
	var failing []string
	if starting {
		failing = append(failing, "startup-sidecars")
	}
	if drain {
		failing = append(failing, "gateway-draining")
	}
	if failing != nil {
		writeJSON(w, http.StatusServiceUnavailable, object{"ready": false, "failing": failing})
		return
	}
	writeJSON(w, http.StatusOK, object{"ready": true})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(mustJSON(v))
}

func (p *process) upgrade(w http.ResponseWriter, r *http.Request) {
	g := p.g
	raw := r.Context().Value(netConnKey{}).(net.Conn)

	g.mu.Lock()
	fault, drain := g.takeDialFault(), p.drain
	g.dials++
	g.note()
	g.mu.Unlock()
	switch {
	case fault.reset:
		reset(raw)
		return
	case fault.status != 0:
		http.Error(w, http.StatusText(fault.status), fault.status)
		return
	case drain:
		http.Error(w, "Gateway websocket admission closed", http.StatusServiceUnavailable)
		return
	}

	c := newConn(p, raw, fault)
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the handshake judges the Origin
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived:     c.pinged,
	})
	if err != nil {
		return
	}
	c.ws = ws
	c.origin, c.host = r.Header.Get("Origin"), r.Host

	g.mu.Lock()
	if p.dead {
		g.mu.Unlock()
		ws.CloseNow()
		return
	}
	g.conns++
	c.number = g.conns
	p.conns[c] = struct{}{}
	g.wg.Go(c.write)
	g.wg.Go(c.ping)
	g.wg.Go(c.serve)
	g.note()
	g.mu.Unlock()
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}
