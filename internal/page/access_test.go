package page

import (
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// C32: the browser sent the session's cookie to every server on this host, and
// so to any other local user's, who could use it for 30 days. Now no cookie is
// set, and what a page sends or keeps is of no use after the process has ended.
func TestC32PassEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	first, _ := newServer(t)
	second := New(first.opts)
	old := "Bearer " + first.pass
	for s, want := range map[*Server]int{first: 200, second: 401} {
		for _, path := range []string{"/page/state", "/page/task?row=Rec1"} {
			if w := ask(s, "GET", path, "", func(r *http.Request) { r.Header.Set("Authorization", old) }); w.Code != want || len(w.Result().Cookies()) > 0 {
				t.Errorf("%s with the pass of the first process: status %d, want %d", path, w.Code, want)
			}
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
	foreign := filepath.Join(dir, "notes")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	for _, path := range []string{linkPath(dir, old), foreign} {
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
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("another's file: %v", err)
	}
}
