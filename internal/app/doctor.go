package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/install"
	"otm/internal/safe"
	"otm/internal/tokens"
	"otm/internal/view"
)

// finding is what one check found, as otm doctor --json prints it.
type finding struct {
	Check string `json:"check"`
	explain.Told
}

// doctor goes through a data directory and what it needs.
type doctor struct {
	home     *Home
	findings []finding
}

// doctorCommand is otm doctor.
func doctorCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything that OTM needs, and say what to do",
		Long: `Say what status takes for a problem, then check the data directory, the board, the
agents, the gateway and the units, with what to do where something is wrong.

Exits with 0 only if no problem was found.`,
		Example: "  otm doctor",
		RunE: withAnyHome(s, func(ctx context.Context, h *Home, _ []string) error {
			d := &doctor{home: h}
			d.examine(ctx)
			if err := h.answer(d.findings, d.print); err != nil {
				return err
			}
			for _, f := range d.findings {
				if f.Level != explain.OK {
					return cli.Exit(cli.Failed)
				}
			}
			return nil
		}),
	}
	jsonFlag(c, "print the findings as one JSON array")
	return c
}

// say notes what a check found.
func (d *doctor) say(check string, code explain.Code, args ...any) {
	d.add(check, explain.New(code, args...))
}

func (d *doctor) add(check string, f explain.Finding) {
	d.findings = append(d.findings, finding{check, explain.Tell(f, d.home.Now())})
}

// failed notes an error, with the hint that a command would give.
func (d *doctor) failed(check string, err error) {
	e := told(err)
	d.say(check, explain.Failed, "error", e, "hint", append(e.Hints, "")[0])
}

func (d *doctor) print() error {
	for _, f := range d.findings {
		fmt.Fprintf(d.home.Out, "%-4s  %-10s %s\n", f.Level, f.Check, safe.Escape(f.Text))
		if f.Hint != "" {
			fmt.Fprintf(d.home.Out, "      %-10s → %s\n", "", safe.Escape(f.Hint))
		}
		if f.Or != "" {
			fmt.Fprintf(d.home.Out, "      %-10s or: %s\n", "", safe.Escape(f.Or))
		}
	}
	return nil
}

// doctorTime bounds each call to the outside.
const doctorTime = 5 * time.Second

// examine says first what status says of the state, and then checks the set-up.
func (d *doctor) examine(ctx context.Context) {
	v, err := lookAround(ctx, d.home, false, true)
	d.check("state", explain.New(explain.StateOK), func() {
		if err != nil {
			d.failed("state", err)
			return
		}
		for _, f := range v.Problems() {
			d.add("state", f)
		}
	})
	if err == nil {
		if n := view.InSharedQueue(v); n > 0 {
			d.say("queue", explain.QueueHolds, "n", n)
		}
	}
	d.check("directory", explain.New(explain.DirectoryOK, "path", d.home.Dir), d.directory)
	d.check("secrets", explain.New(explain.SecretsOK), d.secrets)
	d.board(ctx)
	d.check("agents", explain.New(explain.AgentsOK, "n", len(d.home.Agents())), func() { d.agents(v) })
	d.gateway(ctx, v)
	d.units()
}

// check looks, and adds ok if that found nothing.
func (d *doctor) check(check string, ok explain.Finding, look func()) {
	before := len(d.findings)
	if look(); len(d.findings) == before {
		d.add(check, ok)
	}
}

// directory checks who may use the folders, and that something can be written.
func (d *doctor) directory() {
	dir := d.home.Dir
	if _, err := os.Stat(dir); err != nil {
		d.failed("directory", err)
		return
	}
	for _, name := range append([]string{""}, config.Folders...) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			continue // the program that needs the folder makes it
		}
		switch mode := info.Mode().Perm(); {
		case !info.IsDir():
			d.failed("directory", &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR})
		case mode&0o700 != 0o700:
			d.say("directory", explain.DirLocked, "path", path, "mode", octal(mode))
		case mode&0o077 != 0:
			d.say("directory", explain.DirOpen, "path", path, "mode", octal(mode))
		}
	}
	switch kind, err := durable.NotLocal(dir); {
	case err != nil || kind == "":
	case kind == "FUSE": // it may be a local disk all the same
		d.say("disk", explain.DiskFUSE)
	default:
		d.say("disk", explain.DiskRemote, "kind", kind)
	}
	if durable.Takes(dir) != nil {
		return // it was told
	}
	probe := filepath.Join(dir, durable.TempPrefix+"doctor")
	if err := durable.Replace(probe, make([]byte, 4096)); err != nil {
		d.failed("disk", err)
	}
	os.Remove(probe)
}

func octal(mode os.FileMode) string { return fmt.Sprintf("%04o", mode) }

// secrets looks at the token files. The program that needs the board's or the gateway's
// reports that it is missing. A directory that was made before there were owners has no
// owner's token.
func (d *doctor) secrets() {
	c, owner := d.home.Config, tokens.Open(d.home.Dir).OwnerPath()
	for _, path := range append(c.SecretFiles(), owner) {
		info, err := os.Stat(path)
		if path == owner && errors.Is(err, fs.ErrNotExist) {
			d.say("secrets", explain.OwnerMissing, "path", path)
		}
		if err != nil {
			continue
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			d.say("secrets", explain.SecretOpen, "path", path, "mode", octal(mode))
		}
	}
}

// units looks at the files that otm install wrote, if it wrote any.
func (d *doctor) units() {
	units, err := install.Look(d.home.Dir, d.home.Getenv)
	if err != nil {
		d.failed("units", err)
		return
	}
	for _, u := range units {
		if u.State == install.Current {
			d.say("units", explain.UnitOK, "path", u.Path)
			continue
		}
		d.say("units", explain.UnitOdd, "path", u.Path, "state", u.State, "hint", u.Hint)
	}
}
