package dispatch

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"otm/internal/lock"
	"otm/pipeline"
)

// The helper is killed: its agent ends with it, and the lock is free, so that
// nobody works unseen beside the next one.
func TestExecHelperKilled(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exec 3> alive; echo $$ > up; exec sleep 1000`)
	up, alive := w.fifo("up"), w.fifo("alive")
	died := make(chan struct{})
	w.d.Wakers[pipeline.TriggerExec].(*Exec).Died = func() { close(died) }
	id := w.create("x", "alpha", pipeline.Normal)
	want(t, "woken", w.pass().Woken, 1)
	w.line(up)
	pid, held := lock.Holder(execLock(w.dir, "alpha"))
	if !held || pid == 0 {
		t.Fatalf("no helper: %d", pid)
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || strings.Contains(string(environ), "secret") || !strings.Contains(string(environ), "HARMLESS=kept") {
		t.Errorf("environment of the helper: %q, %v", environ, err)
	}
	session, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if errno != 0 || int(session) != pid {
		t.Errorf("session of the helper %d: %d, %v", pid, session, errno)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	want(t, "it is gone", w.line(alive), "")
	<-died // the dispatcher is to look at once; the end of the next helper, which nobody kills, does not say so again
	w.ended()
	want(t, "its end is not known", w.record(id).Wakes[0].Exit, "")
	w.agents[0].Command = []string{"true"}
	want(t, "the next attempt", w.pass().Woken, 1)
	w.ended()
	killed := w.record(id).Wakes[0]
	want(t, "then it is noted", words(killed.Exit, !killed.Ended.IsZero(), killed.Code == nil), "killed; nobody saw how true true")
	if _, err := os.Stat(killed.Log); err != nil {
		t.Errorf("log: %v", err)
	}
	state, err := w.store.Agent(context.Background(), "alpha")
	if err != nil || state.LastStart.Log != killed.Log {
		t.Errorf("state: %+v, %v", state.LastStart, err)
	}
	state.Fruitless = 1 // as before the command was changed
	if next := (Health{AgentState: state}).Finding(w.clock.Now()).Next(w.clock.Now()); !strings.HasPrefix(next, "tail ") {
		t.Errorf("next: %q", next)
	}
}
