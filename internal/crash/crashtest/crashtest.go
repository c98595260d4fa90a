// Package crashtest lets tests refuse steps on files, as a disk does that is
// full or broken. Tests that import it must not set crash.Fail themselves.
package crashtest

import (
	"path/filepath"
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
	mu   sync.Mutex
	left int    // steps until then
	step string // that was refused
}

// Nth refuses the nth step, from 1, below a directory, with err. None is refused
// after it.
func Nth(t testing.TB, dir string, n int, err error) *Refusal {
	r := &Refusal{left: n}
	Below(t, dir, func(step, _ string) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.left--; r.left != 0 {
			return nil
		}
		r.step = step
		return err
	})
	return r
}

// Step is the step that was refused; "" where there were not that many.
func (r *Refusal) Step() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.step
}
