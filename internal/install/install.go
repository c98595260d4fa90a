// Package install writes the files by which systemd or launchd runs OTM, has
// the services started, and removes the files again.
//
// services.go lists what runs and renders a file for each service. The marker
// line of a file holds the options that it was rendered with: the package never
// changes a file without that line, or one of another data directory.
package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/lock"
	"otm/internal/safe"
)

// flags are those of otm install.
type flags struct {
	systemd, launchd, user, timers bool
	dryRun, uninstall, asJSON      bool
}

// Command is otm install. Its parent has the flag --dir.
func Command(s cli.Streams) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "install --systemd|--launchd",
		Short: "Let systemd or launchd run the services",
		Long: `Write the files by which systemd or launchd runs the injector, the dispatcher,
the completion detector and, unless a list is configured, the embedded board, and
start them. Run it again after you changed otm.toml: it renews stale files and
leaves the others alone. It never touches a file that it did not write.

Without --user it needs root, and the services run as the owner of the data
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
			err = in.run(c.Context(), dir)
			if f.asJSON && (err == nil || len(in.report.Files) > 0) {
				return errors.Join(err, safe.EncodeJSON(s.Out, in.report))
			}
			return err
		},
	}
	v := c.Flags()
	v.BoolVar(&f.systemd, "systemd", false, "write units of systemd")
	v.BoolVar(&f.launchd, "launchd", false, "write jobs of launchd")
	v.BoolVar(&f.user, "user", false, "let your own systemd or launchd run the services, not the system's")
	v.BoolVar(&f.timers, "timers", false, "make single runs by the clock instead of staying in memory")
	v.BoolVar(&f.dryRun, "dry-run", false, "print the files and commands, and do nothing")
	v.BoolVar(&f.uninstall, "uninstall", false, "stop the services and remove the files; data stays")
	v.BoolVar(&f.asJSON, "json", false, "print what was done as JSON")
	return c
}

// installer is one run of otm install.
type installer struct {
	cli.Streams
	flags
	manager string
	folder  string // of the manager's files
	euid    int
	bin     string // the folder of the programs
	// call runs a program of the manager and returns its output; nil: commands
	// are printed and not run.
	call   func(ctx context.Context, argv []string) ([]byte, error)
	pause  time.Duration // between attempts to hand a job to launchd
	report report
}

// report is what was done.
type report struct {
	Manager  string       `json:"manager"`
	User     bool         `json:"user"`
	Timers   bool         `json:"timers"`
	DryRun   bool         `json:"dryRun"`
	Files    []doneFile   `json:"files"`
	Commands []ranCommand `json:"commands"`
}

type doneFile struct {
	Path   string `json:"path"`
	Action string `json:"action"`         // written, renewed, unchanged, removed, kept
	Text   string `json:"text,omitempty"` // with --dry-run
}

type ranCommand struct {
	Command []string `json:"command"`
	Ran     bool     `json:"ran"`
}

func newInstaller(s cli.Streams, f flags) (*installer, error) {
	in := &installer{Streams: s, flags: f, manager: Systemd, euid: os.Geteuid(), bin: Folder(), pause: time.Second}
	if f.launchd {
		in.manager = Launchd
	}
	switch native := Native(); {
	case f.systemd == f.launchd:
		return nil, cli.Errorf(cli.Usage, "either --systemd or --launchd").Hint("otm install --%s --user", native)
	case in.manager != native && !f.dryRun:
		return nil, cli.Errorf(cli.Usage, "there is no %s here", in.manager).Hint("otm install --%s --user", native)
	}
	var err error
	if in.folder, err = folderOf(in.manager, f.user, s.Getenv); err != nil {
		return nil, err
	}
	if program, err := exec.LookPath(in.program()); err == nil {
		in.call = func(ctx context.Context, argv []string) ([]byte, error) {
			return exec.CommandContext(ctx, program, argv[1:]...).CombinedOutput()
		}
	}
	in.report = report{Manager: in.manager, User: f.user, Timers: f.timers, DryRun: f.dryRun, Files: []doneFile{}, Commands: []ranCommand{}}
	return in, nil
}

func (in *installer) run(ctx context.Context, dir string) error {
	if in.uninstall {
		p, err := in.planRemoval(dir)
		if err != nil || len(p.obsolete) == 0 {
			return err
		}
		return in.carryOut(ctx, p, account{uid: in.euid})
	}
	p, owner, err := in.prepare(dir)
	if err != nil {
		return err
	}
	if !in.dryRun {
		if err := in.makeLogDir(p.logDir, owner); err != nil {
			return err
		}
	}
	if err := in.carryOut(ctx, p, owner); err != nil {
		return err
	}
	if in.manager == Systemd && in.user && !in.dryRun && !exists(filepath.Join("/var/lib/systemd/linger", owner.name)) {
		in.Note("the services stop when your last session ends, unless you run: loginctl enable-linger %s", safe.Quote(owner.name))
	}
	return nil
}

// prepare checks everything and decides what to do. It writes nothing.
func (in *installer) prepare(dir string) (*plan, account, error) {
	owner, err := in.mayRun(dir)
	if err != nil {
		return nil, owner, err
	}
	getenv := serviceEnv(in.Getenv, owner.home)
	c, err := config.Load(dir, getenv)
	if err != nil {
		return nil, owner, err
	}
	o := Options{Manager: in.manager, User: in.user, Timers: in.timers, Dir: dir, Bin: in.bin, Home: owner.home, LogDir: getenv("OTM_LOG_DIR")}
	if startsAgents(c) {
		o.Path = cleanPath(in.Getenv("PATH"), o.Bin)
	}
	if o.LogDir != "" && !filepath.IsAbs(o.LogDir) {
		return nil, owner, cli.Errorf(cli.BadConfig, "OTM_LOG_DIR %q is not absolute", o.LogDir)
	}
	if err := missingPrograms(o.Bin); err != nil {
		return nil, owner, err
	}
	if err := fit(in.Streams, c, o); err != nil {
		return nil, owner, err
	}
	files, err := render(o, c)
	if err != nil {
		return nil, owner, err
	}
	p, err := in.plan(o, files)
	return p, owner, err
}

// mayRun checks that the data directory is one and that we may install services
// for it. It returns the account that the services run as.
func (in *installer) mayRun(dir string) (account, error) {
	warning, err := config.CheckDir(dir)
	if errors.Is(err, config.ErrNotInitialised) && !in.user {
		return account{}, cli.Errorf(cli.NotInit, "%w", err).Hint("root's own directory is another: otm install --%s --dir /where/the/data/is", in.manager)
	}
	if err != nil {
		return account{}, err
	}
	if warning != "" {
		in.Warn("%s", warning)
	}
	owner, err := ownerOf(dir)
	if err != nil {
		return owner, err
	}
	o := Options{Manager: in.manager, Timers: in.timers, Dir: dir}
	own := o
	own.User = true
	switch {
	case in.user && owner.uid != in.euid:
		return owner, cli.Errorf(cli.Usage, "data directory %q belongs to %s: with --user its owner must run this", dir, owner.name).Hint("%s", o.Again())
	case !in.user && in.euid != 0 && !in.dryRun:
		return owner, cli.Errorf(cli.Usage, "only root can write to %q", in.folder).Hint("%s", o.Again()).Hint("%s", own.Again())
	case !in.user && owner.uid == 0:
		in.Warn("data directory %q belongs to root: the services will run as root", dir)
	}
	if in.user && in.Getenv("HOME") != "" {
		owner.home = in.Getenv("HOME")
	}
	return owner, nil
}

// plan is what is to be done.
type plan struct {
	files    []planned
	stop     []string // files whose service becomes single runs, or a resident
	obsolete []string // files of ours that are no longer needed
	logDir   string   // to be made before; "": none
}

// planned is a file with what is to be done about it.
type planned struct {
	file
	action  string // written, renewed or unchanged
	restart bool   // the service may run by a former text
}

// plan compares the files with those that stand in the folder.
func (in *installer) plan(o Options, files []file) (*plan, error) {
	p := &plan{logDir: o.LogDir}
	if p.logDir == "" && in.manager == Launchd {
		p.logDir = o.LogFolder()
	}
	for _, f := range files {
		found, err := readFile(filepath.Join(in.folder, f.Name))
		if err != nil {
			return nil, err
		}
		one, err := in.planFile(o, f, found)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, one)
		if found != nil && found.options.component(f.Name) != f.Component {
			p.stop = append(p.stop, f.Name)
		}
	}
	if pid := runsUp(o.Dir); pid != 0 && !o.Timers { // single runs wait their turn
		in.Warn("process %d is an otm up: services do not start beside it; end it, then run this again: kill %[1]d", pid)
	}
	for _, name := range fileNames(in.manager) {
		if slices.ContainsFunc(files, func(f file) bool { return f.Name == name }) {
			continue
		}
		found, err := readFile(filepath.Join(in.folder, name))
		if err != nil {
			return nil, err
		}
		if found.ours(o.Dir) {
			p.obsolete = append(p.obsolete, name)
		}
	}
	return p, nil
}

// planFile decides about one file. It refuses to replace a file of somebody
// else, and to start a service beside a process that does the same.
func (in *installer) planFile(o Options, f file, found *foundFile) (planned, error) {
	path := filepath.Join(in.folder, f.Name)
	one := planned{file: f, action: "renewed"}
	switch {
	case found == nil:
		one.action = "written"
		return one, in.notRunning(o.Dir, f.Component)
	case found.options == nil:
		return one, cli.Errorf(cli.Failed, "otm install did not write %q, and leaves it as it is", path).Hint("mv %s %s", safe.Quote(path), safe.Quote(path+".mine"))
	case found.options.Dir != o.Dir:
		return one, cli.Errorf(cli.Failed, "%q is for the data directory %q: one installation at a time", path, found.options.Dir).
			Hint("otm install --%s%s --uninstall --dir %s", in.manager, userFlag(in.user), safe.Quote(found.options.Dir))
	case string(found.text) == string(f.Text):
		one.action = "unchanged"
	}
	// A former run may have been killed between writing the file and the restart.
	one.restart = one.action == "renewed" || startedBefore(o.Dir, f.Component, found.written)
	return one, nil
}

// startedBefore reports whether the process that keeps a component running
// started before t: it wrote its pid into its lock then.
func startedBefore(dir, component string, t time.Time) bool {
	if component == "" || t.After(time.Now()) { // a time in the future says nothing
		return false
	}
	path := heartbeat.ResidentLock(dir, component)
	info, err := os.Stat(path)
	if err != nil || !info.ModTime().Before(t) {
		return false
	}
	_, held := lock.Holder(path)
	return held
}

// runsUp returns the process that keeps more than one component running, which
// only otm up does; 0 if there is none.
func runsUp(dir string) int {
	one, injects := lock.Holder(heartbeat.ResidentLock(dir, heartbeat.Injector))
	other, dispatches := lock.Holder(heartbeat.ResidentLock(dir, heartbeat.Dispatcher))
	if !injects || !dispatches || one != other {
		return 0
	}
	return one
}

// notRunning refuses to start a service beside a process that does the same.
func (in *installer) notRunning(dir, component string) error {
	if component == "" {
		return nil
	}
	pid, held := lock.Holder(heartbeat.ResidentLock(dir, component))
	switch {
	case !held:
		return nil
	case in.dryRun:
		in.Warn("%s is running already, as process %d: it must be stopped before", component, pid)
		return nil
	}
	return cli.Errorf(cli.Locked, "%s is running already, as process %d: stop it before; it may be an otm up", component, pid).Hint("kill %d", pid)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// done reports what was done with a file.
func (in *installer) done(name, action string, text []byte) {
	f := doneFile{Path: filepath.Join(in.folder, name), Action: action}
	if in.dryRun {
		f.Text = string(text)
		action = "would be " + action + ":"
	}
	in.report.Files = append(in.report.Files, f)
	if in.asJSON {
		return
	}
	fmt.Fprintf(in.Out, "%s %s\n", action, safe.Escape(f.Path))
	if f.Text != "" {
		fmt.Fprintln(in.Out, f.Text)
	}
}
