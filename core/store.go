package core

import (
	"context"
	"errors"
	"time"

	"otm/pipeline"
)

// Store keeps events and states. Package store has the one there is.
type Store interface {
	Reader
	// Do carries commands out, in order, in one transaction, durably: only what the board
	// shows by our own writes (Written) may be forgotten by a power failure, if it made no
	// row. A command that is refused changes nothing, and the others go on. The error is
	// one of the database, and then nothing was changed, or it is not known whether it
	// was: the same commands again are harmless where they have ids.
	Do(ctx context.Context, commands ...Command) ([]Outcome, error)
}

// Outcome is what came of a command.
type Outcome struct {
	// Err is why it was not carried out: a *Refused, ErrNotYet, ErrOutdated, ErrNoTask;
	// nil: it was, or there was nothing to do.
	Err    error
	Events []Event
	Task   *Task // after the command; nil: it does not exist
	// Before says that a command of this id was carried out before: this one changed
	// nothing.
	Before bool
}

// Reader reads states. Callers share what it returns: they may keep it, and must not change
// it.
type Reader interface {
	// Task returns a task. The error is ErrNoTask if it does not exist.
	Task(ctx context.Context, id pipeline.TaskID) (*Task, error)
	// Tasks returns tasks in ascending order of their ids.
	Tasks(ctx context.Context, f Filter) ([]*Task, error)
	// TaskOfWake returns the task that holds the wake of a key. The error is ErrNoTask
	// if no wake has it.
	TaskOfWake(ctx context.Context, key string) (pipeline.TaskID, error)
	// Agent returns the state of an agent; an empty one if it has none.
	Agent(ctx context.Context, name string) (*AgentState, error)
	// AgentStates returns the states of all agents that have one, by their folded names.
	AgentStates(ctx context.Context) (map[string]*AgentState, error)
	// Incidents returns incidents, those that stand first, then the latest.
	Incidents(ctx context.Context, f IncidentFilter) ([]*Incident, error)
	// LastEvent returns the number of the last event; 0: there is none. While it stays
	// the same, only a rebuild changes states.
	LastEvent(ctx context.Context) (int64, error)
	// Events returns events in their order.
	Events(ctx context.Context, f EventFilter) ([]Event, error)
	// Did reports whether a command of this id was carried out, and what is known of it.
	Did(ctx context.Context, id string) (Done, bool, error)
}

// Filter selects tasks. The zero value selects all.
type Filter struct {
	IDs       []pipeline.TaskID // nil: all; empty: none
	Rows      []string          // those whose rows on the board these are
	Live      bool              // those that are not over, or whose rows still stand on the board
	Agent     string            // of an agent, by the state or by the present dispatch
	Woken     []string          // those that hold a wake of one of these agents, begun since WokenFrom; nil: all
	WokenFrom time.Time
}

// EventFilter selects events. The zero value selects all.
type EventFilter struct {
	After int64           // those with greater numbers
	Limit int             // at most so many; 0: all
	Task  pipeline.TaskID // 0: of all
	Agent string          // "": of all
	Types []string        // empty: all
	Since time.Time
	Last  bool // the last one only
	// Archived says that events in archives count, too. To look for one among all takes a second
	// a year; to look for those of a task takes less.
	Archived bool
}

// ErrArchive says that a file of the archive is damaged, or missing.
var ErrArchive = errors.New("the archive is damaged")

// BadArchive is a file of the archive that is damaged, or missing.
type BadArchive struct {
	Why string // with its path
	Do  string // what a person can do
}

// EventsAtHand returns archived events too, for work that must go on where an archive is
// damaged: then it returns those that are not archived, and damage says why.
func EventsAtHand(ctx context.Context, r Reader, f EventFilter) (events []Event, damage, err error) {
	f.Archived = true
	if events, err = r.Events(ctx, f); !errors.Is(err, ErrArchive) {
		return events, nil, err
	}
	f.Archived, damage = false, err
	events, err = r.Events(ctx, f)
	return events, damage, err
}

// Done is what is known of a command that was carried out.
type Done struct {
	ID   string
	Task pipeline.TaskID
	At   time.Time
	Sum  string
	Drop string // the name of its file; "": it had none
}

// Pending is an effect that was not delivered yet.
type Pending struct {
	Task    pipeline.TaskID
	Sink    Sink
	Wanted  int64     // the version of the task that is to be delivered
	Since   time.Time // when it became due
	Due     time.Time // not before
	Tries   int       // that failed
	AskedAt time.Time // a try that got no answer was made at this time; zero: none is open
	Error   string    // of the last try, for people; "": none failed
	Code    string    // of that error, as data
	Owner   string    // who leases it; "": nobody
}

// TasksOf returns the tasks of effects, in their order.
func TasksOf(effects []Pending) []pipeline.TaskID {
	return pipeline.Map(effects, func(p Pending) pipeline.TaskID { return p.Task })
}

// ByID returns tasks by their ids.
func ByID(tasks []*Task) map[pipeline.TaskID]*Task {
	all := make(map[pipeline.TaskID]*Task, len(tasks))
	for _, t := range tasks {
		all[t.ID] = t
	}
	return all
}

// DoOne carries one command out. The error is one of the store, or why the command was
// refused.
func DoOne(ctx context.Context, s Store, c Command) (Outcome, error) {
	outcomes, err := s.Do(ctx, c)
	if err != nil {
		return Outcome{}, err
	}
	return outcomes[0], outcomes[0].Err
}

// Outbox keeps the effects that are to be delivered. A process that delivers some
// leases them first.
type Outbox interface {
	// Pending returns effects, the oldest first: of one sink, or of all ("").
	Pending(ctx context.Context, sink Sink, tasks ...pipeline.TaskID) ([]Pending, error)
	// Lease leases the effects of a sink that are due, for the given time: at most limit
	// of them (0: all). If tasks are given, it leases only theirs, also those that are not
	// due yet. Effects whose task waits for an earlier sink, and those that another owner
	// leases, are left out. An owner may lease again what it leases, for longer.
	Lease(ctx context.Context, sink Sink, owner string, now time.Time, lease time.Duration, limit int, tasks ...pipeline.TaskID) ([]Pending, error)
	// Delivered settles effects, unless their tasks changed since.
	Delivered(ctx context.Context, done ...Pending) error
	// Postponed gives leased effects back, to be tried again at their Due. Tries, AskedAt,
	// Error and Code are kept as they are set.
	Postponed(ctx context.Context, later ...Pending) error
}
