package page

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"otm/internal/durable"
)

// Lives of a link's code and of a session.
const (
	LinkLife    = time.Minute
	SessionLife = 30 * 24 * time.Hour
)

// maxSkew is how far in the future the clock may have set a session's end.
const maxSkew = time.Hour

// cookieName is the name of the session's cookie. Browsers send cookies to all
// ports of a host, so pages of several data directories need names of their
// own, or signing in to one would sign out of the others.
func cookieName(key []byte) string { return "otm_session_" + mac(key, "otm page cookie")[:8] }

// linkPrefix begins the names of the files that stand for unused codes.
const linkPrefix = "link-"

// NewLink makes a code that works once and for a minute, for the page of dir.
// Any process of the user may make one; what stands on disk is its hash.
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

// useLink takes a code: true for the first who comes while it is good. The
// removal of the file is what makes it one.
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
		return false, nil // somebody was faster
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

// loadKey returns the key that signs sessions, and makes it the first time.
// Whoever removes the file ends all sessions.
func loadKey(dir string) ([]byte, error) {
	key, err := readKey(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = make([]byte, 32)
	rand.Read(key) // never fails
	if err := durable.MkdirAll(dir); err != nil {
		return nil, err
	}
	err = durable.WriteNew(keyPath(dir), key)
	if errors.Is(err, fs.ErrExist) {
		return readKey(dir)
	}
	return key, err
}

func keyPath(dir string) string { return filepath.Join(dir, "key") }

// readKey reads the key; the error matches fs.ErrNotExist where there is none.
func readKey(dir string) ([]byte, error) {
	key, err := durable.ReadFile(keyPath(dir))
	if err == nil && (len(key) < 32 || len(bytes.Trim(key, "\x00")) == 0) { // a key of NUL bytes would be everybody's
		err = fmt.Errorf("key %q is damaged: remove it, and sign in again", keyPath(dir))
	}
	return key, err
}

// newCookie is a session that ends after SessionLife.
func newCookie(key []byte, now time.Time) *http.Cookie {
	end := strconv.FormatInt(now.Add(SessionLife).Unix(), 10)
	return &http.Cookie{
		Name: cookieName(key), Value: end + "." + sign(key, end), Path: "/", MaxAge: int(SessionLife.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

func sign(key []byte, end string) string { return mac(key, "otm page session until "+end) }

func mac(key []byte, text string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

// validCookie tells whether a request bears a session that is not over.
func validCookie(r *http.Request, key []byte, now time.Time) bool {
	for _, c := range r.CookiesNamed(cookieName(key)) {
		end, signature, ok := strings.Cut(c.Value, ".")
		if !ok || !hmac.Equal([]byte(signature), []byte(sign(key, end))) {
			continue
		}
		unix, err := strconv.ParseInt(end, 10, 64)
		if err != nil {
			continue
		}
		left := time.Unix(unix, 0).Sub(now)
		if left > 0 && left <= SessionLife+maxSkew {
			return true
		}
	}
	return false
}
