// Package systemd renders the units under which OTM runs on Linux.
//
// The templates beside this file are the units, with the reason for each line
// as a comment, so that it stands where an administrator reads it. What is put
// into them is quoted here: a path may hold spaces, quotes, percent and dollar
// signs, and each means something else in each kind of setting.
package systemd

import (
	"bytes"
	"embed"
	"fmt"
	"path/filepath"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"
)

//go:embed *.tmpl
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"program": program, "word": word, "rest": rest,
}).ParseFS(files, "*.tmpl"))

// Config is what units are rendered for. All paths are absolute.
type Config struct {
	Marker string // one line, by which the files are known again
	Sum    string // of the configuration: residents whose unit has another one are started again
	Dir    string // the data directory
	LogDir string // "": in the data directory
	Bin    string // the folder of the programs
	Home   string // of the user that they run as
	Path   string // the PATH of agents that the dispatcher starts; "": none is needed
	// User and Group are those of system units; "": user units.
	User, Group string

	Timers bool // runs by timers, instead of residents
	Board  bool // the embedded board is needed
	Exec   bool // the dispatcher starts agents
	// LocalBoard and LocalGateway: what is talked to is on this machine.
	LocalBoard, LocalGateway bool
	Workspaces               []string // of agents, where the dispatcher writes
	Reads                    []string // files elsewhere that are read, such as tokens
}

// Unit is one unit file.
type Unit struct {
	Name   string
	Text   []byte
	Enable bool // it is to be enabled, and started
}

// Names are all units that Units ever returns: what may be left of an earlier
// installation.
var Names = []string{
	"otm-board.service", "otm-injector.service",
	"otm-sweeper.service", "otm-sweeper.timer", "otm-watcher.path",
	"otm-dispatcher.service", "otm-dispatcher.timer",
	"otm-completion-detector.service", "otm-completion-detector.timer",
}

// unit is what a template is executed with.
type unit struct {
	Config
	Name        string
	Description string
	Command     []string // the program, by its name in Bin, and arguments
	Once        bool
	Serves      bool // it is the board itself
	Starts      bool // it starts agents
	Local       bool // all that it talks to is on this machine
	Writes      []string
	Starter     string // the unit that a timer or a path starts
	Every       string
}

// UserUnit tells whether it belongs to a user's manager.
func (u unit) UserUnit() bool { return u.User == "" }

// PrivateTmp tells whether a /tmp of its own would hide nothing that is needed.
func (u unit) PrivateTmp() bool {
	for _, path := range append(append([]string{u.Dir, u.LogDir, u.Bin}, u.Writes...), u.Reads...) {
		for _, tmp := range []string{"/tmp", "/var/tmp"} {
			if path == tmp || strings.HasPrefix(path, tmp+"/") {
				return false
			}
		}
	}
	return true
}

// Units renders the units. The error says which path no unit can hold.
func Units(c Config) ([]Unit, error) {
	if strings.ContainsAny(c.Bin, `"'\`) {
		return nil, fmt.Errorf("systemd starts nothing from a folder such as %q: it holds a quote or a backslash", c.Bin)
	}
	for _, path := range append(append([]string{c.Dir, c.LogDir, c.Bin, c.Home, c.Path}, c.Workspaces...), c.Reads...) {
		if err := check(path); err != nil {
			return nil, err
		}
	}
	var units []Unit
	add := func(tmpl string, enable bool, u unit) error {
		u.Config = c
		u.Writes = append([]string{c.Dir, c.LogDir}, u.Writes...)
		var text bytes.Buffer
		if err := templates.ExecuteTemplate(&text, tmpl, u); err != nil {
			return err
		}
		units = append(units, Unit{Name: u.Name, Text: text.Bytes(), Enable: enable})
		return nil
	}
	service := func(name string, u unit) error {
		u.Name = name + ".service"
		u.Once = c.Timers && !u.Serves
		if u.Once {
			u.Command = append(u.Command[:1:1], "--once")
		}
		return add("service.tmpl", !u.Once, u)
	}
	timer := func(name, every string) error {
		return add("timer.tmpl", true, unit{Name: name + ".timer", Description: "time for " + name, Starter: name + ".service", Every: every})
	}
	board := unit{Description: "embedded board", Command: []string{"otm", "board"}, Serves: true, Local: true}
	injector := unit{Description: "injector", Command: []string{"otm-injector"}, Local: c.LocalBoard}
	dispatcher := unit{Description: "dispatcher", Command: []string{"otm-dispatcher", "--every", "2m"}, Starts: c.Exec, Local: c.LocalBoard && c.LocalGateway, Writes: c.Workspaces}
	detector := unit{Description: "completion detector", Command: []string{"otm-completion-detector", "--every", "2m"}, Local: c.LocalBoard}

	var err error
	do := func(e error) {
		if err == nil {
			err = e
		}
	}
	if c.Board {
		do(service("otm-board", board))
	}
	if c.Timers {
		injector.Description = "one sweep of the inboxes"
		do(service("otm-sweeper", injector))
		do(timer("otm-sweeper", "10min"))
		do(add("path.tmpl", true, unit{Name: "otm-watcher.path", Description: "watch on the inboxes", Starter: "otm-sweeper.service"}))
	} else {
		do(service("otm-injector", injector))
	}
	do(service("otm-dispatcher", dispatcher))
	do(service("otm-completion-detector", detector))
	if c.Timers {
		do(timer("otm-dispatcher", "2min"))
		do(timer("otm-completion-detector", "2min"))
	}
	return units, err
}

// check refuses what no unit file can hold.
func check(path string) error {
	if !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) {
		return fmt.Errorf("%q cannot stand in a unit: it holds control characters, or is no UTF-8", path)
	}
	return nil
}

var inQuotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`)

// word is a value as one quoted word, in settings that take several.
func word(s string) string { return `"` + inQuotes.Replace(s) + `"` }

// program is a command line. In its arguments a dollar sign is a variable; in
// the program's path it is not.
func program(bin string, command []string) string {
	words := []string{word(filepath.Join(bin, command[0]))}
	for _, arg := range command[1:] {
		words = append(words, strings.ReplaceAll(arg, "$", "$$"))
	}
	return strings.Join(words, " ")
}

// rest is a value that goes to the end of its line, in settings that take one
// and know no quotes.
func rest(s string) string { return strings.ReplaceAll(s, "%", "%%") }
