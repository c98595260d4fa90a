package boardtest

import (
	"context"
	"sync"
	"time"

	"otm/pipeline"
)

// Wrapped is a board whose batches are changed.
type Wrapped struct {
	pipeline.Board
	Wrap func(pipeline.Batch) pipeline.Batch
}

// Begin implements pipeline.Board.
func (w *Wrapped) Begin(ctx context.Context) (pipeline.Batch, error) {
	b, err := w.Board.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return w.Wrap(b), nil
}

// Disturbed is a batch with something before and after each call to the board. The calls
// may come from several goroutines; Before, After and IsOver run one at a time. A call that
// has begun comes to its end, also if its context ends: a board that took it a moment later
// would be late by the tests' clocks, which do not wait.
type Disturbed struct {
	pipeline.Batch
	Before, After func() error // an error is the call's; nil: nothing happens
	IsOver        func() bool  // besides what the batch says; nil: never

	one sync.Mutex
}

// Disturb is a board of which all batches are disturbed.
func Disturb(board pipeline.Board, disturb func(*Disturbed)) pipeline.Board {
	return &Wrapped{Board: board, Wrap: func(b pipeline.Batch) pipeline.Batch {
		d := &Disturbed{Batch: b}
		disturb(d)
		return d
	}}
}

// What may come of a call.
var (
	AnswerLost = pipeline.BoardError{Method: "any", MaybeApplied: true, Message: "answer lost"}
	NotTaken   = pipeline.BoardError{Method: "any", Message: "not now"} // it did nothing, as is known
)

// Failing makes an error when now says so. It is for Disturbed.
func Failing(now func() bool, e pipeline.BoardError) func() error {
	return func() error {
		if !now() {
			return nil
		}
		return &e
	}
}

func (d *Disturbed) call(ctx context.Context, do func(context.Context) error) error {
	if err := d.alone(d.Before); err != nil {
		return err
	}
	if err := do(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return d.alone(d.After)
}

func (d *Disturbed) alone(f func() error) error {
	if f == nil {
		return nil
	}
	d.one.Lock()
	defer d.one.Unlock()
	return f()
}

// IsGone implements pipeline.Batch, as do the other methods.
func (d *Disturbed) IsGone(ctx context.Context, row string) (gone bool, err error) {
	err = d.call(ctx, func(ctx context.Context) (err error) {
		gone, err = d.Batch.IsGone(ctx, row)
		return err
	})
	return gone && err == nil, err
}

func (d *Disturbed) Refresh(ctx context.Context, maxAge time.Duration) error {
	return d.call(ctx, func(ctx context.Context) error { return d.Batch.Refresh(ctx, maxAge) })
}

func (d *Disturbed) Create(ctx context.Context, parent string, cells ...pipeline.Cell) (id string, err error) {
	err = d.call(ctx, func(ctx context.Context) (err error) {
		id, err = d.Batch.Create(ctx, parent, cells...)
		return err
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

func (d *Disturbed) Update(ctx context.Context, changes ...pipeline.Change) error {
	return d.call(ctx, func(ctx context.Context) error { return d.Batch.Update(ctx, changes...) })
}

func (d *Disturbed) Delete(ctx context.Context, rows ...string) error {
	return d.call(ctx, func(ctx context.Context) error { return d.Batch.Delete(ctx, rows...) })
}

func (d *Disturbed) Over() bool {
	d.one.Lock()
	defer d.one.Unlock()
	return d.IsOver != nil && d.IsOver() || d.Batch.Over()
}
