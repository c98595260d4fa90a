package inbox

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
)

// across is a box one of whose inboxes is a link into another file system.
func across(t *testing.T) *Box {
	t.Helper()
	b := box(t)
	const elsewhere = "/dev/shm"
	dir, err := os.MkdirTemp(elsewhere, "otm-test-")
	if err != nil {
		t.Skipf("needs a second file system to write to: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if device(t, dir) == device(t, b.dir) {
		t.Skipf("needs a second file system: %s is on the one of the temporary directory", elsewhere)
	}
	if err := os.Remove(b.Dir(NewTasks)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, b.Dir(NewTasks)); err != nil {
		t.Fatal(err)
	}
	return b
}

func device(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return uint64(info.Sys().(*syscall.Stat_t).Dev)
}

func TestSettleAcrossFileSystems(t *testing.T) {
	t.Parallel()
	b := across(t)
	for name, text := range map[string]string{"good.json": `{"id":"d1"}`, "bad.json": "no JSON", "empty.json": ""} {
		write(t, filepath.Join(b.Dir(NewTasks), name), text)
	}
	sweep(t, b, NewTasks)
	if got := names(t, b.Dir(NewTasks)); len(got) != 0 {
		t.Errorf("the inbox still holds %q", got)
	}
	for dir, want := range map[string]string{ProcessedDir: "good.json", FailedDir: "bad.json bad.json.error.json empty.json empty.json.error.json"} {
		if got := strings.Join(names(t, filepath.Join(b.dir, dir)), " "); got != want {
			t.Errorf("%s holds %q, want %q", dir, got, want)
		}
	}
	if got := read(t, filepath.Join(b.dir, FailedDir, "bad.json")); got != "no JSON" {
		t.Errorf("bad.json became %q", got)
	}
	if _, name, err := b.Retry("bad.json", "", nil); name != "bad.json" || err != nil {
		t.Errorf("Retry = %q, %v", name, err)
	}
	if got := read(t, filepath.Join(b.Dir(NewTasks), "bad.json")); got != "no JSON" {
		t.Errorf("put back, bad.json is %q", got)
	}
}

// TestSettleAcrossSpecialFiles takes out of the inbox what no copy can settle:
// it must not be met again by each sweep, nor keep the others from settling.
func TestSettleAcrossSpecialFiles(t *testing.T) {
	t.Parallel()
	b := across(t)
	dir := b.Dir(NewTasks)
	if err := os.Mkdir(filepath.Join(dir, "1dir.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "2fifo.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "3link.json")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "4large.json"), "")
	if err := os.Truncate(filepath.Join(dir, "4large.json"), maxSettled+1); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "9good.json"), `{"id":"d1"}`)
	sweep(t, b, NewTasks)
	if got, want := strings.Join(names(t, dir), " "), "1dir.json.refused-1 2fifo.json.refused-1 3link.json.refused-1 4large.json.refused-1"; got != want {
		t.Errorf("the inbox holds %q, want %q", got, want)
	}
	if files, err := b.List(NewTasks); len(files) != 0 || err != nil {
		t.Errorf("List = %d files, %v; want none", len(files), err)
	}
	if got := names(t, filepath.Join(b.dir, ProcessedDir)); len(got) != 1 {
		t.Errorf("processed holds %q, want the good drop", got)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "2fifo.json"), 0o600); err != nil { // another one
		t.Fatal(err)
	}
	sweep(t, b, NewTasks)
	if got := strings.Join(names(t, dir), " "); !strings.Contains(got, "2fifo.json.refused-1 2fifo.json.refused-2") {
		t.Errorf("the inbox holds %q", got)
	}
	if got := read(t, filepath.Join(b.dir, FailedDir, "2fifo.json"+ExplainSuffix)); !strings.Contains(got, "2fifo.json.refused-2") {
		t.Errorf("the explanation of the second is %s", got)
	}
	for _, name := range []string{"1dir.json", "3link.json", "4large.json"} {
		if got := read(t, filepath.Join(b.dir, FailedDir, name+ExplainSuffix)); !strings.Contains(got, name+".refused-1") {
			t.Errorf("the explanation of %s is %s, want it to say where the file stands", name, got)
		}
	}
}

// TestDiskFailsAtASpecialFile: at whichever step the disk refuses, that is told, and
// the next sweep takes the file out of the inbox, whole.
func TestDiskFailsAtASpecialFile(t *testing.T) {
	t.Parallel()
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		b := across(t)
		path := filepath.Join(b.Dir(NewTasks), "fifo.json")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		f, _ := only(t, b, NewTasks)
		refused, err := refuse(b.dir, func() error {
			_, err := b.Settle(f, nil, Result{At: at, Class: Invalid, Error: "why"})
			return err
		})
		refused.Told(t, err, false)
		sweep(t, b, NewTasks)
		if got := names(t, b.Dir(NewTasks)); len(got) != 1 || got[0] != "fifo.json.refused-1" {
			t.Errorf("refused %q: %v; the inbox holds %q", refused, err, got)
		}
		if got := read(t, filepath.Join(b.dir, FailedDir, "fifo.json"+ExplainSuffix)); !strings.Contains(got, "refused-1") {
			t.Errorf("refused %q: the explanation is %s", refused, got)
		}
	})
}
