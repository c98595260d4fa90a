// Package crashtest lets tests refuse steps on files, as a disk does that is
// full or broken. Tests that import it must not set crash.Fail themselves.
package crashtest

import (
	"path/filepath"
	"runtime"
	"strings"
	"sync"
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

// Refusal is one step that is refused.
type Refusal struct {
	choose func() bool // whether the step that is asked for is the one

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
	each(t, err, f, func() func() bool {
		n++
		left := n
		return func() bool {
			left--
			return left == 0
		}
	})
}

// EachPlace is Each for what takes many steps: of those that are asked for by the
// same calls, the first is refused for all.
func EachPlace(t testing.TB, err error, f func(refuse Refuse)) {
	t.Helper()
	type place [40]uintptr
	seen := map[place]bool{}
	each(t, err, f, func() func() bool {
		return func() bool {
			var here place
			runtime.Callers(1, here[:])
			known := seen[here]
			seen[here] = true
			return !known
		}
	})
}

func each(t testing.TB, err error, f func(refuse Refuse), chooser func() (choose func() bool)) {
	t.Helper()
	for n := 1; ; n++ {
		r := &Refusal{choose: chooser()}
		f(func(dir string, do func() error) (*Refusal, error) {
			Below(t, dir, func(step, path string) error { return r.ask(step, path, err) })
			defer asked.Delete(dir)
			return r, do()
		})
		if r.Came() {
			continue
		}
		if n == 1 {
			t.Error("it takes no step on the disk")
		}
		return
	}
}

func (r *Refusal) ask(step, path string, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.step != "" || !r.choose() {
		return nil
	}
	r.step, r.path = step, path
	return err
}

// Came tells whether the step came, and was refused.
func (r *Refusal) Came() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.step != ""
}

// Of tells whether it was a step on a file with this in its path that was
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
