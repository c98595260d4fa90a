package dispatch

import (
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"otm/internal/durable"
	"otm/internal/ordered"
	"otm/pipeline"
)

// agentState is the content of agent-state.json. It is for people and for the
// agent. The dispatcher reads only whether and since when the agent is idle.
type agentState struct {
	Status string           `json:"status"`
	TaskID *pipeline.TaskID `json:"taskId"`
	Since  time.Time        `json:"since"`
}

// Values of status in agent-state.json.
const (
	stateWorking = "working"
	stateIdle    = "idle"
)

// maxState bounds a state file, in bytes: agents write into their workspaces.
const maxState = 1 << 20

func readState(path string) (s agentState, err error) {
	data, _, err := load(path, maxState)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

// writeState replaces a state file. Members that the agent added are kept. It is not
// durable: after a power failure the file may be the one before, and the store knows
// what the agent was given.
func writeState(path string, s agentState) error {
	data, _, err := load(path, maxState)
	var large *TooLargeError
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, errUnfit), errors.As(err, &large):
	default:
		return err // a later read may succeed and show what the agent added
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil || all == nil {
		all = map[string]json.RawMessage{} // not a JSON object
	}
	ours, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(ours, &all); err != nil {
		return err
	}
	if data, err = ordered.Encode(all); err != nil {
		return err
	}
	return durable.ReplaceVolatile(path, append(data, '\n'))
}
