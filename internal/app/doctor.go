package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/internal/view"
)

// finding is what one check found, as otm doctor --json prints it.
type finding struct {
	Check string        `json:"check"`
	Level explain.Level `json:"level"`
	Text  string        `json:"text"`
	Hint  string        `json:"hint,omitempty"` // what to run or to do
	explain.Finding
}

// doctor goes through a data directory and what it needs.
type doctor struct {
	home     *Home
	findings []finding
}

// doctorCommand is otm doctor.
func doctorCommand(s cli.Streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything that OTM needs, and say what to do",
		Long: `Check the data directory, the board, the agents, the gateway, the units and the
components, one line each, with what to do where something is wrong.

Exits with 0 only if no problem was found.`,
		Example: "  otm doctor",
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home(c, s)
			if err != nil {
				return err
			}
			d := &doctor{home: h}
			d.examine(c.Context())
			if asJSON {
				if err := safe.EncodeJSON(s.Out, d.findings); err != nil {
					return err
				}
			} else {
				d.print()
			}
			for _, f := range d.findings {
				if f.Level != explain.OK {
					return cli.Exit(cli.Failed)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the findings as one JSON array")
	return c
}

// say notes what a check found.
func (d *doctor) say(check string, code explain.Code, args ...any) {
	d.add(check, explain.New(code, args...))
}

func (d *doctor) add(check string, f explain.Finding) {
	now := d.home.Now()
	d.findings = append(d.findings, finding{Check: check, Level: f.Level(), Text: explain.Sentence(&f, now), Hint: f.Next(now), Finding: f})
}

// failed notes an error, with the hint that a command would give.
func (d *doctor) failed(check string, err error) {
	hint := ""
	var known *cli.Error
	if !errors.As(err, &known) {
		known = Explain(err)
	}
	if known != nil {
		err = known
		if len(known.Hints) > 0 {
			hint = known.Hints[0]
		}
	}
	d.say(check, explain.Failed, "error", err, "hint", hint)
}

func (d *doctor) print() {
	for _, f := range d.findings {
		fmt.Fprintf(d.home.Out, "%-4s  %-10s %s\n", f.Level, f.Check, safe.Escape(f.Text))
		if f.Hint != "" {
			fmt.Fprintf(d.home.Out, "      %-10s → %s\n", "", safe.Escape(f.Hint))
		}
	}
}

// doctorTime bounds each call to the outside.
const doctorTime = 5 * time.Second

func (d *doctor) examine(ctx context.Context) {
	v, err := loadView(ctx, d.home, nil)
	if err == nil && v.OldConfig() != nil {
		d.add("config", *v.OldConfig())
	}
	d.directory()
	d.orOK("secrets", explain.New(explain.SecretsOK), d.secrets)
	d.board(ctx, v)
	d.agents(v)
	d.gateway(ctx)
	d.units()
	if err != nil {
		d.failed("backlog", err)
	} else {
		d.health(v)
	}
	if runtime.GOOS == "linux" {
		d.orOK("watches", explain.New(explain.WatchesOK), func() { d.watches("/proc/sys/fs/inotify") })
	}
}

// orOK looks, and adds ok if that found nothing.
func (d *doctor) orOK(check string, ok explain.Finding, look func()) {
	before := len(d.findings)
	if look(); len(d.findings) == before {
		d.add(check, ok)
	}
}

func (d *doctor) directory() {
	dir := d.home.Dir
	if _, err := os.Stat(dir); err != nil {
		d.failed("directory", err)
		return
	}
	d.orOK("directory", explain.New(explain.DirectoryOK, "path", dir), d.modes)
	switch kind, err := durable.NotLocal(dir); {
	case err != nil || kind == "":
	case kind == "FUSE": // it may be a local disk all the same
		d.say("disk", explain.DiskFUSE)
	default:
		d.say("disk", explain.DiskRemote, "kind", kind)
		return
	}
	d.disk()
}

// modes looks at who may use the folders. One that is missing is made by the
// program that needs it.
func (d *doctor) modes() {
	for _, name := range append([]string{""}, config.Folders...) {
		path := filepath.Join(d.home.Dir, name)
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		switch mode := info.Mode().Perm(); {
		case mode&0o700 != 0o700:
			d.say("directory", explain.DirLocked, "path", path, "mode", octal(mode))
		case mode&0o077 != 0:
			d.say("directory", explain.DirOpen, "path", path, "mode", octal(mode))
		}
	}
}

func octal(mode os.FileMode) string { return fmt.Sprintf("%04o", mode) }

// littleRoom is how much room on a disk, in bytes, is little.
const littleRoom = 64 << 20

// disk checks that something can be written, and how much room is left.
func (d *doctor) disk() {
	dir := d.home.Dir
	probe := filepath.Join(dir, durable.TempPrefix+"doctor")
	err := durable.Replace(probe, make([]byte, 4096))
	os.Remove(probe)
	if err != nil {
		d.failed("disk", err)
		return
	}
	switch free, err := durable.Free(dir); {
	case err != nil:
		d.say("disk", explain.DiskOK)
	case free < littleRoom:
		d.say("disk", explain.DiskLow, "mib", free>>20, "path", dir)
	default:
		d.say("disk", explain.DiskFree, "mib", free>>20)
	}
}

// secrets looks at the token files. One that is missing is missed by the
// program that needs it.
func (d *doctor) secrets() {
	c := d.home.Config
	for _, path := range []string{c.Slack.TokenFile, c.Gateway.TokenFile} {
		info, err := os.Stat(path)
		if path == "" || err != nil {
			continue
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			d.say("secrets", explain.SecretOpen, "path", path, "mode", octal(mode))
		}
	}
}

// health says how the components are, what their last runs reported, and what waits
// and failed: together with the agents and the list all that status counts.
func (d *doctor) health(v *view.View) {
	ahead := false
	for _, id := range heartbeat.Components {
		c := v.Component(id)
		switch f := c.Problem; {
		case f == nil:
			d.say("component", explain.ComponentOK, "component", id, "at", c.Beat.LastRun)
		case f.Code == explain.ComponentAhead:
			ahead = true
			d.add("clock", *f)
		default:
			d.add("component", *f)
		}
	}
	if !ahead {
		d.say("clock", explain.ClockOK)
	}
	d.reported(v)
	if f := v.GatewayProblem(); f != nil {
		d.add("gateway", *f)
	}
	if f := v.Backlog(); f != nil {
		d.add("backlog", *f)
	} else {
		d.say("backlog", explain.BacklogOK, "n", v.Count())
	}
	if n := len(v.Inbox.Failed); n > 0 {
		d.say("failed", explain.FilesFailed, "n", n)
	} else {
		d.say("failed", explain.NothingFails)
	}
}

// reported adds what the last runs of the components reported, each once.
func (d *doctor) reported(v *view.View) {
	for _, id := range heartbeat.Components {
		for _, f := range v.Reported(v.Component(id)) {
			check := "component"
			if f.Task != 0 {
				check = "tasks"
			}
			if !slices.ContainsFunc(d.findings, func(g finding) bool { return reflect.DeepEqual(g.Finding, f) }) {
				d.add(check, f)
			}
		}
	}
}

// Limits of inotify below which other programs may leave us none.
const (
	fewWatches   = 1024
	fewInstances = 16
)

// watches looks at the limits, each a file of a folder. A kernel without them
// leaves it to the sweeps.
func (d *doctor) watches(limits string) {
	for name, few := range map[string]int{"max_user_watches": fewWatches, "max_user_instances": fewInstances} {
		data, err := os.ReadFile(filepath.Join(limits, name))
		if err != nil {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && n < few {
			d.say("watches", explain.WatchesFew, "name", name, "have", n, "want", 8*few)
		}
	}
}
