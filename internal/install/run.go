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
	"otm/pipeline"
)

// carryOut writes and removes the files, and has the services restarted.
// With --dry-run it prints what it would do.
func (in *installer) carryOut(ctx context.Context, all []compared) error {
	var stop, start []string
	for _, c := range all {
		if c.state == Obsolete {
			stop = append(stop, c.Name)
		} else {
			start = append(start, c.Name)
		}
	}
	if err := in.commands(ctx, in.toStop(stop)); err != nil {
		return err
	}
	for _, c := range all {
		if err := in.change(c); err != nil {
			return err
		}
		in.done(c)
	}
	return in.commands(ctx, in.toRestart(start))
}

// change writes or removes a file.
func (in *installer) change(c compared) error {
	path := filepath.Join(in.folder, c.Name)
	switch {
	case in.dryRun || c.state == Current:
		return nil
	case c.state == Obsolete:
		if err := durable.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return durable.SyncDir(in.folder)
	}
	if err := os.MkdirAll(in.folder, 0o755); err != nil {
		return err
	}
	return durable.ReplacePublic(path, c.Text)
}

// command is a command to the manager.
type command struct {
	argv   []string
	onlyIf []string // a question: the command is run if it ends with 0; nil: always
	tries  int      // as often, with a pause in between; 0: once
}

// bootstrapTries is how often a job is handed to launchd: while the former job of
// that name is ending, launchd refuses.
const bootstrapTries = 10

// toStop lists the commands that stop services and forget them.
func (in *installer) toStop(names []string) []command {
	if len(names) == 0 {
		return nil
	}
	if in.manager == Systemd {
		return []command{{argv: append([]string{"systemctl", "--user", "disable", "--now"}, names...)}}
	}
	return pipeline.Map(names, bootOut)
}

// toRestart lists the commands that have a manager read the files again and
// restart the services. systemd starts no unit that failed too often, and goes on
// listing one whose file is gone, until that is reset. launchd reads a file once.
func (in *installer) toRestart(names []string) []command {
	if in.manager == Systemd {
		all := []command{
			{argv: []string{"systemctl", "--user", "daemon-reload"}},
			{argv: []string{"systemctl", "--user", "reset-failed", "otm-*.service"}},
		}
		if len(names) > 0 {
			all = append(all, command{argv: append([]string{"systemctl", "--user", "enable"}, names...)},
				command{argv: append([]string{"systemctl", "--user", "restart"}, names...)})
		}
		return all
	}
	var all []command
	for _, name := range names {
		all = append(all, bootOut(name), command{argv: []string{"launchctl", "enable", job(name)}},
			command{argv: []string{"launchctl", "bootstrap", domain(), filepath.Join(in.folder, name)}, tries: bootstrapTries})
	}
	return all
}

// bootOut has launchd stop and forget a job that it knows.
func bootOut(name string) command {
	return command{argv: []string{"launchctl", "bootout", job(name)}, onlyIf: []string{"launchctl", "print", job(name)}}
}

// domain is where launchd keeps a user's jobs.
func domain() string { return "gui/" + strconv.Itoa(os.Geteuid()) }

func job(name string) string { return domain() + "/" + strings.TrimSuffix(name, ".plist") }

// commands runs commands of the manager, or prints them.
func (in *installer) commands(ctx context.Context, all []command) error {
	for _, c := range all {
		if !in.printOnly && c.onlyIf != nil {
			if _, err := in.call(ctx, c.onlyIf); err != nil {
				continue
			}
		}
		err := in.command(ctx, c.argv)
		for try := 1; err != nil && try < c.tries && ctx.Err() == nil; try++ {
			select {
			case <-ctx.Done():
			case <-time.After(in.pause):
				err = in.command(ctx, c.argv)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (in *installer) command(ctx context.Context, argv []string) error {
	shown := shellLine(argv)
	in.report.Commands = append(in.report.Commands, ranCommand{Command: argv, Ran: !in.printOnly})
	if !in.asJSON {
		fmt.Fprintln(in.Out, "$ "+safe.Escape(shown))
	}
	if in.printOnly {
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

func shellLine(argv []string) string { return strings.Join(pipeline.Map(argv, safe.Quote), " ") }

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
