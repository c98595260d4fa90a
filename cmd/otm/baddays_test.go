package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/heartbeat"
	"otm/internal/crash/crashtest"
)

// choices are those of a test that takes some of its cases: others each day. A
// test that fails says how to have the same ones again.
func choices(t *testing.T) *rand.Rand {
	t.Helper()
	seed := crashtest.Seed(t)
	if !crashtest.Whole() {
		t.Logf("some of the cases: these with OTM_SEED=%d, all with OTM_TEST_WHOLE=1", seed)
	}
	return rand.New(rand.NewPCG(uint64(seed), 1))
}

// calm runs a command on a bad day. It may fail, but it must say so, and must
// not break down.
func (h *house) calm(name string, args ...string) (said string, code int) {
	h.Helper()
	said, code, _ = h.run("", name, args...)
	h.checkCalm(code, said, name, args...)
	return said, code
}

func (h *house) checkCalm(code int, said, name string, args ...string) {
	h.Helper()
	switch {
	case strings.Contains(said, "goroutine ") || strings.Contains(said, "panic: "):
		h.Errorf("%s %v breaks down: exit %d\n%s", name, args, code, said)
	case code != 0 && code != 3 && !strings.Contains(said, "error: ") && !strings.HasPrefix(said, "ok ") && !strings.Contains(said, "→ "): // as doctor and fsck say it
		h.Errorf("%s %v: exit %d, and no reason:\n%s", name, args, code, said)
	}
}

// recovered lets everything finish, and looks whether no problems found, and
// no task is lost.
func (h *house) recovered(titles ...string) {
	h.Helper()
	for _, pattern := range []string{"data dir/tasks/*.corrupt-*", "ws*/*.corrupt-*", "data dir/*.torn-*", "data dir/board/*.torn-*"} {
		aside, _ := filepath.Glob(filepath.Join(h.root, pattern))
		for _, path := range aside { // somebody has looked into them
			os.Remove(path)
		}
	}
	h.must("otm-create", "--key", "four", "--title", "Four", "--agent", "devdas")
	h.calm("otm", "fsck", "--repair")
	for tick := 1; ; tick++ {
		for _, name := range []string{"otm-injector", "otm-dispatcher", "otm-completion-detector"} {
			if said, code := h.calm(name, "--once"); code != 0 && code != 3 {
				h.Errorf("%s: exit %d\n%s", name, code, said)
			}
		}
		said, code := h.calm("otm", "fsck", "--at-rest")
		if code == 0 {
			break
		}
		if tick == 3 {
			h.Errorf("otm fsck: exit %d\n%s", code, said)
			break
		}
	}
	list, history := h.must("otm", "list", "--all", "--json"), h.must("otm", "history", "--json")
	for _, title := range titles {
		known := fmt.Sprintf(`"title":%q`, title)
		if n := strings.Count(list, known); n > 1 || (n == 1) == strings.Contains(history, known) {
			h.Errorf("%s is not known once:\n%s%s", title, list, history)
		}
	}
}

// inTrouble does a step of a life in trouble: the command may fail, but says so.
// What it printed counts. change makes the trouble; nil: it is there already.
func (h *house) inTrouble(s step, change func(*exec.Cmd)) {
	h.Helper()
	if s.name == "person" {
		h.do(s, "")
		return
	}
	args := slices.Clone(s.args)
	if i := slices.Index(args, "ONE"); i >= 0 {
		args[i] = cmp.Or(h.acknowledged["one"], "T-00001")
	}
	cmd := h.command("", s.name, args...)
	if change != nil {
		change(cmd)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Run()
	said := stdout.String() + stderr.String()
	h.checkCalm(cmd.ProcessState.ExitCode(), said, s.name, args...)
	if id := strings.TrimSpace(stdout.String()); s.key != "" && strings.HasPrefix(id, "T-") {
		h.acknowledged[s.key] = id
	}
}

// bad is a trouble at some moment of a life.
type bad struct {
	step int // of the life
	how  int
}

// sample returns all of so many troubles at each step, or n of them.
func sample(t *testing.T, hows, n int) []bad {
	t.Helper()
	crashtest.Long(t, "is a walk")
	choice := choices(t)
	var all []bad
	for step := range life {
		for how := range hows {
			all = append(all, bad{step, how})
		}
	}
	if !crashtest.Whole() {
		choice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all[:n]
	}
	return all
}

// through lives up to a bad moment, in which a step is done, and then on.
func (h *house) through(at int, begin, end func(), change func(*exec.Cmd)) {
	h.Helper()
	h.within = !crashtest.Whole()
	for _, s := range life[:at] {
		h.do(s, "")
	}
	h.within = false
	begin()
	h.inTrouble(life[at], change)
	end()
	h.live(0) // as nobody knows what was done
	h.settle()
}

// TestNoDescriptors runs each command with so few descriptors that one thing or
// the other cannot be opened. (With less than eight, Go itself ends the process
// before ours begins.)
func TestNoDescriptors(t *testing.T) {
	t.Parallel()
	limits := []int{8, 9, 10, 11, 12, 13, 14, 16}
	if one := choices(t).IntN(len(limits)); !crashtest.Whole() {
		limits = limits[one : one+1]
	}
	for _, limit := range limits {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.startBoard("")
			h.within = !crashtest.Whole()
			for _, s := range life {
				h.inTrouble(s, func(cmd *exec.Cmd) {
					cmd.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, limit), cmd.Path}, cmd.Args[1:]...)
					cmd.Path = "/bin/sh"
				})
				h.do(s, "")
			}
			h.live(0)
			h.settle()
		})
	}
}

// TestDiskFullAtEachWrite leaves so many pages free on the disk, from none on,
// when a step of a life is done: each write of it is the first that finds no
// room, or one of the board's.
func TestDiskFullAtEachWrite(t *testing.T) {
	t.Parallel()
	if !mayMount() {
		t.Skip("needs root, to mount a disk of two megabytes that can be filled; CI is root")
	}
	for _, b := range sample(t, 7, 4) {
		t.Run(fmt.Sprintf("%d %s, %d pages", b.step, life[b.step].name, b.how), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.ontoSmallDisk()
			h.startBoard("")
			ballast := filepath.Join(h.dir, "ballast")
			h.through(b.step, func() { h.fill(ballast, b.how) }, func() { os.Remove(ballast) }, nil)
		})
	}
}

// ontoSmallDisk moves the data directory onto a file system of two megabytes.
func (h *house) ontoSmallDisk() {
	h.Helper()
	moved := h.dir + ".before"
	err := os.Rename(h.dir, moved)
	if err == nil {
		err = os.Mkdir(h.dir, 0o700)
	}
	if err == nil {
		err = mountSmall(h.dir)
	}
	if err == nil {
		h.Cleanup(func() { exec.Command("umount", "-l", h.dir).Run() })
		err = exec.Command("cp", "-a", moved+"/.", h.dir).Run()
	}
	if err != nil {
		h.Fatal(err)
	}
}

// fill leaves so many pages free.
func (h *house) fill(path string, pages int) {
	h.Helper()
	f, err := os.Create(path)
	if err != nil {
		h.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	for {
		n, err := f.Write(make([]byte, 4096))
		if size += int64(n); err != nil {
			break
		}
	}
	if err := f.Truncate(max(0, size-4096*int64(pages))); err != nil {
		h.Fatal(err)
	}
}

// TestPermissionLost takes away the right to write to a directory, or to reach
// into it, while a step of a life is done.
func TestPermissionLost(t *testing.T) {
	t.Parallel()
	change := powerless(t)
	dirs := []string{"data dir", "data dir/new-tasks", "data dir/task-updates", "data dir/processed", "data dir/tasks", "data dir/keys", "data dir/locks", "data dir/board", "ws"}
	modes := []os.FileMode{0o500, 0}
	for _, b := range sample(t, len(dirs)*len(modes), 4) {
		dir, mode := dirs[b.how/len(modes)], modes[b.how%len(modes)]
		t.Run(fmt.Sprintf("%d %s, %s %v", b.step, life[b.step].name, strings.ReplaceAll(dir, "/", " "), mode), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.startBoard("")
			path := filepath.Join(h.root, dir)
			back := func() { os.Chmod(path, 0o700) } // some are not there yet
			t.Cleanup(back)
			h.through(b.step, func() { os.Chmod(path, mode) }, back, change)
		})
	}
}

// powerless makes a command respect modes also where we are root.
func powerless(t *testing.T) func(*exec.Cmd) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("modes do not stop root: run it as somebody else, or install setpriv (util-linux)")
	}
	return func(cmd *exec.Cmd) {
		cmd.Args = append([]string{setpriv, "--bounding-set=-all", "--inh-caps=-all", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = setpriv
	}
}

// TestInotifyOverflow stops the resident injector, fills the kernel's queue of
// events with those of 20,000 files, and drops tasks behind them: when it goes
// on, they are brought to the board without waiting for a timer.
func TestInotifyOverflow(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "makes 20,000 files")
	const files = 20_000
	var limit int
	data, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if _, serr := fmt.Sscan(string(data), &limit); err != nil || serr != nil || limit >= files {
		t.Skipf("needs inotify with a queue that %d events fill: limit %d, %v", files, limit, err)
	}
	h := newHouse(t)
	h.startBoard("")
	injector := h.command("", "otm-injector")
	if err := injector.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		injector.Process.Kill()
		injector.Wait()
	})
	h.waitFor("it watches", func() bool { return h.heartbeatSays(heartbeat.Watcher, "watches") })
	if err := injector.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	inbox := filepath.Join(h.dir, "new-tasks")
	for i := range files {
		name := fmt.Sprintf(".%d", i) // a file that another program has not delivered yet
		if crashtest.Whole() {
			name = fmt.Sprintf("%d.json", i)
		}
		if err := os.WriteFile(filepath.Join(inbox, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range life[:3] {
		h.do(s, "")
	}
	if err := injector.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	h.waitFor("all is settled", func() bool { return count(h.dir, "new-tasks") == 0 })
	h.within = !crashtest.Whole()
	if processed, failed := count(h.dir, "processed"), count(h.dir, "failed"); processed != 3 || crashtest.Whole() != (failed == files) {
		t.Errorf("%d processed, %d failed", processed, failed)
	}
	injector.Process.Signal(os.Interrupt)
	injector.Wait()
	h.live(0)
	h.settle()
}

func (h *house) heartbeatSays(id, text string) bool {
	data, err := os.ReadFile(heartbeat.Path(h.dir, id))
	return err == nil && strings.Contains(string(data), text)
}

// waitFor waits for something that happens by itself.
func (h *house) waitFor(what string, ok func() bool) {
	h.Helper()
	long := patience
	if crashtest.Whole() {
		long += 20 * time.Minute
	}
	if !soon(long, ok) {
		h.Fatalf("waited in vain until %s", what)
	}
}
