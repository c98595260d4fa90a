package dispatch

import (
	"context"
	"errors"
	"time"

	"otm/core"
)

// RecordEnd notes the end of a start with the task that holds its wake, durably, and
// reports whether it was news. It does nothing if no wake has the key: the gateway also
// reports runs that others began.
func RecordEnd(ctx context.Context, store core.Store, end core.EndStart, now time.Time) (news bool, err error) {
	id, err := store.TaskOfWake(ctx, end.Key)
	if errors.Is(err, core.ErrNoTask) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	outcomes, err := store.Do(ctx, core.Command{At: now, By: core.Component(Who), Task: id, Do: end})
	if err != nil {
		return false, err
	}
	return len(outcomes[0].Events) > 0, outcomes[0].Err
}
