package fsck

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"otm/internal/durable"
	"otm/internal/explain"
	"otm/pipeline"
)

// dispatchFiles compares the dispatch files with the records.
func (c *check) dispatchFiles() error {
	type place struct {
		workspace string
		id        pipeline.TaskID
		agent     string
	}
	entries := map[place]int{}
	seen := map[string]bool{}
	for i := range c.Agents {
		workspace := resolved(c.Agents[i].Workspace)
		if workspace == "" || seen[workspace] {
			continue
		}
		seen[workspace] = true
		list, ok, err := c.readDispatch(workspace)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		for _, e := range list {
			entries[place{workspace, e.TaskID, pipeline.FoldName(e.Agent)}]++
			rec := c.records[e.TaskID]
			switch {
			case rec == nil:
			case rec.Status.Finished() && c.Quiet:
				c.found(RuleDispatch, e.TaskID, RunAgain, explain.EntryOver, "status", rec.Status, "path", workspace)
			case rec.Dispatch != nil && rec.Dispatch.Agent != "" && pipeline.FoldName(rec.Dispatch.Agent) != pipeline.FoldName(e.Agent) && c.Quiet:
				c.found(RuleDispatch, e.TaskID, RunAgain, explain.EntryForeign, "agent", rec.Dispatch.Agent, "other", e.Agent)
			}
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(entries), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.workspace, b.workspace), cmp.Compare(a.agent, b.agent))
	}) {
		if n := entries[p]; n > 1 && p.id != 0 { // of equal entries, only their agent knows which it marked
			c.found(RuleDispatch, p.id, "", explain.EntryTwice, "n", n, "path", p.workspace, "file", filepath.Join(p.workspace, fileName))
		}
	}
	for _, id := range sorted(c.records) {
		rec := c.records[id]
		d := rec.Dispatch
		if d == nil || d.Workspace == "" || d.FlippedAt == nil || rec.Status != pipeline.Assigned || d.TakenAt != nil || rec.GoneAt != nil {
			continue
		}
		workspace := resolved(d.Workspace)
		if seen[workspace] && entries[place{workspace, id, pipeline.FoldName(d.Agent)}] == 0 && d.MissingAt == nil && c.Quiet {
			c.found(RuleDispatch, id, RunAgain, explain.EntryMissing, "agent", d.Agent, "path", workspace)
		}
	}
	return nil
}

func resolved(workspace string) string {
	if workspace == "" {
		return ""
	}
	if path, err := filepath.EvalSymlinks(workspace); err == nil {
		return path
	}
	return workspace
}

// maxFile bounds a dispatch file, in bytes.
const maxFile = 64 << 20

// fileName is the name of the dispatch file in each workspace.
const fileName = "task-dispatch.json"

type entry struct {
	TaskID pipeline.TaskID `json:"taskId"`
	Agent  string          `json:"agent"`
}

// readDispatch reads the entries of a workspace. ok is false if they cannot be
// read: the dispatcher reports that, or sets the file aside.
func (c *check) readDispatch(workspace string) (list []entry, ok bool, err error) {
	data, info, err := durable.ReadAtMost(filepath.Join(workspace, fileName), maxFile)
	if err != nil {
		return nil, errors.Is(err, fs.ErrNotExist), unread(err)
	}
	if info.Size() > maxFile {
		return nil, false, nil
	}
	var file struct {
		Dispatched []json.RawMessage `json:"dispatched"`
	}
	if json.Unmarshal(data, &file) != nil {
		c.found(RuleDispatch, 0, RunAgain, explain.EntriesBroken, "path", workspace)
		return nil, false, nil
	}
	for _, raw := range file.Dispatched {
		var e entry
		if json.Unmarshal(raw, &e) == nil {
			list = append(list, e)
		}
	}
	return list, true, nil
}
