package crash

import "io/fs"

// Fail is asked by Failed whether a step on a file fails. It is nil outside of
// tests and must be set before any goroutine starts.
var Fail func(step, path string) error

// Failed marks a step on the file or directory at path that a disk or a file
// system may refuse, such as "read", "sync" or "rename". An error is what the step is
// taken to have failed with, as package os would tell it; it is nil outside of tests.
// Where it stands before the step, nothing was done; where it stands behind, the
// step took place, and only its answer was lost.
func Failed(step, path string) error {
	if Fail == nil {
		return nil
	}
	if err := Fail(step, path); err != nil {
		return &fs.PathError{Op: step, Path: path, Err: err}
	}
	return nil
}
