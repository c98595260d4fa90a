package counter

import (
	"fmt"
	"slices"

	"otm/pipeline"
)

// MaxJump is how far above the counter an id from elsewhere may lie. One beyond it
// does not raise the counter, and a drop that bears it is refused: slips and
// mischief must not use up the ids. Such an id is not given out twice: it raises
// the counter once that has come near, and Take skips records that exist.
const MaxJump = 100_000

// FarError says that an id lies more than MaxJump above the counter.
type FarError struct {
	Next pipeline.TaskID // the counter
}

func (e *FarError) Error() string {
	return fmt.Sprintf("more than %d above %v, the next id to be given out", MaxJump, e.Next)
}

// Above returns the counter, now next, raised above each of the given ids that is
// at most MaxJump ahead of it.
func Above(next pipeline.TaskID, ids ...pipeline.TaskID) pipeline.TaskID {
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if id >= next && id-next <= MaxJump {
			next = id + 1
		}
	}
	return next
}
