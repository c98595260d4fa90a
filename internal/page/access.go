package page

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"otm/internal/durable"
)

// LinkLife is how long the code of a link works.
const LinkLife = time.Minute

// linkPrefix begins the names of the files that stand for unused codes.
const linkPrefix = "link-"

// NewLink makes a code for the page of dir that works once, within a minute.
// Any process of the user may make one. The disk holds its hash, durable on
// return.
func NewLink(dir string, now time.Time) (string, error) {
	if err := durable.MkdirAll(dir); err != nil {
		return "", err
	}
	sweepLinks(dir, now)
	code := strings.ToLower(rand.Text())
	return code, durable.WriteNew(linkPath(dir, code), []byte(now.UTC().Format(time.RFC3339Nano)+"\n"))
}

func linkPath(dir, code string) string {
	sum := sha256.Sum256([]byte(code))
	return filepath.Join(dir, linkPrefix+hex.EncodeToString(sum[:]))
}

// useLink uses a code up, and reports whether it was good. Removing its file
// decides who was first.
func useLink(dir, code string, now time.Time) (bool, error) {
	path := linkPath(dir, code)
	data, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := durable.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil // another request was faster
	} else if err != nil {
		return false, err
	}
	made, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(data)))
	if err != nil {
		return false, nil
	}
	age := now.Sub(made)
	return age >= -time.Second && age <= LinkLife, nil
}

// sweepLinks removes codes that nobody used in time.
func sweepLinks(dir string, now time.Time) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), linkPrefix) && now.Sub(info.ModTime()) > LinkLife {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// session exchanges a link's code for the pass of this process.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Code string `json:"code"`
	}
	if !readJSON(w, r, maxSignInBody, &body) {
		return
	}
	good, err := useLink(s.opts.Dir, body.Code, s.opts.Now())
	switch {
	case err != nil:
		s.fail(w, "exchange a link", err)
	case !good:
		refuse(w, http.StatusUnauthorized, "the code was used already, or is older than a minute", "otm board --link")
	default:
		answer(w, http.StatusOK, map[string]string{"pass": s.pass})
	}
}

// signedIn lets those through who bear the pass. It looks at headers only.
func (s *Server) signedIn(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		got, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(got), []byte(s.pass)) == 1 {
			next(w, r)
			return
		}
		refuse(w, http.StatusUnauthorized, "not signed in", "otm board --link")
	}
}
