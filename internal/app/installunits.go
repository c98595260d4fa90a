package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/safe"
	"otm/launchd"
	"otm/pipeline"
	"otm/systemd"
)

// unitOptions are what a file is rendered with beside otm.toml. They stand in
// the file's marker line, so that what would be rendered now can be compared
// with it in any shell.
type unitOptions struct {
	Manager string `json:"manager"`
	User    bool   `json:"user"`
	Timers  bool   `json:"timers"`
	Dir     string `json:"dir"`
	Bin     string `json:"bin"`
	Home    string `json:"home"`
	Path    string `json:"path,omitempty"`
	LogDir  string `json:"logDir,omitempty"`
}

// markerPrefix begins the marker line's text.
const markerPrefix = "otm-install: "

// marker is the text of the marker line. It holds no "--", which would end a
// comment in XML.
func (o unitOptions) marker() string {
	text, _ := json.Marshal(o) // strings and truth values: nothing that it refuses
	return markerPrefix + strings.ReplaceAll(string(text), "--", `\u002d\u002d`)
}

// flags are those that make the same files again.
func (o unitOptions) flags() string {
	flags := "--" + o.Manager + userFlag(o.User)
	if o.Timers {
		flags += " --timers"
	}
	return flags
}

// again is the command that makes the same files again, and starts what they
// keep running.
func (o unitOptions) again() string {
	line := fmt.Sprintf("otm install %s --dir %s", o.flags(), safe.Quote(o.Dir))
	if !o.User {
		line = "sudo " + line
	}
	return line
}

// foundUnit is a file that is there.
type foundUnit struct {
	data    []byte
	options *unitOptions // nil: it is not ours
	written time.Time
}

// readUnit reads a file of a manager; nil where there is none. What is no file
// is not ours, such as the link to /dev/null that masks a unit.
func readUnit(path string) (*foundUnit, error) {
	info, err := durable.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return &foundUnit{}, nil
	}
	data, err := durable.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &foundUnit{data: data, options: readMarker(data), written: info.ModTime()}, nil
}

// readMarker finds the marker line in one of the first lines.
func readMarker(data []byte) *unitOptions {
	for i, line := range bytes.SplitN(data, []byte("\n"), 5) {
		for _, comment := range []string{"# ", "<!-- "} {
			text, ok := bytes.CutPrefix(line, []byte(comment+markerPrefix))
			if !ok || i == 4 {
				continue
			}
			o := &unitOptions{}
			if json.Unmarshal(bytes.TrimSuffix(text, []byte(" -->")), o) == nil && o.Dir != "" {
				return o
			}
		}
	}
	return nil
}

// withoutMarker is what a manager sees of a file of ours.
func withoutMarker(data []byte) []byte {
	before, rest, _ := bytes.Cut(data, []byte(markerPrefix))
	_, after, _ := bytes.Cut(rest, []byte("\n"))
	return slices.Concat(before, after)
}

// unitFolder is where a manager's files are.
func unitFolder(manager string, own bool, getenv func(string) string) (string, error) {
	switch {
	case !own && manager == byLaunchd:
		return "/Library/LaunchDaemons", nil
	case !own:
		return "/etc/systemd/system", nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", cli.Errorf(cli.BadConfig, "HOME is not set, or no absolute path: it is where a user's units are").Hint("export HOME=/where/your/home/is")
	}
	if manager == byLaunchd {
		return filepath.Join(home, "Library", "LaunchAgents"), nil
	}
	base := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) { // the XDG specification: a relative path is ignored
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "systemd", "user"), nil
}

// unitNames are the files that we may have written for a manager, what starts
// others first.
func unitNames(manager string) []string {
	if manager == bySystemd {
		names := slices.Clone(systemd.Names)
		slices.SortStableFunc(names, func(a, b string) int { return starterFirst(a) - starterFirst(b) })
		return names
	}
	var names []string
	for _, label := range launchd.Labels {
		names = append(names, launchd.Job{Label: label}.File())
	}
	return names
}

func starterFirst(name string) int {
	if strings.HasSuffix(name, ".service") {
		return 1
	}
	return 0
}

// account is a user of this machine.
type account struct {
	uid, gid          int
	name, group, home string
}

// ownerOf is whose a directory is.
func ownerOf(dir string) (account, error) {
	info, err := durable.Stat(dir)
	if err != nil {
		return account{}, err
	}
	st := info.Sys().(*syscall.Stat_t)
	a := account{uid: int(st.Uid), gid: int(st.Gid), name: strconv.Itoa(int(st.Uid)), group: strconv.Itoa(int(st.Gid))}
	u, err := user.LookupId(a.name)
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return a, cli.Errorf(cli.Failed, "data directory %q belongs to user %d, who is not known here, or has no home", dir, a.uid)
	}
	a.name, a.home = u.Username, u.HomeDir
	if gid, err := strconv.Atoi(u.Gid); err == nil {
		a.gid, a.group = gid, u.Gid // the user's own group: a directory's may be another
	}
	if g, err := user.LookupGroupId(a.group); err == nil {
		a.group = g.Name
	}
	return a, nil
}

// configSum tells one otm.toml from another; "" where there is none.
func (h *Home) configSum() (string, error) {
	data, err := durable.ReadFile(filepath.Join(h.Dir, config.FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), err
}

// startsAgents tells whether the dispatcher starts processes.
func (h *Home) startsAgents() bool {
	return slices.ContainsFunc(h.Config.Agents, func(a pipeline.Agent) bool { return !a.Person && a.Trigger == pipeline.TriggerExec })
}

// unitFile is a file as it should be.
type unitFile struct {
	Name     string
	Data     []byte
	Enable   bool
	Resident string // the component that stays; "": none does
}

// renderUnits renders the files that the configuration asks for.
func (h *Home) renderUnits(o unitOptions) ([]unitFile, error) {
	acct := account{home: o.Home}
	if !o.User {
		var err error
		if acct, err = ownerOf(h.Dir); err != nil {
			return nil, err
		}
	}
	sum, err := h.configSum()
	if err != nil {
		return nil, err
	}
	var units []unitFile
	if o.Manager == byLaunchd {
		units, err = h.renderJobs(o, acct, sum)
	} else {
		units, err = h.renderServices(o, acct, sum)
	}
	if err != nil {
		return nil, cli.Errorf(cli.BadConfig, "%w", err)
	}
	return units, nil
}

// residents are the components that files of these names keep running, unless
// by timers.
var residents = map[string]string{
	"otm-board.service": boardID, "otm-injector.service": heartbeat.Injector,
	"otm-dispatcher.service": heartbeat.Dispatcher, "otm-completion-detector.service": heartbeat.Detector,
	launchd.LabelBoard + ".plist": boardID, launchd.LabelWatcher + ".plist": heartbeat.Injector,
	launchd.LabelDispatcher + ".plist": heartbeat.Dispatcher, launchd.LabelDetector + ".plist": heartbeat.Detector,
}

// resident is the component that a file keeps running; "" where none.
func (o unitOptions) resident(name string) string {
	if id := residents[name]; !o.Timers || id == boardID {
		return id
	}
	return ""
}

func (h *Home) renderServices(o unitOptions, acct account, sum string) ([]unitFile, error) {
	c := systemd.Config{
		Marker: o.marker(), Sum: sum, Dir: h.Dir, LogDir: o.LogDir, Bin: o.Bin, Home: acct.home, Path: o.Path,
		Timers: o.Timers, Board: h.Config.Slack.ListID == "", Exec: h.startsAgents(),
		LocalBoard:   h.Config.Slack.ListID == "" || onThisMachine(h.Config.Slack.URL),
		LocalGateway: true,
	}
	if !o.User {
		c.User, c.Group = acct.name, acct.group
	}
	for _, a := range h.Config.Agents {
		if a.Person {
			continue
		}
		// A process that was started before its folder was made may not write
		// there: made since, it makes the unit another one.
		if isDir(a.Workspace) && !slices.Contains(c.Workspaces, a.Workspace) {
			c.Workspaces = append(c.Workspaces, a.Workspace)
		}
		if a.Trigger == pipeline.TriggerGateway {
			c.LocalGateway = onThisMachine(h.Config.Gateway.URL)
		}
	}
	for _, file := range []string{h.Config.Slack.TokenFile, h.Config.Gateway.TokenFile} {
		if file != "" {
			c.Reads = append(c.Reads, file)
		}
	}
	rendered, err := systemd.Units(c)
	if err != nil {
		return nil, err
	}
	var units []unitFile
	for _, u := range rendered {
		units = append(units, unitFile{Name: u.Name, Data: u.Text, Enable: u.Enable, Resident: o.resident(u.Name)})
	}
	return units, nil
}

func (h *Home) renderJobs(o unitOptions, acct account, sum string) ([]unitFile, error) {
	c := launchd.Config{
		Marker: o.marker(), Sum: sum, Dir: h.Dir, LogDir: o.LogDir, SetLog: o.LogDir != "", Bin: o.Bin, Home: acct.home, Path: o.Path,
		Timers: o.Timers, Board: h.Config.Slack.ListID == "", Exec: h.startsAgents(),
	}
	if c.LogDir == "" {
		c.LogDir = filepath.Join(acct.home, "Library", "Logs", "OpenClaw")
	}
	if !o.User {
		c.User, c.Group = acct.name, acct.group
	}
	jobs, err := launchd.Jobs(c)
	if err != nil {
		return nil, err
	}
	var units []unitFile
	for _, j := range jobs {
		units = append(units, unitFile{Name: j.File(), Data: j.Text, Enable: true, Resident: o.resident(j.File())})
	}
	return units, nil
}

// onThisMachine tells whether an address leads nowhere else.
func onThisMachine(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// InstalledUnit is how one file of systemd or launchd stands, where otm install
// has written files for this data directory.
type InstalledUnit struct {
	Path  string
	State UnitState
	Hint  string // what makes it right; "" where it is
}

// UnitState is how a file stands.
type UnitState string

const (
	UnitCurrent  UnitState = "current"  // as it would be written now
	UnitStale    UnitState = "stale"    // it would be written otherwise now
	UnitMissing  UnitState = "missing"  // it belongs to the others, and is not there
	UnitObsolete UnitState = "obsolete" // ours, and not needed any more
	UnitForeign  UnitState = "foreign"  // in the place of ours stands somebody else's
	UnitBroken   UnitState = "broken"   // what it starts is not there
)

// InstalledUnits looks at the files that otm install wrote for this data
// directory, the user's and the system's. There are none where it never ran.
func (h *Home) InstalledUnits() ([]InstalledUnit, error) {
	var all []InstalledUnit
	for _, own := range []bool{true, false} {
		folder, err := unitFolder(nativeManager(), own, h.Getenv)
		if err != nil {
			continue // no home: no units of a user's
		}
		units, err := h.unitsIn(nativeManager(), folder)
		if err != nil {
			return all, err
		}
		all = append(all, units...)
	}
	return all, nil
}

// foundIn reads the files of one folder. The options are those of ours; nil
// where there are none.
func (h *Home) foundIn(manager, folder string) (found map[string]*foundUnit, ours *unitOptions, err error) {
	found = map[string]*foundUnit{}
	for _, name := range unitNames(manager) {
		f, err := readUnit(filepath.Join(folder, name))
		if err != nil {
			return nil, nil, err
		}
		found[name] = f
		if ours == nil && f != nil && f.options != nil && f.options.Dir == h.Dir {
			ours = f.options
		}
	}
	return found, ours, nil
}

// installation is how otm install was told to have the components run; nil
// where it was not, or that cannot be seen from here.
func (h *Home) installation() *unitOptions {
	for _, own := range []bool{true, false} {
		folder, err := unitFolder(nativeManager(), own, h.Getenv)
		if err != nil {
			continue
		}
		if _, o, err := h.foundIn(nativeManager(), folder); err == nil && o != nil {
			return o
		}
	}
	return nil
}

// startCommand starts the components, by whatever is to keep them running.
func (h *Home) startCommand() string { return h.startBy(h.installation()) }

func (h *Home) startBy(o *unitOptions) string {
	if o != nil {
		return o.again()
	}
	return "otm up" + dirFlag(h.Dir, h.Getenv)
}

// applyHint is how a changed otm.toml is taken up.
func (h *Home) applyHint() string {
	if o := h.installation(); o != nil {
		return "run: " + o.again()
	}
	return "stop what runs it, otm up say, and start it again"
}

// unitsIn looks at the files of one folder.
func (h *Home) unitsIn(manager, folder string) ([]InstalledUnit, error) {
	found, o, err := h.foundIn(manager, folder)
	if o == nil {
		return nil, err
	}
	wanted, err := h.asUnits(*o)
	if err != nil {
		return nil, err
	}
	hint := o.again()
	broken := missingPrograms(o.Bin) != nil
	var units []InstalledUnit
	for _, u := range wanted {
		at := InstalledUnit{Path: filepath.Join(folder, u.Name), State: UnitStale, Hint: hint}
		switch f := found[u.Name]; {
		case f == nil:
			at.State = UnitMissing
		case f.options == nil || f.options.Dir != h.Dir:
			at.State = UnitForeign
		case broken:
			at.State = UnitBroken
		case bytes.Equal(f.data, u.Data):
			at.State, at.Hint = UnitCurrent, ""
		}
		units = append(units, at)
		delete(found, u.Name)
	}
	for _, name := range unitNames(manager) {
		if f := found[name]; f != nil && f.options != nil && f.options.Dir == h.Dir {
			units = append(units, InstalledUnit{Path: filepath.Join(folder, name), State: UnitObsolete, Hint: hint})
		}
	}
	return units, nil
}

// asUnits renders what would be installed now with the given options: from the
// configuration as the daemons read it, not as this shell does.
func (h *Home) asUnits(o unitOptions) ([]unitFile, error) {
	c, err := config.Load(h.Dir, unitEnv(func(string) string { return "" }, o.Home))
	if err != nil {
		return nil, err
	}
	as := *h
	as.Config = c
	return as.renderUnits(o)
}
