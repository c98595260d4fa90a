package app

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/internal/cli"
	"otm/internal/crash/crashtest"
)

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A demo whose board waits for room on the disk says so, and does not wait for ever.
func TestDemoWithoutRoom(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // so not in parallel
	late := make(chan time.Time, 1)
	var stdout, stderr bytes.Buffer
	said := writerFunc(func(p []byte) (int, error) {
		if stderr.Write(p); strings.Contains(stderr.String(), "\n") {
			select {
			case late <- time.Time{}:
			default: // it was told
			}
		}
		return len(p), nil
	})
	d, err := newDemo(cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: said, Getenv: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	crashtest.Below(t, d.home.boardDir(), func(string, string) error { return syscall.ENOSPC })
	err = d.run(t.Context(), false, late)
	d.remove()
	var e *cli.Error
	if !errors.As(err, &e) || e.Code != cli.TryLater || !strings.Contains(stderr.String(), "the board cannot start yet; it tries again") ||
		!strings.Contains(stderr.String(), syscall.ENOSPC.Error()) || stdout.Len() > 0 {
		t.Errorf("%v; said: %s%s", err, &stdout, &stderr)
	}
	if exists(d.root) {
		t.Errorf("%s is left", d.root)
	}
}
