package logx

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// open opens a log that is rotated after few bytes.
func open(t *testing.T, max int64) (*File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "logs dir", "otm-injector.log")
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	f.max = max
	return f, path
}

func put(t *testing.T, f *File, line string) {
	t.Helper()
	if n, err := f.Write([]byte(line)); n != len(line) || err != nil {
		t.Fatalf("Write(%q) = %d, %v", line, n, err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOpenFileAppends(t *testing.T) {
	t.Parallel()
	f, path := open(t, MaxSize)
	put(t, f, "one\n")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, f, "two\n") // opens it again
	again, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	put(t, again, "three\n")
	if got := read(t, path); got != "one\ntwo\nthree\n" {
		t.Errorf("the log holds %q", got)
	}
	for path, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

// TestRotation keeps MaxFiles old ones, each line whole and in one of them.
func TestRotation(t *testing.T) {
	t.Parallel()
	f, path := open(t, 100)
	line := func(i int) string { return fmt.Sprintf("line %03d, thirty bytes in all.\n", i) } // three fit
	const n = 30
	for i := range n {
		put(t, f, line(i))
	}
	var kept string
	for i := MaxFiles; i >= 1; i-- {
		text := read(t, fmt.Sprintf("%s.%d", path, i))
		if len(text) > 100 {
			t.Errorf("%d: %d bytes, more than there may be", i, len(text))
		}
		kept += text
	}
	kept += read(t, path)
	var want string
	for i := n - 3*(MaxFiles+1); i < n; i++ {
		want += line(i)
	}
	if kept != want {
		t.Errorf("kept is\n%s\nwant\n%s", kept, want)
	}
	if _, err := os.Stat(fmt.Sprintf("%s.%d", path, MaxFiles+1)); err == nil {
		t.Error("one old log too many is kept")
	}
}

// TestRotationGoesOnAfterARestart counts what is there already.
func TestRotationGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	f, path := open(t, 100)
	put(t, f, strings.Repeat("x", 89)+"\n")
	f.Close()
	again, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	again.max = 100
	put(t, again, strings.Repeat("y", 19)+"\n")
	if got := read(t, path); got != strings.Repeat("y", 19)+"\n" {
		t.Errorf("the log holds %q, want the second line alone", got)
	}
}

func TestLineLargerThanALog(t *testing.T) {
	t.Parallel()
	f, path := open(t, 100)
	long := strings.Repeat("x", 500) + "\n"
	put(t, f, long)
	put(t, f, "short\n")
	put(t, f, long)
	if a, b, c := read(t, path+".2"), read(t, path+".1"), read(t, path); a != long || b != "short\n" || c != long {
		t.Errorf("the logs hold %d, %d and %d bytes", len(a), len(b), len(c))
	}
}

// TestCaseB91RenamedUnderneath renames, removes and truncates the log as other
// programs do: the next line stands in a file of that name.
func TestCaseB91RenamedUnderneath(t *testing.T) {
	t.Parallel()
	f, path := open(t, MaxSize)
	put(t, f, "one\n")
	must(t, os.Rename(path, path+".elsewhere"))
	put(t, f, "two\n")
	if got := read(t, path); got != "two\n" {
		t.Errorf("after a rename the log holds %q", got)
	}
	if got := read(t, path+".elsewhere"); got != "one\n" {
		t.Errorf("the renamed log holds %q", got)
	}
	must(t, os.Remove(path))
	put(t, f, "three\n")
	if got := read(t, path); got != "three\n" {
		t.Errorf("after it was removed the log holds %q", got)
	}
	must(t, os.RemoveAll(filepath.Dir(path)))
	put(t, f, "four\n")
	if got := read(t, path); got != "four\n" {
		t.Errorf("after its directory was removed the log holds %q", got)
	}
	must(t, os.Truncate(path, 0))
	put(t, f, "five\n")
	if got := read(t, path); got != "five\n" {
		t.Errorf("after it was truncated the log holds %q", got)
	}
	must(t, os.Rename(path, path+".away"))
	must(t, os.WriteFile(path, []byte("somebody else's\n"), 0o600))
	put(t, f, "six\n")
	if got := read(t, path); got != "somebody else's\nsix\n" {
		t.Errorf("after it was replaced the log holds %q", got)
	}
	if _, err := os.Stat(path + ".1"); err == nil {
		t.Error("it was rotated though it was not full")
	}
}

// TestC40NoDataDirectory: a data directory that was moved away does not come back with
// the next log line.
func TestC40NoDataDirectory(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	must(t, os.Mkdir(data, 0o700))
	f, err := OpenFile(filepath.Join(data, "logs", "a.log"))
	must(t, err)
	defer f.Close()
	must(t, os.RemoveAll(data))
	if _, err := f.Write([]byte("x\n")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Write: %v, want fs.ErrNotExist", err)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the data directory was made")
	}
}

func TestConcurrentLines(t *testing.T) {
	t.Parallel()
	f, path := open(t, 1000)
	const n, times = 8, 8
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for j := range times {
				put(t, f, fmt.Sprintf("%d %d\n", i, j))
			}
		})
	}
	wg.Wait()
	lines := map[string]bool{}
	for l := range strings.Lines(read(t, path)) {
		lines[l] = true
	}
	if len(lines) != n*times {
		t.Errorf("the log holds %d different lines, want %d", len(lines), n*times)
	}
}

// TestTailLosesNothing follows the log by name, as tail -F does, over several
// rotations.
func TestTailLosesNothing(t *testing.T) {
	t.Parallel()
	tail, err := exec.LookPath("tail")
	if err != nil {
		t.Skip("needs tail")
	}
	f, path := open(t, 200)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tail, "-n", "+1", "-F", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	must(t, cmd.Start())
	defer cmd.Wait()
	defer cancel()
	lines := bufio.NewScanner(out)
	rotations := 0
	for i := range 40 {
		want := fmt.Sprintf("line %d of the log", i)
		before := f.size
		put(t, f, want+"\n")
		if f.size < before {
			rotations++
		}
		// It reads a rotated file to its end before it turns to the next; of two
		// rotations at once it would see the last.
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("tail shows %q, %v; want %q", lines.Text(), lines.Err(), want)
		}
	}
	if rotations < 2 {
		t.Errorf("there were %d rotations, want some", rotations)
	}
}

func TestWriteFails(t *testing.T) {
	t.Parallel()
	f, path := open(t, MaxSize)
	must(t, os.RemoveAll(filepath.Dir(path)))
	must(t, os.WriteFile(filepath.Dir(path), nil, 0o600)) // in the way
	if _, err := f.Write([]byte("lost\n")); err == nil {
		t.Error("Write without a directory gave no error")
	}
	must(t, os.Remove(filepath.Dir(path)))
	put(t, f, "found\n")
	if _, err := OpenFile(filepath.Join(path, "below")); err == nil {
		t.Error("OpenFile below a file gave no error")
	}
}

// TestOneLineAnEvent is about text that would be more than text on a terminal.
func TestOneLineAnEvent(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := New(&b, slog.LevelInfo)
	for _, text := range []string{"plain", "two words", "a\nb\r", "\x1b[31m\x07", "a\u202eb\u2066", "\u2028", "\x00", `"`, "a=b", "", "\xff", "\u009b"} {
		b.Reset()
		log.Info("settled drop", "drop", text, "err", errors.New(text))
		got := b.String()
		if strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "\n") {
			t.Errorf("%q gives %d lines: %q", text, strings.Count(got, "\n"), got)
		}
		if i := strings.IndexFunc(got[:len(got)-1], func(r rune) bool {
			return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		}); i >= 0 {
			t.Errorf("%q gives %q, with something that disturbs a terminal", text, got)
		}
	}
	b.Reset()
	log.Debug("not of interest")
	if b.Len() > 0 {
		t.Errorf("below the level: %q", b.String())
	}
}

func TestTimesAreUTC(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	h := New(&b, slog.LevelInfo).Handler()
	at := time.Date(2026, 3, 14, 9, 20, 19, 123456789, time.FixedZone("", 3600))
	r := slog.NewRecord(at, slog.LevelInfo, "waiting", 0)
	r.AddAttrs(slog.Time("until", at), slog.Group("g", slog.Time("at", at)))
	if err := h.Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "time=2026-03-14T08:20:19.123Z level=INFO msg=waiting until=2026-03-14T08:20:19Z g.at=2026-03-14T08:20:19Z\n"; got != want {
		t.Errorf("the line is %q, want %q", got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
