package page

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func TestPass(t *testing.T) {
	t.Parallel()
	key, other := []byte("a key of thirty-two bytes, yes it is"), []byte("another key of thirty-two bytes, yes")
	run, restarted := newRun(), newRun()
	good := run.pass(key, noon)
	end, signature, _ := strings.Cut(good, ".")
	for _, tt := range []struct {
		name, pass string
		key        []byte
		now        time.Time
		want       bool
	}{
		{"new", good, key, noon, true},
		{"a second before its end", good, key, noon.Add(passLife - time.Second), true},
		{"over", good, key, noon.Add(passLife), false},
		{"the clock was set back a little", good, key, noon.Add(-maxSkew), true},
		{"the clock was set back", good, key, noon.Add(-maxSkew - time.Second), false},
		{"of another key", good, other, noon, false},
		{"of another process", restarted.pass(key, noon), key, noon, false},
		{"a session", newSession(key, "1", "", noon), key, noon, false},
		{"no signature", end, key, noon, false},
		{"empty signature", end + ".", key, noon, false},
		{"signature of another end", "9" + end + "." + signature, key, noon, false},
		{"no number, signed", "soon." + mac(run.passKey(key), "otm page pass soon"), key, noon, false},
		{"a signature alone", signature, key, noon, false},
		{"nothing", "", key, noon, false},
	} {
		if got := run.admits(tt.pass, tt.key, tt.now); got != tt.want {
			t.Errorf("%s: admitted %t, want %t", tt.name, got, tt.want)
		}
	}
}

// browserKey is a key that a browser made.
type browserKey struct{ *ecdsa.PrivateKey }

func newBrowserKey(t *testing.T) browserKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return browserKey{key}
}

// public is what a browser exports.
func (k browserKey) public(t *testing.T) string {
	t.Helper()
	raw, err := k.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(raw)
}

// proof is what a browser signs.
func (k browserKey) proof(t *testing.T, challenge string) string {
	t.Helper()
	sum := sha256.Sum256([]byte("otm page " + challenge))
	r, s, err := ecdsa.Sign(rand.Reader, k.PrivateKey, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(r.FillBytes(make([]byte, 32))) + hex.EncodeToString(s.FillBytes(make([]byte, 32)))
}

// C32: the browser sent the session's cookie to every server on this host, and
// so to any other local user's, who could use it for 30 days. Now whatever a
// page sends or keeps is of no use elsewhere, or after the process has ended.
func TestC32NothingOfASessionIsOfUseElsewhere(t *testing.T) {
	t.Parallel()
	first, _ := newServer(t)
	serve := func(s *Server, address string) *httptest.Server {
		t.Helper()
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Skipf("somebody took the port: %v", err)
		}
		web := &httptest.Server{Listener: listener, Config: &http.Server{Handler: s.Handler()}}
		web.Start()
		t.Cleanup(web.Close)
		return web
	}
	again := func() *Server {
		t.Helper()
		s, err := New(Options{Source: newFake(), Dir: first.opts.Dir, Now: first.opts.Now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	send := func(web *httptest.Server, method, path, pass string, body any) (int, signIn) {
		t.Helper()
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", web.URL)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+pass)
		w, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		var in signIn
		if err := json.NewDecoder(w.Body).Decode(&in); err != nil {
			t.Fatal(err)
		}
		return w.StatusCode, in
	}
	sees := func(web *httptest.Server, pass string) bool {
		t.Helper()
		status, _ := send(web, "GET", "/page/state", pass, nil)
		return status == http.StatusOK
	}
	key, thief := newBrowserKey(t), newBrowserKey(t)
	code, err := NewLink(first.opts.Dir, noon)
	if err != nil {
		t.Fatal(err)
	}
	web := serve(first, "127.0.0.1:0")
	status, in := send(web, "POST", "/page/session", "", map[string]string{"code": code, "key": key.public(t)})
	if status != http.StatusOK || !sees(web, in.Pass) {
		t.Fatalf("sign in: status %d, %+v", status, in)
	}
	web.Close()
	elsewhere := again()
	other := serve(elsewhere, "127.0.0.1:0")
	restarted := again()
	web = serve(restarted, strings.TrimPrefix(web.URL, "http://"))
	if sees(web, in.Pass) || sees(other, in.Pass) || sees(web, in.Session) {
		t.Error("what the first process took is of use at another one")
	}
	type pass struct {
		Session string `json:"session"`
		Proof   string `json:"proof"`
	}
	for name, p := range map[string]pass{
		"the session alone":                {in.Session, ""},
		"signed with another key":          {in.Session, thief.proof(t, restarted.run.challenge)},
		"signed for the first process":     {in.Session, key.proof(t, first.run.challenge)},
		"signed for another port":          {in.Session, key.proof(t, elsewhere.run.challenge)},
		"a pass in its place":              {in.Pass, key.proof(t, restarted.run.challenge)},
		"a session of the thief's key":     {strings.Replace(in.Session, key.public(t), thief.public(t), 1), thief.proof(t, restarted.run.challenge)},
		"no hex":                           {in.Session, strings.Repeat("x", 128)},
		"a proof of the wrong length":      {in.Session, "00"},
		"a session of a server on no port": {newSession(keyOf(t, first), "", key.public(t), noon), key.proof(t, restarted.run.challenge)},
		"one that is over":                 {newSession(keyOf(t, first), portOf(web), key.public(t), noon.Add(-SessionLife)), key.proof(t, restarted.run.challenge)},
	} {
		if status, in := send(web, "POST", "/page/pass", "", p); status != http.StatusUnauthorized || in.Pass != "" {
			t.Errorf("%s: status %d, %+v", name, status, in)
		}
	}
	if status, _ := send(other, "POST", "/page/pass", "", pass{in.Session, key.proof(t, elsewhere.run.challenge)}); status != http.StatusUnauthorized {
		t.Errorf("on another port: status %d", status)
	}
	status, renewed := send(web, "POST", "/page/pass", "", pass{in.Session, key.proof(t, restarted.run.challenge)})
	if status != http.StatusOK || !sees(web, renewed.Pass) || renewed.Session == "" {
		t.Errorf("the browser itself, after a restart on the same port: status %d, %+v", status, renewed)
	}
}

func portOf(web *httptest.Server) string {
	_, port, _ := strings.Cut(strings.TrimPrefix(web.URL, "http://"), ":")
	return port
}

func TestKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "page")
	first, err := loadKey(dir)
	if err != nil || len(first) != 32 {
		t.Fatalf("key %x, error %v", first, err)
	}
	again, err := loadKey(dir)
	if err != nil || string(again) != string(first) {
		t.Errorf("another key the second time, error %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file %v, error %v", info.Mode(), err)
	}
	// Lost: sessions are over.
	if err := os.Remove(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	run := newRun()
	new, err := loadKey(dir)
	if err != nil || run.admits(run.pass(first, noon), new, noon) {
		t.Errorf("a session outlives its key, error %v", err)
	}
	for _, damaged := range []string{"", "short", strings.Repeat("\x00", 32)} {
		if err := os.WriteFile(filepath.Join(dir, "key"), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := loadKey(dir); err == nil {
			t.Errorf("the damaged key %q is taken", damaged)
		}
	}
}

// Of many who start at once, all have the same key.
func TestKeyRace(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "page")
	keys := make([]string, 16)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := loadKey(dir)
			if err != nil {
				t.Error(err)
			}
			keys[i] = string(key)
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k != keys[0] {
			t.Error("two keys")
		}
	}
}

func TestLink(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "page")
	use := func(what, code string, now time.Time, want bool) {
		t.Helper()
		if got, err := useLink(dir, code, now); err != nil || got != want {
			t.Errorf("%s: good %t, error %v", what, got, err)
		}
	}
	make := func() string {
		t.Helper()
		code, err := NewLink(dir, noon)
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	code := make()
	use("of another", "abc", noon, false)
	use("empty", "", noon, false)
	use("a path", "../../key", noon, false)
	use("first", code, noon.Add(time.Minute), true)
	use("second", code, noon.Add(time.Minute), false)
	late := make()
	use("too late", late, noon.Add(time.Minute+time.Millisecond), false)
	use("too late, the clock set back", late, noon, false)
	use("from the future", make(), noon.Add(-time.Minute), false)
	damaged := make()
	if err := os.WriteFile(linkPath(dir, damaged), []byte("yesterday\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	use("damaged", damaged, noon, false)
	if files, _ := filepath.Glob(filepath.Join(dir, "*"+code+"*")); len(files) > 0 {
		t.Errorf("the code stands on disk: %v", files)
	}
}

// Of many who use a code at once, one gets in.
func TestLinkRace(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "page")
	for range 20 {
		code, err := NewLink(dir, noon)
		if err != nil {
			t.Fatal(err)
		}
		var in atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				good, err := useLink(dir, code, noon)
				if err != nil {
					t.Error(err)
				}
				if good {
					in.Add(1)
				}
			})
		}
		wg.Wait()
		if in.Load() != 1 {
			t.Fatalf("%d got in", in.Load())
		}
	}
}

// Codes that nobody used are swept when the next one is made; others' files
// stay.
func TestLinkSweep(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a[b]*", "page")
	old, err := NewLink(dir, noon)
	if err != nil {
		t.Fatal(err)
	}
	key, err := loadKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	for _, path := range []string{linkPath(dir, old), filepath.Join(dir, "key")} {
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	young, err := NewLink(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewLink(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(linkPath(dir, old)); err == nil {
		t.Error("the old code stands")
	}
	if _, err := os.Stat(linkPath(dir, young)); err != nil {
		t.Errorf("the young code: %v", err)
	}
	if again, err := loadKey(dir); err != nil || string(again) != string(key) {
		t.Errorf("the key is another one, error %v", err)
	}
}
