package board

import (
	"errors"
	"fmt"
	"sync"

	"otm/internal/crash"
)

// errNotWritten says that a transaction could not be written and has no effect,
// on disk or in memory. It may be tried again.
var errNotWritten = errors.New("not written")

// errUnknownState says that the state on disk is no longer known. The store
// refuses all further writes; the next Open finds out.
var errUnknownState = errors.New("state on disk is unknown")

// A store is the state, changed durably by one transaction at a time.
type store struct {
	opts *Options
	// changed is called after each publication.
	changed func()

	writing sync.Mutex // held for a transaction; guards the journal and closed
	journal *journal
	closed  bool

	failure error         // matches errUnknownState; written once, before broken is closed
	broken  chan struct{} // closed when failure is set

	// mu guards the state against readers. A transaction reads without it,
	// because only transactions write.
	mu    sync.RWMutex
	state *state
}

func newStore(j *journal, st *state, o *Options, changed func()) *store {
	return &store{opts: o, changed: changed, journal: j, state: st, broken: make(chan struct{})}
}

// view calls fn with the published state. fn must not keep the state; it may
// keep the lists and rows in it.
func (s *store) view(fn func(*state)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	fn(s.state)
}

// do runs fn as a transaction and returns when its changes are durable and
// visible, or when it failed without any.
func (s *store) do(actor string, fn func(*Tx) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.failure != nil:
		return s.failure
	}
	t := newTx(s.state, s.opts, actor)
	if err := t.run(fn); err != nil {
		return err
	}
	e := t.entry()
	if e == nil {
		return nil
	}
	// If we crash here, nothing has happened.
	if err := s.journal.append(e); err != nil {
		s.check(err)
		return err
	}
	// If we crash here, the rows are durable and the writer has no answer.
	crash.Point("board.synced")
	s.publish(e)
	if s.journal.grown(s.state, runGarbage) {
		s.check(s.journal.compact(s.state)) // not the writer's failure
	}
	return nil
}

// close waits for the running transaction and closes the file.
func (s *store) close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.closed = true
	return s.journal.close()
}

func (s *store) publish(e *entry) {
	s.mu.Lock()
	if err := s.state.apply(e); err != nil {
		panic(fmt.Sprintf("internal error: apply own entry: %v", err))
	}
	s.mu.Unlock()
	s.changed()
}

// check stops all further writes if the error says that the state on disk is
// unknown. A compaction that did not happen is tried again later.
func (s *store) check(err error) {
	switch {
	case err == nil:
	case errors.Is(err, errUnknownState):
		s.failure = err
		close(s.broken)
		s.opts.Log.Error("stopped writing", "err", err)
	default:
		s.opts.Log.Warn("store write failed", "err", err)
	}
}
