package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"otm/core"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/pipeline"
)

// Who is the dispatcher's name in histories.
const Who = "otm-dispatcher"

// Dispatcher hands tasks to their agents, pass by pass. It is for one goroutine, which
// holds the dispatcher's work lock.
type Dispatcher struct {
	Dir        string // the data directory
	MessageDir string // the data directory that messages name; "": agents find it themselves
	Store      core.Store
	Outbox     core.Outbox
	Entries    *Entries // the sink that the outbox delivers entries to
	Agents     pipeline.Agents
	Wakers     map[pipeline.Trigger]Waker
	Times      pipeline.Times
	Types      pipeline.Types
	Reviewers  []string // the agents that may review
	// Look brings what people did on the board into the store. What it sees of the
	// board may be at most maxAge old; negative: of any age. It adds what is to be told
	// to the report. The error is one of our own files.
	Look func(ctx context.Context, maxAge time.Duration, r *heartbeat.Report) error
	// Deliver delivers the effects of tasks, or all that are due if none is given. It
	// returns the tasks that have undelivered effects, each with why. It is
	// outbox.Runner.Run.
	Deliver func(ctx context.Context, tasks ...pipeline.TaskID) (map[pipeline.TaskID]error, error)
	// Link returns the connection to the gateway, if one is kept; nil: none is.
	Link func() *Link
	// Carry carries the reports of an agent that wait in the inbox into the store, and
	// reports whether that changed a task.
	Carry func(ctx context.Context, a *pipeline.Agent) (changed bool, err error)
	// Patience is how long a pass waits for the answers to its wakes. Later passes
	// collect the rest. Zero: without limit.
	Patience time.Duration
	// Answered is called when the answer to a wake comes after its pass. The next
	// pass reports it.
	Answered func()
	// Advise asks for advice on a retry; nil: nobody is asked.
	Advise func(ctx context.Context, q Question) (core.Advice, error)
	// Starts are what started since the last pass. The next one notes and forgets them.
	Starts   []Start
	Log      *slog.Logger
	Now      func() time.Time
	Progress func() // called while a pass makes progress

	loggedAt map[string]time.Time       // when each problem last occurred, to log it once
	waking   map[string]*pendingWake    // by agent
	unwoken  map[string]explain.Finding // by agent: why the last wake failed
	asked    map[string]question        // by agent: the last question for the end of its run at the gateway
	wakers   sync.WaitGroup             // wakes and questions that are under way
	advising map[pipeline.TaskID]bool   // on whose retry advice is asked, guarded by adviseMu
	adviseMu sync.Mutex
	cleaned  map[string]bool // workspaces without leftovers of a crash
}

// What a pass counts, in the order of its report.
const (
	dispatched = iota
	woken
)

func newReport() *heartbeat.Report {
	return &heartbeat.Report{Did: []heartbeat.Did{{Verb: "Dispatched", Noun: "task"}, {Verb: "Woke", Noun: "agent"}}}
}

// Pass looks at every task once. Rows may be at most maxAge old; negative: of any
// age. The error is one of the store or of our own files.
func (d *Dispatcher) Pass(ctx context.Context, maxAge time.Duration) (*heartbeat.Report, error) {
	if d.loggedAt == nil {
		d.loggedAt, d.waking, d.unwoken = map[string]time.Time{}, map[string]*pendingWake{}, map[string]explain.Finding{}
		d.asked, d.cleaned = map[string]question{}, map[string]bool{}
	}
	rn := newRun(d)
	defer rn.logReport()
	rn.resolveAll()
	if err := rn.Look(ctx, maxAge, rn.report); err != nil {
		return rn.report, err
	}
	if ctx.Err() != nil {
		return rn.report, context.Cause(ctx)
	}
	if err := rn.noteStarts(ctx); err != nil {
		return rn.report, err
	}
	ho := handout{rn}
	if err := ho.handOut(ctx); err != nil {
		return rn.report, err
	}
	rn.adviseRetries(ctx)
	// Files and wakes need no board: agents are woken while it is in trouble for the
	// tasks that it already shows as assigned.
	kp := keeper{rn}
	if err := kp.tend(ctx); err != nil {
		return rn.report, err
	}
	if err := kp.reclaim(ctx); err != nil {
		return rn.report, err
	}
	kp.reportSilent()
	if err := kp.escalateSilent(ctx); err != nil {
		return rn.report, err
	}
	wg := waking{run: rn}
	return rn.report, wg.wake(ctx)
}

// by is the actor of the dispatcher's own commands.
func by() core.Actor { return core.Component(Who) }
