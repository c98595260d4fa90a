package dispatch

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"

	"otm/internal/explain"
	"otm/pipeline"
)

// hangs starts alpha with a command that hangs. It returns its process, and a channel
// that is closed when all that opened the pipe alive are gone.
func (w *world) hangs(alive string) (pid int, gone <-chan string) {
	w.Helper()
	up, gone := w.fifo("up"), w.fifo(alive)
	w.create("x", "alpha", pipeline.Normal)
	want(w.T, "woken", w.pass().Woken, 1)
	w.line(up)
	h, err := AgentHealth(context.Background(), w.store, w.dir, w.agent("alpha"))
	if err != nil || h.PID == 0 || !h.Running || h.Started.IsZero() {
		w.Fatalf("its process: %+v, %v", h, err)
	}
	return h.PID, gone
}

// killHelper kills alpha's helper alone, and waits until it is gone.
func (w *world) killHelper(pid int) {
	w.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		w.Fatal(err)
	}
	w.ended()
	w.d.Wakers[pipeline.TriggerExec].(*Exec).Wait() // until it is reaped
}

// C5: what the hint says ends a process with all that it started, and its end is
// noted: show has a line of it, and the next one starts after a pause.
func TestC5HintEndsTheGroup(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(pid int) error{
		"kill -- -PID": func(pid int) error { return syscall.Kill(-pid, syscall.SIGTERM) },
		"kill PID":     func(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newExecWorld(t, `(exec 4> alive; exec sleep 1000) & exec 4> alive; echo up > up; wait`)
			pid, gone := w.hangs("alive")
			if err := end(pid); err != nil {
				t.Fatal(err)
			}
			want(t, "it is gone with its child", w.line(gone), "")
			w.ended()
			wake := w.record(1).Wakes[0]
			want(t, "the end", words(wake.Exit, *wake.Code, wake.Log != ""), "killed by signal 15 143 true")
			want(t, "events", w.count(1, "StartEnded"), 1)
			want(t, "then", w.pass().Woken, 0)
		})
	}
}

// The helper alone is killed, and its command with it. A child lives on: nothing is
// started beside it. OTM ends it, as the helper would have, and by force if need be. The run
// counts as one that was killed.
func TestKilledHelperLeavesAChild(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `(trap '' TERM; exec 4> alive; while :; do sleep 1000; done) & echo up > up; exec sleep 1000`)
	pid, gone := w.hangs("alive")
	want(t, "takes", w.next("alpha"), pipeline.TaskID(1))
	w.killHelper(pid)
	h := w.health()
	want(t, "what it left runs", words(h.Running, h.Orphan, h.PID == pid, h.Finding(w.clock.Now()).Code), words(true, true, true, explain.AgentOrphan))
	want(t, "the task is left", w.outlook().Left[1], true)
	want(t, "nothing is started beside it", w.pass().Woken, 0)
	h = w.health()
	want(t, "told to end", words(h.Ends.Task, h.Ends.Orphan, h.Finding(w.clock.Now()).Code), words("T-00001", true, explain.AgentEnding))
	w.clock.Advance(endWait)
	w.pass()
	want(t, "it is gone", w.line(gone), "")
	w.freed(groupLock(w.dir, "alpha"))
	w.pass()
	task := w.record(1)
	want(t, "the end", words(task.Wakes[0].Exit, task.Runs.Last().Ending, w.health().Failures, w.health().Ends == nil), "killed; nobody saw how failed 1 true")
}

// What has left the group of a killed command is not ended. It is named by its own id, and
// nothing is started beside it. If the run was canceled, its end is no failure of the agent.
func TestKilledHelperLeavesAStray(t *testing.T) {
	t.Parallel()
	for name, want1 := range map[string]string{"at work": "failed 1", "canceled": "canceled 0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newExecWorld(t, `setsid sh -c 'exec 4> alive; echo up > up; exec sleep 1000' & exec sleep 1000`)
			pid, gone := w.hangs("alive")
			want(t, "takes", w.next("alpha"), pipeline.TaskID(1))
			if name == "canceled" {
				w.edit(1, w.status(pipeline.Dormant))
			}
			w.killHelper(pid)
			for syscall.Kill(-pid, 0) != syscall.ESRCH {
				runtime.Gosched() // the kernel ends its command at once, and nobody tells us
			}
			r := w.pass()
			want(t, "nothing is started beside it", r.Woken, 0)
			want(t, "a pass looks soon whether it has ended", !r.Due.IsZero() && !r.Due.After(w.clock.Now().Add(strayAgain)), true)
			h := w.health()
			want(t, "it is told of", words(h.Running, h.Stray, h.Orphan, h.Finding(w.clock.Now()).Code), words(true, true, false, explain.AgentStray))
			want(t, "the task is left", w.outlook().Left[1], name == "at work")
			if h.PID == pid || h.PID == 0 {
				t.Fatalf("its id is %d", h.PID)
			}
			want(t, "how to end it", h.End(), fmt.Sprintf("kill %d", h.PID))
			if err := syscall.Kill(h.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			want(t, "it is gone", w.line(gone), "")
			w.freed(groupLock(w.dir, "alpha"))
			w.pass()
			want(t, "its run", words(w.record(1).Runs.Last().Ending, w.health().Failures), want1)
		})
	}
}

// A command that a signal ended takes its children along.
func TestSignalledCommandTakesChildrenAlong(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `(exec 4> alive; exec sleep 1000) & exec 5> alive; kill -9 $$`)
	gone := w.fifo("alive")
	w.create("x", "alpha", pipeline.Normal)
	want(t, "woken", w.pass().Woken, 1)
	want(t, "its child is gone", w.line(gone), "")
	w.ended()
	want(t, "the end", w.record(1).Wakes[0].Exit, "killed by signal 9")
}
