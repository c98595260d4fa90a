// Package launchd renders the property lists under which OTM runs on macOS.
//
// launchd cannot give up on a job and cannot tell exit codes apart: with
// KeepAlive it starts again whatever failed, for ever. The residents are
// therefore told that they run under it (OTM_SUPERVISOR), and end with 0 where
// a restart would mend nothing; what is kept alive is what did not succeed.
package launchd

import (
	"bytes"
	_ "embed"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"
)

//go:embed job.plist.tmpl
var source string

var job = template.Must(template.New("").Funcs(template.FuncMap{"string": stringElement}).Parse(source))

// SupervisorEnv is the environment variable that tells a resident what runs it,
// and Supervisor its value.
const (
	SupervisorEnv = "OTM_SUPERVISOR"
	Supervisor    = "launchd"
)

// Config is what jobs are rendered for. All paths are absolute.
type Config struct {
	Marker string // one line without "--", by which the files are known again
	Sum    string // of the configuration: residents whose job has another one are started again
	Dir    string // the data directory
	LogDir string // where the logs go
	SetLog bool   // they do not go there by themselves
	Bin    string // the folder of the programs
	Home   string // of the user that they run as
	Path   string // the PATH of agents that the dispatcher starts; "": none is needed
	// User and Group are those of daemons; "": a user's agents.
	User, Group string

	Timers bool // runs by the clock, instead of residents
	Board  bool // the embedded board is needed
	Exec   bool // the dispatcher starts agents
}

// Job is one property list.
type Job struct {
	Label string
	Text  []byte
}

// File is the name of the job's file.
func (j Job) File() string { return j.Label + ".plist" }

// The labels. But for the board they are those of the specification.
const (
	LabelBoard      = "ai.openclaw.otm-board"
	LabelWatcher    = "ai.openclaw.otm-watcher"
	LabelSweeper    = "ai.openclaw.otm-sweeper"
	LabelDispatcher = "ai.openclaw.otm-dispatcher"
	LabelDetector   = "ai.openclaw.otm-completion-detector"
)

// Labels are all that Jobs ever returns: what may be left of an earlier
// installation.
var Labels = []string{LabelBoard, LabelWatcher, LabelSweeper, LabelDispatcher, LabelDetector}

// entry is what the template is executed with.
type entry struct {
	Config
	Label   string
	Command []string // the program, by its name in Bin, and arguments
	Log     string   // the name of its log
	Once    bool
	Every   int // seconds; 0: not by the clock
	Watches []string
	Starts  bool // it starts agents
	Serves  bool // it is the board
}

// Program is the command with its absolute path.
func (e entry) Program() []string {
	return append([]string{filepath.Join(e.Bin, e.Command[0])}, e.Command[1:]...)
}

// ErrLog is where launchd writes what the program prints on stderr. A resident
// rotates its own log, and launchd would go on writing into the file that was
// rotated away: it gets another.
func (e entry) ErrLog() string {
	if e.Once {
		return filepath.Join(e.LogDir, e.Log+".log")
	}
	return filepath.Join(e.LogDir, e.Log+".stderr.log")
}

// OutLog is the same for stdout. The board prints the address that opens its
// page, which belongs into no log.
func (e entry) OutLog() string {
	if e.Serves {
		return "/dev/null"
	}
	return e.ErrLog()
}

// Jobs renders the property lists. The error says which path none can hold.
func Jobs(c Config) ([]Job, error) {
	for _, path := range []string{c.Dir, c.LogDir, c.Bin, c.Home, c.Path} {
		if !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) {
			return nil, fmt.Errorf("%q cannot stand in a property list: it holds control characters, or is no UTF-8", path)
		}
	}
	const twoMinutes, tenMinutes = 120, 600
	var entries []entry
	if c.Board {
		entries = append(entries, entry{Label: LabelBoard, Command: []string{"otm", "board"}, Log: "otm-board", Serves: true})
	}
	if c.Timers {
		inboxes := []string{filepath.Join(c.Dir, "new-tasks"), filepath.Join(c.Dir, "task-updates")}
		entries = append(entries,
			entry{Label: LabelWatcher, Command: []string{"otm-injector", "--once"}, Log: "otm-watcher", Once: true, Watches: inboxes},
			entry{Label: LabelSweeper, Command: []string{"otm-injector", "--once"}, Log: "otm-injector", Once: true, Every: tenMinutes},
			entry{Label: LabelDispatcher, Command: []string{"otm-dispatcher", "--once"}, Log: "otm-dispatcher", Once: true, Every: twoMinutes, Starts: c.Exec},
			entry{Label: LabelDetector, Command: []string{"otm-completion-detector", "--once"}, Log: "otm-completion-detector", Once: true, Every: twoMinutes})
	} else {
		entries = append(entries,
			entry{Label: LabelWatcher, Command: []string{"otm-injector"}, Log: "otm-injector"}, // it watches, and sweeps
			entry{Label: LabelDispatcher, Command: []string{"otm-dispatcher", "--every", "2m"}, Log: "otm-dispatcher", Starts: c.Exec},
			entry{Label: LabelDetector, Command: []string{"otm-completion-detector", "--every", "2m"}, Log: "otm-completion-detector"})
	}
	jobs := make([]Job, 0, len(entries))
	for _, e := range entries {
		e.Config = c
		var text bytes.Buffer
		if err := job.Execute(&text, e); err != nil {
			return nil, err
		}
		jobs = append(jobs, Job{Label: e.Label, Text: text.Bytes()})
	}
	return jobs, nil
}

// stringElement is a value as a string element.
func stringElement(s string) (string, error) {
	var b strings.Builder
	b.WriteString("<string>")
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "", err
	}
	b.WriteString("</string>")
	return b.String(), nil
}
