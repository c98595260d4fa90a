package dispatch

import (
	"fmt"
	"time"

	"otm/internal/lock"
	"otm/pipeline"
)

// HealthState is in a word how an agent is doing.
type HealthState string

// The states of health.
const (
	HealthOK        HealthState = "ok"        // no process of it is known to run, and nothing is wrong
	HealthWorking   HealthState = "working"   // its process runs
	HealthPausing   HealthState = "pausing"   // its last runs ended without progress: it is started again at NextStart
	HealthLeftAlone HealthState = "leftAlone" // too many of them did: it is only started for a probe, at NextStart
	HealthHangs     HealthState = "hangs"     // its process runs and takes nothing, though tasks wait
)

// Health is how an agent is doing, as far as its runs tell.
type Health struct {
	Agent     string
	State     HealthState
	Since     time.Time // when that began; zero: not known
	Failures  int       // runs in a row that ended without progress
	LastRun   *EndedRun // the last run that has ended; nil: none is known
	NextStart time.Time // when it may be started again; zero: at once
	PID       int       // of the process that holds its lock; 0: none runs, or it is not known
}

// AgentHealth judges how an agent is doing, by its state and by whether its
// process runs. It changes nothing. The error is one of reading the state.
func AgentHealth(dir string, a *pipeline.Agent) (Health, error) {
	state, err := LoadAgentState(dir, a.Name)
	if err != nil {
		return Health{Agent: a.Name}, err
	}
	pid, held := lock.Holder(execLock(dir, a.Name))
	return state.health(held, pid), nil
}

// health is the state as readers see it.
func (a *AgentState) health(running bool, pid int) Health {
	h := Health{Agent: a.Agent, State: HealthOK, Failures: a.Failures, LastRun: a.LastRun, NextStart: a.NextStart}
	switch {
	case running && !a.Hangs.IsZero():
		h.State, h.Since, h.PID = HealthHangs, a.Hangs, pid
	case !a.LeftAlone.IsZero():
		h.State, h.Since, h.PID = HealthLeftAlone, a.LeftAlone, pid // also while a probe runs
	case running:
		h.State, h.PID = HealthWorking, pid
	case a.Fruitless > 0 && a.LastRun != nil:
		h.State, h.Since = HealthPausing, a.LastRun.Ended
	}
	return h
}

// Sentence tells people about an agent that pauses or is left alone.
func (h Health) Sentence() string {
	run := h.LastRun
	how, log := run.Words, ""
	if how == "" {
		how = "nobody saw how"
	}
	if run.Log != "" {
		log = "; log: " + run.Log
	}
	at, next := run.Ended.UTC().Format(time.RFC3339), h.NextStart.UTC().Format(time.RFC3339)
	if h.State == HealthLeftAlone {
		return fmt.Sprintf("agent %s is left alone: %d runs in a row ended without progress, the last at %s (%s); the next probe starts at %s; to start it now: otm resume %s%s", h.Agent, h.Failures, at, how, next, h.Agent, log)
	}
	return fmt.Sprintf("agent %s: its last run ended at %s without progress (%s); it is started again at %s%s", h.Agent, at, how, next, log)
}
