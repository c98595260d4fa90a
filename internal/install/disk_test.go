package install

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"otm/heartbeat"
	"otm/internal/crash/crashtest"
	"otm/internal/lock"
)

// keeper is a manager as far as it keeps things running: it knows by which text it
// started each.
type keeper struct {
	w      *installWorld
	failed bool // too often for it to start anything, until that is reset
	loaded map[string]string
	runs   map[string]string
	locks  map[string]*lock.Lock
}

func newKeeper(w *installWorld) *keeper {
	k := &keeper{w: w, runs: map[string]string{}, locks: map[string]*lock.Lock{}}
	w.Cleanup(func() {
		for name := range k.runs {
			k.stop(name)
		}
	})
	return k
}

var errKeeper = errors.New("exit status 1")

// do is one command to it; a nil keeper takes them all.
func (k *keeper) do(argv []string) error {
	if k == nil {
		return nil
	}
	argv = slices.DeleteFunc(slices.Clone(argv), func(arg string) bool { return strings.HasPrefix(arg, "--") })
	job := filepath.Base(argv[len(argv)-1])
	if argv[0] == "launchctl" {
		job = strings.TrimSuffix(job, ".plist") + ".plist"
	}
	_, known := k.runs[job]
	switch argv[1] {
	case "daemon-reload":
		k.loaded = k.w.files()
	case "restart":
		return k.each(argv[2:], func(name string) error {
			k.stop(name)
			return k.start(name)
		})
	case "disable":
		return k.each(argv[2:], k.stop)
	case "reset-failed":
		k.failed = false
	case "print":
		if !known {
			return errKeeper
		}
	case "bootstrap":
		if known {
			return errKeeper
		}
		k.loaded = k.w.files() // it reads a file when it is handed in
		return k.start(job)
	case "bootout":
		if !known {
			return errKeeper
		}
		return k.stop(job)
	}
	return nil
}

func (k *keeper) each(names []string, do func(string) error) error {
	for _, name := range names {
		if err := do(name); err != nil {
			return err
		}
	}
	return nil
}

// start starts one by the file that it has read.
func (k *keeper) start(name string) error {
	text, ok := k.loaded[name]
	if !ok || k.failed {
		return errKeeper
	}
	k.runs[name] = text
	for _, v := range (setup{Options: *readMarker([]byte(text)), Board: true}).services() {
		if v.Name != name {
			continue
		}
		l, err := lock.Acquire(k.w.Context(), heartbeat.ResidentLock(k.w.dir, v.Component), 0)
		if err != nil {
			return err
		}
		k.locks[name] = l
	}
	return nil
}

func (k *keeper) stop(name string) error {
	delete(k.runs, name)
	if l := k.locks[name]; l != nil {
		l.Release()
	}
	delete(k.locks, name)
	return nil
}

// check holds the files and what runs against what should be there, separated by
// spaces: each runs by the text that its file has.
func (k *keeper) check(want, after string) {
	k.w.Helper()
	if got := k.w.names(); got != want {
		k.w.Errorf("after %s: there are %q, want %q", after, got, want)
	}
	files := k.w.files()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if text, runs := k.runs[name]; !runs || text != files[name] {
			k.w.Errorf("after %s: %s runs: %t, and by another text than its file has", after, name, runs)
		}
	}
	for name := range k.runs {
		if _, ok := files[name]; !ok {
			k.w.Errorf("after %s: %s runs without a file", after, name)
		}
	}
}

// installCase is something that otm install is told to do, and what was done before.
type installCase struct {
	name   string
	before *flags
	now    flags
	change bool // otm.toml, in between
}

func installCases(manager flags) []installCase {
	remove := manager
	remove.uninstall = true
	return []installCase{
		{name: "install", now: manager},
		{name: "changed", before: &manager, now: manager, change: true},
		{name: "uninstall", before: &manager, now: remove},
	}
}

// world is one in which it is about to be done.
func (c *installCase) world(t *testing.T) *installWorld {
	t.Helper()
	w := newInstallWorld(t)
	w.keeper = newKeeper(w)
	w.env["OTM_LOG_DIR"] = filepath.Join(w.home, "lo gs", "otm")
	if c.before != nil {
		if code := w.install(*c.before); code != 0 {
			t.Fatalf("exit code %d: %s", code, &w.stderr)
		}
	}
	if c.change {
		w.keeper.failed = !c.now.launchd
		w.config("[agents.devdas]\nworkspace = \"" + w.home + "\"\ncommand = [\"sh\"]\n")
	}
	return w
}

// done does it in the end, and looks at what it comes to.
func (c *installCase) done(w *installWorld, want, after string) {
	w.Helper()
	if code := w.install(c.now); code != 0 {
		w.Errorf("after %s: exit code %d: %s", after, code, &w.stderr)
	}
	w.keeper.check(want, after)
}

// Wherever the disk refuses a step, that is told, each file is as it was or as it should be, and
// run again all is done.
func TestInstallWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	for _, manager := range []flags{systemd, launchd} {
		for _, c := range installCases(manager) {
			t.Run(fmt.Sprintf("%s launchd %t", c.name, manager.launchd), func(t *testing.T) {
				t.Parallel()
				whole := c.world(t)
				if code := whole.install(c.now); code != 0 {
					t.Fatalf("exit code %d: %s", code, &whole.stderr)
				}
				want := whole.names()
				crashtest.EachPlace(t, syscall.EIO, "otm/internal/install", func(refuse crashtest.Refuse) {
					w := c.world(t)
					before, code := w.files(), 0
					refused, _ := refuse(filepath.Dir(w.dir), func() error {
						code = w.install(c.now)
						return nil
					})
					// Whose a lock is, is for people, and a workspace that cannot be looked at counts as made.
					if (code != 0) != refused.Came() && !refused.Of("read", "/locks/") && !refused.Of("write", "/locks/") && !refused.Of("stat", "/home") {
						t.Errorf("refused %q: exit code %d: %s", refused, code, &w.stderr)
					}
					left := w.files()
					c.done(w, want, fmt.Sprintf("refused %q", refused))
					after := w.files()
					for name, text := range left {
						if text != before[name] && text != after[name] {
							t.Errorf("refused %q: it left %s as\n%s", refused, name, text)
						}
					}
				})
			})
		}
	}
}

// Whichever call to the manager fails, that is told with the call to be made, and run again all is done.
func TestManagerFailsAtEachCall(t *testing.T) {
	t.Parallel()
	for _, manager := range []flags{systemd, launchd} {
		for _, c := range installCases(manager) {
			want := ""
			for n := 0; ; n++ { // in the first run none fails
				w := c.world(t)
				in := w.installer(c.now)
				usual, left, failed := in.call, n, ""
				in.call = func(ctx context.Context, argv []string) ([]byte, error) {
					if changes(strings.Join(argv, " ")) {
						if left--; left == 0 {
							failed = shellLine(argv)
							return []byte("no such luck\n"), errors.New("exit status 5")
						}
					}
					return usual(ctx, argv)
				}
				code := w.code(in.run(t.Context(), w.dir))
				if n == 0 {
					want = w.names()
				} else if failed == "" {
					break
				}
				retried := strings.HasPrefix(failed, "launchctl bootstrap ")
				if ok := n == 0 || retried; (code == 0) != ok || !ok && !strings.Contains(w.stderr.String(), "\n"+failed+"\n") {
					t.Errorf("%s: %q failed: exit %d: %s%s", c.name, failed, code, &w.out, &w.stderr)
				}
				c.done(w, want, fmt.Sprintf("%s, where %q failed", c.name, failed))
			}
		}
	}
}
