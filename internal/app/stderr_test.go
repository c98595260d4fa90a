package app

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/logx"
)

// TestStderrIsBounded: a program rotates the log into which launchd redirects its
// stderr, even if it gets no further than its configuration.
func TestStderrIsBounded(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := filepath.Join(home, "data")
	if _, err := Init(dir); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, config.FileName), "nonsense = 1\n")
	path := filepath.Join(home, "logs of otm", "otm-injector.stderr.log")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for start, want := range []bool{false, true, false} {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if want {
			f.Truncate(logx.MaxSize + 1)
		}
		env := map[string]string{"OTM_DIR": dir, "OTM_LOG_DIR": filepath.Dir(path), "HOME": home}
		s := cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: f, Getenv: func(key string) string { return env[key] }}
		if code := Main([]string{"otm-injector"}, s); code != cli.BadConfig {
			t.Errorf("start %d ends with %d", start, code)
		}
		f.Close()
		text, err := os.ReadFile(path)
		if _, old := os.Stat(path + ".1"); (old == nil) != (start > 0) || err != nil || len(text) > 1000 || !bytes.HasSuffix(text, []byte("\n")) || !bytes.Contains(text, []byte("unknown key nonsense")) {
			t.Errorf("start %d: it holds %d bytes, %v; %v", start, len(text), err, old)
		}
	}
}
