package dispatch

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/core/store"
	"otm/internal/crash"
	"otm/internal/leak"
)

// TestMain lets the test binary act as the helper of an agent, and as a dispatcher
// that is killed at a named point. It checks that no goroutine is left after all
// tests.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == HelperCommand {
		os.Exit(helperMain())
	}
	if order := os.Getenv(victimEnv); order != "" {
		armCrash(os.Getenv(crashEnv))
		os.Exit(victimMain(order))
	}
	for name, value := range inherited {
		os.Setenv(name, value)
	}
	os.Exit(leak.Run(m))
}

// inherited is what the dispatcher of the tests finds in its environment.
var inherited = map[string]string{
	"SLACK_BOT_TOKEN": "xoxb-secret", "MY_GATEWAY_TOKEN": "gateway-secret", "OTM_TASK_ID": "T-99999", "OTM_LOG_DIR": "/stale", "HARMLESS": "kept",
}

// helperMain is the helper of the binaries of OTM. After the end is noted it
// touches helper-ended in the data directory.
func helperMain() int {
	open := func(ctx context.Context, dir, url string) (core.Store, func() error, error) {
		s, err := store.Open(ctx, dir, store.Options{URL: url, BusyTimeout: time.Minute})
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	ended := func(dir string) { os.WriteFile(dir+"/helper-ended", nil, 0o600) }
	return RunHelper(os.Stdin, os.Stdout, time.Now, open, ended)
}

// The environment of a process that is to be killed.
const (
	victimEnv = "DISPATCH_TEST_VICTIM" // what it is to do
	crashEnv  = "DISPATCH_TEST_CRASH"  // where it is killed: "wake.after:3" is the third time
)

// armCrash installs the hook that kills the process at the nth time a point is
// reached.
func armCrash(at string) {
	point, nth, _ := strings.Cut(at, ":")
	n, err := strconv.Atoi(nth)
	if err != nil {
		return
	}
	var left atomic.Int32 // workspaces are written side by side
	left.Store(int32(n))
	crash.Hook = func(name string) {
		if name != point {
			return
		}
		if left.Add(-1) == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}
