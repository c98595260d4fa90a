package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"otm/dispatch"
	"otm/internal/api"
	"otm/internal/app"
	"otm/internal/cli"
	"otm/internal/crash"
	"otm/internal/crash/crashtest"
	"otm/internal/leak"
)

// TestMain lets the test binary act as every command of OTM, so that the
// scripts run the real mains. Where OTM_CRASH_AT is set, the process kills
// itself at that point; the binaries that users get have no such switch.
func TestMain(m *testing.M) {
	app.NewAPI = api.New
	enrol()
	if len(os.Args) == 2 && os.Args[1] == dispatch.HelperCommand {
		os.Exit(app.Main(os.Args, cli.OSStreams()))
	}
	armCrash(os.Getenv("OTM_CRASH_AT"))
	armTrace(os.Getenv("OTM_CRASH_TRACE"))
	if command := commands()[filepath.Base(os.Args[0])]; command != nil {
		command()
		os.Exit(0)
	}
	os.Exit(leak.Main(withCommands{m}))
}

// commands are what this binary acts as, by the name that it is started with.
func commands() map[string]func() {
	all := maps.Clone(scriptCommands)
	for _, name := range mainNames {
		all[name] = func() {
			if dir := os.Getenv(racedEnv); dir != "" && !crashtest.Raced && stays(name, os.Args[1:]) {
				fmt.Fprintln(os.Stderr, syscall.Exec(filepath.Join(dir, name), os.Args, os.Environ()))
				os.Exit(1)
			}
			code := app.Main(append([]string{name}, os.Args[1:]...), cli.OSStreams())
			noteExit(code)
			os.Exit(code)
		}
	}
	return all
}

// mainNames are the commands of OTM.
var mainNames = []string{"otm", "otm-create", "otm-update", "otm-injector", "otm-dispatcher", "otm-completion-detector"}

// racedEnv is the directory of the commands that were built with the race detector. The
// commands on PATH are built without it then, as each start takes several times as long
// with it; those that stay, and have goroutines that could race, go on as the other ones.
const racedEnv = "TEST_RACED_DIR"

// racedDir is what scripts have in racedEnv.
var racedDir string

// stays reports whether a command runs until it is told to end, or plays the whole pipeline.
func stays(name string, args []string) bool {
	switch name {
	case "otm":
		i := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
		return i >= 0 && slices.Contains([]string{"up", "board", "demo", "watchdog"}, args[i]) || slices.Contains(args, "--follow")
	case "otm-create", "otm-update":
		return false
	}
	return !slices.Contains(args, "--once")
}

// plainPath is PATH without the commands of OTM.
var plainPath = os.Getenv("PATH")

// withCommands are the tests, for which all commands stand in a directory of
// PATH.
type withCommands struct{ *testing.M }

func (w withCommands) Run() int {
	names := slices.Collect(maps.Keys(commands()))
	bin, err := os.MkdirTemp("", "bin")
	if err == nil {
		err = leak.Programs(bin, names...)
	}
	if err == nil && crashtest.Raced {
		racedDir = bin
		var binary string
		if bin, err = os.MkdirTemp("", "bin"); err == nil {
			binary, err = mains()
		}
		if err == nil {
			err = leak.ProgramsOf(binary, bin, names...)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv("PATH", bin+string(filepath.ListSeparator)+plainPath)
	return w.M.Run()
}

// noteExit leaves the exit code where scripts find it: testscript itself only
// tells success from failure.
func noteExit(code int) {
	if work := os.Getenv("WORK"); work != "" {
		os.WriteFile(filepath.Join(work, ".exit"), []byte(strconv.Itoa(code)), 0o600)
	}
}

// armCrash installs the hook that kills the process at the nth time a point is
// reached: "create.after" or "create.after:2".
func armCrash(at string) {
	if at == "" {
		return
	}
	point, nth, _ := strings.Cut(at, ":")
	left, err := strconv.Atoi(nth)
	if err != nil {
		left = 1
	}
	crash.Hook = func(name string) {
		if name != point {
			return
		}
		if left--; left == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// armTrace notes each point that the process comes by in a file, if that is
// there and the process is not to be killed.
func armTrace(path string) {
	if path == "" || crash.Hook != nil {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return // nobody wants to know
	}
	crash.Hook = func(name string) { f.WriteString(name + "\n") }
}

// TestScripts runs the user stories of testdata/script.
func TestScripts(t *testing.T) {
	kinds := strings.Join(crashtest.Some(t, wrongKinds, 3), " ")
	cmds := maps.Clone(helpers)
	cmds["wrongkinds"] = func(ts *testscript.TestScript, _ bool, _ []string) { ts.Setenv("KINDS", kinds) }
	testscript.Run(t, testscript.Params{
		Files:               scripts(t),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setup,
		Cmds:                cmds,
		Condition:           condition,
		Deadline:            deadline(t),
	})
}
