package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"otm/core"
	"otm/internal/safe"
	"otm/pipeline"
)

// Request is one wake.
type Request struct {
	Agent   *pipeline.Agent
	Key     string // idempotency key and run id
	Task    pipeline.TaskID
	Run     int // the number of the task's run that is to begin, or to go on
	Trace   pipeline.Trace
	Message string
	File    string // the agent's dispatch file
	// Abort are the keys of turns at the gateway that are to end before the agent hears the
	// message: the task in which they work was taken from it.
	Abort []string
}

// Errors of a Waker. Any other error means that the wake was not queued.
var (
	// ErrLost: the request was sent and no answer came. The wake may be queued.
	ErrLost = errors.New("no answer to the wake")
	// ErrRefused: the agent cannot be woken until a person changes something.
	ErrRefused = errors.New("wake refused")

	// ErrGoesOn: the run is known to go on.
	ErrGoesOn = errors.New("it goes on")

	// errBusy: the agent is at work and needs no wake.
	errBusy = errors.New("its process is running")
)

// Waker wakes agents.
type Waker interface {
	// Wake returns nil once the wake is accepted, which does not mean that the
	// agent runs. Sending the same key again within minutes wakes once.
	Wake(ctx context.Context, r Request) error
	// Ready returns nil if an agent can be woken now, as far as can be known without
	// sending anything. Its errors are those of Wake.
	Ready(ctx context.Context, a *pipeline.Agent) error
	// Ended asks how the run of an accepted wake of an agent ended. If ended is false, the
	// run goes on or is not known. If it is known to go on, the error is ErrGoesOn.
	Ended(ctx context.Context, a *pipeline.Agent, key string) (end core.EndStart, ended bool, err error)
}

// maxNamed is how many tasks a message names.
const maxNamed = 20

// message is the text of a wake. It contains no title, project or other text from
// a drop.
func message(agent string, tasks []pipeline.TaskID, dir string) string {
	names := make([]string, 0, len(tasks))
	for _, id := range tasks {
		if len(names) == maxNamed {
			names = append(names, fmt.Sprintf("and %d more", len(tasks)-maxNamed))
			break
		}
		names = append(names, id.String())
	}
	noun := "Task"
	if len(tasks) > 1 {
		noun = "Tasks"
	}
	return fmt.Sprintf("%s %s dispatched. Check %s and execute it: run \"%s\", do that one task to its end, "+
		"report with otm-update, then run it again; stop at \"no task waiting\".",
		noun, strings.Join(names, ", "), FileName, nextLine(agent, dir))
}

// nextLine is the command by which an agent takes its next task.
func nextLine(agent, dir string) string {
	line := "otm next --agent " + safe.Quote(agent)
	if dir != "" {
		line += " --dir '" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	}
	return line
}

// taskOfKey returns the task in a key; false: it is no key of ours.
func taskOfKey(key string) (pipeline.TaskID, bool) {
	parts := strings.SplitN(key, "-", 4) // otm, T, the number, the rest
	if len(parts) < 4 || parts[0] != "otm" {
		return 0, false
	}
	id, err := pipeline.ParseTaskID(parts[1] + "-" + parts[2])
	return id, err == nil
}

// wakeTimeout bounds one wake, retries included.
const wakeTimeout = 20 * time.Second
