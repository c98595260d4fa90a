package sqlite

import (
	"context"
	"errors"
	"slices"
	"sync"

	"otm/internal/crash"
)

// maxBatch is how many writes share a transaction, so that none waits long for
// the others.
const maxBatch = 128

// errPanicked undoes a transaction whose function panicked. Nobody gets it: Write
// panics with the same value.
var errPanicked = errors.New("the function panicked")

// A write is one call of Write.
type write struct {
	ctx      context.Context // ends with the caller's, or after the busy timeout
	fn       func(*Tx) error
	unsynced bool          // a power failure may undo it
	done     chan struct{} // closed when the write has its outcome

	err      error
	own      bool // err is that of fn
	panicked any  // what fn panicked with, or nil
}

// Write runs fn in a transaction and returns when its changes are durable, or when
// it failed without any. It waits for other writers until ctx ends, and no longer
// than the busy timeout. Once fn has begun, the end of ctx changes nothing.
//
// Writes that wait share a transaction. fn sees the changes of those before it; its
// own error undoes its own changes only. If the shared transaction fails, each of
// its functions runs again alone, so fn must set what it hands out, and not add to
// it. It must not call Write.
//
// The error is that of fn, or matches ErrBusy, ErrFull or ErrCorrupt where they
// apply. After an I/O error while the commit is synced, the changes are gone, but a
// crash right then may bring them back.
func (d *DB) Write(ctx context.Context, fn func(*Tx) error) error { return d.write(ctx, fn, false) }

// WriteUnsynced is Write without a sync: a power failure may undo the changes, until the
// next Write of any process has returned. The end of the process does not undo them.
func (d *DB) WriteUnsynced(ctx context.Context, fn func(*Tx) error) error {
	return d.write(ctx, fn, true)
}

func (d *DB) write(ctx context.Context, fn func(*Tx) error, unsynced bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.busy, ErrBusy)
	defer cancel()
	w := &write{ctx: ctx, fn: fn, unsynced: unsynced, done: make(chan struct{})}
	d.queue.add(w)
	select {
	case <-w.done:
	case d.turn <- struct{}{}:
		d.lead(w)
		<-d.turn
	case <-ctx.Done():
		if !d.queue.remove(w) {
			<-w.done // it has begun
		} else {
			w.err = context.Cause(ctx)
		}
	}
	if w.panicked != nil {
		panic(w.panicked)
	}
	if w.own {
		return d.failedOwn("write database", w.err)
	}
	return d.failed("write database", w.err)
}

// lead commits batches of the writes that wait until w is done. It holds the turn.
func (d *DB) lead(w *write) {
	for d.queue.holds(w) {
		unsynced := d.queue.unsynced()
		err := ErrClosed
		if d.writer != nil {
			err = d.begin(w.ctx, unsynced)
		}
		if err != nil {
			d.queue.remove(w)
			w.err = err
			return
		}
		// Those that came while we waited for the lock share the transaction.
		batch := d.queue.take(maxBatch, unsynced)
		if err := d.commit(batch); err != nil {
			d.commitAlone(batch, err)
		}
		for _, w := range batch {
			close(w.done)
		}
	}
}

func (d *DB) begin(ctx context.Context, unsynced bool) error {
	if err := crash.Failed("begin", d.path); err != nil {
		return err
	}
	if err := d.there(); err != nil {
		return err
	}
	if err := d.writer.sync(ctx, !unsynced); err != nil {
		return causeOf(ctx, err)
	}
	for {
		err := d.writer.exec(ctx, "BEGIN IMMEDIATE")
		if err == nil {
			return nil
		}
		if kindOf(err) != ErrBusy || ctx.Err() != nil {
			return causeOf(ctx, err)
		}
	}
}

// commit runs the batch in the transaction that has begun. If it returns an error,
// the transaction was undone as a whole.
func (d *DB) commit(batch []*write) error {
	ctx := context.Background() // what others wait for must not end with one caller
	run := d.runNested
	if len(batch) == 1 {
		run = d.runOnly
	}
	for _, w := range batch {
		if err := run(ctx, w); err != nil {
			d.writer.exec(ctx, "ROLLBACK")
			return err
		}
	}
	err := crash.Failed("commit", d.path)
	if err == nil {
		// If we crash here, nothing has happened.
		crash.Point("sqlite.commit")
		err = d.writer.exec(ctx, "COMMIT")
	}
	if err != nil {
		d.writer.exec(ctx, "ROLLBACK") // fails if SQLite has done so itself
		return err
	}
	// If we crash here, the changes are durable and no caller has an answer.
	crash.Point("sqlite.committed")
	return nil
}

// commitAlone gives each write of a failed batch a transaction of its own: one
// write that does not fit on the disk must not fail the others.
func (d *DB) commitAlone(batch []*write, err error) {
	if len(batch) == 1 {
		batch[0].settle(err)
		return
	}
	for _, w := range batch {
		w.err, w.own, w.panicked = nil, false, nil
		err := d.begin(w.ctx, w.unsynced)
		if err == nil {
			err = d.commit([]*write{w})
		}
		w.settle(err)
	}
}

// settle sets the error of a write that has failed together with its transaction.
// An error of its function says more and stays.
func (w *write) settle(err error) {
	if w.err == nil && w.panicked == nil {
		w.err = err
	}
}

// runOnly runs the only write of a transaction. An error undoes the transaction.
func (d *DB) runOnly(ctx context.Context, w *write) error {
	if w.call(&Tx{ctx, d.writer}); w.panicked != nil {
		return errPanicked
	}
	return w.err
}

// runNested runs one write of several, within a savepoint. An error of the write
// stays in it; the error returned is that of the transaction.
func (d *DB) runNested(ctx context.Context, w *write) error {
	if err := d.writer.exec(ctx, "SAVEPOINT one"); err != nil {
		return err
	}
	w.call(&Tx{ctx, d.writer})
	if w.err != nil || w.panicked != nil {
		if err := d.writer.exec(ctx, "ROLLBACK TO one"); err != nil {
			return err
		}
	}
	return d.writer.exec(ctx, "RELEASE one")
}

func (w *write) call(tx *Tx) {
	defer func() { w.panicked = recover() }()
	w.err = w.fn(tx)
	w.own = w.err != nil
}

// A queue holds the writes that wait, in order.
type queue struct {
	mu     sync.Mutex // guards writes
	writes []*write
}

func (q *queue) add(w *write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writes = append(q.writes, w)
}

// holds reports whether the write waits, and has not begun.
func (q *queue) holds(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Contains(q.writes, w)
}

// remove takes the write out. It returns false if the write has begun.
func (q *queue) remove(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.writes, w)
	if i < 0 {
		return false
	}
	q.writes = slices.Delete(q.writes, i, i+1)
	return true
}

// unsynced reports whether none of the writes that wait needs a sync.
func (q *queue) unsynced() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !slices.ContainsFunc(q.writes, func(w *write) bool { return !w.unsynced })
}

// take takes up to n writes out; only those that need no sync, if unsynced is set.
func (q *queue) take(n int, unsynced bool) []*write {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch, rest []*write
	for _, w := range q.writes {
		if len(batch) < n && (w.unsynced || !unsynced) {
			batch = append(batch, w)
		} else {
			rest = append(rest, w)
		}
	}
	q.writes = rest
	return batch
}
