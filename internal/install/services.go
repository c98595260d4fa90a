package install

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/template"
	"unicode"
	"unicode/utf8"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
)

// setup is the input of all files of one installation. All paths are absolute.
type setup struct {
	Options
	Sum        string   // of otm.toml: it makes a unit stale when otm.toml has changed
	Board      bool     // the embedded board is needed
	Exec       bool     // the dispatcher starts agents, or commands of people
	Watchdog   bool     // [notify] names an outlet: install otm watchdog
	Workspaces []string // of agents: the dispatcher writes there
}

// setupFor adds the needs of the configuration to the options.
func setupFor(o Options, c *config.Config) (setup, error) {
	s := setup{Options: o, Board: c.Slack.ListID == "", Exec: starts(c), Watchdog: c.Notify.Tells()}
	text, err := durable.ReadFile(filepath.Join(c.Dir, config.FileName))
	if err == nil {
		sum := sha256.Sum256(text)
		s.Sum = hex.EncodeToString(sum[:8])
	} else if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	agents, _ := c.AllAgents() // those of a broken openclaw.json make a unit stale later
	for _, a := range agents {
		// A service that started before the folder was made may not write there.
		// So a folder that was made since makes the unit stale.
		if !a.Person && !slices.Contains(s.Workspaces, a.Workspace) && isMade(a.Workspace) {
			s.Workspaces = append(s.Workspaces, a.Workspace)
		}
	}
	return s, nil
}

// service is one thing that a manager runs for us.
type service struct {
	setup
	Component string   // the component that it keeps running
	Name      string   // of its file
	Label     string   // its name for launchd
	About     string   // in a few words
	Argv      []string // a program of the folder Bin, and its arguments
	Serves    bool     // it is the board
	Starts    bool     // it starts agents, or commands of people
	Writes    []string // folders
}

// labelPrefix begins the labels of the specification.
const labelPrefix = "ai.openclaw."

// services lists the services.
func (s setup) services() []service {
	all := []service{
		{Component: heartbeat.Board, About: "embedded board", Argv: []string{"otm", "board"}, Serves: true},
		{Component: heartbeat.Injector, About: "injector", Argv: []string{heartbeat.Injector}},
		{Component: heartbeat.Dispatcher, About: "dispatcher", Argv: []string{heartbeat.Dispatcher, "--every", "2m"}, Starts: s.Exec, Writes: s.Workspaces},
		{Component: heartbeat.Detector, About: "completion detector", Argv: []string{heartbeat.Detector, "--every", "2m"}},
	}
	if s.Watchdog {
		all = append(all, service{Component: heartbeat.Watchdog, About: "watchdog", Argv: []string{"otm", "watchdog"}, Starts: s.Exec})
	}
	if !s.Board {
		all = all[1:]
	}
	for i := range all {
		v := &all[i]
		v.setup, v.Writes = s, append([]string{s.Dir, s.LogDir}, v.Writes...)
		v.Name, v.Label = v.Component+".service", labelPrefix+v.Component
		if v.Component == heartbeat.Injector {
			v.Label = labelPrefix + heartbeat.Watcher // so the specification calls it
		}
		if s.Manager == Launchd {
			v.Name = v.Label + ".plist"
		}
	}
	return all
}

// file is a file of a manager as it should be.
type file struct {
	Name      string
	Text      []byte
	Component string // which it keeps running
}

//go:embed *.tmpl
var sources embed.FS

// templates are parsed when they are first needed: most commands need none.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"program": program, "word": word, "string": stringElement,
	}).ParseFS(sources, "*.tmpl"))
})

// render renders the files that a configuration asks for.
func render(o Options, c *config.Config) ([]file, error) {
	s, err := setupFor(o, c)
	if err != nil {
		return nil, err
	}
	files, err := s.files()
	if err != nil {
		return nil, cli.Errorf(cli.BadConfig, "%w", err)
	}
	return files, nil
}

// files renders all files. The error names a path that no file can hold.
func (s setup) files() ([]file, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	template := "service.tmpl"
	if s.Manager == Launchd {
		template = "job.tmpl"
	}
	var all []file
	for _, v := range s.services() {
		var text bytes.Buffer
		if err := templates().ExecuteTemplate(&text, template, v); err != nil {
			return nil, err
		}
		all = append(all, file{Name: v.Name, Text: text.Bytes(), Component: v.Component})
	}
	return all, nil
}

// check refuses values that the files of the manager cannot hold.
func (s setup) check() error {
	kind := "a unit"
	if s.Manager == Launchd {
		kind = "a property list"
	} else if strings.ContainsAny(s.Bin, `"'\`) {
		return fmt.Errorf("systemd starts nothing from the folder %q: it holds a quote or a backslash", s.Bin)
	}
	for _, path := range slices.Concat([]string{s.Dir, s.LogDir, s.Bin, s.Home, s.Path}, s.Workspaces) {
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

// stringElement is a value as a string element of XML.
func stringElement(s string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(s))
	return "<string>" + b.String() + "</string>", err
}
