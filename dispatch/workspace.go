package dispatch

import (
	"cmp"
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

// workspaces does file operations on the workspaces of agents. Each operation has
// a deadline: a workspace on a file system that hangs must not delay other agents.
type workspaces struct {
	dir  string            // the data directory
	wait time.Duration     // the deadline; zero: workspaceWait
	hang func(path string) // called before each operation, so that tests can hang it; nil: not called

	mu    sync.Mutex
	stuck map[string]int // workspace → operations past their deadline that have not returned
}

// workspaceWait is how long an operation on a workspace may take. A busy disk needs
// less for a sync.
const workspaceWait = 15 * time.Second

// SilentError says that a workspace does not answer.
type SilentError struct{ Workspace string }

func (e *SilentError) Error() string {
	return fmt.Sprintf("%q does not answer: its file system hangs", e.Workspace)
}

// within calls f and waits for it until the deadline; the error is then a
// *SilentError. A call that hangs in the kernel cannot be ended. Until it returns,
// further operations on the workspace fail at once, so that they do not pile up. f
// must not touch what its caller uses afterwards. late is called when f returns
// after the deadline, or was not called; nil: not called.
func (w *workspaces) within(path string, f func() error, late func()) error {
	w.mu.Lock()
	stuck := w.stuck[path] > 0
	w.mu.Unlock()
	if late == nil {
		late = func() {}
	}
	if stuck {
		late()
		return &SilentError{path}
	}
	done := make(chan error, 1)
	go func() {
		defer close(done) // also if f ends its goroutine
		if w.hang != nil {
			w.hang(path)
		}
		done <- f()
	}()
	timer := time.NewTimer(cmp.Or(w.wait, workspaceWait))
	defer timer.Stop()
	select {
	case err, returned := <-done:
		if !returned {
			runtime.Goexit() // as f did
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

// readWithin is within for a function that reads something.
func readWithin[T any](w *workspaces, path string, late func(), f func() (T, error)) (T, error) {
	result := make(chan T, 1)
	err := w.within(path, func() error {
		v, err := f()
		result <- v
		return err
	}, late)
	if err != nil {
		var none T
		return none, err
	}
	return <-result, nil
}

// identity names a workspace by device and inode, so that two spellings of one
// directory have one identity. The error is a *fs.PathError or a *SilentError.
func (w *workspaces) identity(path string) (string, error) {
	info, err := readWithin(w, path, nil, func() (fs.FileInfo, error) { return os.Stat(path) })
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

// samePlace reports whether two paths name one directory, as far as their
// identities are known.
func samePlace(identity func(string) (string, error), a, b string) bool {
	if a == b {
		return true
	}
	ai, aerr := identity(a)
	bi, berr := identity(b)
	return aerr == nil && berr == nil && ai == bi
}

// edit changes the dispatch file of a workspace under its lock, for which it waits
// at most lockWait. It reads the file again, lets f change it, and replaces it if f
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
	held := true // false: a hanging call keeps the lock until it returns
	late := func() { l.Release() }
	defer func() {
		if held {
			l.Release()
		}
	}()
	file, err := readWithin(w, workspace, late, func() (*File, error) { return readFile(filepath.Join(workspace, FileName), now) })
	if held = !isSilent(err); err != nil {
		return err
	}
	if err := f(file); err != nil {
		return err
	}
	err = w.within(workspace, file.write, late)
	held = !isSilent(err)
	return err
}

func isSilent(err error) bool {
	var silent *SilentError
	return errors.As(err, &silent)
}

// statePath is the path of an agent's state file. Agents that share a workspace have
// a file each.
func (w *workspaces) statePath(agents pipeline.Agents, a *pipeline.Agent) string {
	name := "agent-state.json"
	for i := range agents {
		if o := &agents[i]; o.Name != a.Name && o.Workspace != "" && samePlace(w.identity, o.Workspace, a.Workspace) {
			name = "agent-state-" + a.Name + ".json"
		}
	}
	return filepath.Join(a.Workspace, name)
}

// state reads the state file of an agent. The error matches fs.ErrNotExist if there
// is none.
func (w *workspaces) state(agents pipeline.Agents, a *pipeline.Agent) (agentState, error) {
	path := w.statePath(agents, a)
	return readWithin(w, a.Workspace, nil, func() (agentState, error) { return readState(path) })
}

// idleSince is when "otm next" last found nothing for the agent; zero: it found
// something since, or the file cannot be read.
func (w *workspaces) idleSince(agents pipeline.Agents, a *pipeline.Agent) time.Time {
	s, err := w.state(agents, a)
	if err != nil || s.Status != stateIdle {
		return time.Time{}
	}
	return s.Since
}

// writeState writes the state file of an agent that was given a task; nil: it found
// none.
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
	return w.within(a.Workspace, func() error { return writeState(path, s) }, nil)
}
