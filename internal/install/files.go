package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/safe"
)

// Managers of processes that we write files for.
const (
	Systemd = "systemd"
	Launchd = "launchd"
)

// Native is the manager of this platform.
func Native() string {
	if runtime.GOOS == "darwin" {
		return Launchd
	}
	return Systemd
}

// Options are what a file is rendered from besides otm.toml. Its marker line
// holds them, so that any shell can compare it with what would be written now.
type Options struct {
	Manager string `json:"manager"`
	User    bool   `json:"user"`   // the user's own manager runs the services
	Timers  bool   `json:"timers"` // single runs by the clock
	Dir     string `json:"dir"`    // the data directory
	Bin     string `json:"bin"`    // the folder of the programs
	Home    string `json:"home"`   // of the user whom they run as
	// Path is the PATH of agents that the dispatcher starts; "": it starts none.
	Path   string `json:"path,omitempty"`
	LogDir string `json:"logDir,omitempty"` // "": the platform's
}

// markerPrefix begins the text of the marker line.
const markerPrefix = "otm-install: "

// Marker is the text of the marker line. It holds no "--", which would end a
// comment in XML.
func (o Options) Marker() string {
	text, _ := json.Marshal(o) // cannot fail: strings and booleans
	return markerPrefix + strings.ReplaceAll(string(text), "--", `\u002d\u002d`)
}

// Again is the command line that renews the files and starts the services.
func (o Options) Again() string {
	line := "otm install --" + o.Manager + userFlag(o.User)
	if o.Timers {
		line += " --timers"
	}
	if !o.User {
		line = "sudo " + line
	}
	return line + " --dir " + safe.Quote(o.Dir)
}

func userFlag(user bool) string {
	if user {
		return " --user"
	}
	return ""
}

// foundFile is a file that stands in a manager's folder.
type foundFile struct {
	text    []byte
	options *Options // nil: we did not write it
	written time.Time
}

// ours reports whether we wrote the file, for a data directory.
func (f *foundFile) ours(dir string) bool {
	return f != nil && f.options != nil && f.options.Dir == dir
}

// readFile reads a manager's file; it returns nil if there is none. A link to
// /dev/null, which masks a unit, is a file that we did not write.
func readFile(path string) (*foundFile, error) {
	info, err := durable.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return &foundFile{}, nil
	}
	text, err := durable.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &foundFile{text: text, options: readMarker(text), written: info.ModTime()}, nil
}

// readMarker finds the marker line among the first four lines.
func readMarker(text []byte) *Options {
	for i, line := range bytes.SplitN(text, []byte("\n"), 5) {
		for _, comment := range []string{"# ", "<!-- "} {
			found, ok := bytes.CutPrefix(line, []byte(comment+markerPrefix))
			if !ok || i == 4 {
				continue
			}
			o := &Options{}
			if json.Unmarshal(bytes.TrimSuffix(found, []byte(" -->")), o) == nil && o.Dir != "" {
				return o
			}
		}
	}
	return nil
}

// folderOf returns a manager's folder: the user's own, or the system's.
func folderOf(manager string, user bool, getenv func(string) string) (string, error) {
	switch {
	case !user && manager == Launchd:
		return "/Library/LaunchDaemons", nil
	case !user:
		return "/etc/systemd/system", nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", cli.Errorf(cli.BadConfig, "HOME is not set, or not an absolute path: a user's units stand below it").Hint("export HOME=/where/your/home/is")
	}
	if manager == Launchd {
		return filepath.Join(home, "Library", "LaunchAgents"), nil
	}
	base := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) { // the XDG specification: a relative path is ignored
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "systemd", "user"), nil
}

// Unit is how one file of systemd or launchd stands.
type Unit struct {
	Path  string
	State State
	Hint  string // the command line that mends it; "" if it is current
}

// State is how a file stands.
type State string

const (
	Current  State = "current"  // as it would be written now
	Stale    State = "stale"    // it would be written otherwise now
	Missing  State = "missing"  // it belongs to the others
	Obsolete State = "obsolete" // we wrote it, and it is no longer needed
	Foreign  State = "foreign"  // somebody else's file has its name
	Broken   State = "broken"   // the program that it starts is missing
)

// Find returns how otm install was told to run the services of a data
// directory; nil if it was not, or if its files cannot be read.
func Find(dir string, getenv func(string) string) *Options {
	for _, user := range []bool{true, false} {
		folder, err := folderOf(Native(), user, getenv)
		if err != nil {
			continue // without a home the user has no units
		}
		if _, o, err := foundIn(Native(), folder, dir); err == nil && o != nil {
			return o
		}
	}
	return nil
}

// Look returns the files that otm install wrote for a data directory, the
// user's and the system's, and how they stand; none if it never ran.
func Look(dir string, getenv func(string) string) ([]Unit, error) {
	var all []Unit
	for _, user := range []bool{true, false} {
		folder, err := folderOf(Native(), user, getenv)
		if err != nil {
			continue // without a home the user has no units
		}
		units, err := lookIn(Native(), folder, dir)
		if err != nil {
			return all, err
		}
		all = append(all, units...)
	}
	return all, nil
}

// foundIn reads the files of one folder, by name, and the options of those that
// we wrote for dir; nil if there are none.
func foundIn(manager, folder, dir string) (found map[string]*foundFile, o *Options, err error) {
	found = map[string]*foundFile{}
	for _, name := range fileNames(manager) {
		f, err := readFile(filepath.Join(folder, name))
		if err != nil {
			return nil, nil, err
		}
		found[name] = f
		if o == nil && f.ours(dir) {
			o = f.options
		}
	}
	return found, o, nil
}

func lookIn(manager, folder, dir string) ([]Unit, error) {
	found, o, err := foundIn(manager, folder, dir)
	if o == nil {
		return nil, err
	}
	// The configuration as the services read it, not as this shell does.
	c, err := config.Load(dir, serviceEnv(func(string) string { return "" }, o.Home))
	if err != nil {
		return nil, err
	}
	wanted, err := render(*o, c)
	if err != nil {
		return nil, err
	}
	broken := missingPrograms(o.Bin) != nil
	var units []Unit
	for _, w := range wanted {
		u := Unit{Path: filepath.Join(folder, w.Name), State: Stale, Hint: o.Again()}
		switch f := found[w.Name]; {
		case f == nil:
			u.State = Missing
		case !f.ours(dir):
			u.State = Foreign
		case broken:
			u.State = Broken
		case bytes.Equal(f.text, w.Text):
			u.State, u.Hint = Current, ""
		}
		units = append(units, u)
		delete(found, w.Name)
	}
	for _, name := range fileNames(manager) {
		if found[name].ours(dir) {
			units = append(units, Unit{Path: filepath.Join(folder, name), State: Obsolete, Hint: o.Again()})
		}
	}
	return units, nil
}

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

func shellLine(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = safe.Quote(arg)
	}
	return strings.Join(words, " ")
}
