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

// Whoever waits, waits in flock(2): the kernel wakes one of those who do when
// the lock comes free, in the order in which they came. To look every few
// milliseconds costs more than it seems where many wait: 64 creates on two
// CPUs spent most of their time on it, and some of them waited in vain.
//
// A wait in the kernel cannot be called off. So it is not the caller's own, but
// that of a goroutine, with a thread of its own, one for each lock that
// somebody in this process waits for. Who gives up leaves it behind. When it
// gets the lock, it hands it to whoever in the process asked for it first of
// those who still want it, or gives it back at once if nobody does; so there is
// never more than one a lock, however often somebody gives up.
type queue struct {
	path  string
	wants []chan<- acquired // each has room for one
}

// acquired is what came of a wait.
type acquired struct {
	lock *Lock
	err  error
}

// queues are the waits of this process, by path.
var queues = struct {
	sync.Mutex
	of map[string]*queue
}{of: map[string]*queue{}}

// await waits for a lock that somebody holds. The errors are those of Acquire.
func await(ctx context.Context, path string, wait time.Duration) (*Lock, error) {
	got := make(chan acquired, 1)
	enqueue(path, got)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var gaveUp error
	select {
	case a := <-got:
		return a.lock, a.err
	case <-ctx.Done():
		gaveUp = context.Cause(ctx)
	case <-timer.C:
		gaveUp = &HeldError{Path: path, PID: LastHolder(path), Waited: wait}
	}
	if leave(path, got) {
		return nil, gaveUp
	}
	a := <-got // it came in this moment
	return a.lock, a.err
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

// leave takes a want back; false where it was answered.
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

// run waits in the kernel as long as anybody in the process wants the lock.
func (q *queue) run() {
	gone := false // the file that was locked, or was to be, had lost its name
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

// wanted tells whether anybody waits still; else the queue is over.
func (q *queue) wanted() bool {
	queues.Lock()
	defer queues.Unlock()
	if len(q.wants) > 0 {
		return true
	}
	delete(queues.of, q.path)
	return false
}

// answer hands on what came of a wait: a lock to the first, an error to all.
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

// block waits in flock(2) until it has the lock, however long that takes. It
// returns nil, nil where there is no file, or it has lost its name meanwhile.
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
