package dispatch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"otm/heartbeat"
	"otm/internal/explain"
	"otm/pipeline"
)

// Who is the dispatcher's name in histories.
const Who = "otm-dispatcher"

// Dispatcher makes passes over the board. It is for one goroutine, which holds the
// dispatcher's work lock.
type Dispatcher struct {
	Dir        string // the data directory
	MessageDir string // the data directory that messages name; "": agents find it themselves
	Board      pipeline.Board
	Records    pipeline.Records
	Agents     pipeline.Agents
	Wakers     map[pipeline.Trigger]Waker
	Times      pipeline.Times
	// NewID takes an id from the counter, durably, for a row that a person typed.
	NewID func(context.Context) (pipeline.TaskID, error)
	// Drops returns what the creates of tasks asked for, to rebuild lost records;
	// nil: not known.
	Drops func() (map[pipeline.TaskID]pipeline.Dropped, error)
	// Unread returns the tasks with reports in the inbox, each with when the oldest
	// was dropped; nil: there is no inbox.
	Unread func() (map[pipeline.TaskID]time.Time, error)
	// Patience is how long a pass waits for the answers to its wakes. Later passes
	// collect the rest. Zero: without limit.
	Patience time.Duration
	// Answered is called when the answer to a wake comes after its pass. The next
	// pass reports it. nil: not called.
	Answered func()
	Log      *slog.Logger
	Now      func() time.Time
	Progress func() // called while a pass makes progress; nil: not called

	fileWait time.Duration // how long to wait for a dispatch file's lock; zero: passWait

	saidAt  map[string]time.Time       // when each problem last occurred, to log it once
	waking  map[string]*pendingWake    // by agent
	unwoken map[string]explain.Finding // by agent: why the last wake failed
	wakers  sync.WaitGroup
	holders holders
	owners  owners
	files   *workspaces
	over    map[pipeline.TaskID]bool // tasks whose row is known to be gone
	walkAt  time.Time                // the last walk for which expectRows ran
	cleaned map[string]bool          // workspaces without leftovers of a crash
}

// What a pass counts, in the order of its report.
const (
	dispatched = iota
	woken
)

func newReport() *heartbeat.Report {
	return &heartbeat.Report{Did: []heartbeat.Did{{Verb: "Dispatched", Noun: "task"}, {Verb: "Woke", Noun: "agent"}}}
}

// task is a row of the board with its record, during one pass.
type task struct {
	id      pipeline.TaskID
	rec     *pipeline.Record
	agent   *pipeline.Agent
	by      string // the person who changed its row last; "": only OTM did, or the board does not say
	begun   bool   // its dispatch began in this pass
	rebuilt bool   // its record was lost: only the dispatch file shows whether it was taken
}

// Pass looks at every task once. Rows may be at most maxAge old; negative: of any
// age. The error is one of our own files.
func (d *Dispatcher) Pass(ctx context.Context, maxAge time.Duration) (*heartbeat.Report, error) {
	if d.saidAt == nil {
		d.saidAt, d.waking, d.cleaned, d.unwoken = map[string]time.Time{}, map[string]*pendingWake{}, map[string]bool{}, map[string]explain.Finding{}
		d.over = map[pipeline.TaskID]bool{}
		if d.files == nil {
			d.files = &workspaces{dir: d.Dir}
		}
	}
	d.fileWait = cmp.Or(d.fileWait, passWait)
	d.forget()
	rn := newRun(d)
	rn.resolveAll()
	if err := rn.onBoard(ctx, maxAge); err != nil {
		return rn.report, err
	}
	// Files and wakes need no board: agents are woken for flipped tasks while it is
	// in trouble.
	kp := keeper{rn}
	if err := kp.tend(ctx); err != nil {
		return rn.report, err
	}
	kp.reportSilent()
	wg := waking{rn}
	return rn.report, wg.wake(ctx)
}

// onBoard does the part of a pass that needs the board: it finds new tasks, writes
// their entries, and flips them.
func (rn *run) onBoard(ctx context.Context, maxAge time.Duration) (err error) {
	b, err := rn.Board.Begin(ctx)
	if err != nil {
		rn.report.Trouble = err
		return nil
	}
	defer func() { err = errors.Join(err, b.End()) }()
	if maxAge >= 0 || b.WalkAt().IsZero() {
		rn.report.Trouble = b.Refresh(ctx, max(maxAge, 0))
	}
	fresh, err := rn.find(ctx, b)
	if err != nil || rn.report.Trouble != nil {
		return err
	}
	ho := handout{rn}
	for chunk := range slices.Chunk(fresh, maxChunk) {
		if b.Over() {
			rn.report.RunBy(rn.Now()) // other components wait for the board
			return nil
		}
		if err := ho.handOut(ctx, b, chunk); err != nil || rn.report.Trouble != nil {
			return err
		}
	}
	return nil
}

// find returns the tasks to dispatch, most urgent first. Before that it adopts rows
// that people typed, and notes rows that they deleted.
func (rn *run) find(ctx context.Context, b pipeline.Batch) (fresh []*task, err error) {
	rd := &reader{run: rn}
	fresh, stale, err := rd.scan(ctx, b)
	if err != nil || rn.report.Trouble != nil {
		return nil, err
	}
	if stale {
		if rn.report.Trouble = b.Refresh(ctx, 0); rn.report.Trouble != nil {
			return nil, nil
		}
		if fresh, _, err = rd.scan(ctx, b); err != nil {
			return nil, err
		}
	}
	ad := &adopter{reader: rd}
	given, err := ad.giveBack(ctx, b)
	if err != nil || rn.report.Trouble != nil {
		return nil, err
	}
	adopted, err := ad.adopt(ctx, b)
	if err != nil || rn.report.Trouble != nil {
		return nil, err
	}
	if given+adopted > 0 {
		if fresh, _, err = rd.scan(ctx, b); err != nil {
			return nil, err
		}
	}
	dp := departures{rd}
	return fresh, dp.seeGone(ctx, b)
}

// maxChunk is how many tasks a pass dispatches before it checks whether its time on
// the board is over. Each costs a few writes to disk.
const maxChunk = 50
