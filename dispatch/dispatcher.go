package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"otm/pipeline"
)

// Who is the name under which the dispatcher writes.
const Who = "otm-dispatcher"

// statusAge is how old a status may be on which a flip is decided.
const statusAge = 5 * time.Second

// Dispatcher makes passes over the board. Its methods are for one goroutine,
// which holds the dispatcher's work lock.
type Dispatcher struct {
	Dir        string // the data directory
	MessageDir string // named in messages; "" where agents find it by themselves
	Board      pipeline.Board
	Records    pipeline.Records
	Agents     pipeline.Agents
	Wakers     map[pipeline.Trigger]Waker
	Times      Times
	// Patience is how long a pass waits for the answers to its wakes; the rest
	// come in while later passes are made. Zero: until all are there.
	Patience time.Duration
	Log      *slog.Logger
	Now      func() time.Time

	// saidOnce are the problems that were logged, so that a pass every two
	// minutes does not repeat them.
	saidOnce map[string]bool

	waking map[string]chan wakeResult // agent → a wake that is under way
	wakers sync.WaitGroup
}

// Report says what a pass did.
type Report struct {
	Dispatched int
	Woken      int
	Failed     []string  // one reason each; the tasks stay new
	Given      []string  // agents that were woken in vain
	Due        time.Time // when to pass again at the latest; zero: at the usual time
	Trouble    error     // what ended the pass early: the board did
}

func (r *Report) due(at time.Time) {
	if !at.IsZero() && (r.Due.IsZero() || at.Before(r.Due)) {
		r.Due = at
	}
}

// Summary is the report as a heartbeat tells it.
func (r *Report) Summary() string {
	s := fmt.Sprintf("Dispatched %d tasks, woke %d agents, %d failures", r.Dispatched, r.Woken, len(r.Failed))
	for _, reason := range append(r.Failed, r.Given...) {
		s += "; " + reason
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
	byName map[string][]*task // agent → its tasks on the board
}

// task is a row of the board with its record, during one pass.
type task struct {
	id       pipeline.TaskID
	rec      *pipeline.Record
	row      pipeline.Row // a copy
	agent    *pipeline.Agent
	byPerson bool
}

// Pass looks at every task once. Rows may be at most maxAge old; if negative,
// whatever is known will do. The error is one of our own files.
func (d *Dispatcher) Pass(ctx context.Context, maxAge time.Duration) (*Report, error) {
	if d.saidOnce == nil {
		d.saidOnce, d.waking = map[string]bool{}, map[string]chan wakeResult{}
	}
	p := &pass{Dispatcher: d, report: &Report{}, byName: map[string][]*task{}}
	err := p.onBoard(ctx, maxAge)
	if err != nil {
		return p.report, err
	}
	// Files and wakes need no board: where it is in trouble, what was flipped
	// before is still woken for.
	if err := p.tend(ctx); err != nil {
		return p.report, err
	}
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
	if err := p.enter(ctx, fresh); err != nil {
		return err
	}
	return p.flip(ctx, b, fresh)
}

// problem reports a task that stays new, and logs it the first time.
func (p *pass) problem(id pipeline.TaskID, format string, args ...any) {
	reason := fmt.Sprintf("%v: %s", id, fmt.Sprintf(format, args...))
	p.report.Failed = append(p.report.Failed, reason)
	p.say(slog.LevelError, "task not dispatched", reason)
}

// say logs something that stays so for a while: once at its level, then only
// for those who debug.
func (p *pass) say(level slog.Level, msg, reason string) {
	if p.saidOnce[reason] {
		level = slog.LevelDebug
	}
	p.saidOnce[reason] = true
	p.Log.Log(context.Background(), level, msg, "reason", reason)
}
