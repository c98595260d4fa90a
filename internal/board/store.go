package board

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"otm/internal/crash"
)

// maxBatch bounds how many transactions one fsync answers for.
const maxBatch = 1024

// errNotWritten is matched when a transaction could not be written and has no
// effect, on disk or in memory; it may be tried again.
var errNotWritten = errors.New("not written")

// errUnknownState is matched when what is on disk is no longer known. The
// store refuses all further writes; the next Open finds out.
var errUnknownState = errors.New("state on disk is unknown")

// A store is the state, and the committer that changes it durably.
type store struct {
	journal *journal
	log     *slog.Logger
	now     func() time.Time
	// changed is called after each publication, by the committer.
	changed func()

	// mu guards state against readers. Only the committer writes, so it reads
	// without the lock.
	mu    sync.RWMutex
	state *state

	requests chan *commit
	closing  chan struct{} // closed by close
	stopped  chan struct{} // closed by the committer when it has ended
	broken   chan struct{} // closed when failure is set
	failure  error         // matches errUnknownState; read after broken
}

// A commit is one transaction that waits for the committer.
type commit struct {
	actor string
	fn    func(*tx) error
	err   error
	done  chan struct{} // closed when err is final
}

func newStore(j *journal, st *state, log *slog.Logger, now func() time.Time, changed func()) *store {
	s := &store{
		journal:  j,
		log:      log,
		now:      now,
		changed:  changed,
		state:    st,
		requests: make(chan *commit, maxBatch),
		closing:  make(chan struct{}),
		stopped:  make(chan struct{}),
		broken:   make(chan struct{}),
	}
	go s.commitLoop()
	return s
}

// view calls fn with the published state, which must not be kept; the lists
// and rows in it may be.
func (s *store) view(fn func(*state)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	fn(s.state)
}

// do runs fn as a transaction and returns when its changes are durable and
// visible, or when it failed and has none. fn may be run on another goroutine.
func (s *store) do(actor string, fn func(*tx) error) error {
	c := &commit{actor: actor, fn: fn, done: make(chan struct{})}
	select {
	case <-s.closing:
		return ErrClosed
	default:
	}
	select {
	case s.requests <- c:
	case <-s.closing:
		return ErrClosed
	}
	select {
	case <-c.done:
		return c.err
	case <-s.stopped:
	}
	select {
	case <-c.done: // it was the last one the committer took
		return c.err
	default:
		return ErrClosed
	}
}

// close stops the committer after what waits, and closes the file.
func (s *store) close() error {
	close(s.closing)
	<-s.stopped
	var err error
	if s.failure == nil {
		err = s.reclaim()
	}
	return errors.Join(err, s.journal.close())
}

func (s *store) commitLoop() {
	defer close(s.stopped)
	for {
		select {
		case c := <-s.requests:
			s.process(s.gather(c))
		case <-s.closing:
			for {
				select {
				case c := <-s.requests:
					s.process(s.gather(c))
				default:
					return
				}
			}
		}
	}
}

// gather takes all that wait, so that they share one fsync.
func (s *store) gather(first *commit) []*commit {
	batch := []*commit{first}
	for len(batch) < maxBatch {
		select {
		case c := <-s.requests:
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

// process commits a batch and answers. A transaction that changes nothing, or
// fails, is answered with the rest: it may have judged by another's changes.
func (s *store) process(batch []*commit) {
	s.commit(batch)
	for _, c := range batch {
		close(c.done)
	}
	s.compactIfGrown()
}

// commit runs the transactions, makes their changes durable together, and
// shows them to readers.
func (s *store) commit(batch []*commit) {
	if s.failure != nil {
		failAll(batch, s.failure)
		return
	}
	if err := s.reclaim(); err != nil {
		failAll(batch, err)
		s.check(err)
		return
	}
	entries := s.runAll(batch)
	if len(entries) == 0 {
		return
	}
	// If we crash here, nothing has happened.
	if err := s.journal.append(entries); err != nil {
		failAll(batch, err)
		s.check(err)
		return
	}
	// If we crash here, the rows are durable and the writers do not know.
	crash.Point("board.synced")
	s.publish(entries)
}

// reclaim makes sure that what is answered for is on the disk under its name.
func (s *store) reclaim() error {
	anew, err := s.journal.reclaim(s.state)
	if anew {
		s.forgetDeleted()
	}
	return err
}

// runAll runs the transactions, each seeing those before it, and returns what
// they changed.
func (s *store) runAll(batch []*commit) []*entry {
	together := newLayer(s.state, nil)
	var entries []*entry
	for _, c := range batch {
		t := newTx(together, s.now(), c.actor)
		if c.err = t.run(c.fn); c.err != nil {
			continue
		}
		if e := t.entry(); !e.empty() {
			entries = append(entries, e)
			together.absorb(t.layer)
		}
	}
	return entries
}

// failAll gives every transaction of the batch the error: also one that was
// refused, as it may have been refused because of a change that was not made.
func failAll(batch []*commit, err error) {
	for _, c := range batch {
		c.err = err
	}
}

func (s *store) publish(entries []*entry) {
	s.mu.Lock()
	for _, e := range entries {
		if err := s.state.apply(e); err != nil {
			panic(fmt.Sprintf("internal error: apply own entry: %v", err))
		}
	}
	s.mu.Unlock()
	s.changed()
}

// compactIfGrown rewrites the log when most of it is history.
func (s *store) compactIfGrown() {
	if s.failure != nil || !s.journal.grown(s.state) {
		return
	}
	err := s.journal.compact(s.state)
	s.check(err)
	if err == nil {
		s.forgetDeleted()
	}
}

// forgetDeleted lets go of what a log that was just written anew does not hold.
func (s *store) forgetDeleted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.forgetDeleted()
}

// check stops all further writes if the error says that the state on disk is
// unknown. A compaction that merely did not happen is tried again later.
func (s *store) check(err error) {
	switch {
	case err == nil:
	case errors.Is(err, errUnknownState):
		s.failure = err
		close(s.broken)
		s.log.Error("stopped writing", "err", err)
	default:
		s.log.Warn("store write failed", "err", err)
	}
}
