package history

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
)

// TestDiskFailsAtEachStep: at whichever step the disk refuses, it is told, what
// was there stays, and what is added again by who looks first stands there once.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"new": "", "whole": "\n", "torn": "\n{\"taskId\":\"T-000", "without an end": " "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
				dir := t.TempDir()
				if end != "" {
					spoilEnd(t, dir, end)
				}
				had, _ := read(t, dir)
				refusal, err := refuse(dir, func() error { return Append(dir, []Entry{entry(2), entry(3)}) })
				refusal.Told(t, err, false)
				have, _ := read(t, dir)
				if !strings.HasPrefix(have, had) {
					t.Fatalf("refused %q: %q is left of %q", refusal, have, had)
				}
				for _, e := range []Entry{entry(2), entry(3)} {
					if !strings.Contains(have, e.TaskID.String()) {
						if err := Append(dir, []Entry{e}); err != nil {
							t.Fatal(err)
						}
					}
				}
				want := strings.TrimSpace(had + " T-00002 T-00003")
				if have, bad := read(t, dir); bad != 0 || have != want {
					t.Fatalf("refused %q: in the end %q, and %d bad lines; want %q", refusal, have, bad, want)
				}
			})
		})
	}
}

// spoilEnd makes a history of one entry whose line ends so.
func spoilEnd(t *testing.T, dir, end string) {
	t.Helper()
	if err := Append(dir, []Entry{entry(1)}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, FileName)
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.TrimSuffix(string(data), "\n")+end), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadRefused: a history that could not be read is never taken for one that
// ends there.
func TestReadRefused(t *testing.T) {
	t.Parallel()
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		dir := t.TempDir()
		if err := Append(dir, []Entry{entry(1)}); err != nil {
			t.Fatal(err)
		}
		refusal, err := refuse(dir, func() (last error) {
			for _, err := range Read(dir) {
				last = err
			}
			return last
		})
		refusal.Told(t, err, false)
	})
}
