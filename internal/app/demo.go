package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/internal/cli"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/pipeline"
	"otm/pipeline/inbox/watch"
)

// demoTasks are the arguments of otm-create, for two agents and a person.
var demoTasks = [][]string{
	{"--title", "Build the login page", "--agent", "devdas", "--project", "website", "--subtask", "Create the form", "--subtask", "Add validation", "--subtask", "Write tests"},
	{"--title", "Fix the broken backup", "--agent", "archibald", "--priority", "critical", "--subtask", "Find the cause", "--subtask", "Restore one file as a test"},
	{"--title", "Answer the question on pricing", "--agent", "devdas", "--priority", "high"},
	{"--title", "Tidy up old branches", "--agent", "archibald", "--priority", "batchable"},
	{"--title", "Review the API design", "--agent", "archibald", "--type", "review", "--subtask", "input: the draft is in docs/api.md", "--subtask", "Check the names"},
	{"--title", "Approve the budget", "--agent", "robin", "--type", "decision"},
}

const demoConfig = `[agents.devdas]
workspace = %[1]q
command = ["sh", "agent.sh"]

[agents.archibald]
workspace = %[1]q
command = ["sh", "agent.sh"]

[agents.robin]
kind = "human"

[board]
listen = "127.0.0.1:0"
`

// demoAgent follows a script instead of a model: it takes tasks until none waits, and
// runs the lines that "otm next" prints for their steps. A task without an open step was
// sent back: it says that it is done.
const demoAgent = `steps='^  otm-update .*--subtask-done'
end='^  otm-update .*--status agent_done'
while task=$(otm next --agent "$OTM_AGENT") && echo "$task" | grep -q "$end"; do
	lines=$steps
	echo "$task" | grep -q "$steps" || lines=$end
	echo "$task" | grep "$lines" | while read -r report; do
		sleep 0.1
		eval "$report"
	done
done
`

// demoTime bounds the demo.
const demoTime = 30 * time.Second

// demoCommand is otm demo.
func demoCommand(s cli.Streams) *cobra.Command {
	var keep bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "See the whole pipeline at work, in a temporary directory",
		Long: `Make a temporary data directory, run everything in it with two scripted agents
on the embedded board, create a handful of tasks, and show each hop as it happens.
The agents act like real ones: the dispatcher starts them, they run "otm next" and
report with otm-update.`,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := newDemo(s)
			if err != nil {
				return err
			}
			defer d.remove()
			return d.run(c.Context(), keep, time.After(demoTime))
		},
	}
	c.Flags().BoolVar(&keep, "keep", false, "keep it running at the end, and print the board's address")
	return c
}

// demo is one run of the demo.
type demo struct {
	cli.Streams
	root    string
	stays   bool // keep root, because its logs explain a failure
	home    *Home
	started time.Time
	shown   int64                    // the last event that was shown
	waiting map[pipeline.TaskID]bool // tasks of agents that are not at agent_done
}

// newDemo makes the temporary directory: data, a workspace, and a folder with this
// program under the names of all commands.
func newDemo(s cli.Streams) (*demo, error) {
	root, err := os.MkdirTemp("", "otm demo ")
	if err != nil {
		return nil, err
	}
	d := &demo{Streams: s, root: root, waiting: map[pipeline.TaskID]bool{}}
	if err := d.prepare(); err != nil {
		d.remove()
		return nil, err
	}
	return d, nil
}

func (d *demo) prepare() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	data, workspace := filepath.Join(d.root, "data"), filepath.Join(d.root, "workspace")
	_, err = Init(data)
	err = errors.Join(err, os.Mkdir(d.bin(""), 0o700), os.Mkdir(workspace, 0o700),
		os.WriteFile(filepath.Join(workspace, "agent.sh"), []byte(demoAgent), 0o600),
		os.WriteFile(filepath.Join(data, "otm.toml"), fmt.Appendf(nil, demoConfig, workspace), 0o600))
	for _, name := range []string{"otm", "otm-create", "otm-update"} {
		err = errors.Join(err, os.Symlink(self, d.bin(name)))
	}
	if err != nil {
		return err
	}
	quiet := d.Streams
	quiet.Err = struct{ io.Writer }{d.Err} // not a terminal, so the logs go to files
	quiet.Getenv = func(name string) string {
		if name == "OTM_LOG_DIR" || name == "OTM_DIR" {
			return "" // meant for another directory
		}
		return d.Getenv(name)
	}
	if d.home, err = OpenHome(quiet, data); err != nil {
		return err
	}
	d.home.PathDir = d.bin("")
	return nil
}

func (d *demo) remove() {
	if d.stays {
		return
	}
	if err := os.RemoveAll(d.root); err != nil {
		d.Warn("not removed: %v", err)
	}
}

func (d *demo) bin(name string) string { return filepath.Join(d.root, "bin", name) }

// run runs the pipeline and sends the tasks through it. late ends a demo that takes
// too long.
func (d *demo) run(ctx context.Context, keep bool, late <-chan time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan string, 1)
	upDone := make(chan error, 1)
	go func() {
		upDone <- d.home.Up(ctx, func(link string) { ready <- link })
		close(upDone) // later receives get nil
	}()
	var address string
	select {
	case address = <-ready:
	case err := <-upDone:
		return cmp.Or(err, context.Cause(ctx))
	}
	if keep {
		fmt.Fprintf(d.Out, "board    %s\n", address)
	}
	fmt.Fprintf(d.Out, "data     %s\n\n", safe.Escape(d.home.Dir))
	err := d.play(ctx, upDone, late)
	if err == nil && keep {
		page, _, _ := strings.Cut(address, "#") // the code of the first link is used up, or too old
		fmt.Fprintf(d.Out, "\nStill running. The page; the link works once, within a minute:\n  %s\nIn another terminal, for a new link and a task:\n  export OTM_DIR=%s PATH=%s:\"$PATH\"\n  otm board --link\n  otm-create --title 'Say hello' --agent devdas\nCtrl-C ends it and removes everything.\n",
			firstLink(d.home, page), safe.Escape(safe.Quote(d.home.Dir)), safe.Escape(safe.Quote(d.bin(""))))
		select {
		case <-ctx.Done():
		case err = <-upDone:
			return err
		}
	}
	if err == nil && !keep {
		fmt.Fprintln(d.Out, "Everything is removed now. To look at it on a page, run: otm demo --keep")
	}
	cancel()
	err = errors.Join(err, <-upDone) // now nobody starts an agent
	if d.home.waitAgents != nil {
		d.home.waitAgents()
	}
	return err
}

// play creates the tasks and shows their way.
func (d *demo) play(ctx context.Context, upDone <-chan error, late <-chan time.Time) error {
	w := watch.New(func(name string) bool { return strings.HasSuffix(name, ".json") }, filepath.Join(d.home.Dir, "tasks"))
	watchCtx, stop := context.WithCancel(ctx)
	defer stop()
	go w.Run(watchCtx)
	d.started = time.Now()
	for _, args := range demoTasks {
		if err := d.create(ctx, args); err != nil {
			return err
		}
	}
	for len(d.waiting) > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-upDone:
			return errors.Join(errors.New("the pipeline stopped"), err)
		case <-late:
			d.stays = true
			return cli.Errorf(cli.Failed, "%d tasks are not done after %v", len(d.waiting), demoTime).
				Hint("ls -l %s; then: rm -r %s", safe.Quote(d.home.LogDir()), safe.Quote(d.root))
		case <-w.Changed():
			if err := d.show(ctx); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(d.Out, "\nAll tasks for agents are at agent_done after %.1f s. Robin's decision waits for Robin.\n", time.Since(d.started).Seconds())
	return nil
}

// create runs otm-create as an agent would.
func (d *demo) create(ctx context.Context, args []string) error {
	cmd := exec.CommandContext(ctx, d.bin("otm-create"), args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "OTM_DIR="+d.home.Dir), d.Err
	began := time.Now()
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("otm-create: %w", err)
	}
	id, err := pipeline.ParseTaskID(string(out))
	if err != nil {
		return fmt.Errorf("otm-create printed %q", out)
	}
	if !slices.Contains(args, "robin") {
		d.waiting[id] = true
	}
	line := "otm-create"
	for _, arg := range args {
		line += " " + safe.Quote(arg)
	}
	fmt.Fprintf(d.Out, "%s %s   (%d ms)\n", d.clock(began), line, time.Since(began).Milliseconds())
	return nil
}

func (d *demo) clock(at time.Time) string { return fmt.Sprintf("%7.3fs", at.Sub(d.started).Seconds()) }

// show prints new events.
func (d *demo) show(ctx context.Context) error {
	store, err := d.home.OpenStore(ctx)
	if err != nil {
		return err
	}
	events, err := store.Events(ctx, core.EventFilter{After: d.shown})
	for i := range events {
		e := &events[i]
		d.shown = e.Seq
		for _, l := range view.Lines(events[i : i+1]) {
			if e.Task != 0 && l.What != "dropped" { // create said that
				fmt.Fprintf(d.Out, "%s %v  %-24s %s\n", d.clock(l.At), e.Task, safe.Escape(l.Who), safe.Escape(l.Said()))
			}
		}
		if m, ok := e.Data.(core.TaskMoved); ok && m.To == pipeline.AgentDone {
			delete(d.waiting, e.Task)
		}
	}
	return err
}
