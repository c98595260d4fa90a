package dispatch

import (
	"errors"
	"fmt"
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
// group, which is held until they have ended. If the helper is killed, and the command with
// it, the dispatcher ends them.

func groupLock(dir, agent string) string { return filepath.Join(dir, "locks", "execgroup-"+agent) }

// Process is the process of an agent.
type Process struct {
	Running bool      // it runs, or what a killed one left
	Orphan  bool      // its helper was killed, and with it the command: what runs is what that had started
	Stray   bool      // like Orphan, and it left the group of the command: OTM does not end it
	PID     int       // it leads the group of the agent's command; if Stray, it has the lock; 0: not known
	Started time.Time // zero: not known
}

// Works reports whether the command itself runs, and not only what it left.
func (p Process) Works() bool { return p.Running && !p.Orphan && !p.Stray }

// End is the command line that ends the process; "": its id is not known.
func (p Process) End() string {
	switch {
	case p.PID == 0:
		return ""
	case p.Stray:
		return fmt.Sprintf("kill %d", p.PID)
	}
	return fmt.Sprintf("kill -- -%d", p.PID)
}

func processOf(dir, agent string) (p Process) {
	own, group := execLock(dir, agent), groupLock(dir, agent)
	for i, path := range []string{own, group, own} { // a helper takes its own lock first
		if i == 2 && !p.Running {
			break
		}
		pid, held := lock.Holder(path)
		if !held {
			continue
		}
		p = Process{PID: pid, Running: true}
		if info, err := os.Stat(path); err == nil {
			p.Started = info.ModTime() // it wrote its id then
		}
		if path == own {
			return p
		}
		p.Orphan = diesWithHelper
	}
	if p.Orphan && (p.PID == 0 || syscall.Kill(-p.PID, 0) == syscall.ESRCH) {
		p.Orphan, p.Stray, p.PID = false, true, holderOf(group)
	}
	return p
}

// ProcessRuns reports whether a process of an agent's runs that OTM ends, or what a killed one
// left.
func ProcessRuns(dir, agent string) bool {
	p := processOf(dir, agent)
	return p.Running && !p.Stray
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
	for deadline := time.Now().Add(endWait); time.Now().Before(deadline); time.Sleep(groupPoll) { // no signal comes when children of others end
		if _, held := lock.Holder(path); !held {
			return true
		}
	}
	return false
}

// endLate is when a process that was told to end should have ended: the helper gives its
// command, and then its children, endWait.
const endLate = 3 * endWait

// endProcess tells the helper of an agent to end its command, which it then does with all
// that the command started. What a killed helper left is told itself, or killed. The error
// says that it could not be told.
func endProcess(dir, agent string, kill bool) error {
	pid, held := lock.Holder(execLock(dir, agent))
	if held && (pid == 0 || pid == os.Getpid()) {
		return errors.New("its helper has just begun")
	}
	if held {
		// The handle stays with this process, also if its id is given to another one.
		helper, err := os.FindProcess(pid)
		if err != nil {
			return err
		}
		defer helper.Release()
		if now, held := lock.Holder(execLock(dir, agent)); !held || now != pid {
			return os.ErrProcessDone
		}
		return helper.Signal(syscall.SIGTERM)
	}
	if pid, held = lock.Holder(groupLock(dir, agent)); !held || pid == 0 {
		return os.ErrProcessDone
	}
	// While a process of the group lives, its id is no other process's.
	if syscall.Kill(pid, 0) != syscall.ESRCH {
		return fmt.Errorf("process %d is another one now, or was just killed", pid)
	}
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	return syscall.Kill(-pid, sig)
}

// groupPoll is how often endGroup looks.
const groupPoll = 20 * time.Millisecond
