package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/internal/crash"
	"otm/pipeline"
)

// The environment of a process that carries commands out on the store of a directory,
// one for each id, and prints those that were acknowledged. At the nth passage of the
// point it kills itself.
const (
	dirEnv  = "STORE_TEST_DIR"
	killEnv = "STORE_TEST_KILL_AT" // point:n
)

const processTasks = 30

func runProcess() {
	if point, n, ok := strings.Cut(os.Getenv(killEnv), ":"); ok {
		passed := 0
		crash.Hook = func(p string) {
			if p == point {
				if passed++; fmt.Sprint(passed) == n {
					syscall.Kill(os.Getpid(), syscall.SIGKILL)
					select {}
				}
			}
		}
	}
	ctx := context.Background()
	s, err := Open(ctx, os.Getenv(dirEnv), Options{BusyTimeout: time.Minute})
	for id := pipeline.TaskID(1); err == nil && id <= processTasks; id++ {
		var o []core.Outcome
		if o, err = s.Do(ctx, request(id, fmt.Sprint("d", int(id)))); err != nil || o[0].Err != nil {
			break
		}
		fmt.Println(int(id))
		var leased []core.Pending
		if leased, err = s.Lease(ctx, core.SinkRender, fmt.Sprint(os.Getpid()), t0, time.Minute, 0); err == nil {
			err = s.Delivered(ctx, leased...)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process runs a process on the store of a directory, which ends, or is killed, and
// returns how many commands were acknowledged.
func process(t *testing.T, dir, kill string) int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), dirEnv+"="+dir, killEnv+"="+kill)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return 0
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return 0
	}
	acknowledged := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		acknowledged++
	}
	err = cmd.Wait()
	var ended *exec.ExitError
	killed := errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if killed != (kill != "") || err != nil && !killed {
		t.Errorf("%s: the process ended with %v", kill, err)
	}
	return acknowledged
}

// A process that is killed has lost no command that was acknowledged, and half of none
// is there. The next one sends the same commands, and goes on.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, kill := range []string{"sqlite.commit:1", "sqlite.commit:4", "sqlite.committed:4", "store.done:1", "sqlite.commit:9", "sqlite.committed:20", "store.done:30", ""} {
		acknowledged := process(t, dir, kill)
		s, err := Open(t.Context(), dir, Options{BusyTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		tasks, err := s.Tasks(t.Context(), core.Filter{})
		if err != nil || len(tasks) < acknowledged {
			t.Errorf("%s: %d tasks of %d are there, %v", kill, len(tasks), acknowledged, err)
		}
		check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Two processes send the same commands to one new store: each is carried out once.
func TestProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	done := make(chan int)
	for range 2 {
		go func() { done <- process(t, dir, "") }()
	}
	for range 2 {
		if n := <-done; n != processTasks {
			t.Errorf("%d commands were acknowledged", n)
		}
	}
	s := opened(t)(Open(t.Context(), dir, Options{}))
	events, err := s.Events(t.Context(), core.EventFilter{})
	if err != nil || len(events) != processTasks {
		t.Errorf("%d events, %v", len(events), err)
	}
	check(t, s)
}
