package board

import (
	"net/http"
	"strings"

	"otm/internal/loopback"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 1 << 20

// otmPrefix begins the paths of OTM's own API. It has a guard of its own, which refuses
// requests in the form of that API.
const otmPrefix = apiPrefix + "otm/"

// guard refuses requests that do not call the board by a loopback name, and calls of
// the API that a foreign page made a browser send. It bounds bodies, and sets the
// headers that every answer has.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'") // the page sets its own
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		own := strings.HasPrefix(r.URL.Path, otmPrefix)
		if !own && !loopback.Named(r) {
			http.Error(w, "this board answers to 127.0.0.1, localhost and [::1] only", http.StatusForbidden)
			return
		}
		if !own && strings.HasPrefix(r.URL.Path, apiPrefix) && !loopback.SameOrigin(r) {
			http.Error(w, "requests from another origin are refused", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

func routes(api, page http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(apiPrefix, api)
	if page != nil {
		mux.Handle("GET /{$}", page)
		mux.Handle("GET /lists/{team}/{list}", page) // permalinks
		mux.Handle("/page/", page)
		mux.Handle(otmPrefix, page)
		mux.Handle("GET /metrics", page)
	}
	return guard(mux)
}
