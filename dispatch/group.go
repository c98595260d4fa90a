package dispatch

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"otm/internal/lock"
)

// The helper leads a session and a process group of its own, in which the command and
// all that it starts run. So one signal to the group ends them: kill -- -PID.
//
// A command that ends by itself may leave something running. One that a signal ends
// may not: the next one would work beside its children. They inherit the lock of the
// group, which is held until they have ended, also if the helper is killed.

func groupLock(dir, agent string) string { return filepath.Join(dir, "locks", "execgroup-"+agent) }

// Process is the process of an agent.
type Process struct {
	Running bool      // it runs, or what a killed one left
	PID     int       // it leads the group of the agent's command; 0: not known
	Started time.Time // zero: not known
}

func processOf(dir, agent string) (p Process) {
	for _, path := range []string{execLock(dir, agent), groupLock(dir, agent)} {
		if p.PID, p.Running = lock.Holder(path); !p.Running {
			continue
		}
		if info, err := os.Stat(path); err == nil {
			p.Started = info.ModTime() // it wrote its id then
		}
		break
	}
	return p
}

// endWait is how long a command, and then its children, get to end after SIGTERM.
const endWait = 10 * time.Second

// endSignals returns the signals by which people and systems end processes. The
// helper outlives them: it has to note the end of its command.
func endSignals() <-chan os.Signal {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	return stop
}

// waitFor waits for the end of a command, and returns the error of its Wait. If the
// helper is told to end, it ends the command.
func waitFor(cmd *exec.Cmd, stop <-chan os.Signal) (err error, stopped bool) {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return err, false
	case <-stop:
	}
	signalGroup(syscall.SIGTERM) // the signal may have reached only this process
	cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-done:
		return err, true
	case <-time.After(endWait):
	}
	cmd.Process.Kill()
	return <-done, true
}

// signalGroup sends a signal to the group, us included, if it is ours.
func signalGroup(sig syscall.Signal) {
	if syscall.Getpgrp() == os.Getpid() {
		syscall.Kill(0, sig)
	}
}

// endGroup tells what a command left in its group to end, and reports whether all of
// it has ended within endWait.
func endGroup(path string) bool {
	if _, held := lock.Holder(path); !held {
		return true
	}
	signalGroup(syscall.SIGTERM)
	for deadline := time.Now().Add(endWait); time.Now().Before(deadline); time.Sleep(groupPoll) {
		if _, held := lock.Holder(path); !held {
			return true
		}
	}
	return false
}

// groupPoll is how often endGroup looks: no signal comes when children of others end.
const groupPoll = 20 * time.Millisecond
