package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"otm/internal/lock"
	"otm/pipeline"
)

// workspaces does file operations on the workspaces of agents. Each has a
// deadline, as a workspace may lie on a file system that does not answer: that is
// the trouble of its own agents, and nobody else waits for it.
type workspaces struct {
	dir  string            // the data directory
	wait time.Duration     // the deadline; zero: workspaceWait
	hang func(path string) // tests hang in it; nil: nothing

	mu    sync.Mutex
	stuck map[string]int // workspaces with operations that have not returned
}

// workspaceWait is how long an operation on a workspace may take: longer than a busy
// disk needs for a sync.
const workspaceWait = 15 * time.Second

// SilentError says that a workspace does not answer.
type SilentError struct{ Workspace string }

func (e *SilentError) Error() string {
	return fmt.Sprintf("%q does not answer: its file system hangs", e.Workspace)
}

// within calls f and waits for it until the deadline; the error is then a
// *SilentError. A call that hangs in the kernel cannot be ended: until it
// returns, further operations on the workspace fail at once, so that no more of
// them pile up. late is called when a call returns for which nobody waits any
// more; f must not touch what its caller goes on to use.
func (w *workspaces) within(path string, f func() error, late func()) error {
	w.mu.Lock()
	stuck := w.stuck[path] > 0
	w.mu.Unlock()
	if stuck {
		late()
		return &SilentError{path}
	}
	done := make(chan error, 1)
	go func() {
		defer close(done) // also where f ends its goroutine
		if w.hang != nil {
			w.hang(path)
		}
		done <- f()
	}()
	wait := w.wait
	if wait == 0 {
		wait = workspaceWait
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case err, returned := <-done:
		if !returned {
			runtime.Goexit() // as if f had been called here
		}
		return err
	case <-timer.C:
	}
	w.count(path, 1)
	go func() {
		<-done
		late()
		w.count(path, -1)
	}()
	return &SilentError{path}
}

func (w *workspaces) count(path string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stuck == nil {
		w.stuck = map[string]int{}
	}
	w.stuck[path] += n
}

// identity names a workspace by device and inode: two spellings of one directory
// have one. The error is a *fs.PathError or a *SilentError.
func (w *workspaces) identity(path string) (string, error) {
	info, err := w.stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", &fs.PathError{Op: "stat", Path: path, Err: syscall.ENOTDIR}
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%q: its device and inode are not known", path)
	}
	return fmt.Sprintf("%x-%x", st.Dev, st.Ino), nil
}

func (w *workspaces) stat(path string) (fs.FileInfo, error) {
	result := make(chan fs.FileInfo, 1)
	err := w.within(path, func() error {
		info, err := os.Stat(path)
		result <- info
		return err
	}, func() {})
	if err != nil {
		return nil, err
	}
	return <-result, nil
}

// same reports whether two paths name one directory.
func (w *workspaces) same(a, b string) bool {
	if a == b {
		return true
	}
	ai, aerr := w.identity(a)
	bi, berr := w.identity(b)
	return aerr == nil && berr == nil && ai == bi
}

// edit changes the dispatch file of a workspace under its lock, for which it waits
// that long: it reads the file again, lets f change it, and replaces it if f
// changed something. It is durable on return.
func (w *workspaces) edit(ctx context.Context, workspace string, now time.Time, lockWait time.Duration, f func(*File) error) error {
	id, err := w.identity(workspace)
	if err != nil {
		return err
	}
	l, err := lock.Acquire(ctx, filepath.Join(w.dir, "locks", "dispatch-"+id), lockWait)
	if err != nil {
		return err
	}
	release := func() { l.Release() }
	defer func() { release() }()
	do := func(f func() error) error {
		err := w.within(workspace, f, func() { l.Release() })
		if isSilent(err) {
			release = func() {} // the call that hangs has the lock
		}
		return err
	}
	read := make(chan *File, 1)
	if err := do(func() error {
		file, err := readFile(filepath.Join(workspace, FileName), now)
		read <- file
		return err
	}); err != nil {
		return err
	}
	file := <-read
	if err := f(file); err != nil {
		return err
	}
	return do(file.write)
}

func isSilent(err error) bool {
	var silent *SilentError
	return errors.As(err, &silent)
}

// statePath is where the state of an agent stands: agents that share a workspace
// have a file each.
func (w *workspaces) statePath(agents pipeline.Agents, a *pipeline.Agent) string {
	name := "agent-state.json"
	for i := range agents {
		if o := &agents[i]; o.Name != a.Name && o.Workspace != "" && w.same(o.Workspace, a.Workspace) {
			name = "agent-state-" + a.Name + ".json"
		}
	}
	return filepath.Join(a.Workspace, name)
}

// state reads the state file of an agent. The error matches fs.ErrNotExist if there
// is none.
func (w *workspaces) state(agents pipeline.Agents, a *pipeline.Agent) (agentState, error) {
	path := w.statePath(agents, a)
	read := make(chan agentState, 1)
	err := w.within(a.Workspace, func() error {
		s, err := readState(path)
		read <- s
		return err
	}, func() {})
	if err != nil {
		return agentState{}, err
	}
	return <-read, nil
}

// idleSince is when "otm next" last found nothing for the agent; zero if it found
// something since, or the file does not tell.
func (w *workspaces) idleSince(agents pipeline.Agents, a *pipeline.Agent) time.Time {
	s, err := w.state(agents, a)
	if err != nil || s.Status != stateIdle {
		return time.Time{}
	}
	return s.Since
}

// writeState writes the state file of an agent that was given a task, or found
// none: nil.
func (w *workspaces) writeState(agents pipeline.Agents, a *pipeline.Agent, t *Taken, now time.Time) error {
	s := agentState{Status: stateIdle, Since: now.UTC()}
	if t != nil {
		s.Status, s.TaskID = stateWorking, &t.Entry.TaskID
		was, err := w.state(agents, a)
		if err == nil && t.Continue && was.Status == stateWorking && was.TaskID != nil && *was.TaskID == t.Entry.TaskID {
			return nil
		}
	}
	path := w.statePath(agents, a)
	return w.within(a.Workspace, func() error { return writeState(path, s) }, func() {})
}
