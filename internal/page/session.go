package page

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"otm/internal/durable"
)

// How long things last. A session is renewed with each pass that it buys, so
// only a browser that stays away for SessionLife has to sign in again.
const (
	LinkLife    = time.Minute
	SessionLife = 7 * 24 * time.Hour
	passLife    = 24 * time.Hour
)

// maxSkew is how much the clock may have been set back since a token was made.
const maxSkew = time.Hour

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

// loadKey returns the key that signs sessions, and makes it the first time.
// Removing its file ends all sessions.
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

// readKey reads the key. The error matches fs.ErrNotExist if there is none.
func readKey(dir string) ([]byte, error) {
	key, err := durable.ReadFile(keyPath(dir))
	if err == nil && (len(key) < 32 || len(bytes.Trim(key, "\x00")) == 0) { // anybody could guess a key of NUL bytes
		err = fmt.Errorf("key %q is damaged: remove it, and sign in again", keyPath(dir))
	}
	return key, err
}

// run is what this process alone knows: what it signs ends with it.
type run struct {
	secret    []byte
	challenge string // what a browser signs to show that it holds a session's key
}

func newRun() run {
	return run{secret: []byte(rand.Text()), challenge: strings.ToLower(rand.Text())}
}

// pass returns a token that admits to this process for passLife, as long as
// the key stays.
func (r *run) pass(key []byte, now time.Time) string {
	return seal(r.passKey(key), "pass", now.Add(passLife))
}

func (r *run) admits(pass string, key []byte, now time.Time) bool {
	_, ok := unseal(r.passKey(key), "pass", pass, now, passLife)
	return ok
}

func (r *run) passKey(key []byte) []byte { return slices.Concat(key, r.secret) }

// newSession returns a token that buys passes for SessionLife: from a server
// on this port, and together with proofs by the key whose public half is given.
func newSession(key []byte, port, public string, now time.Time) string {
	return seal(key, "session", now.Add(SessionLife), port, public)
}

// sessionKey returns the public key of a session that is good on this port,
// else "".
func sessionKey(key []byte, session, port string, now time.Time) string {
	fields, ok := unseal(key, "session", session, now, SessionLife)
	if !ok || len(fields) != 2 || fields[0] != port {
		return ""
	}
	return fields[1]
}

// parsePublic reads a public key: an uncompressed point of P-256 in hex, as
// browsers export it. It returns nil for anything else.
func parsePublic(public string) *ecdsa.PublicKey {
	raw, err := hex.DecodeString(public)
	if err != nil {
		return nil
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), raw)
	if err != nil {
		return nil
	}
	return key
}

// proves reports whether a proof is the signature of this process's challenge
// under a public key: r and s, 32 bytes each, in hex, as browsers make it.
func (r *run) proves(public, proof string) bool {
	key := parsePublic(public)
	raw, err := hex.DecodeString(proof)
	if key == nil || err != nil || len(raw) != 64 {
		return false
	}
	sum := sha256.Sum256([]byte("otm page " + r.challenge))
	return ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:]))
}

// seal signs an end and fields, none of which holds a dot.
func seal(key []byte, kind string, end time.Time, fields ...string) string {
	text := strings.Join(append([]string{strconv.FormatInt(end.Unix(), 10)}, fields...), ".")
	return text + "." + mac(key, "otm page "+kind+" "+text)
}

// unseal returns the fields of a token that was sealed with key and has not
// ended. One that ends later than life from now was made by a wrong clock.
func unseal(key []byte, kind, token string, now time.Time, life time.Duration) ([]string, bool) {
	i := max(0, strings.LastIndexByte(token, '.'))
	if !hmac.Equal([]byte(strings.TrimPrefix(token[i:], ".")), []byte(mac(key, "otm page "+kind+" "+token[:i]))) {
		return nil, false
	}
	fields := strings.Split(token[:i], ".")
	end, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return nil, false
	}
	left := time.Unix(end, 0).Sub(now)
	return fields[1:], left > 0 && left <= life+maxSkew
}

func mac(key []byte, text string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}
