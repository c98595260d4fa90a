package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"otm/internal/cli"
	"otm/internal/durable"
	"otm/internal/safe"
)

// carryOut makes the files what they should be and has the services started.
// With --dry-run it prints what it would do.
func (in *installer) carryOut(ctx context.Context, p *plan, owner account) error {
	if in.dryRun {
		in.call = nil
	} else {
		in.reach(ctx)
	}
	failed := in.failedUnits(ctx, p.obsolete)
	if err := in.stop(ctx, p.stop, owner); err != nil {
		return err
	}
	if err := in.removeFiles(ctx, p.obsolete, owner); err != nil {
		return err
	}
	for _, f := range p.files {
		if !in.dryRun && f.action != "unchanged" {
			if err := in.write(f); err != nil {
				return err
			}
		}
		in.done(f.Name, f.action, f.Text)
	}
	if in.manager == Launchd {
		return in.startJobs(ctx, p, owner)
	}
	return in.startUnits(ctx, p, failed)
}

func (in *installer) write(f planned) error {
	if err := os.MkdirAll(in.folder, 0o755); err != nil {
		return err
	}
	return durable.ReplacePublic(filepath.Join(in.folder, f.Name), f.Text)
}

// makeLogDir makes the folder of the logs if it is outside the data directory:
// launchd makes no folders, and a service in a sandbox cannot make one. Folders
// that are made belong to the services' account.
func (in *installer) makeLogDir(dir string, owner account) error {
	if dir == "" || exists(dir) {
		return nil
	}
	if err := in.makeLogDir(filepath.Dir(dir), owner); err != nil {
		return err
	}
	err := durable.Mkdir(dir)
	if err == nil && owner.uid != in.euid {
		err = os.Chown(dir, owner.uid, owner.gid)
	}
	if err != nil {
		os.Remove(dir) // else the next run would leave it to another owner
	}
	return err
}

// planRemoval lists the files of a data directory. Neither the directory nor its
// configuration needs to be there.
func (in *installer) planRemoval(dir string) (*plan, error) {
	if !in.user && in.euid != 0 && !in.dryRun {
		return nil, cli.Errorf(cli.Usage, "only root can remove from %q", in.folder).Hint("sudo otm install --%s --uninstall --dir %s", in.manager, safe.Quote(dir))
	}
	p := &plan{}
	for _, name := range fileNames(in.manager) {
		path := filepath.Join(in.folder, name)
		found, err := readFile(path)
		switch {
		case err != nil:
			return nil, err
		case found == nil:
			continue
		case found.ours(dir):
			p.obsolete = append(p.obsolete, name)
			continue
		case found.options == nil:
			in.Warn("otm install did not write %q: it stays", path)
		default:
			in.Warn("%q is for the data directory %q: it stays", path, found.options.Dir)
		}
		in.done(name, "kept", nil)
	}
	if len(p.obsolete) == 0 {
		in.Note("there is nothing that otm install wrote for %q", dir)
	}
	return p, nil
}

// failedUnits returns the units that systemd would go on listing as failed.
func (in *installer) failedUnits(ctx context.Context, names []string) []string {
	if in.manager != Systemd {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !in.ask(ctx, in.systemctl("is-failed", "--quiet", name))
	})
}

// removeFiles stops services and removes their files.
func (in *installer) removeFiles(ctx context.Context, names []string, owner account) error {
	if err := in.stop(ctx, names, owner); err != nil || len(names) == 0 {
		return err
	}
	for _, name := range names {
		if !in.dryRun {
			if err := durable.Remove(filepath.Join(in.folder, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			in.unlink(name)
		}
		in.done(name, "removed", nil)
	}
	if in.dryRun {
		return nil
	}
	return durable.SyncDir(in.folder)
}

// unlink removes the links of an enabled unit if systemctl could not.
func (in *installer) unlink(name string) {
	entries, _ := os.ReadDir(in.folder)
	for _, e := range entries {
		link := filepath.Join(in.folder, e.Name(), name)
		if target, err := os.Readlink(link); err == nil && strings.HasSuffix(e.Name(), ".wants") && filepath.Base(target) == name {
			os.Remove(link) // if it stays, systemd complains and goes on
		}
	}
}

// program is the program by which one speaks to the manager.
func (in *installer) program() string {
	if in.manager == Launchd {
		return "launchctl"
	}
	return "systemctl"
}

// reach finds out whether the manager answers. If not, its commands are printed
// instead of run.
func (in *installer) reach(ctx context.Context) {
	why := in.program() + " is not here"
	if in.call != nil && in.manager == Systemd {
		out, err := in.call(ctx, in.systemctl("show", "--property=Version"))
		if err == nil {
			return
		}
		why, in.call = strings.TrimSpace(string(out)), nil
	}
	if in.call == nil {
		in.Warn("%s: nothing is started or stopped; run the following commands yourself", why)
	}
}

// command runs a command of the manager, or only prints it if the manager cannot
// be reached.
func (in *installer) command(ctx context.Context, argv []string) error {
	shown := shellLine(argv)
	in.report.Commands = append(in.report.Commands, ranCommand{Command: argv, Ran: in.call != nil})
	if !in.asJSON {
		fmt.Fprintln(in.Out, "$ "+safe.Escape(shown))
	}
	if in.call == nil {
		return nil
	}
	out, err := in.call(ctx, argv)
	if err != nil {
		for line := range strings.Lines(string(out)) {
			fmt.Fprintln(in.Err, safe.Escape(strings.TrimRight(line, "\n")))
		}
		return cli.Errorf(cli.Failed, "%s: %w", shown, err).Hint("%s", shown)
	}
	return nil
}

// ask runs a command that answers by its exit code.
func (in *installer) ask(ctx context.Context, argv []string) bool {
	if in.call == nil {
		return false
	}
	_, err := in.call(ctx, argv)
	return err == nil
}

func (in *installer) systemctl(verb string, args ...string) []string {
	argv := []string{"systemctl", verb}
	if in.user {
		argv = []string{"systemctl", "--user", verb}
	}
	return append(argv, args...)
}

// startUnits has systemd read the files again, start what is to run and restart
// what has changed. failed are removed units that it would go on listing.
func (in *installer) startUnits(ctx context.Context, p *plan, failed []string) error {
	var enable, changed []string
	for _, f := range p.files {
		if f.Enable {
			enable = append(enable, f.Name)
			if f.restart {
				changed = append(changed, f.Name)
			}
		}
	}
	lines := [][]string{in.systemctl("daemon-reload")}
	if len(enable) > 0 && in.ask(ctx, in.systemctl("is-failed", append([]string{"--quiet"}, enable...)...)) {
		failed = append(failed, enable...) // systemd starts no unit that failed too often
	}
	if len(failed) > 0 {
		lines = append(lines, in.systemctl("reset-failed", failed...))
	}
	if len(changed) > 0 {
		lines = append(lines, in.systemctl("try-restart", changed...))
	}
	if len(enable) > 0 {
		lines = append(lines, in.systemctl("enable", append([]string{"--now"}, enable...)...))
	}
	for _, argv := range lines {
		if err := in.command(ctx, argv); err != nil {
			return err
		}
	}
	return nil
}

// stop has services stopped and forgotten.
func (in *installer) stop(ctx context.Context, names []string, owner account) error {
	if len(names) == 0 {
		return nil
	}
	if in.manager == Systemd {
		return in.command(ctx, in.systemctl("disable", append([]string{"--now"}, names...)...))
	}
	for _, name := range names {
		job := in.job(name, owner)
		if in.call != nil && !in.ask(ctx, []string{"launchctl", "print", job}) {
			continue // launchd does not know it
		}
		if err := in.command(ctx, []string{"launchctl", "bootout", job}); err != nil {
			return err
		}
	}
	return nil
}

// domain is where launchd keeps the jobs.
func (in *installer) domain(owner account) string {
	if in.user {
		return "gui/" + strconv.Itoa(owner.uid)
	}
	return "system"
}

func (in *installer) job(name string, owner account) string {
	return in.domain(owner) + "/" + strings.TrimSuffix(name, ".plist")
}

// startJobs hands the jobs to launchd, which reads a file once: a job whose file
// has changed is removed from launchd first.
func (in *installer) startJobs(ctx context.Context, p *plan, owner account) error {
	for _, f := range p.files {
		job := in.job(f.Name, owner)
		var lines [][]string
		known := in.ask(ctx, []string{"launchctl", "print", job})
		if f.restart && (known || in.call == nil) {
			lines, known = append(lines, []string{"launchctl", "bootout", job}), false
		}
		switch {
		case !known:
			lines = append(lines, []string{"launchctl", "enable", job}, []string{"launchctl", "bootstrap", in.domain(owner), filepath.Join(in.folder, f.Name)})
		case f.Component != "": // it may have ended for good
			lines = append(lines, []string{"launchctl", "kickstart", job})
		}
		for _, argv := range lines {
			if err := in.commandAgain(ctx, argv); err != nil {
				return err
			}
		}
	}
	return nil
}

// bootstrapTries is how often a job is handed to launchd: while the former job of
// that name is ending, launchd refuses.
const bootstrapTries = 10

func (in *installer) commandAgain(ctx context.Context, argv []string) error {
	for try := 1; ; try++ {
		err := in.command(ctx, argv)
		if err == nil || argv[1] != "bootstrap" || try == bootstrapTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(in.pause):
		}
	}
}

// SupervisorEnv tells a program what runs it, where that is launchd.
const SupervisorEnv = "OTM_SUPERVISOR"

// Supervised returns the exit code for the manager that runs us. launchd cannot
// tell exit codes apart and restarts after each failure: it gets 0 where a
// restart would not help.
func Supervised(s cli.Streams, code int) int {
	if s.Getenv(SupervisorEnv) != Launchd || !slices.Contains(endsForGood, code) {
		return code
	}
	s.Note("exit code %d, reported as 0: launchd would restart this again and again, which does not help", code)
	return cli.OK
}

// endsForGood are the exit codes after which a restart does not help.
var endsForGood = []int{cli.NotInit, cli.Locked, cli.Credentials, cli.Usage, cli.BadConfig}
