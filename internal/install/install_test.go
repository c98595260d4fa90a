package install

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/crash/crashtest"
	"otm/internal/leak"
	"otm/internal/lock"
	"otm/internal/safe"
	"otm/internal/submit"
)

// installWorld is a data directory, the programs, and a manager that only
// notes what it is told.
type installWorld struct {
	*testing.T
	dir, home, folder, bin string
	env                    map[string]string
	called                 []string
	fail                   map[string]int // commands, by what they begin with, that fail so many times
	keeper                 *keeper        // what the manager comes to; nil: nothing
	out, stderr            bytes.Buffer
}

func newInstallWorld(t *testing.T) *installWorld {
	t.Helper()
	root := t.TempDir()
	w := &installWorld{T: t, dir: filepath.Join(root, "data %h 'x'"), home: filepath.Join(root, "home"), bin: filepath.Join(root, "b in"), fail: map[string]int{}}
	w.folder = filepath.Join(w.home, "units")
	w.env = map[string]string{"HOME": w.home, "PATH": "/usr/bin:relative:/bin:/usr/bin"}
	for _, name := range append([]string{"."}, config.Folders...) {
		if err := os.MkdirAll(filepath.Join(w.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"format": "1\n", "next-task-id.json": "{\"next\":1}\n", config.FileName: ""} {
		w.write(filepath.Join(w.dir, name), text, 0o600)
	}
	for _, name := range Programs {
		w.write(filepath.Join(w.bin, name), "#!/bin/sh\n", 0o755)
	}
	return w
}

func (w *installWorld) write(path, text string, mode os.FileMode) {
	w.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		w.Fatal(err)
	}
}

func (w *installWorld) read(path string) string {
	w.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

func (w *installWorld) config(text string) {
	w.Helper()
	w.write(filepath.Join(w.dir, config.FileName), text, 0o600)
}

func (w *installWorld) streams() cli.Streams {
	return cli.Streams{In: strings.NewReader(""), Out: &w.out, Err: &w.stderr, Getenv: func(key string) string { return w.env[key] }}
}

// main runs the command with a root that has --dir, as otm is one.
func (w *installWorld) main(s cli.Streams, args ...string) int {
	root := &cobra.Command{Use: "otm"}
	root.PersistentFlags().String("dir", "", "")
	c := Command(s)
	c.Args = cli.NoWords(args)
	root.AddCommand(c)
	return cli.Run(w.Context(), root, append([]string{"install"}, args...), s, submit.Explain)
}

// installer is one run of otm install.
func (w *installWorld) installer(f flags) *installer {
	w.called = nil
	w.out.Reset()
	w.stderr.Reset()
	in := &installer{
		Streams: w.streams(), manager: Systemd, folder: w.folder, flags: f, printOnly: f.dryRun, bin: w.bin, pause: time.Millisecond,
	}
	if f.launchd {
		in.manager = Launchd
	}
	in.call = func(_ context.Context, argv []string) ([]byte, error) {
		line := strings.Join(argv, " ")
		for begin, left := range w.fail {
			if strings.HasPrefix(line, begin) && left > 0 {
				w.fail[begin]--
				return []byte("no such luck\n"), errors.New("exit status 5")
			}
		}
		w.called = append(w.called, line)
		return nil, w.keeper.do(argv)
	}
	return in
}

// install runs it and returns the exit code.
func (w *installWorld) install(f flags) int {
	in := w.installer(f)
	return w.code(in.run(w.Context(), w.dir))
}

func (w *installWorld) code(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(&w.stderr, err)
	var e *cli.Error
	if !errors.As(err, &e) {
		if e = submit.Explain(err); e == nil {
			return cli.Failed
		}
	}
	fmt.Fprintln(&w.stderr, strings.Join(e.Hints, "\n"))
	return e.Code
}

// files are the files of the folder with their contents.
func (w *installWorld) files() map[string]string {
	w.Helper()
	files := map[string]string{}
	entries, _ := os.ReadDir(w.folder)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(w.folder, e.Name()))
		if err != nil {
			w.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

func (w *installWorld) names() string {
	return strings.Join(slices.Sorted(maps.Keys(w.files())), " ")
}

// did holds the commands that changed something against a list.
func (w *installWorld) did(want ...string) {
	w.Helper()
	got := slices.DeleteFunc(slices.Clone(w.called), func(l string) bool { return !changes(l) })
	if !slices.Equal(got, want) {
		w.Errorf("commands\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// changes reports whether a command does more than ask.
func changes(line string) bool {
	return !strings.Contains(line, " show ") && !strings.Contains(line, " print ")
}

func (w *installWorld) units() map[string]State {
	w.Helper()
	units, err := lookIn(Systemd, w.folder, w.dir)
	if err != nil {
		w.Fatal(err)
	}
	states := map[string]State{}
	for _, u := range units {
		states[filepath.Base(u.Path)] = u.State
		if (u.Hint == "") != (u.State == Current) {
			w.Errorf("%s is %s: hint %q", u.Path, u.State, u.Hint)
		}
	}
	return states
}

var (
	systemd = flags{systemd: true}
	launchd = flags{launchd: true}
)

const allUnits = "otm-board.service otm-injector.service otm-dispatcher.service otm-completion-detector.service"

// restarted are the commands by which systemd starts services anew.
func restarted(units string) []string {
	return []string{"systemctl --user daemon-reload", "systemctl --user reset-failed otm-*.service", "systemctl --user enable " + units, "systemctl --user restart " + units}
}

func TestInstallOnceAndAgain(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	if got := w.units(); len(got) != 0 {
		t.Errorf("before, there are %v", got)
	}
	if code := w.install(systemd); code != 0 {
		t.Fatalf("exit code %d: %s", code, &w.stderr)
	}
	w.did(restarted(allUnits)...)
	first := w.files()
	if len(first) != 4 {
		t.Errorf("there are %s", w.names())
	}
	for name := range first {
		if info, err := os.Stat(filepath.Join(w.folder, name)); err != nil || info.Mode() != 0o644 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	for name, state := range w.units() {
		if state != Current {
			t.Errorf("%s is %s", name, state)
		}
	}

	if code := w.install(systemd); code != 0 || strings.Count(w.out.String(), "unchanged ") != 4 || !maps.Equal(w.files(), first) {
		t.Errorf("again: exit code %d\n%s%s", code, &w.out, &w.stderr)
	}
	w.did(restarted(allUnits)...)

	// All residents run with the otm.toml of their start, and are started anew.
	w.config("[agents.devdas]\nworkspace = \"" + w.home + "\"\ncommand = [\"sh\", \"x\"]\n")
	if got := w.units()["otm-dispatcher.service"]; got != Stale {
		t.Errorf("after otm.toml was changed, the dispatcher's unit is %s", got)
	}
	if code := w.install(systemd); code != 0 || !strings.Contains(w.files()["otm-dispatcher.service"], ":/usr/bin:/bin:/usr/bin\"\n") {
		t.Errorf("changed: exit code %d\n%s%s%s", code, &w.out, &w.stderr, w.files()["otm-dispatcher.service"])
	}
	w.did(restarted(allUnits)...)
	w.env["PATH"] = "/elsewhere"
	if got := w.units()["otm-dispatcher.service"]; got != Current {
		t.Errorf("another shell's PATH makes the dispatcher's unit %s", got)
	}

	// Somebody edits one, removes one.
	w.write(filepath.Join(w.folder, "otm-board.service"), first["otm-board.service"]+"\nNice=3\n", 0o644)
	os.Remove(filepath.Join(w.folder, "otm-injector.service"))
	os.Remove(filepath.Join(w.bin, "otm-update"))
	if got := w.units(); got["otm-board.service"] != Broken || got["otm-injector.service"] != Missing {
		t.Errorf("states %v", got)
	}
}

// TestInstallAfterAWorkspaceWasMade: a unit that was started before may not
// write there, and is told to be stale until it is renewed.
func TestInstallAfterAWorkspaceWasMade(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	late := filepath.Join(w.home, "late")
	w.config("[agents.devdas]\nworkspace = \"" + late + "\"\n")
	if code := w.install(systemd); code != 0 {
		t.Fatalf("exit code %d: %s", code, &w.stderr)
	}
	allowed := func() bool {
		return strings.Contains(w.files()["otm-dispatcher.service"], "ReadWritePaths=\"-"+late+"\"")
	}
	if allowed() || w.units()["otm-dispatcher.service"] != Current {
		t.Errorf("before: it may write there: %v; it is %s", allowed(), w.units()["otm-dispatcher.service"])
	}
	if err := os.Mkdir(late, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := w.units()["otm-dispatcher.service"]; got != Stale {
		t.Errorf("after the workspace was made, the dispatcher's unit is %s", got)
	}
	if code := w.install(systemd); code != 0 || !allowed() || w.units()["otm-dispatcher.service"] != Current {
		t.Errorf("exit code %d, it may write there: %v; it is %s", code, allowed(), w.units()["otm-dispatcher.service"])
	}
}

// C46: a workspace does not answer. otm install and what looks at the units answer
// all the same, and the units stay as they are.
func TestC46InstallWithASilentWorkspace(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	ws := t.TempDir()
	w.config(fmt.Sprintf("[agents.devdas]\nworkspace = %q\ncommand = [\"true\"]\ntrigger = \"exec\"\n", ws))
	if code := w.install(systemd); code != cli.OK {
		t.Fatalf("exit %d", code)
	}
	before := w.files()
	crashtest.Hang(t, ws)
	if code := w.install(systemd); code != cli.OK {
		t.Errorf("exit %d: %s", code, w.stderr.String())
	}
	if !maps.Equal(before, w.files()) {
		t.Errorf("the units have changed: %v", w.files())
	}
}

// TestInstallRemovesWhatIsNotNeeded: a list instead of the board, and single runs by
// timers, which a former version wrote.
func TestInstallRemovesWhatIsNotNeeded(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	w.install(systemd)
	w.write(filepath.Join(w.folder, "otm-sweeper.timer"), "# "+Options{Manager: Systemd, Dir: w.dir}.Marker()+"\n", 0o644)
	w.write(filepath.Join(w.dir, "secrets", "slack"), "xoxb-1\n", 0o600)
	w.config("[slack]\nlist_id = \"F1\"\ntoken_file = \"secrets/slack\"\n")
	if got := w.units(); got["otm-board.service"] != Obsolete || got["otm-sweeper.timer"] != Obsolete {
		t.Errorf("the units are %v", got)
	}
	if code := w.install(systemd); code != 0 || w.names() != "otm-completion-detector.service otm-dispatcher.service otm-injector.service" {
		t.Errorf("exit code %d, there are %s", code, w.names())
	}
	w.did(append([]string{"systemctl --user disable --now otm-board.service otm-sweeper.timer"}, restarted("otm-injector.service otm-dispatcher.service otm-completion-detector.service")...)...)
}

// TestInstallKeepsWhatIsNotOurs: nothing is written before all is known to be
// ours.
func TestInstallKeepsWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	mine := "[Service]\nExecStart=/bin/true\n"
	for name, put := range map[string]func(w *installWorld, path string){
		"somebody's": func(w *installWorld, path string) { w.write(path, mine, 0o644) },
		"masked": func(w *installWorld, path string) {
			if err := errors.Join(os.MkdirAll(w.folder, 0o755), os.Symlink("/dev/null", path)); err != nil {
				w.Fatal(err)
			}
		},
		"another directory's": func(w *installWorld, path string) {
			w.write(path, "# "+Options{Manager: Systemd, Dir: "/other"}.Marker()+"\n"+mine, 0o644)
		},
		"marker too far below": func(w *installWorld, path string) {
			w.write(path, strings.Repeat("\n", 9)+"# "+Options{Manager: Systemd, Dir: w.dir}.Marker()+"\n", 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newInstallWorld(t)
			path := filepath.Join(w.folder, "otm-completion-detector.service")
			put(w, path)
			before := w.files()
			if code := w.install(systemd); code != 1 || !maps.Equal(w.files(), before) {
				t.Errorf("exit code %d, there are %s", code, w.names())
			}
			w.did()
			remove := systemd
			remove.uninstall = true
			if code := w.install(remove); code != 0 || !maps.Equal(w.files(), before) {
				t.Errorf("uninstall: exit code %d, there are %s", code, w.names())
			}
		})
	}
}

func TestUninstall(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	w.install(systemd)
	w.write(filepath.Join(w.folder, "otm-sweeper.service"), "[Service]\n", 0o644)
	w.config("no such key = 1\n") // neither is read
	os.Remove(filepath.Join(w.dir, "format"))
	remove := systemd
	remove.uninstall, remove.dryRun = true, true
	if code := w.install(remove); code != 0 || len(w.called) > 0 {
		t.Errorf("dry run: exit code %d, commands %q: %s", code, w.called, &w.stderr)
	}
	remove.dryRun = false
	if code := w.install(remove); code != 0 {
		t.Fatalf("exit code %d: %s", code, &w.stderr)
	}
	w.did("systemctl --user disable --now otm-board.service otm-completion-detector.service otm-dispatcher.service otm-injector.service",
		"systemctl --user daemon-reload", "systemctl --user reset-failed otm-*.service")
	if w.names() != "otm-sweeper.service" || !exists(filepath.Join(w.dir, "next-task-id.json")) {
		t.Errorf("left: %q", w.names())
	}
	if code := w.install(remove); code != 0 || len(w.called) > 0 || !strings.Contains(w.stderr.String(), "there is nothing") {
		t.Errorf("again: exit code %d, commands %q: %s", code, w.called, &w.stderr)
	}
}

func TestInstallRefusals(t *testing.T) {
	t.Parallel()
	const slack = "[slack]\nlist_id = \"F1\"\n"
	const gateway = "[agents.a]\nworkspace = \"/\"\ntrigger = \"gateway\"\n"
	tests := []struct {
		name   string
		change func(w *installWorld)
		code   int
		says   string
	}{
		{"token of the environment alone", func(w *installWorld) {
			w.config(slack)
			w.env["SLACK_BOT_TOKEN"] = "xoxb-secret"
		}, 78, `token_file = "secrets/slack"`},
		{"no token", func(w *installWorld) { w.config(slack) }, 78, "no file holds it"},
		{"gateway's token of the environment", func(w *installWorld) {
			w.config(gateway)
			w.env["OPENCLAW_GATEWAY_TOKEN"] = "secret"
		}, 78, "in [gateway] of otm.toml"},
		{"gateway without a token", func(w *installWorld) { w.config(gateway) }, 0, ""},
		{"bad configuration", func(w *installWorld) { w.config("nonsense = 1\n") }, 78, "unknown key"},
		{"no configuration", func(w *installWorld) { os.Remove(filepath.Join(w.dir, config.FileName)) }, 0, ""},
		{"no data directory", func(w *installWorld) { w.dir = w.home }, 10, "not initialised"},
		{"programs apart", func(w *installWorld) { os.Remove(filepath.Join(w.bin, "otm-update")) }, 1, "lacks otm-update"},
		{"no folder for a unit", func(w *installWorld) { w.env["OTM_LOG_DIR"] = "/a\nb" }, 78, "cannot stand in a unit"},
		{"logs nowhere", func(w *installWorld) { w.env["OTM_LOG_DIR"] = "logs" }, 78, "is not absolute"},
		{"logs below a file", func(w *installWorld) { w.env["OTM_LOG_DIR"] = filepath.Join(w.dir, "format", "logs") }, 1, "not a directory"},
		{"units below a file", func(w *installWorld) { w.folder = filepath.Join(w.dir, "format", "units") }, 1, "not a directory"},
		{"a file where the units would be", func(w *installWorld) { w.folder = filepath.Join(w.dir, "format") }, 1, "not a directory"},
		{"programs where systemd starts none", func(w *installWorld) {
			if err := os.Rename(w.bin, w.bin+`"`); err != nil {
				w.Fatal(err)
			}
			w.bin += `"`
		}, 78, "a quote or a backslash"},
		{"unknown to the units", func(w *installWorld) {
			w.env["SLACK_API_URL"] = "http://plain.example/" // would be refused, if it were read
			w.config("[agents.a]\nworkspace = \"/nonexistent\"\ncommand = [\"no-such-program\"]\n")
		}, 0, "SLACK_API_URL is set in this shell"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newInstallWorld(t)
			tt.change(w)
			if code := w.install(systemd); code != tt.code || !strings.Contains(w.stderr.String(), tt.says) {
				t.Errorf("exit code %d, want %d, saying %q:\n%s", code, tt.code, tt.says, &w.stderr)
			}
			if wrote := len(w.files()) > 0; wrote != (tt.code == 0) {
				t.Errorf("there are %s", w.names())
			}
			for name, text := range w.files() {
				if strings.Contains(text, "secret\"") || strings.Contains(text, "xoxb") || strings.Contains(text, "TOKEN") {
					t.Errorf("%s holds a secret:\n%s", name, text)
				}
			}
		})
	}
}

// A property list cannot hold everything either.
func TestInstallJobsRefused(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	w.env["OTM_LOG_DIR"] = "/a\nb"
	if code := w.install(launchd); code != 78 || !strings.Contains(w.stderr.String(), "cannot stand in a property list") || len(w.files()) > 0 || len(w.called) > 0 {
		t.Errorf("exit code %d, there are %q: %s", code, w.names(), &w.stderr)
	}
}

// A data directory of somebody else is refused: services run as we do.
func TestInstallForAnother(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	w := newInstallWorld(t)
	if err := os.Chown(w.dir, 54321, -1); err != nil {
		t.Fatal(err)
	}
	if code := w.install(systemd); code != 64 || !strings.Contains(w.stderr.String(), "belongs to user 54321, who must run this") || len(w.files()) > 0 || len(w.called) > 0 ||
		!strings.Contains(w.stderr.String(), "\notm install --systemd --dir "+safe.Quote(w.dir)+"\n") {
		t.Errorf("exit code %d, commands %q: %s", code, w.called, &w.stderr)
	}
}

// The dispatcher gets a PATH that does not depend on where it is started.
func TestInstallForAgents(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	w.env["PATH"] = "relative::"
	w.config("[agents.robin]\nkind = \"human\"\n[agents.a]\nworkspace = \"" + w.home + "\"\ncommand = [\"sh\"]\n[agents.b]\nworkspace = \"" + w.home + "\"\ncommand = [\"no-such-program\"]\n")
	w.write(filepath.Join(w.home, "x"), "", 0o600)
	if code := w.install(systemd); code != 0 || !strings.Contains(w.files()["otm-dispatcher.service"], ":/usr/local/bin:/usr/bin:/bin\"\n") {
		t.Errorf("exit code %d: %s", code, w.files()["otm-dispatcher.service"])
	}
}

func TestInstallBesideOne(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	l, err := lock.Acquire(t.Context(), filepath.Join(w.dir, "locks", heartbeat.Dispatcher+".resident"), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if code := w.install(systemd); code != 11 || len(w.files()) > 0 || !strings.Contains(w.stderr.String(), fmt.Sprintf("\nkill %d\n", os.Getpid())) {
		t.Errorf("exit code %d, there are %s: %s", code, w.names(), &w.stderr)
	}
	dry := systemd
	dry.dryRun = true
	if code := w.install(dry); code != 0 || len(w.files()) > 0 || len(w.called) > 0 {
		t.Errorf("dry run: exit code %d, there are %s: %s", code, w.names(), &w.stderr)
	}
}

// A command of the manager that fails is the hint, and run again all is done.
func TestInstallManagerFails(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	w.fail["systemctl"] = 1
	if code := w.install(systemd); code != 1 || len(w.files()) != 4 || !strings.Contains(w.stderr.String(), "no such luck") || !strings.Contains(w.stderr.String(), "\nsystemctl --user daemon-reload\n") {
		t.Errorf("exit code %d, there are %s, commands %q\n%s%s", code, w.names(), w.called, &w.out, &w.stderr)
	}
	if code := w.install(systemd); code != 0 {
		t.Errorf("again: exit code %d\n%s", code, &w.stderr)
	}
	w.did(restarted(allUnits)...)
}

func TestInstallDryRun(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	dry := systemd
	dry.dryRun = true
	if code := w.install(dry); code != 0 || len(w.files()) > 0 || len(w.called) > 0 ||
		!strings.Contains(w.out.String(), "\nExecStart=") || !strings.Contains(w.out.String(), "$ systemctl --user enable otm-board.service") {
		t.Errorf("exit code %d, there are %s, commands %q\n%s%s", code, w.names(), w.called, &w.out, &w.stderr)
	}
}

func TestInstallJobs(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	f := launchd
	domain := fmt.Sprintf("gui/%d", os.Geteuid())
	w.fail["launchctl print"] = 4 // it knows none
	if code := w.install(f); code != 0 {
		t.Fatalf("exit code %d: %s", code, &w.stderr)
	}
	var want []string
	for _, label := range []string{"otm-board", "otm-watcher", "otm-dispatcher", "otm-completion-detector"} {
		want = append(want, "launchctl enable "+domain+"/ai.openclaw."+label, "launchctl bootstrap "+domain+" "+filepath.Join(w.folder, "ai.openclaw."+label+".plist"))
	}
	w.did(want...)
	// A job that is just being forgotten is not taken at first.
	w.fail["launchctl bootstrap"] = 3
	if code := w.install(f); code != 0 || !slices.Contains(w.called, "launchctl bootout "+domain+"/ai.openclaw.otm-dispatcher") {
		t.Errorf("again: exit code %d, commands %q", code, w.called)
	}
	w.fail["launchctl bootstrap"] = 99
	if code := w.install(f); code != 1 {
		t.Errorf("refused for ever: exit code %d", code)
	}
	f.uninstall = true
	if code := w.install(f); code != 0 || len(w.files()) > 0 || !slices.Contains(w.called, "launchctl bootout "+domain+"/ai.openclaw.otm-board") {
		t.Errorf("uninstall: exit code %d, there are %s, commands %q", code, w.names(), w.called)
	}
}

// A launchd that refuses a job is not waited for where we are told to stop.
func TestInstallJobsStopped(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	w.keeper = newKeeper(w)
	ctx, stop := context.WithCancel(t.Context())
	f := launchd
	in := w.installer(f)
	usual, tries := in.call, 0
	in.pause = 24 * time.Hour
	in.call = func(ctx context.Context, argv []string) ([]byte, error) {
		if argv[1] == "bootstrap" {
			stop()
			tries++
			return nil, errKeeper
		}
		return usual(ctx, argv)
	}
	if code := w.code(in.run(ctx, w.dir)); code != 1 || tries != 1 || !strings.Contains(w.stderr.String(), "\nlaunchctl bootstrap gui/") {
		t.Errorf("exit code %d after %d tries: %s", code, tries, &w.stderr)
	}
	if code := w.install(f); code != 0 || len(w.keeper.runs) != 4 {
		t.Errorf("again: exit code %d, %d jobs run: %s", code, len(w.keeper.runs), &w.stderr)
	}
}

func TestUnitFolder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		manager string
		env     map[string]string
		want    string
	}{
		{Systemd, map[string]string{"HOME": "/h o"}, "/h o/.config/systemd/user"},
		{Systemd, map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, "/x/systemd/user"},
		{Systemd, map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "x"}, "/h/.config/systemd/user"},
		{Launchd, map[string]string{"HOME": "/h o", "XDG_CONFIG_HOME": "/x"}, "/h o/Library/LaunchAgents"},
		{Launchd, map[string]string{"HOME": "h"}, ""},
		{Systemd, map[string]string{"XDG_CONFIG_HOME": "/x"}, ""},
	} {
		got, err := folderOf(tt.manager, func(key string) string { return tt.env[key] })
		if got != tt.want || (err == nil) != (tt.want != "") || err != nil && err.(*cli.Error).Code != 78 {
			t.Errorf("%s, %v: %q, %v; want %q", tt.manager, tt.env, got, err, tt.want)
		}
	}
}

// The manager's own program is run, and what it says is shown where it fails.
func TestInstallRunsTheManager(t *testing.T) {
	w := newInstallWorld(t)
	f := flags{systemd: Native() == Systemd, launchd: Native() == Launchd}
	in := w.installer(f)
	folder, err := folderOf(in.manager, in.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	w.folder = folder
	if code := w.install(f); code != 0 {
		t.Fatalf("exit code %d: %s", code, &w.stderr)
	}
	program := map[string]string{Systemd: "systemctl", Launchd: "launchctl"}[in.manager]
	bin := filepath.Join(w.home, "m bin")
	log, refuse := filepath.Join(w.home, "called"), filepath.Join(w.home, "refuse")
	w.write(filepath.Join(bin, program), "#!/bin/sh\necho \"$*\" >>'"+log+"'\ncase $* in *disable*|*bootout*) test ! -e '"+refuse+"' || { echo no such luck; exit 5; }; esac\n", 0o755)
	w.write(refuse, "", 0o600)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	before := w.files()
	remove := func() int {
		w.out.Reset()
		w.stderr.Reset()
		return w.main(in.Streams, "--"+in.manager, "--user", "--uninstall", "--json", "--dir", w.dir)
	}
	said := "no such luck\notm: error: " + program
	if code := remove(); code != 1 || !strings.Contains(w.stderr.String(), said) || !strings.Contains(w.stderr.String(), ": exit status 5\notm: hint: "+program+" ") || !maps.Equal(w.files(), before) {
		t.Errorf("exit code %d, there are %q: %s", code, w.names(), &w.stderr)
	}
	if err := os.Remove(refuse); err != nil {
		t.Fatal(err)
	}
	var report report
	if code := remove(); code != 0 || json.Unmarshal(w.out.Bytes(), &report) != nil || len(report.Files) != 4 || report.Files[0].Action != "removed" || !report.Commands[0].Ran || len(w.files()) > 0 {
		t.Errorf("again: exit code %d, there are %q: %s%s", code, w.names(), &w.out, &w.stderr)
	}
	if n := strings.Count(w.read(log), strings.Join(report.Commands[0].Command[1:], " ")+"\n"); n != 2 {
		t.Errorf("it ran\n%s", w.read(log))
	}
}

func TestMarker(t *testing.T) {
	t.Parallel()
	want := Options{Manager: Launchd, Dir: `/a -->b--c "d" \ %h`, Bin: "/b", Home: "/h", Path: "/p--q"}
	if strings.Contains(want.Marker(), "--") {
		t.Errorf("the marker %s ends a comment", want.Marker())
	}
	for _, text := range []string{"# " + want.Marker() + "\n", "<?xml?>\n\n<!-- " + want.Marker() + " -->\n<plist>"} {
		if got := readMarker([]byte(text)); got == nil || *got != want {
			t.Errorf("readMarker(%q) = %+v", text, got)
		}
	}
	for _, text := range []string{"", "# otm-install: {}\n", "# otm-install: {\n", "x # " + want.Marker()} {
		if got := readMarker([]byte(text)); got != nil {
			t.Errorf("readMarker(%q) = %+v", text, got)
		}
	}
}

// B89: launchd starts again, for ever, whatever ends with a failure.
func TestSupervised(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	s := cli.Streams{Err: io.Discard, Getenv: func(key string) string { return env[key] }}
	for code := range 80 {
		if got := Supervised(s, code); got != code {
			t.Errorf("without a supervisor %d is told as %d", code, got)
		}
	}
	env[SupervisorEnv] = Launchd
	for code := range 80 {
		want := code
		if slices.Contains([]int{10, 11, 12, 64, 78}, code) {
			want = 0
		}
		if got := Supervised(s, code); got != want {
			t.Errorf("under launchd %d is told as %d, want %d", code, got, want)
		}
	}
	// systemd tells them apart by itself.
	w := newInstallWorld(t)
	w.install(systemd)
	line := "RestartPreventExitStatus=" + strings.Trim(fmt.Sprint(endsForGood), "[]") + "\n"
	for name, text := range w.files() {
		if !strings.Contains(text, line) {
			t.Errorf("%s lacks %s", name, line)
		}
	}
}

// TestRenderedCommandLines runs what the property lists say, in the
// environment that they say and no other.
func TestRenderedCommandLines(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	w.bin = filepath.Join(t.TempDir(), `b "<&>' é`)
	if err := errors.Join(os.Mkdir(w.bin, 0o700), leak.Programs(w.bin, Programs...)); err != nil {
		t.Fatal(err)
	}
	w.config("[board]\nlisten = \"127.0.0.1:0\"\n")
	f := launchd
	w.env["OTM_LOG_DIR"] = filepath.Join(w.home, "lo gs") // elsewhere the log is in the data directory
	if code := w.install(f); code != 0 {
		t.Fatalf("exit code %d: %s", code, &w.stderr)
	}
	jobs := map[string]*exec.Cmd{}
	for name, text := range w.files() {
		jobs[name] = w.job(text)
		if err := jobs[name].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{heartbeat.Injector, heartbeat.Dispatcher, heartbeat.Detector} {
		w.until(id, func() bool {
			b, err := heartbeat.Read(w.dir, id)
			return err == nil && b.Result == heartbeat.Success
		})
	}
	for name, cmd := range jobs {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
	}
	// What no restart mends ends with 0.
	w.config("nonsense = 1\n")
	for name, text := range w.files() {
		if out, err := w.job(text).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("unknown key nonsense")) || !bytes.Contains(out, []byte("exit code 78, reported as 0")) {
			t.Errorf("%s with a bad configuration: %v\n%s", name, err, out)
		}
	}
}

func (w *installWorld) until(what string, ok func() bool) {
	w.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) { // the job is a process that sends no signal
		if time.Now().After(end) {
			w.Fatalf("waited in vain for %s", what)
		}
	}
}

// job is the command of a property list, read the simple way: package launchd
// tests the rest.
func (w *installWorld) job(text string) *exec.Cmd {
	w.Helper()
	var list struct {
		Dict struct {
			Arrays []struct {
				Strings []string `xml:"string"`
			} `xml:"array"`
			Dicts []struct {
				Keys    []string `xml:"key"`
				Strings []string `xml:"string"`
			} `xml:"dict"`
		} `xml:"dict"`
	}
	if err := xml.Unmarshal([]byte(text), &list); err != nil {
		w.Fatal(err)
	}
	argv, environ := list.Dict.Arrays[0].Strings, list.Dict.Dicts[0]
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	for i, name := range environ.Keys {
		cmd.Env = append(cmd.Env, name+"="+environ.Strings[i])
	}
	return cmd
}

func TestInstallCommand(t *testing.T) {
	t.Parallel()
	w := newInstallWorld(t)
	run := func(args ...string) int {
		w.out.Reset()
		w.stderr.Reset()
		return w.main(w.streams(), append([]string{"--dir", w.dir}, args...)...)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 64, "either --systemd or --launchd"},
		{[]string{"--systemd", "--launchd"}, 64, "either --systemd or --launchd"},
		{[]string{"--systemd", "--user", "now"}, 64, "unexpected"},
		{[]string{"--systemd", "--user", "--dry-run"}, 1, "lacks"}, // the folder of this test's binary
		{[]string{"--systemd", "--user", "--uninstall", "--json", "--dry-run"}, 0, "there is nothing"},
	} {
		if code := run(tt.args...); code != tt.code || !strings.Contains(w.stderr.String(), tt.says) {
			t.Errorf("otm install %q: exit code %d, want %d, saying %q:\n%s", tt.args, code, tt.code, tt.says, &w.stderr)
		}
	}
	var report report
	if err := json.Unmarshal(w.out.Bytes(), &report); err != nil || report.Manager != Systemd || !report.DryRun || report.Files == nil || report.Commands == nil {
		t.Errorf("the report is %s (%v)", &w.out, err)
	}
	for hint, args := range map[string][]string{"HOME": {"--systemd", "--dir", w.dir}} {
		var said bytes.Buffer
		code := w.main(cli.Streams{Out: &said, Err: &said, Getenv: func(string) string { return "" }}, append([]string{"--dry-run"}, args...)...)
		if code != 78 || !strings.Contains(said.String(), "HOME is not set") || !strings.Contains(said.String(), "otm: hint: export "+hint+"=") {
			t.Errorf("%q without a home: exit code %d: %s", args, code, &said)
		}
	}
	other := "--launchd"
	if Native() == Launchd {
		other = "--systemd"
	}
	if code := run(other, "--user"); code != 64 || !strings.Contains(w.stderr.String(), "there is no ") {
		t.Errorf("the other manager: exit code %d: %s", code, &w.stderr)
	}
}
