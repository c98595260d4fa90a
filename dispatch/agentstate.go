package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"otm/internal/durable"
	"otm/internal/lock"
	"otm/pipeline"
)

// AgentState is what the dispatcher remembers about the runs of an agent: the file
// agent-states/<name>.json in the data directory. A run is one process of an agent,
// or one run at the gateway.
type AgentState struct {
	Agent string `json:"agent"`
	// Config is a hash of the agent's table in otm.toml, Program the path of the program
	// that its command names, ProgramAt the change of it that counted last.
	Config    string    `json:"config"`
	Program   string    `json:"program,omitempty"`
	ProgramAt time.Time `json:"programChangedAt,omitzero"`
	// Failures counts the runs in a row that ended without progress.
	Failures int `json:"failures,omitempty"`
	// Fruitless counts the failures, and the runs that asked to be tried later (exit
	// code 75). The pause grows with it.
	Fruitless int `json:"fruitless,omitempty"`
	// LastRun is the last run whose end was judged; nil: there was none.
	LastRun *EndedRun `json:"lastRun,omitempty"`
	// NextStart is when the agent may be started again; zero: at once.
	NextStart time.Time `json:"nextStart,omitzero"`
	// LeftAlone is when OTM began to start the agent only for a probe; zero: OTM
	// starts it as usual.
	LeftAlone time.Time `json:"leftAloneSince,omitzero"`
	// Stumbled counts, for each unfinished task, the runs in a row that were given
	// it and ended without progress. otm next gives another task first.
	Stumbled map[pipeline.TaskID]int `json:"stumbled,omitempty"`
	// Blocked is, for each open task, when a block of the agent last counted as
	// progress. The next block counts once a person has moved the task.
	Blocked map[pipeline.TaskID]time.Time `json:"blocked,omitempty"`
	// Rests reports whether the agent has no work left after runs without progress: it
	// is not started then, and nothing is wrong.
	Rests bool `json:"rests,omitempty"`
	// Resumed is when a person asked for a start with otm resume; zero: nobody did
	// since the last start.
	Resumed time.Time `json:"resumedAt,omitzero"`
	// Hangs is when the agent's process was woken, if it takes nothing while tasks
	// wait; zero: it does not hang.
	Hangs time.Time `json:"hangsSince,omitzero"`
	// Lingers is the task on which the agent's process still works although a person
	// ended it or put it off; 0: there is none.
	Lingers pipeline.TaskID `json:"lingersOn,omitzero"`
}

// EndedRun is a run that ended.
type EndedRun struct {
	Key     string            `json:"key"` // of its wake
	Via     string            `json:"via"`
	Tasks   []pipeline.TaskID `json:"tasks"` // named by the wake
	Started time.Time         `json:"startedAt"`
	Ended   time.Time         `json:"endedAt"`
	Code    *int              `json:"exitCode,omitempty"` // of a process, 128+n after signal n; nil: not known, or a run at the gateway
	Words   string            `json:"exit,omitempty"`     // how it ended, for people
	Log     string            `json:"log,omitempty"`      // the path of the output of a process
	// LastWords is the beginning of the last message of a run at the gateway. It is
	// untrusted text.
	LastWords string    `json:"lastWords,omitempty"`
	RetryAt   time.Time `json:"retryAt,omitzero"` // the gateway asked for no call before; zero: it did not
}

// triesLater reports whether the run asked to be tried later. That is no failure.
func (r *EndedRun) triesLater() bool {
	return r.Code != nil && *r.Code == TryLater || !r.RetryAt.IsZero()
}

// TryLater is the exit code of a command that cannot work now and did not fail:
// EX_TEMPFAIL of sysexits.h.
const TryLater = 75

// pauses are the pauses after runs in a row that ended without progress. The last
// one repeats.
var pauses = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute}

// probeEvery is the pause between probes of an agent that is left alone.
const probeEvery = 30 * time.Minute

// runEnd is the end of a run and its result.
type runEnd struct {
	run      EndedRun
	killed   bool // its helper was killed before it could note the end
	progress bool // see gotOn
	idle     bool // the run had no work left
	// unfinished are the agent's unfinished tasks on which this run made no progress;
	// true: this run was given the task.
	unfinished map[pipeline.TaskID]bool
	blocked    map[pipeline.TaskID]time.Time // see AgentState.Blocked
}

// judged returns the state after the end of a run. After maxFailures failures in a
// row the agent is left alone.
func (a AgentState) judged(e runEnd, maxFailures int) AgentState {
	run := e.run
	a.LastRun, a.Hangs, a.Stumbled, a.Blocked = &run, time.Time{}, a.stumbled(e), e.blocked
	switch {
	case e.progress:
		a.forgive()
		return a
	case e.idle:
		return a
	}
	a.Fruitless++
	if !run.triesLater() {
		a.Failures++
	}
	pause := pauses[min(a.Fruitless, len(pauses))-1]
	if a.Failures >= maxFailures {
		pause = probeEvery
		if a.LeftAlone.IsZero() {
			a.LeftAlone = run.Ended
		}
	}
	a.NextStart = run.Ended.Add(pause)
	if run.RetryAt.After(a.NextStart) {
		a.NextStart = run.RetryAt
	}
	return a
}

// stumbled returns the counts of Stumbled after a run.
func (a *AgentState) stumbled(e runEnd) map[pipeline.TaskID]int {
	counts := map[pipeline.TaskID]int{}
	for id, given := range e.unfinished {
		n := a.Stumbled[id]
		if given && !e.run.triesLater() {
			n++
		}
		if n > 0 {
			counts[id] = n
		}
	}
	return counts
}

// forgive forgets the failures so far, so that the agent may be started at once. It
// keeps Stumbled.
func (a *AgentState) forgive() {
	a.Failures, a.Fruitless, a.NextStart, a.LeftAlone, a.Hangs = 0, 0, time.Time{}, time.Time{}, time.Time{}
}

// resumeAsked reports whether a person asked with "otm resume" for a start, and no
// wake may have reached the agent since. w is the last wake; nil: there was none.
func (a *AgentState) resumeAsked(w *pipeline.Wake, now time.Time) bool {
	asked := past(a.Resumed, now)
	return !asked.IsZero() && (w == nil || !maybeQueued(w) || asked.After(w.AskedAt))
}

// waits reports whether the agent must not be started yet, and until when. A time
// further ahead than the longest pause was written before the clock was set back,
// and does not count.
func (a *AgentState) waits(now time.Time) (until time.Time, ok bool) {
	ok = now.Before(a.NextStart) && !a.NextStart.After(now.Add(probeEvery))
	return a.NextStart, ok
}

// statesDir is the directory of the states of agents.
func statesDir(dir string) string { return filepath.Join(dir, "agent-states") }

func agentPath(dir, agent string) string {
	return filepath.Join(statesDir(dir), pipeline.FoldName(agent)+".json")
}

// maxAgentState bounds the file of an agent's state, in bytes.
const maxAgentState = 1 << 20

// LoadAgentState reads the state of an agent. A state that is missing or not JSON
// is empty.
func LoadAgentState(dir, agent string) (AgentState, error) {
	empty := AgentState{Agent: agent}
	data, _, err := load(agentPath(dir, agent), maxAgentState)
	var large *TooLargeError
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errUnfit), errors.As(err, &large):
		return empty, nil
	case err != nil:
		return empty, err
	}
	var a AgentState
	if json.Unmarshal(data, &a) != nil {
		return empty, nil
	}
	a.Agent = agent
	return a, nil
}

// changeAgentState changes the state of an agent under its lock. It is durable on
// return.
func changeAgentState(ctx context.Context, dir, agent string, f func(*AgentState)) (AgentState, error) {
	l, err := lock.Acquire(ctx, filepath.Join(dir, "locks", "agent-states"), stateWait)
	if err != nil {
		return AgentState{}, err
	}
	defer l.Release()
	a, err := LoadAgentState(dir, agent)
	if err != nil {
		return a, err
	}
	f(&a)
	data, err := json.Marshal(a)
	if err != nil {
		return a, err
	}
	if err := durable.Mkdir(statesDir(dir)); err != nil && !errors.Is(err, fs.ErrExist) {
		return a, err
	}
	return a, durable.Replace(agentPath(dir, agent), append(data, '\n'))
}

// stateWait is how long to wait for the lock of the states. It is held for one write
// at a time.
const stateWait = 10 * time.Second

// Resume forgets the failures of an agent. The next pass starts it if it has unfinished
// work and no process, even if a run at the gateway may go on.
// It returns the state before. It is durable on return.
func Resume(ctx context.Context, dir, agent string, now time.Time) (was AgentState, err error) {
	_, err = changeAgentState(ctx, dir, agent, func(a *AgentState) {
		was = *a
		a.forgive()
		a.Resumed = now.UTC()
	})
	return was, err
}

// startOf describes how an agent is started: a hash of its table in otm.toml, and the
// program that its command names with the time of its last change. The path is "" if the
// program is not found.
func startOf(a *pipeline.Agent) (table, program string, changed time.Time) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", a.Trigger, a.Workspace, a.GatewayAgent, a.Command))
	table = fmt.Sprintf("%x", sum[:8])
	if len(a.Command) == 0 || !filepath.IsAbs(a.Command[0]) && strings.ContainsRune(a.Command[0], filepath.Separator) {
		return table, "", time.Time{} // a path below the workspace, which may not answer
	}
	path, err := exec.LookPath(a.Command[0])
	if err != nil {
		return table, "", time.Time{}
	}
	info, err := os.Stat(path)
	if err != nil {
		return table, "", time.Time{}
	}
	return table, path, info.ModTime()
}

// configured notes how the agent is started now, and reports whether that is another
// configuration. A program makes one when it is found for the first time, or changed
// after the last run ended. Neither a single run in a shell with another PATH nor a
// program that changes itself while it runs makes one: both would start it in a loop.
// judged says that the end of the last run is in LastRun.
func (a *AgentState) configured(agent *pipeline.Agent, judged bool, now time.Time) (changed bool) {
	table, program, at := startOf(agent)
	repaired := a.Program == "" && program != "" || judged && a.LastRun != nil && a.ProgramAt.Before(at) && at.After(a.LastRun.Ended) && !at.After(now)
	changed = a.Config != table || repaired
	if changed && a.Config != "" {
		a.forgive() // the failures belong to another configuration
	}
	if a.Config = table; program != "" {
		a.Program = program
	}
	if repaired {
		a.ProgramAt = at
	}
	return changed
}
