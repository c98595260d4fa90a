package core

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"otm/pipeline"
)

// Command asks for a change.
type Command struct {
	// ID makes repeats harmless: a command whose id was carried out before changes
	// nothing. "": it is never a repeat.
	ID  string
	Sum string // of its content: another command with this id is a conflict; "": not known
	At  time.Time
	By  Actor
	// Trace is where the command stands in a trace. A task that it makes keeps it.
	Trace pipeline.Trace

	Task  pipeline.TaskID   // 0: it concerns only an agent
	Also  []pipeline.TaskID // other tasks that it concerns
	Agent string            // whose state it concerns; "": nobody's
	Do    Action
}

// DropCommand is the id of the command of a drop. Ids of foreign drops may be as simple as
// "1", and stand in drops of several tasks.
func DropCommand(drop string, task pipeline.TaskID) string {
	if pipeline.DropIDInName(drop+".json") == "" {
		return fmt.Sprintf("%s of %v", drop, task)
	}
	return drop
}

// Action is what a command asks for. The types of this package that have a decide
// method are the commands that there are.
type Action interface {
	decide(d *decision) error
}

// State is what a command is decided on.
type State struct {
	Tasks  map[pipeline.TaskID]*Task // those of the command; a task that does not exist is missing
	Agents map[string]*AgentState    // by folded name; an agent without state is missing
	// Incidents are those of IncidentsOf, by id; LastIncident is the last id of all.
	Incidents    map[int64]*Incident
	LastIncident int64
}

// decision is a command that is being decided. Each event is applied at once.
type decision struct {
	*Command
	State  *State
	events []Event
	task   *Task // nil: there is none yet
}

// Decide carries a command out on a state, which it changes, and returns what
// happened. If the error is not nil, the state must be thrown away. The error is a
// *Refused, a *PanicError, ErrNotYet or ErrOutdated. No events and no error: nothing was
// to do.
func Decide(s *State, c Command) (events []Event, err error) {
	defer func() {
		if p := recover(); p != nil {
			events, err = nil, &PanicError{p}
		}
	}()
	d := &decision{Command: &c, State: s, task: s.Tasks[c.Task]}
	if err := c.Do.decide(d); err != nil {
		return nil, err
	}
	return d.events, nil
}

// PanicError says that a task made our code panic. It concerns no other task.
type PanicError struct{ Value any }

func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v", e.Value) }

// emit notes that something happened to the task of the command, now and by who
// asked for it.
func (d *decision) emit(data Data) { d.emitAs(d.By, d.At, data) }

func (d *decision) emitAs(by Actor, at time.Time, data Data) { d.emitOn(d.Task, by, at, data) }

func (d *decision) emitOn(task pipeline.TaskID, by Actor, at time.Time, data Data) {
	e := Event{At: at.UTC().Truncate(time.Microsecond), By: by, Task: task, Agent: d.Agent, Cause: d.ID, Trace: d.Trace, Data: data}
	if t := d.State.Tasks[task]; t != nil {
		e.Agent = cmp.Or(e.Agent, t.Agent)
		if t.Trace != "" && t.Trace.ID() != e.Trace.ID() {
			e.Trace = t.Trace // all events of a task are of its trace
		}
	}
	Apply(d.State, &e)
	d.task = d.State.Tasks[d.Task]
	d.events = append(d.events, e)
}

// ErrNotYet says that a command can be carried out later: its task does not exist
// yet, or was not handed out yet.
var ErrNotYet = errors.New("not yet: its task is not known, or was not handed out")

// ErrOutdated says that the state changed since the command was planned.
var ErrOutdated = errors.New("the state changed since this was planned")

// ErrEnding says that OTM ends the process of an agent, which takes nothing any more.
var ErrEnding = errors.New("its process is being ended")

// ErrNoTask says that a task does not exist.
var ErrNoTask = errors.New("there is no such task")

// ErrNoIncident says that an incident does not exist.
var ErrNoIncident = errors.New("there is no such incident")

// Class is what a refusal means for a drop.
type Class string

// The classes of refusals.
const (
	Conflict  Class = "conflict"  // it contradicts the state
	Unmatched Class = "unmatched" // it names something that is not there
)

// Rule is the rule by which a command was refused.
type Rule string

// The rules.
const (
	RuleMove      Rule = "move"      // the table does not permit the move
	RuleOver      Rule = "over"      // the task is over: a report changes nothing any more
	RuleStepsStay Rule = "stepsStay" // the agent is done: open steps stay open
	RuleNoStep    Rule = "noStep"    // no step matches
	RuleRowGone   Rule = "rowGone"   // somebody deleted the row of the task
	RuleArchived  Rule = "archived"  // the task left the board for the history
	RuleOtherTask Rule = "otherTask" // the id belongs to another task
	RuleOtherDrop Rule = "otherDrop" // the id of the command belongs to another one
	RuleNotOn     Rule = "notOn"     // the task does not stand on the board yet
	RuleFormer    Rule = "former"    // the report is older than the hand-out to the present agent
	RuleOwn       Rule = "own"       // an agent does not review its own task
	RuleOther     Rule = "other"     // who reports does not have the task
	RuleFormerRun Rule = "formerRun" // the report is of a run that is over
	RuleMoved     Rule = "moved"     // the task is in another status by now than the person saw
)

// Refused says why a command was not carried out. It changed nothing.
type Refused struct {
	Rule    Rule
	Class   Class
	Task    pipeline.TaskID
	From    pipeline.Status
	To      pipeline.Status   // "": no move was asked for
	By      Actor             // who asked
	Allowed []pipeline.Status // where By may move the task from here
	SetBy   Actor             // who set From
	SetAt   time.Time         // when; zero: not known
	Step    string            // the step that was reported
	Steps   []pipeline.Step   // of RuleNoStep: those that there are
	Title   string            // of RuleOtherTask: the task to which the id belongs
	Drop    string            // of RuleOtherDrop: the other drop
	Agent   string            // of RuleFormer: who has the task
	At      time.Time         // of RuleArchived, and of RuleFormer: when he got it
	Claims  string            // of RuleOther: who reports
	Run     int               // of RuleFormerRun: the run of the report
}

// Error says it in one sentence.
func (r *Refused) Error() string {
	switch r.Rule {
	case RuleNoStep:
		return fmt.Sprintf("no step of %v matches %q; %s", r.Task, r.Step, listSteps(r.Steps, r.Step))
	case RuleStepsStay:
		return fmt.Sprintf("%s: step %q stays open", r.stands(), r.Step)
	case RuleOver:
		return r.stands() + ": an update changes nothing any more"
	case RuleRowGone:
		return fmt.Sprintf("the row of %v is no longer on the board: somebody deleted or archived it", r.Task)
	case RuleArchived:
		return fmt.Sprintf("%v is %s, and was archived at %s", r.Task, r.From, r.At.UTC().Format(time.RFC3339))
	case RuleOtherTask:
		return fmt.Sprintf("%v is another task: %q", r.Task, r.Title)
	case RuleOtherDrop:
		return fmt.Sprintf("its id belongs to another drop, %q, which says something else: give each drop an id of its own", r.Drop)
	case RuleNotOn:
		return fmt.Sprintf("%v does not stand on the board with all its steps", r.Task)
	case RuleFormer:
		return fmt.Sprintf("%v was handed out to %s at %s, and this report is older: it counts as one of the former agent", r.Task, r.Agent, r.At.UTC().Format(time.RFC3339))
	case RuleOwn:
		return fmt.Sprintf("%v is %s's own task: somebody else decides on it", r.Task, r.By.Name)
	case RuleOther:
		return fmt.Sprintf("%v is with %s: a report by %s changes nothing", r.Task, cmp.Or(r.Agent, "nobody"), r.Claims)
	case RuleFormerRun:
		return fmt.Sprintf("%v is with %s, and run %d is over: this report belongs to that run", r.Task, r.Agent, r.Run)
	case RuleMoved:
		return fmt.Sprintf("it is %s by now", r.From)
	}
	return fmt.Sprintf("%s: cannot become %s", r.stands(), r.To)
}

// stands names the status of the task, who set it and when.
func (r *Refused) stands() string {
	if r.SetAt.IsZero() {
		return fmt.Sprintf("%v is %s", r.Task, r.From)
	}
	return fmt.Sprintf("%v is %s (%s set it at %s)", r.Task, r.From, r.SetBy, r.SetAt.UTC().Format(time.RFC3339))
}

func listSteps(steps []pipeline.Step, reported string) string {
	var b strings.Builder
	b.WriteString("its steps are")
	for i, s := range steps {
		fmt.Fprintf(&b, " %d %q", i+1, s.Title)
	}
	if i := pipeline.NearestStep(steps, reported); i >= 0 {
		fmt.Fprintf(&b, "; nearest: %q", steps[i].Title)
	}
	return b.String()
}

// refuse returns a refusal of the command on its task as it is.
func (d *decision) refuse(rule Rule, class Class) *Refused {
	r := &Refused{Rule: rule, Class: class, Task: d.Task, By: d.By}
	if t := d.task; t != nil {
		r.From, r.SetBy, r.SetAt, r.At = t.Status, t.StatusBy, t.StatusAt, t.ArchivedAt
		r.Allowed = Reachable(t.Status, d.By.Kind)
	}
	return r
}

// move moves the task, if the table permits it to who asks.
func (d *decision) move(to pipeline.Status, m TaskMoved) error { return d.moveAs(d.By, to, m) }

func (d *decision) moveAs(by Actor, to pipeline.Status, m TaskMoved) error {
	from := d.task.Status
	code, ok := Permitted(from, to, by.Kind)
	if !ok {
		r := d.refuse(RuleMove, Conflict)
		r.To = to
		return r
	}
	m.From, m.To, m.Move = from, to, code
	d.emitAs(by, d.At, m)
	d.endRun()
	return nil
}
