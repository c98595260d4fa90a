// Package heartbeat is how the daemons say that they are alive, and how
// readers judge it.
//
// Each component has one file, otm-<component>-state.json, which it replaces at
// the end of each run, also of one that failed, and once a minute during a run
// that takes longer, as long as the run gets on. A component that hangs stops
// beating; so does one that was never started. All readers use Judge.
//
// The file is replaced in one step but not synced: after a power failure it is
// as good as old.
package heartbeat

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"otm/internal/durable"
)

// The ids of the components.
const (
	Injector   = "otm-injector"
	Dispatcher = "otm-dispatcher"
	Detector   = "otm-completion-detector"
	Watcher    = "otm-watcher"
)

// Components lists them in the order in which people read them.
var Components = []string{Watcher, Injector, Dispatcher, Detector}

// Result is how a run went.
type Result string

// The results of a run.
const (
	Success Result = "success"
	Partial Result = "partial" // something failed, the rest was done
	Error   Result = "error"   // the run could not do its work
)

// Beat is what stands in a heartbeat file.
type Beat struct {
	ID           string    `json:"id"`
	Status       string    `json:"status"` // always "alive"; how alive, Judge tells
	LastRun      time.Time `json:"lastRun"`
	Result       Result    `json:"result"`
	Details      string    `json:"details"`
	PID          int       `json:"pid"`
	Version      string    `json:"version"`
	Sequence     int       `json:"sequence"` // counts the beats of a component
	LastProgress time.Time `json:"lastProgress"`
	Host         string    `json:"host"`
}

type file struct {
	Component *Beat `json:"component"`
}

// Path is where the heartbeat of a component stands in a data directory.
func Path(dir, id string) string { return filepath.Join(dir, id+"-state.json") }

// Read reads a heartbeat. The error matches fs.ErrNotExist where there is none,
// also where the file is damaged.
func Read(dir, id string) (*Beat, error) {
	data, err := durable.ReadFile(Path(dir, id))
	if err != nil && !errors.Is(err, durable.ErrNoFile) {
		return nil, err
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil || f.Component == nil {
		return nil, &fs.PathError{Op: "read", Path: Path(dir, id), Err: fs.ErrNotExist}
	}
	return f.Component, nil
}

// State is what a reader makes of a heartbeat.
type State string

// The states of a component.
const (
	Green        State = "green"         // ran less than 5 minutes ago
	Yellow       State = "yellow"        // 5 to 15 minutes ago
	Red          State = "red"           // longer ago
	ClockError   State = "clock error"   // in the future
	NotInstalled State = "not installed" // never
)

// The limits come from the specification, System 5.
const (
	yellowAfter = 5 * time.Minute
	redAfter    = 15 * time.Minute
	// clockSlack is how far ahead a time may be: whole seconds are written.
	clockSlack = 2 * time.Second
)

// Judge says how alive a component is. A nil beat is one that was never
// written.
func Judge(b *Beat, now time.Time) State {
	if b == nil {
		return NotInstalled
	}
	switch age := now.Sub(b.LastRun); {
	case age < -clockSlack:
		return ClockError
	case age < yellowAfter:
		return Green
	case age <= redAfter:
		return Yellow
	}
	return Red
}

// maxDetails bounds the details, in bytes.
const maxDetails = 2000

// longRun is how often a run that takes long beats.
const longRun = time.Minute

// Writer writes the heartbeat of one component. It is safe for use by several
// goroutines.
type Writer struct {
	dir, id, version string
	now              func() time.Time

	mu       sync.Mutex // guards what follows
	sequence int
	progress time.Time // of the run that is under way
	beaten   time.Time // the progress that the last beat told of
	last     Beat
}

// NewWriter returns the writer of a component's heartbeat. Its sequence goes
// on where the file stands.
func NewWriter(dir, id, version string, now func() time.Time) *Writer {
	w := &Writer{dir: dir, id: id, version: version, now: now}
	if b, err := Read(dir, id); err == nil {
		w.sequence, w.last = b.Sequence, *b
	}
	return w
}

// Run begins a run. The returned function ends it and beats, unless the result
// is ""; until then, Progress has to be called for the run to count as getting
// on.
func (w *Writer) Run() (end func(Result, string) error) {
	w.Progress()
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(longRun)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				w.during()
			}
		}
	}()
	return func(r Result, details string) error {
		close(stop)
		<-done
		if r == "" {
			return nil
		}
		w.Progress()
		return w.Beat(r, details)
	}
}

// Progress says that the run under way gets on.
func (w *Writer) Progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = w.now()
}

// during beats for a run that takes long, if it has got on since the last time.
func (w *Writer) during() {
	w.mu.Lock()
	moved := w.progress.After(w.beaten)
	result := w.last.Result
	w.mu.Unlock()
	if !moved {
		return
	}
	if result == "" {
		result = Success
	}
	w.Beat(result, "running") // the next beat tells if this one could not be written
}

// Beat writes the heartbeat.
func (w *Writer) Beat(r Result, details string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(details) > maxDetails {
		details = strings.ToValidUTF8(details[:maxDetails], "") + "…"
	}
	if b, err := Read(w.dir, w.id); err == nil && b.Sequence > w.sequence {
		w.sequence = b.Sequence // a single run beside us has beaten
	}
	w.sequence++
	if w.progress.IsZero() {
		w.progress = w.now()
	}
	w.beaten = w.progress
	host, _ := os.Hostname()
	w.last = Beat{
		ID: w.id, Status: "alive", LastRun: stamp(w.now()), Result: r, Details: details, PID: os.Getpid(),
		Version: w.version, Sequence: w.sequence, LastProgress: stamp(w.progress), Host: host,
	}
	data, err := json.Marshal(file{&w.last})
	if err != nil {
		return err
	}
	err = durable.ReplaceVolatile(Path(w.dir, w.id), append(data, '\n'))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the directory is gone: somebody else says so
	}
	return err
}

func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
