package app

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"otm/dispatch"
	"otm/internal/cli"
	"otm/internal/daemon"
	"otm/internal/install"
	"otm/internal/submit"
)

var nowFunc = time.Now

// Main runs the command by whose name it was called, and otm under any other
// name. It returns the exit code.
func Main(argv []string, s cli.Streams) int {
	name, args := filepath.Base(argv[0]), argv[1:]
	if len(args) == 1 && args[0] == dispatch.HelperCommand {
		return runExecHelper(s)
	}
	noCoreDumps()
	// A reader that stops ("otm install | head") does not end us half-way. Programs
	// that we start have the default again.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := daemon.Signals(context.Background())
	defer stop()
	return install.Supervised(s, cli.Run(ctx, commandNamed(name, s, args), args, s, Explain))
}

func commandNamed(name string, s cli.Streams, args []string) *cobra.Command {
	switch name {
	case "otm-create":
		return submit.Create(name, cli.Version(), s, args)
	case "otm-update":
		return submit.Update(name, cli.Version(), s, args)
	}
	for _, k := range kinds {
		if name == k.id {
			return closing(k.command(s, args))
		}
	}
	root := rootCommand(s, args)
	if err := refuseUnknown(root, args); err != nil {
		return &cobra.Command{Use: "otm", DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error { return err }}
	}
	return closing(root)
}

// rootCommand is otm.
func rootCommand(s cli.Streams, args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "otm",
		Short: "Move work between people and AI agents through a board",
		Long: `otm moves work between people, an orchestrating agent and AI agents through a
board that people look at: a Slack List, or the embedded board.

Agents use two commands, otm-create and otm-update, which drop files. The
injector brings the drops to the board, the dispatcher hands new tasks to their
agents and wakes them, and the completion detector sets a task to agent_done when
all its steps are done.

Exit codes: 0 ok · 1 failed · 3 some items failed · 10 not initialised · 11
another instance · 12 credentials refused · 64 wrong usage, nothing was written ·
75 try later · 78 bad configuration.`,
		Version: cli.Version(),
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.PersistentFlags().String("dir", "", "data directory (default: OTM_DIR, else the platform's)")
	root.AddCommand(
		initCommand(s), upCommand(s), demoCommand(s), boardCommand(s),
		statusCommand(s), listCommand(s), showCommand(s), whyCommand(s), doctorCommand(s), fsckCommand(s), archiveCommand(s), historyCommand(s), eventsCommand(s), rebuildCommand(s),
		nextCommand(s), resumeCommand(s), retryCommand(s), promptCommand(s), install.Command(s), completionCommand(),
	)
	root.DisableSuggestions = true
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, words []string) error { return refuseUnknown(root, words) }
	for _, c := range root.Commands() {
		c.Version = cli.Version()
		if c.Args == nil {
			c.Args = cli.NoWords(subArgs(args, c.Name()))
		}
	}
	return root
}

// subArgs returns the arguments after the name of a subcommand.
func subArgs(args []string, name string) []string {
	for i, a := range args {
		if a == name {
			return args[i+1:]
		}
	}
	return nil
}

// home opens the data directory that a command names. It is closed when the command
// ends.
func home(c *cobra.Command, s cli.Streams) (*Home, error) {
	h, err := OpenHome(s, c.Flag("dir").Value.String())
	if opened, ok := c.Context().Value(openedKey{}).(*[]*Home); ok && err == nil {
		*opened = append(*opened, h)
	}
	return h, err
}

// openedKey is the key of the list of what a command opened, in its context.
type openedKey struct{}

// closing has a command and its subcommands close what they opened when they end.
func closing(c *cobra.Command) *cobra.Command {
	for _, sub := range c.Commands() {
		closing(sub)
	}
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) (err error) {
			opened := &[]*Home{}
			c.SetContext(context.WithValue(c.Context(), openedKey{}, opened))
			defer func() {
				for _, h := range *opened {
					if failed := h.Close(); err == nil {
						err = failed
					}
				}
			}()
			return run(c, args)
		}
	}
	return c
}
