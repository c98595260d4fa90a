package dispatch

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"otm/internal/durable"
	"otm/pipeline"
)

// agentState is what OTM says of an agent in agent-state.json. It is for
// people and for the agent; the dispatcher takes from it only that the agent
// found nothing to do, and when.
type agentState struct {
	Status string           `json:"status"`
	TaskID *pipeline.TaskID `json:"taskId"`
	Since  time.Time        `json:"since"`
}

// What agent-state.json says in status.
const (
	stateWorking = "working"
	stateIdle    = "idle"
)

// statePath is where an agent's state stands: agents that share a workspace
// have a file each.
func statePath(agents pipeline.Agents, a *pipeline.Agent) string {
	name := "agent-state.json"
	for i := range agents {
		if o := &agents[i]; o.Name != a.Name && o.Workspace != "" && sameDir(o.Workspace, a.Workspace) {
			name = "agent-state-" + a.Name + ".json"
		}
	}
	return filepath.Join(a.Workspace, name)
}

func sameDir(a, b string) bool {
	if a == b {
		return true
	}
	ai, aerr := os.Stat(a)
	bi, berr := os.Stat(b)
	return aerr == nil && berr == nil && os.SameFile(ai, bi)
}

// maxState bounds a state file, in bytes: agents write into their workspaces.
const maxState = 1 << 20

func readState(path string) (agentState, bool) {
	var s agentState
	data, _, err := load(path, maxState)
	return s, err == nil && json.Unmarshal(data, &s) == nil
}

// writeState writes what changed, and keeps what the agent added.
func writeState(path string, s agentState) error {
	data, _, err := load(path, maxState)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, errUnfit):
	default:
		return err // it may be read again, with what the agent added
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil || all == nil {
		all = map[string]json.RawMessage{} // it was no JSON object
	}
	ours, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(ours, &all); err != nil {
		return err
	}
	if data, err = encode(all); err != nil {
		return err
	}
	return durable.Replace(path, append(data, '\n'))
}

// idleSince is when "otm next" last found nothing for the agent; zero where it
// found something since, or the file does not tell.
func idleSince(agents pipeline.Agents, a *pipeline.Agent) time.Time {
	s, ok := readState(statePath(agents, a))
	if !ok || s.Status != stateIdle {
		return time.Time{}
	}
	return s.Since
}
