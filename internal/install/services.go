package install

import (
	"bytes"
	"embed"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"

	"otm/heartbeat"
)

// setup is what the files of one installation are rendered from. All paths are
// absolute.
type setup struct {
	Options
	Sum          string // of otm.toml: with another sum, residents are restarted
	Owner, Group string // whom the system's services run as; unused with User
	Board        bool   // the embedded board is needed
	Exec         bool   // the dispatcher starts agents
	// LocalBoard and LocalGateway report that board and gateway are on this
	// machine.
	LocalBoard, LocalGateway bool
	Workspaces               []string // of agents: the dispatcher writes there
	Reads                    []string // files elsewhere that are read, such as tokens
}

// service is one thing that a manager runs for us.
type service struct {
	setup
	Unit      string   // its name for systemd
	Label     string   // its name for launchd
	About     string   // in a few words
	Argv      []string // a program of the folder Bin, and its arguments
	Component string   // the component that it keeps running; "": it makes single runs
	Minutes   int      // between single runs; 0: not by the clock
	Watches   bool     // makes single runs when something is dropped
	Serves    bool     // it is the board
	Starts    bool     // it starts agents
	Local     bool     // all that it talks to is on this machine
	Writes    []string // folders
}

// services lists what is to run. With timers, systemd has one unit that watches
// the inboxes and starts the sweeper; launchd has two jobs that sweep.
func (s setup) services() []service {
	once := func(program string) []string { return []string{program, "--once"} }
	stay := func(program string) []string { return []string{program, "--every", "2m"} }
	injector := service{Unit: heartbeat.Injector, Label: heartbeat.Watcher, About: "injector", Argv: []string{heartbeat.Injector}, Component: heartbeat.Injector, Local: s.LocalBoard}
	dispatcher := service{Unit: heartbeat.Dispatcher, About: "dispatcher", Argv: stay(heartbeat.Dispatcher), Component: heartbeat.Dispatcher,
		Starts: s.Exec, Local: s.LocalBoard && s.LocalGateway, Writes: s.Workspaces}
	detector := service{Unit: heartbeat.Detector, About: "completion detector", Argv: stay(heartbeat.Detector), Component: heartbeat.Detector, Local: s.LocalBoard}
	var all []service
	if s.Board {
		all = append(all, service{Unit: heartbeat.Board, About: "embedded board", Argv: []string{"otm", "board"}, Component: heartbeat.Board, Serves: true, Local: true})
	}
	if s.Timers {
		watcher, sweeper := injector, injector
		watcher.Unit, watcher.Watches, watcher.About = heartbeat.Watcher, true, "watch on the inboxes"
		sweeper.Unit, sweeper.Label, sweeper.Minutes, sweeper.About = "otm-sweeper", "otm-sweeper", 10, "one sweep of the inboxes"
		dispatcher.Minutes, detector.Minutes = 2, 2
		for _, v := range []service{sweeper, watcher, dispatcher, detector} {
			v.Component, v.Argv = "", once(v.Argv[0])
			all = append(all, v)
		}
	} else {
		all = append(all, injector, dispatcher, detector)
	}
	for i := range all {
		v := &all[i]
		v.setup, v.Writes = s, append([]string{s.Dir, s.LogDir}, v.Writes...)
		if v.Label == "" {
			v.Label = v.Unit
		}
		v.Label = "ai.openclaw." + v.Label
	}
	return all
}

// file is a file of a manager as it should be.
type file struct {
	Name      string
	Text      []byte
	Enable    bool   // it is to be enabled and started
	Component string // which it keeps running; "": none
}

//go:embed *.tmpl
var sources embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"program": program, "word": word, "rest": rest, "string": stringElement, "seconds": func(minutes int) int { return minutes * 60 },
}).ParseFS(sources, "*.tmpl"))

// files renders all files. The error names a path that no file can hold.
func (s setup) files() ([]file, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	var all []file
	for _, v := range s.services() {
		for _, f := range v.files() {
			var text bytes.Buffer
			if err := templates.ExecuteTemplate(&text, f.template, named{v, f.Name}); err != nil {
				return nil, err
			}
			f.Text = text.Bytes()
			all = append(all, f.file)
		}
	}
	return all, nil
}

// named is what a template is executed with.
type named struct {
	service
	Name string // of the file
}

// unrendered is a file with the template that makes its text.
type unrendered struct {
	file
	template string
}

// files lists the files of one service.
func (v service) files() []unrendered {
	switch {
	case v.Manager == Launchd:
		return []unrendered{{file{Name: v.Label + ".plist", Enable: true, Component: v.Component}, "job.tmpl"}}
	case v.Watches:
		return []unrendered{{file{Name: v.Unit + ".path", Enable: true}, "path.tmpl"}}
	case v.Minutes > 0:
		return []unrendered{{file{Name: v.Unit + ".service"}, "service.tmpl"}, {file{Name: v.Unit + ".timer", Enable: true}, "timer.tmpl"}}
	}
	return []unrendered{{file{Name: v.Unit + ".service", Enable: true, Component: v.Component}, "service.tmpl"}}
}

// fileNames lists the files that we may have written for a manager: first those
// that start others.
func fileNames(manager string) []string {
	var names []string
	for _, timers := range []bool{false, true} {
		s := setup{Options: Options{Manager: manager, Timers: timers}, Board: true}
		for _, v := range s.services() {
			for _, f := range v.files() {
				if !slices.Contains(names, f.Name) {
					names = append(names, f.Name)
				}
			}
		}
	}
	starts := func(name string) int {
		if strings.HasSuffix(name, ".timer") || strings.HasSuffix(name, ".path") {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(names, func(a, b string) int { return starts(a) - starts(b) })
	return names
}

// component returns the component that a file keeps running; "" if none.
func (o Options) component(name string) string {
	for _, v := range (setup{Options: o, Board: true}).services() {
		for _, f := range v.files() {
			if f.Name == name {
				return f.Component
			}
		}
	}
	return ""
}

// Once reports whether a service makes single runs.
func (v service) Once() bool { return v.Component == "" }

// PrivateTmp reports whether a /tmp of its own would hide nothing that a service
// needs.
func (v service) PrivateTmp() bool {
	return !slices.ContainsFunc(slices.Concat([]string{v.Dir, v.LogDir, v.Bin}, v.Writes, v.Reads), func(path string) bool {
		return path == "/tmp" || path == "/var/tmp" || strings.HasPrefix(path, "/tmp/") || strings.HasPrefix(path, "/var/tmp/")
	})
}

// LogFolder is the folder into which launchd writes what a program prints.
func (o Options) LogFolder() string {
	if o.LogDir != "" {
		return o.LogDir
	}
	return filepath.Join(o.Home, "Library", "Logs", "OpenClaw")
}

// Log is the name of launchd's log of the service. A resident rotates its own log,
// and launchd would go on writing into the rotated file: it gets another.
func (v service) Log() string {
	switch {
	case !v.Once():
		return v.Component + ".stderr.log"
	case v.Watches:
		return v.Unit + ".log"
	}
	return v.Argv[0] + ".log"
}

// check refuses what the files of the manager cannot hold.
func (s setup) check() error {
	kind := "a unit"
	if s.Manager == Launchd {
		kind = "a property list"
	} else if strings.ContainsAny(s.Bin, `"'\`) {
		return fmt.Errorf("systemd starts nothing from the folder %q: it holds a quote or a backslash", s.Bin)
	}
	for _, path := range slices.Concat([]string{s.Dir, s.LogDir, s.Bin, s.Home, s.Path}, s.Workspaces, s.Reads) {
		if !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) {
			return fmt.Errorf("%q cannot stand in %s: it holds control characters, or is not UTF-8", path, kind)
		}
	}
	return nil
}

var inQuotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`)

// word is a value as one quoted word, in settings of systemd that take several.
func word(s string) string { return `"` + inQuotes.Replace(s) + `"` }

// program is a command line of systemd. In the arguments a dollar sign is a
// variable; in the program's path it is not.
func program(bin string, argv []string) string {
	line := word(filepath.Join(bin, argv[0]))
	for _, arg := range argv[1:] {
		line += " " + strings.ReplaceAll(arg, "$", "$$")
	}
	return line
}

// rest is a value that goes to the end of its line, in settings of systemd that
// take one value and know no quotes.
func rest(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// stringElement is a value as a string element of XML.
func stringElement(s string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(s))
	return "<string>" + b.String() + "</string>", err
}
