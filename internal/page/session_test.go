package page

import (
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

// bearing is a request with a cookie.
func bearing(c *http.Cookie) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/page/state", nil)
	r.AddCookie(c)
	return r
}

func TestCookie(t *testing.T) {
	t.Parallel()
	key, other := []byte("a key of thirty-two bytes, yes it is"), []byte("another key of thirty-two bytes, yes")
	good := newCookie(key, noon)
	if !good.HttpOnly || good.SameSite != http.SameSiteStrictMode || good.MaxAge != 30*24*3600 || good.Path != "/" {
		t.Errorf("cookie %+v", good)
	}
	as := func(name, value string) *http.Cookie { return &http.Cookie{Name: name, Value: value} }
	end := func(d time.Duration) string {
		c := newCookie(key, noon.Add(d))
		return c.Value
	}
	for _, tt := range []struct {
		name   string
		cookie *http.Cookie
		now    time.Time
		want   bool
	}{
		{"new", good, noon, true},
		{"a second before its end", good, noon.Add(SessionLife - time.Second), true},
		{"over", good, noon.Add(SessionLife), false},
		{"the clock was set back a little", good, noon.Add(-maxSkew), true},
		{"the clock was set back", good, noon.Add(-maxSkew - time.Second), false},
		{"of another key", newCookie(other, noon), noon, false},
		{"of another key, under our name", as(good.Name, newCookie(other, noon).Value), noon, false},
		{"under another name", as("otm_session", good.Value), noon, false},
		{"no signature", as(good.Name, "1900000000"), noon, false},
		{"empty signature", as(good.Name, "1900000000."), noon, false},
		{"signature of another end", as(good.Name, "9"+end(0)), noon, false},
		{"no number, signed", as(good.Name, "soon."+sign(key, "soon")), noon, false},
		{"nothing", as(good.Name, ""), noon, false},
	} {
		if got := validCookie(bearing(tt.cookie), key, tt.now); got != tt.want {
			t.Errorf("%s: valid %t, want %t", tt.name, got, tt.want)
		}
	}
	r := bearing(as(good.Name, "forged.0"))
	r.AddCookie(good)
	if !validCookie(r, key, noon) {
		t.Error("a good one behind a forged one of the same name does not count")
	}
}

// Pages of two data directories on one host do not sign each other out.
func TestCookieNames(t *testing.T) {
	t.Parallel()
	a, b := cookieName([]byte("one key of thirty-two bytes, yes it is")), cookieName([]byte("two keys of thirty-two bytes, yes it is"))
	if a == b {
		t.Errorf("both are called %s", a)
	}
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
	new, err := loadKey(dir)
	if err != nil || validCookie(bearing(newCookie(first, noon)), new, noon) {
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
