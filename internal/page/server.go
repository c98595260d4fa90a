package page

import (
	"context"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

//go:embed static
var static embed.FS

// policy lets the page load its own files and nothing else, and refuses it to
// make markup or script of text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// maxBody bounds a request's body, in bytes.
const maxBody = 1 << 20

// doTime bounds an edit, which may wait for its turn at the board. It ends
// before the server gives the connection up, so that the person gets an answer.
const doTime = 45 * time.Second

// Options configure a Server.
type Options struct {
	Source Source
	Dir    string        // holds the key of sessions and the unused codes
	Bearer func() string // a token that may act for a person's tools; nil or "": none
	Log    *slog.Logger  // if nil, nothing is logged
	Now    func() time.Time
}

// Server serves the page. Run must be running for pages to be live.
type Server struct {
	opts Options
	hub  *hub
}

// New returns a server. The error is that of reading or making its key.
func New(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if _, err := loadKey(o.Dir); err != nil {
		return nil, err
	}
	s := &Server{opts: o}
	s.hub = newHub(o.Source, o.Now, o.Log)
	return s, nil
}

// Run keeps the pages up to date until ctx ends. Each of changed tells that
// something happened.
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
	mux.HandleFunc("GET /{$}", s.file("index.html", "text/html; charset=utf-8"))
	mux.HandleFunc("GET /lists/", s.file("index.html", "text/html; charset=utf-8")) // permalinks
	mux.HandleFunc("GET /page/app.js", s.file("app.js", "text/javascript; charset=utf-8"))
	mux.HandleFunc("GET /page/app.css", s.file("app.css", "text/css; charset=utf-8"))
	mux.HandleFunc("GET /page/icon.svg", s.file("icon.svg", "image/svg+xml"))
	mux.HandleFunc("POST /page/session", s.ownOrigin(s.session))
	mux.HandleFunc("GET /page/state", notFromElsewhere(s.signedIn(s.state)))
	mux.HandleFunc("GET /page/events", notFromElsewhere(s.signedIn(s.events)))
	mux.HandleFunc("GET /page/task", notFromElsewhere(s.signedIn(s.detail)))
	mux.HandleFunc("POST /page/do", s.ownOrigin(s.signedIn(s.do)))
	return guard(mux)
}

// guard refuses requests that do not call us by a loopback name, and sets the
// headers that every answer has.
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
		if !loopback(r.Host) {
			http.Error(w, "this page answers to 127.0.0.1, localhost and [::1] only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	switch strings.ToLower(name) {
	case "127.0.0.1", "localhost", "::1":
		return true
	}
	return false
}

// ownOrigin refuses writes that another page made a browser send. A browser
// names its origin with every write; a tool that names none must bear the
// token.
func (s *Server) ownOrigin(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		origins := r.Header.Values("Origin")
		own := len(origins) == 1 && origins[0] == "http://"+r.Host
		if !own && !(len(origins) == 0 && s.bearsToken(r)) {
			refuse(w, http.StatusForbidden, "only this page may write here", "")
			return
		}
		next(w, r)
	}
}

// notFromElsewhere refuses reads that a browser says another page made it send.
// That page could not see the answer, but a server on another port of this
// host counts as the same site, so the cookie comes along.
func notFromElsewhere(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "same-origin", "none":
			next(w, r)
		default:
			refuse(w, http.StatusForbidden, "only this page may read here", "")
		}
	}
}

func (s *Server) bearsToken(r *http.Request) bool {
	if s.opts.Bearer == nil {
		return false
	}
	token := s.opts.Bearer()
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// maySee tells whether a request has a session, or bears the token. The key is
// read each time: who removes it ends all sessions.
func (s *Server) maySee(r *http.Request) (bool, error) {
	if s.bearsToken(r) {
		return true, nil
	}
	key, err := readKey(s.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && validCookie(r, key, s.opts.Now()), err
}

// signedIn lets through who may see the page.
func (s *Server) signedIn(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		may, err := s.maySee(r)
		if err != nil {
			s.fail(w, "read the key of the sessions", err)
			return
		}
		if !may {
			refuse(w, http.StatusUnauthorized, "not signed in", "otm board --link")
			return
		}
		next(w, r)
	}
}

func refuse(w http.ResponseWriter, code int, reason, hint string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]string{"error": reason, "hint": hint})
}

func (s *Server) file(name, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		data, err := static.ReadFile("static/" + name)
		if err != nil {
			http.Error(w, "internal error", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Write(data)
	}
}

// session exchanges a link's code for a cookie.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Code string `json:"code"`
	}
	if !readJSON(w, r, &body) {
		return
	}
	good, err := useLink(s.opts.Dir, body.Code, s.opts.Now())
	if err != nil {
		s.fail(w, "exchange a link", err)
		return
	}
	if !good {
		refuse(w, http.StatusUnauthorized, "the code was used, or is older than a minute", "otm board --link")
		return
	}
	key, err := loadKey(s.opts.Dir)
	if err != nil {
		s.fail(w, "read the key of the sessions", err)
		return
	}
	http.SetCookie(w, newCookie(key, s.opts.Now()))
	writeJSON(w, struct{}{})
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
		d.History = []Event{}
	}
	writeJSON(w, d)
}

func (s *Server) do(w http.ResponseWriter, r *http.Request) {
	var a Action
	if !readJSON(w, r, &a) {
		return
	}
	// Who goes away after asking still asked.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), doTime)
	defer cancel()
	answer, err := s.opts.Source.Do(ctx, a)
	if err != nil {
		s.fail(w, a.Do, err)
		return
	}
	s.hub.hint()
	if answer == nil {
		answer = &Answer{}
	}
	writeJSON(w, answer)
}

// fail tells the person what was wrong, and the log where it was not theirs.
func (s *Server) fail(w http.ResponseWriter, what string, err error) {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		refuse(w, http.StatusUnprocessableEntity, refusal.Reason, refusal.Hint)
		return
	}
	s.opts.Log.Warn("page request failed", "what", what, "err", err)
	refuse(w, http.StatusServiceUnavailable, err.Error(), "")
}

func readJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "want application/json", "")
		return false
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "the request is not understood: "+err.Error(), "")
		return false
	}
	return true
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}
