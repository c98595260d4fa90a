package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/pipeline"
	"otm/slacklist/boardsink"
	"otm/slacklist/differ"
)

// Engine is the store with the board and the sinks. Its methods may be called from any
// goroutine; those that use the board wait for each other.
type Engine struct {
	core.Store
	Outbox core.Outbox
	Board  pipeline.Board
	Agents pipeline.Agents
	Times  pipeline.Times
	By     core.Actor // the program
	Log    *slog.Logger
	Now    func() time.Time

	// Raise makes sure that no id on the board, and none of the given ones, is given out.
	Counter Counter
	// Drops returns the creates of tasks, as far as their files are there.
	Drops func() (map[pipeline.TaskID]pipeline.Dropped, error)
	// Consistent says that the board's walks show all writes before them.
	Consistent bool
	// Adopts makes this program give ids to rows that people typed.
	Adopts bool
	// Render and Entries are the sinks besides the board; nil: others deliver to them.
	Render, Entries outbox.Deliverer
	Progress        func() // called while the board is being written; nil: not called
	// Wait is how long a delivery waits for another process, see outbox.Runner.
	Wait time.Duration

	mu     sync.Mutex // guards the board: one batch at a time
	sink   *boardsink.Sink
	looked *looked // the last look that need not be repeated; nil: there is none
}

// looked is a look of the differ: at which walk, after which event of the store, and what
// it found. The store has what our own writes changed on the board since that walk.
type looked struct {
	walk  time.Time
	event int64
	found differ.Found
}

// Counter is the counter of task ids.
type Counter interface {
	// Take gives an id out, durably.
	TakeOne(ctx context.Context) (pipeline.TaskID, error)
	// Raise makes sure that ids are never given out.
	Raise(ctx context.Context, ids ...pipeline.TaskID) error
	// RaiseAbove makes sure that no id on the board is given out.
	RaiseAbove(ctx context.Context, b pipeline.Batch) error
}

// SetAgents says who is known from now on. What was seen on the board is judged anew if
// that changed.
func (e *Engine) SetAgents(agents pipeline.Agents) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.EqualFunc(e.Agents, agents, func(a, b pipeline.Agent) bool { return reflect.DeepEqual(a, b) }) {
		return
	}
	e.Agents, e.looked, e.sink = agents, nil, nil
}

// Look brings the store up to what stands on the board, as of at most maxAge ago; 0:
// now; negative: as of the last complete walk. The error is a *pipeline.BoardError, one
// of the board's lock, or one of the store.
func (e *Engine) Look(ctx context.Context, maxAge time.Duration) (found differ.Found, err error) {
	err = e.withBoard(ctx, func(b pipeline.Batch) error {
		found, err = e.look(ctx, b, maxAge)
		return err
	})
	return found, cmp.Or(err, found.Trouble)
}

// Refresh is Look, for who needs no findings. It reads the tasks only if the board was
// walked since the last look of this process.
func (e *Engine) Refresh(ctx context.Context, maxAge time.Duration) error {
	return e.withBoard(ctx, func(b pipeline.Batch) error {
		if err := b.Refresh(ctx, maxAge); err != nil {
			return err
		}
		if e.looked != nil && b.WalkAt().Equal(e.looked.walk) {
			return nil
		}
		found, err := e.look(ctx, b, -1)
		return cmp.Or(err, found.Trouble)
	})
}

// Raise implements inject.Engine.
func (e *Engine) Raise(ctx context.Context, ids ...pipeline.TaskID) error {
	return e.Counter.Raise(ctx, ids...)
}

// withBoard holds the board while f works on it.
func (e *Engine) withBoard(ctx context.Context, f func(pipeline.Batch) error) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, err := e.Board.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.End()) }()
	return f(b)
}

func (e *Engine) look(ctx context.Context, b pipeline.Batch, maxAge time.Duration) (differ.Found, error) {
	if maxAge >= 0 || b.WalkAt().IsZero() {
		if err := b.Refresh(ctx, max(maxAge, 0)); err != nil {
			return differ.Found{}, err
		}
	}
	last, err := e.LastEvent(ctx) // before the tasks are read: what comes later is looked at again
	if err != nil {
		return differ.Found{}, err
	}
	if l := e.looked; l != nil && b.WalkAt().Equal(l.walk) && l.event == last {
		return l.found, nil
	}
	raised := e.Counter.RaiseAbove(ctx, b)
	if ctx.Err() != nil {
		return differ.Found{}, context.Cause(ctx)
	}
	if raised != nil { // the next look tries again
		e.Log.Warn("counter not raised above the ids on the board", "err", raised)
	}
	d := &differ.Differ{Store: e.Store, Agents: e.Agents, Times: e.Times, By: e.By, Log: e.Log, Now: e.Now, Drops: e.Drops, Consistent: e.Consistent}
	if e.Adopts && raised == nil { // else an id might stand on the board already
		d.NewID = e.Counter.TakeOne
	}
	e.looked = nil
	found, err := d.Run(ctx, b)
	if err == nil && found.Trouble == nil && raised == nil && found.Again.IsZero() && !b.WalkAt().IsZero() {
		e.looked = &looked{walk: b.WalkAt(), event: last, found: differ.Found{Findings: found.Findings}}
	}
	return found, err
}

// Deliver delivers the effects of tasks, or all that are due if none is given. It
// returns the tasks with effects that are undelivered, each with why. The error is one
// of the store.
func (e *Engine) Deliver(ctx context.Context, tasks ...pipeline.TaskID) (map[pipeline.TaskID]error, error) {
	sinks := map[core.Sink]outbox.Deliverer{core.SinkRender: e.Render, core.SinkEntry: e.Entries}
	if e.Board != nil {
		sinks[core.SinkBoard] = boardDeliverer{e}
	}
	maps.DeleteFunc(sinks, func(_ core.Sink, d outbox.Deliverer) bool { return d == nil })
	r := &outbox.Runner{Outbox: e.Outbox, Now: e.Now, Wait: e.Wait, Sinks: sinks}
	return r.Run(ctx, tasks...)
}

// boardDeliverer writes the board. The sink walks where the snapshot is too old for what
// it writes, and has the differ look after each walk: no edit of a person is overwritten.
type boardDeliverer struct{ *Engine }

// Deliver implements outbox.Deliverer.
func (d boardDeliverer) Deliver(ctx context.Context, effects []core.Pending) (results []outbox.Result) {
	err := d.withBoard(ctx, func(b pipeline.Batch) error {
		if d.sink == nil {
			d.sink = &boardsink.Sink{
				Store: d.Store, Agents: d.Agents, Times: d.Times, By: d.By, Log: d.Log, Now: d.Now, Progress: d.Progress,
				Look: func(ctx context.Context, b pipeline.Batch) error {
					_, err := d.look(ctx, b, -1)
					return err
				},
			}
		}
		results = d.sink.Deliver(ctx, b, effects)
		return nil
	})
	if err != nil && results == nil {
		stopped := outbox.Result{Err: err, Due: dueOf(err), Stop: true} // it concerns the board, not the task
		results = slices.Repeat([]outbox.Result{stopped}, len(effects))
	}
	return results
}

// dueOf is when the board may be asked again; zero: it does not say.
func dueOf(err error) time.Time {
	if e, ok := errors.AsType[*pipeline.BoardError](err); ok {
		return e.Until
	}
	return time.Time{}
}

// Strays implements inject.Engine.
func (e *Engine) Strays(ctx context.Context, ids ...pipeline.TaskID) (strays map[pipeline.TaskID][]core.RowFound, err error) {
	strays = map[pipeline.TaskID][]core.RowFound{}
	err = e.withBoard(ctx, func(b pipeline.Batch) error {
		var rows []string
		for r := range b.Rows() {
			if r.Parent == "" && r.Task() != 0 && slices.Contains(ids, r.Task()) {
				rows = append(rows, r.ID)
			}
		}
		if len(rows) == 0 {
			return nil // no rows would mean all tasks
		}
		owners, err := e.Tasks(ctx, core.Filter{Rows: rows})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if !slices.ContainsFunc(owners, func(t *core.Task) bool { return t.RowID == row }) {
				id := b.Row(row).Task()
				strays[id] = append(strays[id], differ.FoundRow(b, b.Row(row), e.Agents, nil))
			}
		}
		return nil
	})
	return strays, err
}
