// Package patience gives operations on a directory a deadline. The directory may lie
// on a file system that does not answer, such as a network share whose server is
// gone. One hung directory must delay neither other directories nor readers (C46).
//
// A call that hangs in the kernel cannot be ended, and it keeps an OS thread until
// the file system answers or the process ends. So at most one operation runs on each
// directory at a time: while it hangs, later ones fail and do not start.
package patience

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Reader is the deadline of commands and pages that people wait for.
const Reader = 3 * time.Second

// SilentError says that a directory did not answer within the deadline.
type SilentError struct{ Path string }

func (e *SilentError) Error() string {
	return fmt.Sprintf("%q does not answer: its file system hangs", e.Path)
}

// IsSilent reports whether an error is a *SilentError.
func IsSilent(err error) bool {
	var silent *SilentError
	return errors.As(err, &silent)
}

// place is a directory on which operations run or wait.
type place struct {
	turn  chan struct{} // is full while an operation runs
	users int           // operations that run or wait
	since time.Time     // when the running operation began; zero: none runs
}

var (
	mu     sync.Mutex // guards places, and users and since of each
	places = map[string]*place{}
)

// Do calls f, an operation on the directory at path, and returns its error. If f
// takes longer than the deadline, Do returns a *SilentError and leaves f running.
// Until that f returns, Do returns a *SilentError without calling f, at once if the
// first f runs for longer than the deadline already.
//
// f must not call Do for the same path, nor touch what its caller uses afterwards.
// With a *SilentError, Do calls late when f has returned or as it was not called;
// late may be nil.
func Do(path string, deadline time.Duration, late func(), f func() error) error {
	if late == nil {
		late = func() {}
	}
	key := filepath.Clean(path)
	p := enter(key)
	if !p.begin(deadline) {
		p.leave(key)
		late()
		return &SilentError{path}
	}
	var settled atomic.Bool // the result was delivered, or Do gave up
	done := make(chan error, 1)
	go func() {
		var err error
		returned := false
		defer func() { // also if f ends its goroutine
			p.end()
			p.leave(key)
			switch {
			case !settled.CompareAndSwap(false, true):
				late()
			case returned:
				done <- err
			default:
				close(done)
			}
		}()
		err = f()
		returned = true
	}()
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	select {
	case err, returned := <-done:
		return result(err, returned)
	case <-timer.C:
		if settled.CompareAndSwap(false, true) {
			return &SilentError{path}
		}
		err, returned := <-done
		return result(err, returned)
	}
}

// result returns the error of an operation, or ends the goroutine as the operation
// ended its own.
func result(err error, returned bool) error {
	if !returned {
		runtime.Goexit()
	}
	return err
}

// Read is Do for an operation that returns a value.
func Read[T any](path string, deadline time.Duration, late func(), f func() (T, error)) (value T, err error) {
	got := make(chan T, 1)
	err = Do(path, deadline, late, func() error {
		v, err := f()
		got <- v
		return err
	})
	if IsSilent(err) {
		return value, err
	}
	return <-got, err
}

func enter(key string) *place {
	mu.Lock()
	defer mu.Unlock()
	p := places[key]
	if p == nil {
		p = &place{turn: make(chan struct{}, 1)}
		places[key] = p
	}
	p.users++
	return p
}

func (p *place) leave(key string) {
	mu.Lock()
	defer mu.Unlock()
	if p.users--; p.users == 0 {
		delete(places, key)
	}
}

// begin waits for the turn. It reports false if the running operation does not end
// before it is as old as the deadline.
func (p *place) begin(deadline time.Duration) bool {
	mu.Lock()
	wait := deadline
	if !p.since.IsZero() {
		wait -= time.Since(p.since)
	}
	mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case p.turn <- struct{}{}:
	case <-timer.C:
		return false
	}
	mu.Lock()
	defer mu.Unlock()
	p.since = time.Now()
	return true
}

func (p *place) end() {
	mu.Lock()
	p.since = time.Time{}
	mu.Unlock()
	<-p.turn
}
