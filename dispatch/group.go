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

// agentProcess returns the process that leads the group of an agent's command; 0: not
// known. held reports whether it, or what a killed one left, runs.
func agentProcess(dir, agent string) (pid int, held bool) {
	if pid, held = lock.Holder(execLock(dir, agent)); held {
		return pid, true
	}
	return lock.Holder(groupLock(dir, agent))
}

// startedAt is when the process of an agent that runs was started; zero: not known.
// It wrote its id into the lock then.
func startedAt(dir, agent string) time.Time {
	var last time.Time
	for _, path := range []string{execLock(dir, agent), groupLock(dir, agent)} {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
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
