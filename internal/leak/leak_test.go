package leak

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// tests are some that end with a code, and leave a goroutine.
type tests struct {
	code int
	left chan struct{}
}

func (r tests) Run() int {
	if r.left != nil {
		go func() { <-r.left }()
	}
	return r.code
}

func TestGoroutines(t *testing.T) {
	left := make(chan struct{})
	for _, c := range []struct {
		name string
		of   tests
		want int
	}{{"nothing is left", tests{0, nil}, 0}, {"failed", tests{2, nil}, 2}, {"one is left", tests{0, left}, 1}} {
		if got := (checked{c.of, 1}).Run(); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	close(left)
	if got := (checked{tests{}, tries}).Run(); got != 0 {
		t.Errorf("it has ended: %d", got)
	}
}

// victim is the environment variable that has TestVictim act.
const victim = "LEAK_VICTIM"

// TestVictim is run by TestC27NothingIsLeft, in a process of its own: it starts
// a process in a session of its own, makes a directory that nobody may enter,
// says who it is, and stays.
func TestVictim(t *testing.T) {
	if os.Getenv(victim) == "" {
		t.Skip("it is run by TestC27NothingIsLeft")
	}
	dir, err := os.MkdirTemp("", "victim")
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "closed"), 0)
	}
	if err == nil {
		err = stray().Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(os.Getpid(), os.Getenv(RunEnv))
	select {}
}

// stray is a process in a session of its own.
func stray() *exec.Cmd {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// TestC27NothingIsLeft: tests that are killed, that run into their timeout, or
// whose "go test" is killed leave no process and no directory (C27: they left
// four boards and five directories).
func TestC27NothingIsLeft(t *testing.T) {
	t.Parallel()
	needProc(t)
	for _, c := range []struct {
		name string
		kill func(goTest, tests, watchdog int)
	}{
		{"tests killed", func(_, tests, _ int) { syscall.Kill(tests, syscall.SIGKILL) }},
		{"go test killed", func(goTest, _, _ int) { syscall.Kill(goTest, syscall.SIGKILL) }},
		{"timeout", func(_, tests, _ int) { syscall.Kill(tests, syscall.SIGQUIT) }}, // it exits in the same way
		{"all killed, next run", func(_, tests, watchdog int) {
			syscall.Kill(watchdog, syscall.SIGKILL)
			syscall.Kill(tests, syscall.SIGKILL)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			goTest := asGoTest(t, base)
			goTest.Env = append(goTest.Env, victim+"=yes")
			out, err := goTest.StdoutPipe()
			if err == nil {
				err = goTest.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			var tests int
			var dir string
			if _, err := fmt.Fscan(bufio.NewReader(out), &tests, &dir); err != nil {
				t.Fatal(err)
			}
			c.kill(goTest.Process.Pid, tests, watchdogOf(t, dir))
			goTest.Wait()
			if strings.Contains(c.name, "next run") {
				if out, err := asGoTest(t, base).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			gone := func() bool {
				_, err := os.Lstat(filepath.Dir(dir))
				return errors.Is(err, fs.ErrNotExist) && len(processesOf(dir)) == 0
			}
			for end := time.Now().Add(time.Minute); !gone(); time.Sleep(10 * time.Millisecond) { // the watchdog is no child of ours
				if time.Now().After(end) {
					t.Fatalf("left are %s and %v", dir, processesOf(dir))
				}
			}
		})
	}
}

// asGoTest is a command that runs TestVictim below another process, as "go test"
// does, with its directories below base.
func asGoTest(t *testing.T, base string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `"$0" -test.run='^TestVictim$' & wait $!`, self)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, RunEnv+"=") })
	cmd.Env = append(cmd.Env, "TMPDIR="+base)
	return cmd
}

// watchdogOf returns the pid of the watchdog of a run.
func watchdogOf(t *testing.T, dir string) int {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range environs {
		env, _ := os.ReadFile(path)
		if bytes.Contains(env, []byte(RunEnv+"="+dir+"\x00")) && bytes.Contains(env, []byte("\x00"+watchEnv+"=")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("%s has no watchdog", dir)
	return 0
}

// TestC27LeftProcessFails: tests that pass fail if a process outlives them.
func TestC27LeftProcessFails(t *testing.T) {
	needProc(t)
	run := t.TempDir()
	left := stray()
	left.Env = append(os.Environ(), RunEnv+"="+run)
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	if code := checkProcesses(run, 0); code != 1 {
		t.Errorf("a process is left, and the code is %d", code)
	}
	left.Process.Kill()
	left.Wait()
	if code := checkProcesses(run, grace); code != 0 {
		t.Errorf("no process is left, and the code is %d", code)
	}
}

func needProc(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("processes are found on Linux only")
	}
}
