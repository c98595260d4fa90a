package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/lock"
	"otm/internal/safe"
	"otm/launchd"
	"otm/pipeline"
)

// Managers of processes that we write files for.
const (
	bySystemd = "systemd"
	byLaunchd = "launchd"
)

// installFlags are those of otm install.
type installFlags struct {
	systemd, launchd, user, timers bool
	dryRun, uninstall, asJSON      bool
}

// installCommand is otm install.
func installCommand(s cli.Streams) *cobra.Command {
	var f installFlags
	c := &cobra.Command{
		Use:   "install --systemd|--launchd",
		Short: "Let systemd or launchd run the daemons",
		Long: `Write the files by which systemd or launchd runs the injector, the dispatcher,
the completion detector and, where no list is configured, the embedded board,
and start them. Run it again after agents were added to otm.toml: what is right
stays, what is stale is renewed. A file that it did not write is never touched.

Without --user it needs root, and the daemons run as the user who owns the data
directory.`,
		Example: "  otm install --systemd --user\n  otm install --systemd --user --dry-run\n  sudo otm install --systemd --dir /srv/otm\n  otm install --systemd --user --uninstall",
		RunE: func(c *cobra.Command, _ []string) error {
			in, err := newInstaller(s, f)
			if err != nil {
				return err
			}
			dir, err := config.FindDir(c.Flag("dir").Value.String(), s.Getenv)
			if err != nil {
				return err
			}
			if f.uninstall {
				err = in.uninstall(c.Context(), dir)
			} else {
				err = in.install(c.Context(), dir)
			}
			if f.asJSON && (err == nil || len(in.report.Files) > 0) {
				return errors.Join(err, safe.EncodeJSON(s.Out, in.report))
			}
			return err
		},
	}
	flags := c.Flags()
	flags.BoolVar(&f.systemd, "systemd", false, "units of systemd")
	flags.BoolVar(&f.launchd, "launchd", false, "jobs of launchd")
	flags.BoolVar(&f.user, "user", false, "run by the user's own systemd or launchd, not by the system's")
	flags.BoolVar(&f.timers, "timers", false, "single runs by the clock, instead of daemons that stay")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be written and run, and do nothing")
	flags.BoolVar(&f.uninstall, "uninstall", false, "stop and remove what it wrote; data stays")
	flags.BoolVar(&f.asJSON, "json", false, "print what was done as JSON")
	return c
}

// installer writes and removes files of one manager.
type installer struct {
	cli.Streams
	manager string
	folder  string // where its files are
	flags   installFlags
	euid    int
	bin     string // the folder of the programs; "": of this one
	// call runs a program of the manager and returns its output. If nil, there
	// is none here.
	call   func(ctx context.Context, argv []string) ([]byte, error)
	pause  time.Duration // between tries to hand a job to launchd
	report installReport
}

// installReport is what was done.
type installReport struct {
	Manager  string           `json:"manager"`
	User     bool             `json:"user"`
	Timers   bool             `json:"timers"`
	DryRun   bool             `json:"dryRun"`
	Files    []installedFile  `json:"files"`
	Commands []managerCommand `json:"commands"`
}

type installedFile struct {
	Path   string `json:"path"`
	Action string `json:"action"`         // written, renewed, unchanged, removed, kept
	Text   string `json:"text,omitempty"` // of a dry run
}

type managerCommand struct {
	Command []string `json:"command"`
	Ran     bool     `json:"ran"`
}

func newInstaller(s cli.Streams, f installFlags) (*installer, error) {
	in := &installer{Streams: s, manager: bySystemd, flags: f, euid: os.Geteuid(), pause: time.Second}
	switch native := nativeManager(); {
	case f.systemd == f.launchd:
		return nil, cli.Errorf(cli.Usage, "either --systemd or --launchd").Hint("otm install --%s --user", native)
	case f.launchd:
		in.manager = byLaunchd
		fallthrough
	default:
		if in.manager != native && !f.dryRun {
			return nil, cli.Errorf(cli.Usage, "there is no %s here", in.manager).Hint("otm install --%s --user", native)
		}
	}
	var err error
	if in.folder, err = unitFolder(in.manager, f.user, s.Getenv); err != nil {
		return nil, err
	}
	if program, err := exec.LookPath(in.program()); err == nil {
		in.call = func(ctx context.Context, argv []string) ([]byte, error) {
			return exec.CommandContext(ctx, program, argv[1:]...).CombinedOutput()
		}
	}
	in.report = installReport{Manager: in.manager, User: f.user, Timers: f.timers, DryRun: f.dryRun, Files: []installedFile{}, Commands: []managerCommand{}}
	return in, nil
}

// nativeManager is the one of this platform.
func nativeManager() string {
	if runtime.GOOS == "darwin" {
		return byLaunchd
	}
	return bySystemd
}

// program is what the manager is spoken to with.
func (in *installer) program() string {
	if in.manager == byLaunchd {
		return "launchctl"
	}
	return "systemctl"
}

// install writes the files and has them started.
func (in *installer) install(ctx context.Context, dir string) error {
	h, acct, err := in.open(dir)
	if err != nil {
		return err
	}
	o, err := in.options(h, acct)
	if err != nil {
		return err
	}
	if err := h.fitForUnits(in.Getenv, &o); err != nil {
		return err
	}
	units, err := h.renderUnits(o)
	if err != nil {
		return err
	}
	plan, err := in.plan(h, o, units)
	if err != nil {
		return err
	}
	if in.flags.dryRun {
		return in.rehearse(ctx, plan, acct)
	}
	if in.manager == byLaunchd || o.LogDir != "" {
		if err := in.makeLogDir(h.LogDir(), acct); err != nil {
			return err
		}
	}
	return in.carryOut(ctx, plan, acct)
}

// open opens the data directory as the daemons will: with the home directory
// of the user that they run as, and without what only this shell knows.
func (in *installer) open(dir string) (*Home, account, error) {
	if _, err := config.CheckDir(dir); err != nil {
		if errors.Is(err, config.ErrNotInitialised) && !in.flags.user {
			return nil, account{}, cli.Errorf(cli.NotInit, "%w", err).Hint("name the one that is meant, as root has another: otm install --%s --dir /where/the/data/is", in.manager)
		}
		return nil, account{}, err
	}
	acct, err := ownerOf(dir)
	if err != nil {
		return nil, acct, err
	}
	o := unitOptions{Manager: in.manager, Timers: in.flags.timers, Dir: dir}
	mine := o
	mine.User = true
	switch {
	case in.flags.user && acct.uid != in.euid:
		return nil, acct, cli.Errorf(cli.Usage, "data directory %q belongs to %s: with --user its owner must run this", dir, acct.name).Hint("%s", o.again())
	case !in.flags.user && in.euid != 0 && !in.flags.dryRun:
		return nil, acct, cli.Errorf(cli.Usage, "only root can write to %q", in.folder).Hint("%s", o.again()).Hint("%s", mine.again())
	case !in.flags.user && acct.uid == 0:
		in.Warn("data directory %q belongs to root: the daemons will run as root", dir)
	}
	if in.flags.user && in.Getenv("HOME") != "" {
		acct.home = in.Getenv("HOME")
	}
	s := in.Streams
	s.Getenv = unitEnv(in.Getenv, acct.home)
	h, err := OpenHome(s, dir)
	return h, acct, err
}

// unitEnv is the environment as far as units have it.
func unitEnv(getenv func(string) string, home string) func(string) string {
	return func(key string) string {
		switch key {
		case "HOME":
			return home
		case "OTM_LOG_DIR":
			return getenv(key)
		}
		return ""
	}
}

// options are what units are rendered with, beside the configuration.
func (in *installer) options(h *Home, acct account) (unitOptions, error) {
	o := unitOptions{
		Manager: in.manager, User: in.flags.user, Timers: in.flags.timers,
		Dir: h.Dir, Bin: h.pathDir(), Home: acct.home, LogDir: h.Getenv("OTM_LOG_DIR"),
	}
	if in.bin != "" {
		o.Bin = in.bin
	}
	if h.startsAgents() {
		o.Path = cleanPath(in.Getenv("PATH"), o.Bin)
	}
	if o.LogDir != "" && !filepath.IsAbs(o.LogDir) {
		return o, cli.Errorf(cli.BadConfig, "OTM_LOG_DIR %q is not absolute", o.LogDir)
	}
	return o, missingPrograms(o.Bin)
}

// cleanPath is a PATH without what depends on the working directory, and
// without what stands there twice.
func cleanPath(path, bin string) string {
	var dirs []string
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) && dir != bin && !slices.Contains(dirs, dir) && safe.Escape(dir) == dir {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return "/usr/local/bin:/usr/bin:/bin"
	}
	return strings.Join(dirs, string(os.PathListSeparator))
}

// programs are what must be in one folder: what units start, and what agents
// run.
var programs = []string{"otm", "otm-create", "otm-update", heartbeat.Injector, heartbeat.Dispatcher, heartbeat.Detector}

func missingPrograms(bin string) error {
	var missing []string
	for _, name := range programs {
		if info, err := os.Stat(filepath.Join(bin, name)); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return cli.Errorf(cli.Failed, "folder %q lacks %s: all six commands must be in one folder that stays", bin, strings.Join(missing, ", ")).
			Hint("go install ./cmd/... && \"$(go env GOPATH)/bin/otm\" install …")
	}
	return nil
}

// fitForUnits refuses a configuration that works in this shell only.
func (h *Home) fitForUnits(getenv func(string) string, o *unitOptions) error {
	c := h.Config
	type token struct {
		what, file, env, key string
		read                 func(func(string) string) (string, error)
		needed               bool
	}
	gateway := slices.ContainsFunc(c.Agents, func(a pipeline.Agent) bool { return !a.Person && a.Trigger == pipeline.TriggerGateway })
	for _, t := range []token{
		{"board", c.Slack.TokenFile, c.Slack.TokenEnv, "slack", c.SlackToken, c.Slack.ListID != ""},
		{"gateway", c.Gateway.TokenFile, c.Gateway.TokenEnv, "gateway", c.GatewayToken, gateway && (c.Gateway.TokenFile != "" || getenv(c.Gateway.TokenEnv) != "")},
	} {
		if !t.needed {
			continue
		}
		into := func(e *cli.Error, file string) error {
			return e.Hint("(umask 077; cat > %s)   # paste the token, then Enter and Ctrl-D", safe.Quote(file))
		}
		if t.file == "" {
			e := cli.Errorf(cli.BadConfig, "token of the %s: no file holds it, and a unit does not have the environment variable %s", t.what, t.env).
				Hint("token_file = \"secrets/%s\"   # in [%s] of otm.toml", t.key, t.key)
			return into(e, filepath.Join(h.Dir, "secrets", t.key))
		}
		value, err := t.read(getenv)
		if err == nil && value == "" {
			err = fmt.Errorf("file %q is empty", t.file)
		}
		if err != nil {
			return into(cli.Errorf(cli.Credentials, "token of the %s: %w", t.what, err), t.file)
		}
	}
	for _, name := range []string{"SLACK_API_URL", "OPENCLAW_GATEWAY_URL"} {
		if getenv(name) != "" {
			h.Warn("%s is set in this shell; the daemons will not have it: what they use stands in otm.toml", name)
		}
	}
	for _, a := range c.Agents {
		h.warnOfAgent(a, o)
	}
	return nil
}

// warnOfAgent says what the dispatcher would not find.
func (h *Home) warnOfAgent(a pipeline.Agent, o *unitOptions) {
	if a.Person {
		return
	}
	if info, err := os.Stat(a.Workspace); err != nil || !info.IsDir() {
		h.Warn("workspace %q of %s is no directory yet: make it, then run this again", a.Workspace, a.Name)
	}
	if a.Trigger != pipeline.TriggerExec || strings.ContainsRune(a.Command[0], '/') {
		return
	}
	for _, dir := range append([]string{o.Bin}, filepath.SplitList(o.Path)...) {
		if info, err := os.Stat(filepath.Join(dir, a.Command[0])); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return
		}
	}
	h.Warn("command %q of %s is in no folder of the PATH that the dispatcher will have: name it with its folder in otm.toml", a.Command[0], a.Name)
}

// installPlan is what is to be done.
type installPlan struct {
	units    []unitFile
	states   map[string]string    // of units, by name: new, changed or current
	restart  []string             // names of those that may run as they were before
	stop     []string             // names of those that ran as residents and are to run by timers, or the other way
	obsolete []string             // names of files that were ours, and are not needed
	written  map[string]time.Time // when those were whose text for the manager is the same
}

// plan compares what is there with what should be. Nothing is written where
// one file is not ours, or a daemon runs that they would collide with.
func (in *installer) plan(h *Home, o unitOptions, units []unitFile) (*installPlan, error) {
	p := &installPlan{units: units, states: map[string]string{}, written: map[string]time.Time{}}
	for _, u := range units {
		path := filepath.Join(in.folder, u.Name)
		found, err := readUnit(path)
		if err != nil {
			return nil, err
		}
		switch {
		case found == nil:
			p.states[u.Name] = "new"
			if err := in.notRunning(h, u); err != nil {
				return nil, err
			}
		case found.options == nil:
			return nil, cli.Errorf(cli.Failed, "%q was not written by otm install: it stays as it is", path).Hint("mv %s %s", safe.Quote(path), safe.Quote(path+".mine"))
		case found.options.Dir != h.Dir:
			return nil, cli.Errorf(cli.Failed, "%q is for the data directory %q: one installation at a time", path, found.options.Dir).
				Hint("otm install --%s%s --uninstall --dir %s", in.manager, userFlag(in.flags.user), safe.Quote(found.options.Dir))
		default:
			p.states[u.Name] = "changed"
			if string(found.data) == string(u.Data) {
				p.states[u.Name] = "current"
			}
			// It runs as it was before also where a run of ours came no further
			// than to write the file.
			if string(withoutMarker(found.data)) != string(withoutMarker(u.Data)) || h.startedBefore(u.Resident, found.written) {
				p.restart = append(p.restart, u.Name)
			} else {
				p.written[u.Name] = found.written
			}
			if found.options.resident(u.Name) != o.resident(u.Name) {
				p.stop = append(p.stop, u.Name)
			}
		}
	}
	if pid := h.upRuns(); pid != 0 && !o.Timers { // single runs wait their turn
		in.Warn("process %d is an otm up, beside which nothing of this starts: end it, then run this again: kill %d", pid, pid)
	}
	for _, name := range unitNames(in.manager) {
		if _, needed := p.states[name]; needed {
			continue
		}
		found, err := readUnit(filepath.Join(in.folder, name))
		if err != nil {
			return nil, err
		}
		if found != nil && found.options != nil && found.options.Dir == h.Dir {
			p.obsolete = append(p.obsolete, name)
		}
	}
	return p, nil
}

func userFlag(user bool) string {
	if user {
		return " --user"
	}
	return ""
}

// startedBefore tells whether a component runs that was started before a time:
// it wrote its pid into its lock then.
func (h *Home) startedBefore(id string, t time.Time) bool {
	if id == "" || t.After(h.Now()) { // a time to come says nothing
		return false
	}
	path := h.residents().path(id)
	info, err := os.Stat(path)
	if err != nil || !info.ModTime().Before(t) {
		return false
	}
	_, held := lock.Holder(path)
	return held
}

// upRuns is the process that keeps more than one component, which only otm up
// does; 0: none does.
func (h *Home) upRuns() int {
	one, injects := lock.Holder(h.residents().path(heartbeat.Injector))
	other, dispatches := lock.Holder(h.residents().path(heartbeat.Dispatcher))
	if !injects || !dispatches || one != other {
		return 0
	}
	return one
}

// notRunning refuses to start a daemon beside the same one.
func (in *installer) notRunning(h *Home, u unitFile) error {
	if u.Resident == "" {
		return nil
	}
	pid, held := lock.Holder(h.residents().path(u.Resident))
	if !held {
		return nil
	}
	e := &residentError{id: u.Resident, pid: pid}
	if in.flags.dryRun {
		in.Warn("%v: it must be stopped before", e)
		return nil
	}
	return cli.Errorf(cli.Locked, "%w: it must be stopped before, such as an otm up", e).Hint("kill %d", pid)
}

// makeLogDir makes the folder of the logs where it is not in the data
// directory: launchd makes files there, but no folders, and in the sandbox of
// systemd nothing can be made beside it.
func (in *installer) makeLogDir(dir string, acct account) error {
	if exists(dir) {
		return nil
	}
	// What it stands in and is not there becomes theirs too, or they could not
	// reach it.
	if err := in.makeLogDir(filepath.Dir(dir), acct); err != nil {
		return err
	}
	err := durable.Mkdir(dir)
	if err == nil && acct.uid != in.euid {
		err = os.Chown(dir, acct.uid, acct.gid)
	}
	if err != nil {
		os.Remove(dir) // else the next run would take it for theirs
	}
	return err
}

// supervised is the exit code for what runs us. launchd cannot tell codes
// apart and would start again for ever what no restart mends: it is told 0.
func supervised(s cli.Streams, code int) int {
	if s.Getenv(launchd.SupervisorEnv) != launchd.Supervisor || !slices.Contains(endsForGood, code) {
		return code
	}
	s.Note("exit code %d, told as 0: launchd would start it again and again, and that mends nothing", code)
	return cli.OK
}

// endsForGood are the codes of what a restart does not mend.
var endsForGood = []int{cli.NotInit, cli.Locked, cli.Credentials, cli.Usage, cli.BadConfig}
