package page

import (
	"crypto/subtle"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// signIn is what a browser gets when it signs in: what it sends with each
// request to this process, and what buys the next pass, if it has a key.
type signIn struct {
	Pass    string `json:"pass"`
	Session string `json:"session,omitempty"`
}

// session exchanges a link's code for a pass and, if the browser sends the
// public half of a key, a session.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Code string `json:"code"`
		Key  string `json:"key"`
	}
	if !readJSON(w, r, maxSignInBody, &body) {
		return
	}
	if body.Key != "" && parsePublic(body.Key) == nil {
		refuse(w, http.StatusBadRequest, "the key is no point of P-256", "")
		return
	}
	good, err := useLink(s.opts.Dir, body.Code, s.opts.Now())
	if err != nil {
		s.fail(w, "exchange a link", err)
		return
	}
	if !good {
		refuse(w, http.StatusUnauthorized, "the code was used already, or is older than a minute", "otm board --link")
		return
	}
	key, err := loadKey(s.opts.Dir)
	if err != nil {
		s.fail(w, "read the key of the sessions", err)
		return
	}
	s.admit(w, r, key, body.Key)
}

// pass exchanges a session, and proof that the browser holds its key, for a
// pass and a session that lasts longer.
func (s *Server) pass(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Session string `json:"session"`
		Proof   string `json:"proof"`
	}
	if !readJSON(w, r, maxSignInBody, &body) {
		return
	}
	key, err := readKey(s.opts.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.fail(w, "read the key of the sessions", err)
		return
	}
	public := ""
	if err == nil {
		public = sessionKey(key, body.Session, port(r), s.opts.Now())
	}
	if public == "" || !s.run.proves(public, body.Proof) {
		s.notSignedIn(w)
		return
	}
	s.admit(w, r, key, public)
}

func (s *Server) admit(w http.ResponseWriter, r *http.Request, key []byte, public string) {
	now := s.opts.Now()
	in := signIn{Pass: s.run.pass(key, now)}
	if public != "" {
		in.Session = newSession(key, port(r), public, now)
	}
	answer(w, http.StatusOK, in)
}

// port is the port on which a request came in, as the system tells it: the
// request itself could claim any.
func port(r *http.Request) string {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return strconv.Itoa(addr.Port)
	}
	return ""
}

// tokenOf returns the token in the header of a request; "" if there is none.
func tokenOf(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}

func (s *Server) bearsToken(r *http.Request) bool {
	if s.opts.Bearer == nil {
		return false
	}
	token := s.opts.Bearer()
	return token != "" && subtle.ConstantTimeCompare([]byte(tokenOf(r)), []byte(token)) == 1
}

// maySee reports whether a request bears a pass, or the token. It reads the
// key each time, so that removing the key ends all sessions.
func (s *Server) maySee(r *http.Request) (bool, error) {
	if s.bearsToken(r) {
		return true, nil
	}
	key, err := readKey(s.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && s.run.admits(tokenOf(r), key, s.opts.Now()), err
}

// signedIn lets those through who may see the page. It looks at headers only.
func (s *Server) signedIn(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		may, err := s.maySee(r)
		if err != nil {
			s.fail(w, "read the key of the sessions", err)
			return
		}
		if !may {
			s.notSignedIn(w)
			return
		}
		next(w, r)
	}
}

// notSignedIn refuses with the challenge, which a browser with a session signs
// to get a pass.
func (s *Server) notSignedIn(w http.ResponseWriter) {
	answer(w, http.StatusUnauthorized, map[string]string{"error": "not signed in", "hint": "otm board --link", "challenge": s.run.challenge})
}
