package app

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"otm/dispatch"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/daemon"
	"otm/internal/datadir"
	"otm/internal/install"
	"otm/internal/safe"
	"otm/internal/submit"
	"otm/internal/view"
	"otm/pipeline"
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
			return k.command(s, args)
		}
	}
	root := rootCommand(s, args)
	if err := refuseUnknown(root, args); err != nil {
		return &cobra.Command{Use: "otm", DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error { return err }}
	}
	return root
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
75 try again later: nothing is lost · 78 bad configuration.`,
		Version: cli.Version(),
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.PersistentFlags().String("dir", "", "data directory (default: OTM_DIR, else the platform's)")
	root.AddCommand(
		initCommand(s), upCommand(s), demoCommand(s), boardCommand(s),
		statusCommand(s), agentsCommand(s), listCommand(s), showCommand(s), whyCommand(s), doctorCommand(s), fsckCommand(s), archiveCommand(s), historyCommand(s), deadCommand(s), incidentsCommand(s), dailyCommand(s), eventsCommand(s), waitCommand(s), statsCommand(s), backupCommand(s), rebuildCommand(s),
		nextCommand(s), pauseCommand(s), resumeCommand(s), sayCommand(s), notifyCommand(s), watchdogCommand(s), tokenCommand(s), retryCommand(s), promptCommand(s), install.Command(s), completionCommand(),
	)
	for i := range taskCommands {
		root.AddCommand(taskCommands[i].command(s))
	}
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

// withHome is the function of a command. It opens the data directory that --dir names, and
// closes what do opened there. It refuses a copy of a data directory.
func withHome(s cli.Streams, do func(ctx context.Context, h *Home, args []string) error) func(*cobra.Command, []string) error {
	return withAnyHome(s, func(ctx context.Context, h *Home, args []string) error {
		if err := datadir.Check(h.Dir); err != nil {
			return err
		}
		return do(ctx, h, args)
	})
}

// withAnyHome is withHome, also for a copy.
func withAnyHome(s cli.Streams, do func(ctx context.Context, h *Home, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		h, err := OpenHome(s, c.Flag("dir").Value.String())
		if err != nil {
			return err
		}
		h.asJSON, _ = c.Flags().GetBool("json") // a command without the flag prints no JSON
		return departed(h.Dir, cmp.Or(do(c.Context(), h, args), h.Close()))
	}
}

// jsonFlag gives a command the flag --json, which [Home.answer] heeds.
func jsonFlag(c *cobra.Command, usage string) { c.Flags().Bool("json", false, usage) }

// answer prints the answer of a command: with --json as a line of JSON, else by print.
func (h *Home) answer(v any, print func() error) error {
	if h.asJSON {
		return safe.EncodeJSON(h.Out, v)
	}
	return print()
}

// printed is for commands that print their answer bit by bit, without --json.
func printed() error { return nil }

// words are the arguments of a command: from least to most of them. want says what it
// wants, and line is one that works.
func words(least, most int, want, line string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return cli.Errorf(cli.Usage, "%s", want).Hint("%s", line)
		}
		return nil
	}
}

// many is the most for any number of arguments.
const many = 1 << 20

// departed returns the error of a command. If the data directory was removed meanwhile, it
// is the one that says so, in place of one that followed from it.
func departed(dir string, err error) error {
	if err == nil {
		return nil
	}
	if _, gone := config.FormatOf(dir); errors.Is(gone, config.ErrNotInitialised) {
		return gone
	}
	return err
}

// reading makes c a command that reads the directory, with --json and --fresh. countOnly
// is as in [lookAround].
func reading(c *cobra.Command, s cli.Streams, countOnly bool, do func(h *Home, v *view.View, args []string) error) *cobra.Command {
	var fresh bool
	c.RunE = withHome(s, func(ctx context.Context, h *Home, args []string) error {
		v, err := lookAround(ctx, h, fresh, countOnly)
		if err != nil {
			return err
		}
		return do(h, v, args)
	})
	jsonFlag(c, "print it as JSON")
	c.Flags().BoolVar(&fresh, "fresh", false, "read the board now")
	return c
}

// taskArg reads the task id that is the only word of a command line.
func taskArg(args []string) (pipeline.TaskID, error) {
	id, err := pipeline.ParseTaskID(args[0])
	if err != nil {
		return 0, cli.Errorf(cli.Usage, "%w", err).Hint("otm list --all")
	}
	return id, nil
}

// noCoreDumps keeps tokens out of files that the kernel would write if we
// crashed under GOTRACEBACK=crash. Who is started by us can raise the limit
// again.
func noCoreDumps() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_CORE, &limit) == nil {
		limit.Cur = 0
		syscall.Setrlimit(syscall.RLIMIT_CORE, &limit) // where it fails, it was not ours to set
	}
}

// refuseUnknown returns an error if words are no command of root, with the one of the
// nearest name.
func refuseUnknown(root *cobra.Command, words []string) error {
	_, left, err := root.Find(words)
	if err == nil || strings.HasPrefix(words[0], "__") { // cobra adds such commands when it runs
		return nil
	}
	names := pipeline.Map(root.Commands(), (*cobra.Command).Name)
	e := cli.Errorf(cli.Usage, "%w", err)
	if i := slices.IndexFunc(left, func(arg string) bool { return arg[:min(1, len(arg))] != "-" }); i >= 0 {
		word := strings.ToLower(left[i])
		if word == "create" || word == "update" {
			return e.Hint("otm-%s --help", word) // programs of their own
		}
		if near := pipeline.Nearest(word, names); near != "" {
			e.Hint("otm %s", near)
		}
	}
	return e.Hint("otm --help")
}
