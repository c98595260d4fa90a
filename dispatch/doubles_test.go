package dispatch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/heartbeat"
	"otm/pipeline"
)

// board plays the board and what reads and writes it.
type board struct {
	store  core.Store
	now    func() time.Time
	writes atomic.Int32 // of tasks

	mu   sync.Mutex
	down error                       // what a look, and each write, comes to; nil: all is well
	fail func(pipeline.TaskID) error // if set, what a write comes to
	seen func()                      // if set, called at each look
}

// look is Dispatcher.Look.
func (b *board) look(_ context.Context, _ time.Duration, r *heartbeat.Report) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen != nil {
		b.seen()
	}
	r.Trouble = b.down
	return nil
}

// refuse says what the writes come to from now on; nil: all is well.
func (b *board) refuse(fail func(pipeline.TaskID) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = fail
}

// goDown says what looks and writes come to from now on.
func (b *board) goDown(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = err
}

// Deliver implements outbox.Deliverer.
func (b *board) Deliver(ctx context.Context, effects []core.Pending) []outbox.Result {
	results := make([]outbox.Result, len(effects))
	for i, e := range effects {
		t, err := b.store.Task(ctx, e.Task)
		if err == nil {
			b.mu.Lock()
			down, fail := b.down, b.fail
			b.mu.Unlock()
			if err = down; err == nil && fail != nil {
				err = fail(e.Task)
			}
		}
		if err == nil {
			err = b.write(ctx, t)
		}
		results[i].Err = err
	}
	return results
}

// write makes the board show a task.
func (b *board) write(ctx context.Context, t *core.Task) error {
	b.writes.Add(1)
	w := core.Written{Shown: t.View()}
	if t.RowID == "" {
		w.Row = fmt.Sprint("Rec", t.ID)
	}
	for _, s := range t.Steps {
		if s.IsStale() {
			w.Steps = append(w.Steps, core.WrittenStep{Step: s.ID, Row: fmt.Sprintf("Rec%v.%d", t.ID, s.ID), Shown: core.StepShown{Title: s.Title, Done: s.Done}})
		}
	}
	_, err := b.store.Do(ctx, core.Command{At: b.now(), By: core.Component("otm"), Task: t.ID, Do: w})
	return err
}

// rowRefused is how a board refuses a row.
var rowRefused = &pipeline.BoardError{Method: "update", Code: "row_not_found", Class: pipeline.Refused, RowGone: true}

// boardGone is how a board is not reached.
var boardGone = &pipeline.BoardError{Method: "update", Code: "503"}

// newRunner delivers entries, and what the board is to show.
func newRunner(s engine, entries *Entries, b *board, now func() time.Time) *outbox.Runner {
	return &outbox.Runner{Outbox: s, Now: now, Sinks: map[core.Sink]outbox.Deliverer{
		core.SinkRender: nothing{}, core.SinkEntry: entries, core.SinkBoard: b,
	}}
}

// nothing is a sink that shows nothing.
type nothing struct{}

func (nothing) Deliver(_ context.Context, effects []core.Pending) []outbox.Result {
	return make([]outbox.Result, len(effects))
}
