package app

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

// noteFile tells what was done with a file.
func (in *installer) noteFile(name, action string, text []byte) {
	path := filepath.Join(in.folder, name)
	f := installedFile{Path: path, Action: action}
	if in.flags.dryRun {
		f.Text = string(text)
	}
	in.report.Files = append(in.report.Files, f)
	if in.flags.asJSON {
		return
	}
	if in.flags.dryRun {
		action = "would be " + action + ":"
	}
	fmt.Fprintf(in.Out, "%s %s\n", action, safe.Escape(path))
	if f.Text != "" {
		fmt.Fprintln(in.Out, f.Text)
	}
}

var actions = map[string]string{"new": "written", "changed": "renewed", "current": "unchanged"}

// rehearse prints what carryOut would do.
func (in *installer) rehearse(ctx context.Context, p *installPlan, acct account) error {
	for _, u := range p.units {
		in.noteFile(u.Name, actions[p.states[u.Name]], u.Data)
	}
	in.call = nil // nothing is run, and nobody is asked
	in.dismiss(ctx, append(slices.Clone(p.obsolete), p.stop...), acct)
	for _, name := range p.obsolete {
		in.noteFile(name, "removed", nil)
	}
	return in.start(ctx, p, acct)
}

// carryOut makes the files what they should be, and has them started.
func (in *installer) carryOut(ctx context.Context, p *installPlan, acct account) error {
	in.reach(ctx)
	if err := in.dismiss(ctx, p.stop, acct); err != nil {
		return err
	}
	if err := in.remove(ctx, p.obsolete, acct); err != nil {
		return err
	}
	if err := os.MkdirAll(in.folder, 0o755); err != nil {
		return err
	}
	for _, u := range p.units {
		state := p.states[u.Name]
		if state != "current" {
			path := filepath.Join(in.folder, u.Name)
			if err := durable.ReplacePublic(path, u.Data); err != nil {
				return err
			}
			if at, ok := p.written[u.Name]; ok && !at.After(time.Now()) {
				os.Chtimes(path, at, at) // else the next run starts it anew, to no end
			}
		}
		in.noteFile(u.Name, actions[state], nil)
	}
	if err := in.start(ctx, p, acct); err != nil {
		return err
	}
	in.hintLinger(acct)
	return nil
}

// reach finds out whether the manager can be spoken to. Where it cannot, its
// commands are printed instead of run.
func (in *installer) reach(ctx context.Context) {
	why := in.program() + " is not here"
	if in.call != nil && in.manager == bySystemd {
		out, err := in.call(ctx, in.systemctl("show", "--property=Version"))
		if err == nil {
			return
		}
		why = strings.TrimSpace(string(out))
		in.call = nil
	}
	if in.call == nil {
		in.Warn("%s: nothing is started or stopped; where it can be, run what follows", why)
	}
}

// run runs a command of the manager, or prints it where there is none.
func (in *installer) run(ctx context.Context, argv []string) error {
	shown := shellLine(argv)
	in.report.Commands = append(in.report.Commands, managerCommand{Command: argv, Ran: in.call != nil})
	if !in.flags.asJSON {
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

func shellLine(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = safe.Quote(arg)
	}
	return strings.Join(words, " ")
}

// says asks the manager something that is answered by an exit code.
func (in *installer) says(ctx context.Context, argv []string) bool {
	if in.call == nil {
		return false
	}
	_, err := in.call(ctx, argv)
	return err == nil
}

func (in *installer) systemctl(args ...string) []string {
	if in.flags.user {
		return append([]string{"systemctl", "--user"}, args...)
	}
	return append([]string{"systemctl"}, args...)
}

// start has everything started that is to run, and what was changed restarted.
func (in *installer) start(ctx context.Context, p *installPlan, acct account) error {
	if in.manager == byLaunchd {
		return in.startJobs(ctx, p, acct)
	}
	var enable, changed []string
	for _, u := range p.units {
		if !u.Enable {
			continue // started by its timer
		}
		enable = append(enable, u.Name)
		if slices.Contains(p.restart, u.Name) {
			changed = append(changed, u.Name)
		}
	}
	if err := in.run(ctx, in.systemctl("daemon-reload")); err != nil {
		return err
	}
	if in.says(ctx, in.systemctl(append([]string{"is-failed", "--quiet"}, enable...)...)) {
		// Or what failed too often before could not be started.
		if err := in.run(ctx, in.systemctl(append([]string{"reset-failed"}, enable...)...)); err != nil {
			return err
		}
	}
	if len(changed) > 0 {
		if err := in.run(ctx, in.systemctl(append([]string{"try-restart"}, changed...)...)); err != nil {
			return err
		}
	}
	return in.run(ctx, in.systemctl(append([]string{"enable", "--now"}, enable...)...))
}

// remove stops and removes files of ours.
func (in *installer) remove(ctx context.Context, names []string, acct account) error {
	if len(names) == 0 {
		return nil
	}
	if err := in.dismiss(ctx, names, acct); err != nil {
		return err
	}
	for _, name := range names {
		if err := durable.Remove(filepath.Join(in.folder, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		in.unlinkWants(name)
		in.noteFile(name, "removed", nil)
	}
	return durable.SyncDir(in.folder)
}

// unlinkWants removes what enabling a unit left, where systemctl could not.
func (in *installer) unlinkWants(name string) {
	links, _ := filepath.Glob(filepath.Join(globQuote(in.folder), "*.wants", name))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && filepath.Base(target) == name {
			os.Remove(link) // else systemd complains about it, and goes on
		}
	}
}

// globQuote makes a path stand for itself in a pattern.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// dismiss has files of ours stopped and forgotten.
func (in *installer) dismiss(ctx context.Context, names []string, acct account) error {
	switch {
	case len(names) == 0:
		return nil
	case in.manager == bySystemd:
		return in.run(ctx, in.systemctl(append([]string{"disable", "--now"}, names...)...))
	}
	for _, name := range names {
		if err := in.bootOut(ctx, in.domain(acct), strings.TrimSuffix(name, ".plist")); err != nil {
			return err
		}
	}
	return nil
}

// domain is where launchd keeps the jobs.
func (in *installer) domain(acct account) string {
	if in.flags.user {
		return "gui/" + strconv.Itoa(acct.uid)
	}
	return "system"
}

// bootOut has launchd forget a job. One that it does not know is forgotten.
func (in *installer) bootOut(ctx context.Context, domain, label string) error {
	if in.call != nil && !in.says(ctx, []string{"launchctl", "print", domain + "/" + label}) {
		return nil
	}
	return in.run(ctx, []string{"launchctl", "bootout", domain + "/" + label})
}

// bootstrapTries is how often a job is handed to launchd, with a pause between: one
// that was just forgotten may still be ending, and then it is refused.
const bootstrapTries = 10

// startJobs hands the jobs to launchd. It reads a file once: what was changed
// is forgotten first.
func (in *installer) startJobs(ctx context.Context, p *installPlan, acct account) error {
	domain := in.domain(acct)
	for _, u := range p.units {
		label := strings.TrimSuffix(u.Name, ".plist")
		known := in.says(ctx, []string{"launchctl", "print", domain + "/" + label})
		if slices.Contains(p.restart, u.Name) && (known || in.call == nil) {
			if err := in.run(ctx, []string{"launchctl", "bootout", domain + "/" + label}); err != nil {
				return err
			}
			known = false
		}
		if known {
			if u.Resident != "" { // it may have ended for good
				if err := in.run(ctx, []string{"launchctl", "kickstart", domain + "/" + label}); err != nil {
					return err
				}
			}
			continue
		}
		if err := in.run(ctx, []string{"launchctl", "enable", domain + "/" + label}); err != nil {
			return err
		}
		if err := in.bootstrap(ctx, domain, filepath.Join(in.folder, u.Name)); err != nil {
			return err
		}
	}
	return nil
}

func (in *installer) bootstrap(ctx context.Context, domain, path string) error {
	argv := []string{"launchctl", "bootstrap", domain, path}
	for try := 1; ; try++ {
		err := in.run(ctx, argv)
		if err == nil || try == bootstrapTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(in.pause):
		}
	}
}

// hintLinger says how a user's daemons stay when the user does not.
func (in *installer) hintLinger(acct account) {
	if in.manager == bySystemd && in.flags.user && !exists(filepath.Join("/var/lib/systemd/linger", acct.name)) {
		in.Note("the daemons stop when you log out of your last session, unless you run: loginctl enable-linger %s", safe.Quote(acct.name))
	}
}

// uninstall removes the files that we wrote for a data directory, and nothing
// else. Neither the directory nor its configuration needs to be there.
func (in *installer) uninstall(ctx context.Context, dir string) error {
	if !in.flags.user && in.euid != 0 && !in.flags.dryRun {
		return cli.Errorf(cli.Usage, "only root can remove from %q", in.folder).Hint("sudo otm install --%s --uninstall --dir %s", in.manager, safe.Quote(dir))
	}
	var ours []string
	for _, name := range unitNames(in.manager) {
		path := filepath.Join(in.folder, name)
		found, err := readUnit(path)
		switch {
		case err != nil:
			return err
		case found == nil:
		case found.options == nil:
			in.Warn("%q was not written by otm install: it stays", path)
			in.noteFile(name, "kept", nil)
		case found.options.Dir != dir:
			in.Warn("%q is for the data directory %q: it stays", path, found.options.Dir)
			in.noteFile(name, "kept", nil)
		default:
			ours = append(ours, name)
		}
	}
	if len(ours) == 0 {
		in.Note("there is nothing that otm install wrote for %q", dir)
		return nil
	}
	acct := account{uid: in.euid}
	if in.flags.dryRun {
		in.call = nil
		in.dismiss(ctx, ours, acct)
		for _, name := range ours {
			in.noteFile(name, "removed", nil)
		}
		return nil
	}
	in.reach(ctx)
	failed := in.failed(ctx, ours)
	if err := in.remove(ctx, ours, acct); err != nil {
		return err
	}
	if in.manager == byLaunchd {
		return nil
	}
	if err := in.run(ctx, in.systemctl("daemon-reload")); err != nil {
		return err
	}
	if len(failed) > 0 {
		return in.run(ctx, in.systemctl(append([]string{"reset-failed"}, failed...)...))
	}
	return nil
}

// failed are the units that systemd would go on listing as failed.
func (in *installer) failed(ctx context.Context, names []string) []string {
	if in.manager != bySystemd {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !in.says(ctx, in.systemctl("is-failed", "--quiet", name))
	})
}
