package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"otm/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// TestSameBytes: neither times nor the order of writing nor the umask show.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	var archives [][]byte
	for i, names := range [][]string{{"b/x", "a"}, {"a", "b/x"}} {
		dir := t.TempDir()
		for _, name := range names {
			path := filepath.Join(dir, name)
			os.MkdirAll(filepath.Dir(path), 0o755)
			mode := os.FileMode(0o600 + i*0o044)
			if name == "a" {
				mode |= 0o100
			}
			if err := os.WriteFile(path, []byte(name), mode); err != nil {
				t.Fatal(err)
			}
			at := time.Unix(int64(1000*i), 0)
			os.Chtimes(path, at, at)
		}
		out := filepath.Join(t.TempDir(), "x.tar.gz")
		if err := run([]string{out, dir, "name", "1700000000"}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, data)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the same files make different archives")
	}
}
