package dispatch

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/pipeline"
)

// HealthState is the health of an agent in one word.
type HealthState string

// The states of health.
const (
	HealthOK        HealthState = "ok"        // no process is known to run, and nothing is wrong
	HealthWorking   HealthState = "working"   // its process runs
	HealthPausing   HealthState = "pausing"   // its last runs ended without progress: it is started again at NextStart
	HealthLeftAlone HealthState = "leftAlone" // too many runs ended without progress: it is only started for a probe, at NextStart
	HealthHangs     HealthState = "hangs"     // its process runs and takes nothing although tasks wait
)

// Health is the health of an agent, by its runs.
type Health struct {
	Agent     string
	State     HealthState
	Since     time.Time      // when State began; zero: not known
	Failures  int            // runs in a row that ended without progress
	LastRun   *core.EndedRun // the last run that ended; nil: none is known
	NextStart time.Time      // when it may be started again; zero: at once
	PID       int            // of the process that holds its lock, and of its group; 0: none runs, or not known
	Running   bool           // its process runs, or what a killed one left
	Started   time.Time      // when that process was started; zero: none runs, or not known
	// Lingers is the task on which the process still works although a person ended it
	// or put it off; 0: there is none.
	Lingers pipeline.TaskID
}

// AgentHealth returns the health of an agent, by its state and by whether its
// process runs. It changes nothing. The error is one of the store.
func AgentHealth(ctx context.Context, store core.Reader, dir string, a *pipeline.Agent) (Health, error) {
	state, err := store.Agent(ctx, a.Name)
	if err != nil {
		return Health{Agent: a.Name}, err
	}
	pid, held := agentProcess(dir, a.Name)
	h := healthOf(state, held, pid)
	if h.Running = held; held {
		h.Started = startedAt(dir, a.Name)
	}
	return h, nil
}

// healthOf returns the health that a state tells.
func healthOf(a *core.AgentState, running bool, pid int) Health {
	h := Health{Agent: a.Agent, State: HealthOK, Failures: a.Failures, LastRun: a.LastRun, NextStart: a.NextStart}
	if running {
		h.Lingers = a.Lingers
	}
	switch {
	case running && !a.Hangs.IsZero():
		h.State, h.Since, h.PID = HealthHangs, a.Hangs, pid
	case !running && a.Rests:
	case !a.LeftAlone.IsZero():
		h.State, h.Since, h.PID = HealthLeftAlone, a.LeftAlone, pid // also while a probe runs
	case running:
		h.State, h.PID = HealthWorking, pid
	case a.Fruitless > 0 && a.LastRun != nil:
		h.State, h.Since = HealthPausing, a.LastRun.Ended
	}
	return h
}

// Finding returns the agent's problem; nil: it has none.
func (h Health) Finding() *explain.Finding {
	switch {
	case h.State == HealthHangs:
		return h.found(explain.AgentHangs, "since", h.Since, "pid", h.PID)
	case h.Lingers != 0:
		return h.found(explain.AgentLingers, "task", h.Lingers, "pid", h.PID)
	case h.State != HealthPausing && h.State != HealthLeftAlone:
		return nil
	}
	run := h.LastRun
	look := "read what it printed: tail " + safe.Quote(run.Log)
	switch {
	case run.Via == pipeline.TriggerGateway:
		look = "read the gateway's log: openclaw logs"
	case run.Log == "":
		look = "its log is not known"
	}
	code := explain.AgentPausing
	if h.State == HealthLeftAlone {
		code = explain.AgentLeftAlone
	}
	return h.found(code, "n", h.Failures, "ended", run.Ended, "how", howOf(run), "next", h.NextStart, "look", look)
}

// howOf says how a run ended, with the agent's last message, which usually says why
// it took nothing (C60). Quoting shows control characters as \x1b.
func howOf(r *core.EndedRun) string {
	how := cmp.Or(r.Exit, "nobody saw how")
	if r.LastWords != "" {
		how += ", and it said last: " + strconv.Quote(r.LastWords)
	}
	return how
}

func (h Health) found(code explain.Code, args ...any) *explain.Finding {
	f := explain.New(code, append(args, "agent", h.Agent)...)
	return &f
}
