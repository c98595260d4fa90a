package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"otm/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// Faults of another system's files are found, in tests too, and each is told once.
func TestFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module m\n\ngo 1.26\n",
		"a.go":             "package m\n\nimport \"syscall\"\n\nvar _ = syscall.Getpid()\n",
		"a_linux.go":       "package m\n\nimport \"syscall\"\n\nvar _ = syscall.InotifyInit\n",
		"a_darwin.go":      "package m\n\nimport \"syscall\"\n\nfunc f() { syscall.InotifyInit() }\n",
		"a_test.go":        "package m\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { f() }\n",
		"b_darwin_test.go": "package m_test\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) { var unused int }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	faults, err := check("darwin", dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(faults) != 2 || !strings.Contains(faults[0], "undefined: syscall.InotifyInit") || !strings.Contains(faults[1], "unused") {
		t.Errorf("found:\n%s", strings.Join(faults, "\n"))
	}
}
