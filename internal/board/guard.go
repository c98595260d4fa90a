package board

import (
	"net"
	"net/http"
	"strings"
)

// isLoopbackName says whether the host, without a port, is one of the names
// under which the board may be called. Any other name may be a foreign page's
// that was made to point here (DNS rebinding).
func isLoopbackName(host string) bool {
	switch strings.ToLower(host) {
	case "127.0.0.1", "localhost", "::1":
		return true
	}
	return false
}

// hostName cuts the port and the brackets off a Host header.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if ok {
			return inner
		}
	}
	return host
}

// guardHost refuses requests that do not call the board by a loopback name,
// and sets the headers that every answer has.
func guardHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'") // the page sets its own
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if !isLoopbackName(hostName(r.Host)) {
			http.Error(w, "this board answers to 127.0.0.1, localhost and [::1] only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guardOrigin refuses requests that a foreign page made a browser send.
func guardOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, origin := range r.Header.Values("Origin") {
			if origin != "http://"+r.Host {
				http.Error(w, "requests from another origin are refused", http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Handler serves the API under /api/, exports, and the page. It is what Serve
// serves; tests may serve it themselves.
func (s *Server) Handler() http.Handler { return s.handler }

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(apiPrefix, guardOrigin(http.HandlerFunc(s.serveAPI)))
	mux.Handle("GET /files-pri/{file}/{format}/list", guardOrigin(http.HandlerFunc(s.serveExport)))
	if p := s.opts.Page; p != nil {
		mux.Handle("GET /{$}", p)
		mux.Handle("GET /lists/{team}/{list}", p) // permalinks
		mux.Handle("/page/", p)
	}
	return guardHost(mux)
}
