package app

import (
	"testing"
	"time"

	"otm/heartbeat"
	"otm/internal/lock"
)

// A process that was killed while it started a child leaves its lock to the child for
// a moment. The next resident waits for that, and does not say that one is running.
func TestResidentAfterAKilledOne(t *testing.T) {
	t.Parallel()
	h := &Home{Dir: t.TempDir()}
	left, err := lock.Acquire(t.Context(), heartbeat.ResidentLock(h.Dir, heartbeat.Injector), 0)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(lock.Moment/4, func() { left.Release() })
	l, err := takeResident(t.Context(), h, heartbeat.Injector)
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
}
