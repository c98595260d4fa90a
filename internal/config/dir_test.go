package config

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestFindDir(t *testing.T) {
	t.Parallel()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	usual := "/home/me/.local/share/openclaw/otm"
	xdg := "/xdg/openclaw/otm"
	if runtime.GOOS == "darwin" {
		usual = "/home/me/Library/Application Support/OpenClaw/otm"
		xdg = usual
	}
	tests := []struct {
		name, flag string
		getenv     func(string) string
		want       string // "": an error
	}{
		{"flag", "/a dir", env("OTM_DIR", "/b", "OPENCLAW_DATA_DIR", "/c", "HOME", "/home/me"), "/a dir"},
		{"relative flag", "a", env(), filepath.Join(wd, "a")},
		{"OTM_DIR", "", env("OTM_DIR", "/b", "OPENCLAW_DATA_DIR", "/c", "HOME", "/home/me"), "/b"},
		{"relative OTM_DIR", "", env("OTM_DIR", "b"), filepath.Join(wd, "b")},
		{"OPENCLAW_DATA_DIR", "", env("OPENCLAW_DATA_DIR", "/c", "HOME", "/home/me"), "/c/otm"},
		{"usual", "", env("HOME", "/home/me"), usual},
		{"XDG", "", env("HOME", "/home/me", "XDG_DATA_HOME", "/xdg"), xdg},
		{"relative XDG is ignored", "", env("HOME", "/home/me", "XDG_DATA_HOME", "xdg"), usual},
		{"flag in quotes", "~/a", env("HOME", "/home/me"), "/home/me/a"},
		{"OTM_DIR in quotes", "", env("OTM_DIR", "~/b", "HOME", "/home/me"), "/home/me/b"},
		{"OPENCLAW_DATA_DIR in quotes", "", env("OPENCLAW_DATA_DIR", "~/c", "HOME", "/home/me"), "/home/me/c/otm"},
		{"no home", "", env(), ""},
	}
	for _, tt := range tests {
		got, err := FindDir(tt.flag, tt.getenv)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: FindDir = %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	if got, err := DefaultDir(env("OTM_DIR", "/b", "HOME", "/home/me")); got != usual || err != nil {
		t.Errorf("DefaultDir = %q, %v; want %q whatever OTM_DIR says", got, err, usual)
	}
}

func TestCheckDir(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		format  string // "-": missing
		mode    os.FileMode
		secrets os.FileMode // 0: missing
		warning string
		reason  string // of a *DirError
		hint    string
	}{
		{name: "fine", format: "2\n", mode: 0o700, secrets: 0o700},
		{name: "former", format: "1\n", mode: 0o700, secrets: 0o700},
		{name: "without a line feed", format: "1", mode: 0o700},
		{name: "others can read", format: "1", mode: 0o755, warning: "has mode 0755, not 0700; chmod 700 '"},
		{name: "others can read secrets", format: "1", mode: 0o700, secrets: 0o750, warning: "secrets\" has mode 0750, not 0700; chmod 700 '"},
		{name: "one warning", format: "1", mode: 0o755, secrets: 0o755, warning: "has mode 0755"},
		{name: "the group can write", format: "1", mode: 0o770, reason: "others can write to", hint: "chmod go-w '"},
		{name: "all can write", format: "1", mode: 0o707, reason: "others can write to", hint: "chmod go-w '"},
		{name: "all can write secrets", format: "1", mode: 0o700, secrets: 0o777, reason: "secrets\" (mode 0777)", hint: "chmod go-w '"},
		{name: "newer", format: "3\n", mode: 0o700, reason: "has format 3, this program knows 2", hint: "knows format 3"},
		{name: "newer comes first", format: "99", mode: 0o777, reason: "has format 99"},
		{name: "empty", format: "", mode: 0o700, reason: `its file format holds ""`, hint: `printf '1\n' > '`},
		{name: "NUL bytes", format: "\x00\x00", mode: 0o700, reason: `its file format holds`, hint: "printf"},
		{name: "zero", format: "0", mode: 0o700, reason: "its file format holds", hint: "printf"},
		{name: "text", format: "one and a very long story", mode: 0o700, reason: "its file format holds", hint: "printf"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "it's a dir")
			must(t, os.Mkdir(dir, 0o700))
			must(t, os.WriteFile(filepath.Join(dir, "format"), []byte(tt.format), 0o600))
			if tt.secrets != 0 {
				must(t, os.Mkdir(filepath.Join(dir, "secrets"), 0o700))
				must(t, os.Chmod(filepath.Join(dir, "secrets"), tt.secrets))
			}
			must(t, os.Chmod(dir, tt.mode))
			warning, err := CheckDir(dir)
			if !strings.Contains(warning, tt.warning) || (warning == "") != (tt.warning == "") || strings.Count(warning, "chmod") > 1 {
				t.Errorf("warning %q, want %q", warning, tt.warning)
			}
			if tt.reason == "" {
				if err != nil {
					t.Errorf("CheckDir: %v", err)
				}
				return
			}
			var e *DirError
			if !errors.As(err, &e) {
				t.Fatalf("CheckDir: %v, want a *DirError", err)
			}
			if !strings.Contains(e.Reason, tt.reason) || !strings.Contains(e.Hint, tt.hint) || !strings.Contains(e.Error(), dir) {
				t.Errorf("CheckDir: %v, hint %q; want %q, %q", err, e.Hint, tt.reason, tt.hint)
			}
		})
	}
}

func TestCheckDirWhereNoneIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for _, path := range []string{dir, filepath.Join(dir, "none"), filepath.Join(dir, "file"), filepath.Join(dir, "file", "below")} {
		if _, err := CheckDir(path); !errors.Is(err, ErrNotInitialised) {
			t.Errorf("CheckDir(%q): %v, want ErrNotInitialised", path, err)
		}
	}
}

// TestCheckDirThroughALink looks at what the link leads to.
func TestCheckDirThroughALink(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "real")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "format"), []byte("1\n"), 0o600))
	must(t, os.Symlink(dir, dir+".link"))
	if warning, err := CheckDir(dir + ".link"); warning != "" || err != nil {
		t.Errorf("CheckDir = %q, %v", warning, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
