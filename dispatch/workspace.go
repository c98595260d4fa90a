package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"otm/core"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/lock"
	"otm/internal/patience"
	"otm/pipeline"
)

// workspaces does file operations on the workspaces of agents. Each operation has
// a deadline: a workspace on a file system that hangs must not delay other agents.
type workspaces struct {
	dir  string        // the data directory
	wait time.Duration // the deadline; zero: workspaceWait

	lockWait time.Duration                // how long to wait for the lock of a dispatch file
	store    core.Reader                  // what begins a dispatch file anew; nil: the next pass does it
	aside    func(workspace, path string) // tells of a dispatch file that was set aside

	mu    sync.Mutex                        // guards known
	known map[string]func() (string, error) // identities by path
}

// workspaceWait is how long an operation on a workspace may take. A busy disk needs
// less for a sync.
const workspaceWait = 15 * time.Second

func (w *workspaces) deadline() time.Duration { return cmp.Or(w.wait, workspaceWait) }

// identity names a workspace by device and inode, so that two spellings of one
// directory have one identity. It is as it was when w was first asked. The error is a
// *fs.PathError or a *patience.SilentError.
func (w *workspaces) identity(path string) (string, error) {
	w.mu.Lock()
	known := w.known[path]
	if known == nil {
		if w.known == nil {
			w.known = map[string]func() (string, error){}
		}
		known = sync.OnceValues(func() (string, error) { return w.identify(path) })
		w.known[path] = known
	}
	w.mu.Unlock()
	return known()
}

func (w *workspaces) identify(path string) (string, error) {
	info, err := patience.Read(path, w.deadline(), nil, func() (fs.FileInfo, error) { return durable.Stat(path) })
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", &fs.PathError{Op: "stat", Path: path, Err: errNoDir}
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%q: its device and inode are not known", path)
	}
	return fmt.Sprintf("%x-%x", st.Dev, st.Ino), nil
}

// errNoDir says that a workspace is not a directory itself.
var errNoDir = errors.New("not a directory")

// WorkspaceProblem returns what is wrong with an agent's workspace; nil: nothing is. One
// that does not answer within wait is silent.
func WorkspaceProblem(a *pipeline.Agent, wait time.Duration) *explain.Finding {
	_, err := (&workspaces{wait: wait}).identity(a.Workspace)
	return workspaceProblem(a, err)
}

// workspaceProblem is WorkspaceProblem by the error of identity.
func workspaceProblem(a *pipeline.Agent, err error) *explain.Finding {
	code := explain.WorkspaceUnreadable
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		code = explain.WorkspaceMissing
	case errors.Is(err, errNoDir):
		code = explain.WorkspaceNoDir
	case patience.IsSilent(err):
		code = explain.WorkspaceSilent
	}
	return new(explain.New(code, "agent", a.Name, "path", a.Workspace, "error", err))
}

// CommandProblem returns why the command of an agent cannot be started, by the files
// that are there and the PATH of this process; nil: no reason is known.
func CommandProblem(a *pipeline.Agent) *explain.Finding {
	if a.Trigger != pipeline.TriggerExec || len(a.Command) == 0 {
		return nil
	}
	program := a.Command[0]
	missing := fmt.Sprintf("%q is not on PATH", program)
	if strings.Contains(program, "/") {
		if !filepath.IsAbs(program) {
			program = filepath.Join(a.Workspace, program)
		}
		missing = "there is no file " + program
	}
	_, err := exec.LookPath(program)
	if err == nil {
		return nil
	}
	f := explain.New(explain.CommandMissing, "agent", a.Name, "error", missing)
	if errors.Is(err, fs.ErrPermission) {
		f = explain.New(explain.CommandPlain, "agent", a.Name, "path", program)
	}
	return &f
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

// edit changes the dispatch file of a workspace under its lock. It reads the file again,
// fills one that was set aside with the open tasks, lets f change it, and replaces it if
// something changed. It is durable on return.
func (w *workspaces) edit(ctx context.Context, workspace string, now time.Time, f func(*File) error) error {
	id, err := w.identity(workspace)
	if err != nil {
		return err
	}
	l, err := lock.Acquire(ctx, filepath.Join(w.dir, "locks", "dispatch-"+id), w.lockWait)
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
	file, err := patience.Read(workspace, w.deadline(), late, func() (*File, error) {
		return readFile(filepath.Join(workspace, FileName), now)
	})
	if held = !patience.IsSilent(err); err != nil {
		return err
	}
	if file.Aside != "" {
		w.aside(workspace, filepath.Base(file.Aside))
		if err := w.beginAnew(ctx, file, workspace); err != nil {
			return err
		}
	}
	if err := f(file); err != nil {
		return err
	}
	err = patience.Do(workspace, w.deadline(), late, file.write)
	held = !patience.IsSilent(err)
	return err
}

// beginAnew puts the open tasks of a workspace into its new dispatch file.
func (w *workspaces) beginAnew(ctx context.Context, f *File, workspace string) error {
	if w.store == nil {
		return nil
	}
	tasks, err := w.store.Tasks(ctx, core.Filter{Live: true})
	for _, t := range openIn(tasks, w.identity, workspace) {
		f.Put(entryOf(t))
	}
	return err
}

// agentState is the content of agent-state.json. It is for people and for the agent. The
// dispatcher reads only whether and since when the agent is idle.
type agentState struct {
	Status string           `json:"status"` // stateWorking, stateIdle
	TaskID *pipeline.TaskID `json:"taskId"`
	Since  time.Time        `json:"since"`
}

const (
	stateWorking = "working"
	stateIdle    = "idle"
)

// maxState bounds a state file, in bytes: agents write into their workspaces.
const maxState = 1 << 20

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
func (w *workspaces) state(agents pipeline.Agents, a *pipeline.Agent) (s agentState, err error) {
	path := w.statePath(agents, a)
	data, err := patience.Read(a.Workspace, w.deadline(), nil, func() ([]byte, error) {
		data, _, err := load(path, maxState)
		return data, err
	})
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	return s, err
}

// idleSince is when "otm next" last found nothing for the agent; zero: it found
// something since, or the file cannot be read.
func (w *workspaces) idleSince(agents pipeline.Agents, a *pipeline.Agent) time.Time {
	if a.Workspace == "" {
		return time.Time{} // it is configured no more
	}
	s, err := w.state(agents, a)
	if err != nil || s.Status != stateIdle {
		return time.Time{}
	}
	return s.Since
}

// writeState replaces the state file of an agent that was given a task; nil: it found
// none. It is not durable: after a power failure the file may be the one before, and the
// store knows what the agent was given.
func (w *workspaces) writeState(agents pipeline.Agents, a *pipeline.Agent, t *Taken, now time.Time) error {
	s := agentState{Status: stateIdle, Since: now.UTC()}
	if t != nil {
		s.Status, s.TaskID = stateWorking, &t.Task.ID
		if t.Task.Taken() {
			s.Since = t.Task.Dispatch.TakenAt.UTC()
		}
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	path := w.statePath(agents, a)
	return patience.Do(a.Workspace, w.deadline(), nil, func() error { return durable.ReplaceVolatile(path, append(data, '\n')) })
}
