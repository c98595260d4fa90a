package page

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"otm/internal/loopback"
	"otm/internal/view"
)

//go:embed static
var static embed.FS

// policy lets the page load its own files and nothing else, and refuses it to
// make markup or script of text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Bounds of a request's body, in bytes. A new task with 50 steps of 500
// characters fits; signing in takes less, and anybody may try it.
const (
	maxBody       = 128 << 10
	maxSignInBody = 4 << 10
)

// doTime bounds an edit, which may wait for its turn at the board. It ends
// before the server closes the connection, so that the person gets an answer.
const doTime = 45 * time.Second

// Options configure a Server.
type Options struct {
	Source Source
	Dir    string // holds the unused codes
	Log    *slog.Logger
	Now    func() time.Time
}

// Server serves the page. Run must be running for pages to be live.
type Server struct {
	opts Options
	pass string // what a browser sends with each request, once it has signed in
	hub  *hub
}

// New returns a server.
func New(o Options) *Server {
	return &Server{opts: o, pass: strings.ToLower(rand.Text()), hub: newHub(o.Source, o.Now, o.Log)}
}

// Run keeps the pages up to date until ctx ends. A value from one of changed
// makes it look at once.
func (s *Server) Run(ctx context.Context, changed ...<-chan struct{}) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, ch := range changed {
		wg.Go(func() { s.hub.hear(ctx, ch) })
	}
	return s.hub.run(ctx)
}

// Handler serves everything.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", file("index.html"))
	mux.HandleFunc("GET /lists/", file("index.html")) // permalinks
	mux.HandleFunc("GET /page/app.js", file("app.js"))
	mux.HandleFunc("GET /page/app.css", file("app.css"))
	mux.HandleFunc("GET /page/icon.svg", file("icon.svg"))
	mux.HandleFunc("POST /page/session", s.session)
	mux.HandleFunc("GET /page/state", s.signedIn(s.state))
	mux.HandleFunc("GET /page/events", s.signedIn(s.events))
	mux.HandleFunc("GET /page/task", s.signedIn(s.detail))
	mux.HandleFunc("POST /page/do", s.signedIn(s.do))
	return guard(mux)
}

// guard refuses requests that do not call us by a loopback name, or that another
// page made a browser send. It sets the headers that every answer has.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if !loopback.Named(r) {
			refuse(w, http.StatusForbidden, "this page answers to 127.0.0.1, localhost and [::1] only", "")
			return
		}
		if !loopback.SameOrigin(r) {
			refuse(w, http.StatusForbidden, "only this page may ask here", "")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter, code int, reason, hint string) {
	answer(w, code, map[string]string{"error": reason, "hint": hint})
}

// answer sends JSON. It closes the connection of a refused caller, so
// that they hold none, and so that the rest of their request is not read.
func answer(w http.ResponseWriter, code int, v any) {
	if code == http.StatusUnauthorized || code == http.StatusForbidden {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(v)
}

// file serves a static file, whatever the path of the request.
func file(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, static, "static/"+name) }
}

func (s *Server) state(w http.ResponseWriter, r *http.Request) {
	data, err := s.hub.whole(r.Context())
	if err != nil {
		s.fail(w, "read the board", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(data)
}

func (s *Server) detail(w http.ResponseWriter, r *http.Request) {
	d, err := s.opts.Source.Detail(r.Context(), r.URL.Query().Get("row"))
	if err != nil {
		s.fail(w, "read the task", err)
		return
	}
	if d.History == nil {
		d.History = []view.Line{}
	}
	answer(w, http.StatusOK, d)
}

func (s *Server) do(w http.ResponseWriter, r *http.Request) {
	var a Action
	if !readJSON(w, r, maxBody, &a) {
		return
	}
	// A person who closes the page after asking has still asked.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), doTime)
	defer cancel()
	done, err := s.opts.Source.Do(ctx, a)
	if err != nil {
		s.fail(w, a.Do, err)
		return
	}
	s.hub.hint()
	if done == nil {
		done = &Answer{}
	}
	answer(w, http.StatusOK, done)
}

// fail tells the person what went wrong. What the person cannot mend goes to
// the log as well.
func (s *Server) fail(w http.ResponseWriter, what string, err error) {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		refuse(w, http.StatusUnprocessableEntity, refusal.Reason, refusal.Hint)
		return
	}
	s.opts.Log.Warn("page request failed", "what", what, "err", err)
	refuse(w, http.StatusServiceUnavailable, err.Error(), "")
}

// readJSON reads a request's body of at most limit bytes. It reports whether
// it could; if not, it has answered.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64, into any) bool {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "want application/json", "")
		return false
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	body.DisallowUnknownFields()
	err := body.Decode(into)
	if err == nil {
		if _, more := body.Token(); more != io.EOF {
			err = errors.New("something follows the JSON")
		}
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "cannot read the request: "+err.Error(), "")
		return false
	}
	return true
}
