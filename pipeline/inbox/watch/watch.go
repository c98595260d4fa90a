// Package watch reports that something may have happened in some directories.
//
// Events are hints: the receiver looks for itself. The package rather reports too
// much than too little. If events were lost, a directory came back, or the kernel
// allows no more watches, it says "look now".
//
// It watches directories, not files: a file that is replaced takes its watch with
// it. It also watches each directory's parent, to notice at once when a directory
// is removed and made again: the kernel then drops the watch silently (fsnotify
// issue 279).
//
// If a watch is refused (fs.inotify.max_user_watches or max_user_instances on
// Linux, the number of open files on macOS), the package says "look now" every ten
// seconds, and tries again to get the watch.
package watch

import (
	"cmp"
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

// rewatchEvery is how often the watches are compared with what the names lead to.
const rewatchEvery = time.Second

// pollEvery is how often the receiver is told to look while a watch is refused.
const pollEvery = 10 * time.Second

// probePrefix begins the names of files that Probe makes. They are temporary
// files: one that is left behind is cleared away like any other.
const probePrefix = durable.TempPrefix + "probe-"

// Watcher watches directories. It reports nothing unless Run is running.
type Watcher struct {
	dirs    []string
	match   func(name string) bool
	changed chan struct{}
	probed  chan string
	stands  chan struct{}

	mu        sync.Mutex // guards what follows, between Run and Stats
	overflows int
	degraded  string

	// Owned by Run.
	backend *fsnotify.Watcher // nil if the kernel allows none
	errs    chan error        // the backend's errors, which never wait for us
	parents []string          // of dirs
	watched map[string]place  // of dirs and parents, those that were there

	// Tests replace them: by a kernel that refuses, and by less time.
	open      func() (*fsnotify.Watcher, error)
	add       func(backend *fsnotify.Watcher, dir string) error
	pollEvery time.Duration
}

// place is what stood behind a name.
type place struct {
	info   fs.FileInfo
	listed bool // the backend listed the watch once it stood
}

// Stats says how watching has gone.
type Stats struct {
	Overflows int    // how often the kernel's queue ran over
	Degraded  string // why directories are not watched, with what to do; "" if all are
}

// New returns a watcher of the given directories, which need not exist. It ignores
// files whose name does not match.
func New(match func(name string) bool, dirs ...string) *Watcher {
	w := &Watcher{
		match:   match,
		changed: make(chan struct{}, 1),
		probed:  make(chan string, 2*len(dirs)),
		stands:  make(chan struct{}),
		errs:    make(chan error, 1),
		watched: map[string]place{},
		open:    fsnotify.NewWatcher,
		add:     (*fsnotify.Watcher).Add,

		pollEvery: pollEvery,
	}
	for _, dir := range dirs {
		dir = filepath.Clean(dir) // as the names in events are
		w.dirs = append(w.dirs, dir)
		if parent := filepath.Dir(dir); !slices.Contains(w.parents, parent) {
			w.parents = append(w.parents, parent)
		}
	}
	return w
}

// Changed delivers a value when something may have happened since the last one was
// received. Many events are one value.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Probed delivers the directories in which the event of a probe was seen.
func (w *Watcher) Probed() <-chan string { return w.probed }

// Stands is closed once Run watches what there was to watch: it sees a probe that is made
// after that.
func (w *Watcher) Stands() <-chan struct{} { return w.stands }

// Stats returns how watching has gone so far.
func (w *Watcher) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Stats{Overflows: w.overflows, Degraded: w.degraded}
}

// Run watches until ctx ends, and returns nil then. It runs once.
func (w *Watcher) Run(ctx context.Context) error {
	defer func() {
		if w.backend != nil {
			w.backend.Close()
		}
	}()
	w.rewatch(false)
	w.hint() // what came before the watch stood
	close(w.stands)
	tick := time.Tick(rewatchEvery)
	poll := time.Tick(w.pollEvery)
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev := <-w.events():
			w.handle(ev)
		case <-w.errs:
			// Whatever it was, events may be missing, also those that tell
			// that a watch has ended.
			w.rewatch(true)
			w.hint()
		case <-tick:
			w.rewatch(false)
		case <-poll:
			if w.Stats().Degraded != "" {
				w.hint()
			}
		}
	}
}

// events is nil, and thus never ready, if there is no backend.
func (w *Watcher) events() chan fsnotify.Event {
	if w.backend == nil {
		return nil
	}
	return w.backend.Events
}

func (w *Watcher) handle(ev fsnotify.Event) {
	name := filepath.Base(ev.Name)
	switch {
	case slices.Contains(w.dirs, ev.Name), slices.Contains(w.parents, ev.Name):
		// A directory itself came, went or was replaced. The one that has its
		// name now may even have its inode: only a new watch is sure to work.
		if ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename) || ev.Has(fsnotify.Create) {
			w.rewatch(true)
			w.hint()
		}
	case strings.HasPrefix(name, probePrefix):
		if ev.Has(fsnotify.Create) {
			os.Remove(ev.Name)
			w.tellProbed(filepath.Dir(ev.Name))
		}
	case !w.match(name), !slices.Contains(w.dirs, filepath.Dir(ev.Name)):
	case ev.Has(fsnotify.Create) || ev.Has(fsnotify.Write):
		w.hint()
	}
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

// begin opens the backend.
func (w *Watcher) begin() error {
	backend, err := w.open()
	if err != nil {
		return err
	}
	w.backend = backend
	// The backend may report an error with its lock held, which we need to
	// watch anew. So the error is taken from it at once; one that waits for us
	// already speaks for those that follow.
	go func() {
		for err := range backend.Errors {
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				w.mu.Lock()
				w.overflows++
				w.mu.Unlock()
			}
			select {
			case w.errs <- err:
			default:
			}
		}
	}()
	return nil
}

// rewatch watches each directory and parent that exists, as the directory that its
// name leads to now. If anew, watches that seem to stand are renewed as well.
func (w *Watcher) rewatch(anew bool) {
	var refused error
	if w.backend == nil {
		refused = w.begin()
	}
	if w.backend != nil {
		alive := w.backend.WatchList()
		for _, path := range slices.Concat(w.parents, w.dirs) {
			info, err := os.Stat(path)
			old, known := w.watched[path]
			same := known && err == nil && os.SameFile(old.info, info)
			if old.listed && !slices.Contains(alive, path) {
				same = false // the kernel dropped the watch: the inode was given out again
			}
			if same && !anew {
				continue
			}
			if known {
				delete(w.watched, path)
				w.backend.Remove(path) // the kernel may have dropped it already
			}
			if err == nil {
				refused = cmp.Or(w.watch(path, info), refused)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.degraded = explain(refused)
}

// watch begins to watch a directory, and then says "look now": nobody was told of
// what came into it before.
func (w *Watcher) watch(path string, info fs.FileInfo) error {
	err := w.add(w.backend, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it went at this moment
	}
	if err != nil {
		return err
	}
	w.watched[path] = place{info, slices.Contains(w.backend.WatchList(), path)}
	if slices.Contains(w.dirs, path) {
		w.hint()
	}
	return nil
}

// explain names the limit behind an error: Linux says "no space left on device"
// and means its own watches.
func explain(err error) string {
	switch {
	case err == nil:
		return ""
	case runtime.GOOS == "linux" && errors.Is(err, syscall.ENOSPC):
		return "the kernel's limit of file watches is reached; looking every 10 s instead (raise fs.inotify.max_user_watches)"
	case runtime.GOOS == "linux" && errors.Is(err, syscall.EMFILE):
		return "the kernel's limit of watch instances is reached; looking every 10 s instead (raise fs.inotify.max_user_instances)"
	case errors.Is(err, syscall.EMFILE):
		return "too many open files; looking every 10 s instead (raise the limit with ulimit -n)"
	}
	return fmt.Sprintf("cannot watch: %v; looking every 10 s instead", err)
}

// Probe makes a file in each directory that exists. Run sees its event and reports
// it through Probed. Probe returns how many it made.
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
