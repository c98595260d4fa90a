package fsck

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"otm/core"
	"otm/dispatch"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/internal/view"
	"otm/pipeline"
)

// dispatchFiles compares the dispatch files with the tasks.
func (c *check) dispatchFiles() error {
	type place struct {
		workspace string
		id        pipeline.TaskID
		agent     string
	}
	entries := map[place]int{}
	read := map[string]bool{} // workspaces; false: their entries are not known
	for i := range c.Agents {
		workspace, err := c.resolved(c.Agents[i].Name, c.Agents[i].Workspace)
		if err != nil {
			return err
		}
		if _, known := read[workspace]; workspace == "" || known {
			continue
		}
		list, ok, err := c.readDispatch(workspace)
		read[workspace] = ok
		if patience.IsSilent(err) {
			c.silent(c.Agents[i].Name, c.Agents[i].Workspace)
			continue
		}
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		for _, e := range list {
			entries[place{workspace, e.TaskID, pipeline.FoldName(e.Agent)}]++
			t := c.tasks[e.TaskID]
			switch {
			case t == nil:
			case t.Status.Finished() && c.Quiet:
				c.found(RuleDispatch, e.TaskID, "", explain.EntryOver, "status", t.Status, "path", workspace)
			case t.Dispatch != nil && !core.SameAgent(t.Dispatch.Agent, e.Agent) && c.Quiet:
				c.found(RuleDispatch, e.TaskID, "", explain.EntryForeign, "agent", t.Dispatch.Agent, "other", e.Agent)
			}
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(entries), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.workspace, b.workspace), cmp.Compare(a.agent, b.agent))
	}) {
		if n := entries[p]; n > 1 && p.id != 0 { // of equal entries, only their agent knows which it marked
			c.found(RuleDispatch, p.id, "", explain.EntryTwice, "n", n, "path", p.workspace, "file", filepath.Join(p.workspace, dispatch.FileName))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.tasks)) {
		t := c.tasks[id]
		d := t.Dispatch
		if !t.Waiting() || d.Workspace == "" || d.FlippedAt.IsZero() {
			continue
		}
		workspace, err := c.resolved(d.Agent, d.Workspace)
		if err != nil {
			return err
		}
		if read[workspace] && entries[place{workspace, id, pipeline.FoldName(d.Agent)}] == 0 && c.Quiet {
			c.found(RuleDispatch, id, "", explain.EntryMissing, "agent", d.Agent, "path", workspace)
		}
	}
	return nil
}

// resolved returns the path of an agent's workspace without links, or the path as it
// is if it is missing or does not answer. A task may name a former workspace.
func (c *check) resolved(agent, workspace string) (string, error) {
	if workspace == "" {
		return "", nil
	}
	path, err := patience.Read(workspace, patience.Reader, nil, func() (string, error) { return durable.EvalSymlinks(workspace) })
	switch {
	case err == nil:
		return path, nil
	case patience.IsSilent(err):
		c.silent(agent, workspace)
		return workspace, nil
	}
	return workspace, unread(err)
}

// silent notes once that a workspace does not answer.
func (c *check) silent(agent, workspace string) {
	if !c.hung[workspace] {
		c.hung[workspace] = true
		c.found(RuleDispatch, 0, "", explain.WorkspaceSilent, "agent", agent, "path", workspace)
	}
}

// readDispatch reads the entries of a workspace. ok is false if they cannot be
// read: the dispatcher reports that, or sets the file aside.
func (c *check) readDispatch(workspace string) (list []*dispatch.Entry, ok bool, err error) {
	list, err = patience.Read(workspace, patience.Reader, nil, func() ([]*dispatch.Entry, error) {
		return dispatch.Peek(filepath.Join(workspace, dispatch.FileName))
	})
	switch {
	case errors.Is(err, dispatch.ErrNoEntries):
		c.found(RuleDispatch, 0, "", explain.EntriesBroken, "path", workspace)
		return nil, false, nil
	case patience.IsSilent(err):
		return nil, false, err
	case err != nil:
		return nil, errors.Is(err, fs.ErrNotExist), unread(err)
	}
	return list, true, nil
}

// workspaces leaves out those that do not answer: reading them would never end
// (C46).
func (c *check) workspaces() error {
	for name, wrong := range view.LookAtWorkspaces(c.Agents) {
		switch wrong.Code {
		case explain.WorkspaceSilent:
			agents := slices.Clone(c.Agents)
			agents.Named(name).Workspace = ""
			c.Agents = agents
			c.silent(name, wrong.Args["path"])
			continue
		case explain.WorkspaceUnreadable:
		default:
			continue // the other checks say what that means
		}
		c.found(RuleDispatch, 0, "", wrong.Code, "agent", name, "path", wrong.Args["path"], "error", wrong.Args["error"])
	}
	return nil
}
