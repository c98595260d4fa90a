package view

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/dispatch"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/patience"
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
	own := map[string]bool{} // rows of its tasks, also where the board does not show yet that they are
	for _, t := range v.read(core.Filter{Live: true, Agent: a.Name}) {
		own[t.RowID] = true
	}
	rows := slices.DeleteFunc(slices.Clone(v.tops), func(r *pipeline.Row) bool { return v.Agents.Assigned(r.Assignee) != a && !own[r.ID] })
	v.own(rows...)
	var tasks []*core.Task
	for _, row := range rows {
		t := v.OfRow(row)
		if t.Agent != a {
			continue // it is about to be another one's
		}
		its.Tasks = append(its.Tasks, t)
		if t.State != nil && t.State.RowID == row.ID {
			tasks = append(tasks, t.State)
		}
	}
	v.agents[a.Name] = its
	if a.Person {
		return its
	}
	if wrong := v.Workspace(a); wrong != nil && wrong.Code == explain.WorkspaceSilent {
		its.Err = &patience.SilentError{Path: a.Workspace}
		return its
	}
	its.Outlook, its.Err = v.outlooks.Of(v.ctx, a, tasks)
	return its
}

// LeftBy says that the process of an agent ended and left a task unfinished that it took; nil:
// that is not known.
func LeftBy(v *View, its *Agent, taken *Task) *explain.Finding {
	if its.Err != nil || !its.Outlook.Left[taken.ID] {
		return nil
	}
	w := its.Outlook.Wake
	code, args := explain.TakenEnded, []any{"agent", its.Name, "exit", cmp.Or(w.Exit, "nobody saw how"), "log", v.AgentLog(its.Agent), "other", taken.ID}
	switch {
	case len(v.waiting(taken.ID)) > 0:
		code = explain.TakenUnapplied
	case w.Ended.IsZero():
		code = explain.TakenGone
	}
	if !w.Ended.IsZero() {
		args = append(args, "at", w.Ended)
	}
	return new(explain.New(code, args...))
}

// Silent lists the tasks on which an agent is at work and of which nothing was heard for
// long.
func Silent(v *View, a *pipeline.Agent) []explain.Finding {
	var tasks []*core.Task
	for _, t := range v.Agent(a).Tasks {
		if t.State != nil {
			tasks = append(tasks, t.State)
		}
	}
	found, _ := v.outlooks.SilentOn(a, tasks)
	return slices.DeleteFunc(found, func(f explain.Finding) bool { return f.Code == explain.TaskRests || f.Code == explain.TaskRestsLong })
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

// Bounds of the end of a log that is shown.
const (
	maxTail      = 4 << 10 // bytes
	maxTailLines = 20
)

// LogTail returns the last lines of the log of a run of a command. It reads nothing
// outside of the folder of these logs, whatever the path says.
func LogTail(logDir, path string) (string, error) {
	root := filepath.Join(logDir, "exec")
	name, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(name) {
		return "", fmt.Errorf("%q is no log of this directory", path)
	}
	data, err := durable.ReadTail(root, name, maxTail)
	if err != nil {
		return "", err
	}
	text := strings.ToValidUTF8(string(data), "\ufffd")
	if _, rest, more := strings.Cut(text, "\n"); more && len(data) == maxTail {
		text = rest // the first line is cut
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-maxTailLines):], "\n"), nil
}

// Workspace is what is wrong with an agent's workspace; nil: nothing is, or it
// has none.
func (v *View) Workspace(a *pipeline.Agent) *explain.Finding {
	if v.workspaces == nil {
		v.workspaces = LookAtWorkspaces(v.Agents)
	}
	return v.workspaces[a.Name]
}

// LookAtWorkspaces looks at the workspaces of all agents at the same time, and
// returns what is wrong with each, by the agent's name. Each look has the deadline of
// readers.
func LookAtWorkspaces(agents pipeline.Agents) map[string]*explain.Finding {
	looks := map[string]chan *explain.Finding{}
	for i := range agents {
		if a := &agents[i]; !a.Person {
			look := make(chan *explain.Finding, 1)
			looks[a.Name] = look
			go func() { look <- dispatch.WorkspaceProblem(a, patience.Reader) }()
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
