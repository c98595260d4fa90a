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

// errEnded says that an operation ended its goroutine, as tests do: so does Do.
var errEnded = errors.New("the operation ended its goroutine")

// operation runs on a directory.
type operation struct {
	began time.Time
	done  chan struct{} // closed when it has returned
}

var (
	mu      sync.Mutex
	running = map[string]*operation{} // by directory
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
	end, begun := begin(filepath.Clean(path), deadline)
	if !begun {
		late()
		return &SilentError{path}
	}
	result, gaveUp := make(chan error), make(chan struct{})
	go func() {
		err := errEnded
		defer func() {
			end()
			select {
			case result <- err:
			case <-gaveUp:
				late()
			}
		}()
		err = f()
	}()
	select {
	case err := <-result:
		if err == errEnded {
			runtime.Goexit()
		}
		return err
	case <-time.After(deadline):
		close(gaveUp)
		return &SilentError{path}
	}
}

// begin waits until no operation runs on the directory, and returns how to end the
// one that begins. It reports false if a running one is as old as the deadline.
func begin(dir string, deadline time.Duration) (end func(), begun bool) {
	limit := time.Now().Add(deadline)
	for {
		mu.Lock()
		other := running[dir]
		if other == nil {
			o := &operation{time.Now(), make(chan struct{})}
			running[dir] = o
			mu.Unlock()
			return func() {
				mu.Lock()
				defer mu.Unlock()
				delete(running, dir)
				close(o.done)
			}, true
		}
		mu.Unlock()
		select {
		case <-other.done:
		case <-time.After(min(time.Until(limit), time.Until(other.began.Add(deadline)))):
			return nil, false
		}
	}
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
