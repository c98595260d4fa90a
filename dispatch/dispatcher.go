package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"otm/pipeline"
)

// Who is the name under which the dispatcher writes.
const Who = "otm-dispatcher"

// Dispatcher makes passes over the board. Its methods are for one goroutine,
// which holds the dispatcher's work lock.
type Dispatcher struct {
	Dir        string // the data directory
	MessageDir string // named in messages; "" where agents find it by themselves
	Board      pipeline.Board
	Records    pipeline.Records
	Agents     pipeline.Agents
	Wakers     map[pipeline.Trigger]Waker
	Times      pipeline.Times
	// NewID takes an id from the counter, durably: for a row that a person
	// typed.
	NewID func(context.Context) (pipeline.TaskID, error)
	// Drops tells what the creates of tasks asked for. It is for records that
	// were lost; nil: nobody knows.
	Drops func() (map[pipeline.TaskID]pipeline.Dropped, error)
	// Unread returns the tasks on which reports stand in the inbox, each with when
	// the oldest was dropped; nil: there is no inbox.
	Unread func() (map[pipeline.TaskID]time.Time, error)
	// Patience is how long a pass waits for the answers to its wakes; the rest
	// come in while later passes are made. Zero: until all are there.
	Patience time.Duration
	// Answered is called when the answer to a wake comes after the pass that sent it:
	// the next pass reports it; nil: nobody cares.
	Answered func()
	Log      *slog.Logger
	Now      func() time.Time
	Progress func() // called while a pass gets on; nil: nobody cares

	fileWait time.Duration // how long to wait for a dispatch file's lock; zero: passWait

	saidAt  map[string]time.Time    // when each problem was last met, so that it is logged once
	waking  map[string]*pendingWake // by agent
	unwoken map[string]string       // agent → why the last wake failed; "": it did not
	wakers  sync.WaitGroup
	holders holders
	owners  owners
	files   *workspaces
	over    map[pipeline.TaskID]bool // tasks of which it is known that their row is gone
	walkAt  time.Time                // the walk of which was told what it lacks
	cleaned map[string]bool          // workspaces in which leftovers of a crash were looked for
}

// Report says what a pass did.
type Report struct {
	Dispatched int
	Woken      int
	Failed     []string  // one reason each: tasks that stay as they are, agents that were not woken
	Given      []string  // what a person has to look at: agents that take nothing, or are silent
	Due        time.Time // when to pass again at the latest; zero: at the usual time
	Trouble    error     // what ended the pass early: the board did
	Full       bool      // the board takes no more rows
}

func (r *Report) due(at time.Time) {
	if !at.IsZero() && (r.Due.IsZero() || at.Before(r.Due)) {
		r.Due = at
	}
}

// maxReasons is how many reasons a heartbeat tells.
const maxReasons = 20

// Summary is the report as a heartbeat tells it.
func (r *Report) Summary() string {
	s := fmt.Sprintf("Dispatched %d tasks, woke %d agents, %d failures", r.Dispatched, r.Woken, len(r.Failed))
	reasons := slices.Concat(r.Failed, r.Given)
	for _, reason := range reasons[:min(len(reasons), maxReasons)] {
		s += "; " + reason
	}
	if more := len(reasons) - maxReasons; more > 0 {
		s += fmt.Sprintf("; and %d more", more)
	}
	if r.Trouble != nil {
		s += "; " + r.Trouble.Error()
	}
	return s
}

// pass is one look over the board.
type pass struct {
	*Dispatcher
	report *Report
	byName map[string][]*task // agent → its tasks on the board that were handed out

	owned  bool     // owners is up to date
	strays []string // rows that do not bear the id of their task
	unfit  []string // what is to be said of rows that are no tasks
	full   error    // the board takes no more rows

	drops    map[pipeline.TaskID]pipeline.Dropped // what Drops said since the rows were looked at; nil: not asked
	away     map[pipeline.TaskID]string           // tasks that the board gives to another than their record does, and whom that names
	resolved map[string]resolved                  // by workspace
	unkept   map[string]bool                      // identities of workspaces whose dispatch file could not be read or written
}

// task is a row of the board with its record, during one pass.
type task struct {
	id      pipeline.TaskID
	rec     *pipeline.Record
	agent   *pipeline.Agent
	by      string // the person who touched its row last; "": nobody but OTM, as far as the board tells
	begun   bool   // its dispatch was begun in this pass
	rebuilt bool   // its record was lost: what stands in the dispatch file is all that is known
}

// Pass looks at every task once. Rows may be at most maxAge old; if negative,
// whatever is known will do. The error is one of our own files.
func (d *Dispatcher) Pass(ctx context.Context, maxAge time.Duration) (*Report, error) {
	if d.saidAt == nil {
		d.saidAt, d.waking, d.cleaned, d.unwoken = map[string]time.Time{}, map[string]*pendingWake{}, map[string]bool{}, map[string]string{}
		d.over = map[pipeline.TaskID]bool{}
		if d.files == nil {
			d.files = &workspaces{dir: d.Dir}
		}
	}
	d.forget()
	p := &pass{Dispatcher: d, report: &Report{}, resolved: map[string]resolved{}, unkept: map[string]bool{}}
	err := p.onBoard(ctx, maxAge)
	if err != nil {
		return p.report, err
	}
	// Files and wakes need no board: where it is in trouble, what was flipped
	// before is still woken for.
	if err := p.tend(ctx); err != nil {
		return p.report, err
	}
	p.reportSilent()
	return p.report, p.wake(ctx)
}

// onBoard does what needs the board: finds what is new, writes its entries,
// and flips it.
func (p *pass) onBoard(ctx context.Context, maxAge time.Duration) (err error) {
	b, err := p.Board.Begin(ctx)
	if err != nil {
		p.report.Trouble = err
		return nil
	}
	defer func() { err = errors.Join(err, b.End()) }()
	if maxAge >= 0 || b.WalkAt().IsZero() {
		p.report.Trouble = b.Refresh(ctx, max(maxAge, 0))
	}
	fresh, stale, err := p.scan(ctx, b)
	if err != nil || p.report.Trouble != nil {
		return err
	}
	if stale {
		if p.report.Trouble = b.Refresh(ctx, 0); p.report.Trouble != nil {
			return nil
		}
		if fresh, _, err = p.scan(ctx, b); err != nil {
			return err
		}
	}
	given, err := p.giveBack(ctx, b)
	if err != nil || p.report.Trouble != nil {
		return err
	}
	adopted, err := p.adopt(ctx, b)
	if err != nil || p.report.Trouble != nil {
		return err
	}
	if given+adopted > 0 {
		if fresh, _, err = p.scan(ctx, b); err != nil {
			return err
		}
	}
	if err := p.seeGone(ctx, b); err != nil {
		return err
	}
	for chunk := range slices.Chunk(fresh, maxChunk) {
		if b.Over() {
			p.report.due(p.Now()) // others want the board too
			return nil
		}
		if err := p.handOut(ctx, b, chunk); err != nil || p.report.Trouble != nil {
			return err
		}
	}
	return nil
}

// maxChunk is how many tasks are handed out before the time is looked at: each
// costs a few writes to disk.
const maxChunk = 50

// problem reports a task that stays as it is, and logs it the first time.
func (p *pass) problem(id pipeline.TaskID, format string, args ...any) {
	reason := fmt.Sprintf("%v: %s", id, fmt.Sprintf(format, args...))
	p.report.Failed = append(p.report.Failed, reason)
	p.say(slog.LevelError, "task not dispatched", reason, reason)
}

// failed reports that the record of a task could not be read or written; the
// others go on. It returns an error where that is because we are to stop.
func (p *pass) failed(ctx context.Context, id pipeline.TaskID, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.problem(id, "its record: %v", err)
	return nil
}

// sayAgain is how long a problem must not have been met to be logged again.
const sayAgain = time.Hour

// say logs something that stays so for a while: the first time at its level,
// then only for those who debug. Two of one kind are the same.
func (p *pass) say(level slog.Level, msg, kind, reason string) {
	if _, said := p.saidAt[kind]; said {
		level = slog.LevelDebug
	}
	p.saidAt[kind] = p.Now()
	p.Log.Log(context.Background(), level, msg, "reason", reason)
}

// forget lets problems be logged again that were not met for a while.
func (d *Dispatcher) forget() {
	now := d.Now()
	maps.DeleteFunc(d.saidAt, func(_ string, at time.Time) bool { return reached(at, sayAgain, now) })
}
