package view

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"otm/dispatch"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/pipeline"
)

// Agent is one agent with what the board gives it.
type Agent struct {
	*pipeline.Agent
	Tasks   []*Task // that are on the board, in its order
	Outlook dispatch.Outlook
	Err     error // why there is no Outlook
}

// Agent returns an agent with its tasks, and what the rules of waking make of
// them.
func (v *View) Agent(a *pipeline.Agent) *Agent {
	if known := v.agents[a.Name]; known != nil {
		return known
	}
	its := &Agent{Agent: a}
	var records []*pipeline.Record
	for _, row := range v.tops {
		if v.Agents.Assigned(row.Assignee) != a {
			continue
		}
		t := v.OfRow(row)
		its.Tasks = append(its.Tasks, t)
		if t.Record != nil && t.Record.RowID == row.ID {
			records = append(records, t.Record)
		}
	}
	v.agents[a.Name] = its
	if a.Person {
		return its
	}
	outlooks := v.outlooks
	var answered bool
	its.Outlook, answered, its.Err = within(func() (dispatch.Outlook, error) { return outlooks.Of(a, records) }) // it reads a file in the workspace
	if !answered {
		fresh := dispatch.Outlooks{Dir: v.Dir, Agents: v.Agents, Records: v.Records, Now: v.Now, Times: v.Times}
		v.outlooks = &fresh // the call that hangs has the other one
		its.Err = &SilentError{a.Workspace}
	}
	return its
}

// AgentLog is the file with the latest output of an agent that was started as a
// process, or the folder of these files if it has none.
func (v *View) AgentLog(a *pipeline.Agent) string {
	dir := filepath.Join(v.LogDir, "exec", a.Name)
	entries, _ := durable.ReadDir(dir) // without it, the folder is named
	newest, path := time.Time{}, dir
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.ModTime().After(newest) {
			newest, path = info.ModTime(), filepath.Join(dir, e.Name())
		}
	}
	return path
}

// Patience is how long a reader waits for a workspace, which may lie on a file
// system that does not answer (C46).
const Patience = 3 * time.Second

// SilentError says that a directory did not answer within Patience.
type SilentError struct{ Path string }

func (e *SilentError) Error() string {
	return e.Path + " does not answer: its file system hangs"
}

// within calls f and waits for it for at most Patience; answered is false if it
// did not return. A call that hangs in the kernel cannot be ended: its goroutine
// stays until the process ends, or the file system answers.
func within[T any](f func() (T, error)) (value T, answered bool, err error) {
	type answer struct {
		value T
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		value, err := f()
		got <- answer{value, err}
	}()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case a := <-got:
		return a.value, true, a.err
	case <-timer.C:
		return value, false, nil
	}
}

// Within is for other readers that touch a workspace: it calls f, and reports
// whether f returned within Patience. What f returns besides an error counts.
func Within[T any](f func() (T, error)) (value T, answered bool) {
	value, answered, _ = within(f)
	return value, answered
}

// Workspace is what is wrong with an agent's workspace; nil: nothing is, or it
// has none.
func (v *View) Workspace(a *pipeline.Agent) *explain.Finding {
	if v.Workspaces == nil {
		v.Workspaces = LookAtWorkspaces(v.Agents)
	}
	return v.Workspaces[a.Name]
}

// LookAtWorkspaces looks at the workspaces of all agents at the same time, and
// returns what is wrong with each, by the agent's name. It takes no longer than
// Patience.
func LookAtWorkspaces(agents pipeline.Agents) map[string]*explain.Finding {
	looks := map[string]chan *explain.Finding{}
	for i := range agents {
		if a := &agents[i]; !a.Person {
			look := make(chan *explain.Finding, 1)
			looks[a.Name] = look
			go func() { look <- lookAt(a) }()
		}
	}
	wrong := map[string]*explain.Finding{}
	for name, look := range looks {
		if f := <-look; f != nil {
			wrong[name] = f
		}
	}
	return wrong
}

// WorkspaceCache is LookAtWorkspaces for who asks again and again. It is safe for
// use by several goroutines; its zero value is empty.
type WorkspaceCache struct {
	mu    sync.Mutex // guards what follows, and is held while workspaces are looked at
	wrong map[string]*explain.Finding
	at    time.Time
}

// workspaceAge is for how long what a WorkspaceCache knows is fresh enough.
const workspaceAge = 30 * time.Second

// Get returns what is wrong with each workspace, by the agent's name.
func (c *WorkspaceCache) Get(agents pipeline.Agents, now time.Time) map[string]*explain.Finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wrong == nil || now.Sub(c.at).Abs() >= workspaceAge {
		c.wrong, c.at = LookAtWorkspaces(agents), now
	}
	return c.wrong
}

func lookAt(a *pipeline.Agent) *explain.Finding {
	info, answered, err := within(func() (fs.FileInfo, error) { return durable.Stat(a.Workspace) })
	code, cause := explain.Code(""), ""
	switch {
	case !answered:
		code = explain.WorkspaceSilent
	case errors.Is(err, fs.ErrNotExist):
		code = explain.WorkspaceMissing
	case err != nil:
		code, cause = explain.WorkspaceUnreadable, err.Error()
	case !info.IsDir():
		code = explain.WorkspaceNoDir
	default:
		return nil
	}
	f := explain.New(code, "agent", a.Name, "path", a.Workspace, "error", cause)
	return &f
}
