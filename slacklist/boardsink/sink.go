package boardsink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/internal/crash"
	"otm/pipeline"
)

// Sink writes tasks to the board. It is for one goroutine.
type Sink struct {
	Store  core.Store
	Agents pipeline.Agents
	Times  pipeline.Times
	By     core.Actor // the program
	Log    *slog.Logger
	Now    func() time.Time

	// Look compares the snapshot of the batch with the store, and carries out what
	// people changed (package differ). It runs once after each walk, before anything is
	// written: no person's edit is overwritten.
	Look func(ctx context.Context, b pipeline.Batch) error
	// Progress is called while a delivery gets on; nil: nobody cares.
	Progress func()

	lookedAt time.Time // the walk after which Look ran last
}

// Result is what came of one effect.
type Result = outbox.Result

// trouble is an error that says how to go on after it.
type trouble struct {
	error
	code   string
	person bool          // somebody has to act
	stop   bool          // every effect would meet it
	again  time.Duration // else: when to try again
}

func (t *trouble) Unwrap() error { return t.error }

// retryBoard is the pause before something is tried again that a walk may clear up.
const retryBoard = 10 * time.Second

var (
	// The rest goes on in the next batch.
	errOver = &trouble{error: fmt.Errorf("the batch has lasted its time: %w", outbox.ErrAgain), code: "batch_over"}
	// The last walk lacks a row of the task. The differ finds out whether somebody
	// deleted it.
	errRowMissing = &trouble{error: errors.New("a row of the task is missing on the board"), code: "row_missing", again: retryBoard}
	// The row shows something that is neither what it showed nor what the task is, and
	// that the differ has not taken over yet.
	errDisputed = &trouble{error: errors.New("somebody else changed the row"), code: "row_disputed", again: retryBoard}
	// The status is one that OTM does not know, or cannot read. It is not overwritten.
	errUnknownStatus = &trouble{error: errors.New("the row shows a status that OTM does not know"), code: "status_unknown", person: true}
	// A create got no answer, and no walk is late enough yet to show whether it made the
	// row.
	errUnsettled = &trouble{error: errors.New("the board did not answer whether it made a row, and a walk cannot tell yet"), code: "unsettled"}
)

// ofStore is an error of the store.
func ofStore(err error) error { return &trouble{error: err, code: "store", stop: true} }

// Deliver writes the tasks of the effects to the board. The effects are leased
// and of the board. It returns what came of each, in their order. What Deliver reports
// as delivered is durable in the store, and so are the rows that it made.
func (s *Sink) Deliver(ctx context.Context, b pipeline.Batch, effects []core.Pending) []Result {
	d := &delivery{Sink: s, ctx: ctx, b: b}
	for _, p := range effects {
		d.works = append(d.works, &work{Pending: p})
	}
	d.run()
	return pipeline.Map(d.works, func(w *work) Result { return w.result })
}

// work is one effect on its way.
type work struct {
	core.Pending
	task   *core.Task // nil: there is no such task
	result Result
	over   bool // the result stands

	changes []pipeline.Change // what updateRows writes
	written core.Written      // what the rows show then
}

// delivery is one call of Deliver.
type delivery struct {
	*Sink
	ctx   context.Context
	b     pipeline.Batch
	works []*work

	walked   bool  // the board was walked in this delivery
	walkErr  error // why it could not be
	receipts []core.Command
	noted    []*work // those of the receipts
	wrote    bool    // something was written
}

// mustEnd reports whether the batch has lasted its time. Each delivery writes something
// all the same, or a slow walk would keep all of them from writing.
func (d *delivery) mustEnd() bool { return d.wrote && d.b.Over() }

func (d *delivery) run() {
	if err := (&finder{d}).prepare(); err != nil {
		d.stopAll(err)
		return
	}
	u, m := &updater{d}, &maker{delivery: d}
	for _, phase := range []func() error{u.deleteRows, u.deleteSteps, u.updateRows, m.makeRows} {
		if err := phase(); err != nil {
			d.stopAll(err)
			break
		}
	}
	for _, w := range d.open(every) { // a task that changed meanwhile is delivered again
		if slices.ContainsFunc(w.task.Steps, func(s core.Step) bool { return s.IsStale() && s.RowID != "" && d.b.Row(s.RowID) == nil }) {
			d.fail(w, errRowMissing)
		}
	}
}

func every(*core.Task) bool { return true }

// load reads the tasks of the effects from the store.
func (d *delivery) load() error {
	ids := pipeline.Map(d.works, func(w *work) pipeline.TaskID { return w.Task })
	if len(ids) == 0 {
		return nil
	}
	tasks, err := d.Store.Tasks(d.ctx, core.Filter{IDs: ids})
	if err != nil {
		return ofStore(err)
	}
	byID := core.ByID(tasks)
	for _, w := range d.works {
		w.task = byID[w.Task]
		if w.task == nil || !w.task.Unshown() {
			w.over = true
		}
	}
	return nil
}

// open returns the effects that have no result yet and for which choose is true.
func (d *delivery) open(choose func(t *core.Task) bool) []*work {
	return pipeline.Filter(d.works, func(w *work) bool { return !w.over && choose(w.task) })
}

// fail ends an effect with an error.
func (d *delivery) fail(w *work, err error) {
	asked := w.result.Asked
	w.result = d.resultOf(err)
	w.over = true
	if w.result.Asked.IsZero() {
		w.result.Asked = asked
	}
}

// stopAll ends all effects that are still open. Those with an open question of an
// earlier delivery keep it.
func (d *delivery) stopAll(err error) {
	for _, w := range d.works {
		if !w.over {
			d.fail(w, err)
			w.result.Asked = w.AskedAt
		}
	}
}

// resultOf classifies an error.
func (d *delivery) resultOf(err error) Result {
	r := Result{Err: err}
	var t *trouble
	var missing *pipeline.MissingError
	var board *pipeline.BoardError
	switch {
	case errors.As(err, &t):
		r.Code, r.Person, r.Stop = t.code, t.person, t.stop
		if !t.person && !t.stop {
			r.Due = d.Now().Add(t.again)
		}
	case errors.As(err, &missing):
		r.Code, r.Person = "option_missing", true
	case errors.As(err, &board):
		d.ofBoard(&r, board)
	default:
		r.Stop = true // ctx is done, or our disk is full
	}
	return r
}

// ofBoard classifies an error of the board.
func (d *delivery) ofBoard(r *Result, e *pipeline.BoardError) {
	r.Code, r.Due = e.Code, e.Until
	if e.MaybeApplied {
		r.Asked = d.Now()
	}
	switch {
	case e.Full:
		r.Code, r.Person = "list_full", true
	case e.RowGone:
		r.Code, r.Due = errRowMissing.code, d.Now().Add(retryBoard)
	case e.Class == pipeline.Refused:
		r.Person = true
	default:
		r.Stop = e.Code != "ratelimited"
	}
}

func (d *delivery) getsOn() {
	if d.Progress != nil {
		d.Progress()
	}
}

// note adds a receipt. It reaches the store with the next flush.
func (d *delivery) note(w *work, written core.Written) {
	d.wrote = true
	d.receipts = append(d.receipts, core.Command{At: d.Now(), By: d.By, Task: w.Task, Do: written})
	d.noted = append(d.noted, w)
}

// flush sends the receipts to the store, also while ctx ends: a row whose receipt is lost
// must be looked for. If the store fails, the rows are looked for in the next delivery.
func (d *delivery) flush() error {
	receipts, noted := d.receipts, d.noted
	d.receipts, d.noted = nil, nil
	if len(receipts) == 0 {
		return nil
	}
	outcomes, err := d.Store.Do(context.WithoutCancel(d.ctx), receipts...)
	if err != nil {
		err = ofStore(err)
		for _, w := range noted {
			d.fail(w, err)
			w.result.Asked = d.Now()
		}
		return err
	}
	crash.Point("board.noted")
	for i, w := range noted {
		if w.task = outcomes[i].Task; w.task == nil || !w.task.Unshown() && w.result.Err == nil {
			w.over = true
		}
	}
	return nil
}
