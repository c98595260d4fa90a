package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"otm/internal/leak"
)

// A watcher has three goroutines: none may outlive the tests.
func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// patience bounds how late a failure is told; nothing is measured by it.
const patience = 30 * time.Second

func isJSON(name string) bool {
	return strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, ".")
}

// start runs a watcher until the test ends.
func start(t *testing.T, w *Watcher) *Watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return w
}

// until calls ok, each time that something may have changed, until it is true.
func until(t *testing.T, w *Watcher, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(patience)
	for !ok() {
		select {
		case <-w.Changed():
		case <-timeout:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// hears waits until the watcher sees events in a directory.
func hears(t *testing.T, w *Watcher, dir string) {
	t.Helper()
	timeout := time.After(patience)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		w.Probe() // one that came before the watch stood is never seen
		select {
		case got := <-w.Probed():
			if got == filepath.Clean(dir) {
				return
			}
		case <-again.C:
		case <-timeout:
			t.Fatalf("no probe was seen in %q: %+v", dir, w.Stats())
		}
	}
}

// seen waits until the events of everything that was done in dir were handled:
// that of a probe comes after them.
func seen(t *testing.T, w *Watcher, dir string) {
	t.Helper()
	for len(w.Probed()) > 0 {
		<-w.Probed()
	}
	hears(t, w, dir)
}

func mkdir(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestCaseB1RenamedIntoTheDirectory renames 100 files into the inbox, and one
// over a name that is there.
func TestCaseB1RenamedIntoTheDirectory(t *testing.T) {
	t.Parallel()
	dir, elsewhere := mkdir(t, filepath.Join(t.TempDir(), "in box")), t.TempDir()
	w := start(t, New(isJSON, dir))
	hears(t, w, dir)
	for i := range 100 {
		name := fmt.Sprintf("%02d.json", i)
		write(t, filepath.Join(elsewhere, name), "first")
		rename(t, filepath.Join(elsewhere, name), filepath.Join(dir, name))
	}
	until(t, w, "100 files", func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
		return len(files) == 100
	})
	seen(t, w, dir)
	for len(w.Changed()) > 0 {
		<-w.Changed()
	}
	write(t, filepath.Join(elsewhere, "50.json"), "final")
	rename(t, filepath.Join(elsewhere, "50.json"), filepath.Join(dir, "50.json"))
	select {
	case <-w.Changed():
	case <-time.After(patience):
		t.Fatal("a rename over a name that was there was not told")
	}
	if data, err := os.ReadFile(filepath.Join(dir, "50.json")); string(data) != "final" || err != nil {
		t.Errorf("50.json holds %q, %v", data, err)
	}
}

// TestTells lists what happens in a directory, and whether it is told.
func TestTells(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	tests := []struct {
		name string
		do   func(t *testing.T, dir string)
		want bool
	}{
		{"created", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "new.json"), "") }, true},
		{"written in place", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "old.json"), "more") }, true},
		{"linked", func(t *testing.T, dir string) {
			if err := os.Link(filepath.Join(dir, "old.json"), filepath.Join(dir, "link.json")); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"renamed", func(t *testing.T, dir string) {
			rename(t, filepath.Join(dir, "old.json"), filepath.Join(dir, "moved.json"))
		}, true},
		{"directory of that name", func(t *testing.T, dir string) { mkdir(t, filepath.Join(dir, "dir.json")) }, true},
		{"dropping", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "new.json.swp"), "") }, false},
		{"hidden", func(t *testing.T, dir string) { write(t, filepath.Join(dir, ".new.json"), "") }, false},
		{"removed", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "old.json")) }, false},
		{"mode changed", func(t *testing.T, dir string) { os.Chmod(filepath.Join(dir, "old.json"), 0o640) }, false},
		{"file beside the directory", func(t *testing.T, dir string) { write(t, filepath.Join(filepath.Dir(dir), "x.json"), "") }, false},
		{"nothing", func(*testing.T, string) {}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := mkdir(t, filepath.Join(base, tt.name, "inbox"))
			write(t, filepath.Join(dir, "old.json"), "")
			w := start(t, New(isJSON, dir))
			<-w.Stands()  // no probe is on its way, whose event seen would take for that of its own
			<-w.Changed() // what came before the watch stood
			tt.do(t, dir)
			seen(t, w, dir)
			if got := len(w.Changed()) > 0; got != tt.want {
				t.Errorf("told: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestTellsAtStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "x.json"), "")
	w := start(t, New(isJSON, dir))
	select {
	case <-w.Changed():
	case <-time.After(patience):
		t.Fatal("what was there before the watch stood was not told")
	}
}

// TestCaseB5RemovedAndMadeAgain removes the inbox and makes it again at once,
// many times: file systems like to give the new directory the old inode.
func TestCaseB5RemovedAndMadeAgain(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dirs := []string{mkdir(t, filepath.Join(base, "new-tasks")), mkdir(t, filepath.Join(base, "task-updates"))}
	w := start(t, New(isJSON, dirs...))
	for _, dir := range dirs {
		hears(t, w, dir)
	}
	for i := range 20 {
		dir := dirs[i%2]
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		mkdir(t, dir)
		name := filepath.Join(dir, fmt.Sprintf("%d.json", i))
		write(t, name, "")
		found := false
		until(t, w, name, func() bool {
			found = found || exists(name)
			return found
		})
		hears(t, w, dir)
	}
	if d := w.Stats().Degraded; d != "" {
		t.Errorf("Degraded = %q, want all to be watched", d)
	}
}

// TestCaseB5MadeAgainLater makes the inbox again after its loss was noticed.
func TestCaseB5MadeAgainLater(t *testing.T) {
	t.Parallel()
	dir := mkdir(t, filepath.Join(t.TempDir(), "inbox"))
	w := start(t, New(isJSON, dir))
	hears(t, w, dir)
	for len(w.Changed()) > 0 {
		<-w.Changed()
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	looks := 0
	until(t, w, "the loss to be noticed", func() bool {
		looks++
		return looks > 1
	})
	mkdir(t, dir)
	hears(t, w, dir)
}

// TestMovedAway renames the inbox away and makes another.
func TestMovedAway(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := mkdir(t, filepath.Join(base, "inbox"))
	w := start(t, New(isJSON, dir))
	hears(t, w, dir)
	for i := range 5 {
		rename(t, dir, filepath.Join(base, fmt.Sprintf("old-%d", i)))
		mkdir(t, dir)
		hears(t, w, dir)
	}
}

// TestParentReplaced takes away the data directory itself.
func TestParentReplaced(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "data")
	dir := mkdir(t, filepath.Join(parent, "inbox"))
	w := start(t, New(isJSON, dir))
	hears(t, w, dir)
	rename(t, parent, parent+".old")
	mkdir(t, dir)
	hears(t, w, dir)
	if err := os.RemoveAll(parent); err != nil {
		t.Fatal(err)
	}
	mkdir(t, dir)
	hears(t, w, dir)
	// The new parent is watched as well.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	mkdir(t, dir)
	hears(t, w, dir)
}

// TestDroppedWatch drops a watch behind the watcher's back, as the kernel does
// with that of a directory whose inode is given out again.
func TestDroppedWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := New(isJSON, dir)
	var backend *fsnotify.Watcher
	w.open = func() (*fsnotify.Watcher, error) {
		var err error
		backend, err = fsnotify.NewWatcher()
		return backend, err
	}
	start(t, w)
	hears(t, w, dir)
	if err := backend.Remove(dir); err != nil {
		t.Fatal(err)
	}
	hears(t, w, dir)
}

// TestCaseB7MissingParents starts where nothing is, and makes directories and a
// file in them in one go.
func TestCaseB7MissingParents(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "squads", "new", "inbox")
	w := start(t, New(isJSON, dir))
	<-w.Changed()
	mkdir(t, dir)
	write(t, filepath.Join(dir, "x.json"), "")
	until(t, w, "the file", func() bool { return exists(filepath.Join(dir, "x.json")) })
	hears(t, w, dir)
}

// TestCaseB8Symlinks watches an inbox that is a link, and turns the link to
// another directory.
func TestCaseB8Symlinks(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	one, two := mkdir(t, filepath.Join(base, "one")), mkdir(t, filepath.Join(base, "two"))
	link := filepath.Join(mkdir(t, filepath.Join(base, "data")), "inbox")
	if err := os.Symlink(one, link); err != nil {
		t.Fatal(err)
	}
	w := start(t, New(isJSON, link))
	hears(t, w, link)
	write(t, filepath.Join(one, "x.json"), "") // by its other name
	until(t, w, "the file", func() bool { return exists(filepath.Join(link, "x.json")) })
	if err := os.Symlink(two, link+".new"); err != nil {
		t.Fatal(err)
	}
	rename(t, link+".new", link)
	hears(t, w, link)
	write(t, filepath.Join(two, "y.json"), "")
	until(t, w, "the file in the other directory", func() bool { return exists(filepath.Join(link, "y.json")) })
}

func TestProbes(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	one, two := mkdir(t, filepath.Join(base, "one")), mkdir(t, filepath.Join(base, "two"))
	w := start(t, New(isJSON, one+"/", two, filepath.Join(base, "missing")))
	hears(t, w, one)
	hears(t, w, two)
	if n := w.Probe(); n != 2 {
		t.Errorf("Probe = %d, want 2", n)
	}
	seen(t, w, one)
	seen(t, w, two)
}

// TestProbesGo looks whether probes that were seen are cleared away.
func TestProbesGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := start(t, New(isJSON, dir))
	hears(t, w, dir)
	probes := func() []string {
		list, _ := filepath.Glob(filepath.Join(dir, probePrefix+"*"))
		return list
	}
	for _, p := range probes() {
		os.Remove(p) // those that came before the watch stood are seen by nobody
	}
	w.Probe()
	for end := time.Now().Add(patience); len(probes()) > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("probes are left: %q", probes())
		}
	}
}

func TestSeesAProbeOnceItStands(t *testing.T) {
	t.Parallel()
	dirs := []string{mkdir(t, filepath.Join(t.TempDir(), "a")), mkdir(t, filepath.Join(t.TempDir(), "b"))}
	w := start(t, New(isJSON, dirs...))
	<-w.Stands()
	w.Probe()
	got := []string{<-w.Probed(), <-w.Probed()}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(dirs))) {
		t.Errorf("one probe was seen in %q, want %q", got, dirs)
	}
}

func TestNewLeavesItsArguments(t *testing.T) {
	t.Parallel()
	dirs := []string{"/a/b/", "/a//c"}
	New(isJSON, dirs...)
	if dirs[0] != "/a/b/" || dirs[1] != "/a//c" {
		t.Errorf("New changed its caller's names to %q", dirs)
	}
}

// TestCaseB2OverflowIsTold hands the watcher the error of a queue that ran over.
func TestCaseB2OverflowIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := New(isJSON, dir)
	var backend *fsnotify.Watcher
	w.open = func() (*fsnotify.Watcher, error) {
		var err error
		backend, err = fsnotify.NewWatcher()
		return backend, err
	}
	start(t, w)
	hears(t, w, dir)
	for len(w.Changed()) > 0 {
		<-w.Changed()
	}
	backend.Errors <- fsnotify.ErrEventOverflow
	select {
	case <-w.Changed():
	case <-time.After(patience):
		t.Fatal("an overflow was not told")
	}
	if n := w.Stats().Overflows; n != 1 {
		t.Errorf("Overflows = %d, want 1", n)
	}
	hears(t, w, dir)
}

// stalled is a watcher that handles no event until release is called.
func stalled(t *testing.T, dir string) (w *Watcher, release func()) {
	t.Helper()
	gate, stuck := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w = start(t, New(func(name string) bool {
		if name == "gate.json" {
			once.Do(func() { close(stuck) })
			<-gate
		}
		return isJSON(name)
	}, dir))
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release) // before Run is waited for
	hears(t, w, dir)
	write(t, filepath.Join(dir, "gate.json"), "")
	<-stuck
	return w, release
}

// TestCaseB2RealOverflow stops the watcher, fills the kernel's queue beyond its
// end, and lets it go on.
func TestCaseB2RealOverflow(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	var limit int
	if _, serr := fmt.Sscan(string(data), &limit); err != nil || serr != nil || limit > 50_000 {
		t.Skipf("needs inotify with a queue that can be filled: limit %d, %v", limit, err)
	}
	dir := t.TempDir()
	w, release := stalled(t, dir)
	first := filepath.Join(dir, "gate.json")
	// The backend has taken some events out of the queue before it stopped.
	for i := range limit + 6000 {
		if err := os.Link(first, filepath.Join(dir, fmt.Sprintf("%05d.json", i))); err != nil {
			t.Fatal(err)
		}
	}
	release()
	until(t, w, "the overflow to be told", func() bool { return w.Stats().Overflows > 0 })
	hears(t, w, dir)
}

// TestBackendErrorUnderItsLock moves the inbox away and removes it before the
// watcher gets to the first of these events. The backend then reports an error
// while it holds the lock that watching anew needs.
func TestBackendErrorUnderItsLock(t *testing.T) {
	t.Parallel()
	dir, elsewhere := mkdir(t, filepath.Join(t.TempDir(), "inbox")), t.TempDir()
	w, release := stalled(t, dir)
	rename(t, dir, filepath.Join(elsewhere, "away"))
	if err := os.RemoveAll(filepath.Join(elsewhere, "away")); err != nil {
		t.Fatal(err)
	}
	mkdir(t, dir)
	release()
	hears(t, w, dir)
}

// TestCaseB10WatchLimits has the kernel refuse: the message names the setting,
// and the receiver is told to look again and again.
func TestCaseB10WatchLimits(t *testing.T) {
	t.Parallel()
	refuse := func(err error) func(*fsnotify.Watcher, string) error {
		return func(*fsnotify.Watcher, string) error { return &os.PathError{Op: "inotify_add_watch", Err: err} }
	}
	tests := []struct {
		name   string
		break_ func(*Watcher)
		want   string
	}{
		{"no more watches", func(w *Watcher) { w.add = refuse(syscall.ENOSPC) }, "fs.inotify.max_user_watches"},
		{"no more instances", func(w *Watcher) {
			w.open = func() (*fsnotify.Watcher, error) { return nil, syscall.EMFILE }
		}, "fs.inotify.max_user_instances"},
		{"something else", func(w *Watcher) { w.add = refuse(syscall.EACCES) }, "permission denied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w := New(isJSON, dir)
			tt.break_(w)
			w.pollEvery = time.Millisecond
			start(t, w)
			<-w.Changed() // it has begun
			if got := w.Stats().Degraded; !strings.Contains(got, "looking every 10 s instead") || runtime.GOOS == "linux" && !strings.Contains(got, tt.want) {
				t.Errorf("Degraded = %q, want it to name %s", got, tt.want)
			}
			for range 3 {
				select {
				case <-w.Changed():
				case <-time.After(patience):
					t.Fatal("nobody was told to look")
				}
			}
		})
	}
}

// TestRetry lifts the limit: the watches are taken up, and nothing is said to
// be degraded any more.
func TestRetry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := New(isJSON, dir, filepath.Join(dir, "sub", "missing"))
	open, add := w.open, w.add
	w.open = func() (*fsnotify.Watcher, error) { return nil, syscall.EMFILE }
	w.add = func(*fsnotify.Watcher, string) error { return syscall.ENOSPC }
	for step, want := range []string{"max_user_instances", "max_user_watches", ""} {
		switch step {
		case 1:
			w.open = open
			defer func() { w.backend.Close() }()
		case 2:
			w.add = add
		}
		w.rewatch(false)
		got := w.Stats().Degraded
		if runtime.GOOS == "linux" && !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("step %d: Degraded = %q, want %q", step, got, want)
		}
		if watched := len(w.Changed()) > 0; watched != (want == "") {
			t.Errorf("step %d: it said \"look now\": %t", step, watched)
		}
	}
	<-w.Changed()
	if w.rewatch(false); len(w.Changed()) > 0 {
		t.Error("what stands was watched anew")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := New(isJSON, t.TempDir()).Run(ctx); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	if got := explain(errors.New("odd")); got != "cannot watch: odd; looking every 10 s instead" {
		t.Errorf("explain = %q", got)
	}
}
