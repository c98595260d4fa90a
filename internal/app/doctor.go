package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/pipeline"
	"otm/slacklist"
)

// finding is what one check found.
type finding struct {
	Check string `json:"check"`
	Level level  `json:"level"`
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"` // what to run or to do
}

// level is how bad a finding is.
type level string

const (
	fine level = "ok"
	poor level = "warn" // it works, but not for long or not well
	bad  level = "fail" // something does not work
)

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

Exits with 0 only if all is well.`,
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
				if f.Level != fine {
					return cli.Exit(cli.Failed)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the findings as one JSON array")
	return c
}

func (d *doctor) say(check string, l level, hint, format string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Level: l, Text: fmt.Sprintf(format, args...), Hint: hint})
}

// explain reports an error, with the hint that a command would give.
func (d *doctor) explain(check string, err error) {
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
	d.say(check, bad, hint, "%v", err)
}

func (d *doctor) print() {
	for _, f := range d.findings {
		fmt.Fprintf(d.home.Out, "%-4s  %-10s %s\n", f.Level, f.Check, safe.Escape(f.Text))
		if f.Hint != "" {
			fmt.Fprintf(d.home.Out, "      %-10s → %s\n", "", safe.Escape(f.Hint))
		}
	}
}

// doctorTime bounds the calls to the outside, each.
const doctorTime = 5 * time.Second

func (d *doctor) examine(ctx context.Context) {
	d.directory()
	d.orFine("secrets", "no token file can be read by others", d.secrets)
	d.board(ctx)
	d.agents()
	d.gateway(ctx)
	d.units()
	if v, err := loadView(ctx, d.home, nil); err != nil {
		d.explain("backlog", err)
	} else {
		d.health(v)
	}
	if runtime.GOOS == "linux" {
		d.orFine("watches", "fs.inotify allows enough of them", func() { d.watches("/proc/sys/fs/inotify") })
	}
}

// orFine looks, and says that all is well where nothing was found.
func (d *doctor) orFine(check, well string, look func()) {
	before := len(d.findings)
	if look(); len(d.findings) == before {
		d.say(check, fine, "", "%s", well)
	}
}

func (d *doctor) directory() {
	dir := d.home.Dir
	if _, err := os.Stat(dir); err != nil {
		d.explain("directory", err)
		return
	}
	d.orFine("directory", dir, func() {
		for _, name := range append([]string{""}, config.Folders...) {
			path := filepath.Join(dir, name)
			info, err := os.Stat(path)
			if err != nil {
				continue // whoever needs it makes it
			}
			switch mode := info.Mode().Perm(); {
			case mode&0o700 != 0o700:
				d.say("directory", bad, "chmod 700 "+safe.Quote(path), "%s has mode %04o, not 0700: its owner cannot work in it", path, mode)
			case mode&0o077 != 0:
				d.say("directory", poor, "chmod 700 "+safe.Quote(path), "%s has mode %04o, not 0700: others can reach into it", path, mode)
			}
		}
	})
	switch kind, err := durable.NotLocal(dir); {
	case err != nil || kind == "":
	case kind == "FUSE": // it may be a local disk all the same
		d.say("disk", poor, "move the data directory to a local disk, and set OTM_DIR", "the data directory lies on FUSE, whose locks and syncs may not hold")
	default:
		d.say("disk", bad, "move the data directory to a local disk, and set OTM_DIR", "the data directory lies on %s, whose locks and renames cannot be relied on", kind)
		return
	}
	d.disk()
}

// littleRoom is how little room on a disk, in bytes, is worth a word.
const littleRoom = 64 << 20

// disk checks that something can be written, and for how long that may be so.
func (d *doctor) disk() {
	dir := d.home.Dir
	probe := filepath.Join(dir, durable.TempPrefix+"doctor")
	err := durable.Replace(probe, make([]byte, 4096))
	os.Remove(probe)
	if err != nil {
		d.explain("disk", err)
		return
	}
	switch free, err := durable.Free(dir); {
	case err != nil:
		d.say("disk", fine, "", "it can be written to")
	case free < littleRoom:
		d.say("disk", poor, "df -h "+safe.Quote(dir), "only %d MiB are free below %s", free>>20, dir)
	default:
		d.say("disk", fine, "", "%d MiB are free", free>>20)
	}
}

// secrets looks at the token files.
func (d *doctor) secrets() {
	c := d.home.Config
	for _, path := range []string{c.Slack.TokenFile, c.Gateway.TokenFile} {
		info, err := os.Stat(path)
		if path == "" || err != nil {
			continue // whoever needs it says so
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			d.say("secrets", bad, "chmod 600 "+safe.Quote(path), "others can read %s (mode %04o)", path, mode)
		}
	}
}

func (d *doctor) board(ctx context.Context) {
	where, err := d.home.boards().find()
	if errors.Is(err, errNoBoard) {
		d.say("board", bad, d.home.startCommand(), "the embedded board is not running")
		return
	}
	if err != nil {
		d.explain("board", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	client := slacklist.New(where)
	id, err := client.Identify(ctx)
	var be *pipeline.BoardError
	if errors.As(err, &be) && !be.Credentials && be.Class == pipeline.Transient {
		d.say("board", bad, "curl -sS -o /dev/null "+safe.Quote(where.URL)+"   # says what is between here and there", "%s does not answer: %v", where.URL, err)
		return
	}
	if err != nil {
		d.explain("board", err)
		return
	}
	if lacks := id.MissingScopes(); len(lacks) > 0 {
		d.say("board", bad, "add them to the Slack app, install it anew, then: otm init --slack --token-stdin", "the token lacks the scopes %s", strings.Join(lacks, ", "))
	} else {
		d.say("board", fine, "", "%s takes the token, as %s in %s, with all scopes", where.URL, id.Name, id.Team)
	}
	in, err := client.Inspect(ctx, d.home.Config.Agents)
	if err != nil {
		d.explain("board", err)
		return
	}
	d.list(in, where.ListID)
	d.otherDirectory()
}

func (d *doctor) list(in *slacklist.Inspection, id string) {
	for _, f := range in.Findings {
		l := bad
		if f.Optional {
			l = poor
		}
		d.say("list", l, missingHint(f.MissingError), "%v", f.MissingError)
	}
	room := view.View{Board: &slacklist.Snapshot{Count: in.Rows, Limit: in.Limit}}
	switch {
	case room.NearlyFull():
		d.say("room", poor, "otm archive --older-than 7d --yes", "the list holds %d rows of %d", in.Rows, in.Limit)
	case room.RowLimit() > 0:
		d.say("room", fine, "", "%d rows of %d", in.Rows, in.Limit)
	default:
		d.say("room", fine, "", "%d rows", in.Rows)
	}
	if len(in.Findings) == 0 {
		d.say("list", fine, "", "%s %q has all columns and options", id, in.Title)
	}
}

// otherDirectory looks for tasks on the board that were made with our token
// and of which this directory knows nothing: two directories on one list do
// not keep out of each other's way.
func (d *doctor) otherDirectory() {
	snap, err := d.home.snapshot()
	if err != nil || snap.Self == "" {
		return
	}
	foreign := 0
	for i := range snap.Rows {
		row := &snap.Rows[i]
		if row.Parent != "" || row.Task() == 0 || row.CreatedBy != snap.Self {
			continue
		}
		if rec, err := d.home.record(row.Task()); err == nil && (rec == nil || rec.RowID != "" && rec.RowID != row.ID) {
			foreign++
		}
	}
	if foreign > 0 {
		d.say("list", poor, "stop the other one, or give it a list of its own", "%s made with this token, and not from this directory: does another data directory work on it?", explain.Count(foreign, "task on the list was", "tasks on the list were"))
	}
}

func (d *doctor) agents() {
	agents := d.home.Config.Agents
	if len(agents) == 0 {
		d.say("agents", bad, "edit "+safe.Quote(filepath.Join(d.home.Dir, "otm.toml")), "none is configured: nothing can be handed out")
		return
	}
	for i := range agents {
		a := &agents[i]
		if a.Person {
			continue
		}
		if trouble, hint := d.agentTrouble(a); trouble != "" {
			d.say("agents", bad, hint, "%s: %s", a.Name, trouble)
			continue
		}
		d.say("agents", fine, "", "%s: %s, %s", a.Name, a.Trigger, a.Workspace)
	}
}

func (d *doctor) agentTrouble(a *pipeline.Agent) (trouble, hint string) {
	info, err := os.Stat(a.Workspace)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "its workspace is missing", "mkdir -p " + safe.Quote(a.Workspace)
	case err != nil:
		return err.Error(), "ls -ld " + safe.Quote(a.Workspace)
	case !info.IsDir():
		return a.Workspace + " is not a directory", "set agents." + a.Name + ".workspace in otm.toml"
	}
	probe := filepath.Join(a.Workspace, durable.TempPrefix+"doctor")
	if err := durable.ReplaceVolatile(probe, nil); err != nil {
		return "its workspace cannot be written to: " + err.Error(), "chmod u+w " + safe.Quote(a.Workspace)
	}
	os.Remove(probe)
	if a.Trigger != pipeline.TriggerExec {
		return "", ""
	}
	program := a.Command[0]
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		program = filepath.Join(a.Workspace, program)
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Sprintf("its command is not found: %v", err), "install it, or name it by its path in agents." + a.Name + ".command of otm.toml"
	}
	return "", ""
}

// health says what is wrong with components and files.
func (d *doctor) health(v *view.View) {
	ahead := false
	for _, id := range v.Runner.Expected() {
		c := v.Component(id)
		switch f := c.Problem; {
		case f == nil:
			d.say("component", fine, "", "%s ran %s", id, explain.Ago(c.Beat.LastRun, v.Now))
		case f.Code == explain.ComponentAhead:
			ahead = true
			d.find("clock", f)
		default:
			d.find("component", f)
		}
	}
	if !ahead {
		d.say("clock", fine, "", "no component has run ahead of it")
	}
	if f := v.Backlog(); f != nil {
		d.find("backlog", f)
	} else {
		d.say("backlog", fine, "", "%s", explain.Count(v.Waiting(), "drop waits", "drops wait"))
	}
	if n := len(v.Inbox.Failed); n > 0 {
		f := explain.New(explain.FilesFailed, "n", n)
		d.find("failed", &f)
	} else {
		d.say("failed", fine, "", "no drop failed")
	}
}

func (d *doctor) find(check string, f *explain.Finding) {
	d.findings = append(d.findings, finding{Check: check, Level: level(f.Level()), Text: f.Text(d.home.Now()), Hint: f.Next(d.home.Now())})
}

// Limits of inotify below which other programs may leave us none.
const (
	fewWatches   = 1024
	fewInstances = 16
)

// watches looks at the limits, each a file of a folder.
func (d *doctor) watches(limits string) {
	for name, few := range map[string]int{"max_user_watches": fewWatches, "max_user_instances": fewInstances} {
		data, err := os.ReadFile(filepath.Join(limits, name))
		if err != nil {
			continue // a kernel without it: the sweeps do
		}
		if n, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && n < few {
			d.say("watches", poor, fmt.Sprintf("sudo sysctl fs.inotify.%s=%d", name, 8*few), "fs.inotify.%s is %d: watching may fail, and only the sweeps be left", name, n)
		}
	}
}
