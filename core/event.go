package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"otm/pipeline"
)

// Event is a fact. Events are the truth: the states follow from them by Apply.
type Event struct {
	Seq   int64           // the order of all events; 0: not stored yet
	ID    string          // a ULID
	At    time.Time       // when it happened, by the clock of who says so; to the microsecond
	By    Actor           // who did it
	Task  pipeline.TaskID // 0: of an agent, or of an incident that concerns no task
	Agent string          // of whose state it is, or who took part; "": nobody
	Cause string          // the id of the command
	Trace pipeline.Trace  // a place in the task's trace; if the task has none, the command's
	Data  Data
}

// Data is what happened: a value of one of the types in this file that kinds lists.
// The name of its type is the type of the event.
type Data any

// TaskRequested says that a task came into being: it was dropped, or a person typed
// its row.
type TaskRequested struct {
	DropID     string            `json:"dropId,omitempty"`
	Drop       string            `json:"drop,omitempty"`
	Claims     string            `json:"claims,omitempty"` // who asked for it, as the drop claims
	Title      string            `json:"title"`
	Agent      string            `json:"agent"`
	Priority   pipeline.Priority `json:"priority"`
	Project    string            `json:"project,omitempty"`
	Type       pipeline.Type     `json:"type"`
	Context    string            `json:"context,omitempty"`
	Inputs     []string          `json:"inputFiles,omitempty"`
	Body       string            `json:"body,omitempty"`
	Parent     pipeline.TaskID   `json:"parent,omitempty"`
	CreatedAt  time.Time         `json:"createdAt"`
	Steps      []string          `json:"steps"`
	Status     pipeline.Status   `json:"status"`
	Reason     string            `json:"reason,omitempty"`
	Result     string            `json:"result,omitempty"`
	Attempt    int               `json:"attempt,omitempty"` // above all that may have been used, where the task was lost
	Unverified bool              `json:"dedupUnverified,omitempty"`
}

// RowFound says that a task's row, and the rows of steps, stand on the board as they
// are: a person typed them, or they were made by somebody else.
type RowFound struct {
	Row   string      `json:"row"`
	Shown Shown       `json:"shown"`
	Steps []FoundStep `json:"steps,omitempty"`
}

// FoundStep is the row of a step that was found. Step is 0 where the task does not
// have it yet: it comes last.
type FoundStep struct {
	Step  int    `json:"step,omitempty"`
	Row   string `json:"row"`
	Title string `json:"title"`
	Done  bool   `json:"done,omitempty"`
}

// DuplicateSkipped says that a drop came again, and changed nothing.
type DuplicateSkipped struct {
	Drop string `json:"drop"`
}

// TaskMoved says that the status of a task changed.
type TaskMoved struct {
	From   pipeline.Status `json:"from"`
	To     pipeline.Status `json:"to"`
	Move   string          `json:"move"`             // its code in the table; "": a person overrode the table
	Seen   bool            `json:"seen,omitempty"`   // it was seen on the board, which therefore shows it
	Shows  pipeline.Status `json:"shows,omitempty"`  // of Seen: what the board shows, where that is not To
	Reason string          `json:"reason,omitempty"` // why OTM moved it
	Heard  time.Time       `json:"heard,omitzero"`   // when the agent dropped its report
}

// StepDone says that a step was ticked, or opened again.
type StepDone struct {
	Step  int       `json:"step"`
	Title string    `json:"title"`
	Done  bool      `json:"done"`
	Seen  bool      `json:"seen,omitempty"`
	Heard time.Time `json:"heard,omitzero"`
}

// StepRepeated says that an agent reported a step that was done already. It changes nothing.
type StepRepeated struct {
	Step int    `json:"step"`
	Drop string `json:"drop"`
}

// Noted says that an agent reported, with the words it said. Every report makes one.
type Noted struct {
	Drop   string    `json:"drop"`
	Heard  time.Time `json:"heard,omitzero"`
	Reason *string   `json:"reason,omitempty"` // nil: it stays
	Result *string   `json:"result,omitempty"` // nil: it stays
}

// Said says that somebody wrote a message in the thread of a task.
type Said struct {
	pipeline.Message
	Heard time.Time `json:"heard,omitzero"` // when the agent that has the task said it; zero: somebody else did
}

// ReportFailed says that a report was refused.
type ReportFailed struct {
	Drop string `json:"drop"`
	Why  string `json:"why"` // for people
}

// EditedByPerson says that a person changed a field of a task.
type EditedByPerson struct {
	Field pipeline.Field `json:"field"`
	From  string         `json:"from,omitempty"`
	To    string         `json:"to,omitempty"`
	Step  int            `json:"step,omitempty"` // whose title it is; 0: the task's
	Seen  bool           `json:"seen,omitempty"`
	// Means is what an edit of the reason says: AnswerTo, SentBack, Explains; "": nothing
	// more.
	Means string `json:"means,omitempty"`
}

// Meanings of a person's reason.
const (
	AnswerTo = "answered"  // it answers a blocked agent
	SentBack = "sent back" // it says why the task is to be done again
	Explains = "reason"    // it says why the task is cancelled, set aside or held up: its agent is not shown it
)

// Approved says that somebody accepted a task's result.
type Approved struct{}

// StepAdded says that somebody added a step.
type StepAdded struct {
	Step  int    `json:"step"`
	Title string `json:"title"`
	Row   string `json:"row"` // "": the board is to make it
	Done  bool   `json:"done,omitempty"`
}

// StepGone says that somebody deleted a step.
type StepGone struct {
	Step  int    `json:"step"`
	Title string `json:"title"`
	Row   string `json:"row,omitempty"` // the board is to delete it; "": it is gone
}

// RowGone says that somebody deleted or archived the task's row.
type RowGone struct {
	Row string `json:"row"`
}

// RowBack says that the row is on the board again. From says from where.
type RowBack struct {
	Row     string `json:"row"`
	Archive bool   `json:"archive,omitempty"` // it had been archived by us
}

// BoardWritten says what the board shows of a task by our own writes.
type BoardWritten struct {
	Row   string        `json:"row,omitempty"` // the row that was made; "": it was there
	Shown Shown         `json:"shown"`
	Steps []WrittenStep `json:"steps,omitempty"` // those that were written
	Gone  []string      `json:"gone,omitempty"`  // rows of steps that were deleted
}

// WrittenStep is the row of a step that was written.
type WrittenStep struct {
	Step  int       `json:"step"`
	Row   string    `json:"row"`
	Shown StepShown `json:"shown"`
}

// ReconciliationDrift says that the board showed something that nobody meant: cells
// that OTM derives were changed, cells that a task needs were emptied, or an agent
// changed what it may not change. They are written again.
type ReconciliationDrift struct {
	Fields []pipeline.Field `json:"fields,omitempty"`
	Was    string           `json:"was,omitempty"`   // of the Task ID cell: what stood there
	Steps  []int            `json:"steps,omitempty"` // whose titles were emptied
	// Shows is what the board shows in fields that an agent may not change, and did.
	Shows map[pipeline.Field]string `json:"shows,omitempty"`
}

// HandedOut says that a task was handed out to its agent.
type HandedOut struct {
	Attempt   int    `json:"attempt"`
	Agent     string `json:"agent"`
	Workspace string `json:"workspace,omitempty"`
	AllTicked bool   `json:"allTicked,omitempty"`

	Via     pipeline.Trigger `json:"via,omitempty"`
	Claimed bool             `json:"claimed,omitempty"` // the agent claimed it from the shared queue
}

// Queued says that a task that is handed out waits for its turn: its agent has another one.
type Queued struct{}

// WorkspaceMoved says that the agent's workspace is another one now.
type WorkspaceMoved struct {
	Workspace string `json:"workspace"`
}

// Acknowledged says that an agent took a task, or was given it again.
type Acknowledged struct {
	By    TakenBy   `json:"by"`
	Again bool      `json:"again,omitempty"` // it had taken it before
	Heard time.Time `json:"heard,omitzero"`
}

// WakeBegun says that an agent is about to be woken, under a key that no other wake has.
type WakeBegun struct {
	Wake  Wake `json:"wake"`
	Again bool `json:"again,omitempty"` // it is sent again under its key
}

// TakenAway says that a task was taken from an agent at the gateway, which may be at work on
// it and is to be told.
type TakenAway struct{ Loss }

// Notified says that an agent was woken: the wake was accepted. The first task that it
// names holds the wake. Of a loss, it says that the agent was told of it.
type Notified struct {
	Key     string           `json:"key"`
	Agent   string           `json:"agent"`
	Via     pipeline.Trigger `json:"via"`
	Attempt int              `json:"attempt"`
	First   bool             `json:"first,omitempty"`
	Loss    bool             `json:"loss,omitempty"`
}

// WakeFailed says that a wake was refused, or is known not to have been sent.
type WakeFailed struct {
	Key     string `json:"key"`
	Refused string `json:"refused,omitempty"` // why, for people; "": it was not sent, its key is unused
}

// StartUnknown says that nobody knows how a start ended.
type StartUnknown struct {
	Key string `json:"key"`
}

// StartEnded says that the process of a wake, or its run at the gateway, ended.
type StartEnded struct {
	Key   string `json:"key"`
	Agent string `json:"agent"`
	StartResult
	Process bool `json:"process,omitempty"`
}

// RunStarted says that an agent took a task, and a run of it began.
type RunStarted struct {
	Run     int       `json:"run"`
	Agent   string    `json:"agent"`
	Attempt int       `json:"attempt"`
	Again   bool      `json:"again,omitempty"` // the run was paused or counted as failed, and goes on
	Heard   time.Time `json:"heard,omitzero"`
}

// RunSucceeded says that a run ended with its task done.
type RunSucceeded struct {
	Run int `json:"run"`
}

// RunPaused says that a run ended because its task is blocked.
type RunPaused struct {
	Run int `json:"run"`
}

// RunFailed says that a run ended without a result, or that its agent reported a failure.
type RunFailed struct {
	Run   int       `json:"run"`
	Heard time.Time `json:"heard,omitzero"` // when its agent said so
	Failure
}

// RunCanceled says that a run ended because its task left the hands of its agent.
type RunCanceled struct {
	Run int `json:"run"`
}

// RetryScheduled says when the next run may begin after a failed one.
type RetryScheduled struct {
	Run  int  `json:"run"` // the next one
	Try  int  `json:"try"` // how many runs failed in a row
	Wait Wait `json:"wait"`
}

// RetryAdvised says what the command of [retry] advise said about a failed run.
type RetryAdvised struct {
	Run int `json:"run"` // the failed one
	Advice
}

// CountReset says that somebody restarted the count of failed runs.
type CountReset struct{}

// AgentChanged says what an agent's state is after a start was judged, its configuration
// changed, or a person resumed it.
type AgentChanged struct {
	State AgentState  `json:"state"`
	Why   AgentChange `json:"why"`
}

// AgentChange is why the state of an agent changed.
type AgentChange string

// The reasons.
const (
	StartJudged  AgentChange = "judged"       // a start ended
	Reconfigured AgentChange = "reconfigured" // its table in otm.toml, or its program, is another one
	Resumed      AgentChange = "resumed"      // by a person
	Paused       AgentChange = "paused"       // by a person
	Forgiven     AgentChange = "forgiven"     // a person sent one of its tasks out again, or it did one in a session of its own
	Observed     AgentChange = "observed"     // what its process does
	Answered     AgentChange = "answered"     // a wake was refused, or accepted after refusals
	Read         AgentChange = "read"         // it was shown what mentions it
)

// Started says that a dispatcher started, or that the gateway's process is another one than
// before, and what was there.
type Started struct {
	What    string                  `json:"what"` // StartedDispatcher, StartedGateway
	Version string                  `json:"version,omitempty"`
	Tasks   map[pipeline.Status]int `json:"tasks,omitempty"` // those that are in progress, assigned or pending
	Runs    []string                `json:"runs,omitempty"`  // that go on, such as T-00035.2
	Wakes   []string                `json:"wakes,omitempty"` // the keys of those of which nobody knows the end
	Lost    []string                `json:"lost,omitempty"`  // the keys of those that ended with the gateway's former process
	Agents  []string                `json:"agents"`          // everybody who is known
	Added   []string                `json:"added,omitempty"` // since the last event of this type
	Removed []string                `json:"removed,omitempty"`
}

// What starts.
const (
	StartedDispatcher = "dispatcher"
	StartedGateway    = "gateway"
)

// NoteStart notes that something started.
type NoteStart struct{ Started }

func (n NoteStart) decide(d *decision) error {
	d.emitOn(0, d.By, d.At, n.Started)
	return nil
}

// AuditPosted says where in Slack the events of a task are mirrored.
type AuditPosted struct {
	Channel string `json:"channel"`
	TS      string `json:"ts"`             // of the message that begins the thread
	Link    string `json:"link,omitempty"` // for people; "": it is not known
}

// PostAudit notes that the thread of a task was begun.
type PostAudit struct{ AuditPosted }

func (p PostAudit) decide(d *decision) error {
	switch {
	case d.task == nil:
		return ErrNoTask
	case d.task.Audit != nil && *d.task.Audit == p.AuditPosted:
		return nil
	}
	d.emit(p.AuditPosted)
	return nil
}

// Archived says that a task left the board for the history. It has what only the rows
// knew.
type Archived struct {
	Row   pipeline.Row   `json:"row"`
	Steps []pipeline.Row `json:"steps,omitempty"`
}

// Imported says that a task was taken over from a data directory of the former format.
type Imported struct {
	Task  Task           `json:"task"`
	Lines []OldLine      `json:"history,omitempty"`
	Row   *pipeline.Row  `json:"row,omitempty"` // as it left the board; nil: it is not archived
	Steps []pipeline.Row `json:"steps,omitempty"`
}

// OldLine is a line of a task's history from before the engine.
type OldLine struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"`
	What   string    `json:"what"`
	Detail string    `json:"detail,omitempty"`
}

// kind is one type of event.
type kind struct {
	name   string
	code   string // in the specification; "": it has none, or the event says it
	decode func([]byte) (Data, error)
}

func kindOf[T Data](code string) kind {
	return kind{reflect.TypeFor[T]().Name(), code, func(data []byte) (Data, error) {
		var d T
		err := json.Unmarshal(data, &d)
		return d, err
	}}
}

// kinds are all types of events.
var kinds = []kind{
	kindOf[TaskRequested](""), kindOf[RowFound](""), kindOf[DuplicateSkipped](""), kindOf[TaskMoved](""), kindOf[StepDone]("IE-02"),
	kindOf[Noted]("IE-02"), kindOf[Said](""), kindOf[ReportFailed](""), kindOf[EditedByPerson]("IE-01"), kindOf[Approved]("IE-04"), kindOf[StepAdded]("IE-01"),
	kindOf[StepGone]("IE-01"), kindOf[RowGone]("IE-01"), kindOf[RowBack]("IE-01"), kindOf[BoardWritten]("OE-06"), kindOf[ReconciliationDrift]("ERR-05"),
	kindOf[HandedOut](""), kindOf[WorkspaceMoved](""), kindOf[Acknowledged]("IE-03"), kindOf[WakeBegun](""), kindOf[Notified]("OE-01"),
	kindOf[TakenAway](""), kindOf[WakeFailed](""), kindOf[StartUnknown](""), kindOf[StartEnded](""),
	kindOf[RunStarted]("AT-01"), kindOf[RunSucceeded]("AT-02"), kindOf[RunPaused]("AT-03"), kindOf[RunFailed]("AT-04"), kindOf[RunCanceled]("AT-03"),
	kindOf[RetryScheduled](""), kindOf[RetryAdvised](""), kindOf[Queued](""), kindOf[CountReset](""), kindOf[AgentChanged](""), kindOf[Started]("IE-SYS-01"),
	kindOf[IncidentOpened](""), kindOf[IncidentCorrected](""), kindOf[IncidentClosed](""), kindOf[AuditPosted]("OE-07"), kindOf[Archived](""), kindOf[Imported](""),
	kindOf[DayEnded](""), kindOf[StepRepeated]("ERR-11"),
}

// formerNames are types of events by the names that they had before: old events are kept
// under them.
var formerNames = map[string]string{"RunEnded": "StartEnded", "RunUnknown": "StartUnknown"}

// StoredAs returns the names under which events of some types are kept.
func StoredAs(types []string) []string {
	names := slices.Clone(types)
	for former, now := range formerNames {
		if slices.Contains(types, now) {
			names = append(names, former)
		}
	}
	return names
}

// EventVersion is the version of the forms in which events are kept. A form that a
// reader of this version would misread raises it. Version 2 has HandedOut.Claimed, without
// which a claimed task stays in the shared queue, TaskRequested.Body and Event.Trace.
const EventVersion = 2

// Types lists the names of all types of events.
func Types() []string { return pipeline.Map(kinds, func(k kind) string { return k.name }) }

// Type is the name of the event's type, such as TaskMoved.
func (e *Event) Type() string { return reflect.TypeOf(e.Data).Name() }

// Code is the short code of the event in the specification, such as TT-02; "": it has
// none.
func (e *Event) Code() string {
	if o, is := e.ofIncident(); is {
		return o.Err
	}
	switch data := e.Data.(type) {
	case TaskMoved:
		return data.Move
	case Notified:
		if data.Loss {
			return "OE-04"
		}
	}
	for _, k := range kinds {
		if k.name == e.Type() {
			return k.code
		}
	}
	return ""
}

// DecodeData reads the payload of an event of a type.
func DecodeData(typ string, payload []byte) (Data, error) {
	for _, k := range kinds {
		if k.name == cmp.Or(formerNames[typ], typ) {
			return k.decode(payload)
		}
	}
	return nil, fmt.Errorf("events of type %q are not known: a newer version wrote them", typ)
}
