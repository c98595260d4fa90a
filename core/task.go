package core

import (
	"maps"
	"slices"
	"time"

	"otm/pipeline"
)

// Task is the state of one task. It follows from the task's events alone. Zero
// times mean: never.
type Task struct {
	ID        pipeline.TaskID   `json:"taskId"`
	Version   int64             `json:"version"` // counts the task's events
	DropID    string            `json:"dropId,omitempty"`
	Drop      string            `json:"drop,omitempty"` // the name of the create's file; "": a person typed the row
	Title     string            `json:"title"`
	Agent     string            `json:"agent"` // the configured name, pipeline.SharedQueue, or the text that stands on the board
	Priority  pipeline.Priority `json:"priority"`
	Project   string            `json:"project,omitempty"`
	Type      pipeline.Type     `json:"type"`
	Context   string            `json:"context,omitempty"`    // one of pipeline.Contexts; "": not given
	Inputs    []string          `json:"inputFiles,omitempty"` // paths and links of what the task starts from
	Body      string            `json:"body,omitempty"`       // what its agent is to know beside the title
	Parent    pipeline.TaskID   `json:"parent,omitempty"`     // of which it is a part, or which it follows; it need not be known
	Trace     pipeline.Trace    `json:"traceparent,omitempty"`
	CreatedAt time.Time         `json:"createdAt"`
	ChangedAt time.Time         `json:"changedAt"` // the time of the last event

	Steps    []Step `json:"steps"` // in the order in which they are to be done
	LastStep int    `json:"lastStep,omitempty"`
	// Dropped are the rows of steps that somebody took out of the task. The board is to
	// lose them.
	Dropped []string `json:"droppedRows,omitempty"`

	Status   pipeline.Status `json:"status"`
	Previous pipeline.Status `json:"previousStatus,omitempty"`
	StatusAt time.Time       `json:"statusAt"`
	StatusBy Actor           `json:"statusBy"`
	// Passed are statuses that the task had since the board last showed its status. OTM
	// may have written them, and not known.
	Passed   []pipeline.Status `json:"passed,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	Answered bool              `json:"answered,omitempty"` // a person or a reviewer wrote Reason, for the agent
	Reviewer string            `json:"reviewer,omitempty"` // the agent that wrote Reason as a reviewer; "": none did
	// Question is what the agent asked when it was blocked, where Reason is the answer.
	Question string `json:"question,omitempty"`
	Result   string `json:"result,omitempty"`
	// Audit is the thread that mirrors the task's events; nil: there is none.
	Audit *AuditPosted `json:"audit,omitempty"`
	// LastMessage is the last one in the task's thread; nil: there is none.
	LastMessage *LastMessage `json:"lastMessage,omitempty"`

	CompletedAt time.Time `json:"completedAt,omitzero"`
	ValidatedAt time.Time `json:"validatedAt,omitzero"`
	CancelledAt time.Time `json:"cancelledAt,omitzero"`
	// ResumedAt is when the task last went from blocked to in progress, ResumedBy is who
	// did that. An agent that unblocks its own task gets nothing on.
	ResumedAt  time.Time `json:"resumedAt,omitzero"`
	ResumedBy  Kind      `json:"resumedBy,omitempty"`
	GoneAt     time.Time `json:"goneAt,omitzero"`     // somebody deleted or archived the row
	ArchivedAt time.Time `json:"archivedAt,omitzero"` // it left the board for the history

	Attempt  int       `json:"attempt,omitempty"` // dispatches and wakes so far
	Dispatch *Dispatch `json:"dispatch,omitempty"`
	Wakes    []Wake    `json:"wakes,omitempty"` // those whose first task this is
	Woken    *Woken    `json:"woken,omitempty"` // the last wake that named the task
	// Runs are in the order of their numbers. CountFrom is the number of the last one
	// before somebody restarted the count of failed runs.
	Runs      Runs  `json:"runs,omitempty"`
	CountFrom int   `json:"countFrom,omitempty"`
	Wait      *Wait `json:"wait,omitempty"` // why the task is pending; nil: it is not
	// Claimed says that its agent claimed it from the shared queue. It goes back there if its
	// run fails, or if somebody releases it.
	Claimed bool `json:"claimed,omitempty"`
	// Heard is what was last heard of each agent about the task, by its folded name.
	Heard map[string]Heard `json:"heard,omitempty"`
	// Losses are the agents that are to be told that the task was taken from them.
	Losses []Loss `json:"losses,omitempty"`

	// RowID is the task's row on the board; "": it has none yet.
	RowID      string    `json:"rowId,omitempty"`
	Unverified bool      `json:"dedupUnverified,omitempty"` // the row was made while the board could not be read
	Shown      Shown     `json:"shown"`                     // what the row showed when it was last seen or written
	IDBackAt   time.Time `json:"idBackAt,omitzero"`         // the Task ID was last written back into the row
}

// LastMessage is a message with its time and author.
type LastMessage struct {
	At time.Time `json:"at"`
	By Actor     `json:"by"`
	pipeline.Message
}

// Step is one step of a task.
type Step struct {
	ID    int       `json:"id"` // never used twice in a task
	Title string    `json:"title"`
	Done  bool      `json:"done,omitempty"`
	RowID string    `json:"rowId,omitempty"`
	Shown StepShown `json:"shown,omitzero"`
}

// StepShown is what the row of a step showed when it was last seen or written.
type StepShown struct {
	Title string `json:"title,omitempty"`
	Done  bool   `json:"done,omitempty"`
}

// Dispatch is the present hand-out of a task to its agent.
type Dispatch struct {
	Attempt   int    `json:"attempt"`
	Agent     string `json:"agent"`
	Workspace string `json:"workspace,omitempty"` // "": of a person, who has none
	// Via is how the agent was woken when it was handed out; "": it was before OTM noted that.
	Via       pipeline.Trigger `json:"via,omitempty"`
	At        time.Time        `json:"at"`
	FlippedAt time.Time        `json:"flippedAt,omitzero"` // the board showed it
	TakenAt   time.Time        `json:"takenAt,omitzero"`
	TakenBy   TakenBy          `json:"takenBy,omitempty"`
	AllTicked bool             `json:"allTicked,omitempty"` // no step was open, see EndsByWord
	Retry     bool             `json:"retry,omitempty"`     // it follows a failed run, and nobody asked for it
}

// TakenBy is how it became known that an agent took a task.
type TakenBy string

// The ways of taking a task.
const (
	TakenByNext   TakenBy = "otm next"
	TakenByFile   TakenBy = "file" // the mark in the dispatch file
	TakenByUpdate TakenBy = "update"
	TakenByRow    TakenBy = "the board" // its row shows it, and the store had lost the task
)

// Wake is one wake, kept with the first task that it names.
type Wake struct {
	Attempt  int               `json:"attempt"`
	Key      string            `json:"key"` // idempotency key and run id
	Agent    string            `json:"agent"`
	Via      pipeline.Trigger  `json:"via"`
	Tasks    []pipeline.TaskID `json:"tasks"`
	Loss     bool              `json:"loss,omitempty"` // it only tells the agent that the task was taken from it
	AskedAt  time.Time         `json:"askedAt"`        // it was first to be sent
	Sent     bool              `json:"sent,omitempty"` // false: it is known not to have been sent
	Accepted time.Time         `json:"acceptedAt,omitzero"`
	Refused  string            `json:"refused,omitempty"`
	Unknown  time.Time         `json:"unknownAt,omitzero"` // the gateway did not know how the run ended
	StartResult
}

// Woken is a wake as a task that it names knows it.
type Woken struct {
	Key     string    `json:"key"`
	Agent   string    `json:"agent"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
}

// StartResult is how a start ended.
type StartResult struct {
	Ended   time.Time    `json:"endedAt,omitzero"`
	Outcome StartOutcome `json:"outcome,omitempty"`
	Exit    string       `json:"exit,omitempty"`     // how it ended, in words for people
	Code    *int         `json:"exitCode,omitempty"` // of a process, 128+n after signal n; nil: not known, or a run at the gateway
	Log     string       `json:"log,omitempty"`      // the path of what a process printed
	// LastWords is the beginning of what a run at the gateway said last. The agent
	// wrote it: it is untrusted.
	LastWords string    `json:"lastWords,omitempty"`
	RetryAt   time.Time `json:"retryAt,omitzero"` // the gateway asked not to be called before
}

// StartOutcome is how a turn at the gateway ended.
type StartOutcome string

// Outcomes of turns.
const (
	OutcomeUnknown StartOutcome = ""        // it has not ended, or nobody reported how
	OutcomeOK      StartOutcome = "ok"      // it reports success, which does not mean that the task was done
	OutcomeFailed  StartOutcome = "failed"  // the model could not be reached, say
	OutcomeTimeout StartOutcome = "timeout" // it ran out of time, or somebody aborted it
)

// Failed reports whether the turn is known to have failed.
func (o StartOutcome) Failed() bool { return o == OutcomeFailed || o == OutcomeTimeout }

// Heard is what was last heard of an agent about a task. A report counts from when
// it was dropped, not from when it was applied.
type Heard struct {
	At       time.Time `json:"at"`                  // it was given the task, or dropped a report on it
	Took     time.Time `json:"tookAt,omitzero"`     // it took the task
	Given    time.Time `json:"givenAt,omitzero"`    // otm next gave it the task, to begin or to continue
	Progress time.Time `json:"progressAt,omitzero"` // it ticked a step that was open
	Ended    time.Time `json:"endedAt,omitzero"`    // it moved the task to blocked or agent_done
	Reported time.Time `json:"reportedAt,omitzero"` // it reported on the task, or wrote a message
}

// Clone returns a copy that shares nothing that changes.
func (t *Task) Clone() *Task {
	c := *t
	c.Steps, c.Wakes, c.Runs, c.Heard = slices.Clone(t.Steps), slices.Clone(t.Wakes), slices.Clone(t.Runs), maps.Clone(t.Heard)
	c.Dropped, c.Losses = slices.Clone(t.Dropped), slices.Clone(t.Losses)
	c.Passed, c.Shown.Derived = slices.Clone(t.Passed), maps.Clone(t.Shown.Derived)
	if t.Dispatch != nil {
		c.Dispatch = new(*t.Dispatch)
	}
	if t.Woken != nil {
		c.Woken = new(*t.Woken)
	}
	return &c
}

// OnBoard reports whether the task and all its steps are known to stand on the board.
func (t *Task) OnBoard() bool {
	return t.RowID != "" && !slices.ContainsFunc(t.Steps, func(s Step) bool { return s.RowID == "" })
}

// Away reports whether the board has lost the task's row: deleted, or archived by us.
func (t *Task) Away() bool { return !t.GoneAt.IsZero() || !t.ArchivedAt.IsZero() }

// StepsDone counts the steps that are ticked.
func (t *Task) StepsDone() int {
	return len(pipeline.Filter(t.Steps, func(s Step) bool { return s.Done }))
}

// Percent is which part of the steps is ticked, from 0 to 100.
func (t *Task) Percent() int { return 100 * t.StepsDone() / max(1, len(t.Steps)) }

// PlainSteps returns the steps as pipeline knows them.
func (t *Task) PlainSteps() []pipeline.Step {
	return pipeline.Map(t.Steps, func(s Step) pipeline.Step { return pipeline.Step{Title: s.Title, Done: s.Done} })
}

// StepTitles returns the titles of the steps, in order.
func (t *Task) StepTitles() []string {
	return pipeline.Map(t.Steps, func(s Step) string { return s.Title })
}

// stepOf returns a step of a task by its id; nil: a person deleted it.
func stepOf(t *Task, id int) *Step {
	return pipeline.Find(t.Steps, func(s *Step) bool { return s.ID == id })
}

// stepOfRow returns the step of a row; nil: there is none.
func stepOfRow(t *Task, row string) *Step {
	return pipeline.Find(t.Steps, func(s *Step) bool { return row != "" && s.RowID == row })
}

// Unfinished reports whether an agent that took the task has something left to do:
// the task is neither blocked nor over, its row is there as far as is known, and a
// step is open or there was none to begin with.
func (t *Task) Unfinished() bool {
	if t.Away() {
		return false // no report on it would take effect
	}
	if t.Status == pipeline.New || t.Status == pipeline.Assigned || t.Status == pipeline.InProgress || t.Queued() {
		return t.StepsDone() < len(t.Steps) || t.EndsByWord()
	}
	return false
}

// Queued reports whether the task is handed out and pending: its agent has another one.
func (t *Task) Queued() bool {
	return t.Status == pipeline.Pending && t.Dispatch != nil && t.Wait != nil && t.Wait.Why == WaitBusy
}

// Out reports whether the task is in the hands of its agent: it has an entry in the
// agent's dispatch file, or a person has it.
func (t *Task) Out() bool { return t.Dispatch != nil && !t.Away() && (t.Status.Active() || t.Queued()) }

// EndsByWord reports whether the task was handed out with all its steps ticked:
// somebody sent it back as it stood, or ticked them before the agent took it. Its
// steps do not tell when it is done, so it is when the agent says so.
func (t *Task) EndsByWord() bool { return t.Dispatch != nil && t.Dispatch.AllTicked }

// Taken reports whether the agent of the present dispatch took the task.
func (t *Task) Taken() bool { return t.Dispatch != nil && !t.Dispatch.TakenAt.IsZero() }

// AtWork reports whether an agent took the task and has not ended it.
func (t *Task) AtWork() bool { return t.Taken() && t.Status.Active() && t.Unfinished() }

// IsResumed reports whether somebody else sent a blocked task on since its agent was last heard
// of for it.
func IsResumed(t *Task, agent string) bool {
	return t.ResumedBy != Agent && t.ResumedBy != Worker && t.ResumedAt.After(t.HeardOf(agent).At)
}

// holder is who has the task: the agent of the present dispatch, or else the one to whom
// it is given.
func holder(t *Task) string {
	if t.Dispatch != nil {
		return t.Dispatch.Agent
	}
	return t.Agent
}

// ReporterOf returns who may report on a task: its agent, or while a claimed task waits in
// the shared queue for its next run, the agent of its last run.
func ReporterOf(t *Task) string {
	if pipeline.IsSharedQueue(t.Agent) {
		return holder(t)
	}
	return t.Agent
}

// Claimable reports whether a task waits in the shared queue, for any agent to claim it.
func Claimable(t *Task, now time.Time) bool {
	return pipeline.IsSharedQueue(t.Agent) && t.Ready(now) && t.OnBoard() && !t.Away()
}

// Waiting reports whether the task waits for its agent to take it.
func (t *Task) Waiting() bool {
	return (t.Status == pipeline.Assigned || t.Queued()) && t.Out() && !t.Taken()
}

// HeardOf is what was last heard of an agent about the task.
func (t *Task) HeardOf(agent string) Heard { return t.Heard[pipeline.FoldName(agent)] }

// LastHeard is when the agent of the present dispatch last took the task or reported
// on it; zero: never.
func (t *Task) LastHeard() time.Time {
	if t.Dispatch == nil {
		return time.Time{}
	}
	return t.HeardOf(t.Dispatch.Agent).At
}

// WakeNamed returns the wake with a key; nil: the task holds none.
func (t *Task) WakeNamed(key string) *Wake {
	return pipeline.Find(t.Wakes, func(w *Wake) bool { return w.Key == key })
}

// MaybeQueued reports whether a wake may have reached the agent.
func (w *Wake) MaybeQueued() bool {
	return !w.Accepted.IsZero() || !w.Ended.IsZero() || w.Sent && w.Refused == ""
}

// SameAgent reports whether two names mean one agent.
func SameAgent(a, b string) bool { return a == b || pipeline.FoldName(a) == pipeline.FoldName(b) }
