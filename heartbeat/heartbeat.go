// Package heartbeat writes and reads the files by which components show that
// they are alive.
//
// Each component has one file, otm-<component>-state.json. It replaces the file
// at the end of each run, failed or not, and once a minute during a longer run
// that makes progress. A resident component whose runs succeed one after the other
// replaces it once a second. A component that hangs stops writing. All readers use Judge.
//
// The file is replaced in one step but not synced: after a power failure it may
// be old or damaged.
package heartbeat

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/safe"
)

// The ids of the components.
const (
	Injector   = "otm-injector"
	Dispatcher = "otm-dispatcher"
	Detector   = "otm-completion-detector"
	Watcher    = "otm-watcher"
)

// Monitor is the part of the dispatcher that looks for incidents. It beats after each look,
// and is no component of its own: otm watchdog reads its heartbeat.
const Monitor = "otm-monitor"

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
	Status       string    `json:"status"` // always "alive"; see Judge
	LastRun      time.Time `json:"lastRun"`
	Result       Result    `json:"result"`
	Details      string    `json:"details"`
	PID          int       `json:"pid"`
	Version      string    `json:"version"`
	Sequence     int       `json:"sequence"` // counts the beats of a component
	LastProgress time.Time `json:"lastProgress"`
	Host         string    `json:"host"`
	// Findings is what Details says, as data.
	Findings []explain.Finding `json:"findings,omitempty"`
	// Config is a sum of the otm.toml that the process read when it started; "": it
	// did not say.
	Config string `json:"config,omitempty"`
}

type file struct {
	Component *Beat `json:"component"`
}

// Path is where the heartbeat of a component stands in a data directory.
func Path(dir, id string) string { return filepath.Join(dir, id+"-state.json") }

// ErrDamaged says that a heartbeat file holds no heartbeat: the machine lost
// power, or somebody edited it. The component's next run replaces it.
var ErrDamaged = errors.New("the heartbeat is damaged")

// Read reads a heartbeat. The error matches fs.ErrNotExist if the component
// has never written one, and ErrDamaged if the file holds none.
func Read(dir, id string) (*Beat, error) {
	data, err := durable.ReadFile(Path(dir, id))
	if errors.Is(err, durable.ErrNoFile) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil || f.Component == nil {
		return nil, fmt.Errorf("%w: %s", ErrDamaged, Path(dir, id))
	}
	return f.Component, nil
}

// State is the age of a heartbeat in one word.
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

// Judge says how old a heartbeat is. A nil beat was never written.
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
	// Config is written into each heartbeat, see [Beat]. Set it before the first.
	Config string
	// Resident is for a process that stays, and calls Flush before it ends. Set it before
	// the first run.
	Resident bool

	dir, id, version string
	now              func() time.Time

	mu       sync.Mutex // guards what follows
	progress time.Time  // of the current run
	beaten   time.Time  // the progress at the last beat
	last     Beat
	written  time.Time // when last was written
	held     *outcome  // of the last run, if it waits for flush
	flush    *time.Timer
}

// outcome is how a run ended.
type outcome struct {
	at       time.Time
	result   Result
	details  string
	findings []explain.Finding
}

// NewWriter returns the writer of a component's heartbeat. It continues the
// sequence in the file.
func NewWriter(dir, id, version string, now func() time.Time) *Writer {
	w := &Writer{dir: dir, id: id, version: version, now: now}
	if b, err := Read(dir, id); err == nil { // else it is replaced
		w.last = *b
	}
	return w
}

// Run begins a run. The returned function ends it and writes the heartbeat,
// unless the report is nil. Until then Progress has to be called again and again,
// or the run counts as hanging.
func (w *Writer) Run() (end func(*Report) error) {
	w.Progress()
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.Tick(longRun)
		for {
			select {
			case <-stop:
				return
			case <-tick:
				w.during()
			}
		}
	}()
	return func(r *Report) error {
		close(stop)
		<-done
		if r == nil {
			return nil
		}
		w.Progress()
		return w.ended(outcome{w.now(), r.Result(), r.Details(), r.Findings()})
	}
}

// calm is how long the beat of a resident's run may wait that succeeded as the one before.
const calm = time.Second

// ended writes the heartbeat of a run, or has it wait for the end of the second: many runs
// in a row succeed, and only the last of them has to be told.
func (w *Writer) ended(o outcome) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ago := o.at.Sub(w.written).Abs()
	if !w.Resident || o.result != Success || w.last.Result != Success || ago >= calm {
		return w.write(o)
	}
	if w.held == nil {
		w.flush = time.AfterFunc(calm-ago, w.Flush)
	}
	w.held = &o
	return nil
}

// Flush writes the heartbeat of the last run if it still waits. If that fails, the next run
// says so.
func (w *Writer) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == nil {
		return
	}
	if b, err := Read(w.dir, w.id); err == nil && b != nil && b.PID != os.Getpid() {
		w.held = nil // another process ran since
		return
	}
	w.write(*w.held)
}

// Progress notes that the current run makes progress.
func (w *Writer) Progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = w.now()
}

// during writes the heartbeat of a long run, if it made progress since the last
// time.
func (w *Writer) during() {
	w.mu.Lock()
	moved := w.progress.After(w.beaten)
	result, findings := w.last.Result, w.last.Findings
	w.mu.Unlock()
	if !moved {
		return
	}
	w.Beat(cmp.Or(result, Success), "running", findings...) // if this fails, the next one says so
}

// Beat writes the heartbeat. findings say the same as details, as data.
func (w *Writer) Beat(r Result, details string, findings ...explain.Finding) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(outcome{w.now(), r, details, findings})
}

// write replaces the file. Details may hold words of the board, of a gateway or of an
// agent: what would move a cursor is escaped here, for all readers (C38).
func (w *Writer) write(o outcome) error {
	if w.held != nil {
		w.flush.Stop()
		w.held = nil
	}
	details := safe.Escape(o.details)
	if len(details) > maxDetails {
		details = strings.ToValidUTF8(details[:maxDetails], "") + "…"
	}
	sequence := w.last.Sequence
	if b, err := Read(w.dir, w.id); err == nil { // a run with --once beside us may have written
		sequence = max(sequence, b.Sequence)
	}
	if w.progress.IsZero() {
		w.progress = o.at
	}
	w.beaten = w.progress
	host, _ := os.Hostname()
	w.last = Beat{
		ID: w.id, Status: "alive", LastRun: stamp(o.at), Result: o.result, Details: details, PID: os.Getpid(),
		Version: w.version, Sequence: sequence + 1, LastProgress: stamp(w.progress), Host: host, Findings: o.findings,
		Config: w.Config,
	}
	data, err := json.Marshal(file{&w.last})
	if err != nil {
		return err
	}
	err = durable.ReplaceVolatile(Path(w.dir, w.id), append(data, '\n'))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the directory is gone: the component finds out by itself
	}
	if err == nil {
		w.written = w.now()
	}
	return err
}

func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
