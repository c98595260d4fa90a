package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

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

// Options are the input of a file besides otm.toml. Its marker line
// holds them, so that any shell can compare it with what would be written now.
type Options struct {
	Manager string `json:"manager"`
	Dir     string `json:"dir"`  // the data directory
	Bin     string `json:"bin"`  // the folder of the programs
	Home    string `json:"home"` // of the user whom they run as
	// Path is the PATH of agents that the dispatcher starts; "": it starts none.
	Path   string `json:"path,omitempty"`
	LogDir string `json:"logDir,omitempty"` // "": the platform's
}

// markerPrefix begins the text of the marker line.
const markerPrefix = "otm-install: "

// Marker is the text of the marker line. It holds no "--", which would end a
// comment in XML.
func (o Options) Marker() string {
	text, _ := json.Marshal(o) // cannot fail: strings
	return markerPrefix + strings.ReplaceAll(string(text), "--", `\u002d\u002d`)
}

// Again is the command line that renews the files and restarts the services.
func (o Options) Again() string { return "otm install --" + o.Manager + " --dir " + safe.Quote(o.Dir) }

// getenv is the environment of the services, as far as the configuration reads it.
func (o Options) getenv(key string) string {
	return map[string]string{"HOME": o.Home, "OTM_LOG_DIR": o.LogDir}[key]
}

// LogFolder is the folder of the logs.
func (o Options) LogFolder() string {
	switch {
	case o.LogDir != "":
		return o.LogDir
	case o.Manager == Launchd && o.Home != "":
		return filepath.Join(o.Home, "Library", "Logs", "OpenClaw")
	}
	return filepath.Join(o.Dir, "logs")
}

// folderOf returns the folder of a manager's files.
func folderOf(manager string, getenv func(string) string) (string, error) {
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

// foundFile is a file that stands in a manager's folder.
type foundFile struct {
	text    []byte
	options *Options // nil: we did not write it
}

// ours reports whether we wrote the file, for a data directory.
func (f *foundFile) ours(dir string) bool {
	return f != nil && f.options != nil && f.options.Dir == dir
}

// readFolder reads the files of a manager's folder that have names as ours, also
// those that a former version wrote. It returns none if there is no folder.
func readFolder(manager, folder string) (map[string]*foundFile, error) {
	prefix := "otm-"
	if manager == Launchd {
		prefix = labelPrefix + prefix
	}
	entries, err := durable.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return nil, err
	}
	found := map[string]*foundFile{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || e.IsDir() {
			continue
		}
		f := &foundFile{}
		if e.Type().IsRegular() { // a link to /dev/null masks a unit
			if f.text, err = durable.ReadFile(filepath.Join(folder, e.Name())); err != nil {
				return nil, err
			}
			f.options = readMarker(f.text)
		}
		found[e.Name()] = f
	}
	return found, nil
}

// markerLine matches the marker line, which is among the first lines of a file.
var markerLine = regexp.MustCompile(`\A(?:.*\n){0,3}(?:# |<!-- )` + markerPrefix + `(\{.*\})(?: -->)?\n`)

// readMarker returns the options that a file was rendered with; nil if we did not
// write it.
func readMarker(text []byte) *Options {
	o := &Options{}
	if m := markerLine.FindSubmatch(text); m == nil || json.Unmarshal(m[1], o) != nil || o.Dir == "" {
		return nil
	}
	return o
}

// State is how a file stands.
type State string

const (
	Current  State = "current"  // as it would be written now
	Stale    State = "stale"    // it would be written otherwise now
	Missing  State = "missing"  // there is none
	Obsolete State = "obsolete" // we wrote it, and it is no longer needed
	Foreign  State = "foreign"  // somebody else's has its name, or another data directory's
	Broken   State = "broken"   // the programs are not where it says
)

// compared is a file that is wanted, or was, with how it stands.
type compared struct {
	file
	state State
}

// compare holds the wanted files of a data directory against those that were found.
// Those that are no longer needed come last.
func compare(found map[string]*foundFile, dir string, wanted []file) []compared {
	var all []compared
	left := maps.Clone(found)
	for _, w := range wanted {
		state := Stale
		switch f := found[w.Name]; {
		case f == nil:
			state = Missing
		case !f.ours(dir):
			state = Foreign
		case bytes.Equal(f.text, w.Text):
			state = Current
		}
		all = append(all, compared{w, state})
		delete(left, w.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if left[name].ours(dir) {
			all = append(all, compared{file{Name: name}, Obsolete})
		}
	}
	return all
}

// Unit is how one file of systemd or launchd stands.
type Unit struct {
	Path  string
	State State
	Hint  string // the command line that mends it; "" if it is current
}

// Find returns how otm install was told to run the services of a data
// directory; nil if it was not, or if its files cannot be read.
func Find(dir string, getenv func(string) string) *Options {
	folder, err := folderOf(Native(), getenv)
	if err != nil {
		return nil // without a home there are no units
	}
	found, err := readFolder(Native(), folder)
	if err != nil {
		return nil
	}
	return optionsIn(found, dir)
}

// optionsIn returns the options of a file that we wrote for a data directory; nil
// if there is none.
func optionsIn(found map[string]*foundFile, dir string) *Options {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if found[name].ours(dir) {
			return found[name].options
		}
	}
	return nil
}

// Look returns the files that otm install wrote for a data directory, and how they
// stand; none if it never ran.
func Look(dir string, getenv func(string) string) ([]Unit, error) {
	folder, err := folderOf(Native(), getenv)
	if err != nil {
		return nil, nil // without a home there are no units
	}
	return lookIn(Native(), folder, dir)
}

func lookIn(manager, folder, dir string) ([]Unit, error) {
	found, err := readFolder(manager, folder)
	if err != nil {
		return nil, err
	}
	o := optionsIn(found, dir)
	if o == nil {
		return nil, nil
	}
	// The configuration as the services read it, not as this shell does.
	c, err := config.Load(dir, o.getenv)
	if err != nil {
		return nil, err
	}
	wanted, err := render(*o, c)
	if err != nil {
		return nil, err
	}
	broken := missingPrograms(o.Bin) != nil
	var units []Unit
	for _, c := range compare(found, dir, wanted) {
		u := Unit{Path: filepath.Join(folder, c.Name), State: c.state, Hint: o.Again()}
		switch {
		case broken && (c.state == Current || c.state == Stale):
			u.State = Broken
		case c.state == Current:
			u.Hint = ""
		}
		units = append(units, u)
	}
	return units, nil
}
