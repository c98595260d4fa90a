package app

import (
	"context"
	"errors"
	"fmt"

	"otm/heartbeat"
	"otm/internal/lock"
)

// residentError says that another process runs the component already.
type residentError struct {
	id  string
	pid int // 0 if the lock file does not tell
}

func (e *residentError) Error() string {
	if e.pid == 0 {
		return fmt.Sprintf("%s is running already", e.id)
	}
	return fmt.Sprintf("%s is running already, as process %d", e.id, e.pid)
}

// residentLocks knows which components have a resident process: each holds a lock
// for its life.
type residentLocks struct{ home *Home }

func (h *Home) residents() residentLocks { return residentLocks{h} }

// running reports whether a resident process runs the component.
func (r residentLocks) running(id string) bool {
	_, held := lock.Holder(r.path(id))
	return held
}

// path is the lock that the component's resident process holds.
func (r residentLocks) path(id string) string { return heartbeat.ResidentLock(r.home.Dir, id) }

// take makes this process the resident of a component. It waits for lock.Moment, then the
// error is a *residentError if another process holds the lock.
func (r residentLocks) take(ctx context.Context, id string) (*lock.Lock, error) {
	l, err := lock.Acquire(ctx, r.path(id), lock.Moment)
	var held *lock.HeldError
	if errors.As(err, &held) {
		return nil, &residentError{id: id, pid: held.PID}
	}
	return l, err
}
