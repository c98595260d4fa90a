package outbox

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"otm/core"
)

// TestDeadOwner: what a process leased that was killed is delivered at once, and a row
// that it may have made is looked for. The leases of living ones, and of those that are
// not known, last.
func TestDeadOwner(t *testing.T) {
	t.Parallel()
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for owner, free := range map[string]bool{
		fmt.Sprintf("%s %d X", place(), ended.Process.Pid): true,
		newOwner(): false,
		fmt.Sprintf("elsewhere %d X", ended.Process.Pid): false,
		"an older version's":                             false,
	} {
		w := newWorld(t, 1)
		w.run()
		w.retitle(1, "mend")
		w.board.taken()
		for _, sink := range core.Sinks {
			if _, err := w.store.Lease(context.Background(), sink, owner, w.now, time.Minute, 0); err != nil {
				t.Fatal(err)
			}
			// The board waits for the rendering: it is leased as well, once that is done.
			if pending, err := w.store.Pending(context.Background(), sink); err == nil && sink == core.SinkRender {
				if err := w.store.Delivered(context.Background(), pending...); err != nil {
					t.Fatal(err)
				}
			}
		}
		var asked time.Time
		w.board.deliver = func(p core.Pending) Result {
			asked = p.AskedAt
			return Result{}
		}
		w.run()
		if got := strings.Contains(w.board.taken(), "board"); got != free || free != asked.Equal(w.now) {
			t.Errorf("%q: delivered %v, with AskedAt %v; want %v", owner, got, asked, free)
		}
	}
}
