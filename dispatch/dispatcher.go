package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	// Held reports whether no agent can work now. It must be set.
	Held func() bool
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

// run is what the parts of one pass share.
//
//	handout  hands out tasks, and has entries and board written
//	keeper   dispatch files
//	waking   plans and sends wakes
type run struct {
	*Dispatcher
	report *heartbeat.Report
	tasks  []*core.Task            // live, as they were last loaded, in the order of their ids
	byName map[string][]*core.Task // by agent, or pipeline.SharedQueue: those on the board
	left   map[string][]*core.Task // by agent: those that it lost, and are another's, the shared queue's or away; some twice
	former map[string][]*core.Task // by the name of an agent that is no longer configured: those for which OTM started its command

	undelivered map[pipeline.TaskID]error // why effects of tasks are undelivered
	unkept      map[string]bool           // identities of workspaces whose dispatch file could not be read or written

	files *workspaces // knows the identities of all workspaces, as they were when the pass first asked
}

func newRun(d *Dispatcher) *run {
	return &run{
		Dispatcher: d, report: newReport(), undelivered: map[pipeline.TaskID]error{}, unkept: map[string]bool{},
		files: d.Entries.files(),
	}
}

// load reads the live tasks.
func (rn *run) load(ctx context.Context) error {
	tasks, err := rn.Store.Tasks(ctx, core.Filter{Live: true})
	if err != nil {
		return err
	}
	rn.tasks, rn.byName, rn.left, rn.former = tasks, map[string][]*core.Task{}, map[string][]*core.Task{}, map[string][]*core.Task{}
	for _, t := range tasks {
		a := rn.Agents.Named(t.Agent)
		if pipeline.IsSharedQueue(t.Agent) {
			a = sharedQueue
		}
		onBoard := a != nil && t.RowID != "" && !t.Away()
		if onBoard {
			rn.byName[a.Name] = append(rn.byName[a.Name], t)
		}
		lost := pipeline.Map(t.Losses, func(l core.Loss) string { return l.Agent })
		if run := t.Runs.Last(); run != nil && (a == nil || core.TakenFrom(t, run) || !core.SameAgent(run.Agent, t.Agent)) {
			lost = append(lost, run.Agent)
		}
		for _, name := range lost {
			former := rn.Agents.Named(name)
			started := func(w core.Wake) bool { return w.Via == pipeline.TriggerExec && core.SameAgent(w.Agent, name) }
			switch {
			case former != nil && !(onBoard && former == a):
				rn.left[former.Name] = append(rn.left[former.Name], t)
			case former == nil && slices.ContainsFunc(t.Wakes, started):
				rn.former[name] = append(rn.former[name], t)
			}
		}
	}
	return nil
}

// looks returns outlooks at this time.
func (rn *run) looks() *Outlooks {
	o := &Outlooks{Dir: rn.Dir, Agents: rn.Agents, Store: rn.Store, Now: rn.Now(), Times: rn.Times, Types: rn.Types, files: rn.files}
	if rn.Link != nil {
		o.Link = rn.Link()
	}
	return o
}

// logAgain is how long a problem must be absent before it is logged again.
const logAgain = time.Hour

// logReport logs what the report finds: the first time at its level, repetitions at debug
// level.
func (rn *run) logReport() {
	now := rn.Now()
	maps.DeleteFunc(rn.loggedAt, func(_ string, at time.Time) bool { return reached(at, logAgain, now) })
	for i, f := range slices.Concat(rn.report.Failed, rn.report.NeedsPerson) {
		level, msg := slog.LevelError, "failed"
		if i >= len(rn.report.Failed) {
			level, msg = slog.LevelWarn, "needs a person"
		}
		kind := fmt.Sprint(f.Code, f.Task, f.Args)
		if f.Code == explain.WakeFailed || f.Code == explain.WakeUnknown {
			kind = fmt.Sprint(f.Code, f.Args["agent"]) // each try may fail with another error
		}
		if _, logged := rn.loggedAt[kind]; logged {
			level = slog.LevelDebug
		}
		rn.loggedAt[kind] = now
		rn.Log.Log(context.Background(), level, msg, "reason", explain.Line(&f, time.Time{})) // a log is read later
	}
}

// dispatched reports that a task was dispatched.
func (rn *run) dispatched(t *core.Task) {
	rn.report.Did[dispatched].N++
	rn.Log.Info("dispatched task", "task", t.ID, "agent", t.Dispatch.Agent, "priority", t.Priority, "attempt", t.Dispatch.Attempt)
}

// unready returns why OTM cannot dispatch to an agent; nil: it can.
func (rn *run) unready(a *pipeline.Agent) *explain.Finding {
	if a.Person {
		return nil
	}
	_, err := rn.files.identity(a.Workspace)
	return workspaceProblem(a, err)
}

// resolveAll resolves the workspaces of all agents at once, before the pass holds the
// board's lock: each silent workspace costs its deadline.
func (rn *run) resolveAll() {
	var all sync.WaitGroup
	for _, a := range rn.Agents {
		if a.Workspace != "" {
			all.Go(func() { rn.files.identity(a.Workspace) })
		}
	}
	all.Wait()
}
