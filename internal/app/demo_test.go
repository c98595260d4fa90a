package app

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"otm/internal/cli"
	"otm/internal/crash/crashtest"
)

// A demo whose board finds no room on the disk says so, and leaves nothing.
func TestDemoWithoutRoom(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // so not in parallel
	var stdout, stderr bytes.Buffer
	d, err := newDemo(cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Getenv: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	crashtest.Below(t, d.home.boardDir(), func(string, string) error { return syscall.ENOSPC })
	err = d.run(t.Context(), false, nil)
	d.remove()
	if !errors.Is(err, syscall.ENOSPC) || stdout.Len() > 0 {
		t.Errorf("%v; said: %s%s", err, &stdout, &stderr)
	}
	if exists(d.root) {
		t.Errorf("%s is left", d.root)
	}
}
