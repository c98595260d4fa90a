// Package watch tells that something may have happened in some directories.
//
// Events hint, they decide nothing: whoever is told looks for himself. The
// package therefore reports too much rather than too little. Where events were
// lost, where a directory was missing and came back, and where the kernel
// allows no more watches, it says "look now".
//
// Directories are watched, not files, as files that are replaced take their
// watch with them. Each directory's parent is watched too, so that a directory
// that is removed and made again is noticed at once; the kernel drops the
// watch silently then (fsnotify issue 279).
//
// Where a watch is refused (fs.inotify.max_user_watches or
// max_user_instances on Linux, the number of open files on macOS), the
// directory is polled instead: once a second its change time is looked at.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"otm/internal/durable"
)

// pollEvery is how often a directory that cannot be watched is looked at, and
// how often missing watches are tried again.
const pollEvery = time.Second

// probePrefix begins the names of files that Probe makes: temporary files, so
// that one that is left behind is cleared away like any other.
const probePrefix = durable.TempPrefix + "probe-"

// Watcher watches directories. Run must be running for it to tell anything.
type Watcher struct {
	dirs    []string
	match   func(name string) bool
	changed chan struct{}
	probed  chan string

	mu        sync.Mutex // guards what follows, between Run and Stats
	overflows int
	degraded  string
	lost      int

	backend *fsnotify.Watcher // nil where the kernel allows none
	watched map[string]fs.FileInfo
	polled  map[string]time.Time
}

// Stats says how watching has gone.
type Stats struct {
	Overflows int    // how often the kernel's queue ran over
	Lost      int    // how often a directory vanished or was replaced
	Degraded  string // why directories are polled, with what to do; "" where all are watched
}

// New returns a watcher of the given directories, which need not exist. What
// happens to files whose name does not match is passed over.
func New(match func(name string) bool, dirs ...string) *Watcher {
	for i, dir := range dirs {
		dirs[i] = filepath.Clean(dir) // as the names in events are
	}
	return &Watcher{
		dirs:    dirs,
		match:   match,
		changed: make(chan struct{}, 1),
		probed:  make(chan string, 2*len(dirs)),
		watched: map[string]fs.FileInfo{},
		polled:  map[string]time.Time{},
	}
}

// Changed delivers a value when something may have happened since the last one
// was received: many events are one value.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Probed delivers the directories in which the event of a probe was seen.
func (w *Watcher) Probed() <-chan string { return w.probed }

// Stats returns how watching has gone so far.
func (w *Watcher) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Stats{Overflows: w.overflows, Lost: w.lost, Degraded: w.degraded}
}

// Run watches until ctx ends, and returns nil then.
func (w *Watcher) Run(ctx context.Context) error {
	backend, err := fsnotify.NewWatcher()
	if err != nil {
		w.degrade(err)
	} else {
		defer backend.Close()
		w.backend = backend
	}
	w.rewatch()
	w.hint() // what came before the watch stood
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev := <-w.events():
			w.handle(ev)
		case err := <-w.errors():
			w.handleError(err)
		case <-tick.C:
			w.rewatch()
			w.poll()
		}
	}
}

// events is nil, and thus never ready, where there is no backend.
func (w *Watcher) events() chan fsnotify.Event {
	if w.backend == nil {
		return nil
	}
	return w.backend.Events
}

func (w *Watcher) errors() chan error {
	if w.backend == nil {
		return nil
	}
	return w.backend.Errors
}

func (w *Watcher) handle(ev fsnotify.Event) {
	name := filepath.Base(ev.Name)
	switch {
	case w.isWatchedDir(ev.Name):
		// The directory itself came, went or was replaced.
		if ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename) || ev.Has(fsnotify.Create) {
			w.rewatch()
			w.hint()
		}
	case strings.HasPrefix(name, probePrefix):
		if ev.Has(fsnotify.Create) {
			os.Remove(ev.Name)
			w.tellProbed(filepath.Dir(ev.Name))
		}
	case !w.match(name), !w.isWatchedDir(filepath.Dir(ev.Name)):
	case ev.Has(fsnotify.Create) || ev.Has(fsnotify.Write):
		w.hint()
	}
}

func (w *Watcher) isWatchedDir(path string) bool { return slices.Contains(w.dirs, path) }

func (w *Watcher) handleError(err error) {
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		w.mu.Lock()
		w.overflows++
		w.mu.Unlock()
	}
	w.hint() // whatever it was, events may be missing
}

func (w *Watcher) hint() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *Watcher) tellProbed(dir string) {
	select {
	case w.probed <- dir:
	default:
	}
}

// rewatch makes sure that each directory that exists is watched, as the
// directory that its name leads to now.
func (w *Watcher) rewatch() {
	for _, dir := range w.dirs {
		info, err := os.Stat(dir)
		old, known := w.watched[dir]
		if err != nil {
			if known {
				w.forget(dir)
			}
			w.watchParent(dir)
			continue
		}
		if known && os.SameFile(old, info) {
			continue
		}
		if known {
			w.forget(dir)
		}
		w.watchParent(dir)
		w.add(dir, info)
	}
}

// forget drops the watch of a directory that is not what it was.
func (w *Watcher) forget(dir string) {
	delete(w.watched, dir)
	delete(w.polled, dir)
	if w.backend != nil {
		w.backend.Remove(dir) // the kernel may have dropped it already
	}
	w.mu.Lock()
	w.lost++
	w.mu.Unlock()
}

func (w *Watcher) watchParent(dir string) {
	if w.backend == nil {
		return
	}
	if err := w.backend.Add(filepath.Dir(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.degrade(err)
	}
}

func (w *Watcher) add(dir string, info fs.FileInfo) {
	w.watched[dir] = info
	w.hint()
	if w.backend == nil {
		w.polled[dir] = info.ModTime()
		return
	}
	if err := w.backend.Add(dir); err != nil {
		w.polled[dir] = info.ModTime()
		w.degrade(err)
	}
}

// poll looks at the directories that are not watched.
func (w *Watcher) poll() {
	for dir, last := range w.polled {
		info, err := os.Stat(dir)
		if err != nil {
			continue
		}
		if !info.ModTime().Equal(last) {
			w.polled[dir] = info.ModTime()
			w.hint()
			w.findProbes(dir)
		}
	}
}

// findProbes answers for probes where no event can.
func (w *Watcher) findProbes(dir string) {
	probes, _ := filepath.Glob(filepath.Join(dir, probePrefix+"*"))
	for _, p := range probes {
		if os.Remove(p) == nil {
			w.tellProbed(dir)
		}
	}
}

func (w *Watcher) degrade(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.degraded = explain(err)
}

// explain names the limit behind an error: on Linux the kernel says "no space
// left on device" and means its own watches.
func explain(err error) string {
	switch {
	case runtime.GOOS == "linux" && errors.Is(err, syscall.ENOSPC):
		return "the kernel's limit of file watches is reached; polling instead (raise fs.inotify.max_user_watches)"
	case runtime.GOOS == "linux" && errors.Is(err, syscall.EMFILE):
		return "the kernel's limit of watch instances is reached; polling instead (raise fs.inotify.max_user_instances)"
	case errors.Is(err, syscall.EMFILE):
		return "too many open files; polling instead (raise the limit with ulimit -n)"
	}
	return fmt.Sprintf("cannot watch: %v; polling instead", err)
}

// Probe makes a file in each directory that exists, whose event Run then sees
// and reports through Probed. It returns how many it made.
func (w *Watcher) Probe() int {
	made := 0
	for _, dir := range w.dirs {
		f, err := os.CreateTemp(dir, probePrefix+"*")
		if err != nil {
			continue
		}
		f.Close()
		made++
	}
	return made
}
