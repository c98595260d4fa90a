package leak

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// RunEnv is the environment variable by which the processes of a run are known:
// they inherit the directory of the run in it. It does not begin with OTM_, as
// agents are started without those.
const RunEnv = "TEST_RUN_DIR"

// watchEnv makes a process the watchdog of a run. It holds the pid of the tests
// and that of their parent.
const watchEnv = "TEST_RUN_WATCH"

// grace is how long processes of a run may take to end by themselves once its
// tests have passed.
const grace = 60 * time.Second

// atOnce is how many tests of a package run at once for each processor, unless -parallel
// says otherwise.
const atOnce = 2

// Main runs the tests of a package, and returns their exit code. TestMain calls
// it.
//
// os.TempDir is a directory of this run meanwhile, in memory where that is
// possible; TMPDIR says otherwise. Tests that have passed fail if a process that
// they started, or one that such a process started, outlives them. A second
// process, the watchdog, ends these and removes the directory if the tests are
// killed or run into their timeout, or if "go test" is killed. If the watchdog is
// killed too, the next run removes the directory. Processes are found on Linux
// only.
func Main(m interface{ Run() int }) (code int) {
	if pids := os.Getenv(watchEnv); pids != "" {
		watch(os.Getenv(RunEnv), pids)
		return 0
	}
	if os.Getenv(RunEnv) != "" { // these tests were started by tests
		return m.Run()
	}
	dir, held, err := makeDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer held.Close()
	os.Setenv("TMPDIR", dir)
	os.Setenv(RunEnv, dir)
	end, err := startWatchdog()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer end()
	// Most tests wait for the disk or for other processes most of the time.
	flag.Set("test.parallel", strconv.Itoa(atOnce*runtime.GOMAXPROCS(0)))
	if code = m.Run(); code == 0 {
		code = checkProcesses(dir, grace)
	}
	return code
}

// checkProcesses waits until no process of a run is left but the watchdog and
// this one. It returns 1 if one is.
func checkProcesses(dir string, grace time.Duration) (code int) {
	var left []process
	for end := time.Now().Add(grace); ; time.Sleep(10 * time.Millisecond) { // not all are our children, so we cannot wait for them
		if left = processesOf(dir); len(left) == 0 {
			return 0
		}
		if time.Now().After(end) {
			break
		}
	}
	fmt.Fprintln(os.Stderr, "processes outlive the tests:")
	for _, p := range left {
		fmt.Fprintf(os.Stderr, "\t%d %s\n", p.pid, p.command)
	}
	return 1
}

// startWatchdog starts the watchdog. It acts when end is called or this process
// is dead, and end returns when it has.
func startWatchdog() (end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", watchEnv, os.Getpid(), os.Getppid()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal to the group of the tests is not for it
	alive, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	return func() {
		alive.Close()
		cmd.Wait()
	}, nil
}

// watch waits until the tests have ended, and then ends their processes and
// removes their directory. If the parent of the tests dies, nobody waits for
// them any more: it kills them.
func watch(dir, pids string) {
	first, second, _ := strings.Cut(pids, " ")
	tests, _ := strconv.Atoi(first)
	parent, _ := strconv.Atoi(second)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, os.Stdin)
	}()
	for tick := time.Tick(time.Second); ; { // the death of a process that is no child sends no signal
		select {
		case <-ended:
			clean(dir)
			removeIfEmpty(filepath.Dir(dir))
			return
		case <-tick:
			if parent > 1 && syscall.Kill(parent, 0) == syscall.ESRCH {
				syscall.Kill(tests, syscall.SIGKILL)
			}
		}
	}
}

// clean kills the processes of a run and removes its directory.
func clean(dir string) {
	for left := processesOf(dir); len(left) > 0; left = processesOf(dir) {
		for _, p := range left {
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond) // until they are gone; they may have started others
	}
	unmountBelow(dir)
	if os.RemoveAll(dir) == nil {
		return
	}
	filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error { // a test took its own rights away
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	os.RemoveAll(dir)
}

// lockFile is locked in the directory of a run for as long as its tests live,
// and in that of all runs while one of those is made or removed.
const lockFile = ".lock"

// makeDir makes the directory of a run, which is locked while held is open, and
// cleans up after runs whose processes were all killed.
func makeDir() (dir string, held *os.File, err error) {
	all := filepath.Join(base(), fmt.Sprintf("otm-tests-%d", os.Getuid()))
	guard, err := makeGuarded(all)
	if err != nil {
		return "", nil, err
	}
	defer guard.Close()
	entries, err := os.ReadDir(all)
	if err != nil {
		return "", nil, err
	}
	for _, e := range entries {
		old := filepath.Join(all, e.Name())
		if !e.IsDir() {
			continue
		}
		if f, err := lock(old, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			clean(old)
			f.Close()
		}
	}
	if dir, err = os.MkdirTemp(all, ""); err != nil {
		return "", nil, err
	}
	held, err = lock(dir, syscall.LOCK_EX)
	return dir, held, err
}

// makeGuarded makes the directory of all runs and locks it. Another run may
// remove it in between.
func makeGuarded(all string) (guard *os.File, err error) {
	for range 100 {
		if err = os.MkdirAll(all, 0o700); err != nil {
			return nil, err
		}
		if guard, err = lock(all, syscall.LOCK_EX); err != nil {
			continue
		}
		locked, err1 := guard.Stat()
		there, err2 := os.Stat(guard.Name())
		if err = errors.Join(err1, err2); err == nil && os.SameFile(locked, there) {
			return guard, nil
		}
		guard.Close()
	}
	return nil, fmt.Errorf("lock %s: %w", all, err)
}

// removeIfEmpty removes the directory of all runs after the last one.
func removeIfEmpty(all string) {
	guard, err := lock(all, syscall.LOCK_EX)
	if err != nil {
		return
	}
	defer guard.Close()
	if entries, err := os.ReadDir(all); err == nil && len(entries) == 1 { // the lock's
		os.Remove(guard.Name())
		os.Remove(all)
	}
}

func lock(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for err = syscall.EINTR; err == syscall.EINTR; {
		err = syscall.Flock(int(f.Fd()), how)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// base is where the directories of runs are made: in memory, where there is
// room for them and programs can be started, unless TMPDIR says where.
func base() string {
	if _, set := os.LookupEnv("TMPDIR"); !set && roomy("/dev/shm") {
		return "/dev/shm"
	}
	return os.TempDir()
}

// process is one that a run of tests started: the directory of the run stands in
// its environment or its command line.
type process struct {
	pid     int
	command string
}

// processesOf returns the processes of a run, without this one, the tests and
// the watchdog.
func processesOf(dir string) (found []process) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil || bytes.Contains(env, []byte(watchEnv+"=")) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		about := append(append(env, 0), line...) // nothing, of a zombie
		if !bytes.Contains(about, []byte(dir+"/")) && !bytes.Contains(about, []byte(dir+"\x00")) {
			continue
		}
		found = append(found, process{pid, strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))})
	}
	return found
}
