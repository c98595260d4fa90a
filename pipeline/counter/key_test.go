package counter

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	c, err := s.Counter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	// Keys are text: none of them is a path, and each has a file of its own.
	keys := []string{"report-14", "Report-14", "../../etc/passwd", "", " ", strings.Repeat("k", 100_000), "\x00\n\x1b", "é", "e\u0301", "a/b"}
	for i, key := range keys {
		if k, err := c.LookupKey(key); k != nil || err != nil {
			t.Fatalf("LookupKey(%.20q) before it was saved = %+v, %v", key, k, err)
		}
		if err := c.SaveKey(&Key{Key: key, TaskID: 35, Name: "x.json", Drop: []byte(`{"t":"<&>\u2028"}`), Delivered: i%2 == 0}); err != nil {
			t.Fatal(err)
		}
	}
	for i, key := range keys {
		want := &Key{Key: key, TaskID: 35, Name: "x.json", Drop: []byte(`{"t":"<&>\u2028"}`), Delivered: i%2 == 0}
		got, err := c.LookupKey(key)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("LookupKey(%.20q) = %+v, %v; want %+v", key, got, err, want)
		}
	}
	files, err := filepath.Glob(filepath.Join(s.dir, "keys", "*.json"))
	if err != nil || len(files) != len(keys) {
		t.Errorf("keys/ holds %d files, want %d", len(files), len(keys))
	}
}

// TestDamagedKey is about a key whose file says nothing: to go on would make
// the task once more.
func TestDamagedKey(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "\x00\x00", `{"key":"k"`, `{"key":"k","taskId":""}`, `{"key":"k","taskId":"35"}`, "[]"} {
		s, _ := fresh(t)
		c, err := s.Counter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		write(t, c.keyPath("k"), content)
		if k, err := c.LookupKey("k"); err == nil || k != nil {
			t.Errorf("LookupKey with a file of %q = %+v, %v; want an error", content, k, err)
		}
		c.Release()
	}
}

func TestKeyCrashes(t *testing.T) {
	for point, want := range map[string]bool{"key.before": false, "key.after": true} {
		s, _ := fresh(t)
		c, err := s.Counter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		crashAt(t, point, func() { c.SaveKey(&Key{Key: "k", TaskID: 1}) })
		if k, err := c.LookupKey("k"); (k != nil) != want || err != nil {
			t.Errorf("after a crash at %s: LookupKey = %+v, %v", point, k, err)
		}
		c.Release()
	}
}
