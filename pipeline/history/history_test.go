package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/internal/crash"
	"otm/internal/leak"
	"otm/pipeline"
)

func entry(id pipeline.TaskID) Entry {
	return Entry{
		ArchivedAt: time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC), TaskID: id,
		Row: pipeline.Row{ID: fmt.Sprintf("Rec%d", id), Title: "line\nbreak \"quoted\"", Status: pipeline.Done}, Steps: []pipeline.Row{{Title: "a"}},
	}
}

// read returns the ids in the file, and how many lines are no entries.
func read(t *testing.T, dir string) (ids string, bad int) {
	t.Helper()
	for e, err := range Read(dir) {
		if err != nil {
			bad++
			continue
		}
		ids += e.TaskID.String() + " "
	}
	return strings.TrimSpace(ids), bad
}

func TestAppend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if ids, bad := read(t, dir); ids != "" || bad != 0 {
		t.Errorf("without a file: %q, %d bad", ids, bad)
	}
	for _, entries := range [][]Entry{{entry(1), entry(2)}, nil, {entry(3)}} {
		if err := Append(dir, entries); err != nil {
			t.Fatal(err)
		}
	}
	if ids, bad := read(t, dir); ids != "T-00001 T-00002 T-00003" || bad != 0 {
		t.Errorf("%q, %d bad", ids, bad)
	}
	for e := range Read(dir) {
		if want := entry(e.TaskID); !e.Same(&want) || e.Row.Title != want.Row.Title || len(e.Steps) != 1 {
			t.Errorf("read back %+v", e)
		}
	}
	info, err := os.Stat(filepath.Join(dir, FileName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// B80: wherever a crash cut the last line, also within a letter, that line alone
// is lost.
func TestCutAtEachByte(t *testing.T) {
	t.Parallel()
	last := entry(2)
	last.Row.Title = "größer"
	line, err := json.Marshal(&last)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(line) + 2 {
		dir := t.TempDir()
		if err := Append(dir, []Entry{entry(1)}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, FileName)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole := string(line) + "\n"
		if err := os.WriteFile(path, []byte(string(data)+whole[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Append(dir, []Entry{entry(3)}); err != nil {
			t.Fatal(err)
		}
		want := "T-00001 T-00003"
		if cut >= len(line) {
			want = "T-00001 T-00002 T-00003"
		}
		if ids, bad := read(t, dir); ids != want || bad != 0 {
			t.Fatalf("cut after %d of %d bytes: %q, %d bad", cut, len(line), ids, bad)
		}
	}
}

// A line that a crash tore is not read, and the next Append puts it aside; what
// somebody else wrote into the file stays, and hides nothing.
func TestTornLine(t *testing.T) {
	t.Parallel()
	for name, torn := range map[string]string{
		"short": `{"taskId":"T-000`, "long": `{"taskId":"T-00009","x":"` + strings.Repeat("y", 300<<10), "no entry": `{"taskId":""}`,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, FileName)
		if err := Append(dir, []Entry{entry(1)}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(string(data)+"what is this\n"+torn), 0o600); err != nil {
			t.Fatal(err)
		}
		if ids, bad := read(t, dir); ids != "T-00001" || bad != 1 {
			t.Errorf("%s: %q, %d bad", name, ids, bad)
		}
		if err := Append(dir, []Entry{entry(2)}); err != nil {
			t.Fatal(err)
		}
		if ids, bad := read(t, dir); ids != "T-00001 T-00002" || bad != 1 {
			t.Errorf("%s, then: %q, %d bad", name, ids, bad)
		}
		aside, err := filepath.Glob(path + ".torn-*")
		if err != nil || len(aside) != 1 {
			t.Fatalf("%s: set aside: %q, %v", name, aside, err)
		}
		if got, err := os.ReadFile(aside[0]); err != nil || string(got) != torn {
			t.Errorf("%s: set aside %q, %v", name, got, err)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte("no line at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Append(dir, []Entry{entry(1)}); err != nil {
		t.Fatal(err)
	}
	if ids, bad := read(t, dir); ids != "T-00001" || bad != 0 {
		t.Errorf("%q, %d bad", ids, bad)
	}
}

// What editors make of the file loses no entry: a last line without its end,
// line ends of Windows, a mark at the beginning, blank lines.
func TestEditedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	if err := Append(dir, []Entry{entry(1), entry(2), entry(3)}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"no end":       strings.TrimSuffix(string(whole), "\n"),
		"of Windows":   strings.ReplaceAll(string(whole), "\n", "\r\n"),
		"mark":         "\ufeff" + string(whole),
		"blank lines":  "\n" + strings.ReplaceAll(string(whole), "\n", "\n \n\n"),
		"all of these": "\ufeff\r\n" + strings.TrimSuffix(strings.ReplaceAll(string(whole), "\n", "\r\n"), "\r\n"),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if ids, bad := read(t, dir); ids != "T-00001 T-00002 T-00003" || bad > 0 {
			t.Errorf("%s: %q, %d bad", name, ids, bad)
		}
		if err := Append(dir, []Entry{entry(4)}); err != nil {
			t.Fatal(err)
		}
		if ids, _ := read(t, dir); ids != "T-00001 T-00002 T-00003 T-00004" {
			t.Errorf("%s, then: %q", name, ids)
		}
	}
	if aside, _ := filepath.Glob(path + ".torn-*"); len(aside) > 0 {
		t.Errorf("set aside: %q", aside)
	}
}

// What is no file is said to be none, by readers and by writers, and nobody
// waits for it; a link is followed, and stays one.
func TestOddFile(t *testing.T) {
	t.Parallel()
	for name, makes := range map[string]func(path string) error{
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link to a directory": func(path string) error {
			return os.Symlink(filepath.Dir(path), path)
		},
		"a link to nowhere": func(path string) error {
			return os.Symlink(filepath.Join(filepath.Dir(path), "nowhere"), path)
		},
	} {
		dir := t.TempDir()
		if err := makes(filepath.Join(dir, FileName)); err != nil {
			t.Fatal(err)
		}
		if err := Append(dir, []Entry{entry(1)}); err == nil {
			t.Errorf("%s was written to", name)
		}
		errs := 0
		for e, err := range Read(dir) {
			if errs++; e != nil || err == nil || errors.Is(err, ErrNoEntry) {
				t.Errorf("%s was read: %v, %v", name, e, err)
			}
		}
		if errs != 1 {
			t.Errorf("%s: %d errors", name, errs)
		}
	}
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
	path := filepath.Join(dir, FileName)
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	for id := range 2 {
		if err := Append(dir, []Entry{entry(pipeline.TaskID(id + 1))}); err != nil {
			t.Fatal(err)
		}
	}
	if ids, bad := read(t, dir); ids != "T-00001 T-00002" || bad != 0 {
		t.Errorf("through a link: %q, %d bad", ids, bad)
	}
	if to, err := os.Readlink(path); to != target {
		t.Errorf("the link leads to %q, %v", to, err)
	}
}

// A file that cannot be written to keeps what it has.
func TestNotWritable(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may write to every file")
	}
	dir := t.TempDir()
	if err := Append(dir, []Entry{entry(1)}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, FileName), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := Append(dir, []Entry{entry(2)}); err == nil {
		t.Error("nothing was said")
	}
	if ids, bad := read(t, dir); ids != "T-00001" || bad != 0 {
		t.Errorf("%q, %d bad", ids, bad)
	}
}

// Killed at each point, there are whole lines and nothing else.
func TestKilled(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]string{
		"history.aside": "T-00001", "history.before": "T-00001", "history.written": "T-00001 T-00002", "history.after": "T-00001 T-00002",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, FileName)
		if err := Append(dir, []Entry{entry(1)}); err != nil {
			t.Fatal(err)
		}
		if point == "history.aside" {
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, append(data, "torn"...), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "OTM_HISTORY_VICTIM="+dir, "OTM_HISTORY_CRASH="+point)
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("%s: not killed: %v", point, err)
		}
		if ids, bad := read(t, dir); ids != want || bad != 0 {
			t.Errorf("killed at %s: %q, %d bad", point, ids, bad)
		}
		if err := Append(dir, []Entry{entry(3)}); err != nil {
			t.Fatal(err)
		}
		if ids, bad := read(t, dir); ids != want+" T-00003" || bad != 0 {
			t.Errorf("killed at %s, then: %q, %d bad", point, ids, bad)
		}
	}
}

func TestMain(m *testing.M) {
	if dir := os.Getenv("OTM_HISTORY_VICTIM"); dir != "" {
		at := os.Getenv("OTM_HISTORY_CRASH")
		crash.Hook = func(point string) {
			if point == at {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		if err := Append(dir, []Entry{entry(2)}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(leak.Main(m))
}
