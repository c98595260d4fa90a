package pipeline

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// Record is what OTM knows of one task: the file tasks/T-00035.json. It is
// written by package task alone.
type Record struct {
	TaskID    TaskID    `json:"taskId"`
	DropID    string    `json:"dropId,omitempty"` // "": a person typed the row
	Drop      string    `json:"drop,omitempty"`   // the name of the create's file
	Title     string    `json:"title"`
	Agent     string    `json:"agent"`
	Priority  Priority  `json:"priority"`
	Project   string    `json:"project,omitempty"`
	Type      Type      `json:"type"`
	CreatedAt time.Time `json:"createdAt"`

	RowID      string       `json:"rowId,omitempty"`
	RowAskedAt *time.Time   `json:"rowAskedAt,omitempty"` // the row was asked for at this time and no answer came
	Unverified bool         `json:"dedupUnverified,omitempty"`
	Steps      []StepRecord `json:"steps"`                // in the order in which they are to be done
	ArchivedAt *time.Time   `json:"archivedAt,omitempty"` // it stands in the history, and its rows are to be deleted
	GoneAt     *time.Time   `json:"goneAt,omitempty"`     // somebody deleted or archived the row; seen at this time

	Status Status `json:"status,omitempty"` // the last one seen or written
	Reason string `json:"reason,omitempty"`
	// Answered says that a person wrote Reason: to answer the agent's question, or
	// to say why the task was sent back. Else it is the agent's own.
	Answered bool   `json:"answered,omitempty"`
	Result   string `json:"result,omitempty"`

	// Reporting is the update that is being put on the board. If we crash
	// before Updates has its id, it is put there again as it stands here.
	Reporting *Report   `json:"reporting,omitempty"`
	Updates   []Applied `json:"updates,omitempty"` // the updates that are on the board

	Attempt  int       `json:"attempt,omitempty"` // dispatches and wakes so far
	Dispatch *Dispatch `json:"dispatch,omitempty"`
	Wakes    []Wake    `json:"wakes,omitempty"`
	// Heard is what was last heard of each agent about the task, by its folded
	// name. It outlives the hand-out: a task that was sent back was taken all the same.
	Heard map[string]Heard `json:"heard,omitempty"`
	// ResumedAt is when the task last went from blocked to in progress; zero: never.
	// SetStatus sets it.
	ResumedAt time.Time `json:"resumedAt,omitzero"`

	History []Event `json:"history,omitempty"`
}

// StepRecord is what OTM knows of one step.
type StepRecord struct {
	Title   string     `json:"title"`
	RowID   string     `json:"rowId,omitempty"`
	AskedAt *time.Time `json:"askedAt,omitempty"` // the row was asked for at this time and no answer came
	Done    bool       `json:"done,omitempty"`    // as last seen or written
}

// KeptUpdates is how many applied updates a record knows, the last ones. After a
// crash only the last matters: each update settles before the next of its task is
// judged. The others recognise a file that is copied back into the inbox.
const KeptUpdates = 1000

// Applied is an update that is on the board.
type Applied struct {
	ID   string `json:"id"`
	Drop string `json:"drop"`          // the name of its file
	Sum  string `json:"sum,omitempty"` // of its content, see drop.Update.Sum; "": not known
}

// Report is an update with everything decided.
type Report struct {
	ID     string  `json:"id"`
	Drop   string  `json:"drop"`
	Sum    string  `json:"sum,omitempty"`
	Status Status  `json:"status,omitempty"`
	Steps  []int   `json:"steps,omitempty"` // indexes of the steps to tick
	Reason *string `json:"reason,omitempty"`
	Result *string `json:"result,omitempty"`
}

// Dispatch is the present hand-out of the task to its agent.
type Dispatch struct {
	Attempt   int        `json:"attempt"`
	Agent     string     `json:"agent"`
	Workspace string     `json:"workspace,omitempty"` // "": of a person, who has none
	At        time.Time  `json:"at"`                  // the entry was begun
	EntryAt   *time.Time `json:"entryAt,omitempty"`   // the entry was durable
	FlippedAt *time.Time `json:"flippedAt,omitempty"` // the board had flipped
	TakenAt   *time.Time `json:"takenAt,omitempty"`   // the agent took the entry
	TakenBy   string     `json:"takenBy,omitempty"`
	AllTicked bool       `json:"allTicked,omitempty"` // no step was open, see EndsByWord
	MissingAt *time.Time `json:"missingAt,omitempty"` // the entry was seen to be gone
}

// Wake is one wake whose first task this is.
type Wake struct {
	Attempt  int        `json:"attempt"`
	Key      string     `json:"key"` // idempotency key and run id
	Agent    string     `json:"agent"`
	Via      string     `json:"via"`
	Tasks    []TaskID   `json:"tasks"`
	AskedAt  time.Time  `json:"askedAt"` // first sent, or begun to be
	Sent     bool       `json:"sent,omitempty"`
	Accepted *time.Time `json:"acceptedAt,omitempty"`
	Refused  string     `json:"refused,omitempty"`
	Unknown  *time.Time `json:"unknownAt,omitempty"` // the gateway did not know how the run ended
	Ended    *time.Time `json:"endedAt,omitempty"`
	Outcome  Outcome    `json:"outcome,omitempty"`
	Exit     string     `json:"exit,omitempty"`     // how a process or a run ended, in words for people
	Code     *int       `json:"exitCode,omitempty"` // of a process, 128+n after signal n; nil: not known
	Log      string     `json:"log,omitempty"`      // what a process printed: the path of a file

	// LastWords is the beginning of what a run at the gateway said last, at
	// most 500 bytes. The agent wrote it: it is untrusted.
	LastWords string     `json:"lastWords,omitempty"`
	RetryAt   *time.Time `json:"retryAt,omitempty"` // the gateway asked not to be called before
}

// Heard is what was last heard of an agent about a task. A report counts from
// when it was dropped, not from when it was applied. Zero times: never.
type Heard struct {
	At       time.Time `json:"at"`                  // it was given the task, or dropped a report on it
	Took     time.Time `json:"tookAt,omitzero"`     // it took the task
	Given    time.Time `json:"givenAt,omitzero"`    // otm next gave it the task, to begin or to continue
	Progress time.Time `json:"progressAt,omitzero"` // it ticked a step that was open
	Ended    time.Time `json:"endedAt,omitzero"`    // it moved the task to blocked or agent_done
}

// Hear notes that an agent did something about the task: f gets what was heard of
// it so far. A time that lies before one that is noted does not replace it.
func (r *Record) Hear(agent string, at time.Time, f func(*Heard)) {
	key := FoldName(agent)
	was := r.Heard[key]
	now := was
	now.At = at
	if f != nil {
		f(&now)
	}
	later := func(a, b time.Time) time.Time {
		if b.After(a) {
			return b.UTC()
		}
		return a
	}
	if r.Heard == nil {
		r.Heard = map[string]Heard{}
	}
	r.Heard[key] = Heard{At: later(was.At, now.At), Took: later(was.Took, now.Took), Given: later(was.Given, now.Given), Progress: later(was.Progress, now.Progress), Ended: later(was.Ended, now.Ended)}
}

// HeardOf is what was last heard of an agent about the task. That it took the task
// counts also where only its dispatch tells.
func (r *Record) HeardOf(agent string) Heard {
	h := r.Heard[FoldName(agent)]
	if d := r.Dispatch; d != nil && d.TakenAt != nil && FoldName(d.Agent) == FoldName(agent) && h.Took.IsZero() {
		h.Took = *d.TakenAt
		if h.Took.After(h.At) {
			h.At = h.Took
		}
	}
	return h
}

// Outcome is how a run at the gateway ended.
type Outcome string

// Outcomes of runs.
const (
	OutcomeUnknown Outcome = ""        // it has not ended, or nobody reported how
	OutcomeOK      Outcome = "ok"      // it reports success, which does not mean that the task was done
	OutcomeFailed  Outcome = "failed"  // the model could not be reached, say
	OutcomeTimeout Outcome = "timeout" // it ran out of time, or somebody aborted it
)

// Failed reports whether the run is known to have failed.
func (o Outcome) Failed() bool { return o == OutcomeFailed || o == OutcomeTimeout }

// Event is one line of a task's history.
type Event struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"` // a component, "agent <name>", or a person
	What   string    `json:"what"`
	Detail string    `json:"detail,omitempty"`
}

// maxHistory bounds the history of a task that goes round and round.
const maxHistory = 500

// Note adds an event. Beyond maxHistory, the oldest but the first go.
func (r *Record) Note(at time.Time, who, what, detail string) {
	if len(r.History) >= maxHistory {
		r.History = slices.Delete(r.History, 1, len(r.History)-maxHistory+2)
	}
	r.History = append(r.History, Event{At: at.UTC(), Who: who, What: what, Detail: detail})
}

// Who does something, besides the components and the persons.
const (
	WhoBoard  = "board"      // it was seen there, and not who did it
	WhoCreate = "otm-create" // who dropped the task

	whoAgent = "agent " // comes before the name
)

// WhoAgent is an agent as the history of a task names it.
func WhoAgent(name string) string { return whoAgent + name }

// Agent is the name of the agent whose doing an event is; false if it is
// not an agent's.
func (e *Event) Agent() (name string, ok bool) { return strings.CutPrefix(e.Who, whoAgent) }

// What an event is called that is a move of the status; its detail ends in
// " to " and the status.
const (
	EventStatus  = "status"         // OTM wrote it
	EventChanged = "changed status" // it was seen on the board, or a person made it on the page
)

// What other events are called on which something hangs, or which several
// components write.
const (
	EventDropped      = "dropped"        // the create was delivered
	EventRebuilt      = "record rebuilt" // from the row: the record was lost
	EventTaken        = "taken"          // by the agent
	EventUpdateFailed = "update failed"
	EventPriority     = "changed priority"
	EventAssigned     = "assigned" // to another agent, by a person
	EventReason       = "reason"   // its text is the detail
	EventResult       = "result"   // its text is the detail
	EventRowGone      = "row gone" // somebody deleted or archived the row, whose id is the detail
)

// TickEvent is what an event is called that a step was done, or is no more.
func TickEvent(done bool) string {
	if done {
		return "ticked a step"
	}
	return "opened a step again"
}

// Move reads a move of the status from an event; false if it is none.
func (e *Event) Move() (from, to Status, ok bool) {
	if e.What != EventStatus && e.What != EventChanged {
		return "", "", false
	}
	a, b, ok := strings.Cut(e.Detail, " to ")
	return Status(a), Status(b), ok
}

// LastMove returns the event that brought the task into a status; nil where
// the history holds none.
func (r *Record) LastMove(status Status) *Event {
	for i := range slices.Backward(r.History) {
		if _, to, ok := r.History[i].Move(); ok && to == status {
			return &r.History[i]
		}
	}
	return nil
}

// SetStatus moves the task to a status at a time, and sets what depends on the move.
// All that write Status of a record which has one do it here.
func (r *Record) SetStatus(to Status, at time.Time) {
	if r.Status == Blocked && to == InProgress {
		r.ResumedAt = at.UTC()
	}
	r.Status = to
}

// Clone returns a copy that shares nothing that changes.
func (r *Record) Clone() *Record {
	c := *r
	c.Steps, c.Updates, c.History = slices.Clone(r.Steps), slices.Clone(r.Updates), slices.Clone(r.History)
	c.Wakes, c.Heard = slices.Clone(r.Wakes), maps.Clone(r.Heard)
	for i := range c.Wakes {
		c.Wakes[i].Tasks = slices.Clone(c.Wakes[i].Tasks)
	}
	if r.Dispatch != nil {
		d := *r.Dispatch
		c.Dispatch = &d
	}
	if r.Reporting != nil {
		report := *r.Reporting
		report.Steps = slices.Clone(report.Steps)
		c.Reporting = &report
	}
	return &c
}

// OnBoard reports whether the task and all its steps are known to stand on the
// board.
func (r *Record) OnBoard() bool {
	return r.RowID != "" && !slices.ContainsFunc(r.Steps, func(s StepRecord) bool { return s.RowID == "" })
}

// StepsDone counts the steps that are ticked.
func (r *Record) StepsDone() int {
	n := 0
	for _, s := range r.Steps {
		if s.Done {
			n++
		}
	}
	return n
}

// PlainSteps returns the steps as pipeline knows them.
func (r *Record) PlainSteps() []Step {
	steps := make([]Step, len(r.Steps))
	for i, s := range r.Steps {
		steps[i] = Step{Title: s.Title, Done: s.Done}
	}
	return steps
}

// AppliedAs returns the update of this id that is on the board; false if none
// is.
func (r *Record) AppliedAs(id string) (Applied, bool) {
	i := slices.IndexFunc(r.Updates, func(a Applied) bool { return a.ID == id })
	if i < 0 {
		return Applied{}, false
	}
	return r.Updates[i], true
}

// Unfinished reports whether an agent that took the task has something left to
// do: it is neither blocked nor over, its row is there as far as is known, and
// a step is open or there was none to begin with.
func (r *Record) Unfinished() bool {
	if r.GoneAt != nil {
		return false // no report on it would take effect
	}
	switch r.Status {
	case New, Assigned, InProgress:
		return r.StepsDone() < len(r.Steps) || r.EndsByWord()
	}
	return false
}

// EndsByWord reports whether the task was handed out with all its steps ticked:
// somebody sent it back as it stood, or ticked them before the agent took it.
// Its steps do not tell when it is done, so it is when the agent says so.
func (r *Record) EndsByWord() bool { return r.Dispatch != nil && r.Dispatch.AllTicked }

// ErrUnchanged is returned by the function given to Records.Change to say that
// there is nothing to write.
var ErrUnchanged = errors.New("unchanged")

// Records is where the records are.
type Records interface {
	// Load reads a record. The error matches fs.ErrNotExist where there is
	// none.
	Load(id TaskID) (*Record, error)
	// IDs lists the tasks that have a record, in ascending order.
	IDs() ([]TaskID, error)
	// Change changes a record under its lock, durably: f gets it as it stands
	// now, or an empty one that has only the id. If f returns ErrUnchanged,
	// nothing is written.
	Change(ctx context.Context, id TaskID, f func(r *Record) error) (*Record, error)
}
