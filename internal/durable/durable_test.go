package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/internal/crash"
	"otm/internal/leak"
)

// child is set in the environment of this binary where it is to do one thing
// and end, instead of running tests.
const child = "OTM_TEST_CHILD"

func TestMain(m *testing.M) {
	switch what, path, _ := strings.Cut(os.Getenv(child), " "); what {
	case "":
		os.Exit(leak.Main(m))
	case "write": // for a tracer to look at
		must(WriteNew(path, []byte("one")))
		must(Replace(path, []byte("two")))
		must(ReplacePublic(path, []byte("three")))
		must(WriteAllNew(filepath.Dir(path), []NewFile{{"b", []byte("b")}, {"c", []byte("c")}}))
		must(Move(path, filepath.Join(filepath.Dir(path), "moved")))
		must(ReplaceVolatile(filepath.Join(filepath.Dir(path), "volatile"), []byte("v")))
	case "limit": // files may have 4096 bytes
		signal.Ignore(syscall.SIGXFSZ)
		must(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: 4096}))
		for name, err := range attempts(path, bytes.Repeat([]byte("x"), 8192)) {
			if !errors.Is(err, syscall.EFBIG) {
				fmt.Printf("%s: %v\n", name, err)
			}
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// attempts calls each writer, for the file at path, which exists, or a new one
// beside it.
func attempts(path string, data []byte) map[string]error {
	fresh := path + ".new"
	return map[string]error{
		"WriteNew":        WriteNew(fresh, data),
		"WriteAllNew":     WriteAllNew(filepath.Dir(path), []NewFile{{filepath.Base(fresh) + "1", []byte("small")}, {filepath.Base(fresh) + "2", data}}),
		"Replace":         Replace(path, data),
		"ReplacePublic":   ReplacePublic(path, data),
		"ReplaceVolatile": ReplaceVolatile(path, data),
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

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// names lists a directory, what is hidden in it as well.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestWriteNew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := WriteNew(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := WriteNew(path, []byte("two")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("WriteNew over a file: %v, want fs.ErrExist", err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := WriteNew(filepath.Join(dir, "link"), nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("WriteNew over a dangling link: %v, want fs.ErrExist", err)
	}
	if got := read(t, path); got != "one" {
		t.Errorf("the file holds %q", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != FileMode {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	if got := names(t, dir); !reflect.DeepEqual(got, []string{"a", "link"}) {
		t.Errorf("the directory holds %q", got)
	}
	if err := WriteNew(filepath.Join(dir, "missing", "a"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("WriteNew in a missing directory: %v, want fs.ErrNotExist", err)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(string, []byte) error{"Replace": Replace, "ReplaceVolatile": ReplaceVolatile} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a")
		for _, data := range []string{"one", "", strings.Repeat("x", 1<<20)} {
			if err := replace(path, []byte(data)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := read(t, path); got != data {
				t.Errorf("%s: the file holds %d bytes, want %d", name, len(got), len(data))
			}
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != FileMode {
			t.Errorf("%s: the file has mode %v, %v", name, info.Mode(), err)
		}
		// A directory is in the way.
		if err := os.MkdirAll(filepath.Join(dir, "d", "full"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := replace(filepath.Join(dir, "d"), nil); err == nil {
			t.Errorf("%s over a directory gave no error", name)
		}
		if got := names(t, dir); !reflect.DeepEqual(got, []string{"a", "d"}) {
			t.Errorf("%s: the directory holds %q", name, got)
		}
	}
}

// TestReplaceIsSeenWhole reads a file while it is replaced: it is one of what
// was written, never a part, never nothing.
func TestReplaceIsSeenWhole(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	contents := [][]byte{bytes.Repeat([]byte("a"), 100_000), bytes.Repeat([]byte("b"), 50_000)}
	if err := Replace(path, contents[0]); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 100 {
			if err := ReplaceVolatile(path, contents[i%2]); err != nil {
				t.Error(err)
			}
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(data, contents[0]) && !bytes.Equal(data, contents[1]) {
			t.Fatalf("read %d bytes, %v", len(data), err)
		}
	}
}

func TestWriteAllNew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := WriteAllNew(dir, []NewFile{{"a", []byte("1")}, {"b", []byte("2")}}); err != nil {
		t.Fatal(err)
	}
	if a, b := read(t, filepath.Join(dir, "a")), read(t, filepath.Join(dir, "b")); a != "1" || b != "2" {
		t.Errorf("the files hold %q and %q", a, b)
	}
	if err := WriteAllNew(dir, nil); err != nil {
		t.Errorf("WriteAllNew of nothing: %v", err)
	}
	// The second name is taken: the first stands, the third does not.
	if err := WriteAllNew(dir, []NewFile{{"c", nil}, {"a", []byte("x")}, {"d", nil}}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("WriteAllNew over a file: %v, want fs.ErrExist", err)
	}
	if got := names(t, dir); !reflect.DeepEqual(got, []string{"a", "b", "c"}) {
		t.Errorf("the directory holds %q", got)
	}
	if got := read(t, filepath.Join(dir, "a")); got != "1" {
		t.Errorf("the file that was there holds %q", got)
	}
	if err := WriteAllNew(filepath.Join(dir, "missing"), []NewFile{{"a", nil}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("WriteAllNew in a missing directory: %v, want fs.ErrNotExist", err)
	}
}

func TestMove(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for _, d := range []string{"from", "to"} {
		if err := os.Mkdir(filepath.Join(base, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	from, to := filepath.Join(base, "from", "a"), filepath.Join(base, "to", "a")
	write(t, from, "text")
	if err := Move(from, to); err != nil {
		t.Fatal(err)
	}
	if got := read(t, to); got != "text" || len(names(t, filepath.Join(base, "from"))) != 0 {
		t.Errorf("moved is %q, and the old place holds %q", got, names(t, filepath.Join(base, "from")))
	}
	write(t, from, "other")
	if err := Move(from, to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Move over a file: %v, want fs.ErrExist", err)
	}
	if got := read(t, to); got != "text" {
		t.Errorf("the file that was there holds %q", got)
	}
	if err := Move(filepath.Join(base, "none"), filepath.Join(base, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Move of nothing: %v, want fs.ErrNotExist", err)
	}
	if err := Move(filepath.Join(base, "from"), filepath.Join(base, "dir")); err != nil {
		t.Errorf("Move of a directory: %v", err)
	}
}

// TestLinkNoReplace is what file systems get that cannot rename without
// replacing.
func TestLinkNoReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, "text")
	if err := linkNoReplace(a, b); err != nil {
		t.Fatal(err)
	}
	write(t, a, "other")
	if err := linkNoReplace(a, b); !errors.Is(err, fs.ErrExist) {
		t.Errorf("linkNoReplace over a file: %v, want fs.ErrExist", err)
	}
	if read(t, a) != "other" || read(t, b) != "text" {
		t.Errorf("the files hold %q and %q", read(t, a), read(t, b))
	}
}

func TestMkdirAll(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	deep := filepath.Join(base, "a b", "c", "d")
	for range 2 {
		if err := MkdirAll(deep); err != nil {
			t.Fatal(err)
		}
	}
	for dir := deep; dir != base; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode() != DirMode|fs.ModeDir {
			t.Errorf("%s has mode %v, %v", dir, info.Mode(), err)
		}
	}
	write(t, filepath.Join(base, "file"), "")
	if err := os.Symlink("nowhere", filepath.Join(base, "dangling")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a b", filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	if err := MkdirAll(filepath.Join(base, "link", "new")); err != nil {
		t.Errorf("MkdirAll through a link: %v", err)
	}
	for _, name := range []string{"file", "file/below", "dangling", "dangling/below"} {
		// Not fs.ErrExist: that is what a writer says of a name that is taken.
		if err := MkdirAll(filepath.Join(base, name)); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("MkdirAll(%q): %v, want ENOTDIR", name, err)
		}
	}
}

// TestC55DirectorySyncUnsupported: a file system that cannot sync directories
// stops no writer; any other error does.
func TestC55DirectorySyncUnsupported(t *testing.T) {
	for errno, fatal := range map[syscall.Errno]bool{syscall.EINVAL: false, syscall.ENOTSUP: false, syscall.EIO: true} {
		crash.Fail = func(step, _ string) error {
			if step == "sync directory" {
				return errno
			}
			return nil
		}
		path := filepath.Join(t.TempDir(), "a")
		err := errors.Join(WriteNew(path, []byte("one")), Replace(path, []byte("two")), Mkdir(path+".d"), Move(path, path+".b"))
		crash.Fail = nil
		if (err != nil) != fatal {
			t.Errorf("sync of a directory answers %v: %v", errno, err)
		}
	}
}

// TestMkdir makes one level: what a directory stands in must not come into
// being by itself.
func TestMkdir(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for range 2 {
		if err := Mkdir(filepath.Join(base, "a b")); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(base, "a b")); err != nil || info.Mode() != DirMode|fs.ModeDir {
		t.Errorf("it has mode %v, %v", info.Mode(), err)
	}
	if err := Mkdir(filepath.Join(base, "gone", "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Mkdir in a directory that is not there: %v, want fs.ErrNotExist", err)
	}
	if got := names(t, base); !reflect.DeepEqual(got, []string{"a b"}) {
		t.Errorf("the directory holds %q", got)
	}
}

func TestRemoveLeftovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	for name, age := range map[string]time.Duration{
		TempPrefix + "old": time.Hour, TempPrefix + "exactly": 10 * time.Minute, TempPrefix + "young": time.Minute,
		TempPrefix + "future": -time.Hour, "data": time.Hour, ".hidden": time.Hour,
	} {
		write(t, filepath.Join(dir, name), "")
		if err := os.Chtimes(filepath.Join(dir, name), now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, TempPrefix+"dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	n, err := RemoveLeftovers(dir, 10*time.Minute, now)
	if n != 2 || err != nil {
		t.Errorf("RemoveLeftovers = %d, %v; want 2", n, err)
	}
	if got, want := names(t, dir), []string{".hidden", TempPrefix + "dir", TempPrefix + "future", TempPrefix + "young", "data"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the directory holds %q, want %q", got, want)
	}
	if _, err := RemoveLeftovers(filepath.Join(dir, "missing"), 0, now); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("RemoveLeftovers of a missing directory: %v", err)
	}
}

// TestCrashLeavesOneTemporaryFile stops each writer before the name: the old
// file stands, and what is left is swept away when it is old.
func TestCrashLeavesOneTemporaryFile(t *testing.T) {
	type killed struct{}
	crash.Hook = func(string) { panic(killed{}) }
	defer func() { crash.Hook = nil }()
	for name, f := range map[string]func(path string) error{
		"WriteNew": func(path string) error { return WriteNew(path+".new", []byte("x")) },
		"Replace":  func(path string) error { return Replace(path, []byte("x")) },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a")
		write(t, path, "old")
		func() {
			defer func() {
				if r := recover(); r != (killed{}) {
					t.Errorf("%s: recovered %v", name, r)
				}
			}()
			f(path)
		}()
		if got := names(t, dir); len(got) != 2 || !strings.HasPrefix(got[0], TempPrefix) || read(t, path) != "old" {
			t.Errorf("%s: after a crash the directory holds %q", name, got)
		}
		if n, err := RemoveLeftovers(dir, 0, time.Now().Add(time.Second)); n != 1 || err != nil {
			t.Errorf("%s: RemoveLeftovers = %d, %v", name, n, err)
		}
	}
}

// unharmed holds a directory against what it held before writers failed in it:
// the old file, and, of the many at once, none.
func unharmed(t *testing.T, dir string) {
	t.Helper()
	if got := names(t, dir); !reflect.DeepEqual(got, []string{"a"}) {
		t.Errorf("the directory holds %q, want the old file alone", got)
	}
	if got := read(t, filepath.Join(dir, "a")); got != "old" {
		t.Errorf("the old file holds %q", got)
	}
}

// TestWriteFails lets the file system refuse in the middle of the data.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "old")
	self := exec.Command(os.Args[0])
	self.Env = append(os.Environ(), child+"=limit "+filepath.Join(dir, "a"))
	if out, err := self.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("writers did not fail as they should: %v\n%s", err, out)
	}
	unharmed(t, dir)
}

// TestDiskFull fills a file system of its own.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := tmpfs(t, "size=16k")
	if err := Takes(dir); !errors.Is(err, syscall.ENOSPC) || Takes(t.TempDir()) != nil {
		t.Errorf("of a file system with hardly any room: %v; of another: %v", err, Takes(t.TempDir()))
	}
	write(t, filepath.Join(dir, "a"), "old")
	for name, err := range attempts(filepath.Join(dir, "a"), bytes.Repeat([]byte("x"), 32<<10)) {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v, want ENOSPC", name, err)
		}
	}
	unharmed(t, dir)
}

// TestReadOnly refuses at the first step.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "old")
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700) })
	if os.WriteFile(filepath.Join(dir, "probe"), nil, 0o600) == nil {
		// Modes do not stop root.
		os.Remove(filepath.Join(dir, "probe"))
		dir = tmpfs(t, "size=16k")
		write(t, filepath.Join(dir, "a"), "old")
		readOnly(t, dir)
		if err := Takes(dir); !errors.Is(err, syscall.EROFS) {
			t.Errorf("of one that is mounted read-only: %v", err)
		}
	}
	for name, err := range attempts(filepath.Join(dir, "a"), []byte("x")) {
		if !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	if err := MkdirAll(filepath.Join(dir, "new")); err == nil {
		t.Error("MkdirAll gave no error")
	}
	if err := Move(filepath.Join(dir, "a"), filepath.Join(dir, "b")); err == nil {
		t.Error("Move gave no error")
	}
	unharmed(t, dir)
}
