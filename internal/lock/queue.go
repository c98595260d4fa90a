package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// A queue waits for one lock on behalf of all goroutines of this process.
//
// It waits in flock(2), where the kernel wakes the waiting processes in the order
// in which they came. Polling every few milliseconds is expensive if many wait:
// 64 creates on two CPUs spent most of their time on it, and some of them waited
// in vain.
//
// A wait in the kernel cannot be cancelled. So a goroutine with a thread of its
// own waits, one for each lock that somebody in this process wants. A caller that
// gives up leaves it behind. When it gets the lock, it hands it to the caller that
// came first and still waits; if none does, it releases the lock. So there is one
// such goroutine for each lock, however often callers give up.
type queue struct {
	path  string
	wants []chan<- acquired // each has room for one
}

// acquired is the result of a wait.
type acquired struct {
	lock *Lock
	err  error
}

// queues are the queues of this process, by path.
var queues = struct {
	sync.Mutex
	of map[string]*queue
}{of: map[string]*queue{}}

// look is how often somebody who waits looks who has the lock. It is only for
// the words of a HeldError.
const look = 100 * time.Millisecond

// await waits for a lock that somebody holds. The errors are those of Acquire.
func await(ctx context.Context, path string, wait time.Duration) (*Lock, error) {
	got := make(chan acquired, 1)
	enqueue(path, got)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	tick := time.NewTicker(look)
	defer tick.Stop()
	holders := map[int]bool{LastHolder(path): true}
	for {
		var gaveUp error
		select {
		case a := <-got:
			return a.lock, a.err
		case <-tick.C:
			holders[LastHolder(path)] = true
			continue
		case <-ctx.Done():
			gaveUp = context.Cause(ctx)
		case <-timer.C:
			pid := LastHolder(path)
			holders[pid] = true
			delete(holders, 0) // a holder that had not written its pid yet
			gaveUp = &HeldError{Path: path, PID: pid, Holders: len(holders), Waited: wait}
		}
		if leave(path, got) {
			return nil, gaveUp
		}
		a := <-got // it came at this moment
		return a.lock, a.err
	}
}

func enqueue(path string, got chan<- acquired) {
	queues.Lock()
	defer queues.Unlock()
	q := queues.of[path]
	if q == nil {
		q = &queue{path: path}
		queues.of[path] = q
		go q.run()
	}
	q.wants = append(q.wants, got)
}

// leave withdraws a want. It reports false if the want was answered already.
func leave(path string, got chan<- acquired) bool {
	queues.Lock()
	defer queues.Unlock()
	q := queues.of[path]
	if q == nil {
		return false
	}
	i := slices.Index(q.wants, got)
	if i < 0 {
		return false
	}
	q.wants = slices.Delete(q.wants, i, i+1)
	return true
}

// run waits in the kernel as long as somebody in the process wants the lock.
func (q *queue) run() {
	gone := false // the file had lost its name, or was missing
	for q.wanted() {
		get := block
		if gone {
			get = try // which makes the file anew
		}
		l, err := get(q.path)
		gone = !gone && l == nil && err == nil
		q.answer(l, err)
	}
}

// wanted reports whether somebody still waits; if not, it ends the queue.
func (q *queue) wanted() bool {
	queues.Lock()
	defer queues.Unlock()
	if len(q.wants) > 0 {
		return true
	}
	delete(queues.of, q.path)
	return false
}

// answer hands on the result of a wait: a lock to the first, an error to all.
func (q *queue) answer(l *Lock, err error) {
	queues.Lock()
	defer queues.Unlock()
	n := len(q.wants)
	switch {
	case l != nil && n == 0:
		l.Release() // all have given up
	case l != nil:
		n = 1
	case err == nil:
		n = 0
	}
	for _, got := range q.wants[:n] {
		got <- acquired{l, err}
	}
	q.wants = q.wants[n:]
}

// block waits in flock(2) until it has the lock. It returns nil, nil if the file
// is missing or has lost its name meanwhile.
func block(path string) (*Lock, error) {
	fl := flock.New(path, flock.SetFlag(os.O_RDONLY))
	err := fl.Lock()
	switch {
	case err == nil:
		return locked(fl, path)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EINTR):
		return nil, nil
	}
	return nil, supported(path, err)
}
