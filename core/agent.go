package core

import (
	"bytes"
	"encoding/json"
	"maps"
	"time"

	"otm/pipeline"
)

// AgentState is what the starts of an agent add up to. A start is one process of an agent,
// or one turn at the gateway, from its wake to its end. Zero times mean: never.
type AgentState struct {
	Agent   string `json:"agent"`
	Version int64  `json:"version"` // counts the agent's events
	// Config is a hash of the agent's table in otm.toml, Program the path of the program
	// that its command names, ProgramAt the change of it that counted last.
	Config    string    `json:"config"`
	Program   string    `json:"program,omitempty"`
	ProgramAt time.Time `json:"programChangedAt,omitzero"`
	// Failures counts the starts in a row that ended without progress.
	Failures int `json:"failures,omitempty"`
	// Fruitless counts the failures, and the starts that asked to be tried later (exit
	// code 75). The pause grows with it.
	Fruitless int `json:"fruitless,omitempty"`
	// LastStart is the last one whose end was judged; nil: there was none. Events keep it under
	// its former name.
	LastStart *EndedStart `json:"lastRun,omitempty"`
	// Refusals counts the wakes in a row that were refused.
	Refusals int `json:"refusals,omitempty"`
	// NextStart is when the agent may be started again; zero: at once.
	NextStart time.Time `json:"nextStart,omitzero"`
	// LeftAlone is when OTM began to start the agent only for a probe; zero: OTM starts
	// it as usual.
	LeftAlone time.Time `json:"leftAloneSince,omitzero"`
	// Stumbled counts, for each unfinished task, the starts in a row that were given it
	// and ended without progress. otm next gives another task first.
	Stumbled map[pipeline.TaskID]int `json:"stumbled,omitempty"`
	// Blocked is, for each open task, when a block of the agent last counted as
	// progress. The next block counts once a person has moved the task.
	Blocked map[pipeline.TaskID]time.Time `json:"blocked,omitempty"`
	// Rests reports whether the agent has no work left after starts without progress: it
	// is not started then, and nothing is wrong. One that is left alone does not rest while
	// a task of it waits for its next run.
	Rests bool `json:"rests,omitempty"`
	// Resumed is when a person asked for a start with otm resume; zero: nobody did
	// since the last start.
	Resumed time.Time `json:"resumedAt,omitzero"`
	// Hangs is when the agent's process was woken, if it takes nothing while tasks
	// wait; zero: it does not hang.
	Hangs time.Time `json:"hangsSince,omitzero"`
	// Ends is that OTM ends the agent's process; nil: it does not. Until it has ended,
	// otm next gives it nothing.
	Ends *Ends `json:"ends,omitempty"`
	// Paused says that a person paused the agent; nil: nobody did.
	Paused *Pause `json:"paused,omitempty"`
	// ReadTo is the number of the last event with a message that mentions the agent and
	// that it was shown.
	ReadTo int64 `json:"readTo,omitempty"`
}

// Pause says who paused an agent, when and why.
type Pause struct {
	At     time.Time `json:"at"`
	By     Actor     `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

// Ends says for the sake of which task OTM ends the process of an agent, in whose run it
// works: the run is canceled, or it lasts too long, or the process was killed and something
// that it had started goes on.
type Ends struct {
	Task   pipeline.TaskID `json:"task"`
	Since  time.Time       `json:"since"`
	Late   bool            `json:"late,omitempty"` // it lasts longer than max_runtime
	Orphan bool            `json:"orphan,omitempty"`
}

// Canceled reports whether OTM ends the process because its run was canceled: its end then
// tells nothing of the agent.
func (e *Ends) Canceled() bool { return e != nil && !e.Late && !e.Orphan }

// same reports whether both end a process for the same reason.
func (e *Ends) same(o *Ends) bool {
	return e.Task == o.Task && e.Late == o.Late && e.Orphan == o.Orphan
}

// EndedStart is a start that ended.
type EndedStart struct {
	Key string           `json:"key"` // of its wake
	Via pipeline.Trigger `json:"via"`
	StartResult
}

// TryLater is the exit code of a command that cannot work now and did not fail:
// EX_TEMPFAIL of sysexits.h.
const TryLater = 75

// TriesLater reports whether the start asked to be tried later. That is no failure.
func (r *StartResult) TriesLater() bool {
	return r.Code != nil && *r.Code == TryLater || !r.RetryAt.IsZero()
}

// pauses are the pauses after starts in a row that ended without progress. The last one
// repeats.
var pauses = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute}

// ProbeEvery is the pause between probes of an agent that is left alone.
const ProbeEvery = 30 * time.Minute

// Clone returns a copy that shares nothing that changes.
func (a *AgentState) Clone() *AgentState {
	c := *a
	c.Stumbled, c.Blocked = maps.Clone(a.Stumbled), maps.Clone(a.Blocked)
	if a.LastStart != nil {
		c.LastStart = new(*a.LastStart)
	}
	return &c
}

// StartEnd is the end of a start, with what it achieved.
type StartEnd struct {
	Start    EndedStart
	Progress bool // it made progress on a task
	Idle     bool // it had no work left
	// GoesOn says that it was a turn at the gateway that ended well with a task unfinished:
	// commands that it began may go on.
	GoesOn bool
	// Unfinished are the agent's unfinished tasks on which this start made no progress;
	// true: this start was given the task.
	Unfinished map[pipeline.TaskID]bool
	Blocked    map[pipeline.TaskID]time.Time // see AgentState.Blocked
}

// judged returns the state after the end of a start. After maxFailures failures in a row
// the agent is left alone.
func (a AgentState) judged(e StartEnd, maxFailures int) AgentState {
	start := e.Start
	a.LastStart, a.Hangs, a.Stumbled, a.Blocked = &start, time.Time{}, a.stumbled(e), e.Blocked
	switch {
	case e.Progress:
		a.Forgive()
		return a
	case e.Idle, e.GoesOn:
		return a
	}
	a.Fruitless++
	if !start.TriesLater() {
		a.Failures++
	}
	pause := pauses[min(a.Fruitless, len(pauses))-1]
	if a.Failures >= maxFailures {
		pause = ProbeEvery
		if a.LeftAlone.IsZero() {
			a.LeftAlone = start.Ended
		}
	}
	a.NextStart = start.Ended.Add(pause)
	if start.RetryAt.After(a.NextStart) {
		a.NextStart = start.RetryAt
	}
	return a
}

// stumbled returns the counts of Stumbled after a start.
func (a *AgentState) stumbled(e StartEnd) map[pipeline.TaskID]int {
	counts := map[pipeline.TaskID]int{}
	for id, given := range e.Unfinished {
		n := a.Stumbled[id]
		if given && !e.Start.TriesLater() {
			n++
		}
		if n > 0 {
			counts[id] = n
		}
	}
	return counts
}

// answered is the effect of an answer to a wake. The pause grows with each refusal in a
// row: each try adds events.
func (a *AgentState) answered(answer WakeAnswer, now time.Time) {
	switch {
	case answer == WakeRefused:
		a.Refusals++
		a.NextStart = now.UTC().Add(pauses[min(a.Refusals, len(pauses))-1])
	case answer == WakeAccepted && a.Refusals > 0:
		a.Refusals, a.NextStart = 0, time.Time{}
	}
}

// Forgive forgets failures and refusals so far, so that the agent may be started at
// once. It keeps Stumbled.
func (a *AgentState) Forgive() {
	a.Failures, a.Fruitless, a.Refusals, a.NextStart, a.LeftAlone, a.Hangs = 0, 0, 0, time.Time{}, time.Time{}, time.Time{}
}

// Waits reports whether the agent must not be started yet, and until when. A time
// further ahead than the longest pause was written before the clock was set back, and
// does not count.
func (a *AgentState) Waits(now time.Time) (until time.Time, ok bool) {
	ok = now.Before(a.NextStart) && !a.NextStart.After(now.Add(ProbeEvery))
	return a.NextStart, ok
}

// Setup is how an agent is started now: a hash of its table in otm.toml, the path of
// its program ("": it was not found), and when that changed last.
type Setup struct {
	Config    string
	Program   string
	ChangedAt time.Time
}

// configured notes how the agent is started now, and reports whether that is another
// configuration. A program makes one when it is found for the first time, or changed
// after the last run ended. Neither a single run in a shell with another PATH nor a
// program that changes itself while it runs makes one: both would start it in a loop.
// over says that the end of the last start is in LastStart.
func (a *AgentState) configured(s Setup, over bool, now time.Time) (changed bool) {
	repaired := a.Program == "" && s.Program != "" ||
		over && a.LastStart != nil && a.ProgramAt.Before(s.ChangedAt) && s.ChangedAt.After(a.LastStart.Ended) && !s.ChangedAt.After(now)
	changed = a.Config != s.Config || repaired
	if changed && a.Config != "" {
		a.Forgive() // the failures belong to another configuration
	}
	if a.Config = s.Config; s.Program != "" {
		a.Program = s.Program
	}
	if repaired {
		a.ProgramAt = s.ChangedAt
	}
	return changed
}

// JudgeStart judges an agent by what is known of its process and its starts. The command
// names the agent. Nothing happens where the state stays as it is.
type JudgeStart struct {
	End         *StartEnd // the end of its last start, which is not judged yet; nil: there is none
	MaxFailures int
	Over        bool // no run of it goes on, and all its reports are applied
	Setup       Setup
	Hangs       time.Time
	Ends        *Ends
	Asked       bool      // since its last start, a person sent one of its tasks out again, or it did one
	Rests       bool      // it has no work
	Retries     bool      // a task of it waits for its next run
	Started     time.Time // the value of Resumed that led to a start, or to no work; zero: none did
}

func (j JudgeStart) decide(d *decision) error {
	was := d.agentState()
	now := was.Clone()
	why := Observed
	now.Hangs = j.Hangs.UTC()
	if j.Ends == nil || now.Ends == nil || !j.Ends.same(now.Ends) {
		now.Ends = j.Ends
	}
	if j.End != nil && (was.LastStart == nil || was.LastStart.Key != j.End.Start.Key) {
		*now = now.judged(*j.End, max(j.MaxFailures, 1))
		now.Hangs = j.Hangs.UTC()
		why = StartJudged
	}
	if now.configured(j.Setup, j.Over, d.At) && why == Observed {
		why = Reconfigured
	}
	if now.Fruitless > 0 && j.Asked {
		now.Forgive()
		why = Forgiven
	}
	now.Rests = j.Rests && now.Fruitless > 0 && (now.LeftAlone.IsZero() || !j.Retries)
	if !j.Started.IsZero() && now.Resumed.Equal(j.Started) {
		now.Resumed = time.Time{}
	}
	return d.changeAgent(now, why)
}

// ResumeAgent ends the pause of an agent, forgets its failures and asks for a start. The next pass
// starts it if it has unfinished work and no process. Of the tasks in Also, those of the
// agent that wait for their next run need not wait any more.
type ResumeAgent struct{}

func (ResumeAgent) decide(d *decision) error {
	now := d.agentState().Clone()
	now.Forgive()
	now.Resumed, now.Paused = d.At.UTC(), nil
	d.emitOn(0, d.By, d.At, AgentChanged{State: *now, Why: Resumed})
	for _, id := range d.Also {
		if t := d.State.Tasks[id]; t != nil && SameAgent(t.Agent, d.Agent) && t.Wait.BacksOff(d.At) {
			d.emitOn(id, d.By, d.At, RetryScheduled{Run: t.Runs.Next(), Try: t.Runs.Tries(t.CountFrom), Wait: Wait{WaitBackoff, d.At.UTC()}})
		}
	}
	return nil
}

// PauseAgent keeps an agent from being started until ResumeAgent. What runs goes on. If the
// agent is paused already, it changes the reason only.
type PauseAgent struct{ Reason string }

func (p PauseAgent) decide(d *decision) error {
	now := d.agentState().Clone()
	switch {
	case now.Paused == nil:
		now.Paused = &Pause{At: d.At.UTC(), By: d.By, Reason: p.Reason}
	case p.Reason != "":
		now.Paused = &Pause{At: now.Paused.At, By: now.Paused.By, Reason: p.Reason}
	}
	return d.changeAgent(now, Paused)
}

// changeAgent gives the command's agent a state, if that is another one.
func (d *decision) changeAgent(now *AgentState, why AgentChange) error {
	before, err := json.Marshal(d.agentState())
	if err != nil {
		return err
	}
	after, err := json.Marshal(now)
	if err == nil && !bytes.Equal(before, after) {
		d.emitOn(0, d.By, d.At, AgentChanged{State: *now, Why: why})
	}
	return err
}

// agentState is the state of the command's agent; an empty one if it has none yet.
func (d *decision) agentState() *AgentState {
	if a := d.State.Agents[pipeline.FoldName(d.Agent)]; a != nil {
		return a
	}
	return &AgentState{Agent: d.Agent}
}
