// Package install writes the files by which systemd or launchd runs OTM for a
// user, has the services started, and removes the files again.
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
	"os/user"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/lock"
	"otm/internal/safe"
)

// flags are those of otm install.
type flags struct{ systemd, launchd, dryRun, uninstall, asJSON bool }

// Command is otm install. Its parent has the flag --dir.
func Command(s cli.Streams) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "install --systemd|--launchd",
		Short: "Let systemd or launchd run the services",
		Long: `Write the files by which your own systemd or launchd runs the injector, the
dispatcher, the completion detector and, unless a list is configured, the embedded
board, and start them. Run it again after you changed otm.toml: it renews stale
files and restarts the services. Agents work on. It never touches a file that it
did not write.`,
		Example: "  otm install --systemd\n  otm install --systemd --dry-run\n  otm install --systemd --uninstall",
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
	v.BoolVar(&f.dryRun, "dry-run", false, "print the files and commands, and do nothing")
	v.BoolVar(&f.uninstall, "uninstall", false, "stop the services and remove the files; data stays")
	v.BoolVar(&f.asJSON, "json", false, "print what was done as JSON")
	v.Bool("user", true, "your own systemd or launchd runs the services; always so")
	v.MarkHidden("user") // fails for an unknown flag only
	return c
}

// installer is one run of otm install.
type installer struct {
	cli.Streams
	flags
	manager   string
	folder    string // of the manager's files
	bin       string // the folder of the programs
	printOnly bool   // commands are printed and not run
	// call runs a program of the manager and returns its output.
	call   func(ctx context.Context, argv []string) ([]byte, error)
	pause  time.Duration // between attempts to hand a job to launchd
	report report
}

// report lists the files and commands of one run.
type report struct {
	Manager  string       `json:"manager"`
	DryRun   bool         `json:"dryRun"`
	Files    []doneFile   `json:"files"`
	Commands []ranCommand `json:"commands"`
}

type doneFile struct {
	Path   string `json:"path"`
	Action string `json:"action"`         // written, renewed, unchanged, removed
	Text   string `json:"text,omitempty"` // with --dry-run
}

type ranCommand struct {
	Command []string `json:"command"`
	Ran     bool     `json:"ran"`
}

func newInstaller(s cli.Streams, f flags) (*installer, error) {
	in := &installer{Streams: s, flags: f, manager: Systemd, bin: Folder(), pause: time.Second}
	if f.launchd {
		in.manager = Launchd
	}
	switch native := Native(); {
	case f.systemd == f.launchd:
		return nil, cli.Errorf(cli.Usage, "either --systemd or --launchd").Hint("otm install --%s", native)
	case in.manager != native && !f.dryRun:
		return nil, cli.Errorf(cli.Usage, "there is no %s here", in.manager).Hint("otm install --%s", native)
	}
	var err error
	if in.folder, err = folderOf(in.manager, s.Getenv); err != nil {
		return nil, err
	}
	program := map[string]string{Systemd: "systemctl", Launchd: "launchctl"}[in.manager]
	_, err = exec.LookPath(program)
	if in.printOnly = f.dryRun || err != nil; !f.dryRun && err != nil {
		in.Warn("%s is not here: nothing is started or stopped; run the following commands yourself", program)
	}
	in.call = func(ctx context.Context, argv []string) ([]byte, error) {
		return exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	}
	in.report = report{Manager: in.manager, DryRun: f.dryRun, Files: []doneFile{}, Commands: []ranCommand{}}
	return in, nil
}

// run checks everything before it writes or starts anything. To uninstall, neither
// the data directory nor its configuration needs to be there.
func (in *installer) run(ctx context.Context, dir string) error {
	var wanted []file
	if !in.uninstall {
		var err error
		if wanted, err = in.wanted(dir); err != nil {
			return err
		}
	}
	all, err := in.plan(dir, wanted)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		in.Note("there is nothing that otm install wrote for %q", dir)
		return nil
	}
	if err := in.carryOut(ctx, all); err != nil || in.uninstall || in.dryRun {
		return err
	}
	if me, err := user.Current(); err == nil && in.manager == Systemd && !exists(filepath.Join("/var/lib/systemd/linger", me.Username)) {
		in.Note("the services stop when your last session ends, unless you run: loginctl enable-linger")
	}
	return nil
}

// wanted returns the files that the configuration asks for.
func (in *installer) wanted(dir string) ([]file, error) {
	warning, err := config.CheckDir(dir)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		in.Warn("%s", warning)
	}
	o := Options{Manager: in.manager, Dir: dir, Bin: in.bin, Home: in.Getenv("HOME"), LogDir: in.Getenv("OTM_LOG_DIR")}
	if err := checkOwner(o); err != nil {
		return nil, err
	}
	c, err := config.Load(dir, o.getenv)
	if err != nil {
		return nil, err
	}
	if starts(c) {
		o.Path = cleanPath(in.Getenv("PATH"))
	}
	if o.LogDir != "" && !filepath.IsAbs(o.LogDir) {
		return nil, cli.Errorf(cli.BadConfig, "OTM_LOG_DIR %q is not absolute", o.LogDir)
	}
	if err := missingPrograms(o.Bin); err != nil {
		return nil, err
	}
	if err := fit(in.Streams, c); err != nil {
		return nil, err
	}
	files, err := render(o, c)
	if err != nil || in.dryRun {
		return files, err
	}
	// launchd makes no folders, and a service in a sandbox cannot make one.
	return files, durable.MkdirAll(o.LogFolder())
}

// checkOwner refuses a data directory of somebody else: services run as we do.
func checkOwner(o Options) error {
	info, err := durable.Stat(o.Dir)
	if err != nil {
		return err
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; int(uid) != os.Geteuid() {
		return cli.Errorf(cli.Usage, "data directory %q belongs to user %d, who must run this", o.Dir, uid).Hint("%s", o.Again())
	}
	return nil
}

// plan compares the wanted files with those in the folder. It refuses to replace a
// file of somebody else, and to start a service beside a process that does the same.
func (in *installer) plan(dir string, wanted []file) ([]compared, error) {
	found, err := readFolder(in.manager, in.folder)
	if err != nil {
		return nil, err
	}
	all := compare(found, dir, wanted)
	for _, c := range all {
		path, theirs := filepath.Join(in.folder, c.Name), found[c.Name]
		switch {
		case c.state == Missing:
			err = in.notRunning(dir, c.Component)
		case c.state == Foreign && theirs.options == nil:
			err = cli.Errorf(cli.Failed, "otm install did not write %q, and leaves it as it is", path).Hint("mv %s %s", safe.Quote(path), safe.Quote(path+".mine"))
		case c.state == Foreign:
			err = cli.Errorf(cli.Failed, "%q is for the data directory %q: one installation at a time", path, theirs.options.Dir).
				Hint("otm install --%s --uninstall --dir %s", in.manager, safe.Quote(theirs.options.Dir))
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// notRunning refuses to start a service beside a process that does the same.
func (in *installer) notRunning(dir, component string) error {
	pid, held := lock.Holder(heartbeat.ResidentLock(dir, component))
	if !held || in.dryRun {
		return nil
	}
	return cli.Errorf(cli.Locked, "%s is running already, as process %d: stop it before; it may be an otm up", component, pid).Hint("kill %d", pid)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// done reports a file that was handled.
func (in *installer) done(c compared) {
	action := map[State]string{Missing: "written", Stale: "renewed", Current: "unchanged", Obsolete: "removed"}[c.state]
	f := doneFile{Path: filepath.Join(in.folder, c.Name), Action: action}
	if in.dryRun {
		f.Text = string(c.Text)
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
