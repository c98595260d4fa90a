package task

import (
	"slices"

	"otm/pipeline"
)

// Above returns the counter, now next, as it has to stand because of ids that
// are in use: above each of them, except where that would use up more than half
// of those that are left. One slip (T-999999998) must not take them all. Such an
// id is never given out all the same: it raises the counter that has come
// nearer, and Take passes over what exists.
func Above(next pipeline.TaskID, ids ...pipeline.TaskID) pipeline.TaskID {
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if id >= next && id-next <= (pipeline.MaxTaskID-next)/2 {
			next = id + 1
		}
	}
	return next
}
