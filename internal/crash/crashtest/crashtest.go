// Package crashtest lets tests refuse steps on files, as a disk does that is
// full or broken. Tests that import it must not set crash.Fail themselves.
package crashtest

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"otm/internal/crash"
)

type ask func(step, path string) error

var asked sync.Map // directories → who is asked about them

func init() {
	crash.Fail = func(step, path string) (err error) {
		asked.Range(func(dir, f any) bool {
			if path != dir && !strings.HasPrefix(path, dir.(string)+string(filepath.Separator)) {
				return true
			}
			err = f.(ask)(step, path)
			return false
		})
		return err
	}
}

// Below has f asked whether each step fails on dir and on files below it, until
// the test ends. The steps are those of crash.Failed. It is called by whichever
// goroutines take them.
func Below(t testing.TB, dir string, f func(step, path string) error) {
	asked.Store(dir, ask(f))
	t.Cleanup(func() { asked.Delete(dir) })
}

// Hang has each step on dir and on files below it block, as on a file system that
// does not answer, until the test ends. It returns the number of steps that blocked
// so far.
func Hang(t testing.TB, dir string) *atomic.Int32 {
	var n atomic.Int32
	var mu sync.Mutex // guards blocked
	blocked := 0
	returned := sync.NewCond(&mu)
	change := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		blocked += by
		returned.Broadcast()
	}
	release := make(chan struct{})
	t.Cleanup(func() {
		close(release)
		mu.Lock()
		defer mu.Unlock()
		for blocked > 0 {
			returned.Wait()
		}
	})
	Below(t, dir, func(string, string) error {
		n.Add(1)
		change(1)
		defer change(-1)
		<-release
		return nil
	})
	return &n
}

// Refusal is one step that is refused.
type Refusal struct {
	choose func() bool // whether the step that is asked for is the one
	err    error       // with which it is refused

	mu   sync.Mutex
	step string // that was refused
	path string
}

// Refuse does something while one step below a directory is refused, and returns
// the error of what it did.
type Refuse func(dir string, do func() error) (*Refusal, error)

// Each calls f again and again, to have the first step of something refused with
// err, then the second and so on, until there are no more: in the last call, none
// was refused.
func Each(t testing.TB, err error, f func(refuse Refuse)) {
	t.Helper()
	n := 0
	came := each(t, err, f, func() func() bool {
		n++
		left := n
		return func() bool {
			left--
			return left == 0
		}
	})
	if !came {
		t.Error("it takes no step on the disk")
	}
}

// EachInPart is Each for what takes long: one part of the steps is taken.
func EachInPart(t testing.TB, err error, f func(refuse Refuse)) {
	t.Helper()
	p, n := partOf(t), 0
	each(t, err, f, func() func() bool {
		for n++; !p.has(n); n++ {
		}
		left := n
		return func() bool {
			left--
			return left == 0
		}
	})
}

// EachPlace is EachOwnPlace, but with OTM_TEST_WHOLE=1 it is Each.
func EachPlace(t testing.TB, err error, pkg string, f func(refuse Refuse)) {
	t.Helper()
	if Whole() {
		Each(t, err, f)
		return
	}
	EachOwnPlace(t, err, pkg, f)
}

// EachOwnPlace is Each for what takes many steps. Of those to which the same lines of
// a package came, such as "otm/dispatch" (or of several, with spaces between), the
// first is refused for all, and of these places, one part is taken. It is for a test
// that asks what those lines do, where the packages below may try again later.
func EachOwnPlace(t testing.TB, err error, pkg string, f func(refuse Refuse)) {
	t.Helper()
	places := newPlaces(t, pkg)
	each(t, err, f, func() func() bool { return places.next })
	places.check(t)
}

// OnceAtEachPlace calls f again and again. now tells it, once in each call,
// whether what is about to happen is to be disturbed: the first time that these
// lines of a package come to it. One part of these places is taken. In the last
// call, nothing is disturbed.
func OnceAtEachPlace(t testing.TB, pkg string, f func(now func() bool)) {
	t.Helper()
	var mu sync.Mutex // also for who still asks in the next call
	places := newPlaces(t, pkg)
	for came := true; came; {
		came = false
		f(func() bool {
			mu.Lock()
			defer mu.Unlock()
			if came || !places.next() {
				return false
			}
			came = true
			return true
		})
	}
	mu.Lock()
	defer mu.Unlock()
	places.check(t)
}

// places are those of a package at which something happens, as far as they are
// known.
type places struct {
	pkg  string
	part part
	seen map[string]bool
}

func newPlaces(t testing.TB, pkg string) *places {
	t.Helper()
	return &places{pkg, partOf(t), map[string]bool{}}
}

// next reports whether the package comes here for the first time, and the place
// is one of the part.
func (p *places) next() bool {
	here := place(p.pkg)
	known := p.seen[here]
	p.seen[here] = true
	return !known && p.part.hasPlace(here)
}

func (p *places) check(t testing.TB) {
	t.Helper()
	if len(p.seen) == 0 {
		t.Error("it does nothing that could be disturbed")
	}
}

// place says by which lines of a package a step is taken.
func place(pkg string) string {
	var calls [64]uintptr
	frames := runtime.CallersFrames(calls[:runtime.Callers(1, calls[:])])
	var b strings.Builder
	for {
		f, more := frames.Next()
		if slices.ContainsFunc(strings.Fields(pkg), func(p string) bool { return strings.HasPrefix(f.Function, p+".") }) {
			fmt.Fprintf(&b, "%s:%d\n", filepath.Base(f.File), f.Line)
		}
		if !more {
			return b.String()
		}
	}
}

// each does the work of Each, with a choice of the steps that are refused. It
// reports whether any was.
func each(t testing.TB, err error, f func(refuse Refuse), chooser func() (choose func() bool)) (came bool) {
	t.Helper()
	Long(t, "is a walk")
	for {
		r := &Refusal{choose: chooser(), err: err}
		f(func(dir string, do func() error) (*Refusal, error) {
			Below(t, dir, func(step, path string) error { return r.ask(step, path) })
			defer asked.Delete(dir)
			return r, do()
		})
		if !r.Came() {
			return came
		}
		came = true
	}
}

func (r *Refusal) ask(step, path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.step != "" || !r.choose() {
		return nil
	}
	r.step, r.path = step, path
	return r.err
}

// Told checks that whoever took the steps got the refusal as its error, and none
// where nothing was refused. silent are steps of which nobody need be told.
func (r *Refusal) Told(t testing.TB, err error, silent bool) {
	t.Helper()
	if errors.Is(err, r.err) != r.Came() && !silent {
		t.Errorf("refused %q, and was told: %v", r, err)
	}
}

// Came reports whether the step came, and was refused.
func (r *Refusal) Came() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.step != ""
}

// Of reports whether it was a step on a file with this in its path that was
// refused.
func (r *Refusal) Of(step, file string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.step == step && strings.Contains(r.path, file)
}

// String tells what was refused.
func (r *Refusal) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.step + " " + r.path
}
