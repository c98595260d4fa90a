package app

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"otm/core"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// TestDrainUnderSlacksLimits drops many tasks at once and has them brought to a
// list under Slack's limits: that takes no more than an eighth longer than the
// limits allow, and Slack never has to refuse a call. (Time is virtual here,
// so that this says nothing of the machine.)
func TestDrainUnderSlacksLimits(t *testing.T) { // not in parallel: all calls lead to its board
	crashtest.Long(t, "brings 100 tasks to a board")
	synctest.Test(t, func(t *testing.T) {
		const tasks, steps = 100, 2
		v := newVirtual(t, 0, "devdas")
		begun := time.Now()
		stop := v.up()
		defer stop()
		path := filepath.Join(t.TempDir(), "lines.jsonl")
		put(t, path, strings.Repeat(`{"title":"One of many","agent":"devdas","subtasks":["a","b"]}`+"\n", tasks))
		ids := v.create("--from", path)
		for _, id := range ids {
			for v.statusOf(id) != pipeline.Assigned {
				time.Sleep(time.Second) // of virtual time, in which nobody waits
				if time.Since(begun) > time.Hour {
					t.Fatalf("%v is still %q after an hour", id, v.statusOf(id))
				}
			}
		}
		// A minute's worth of creates goes at once, the others as the limit
		// allows, and then the last tasks are assigned.
		const limit = 50
		allowed := time.Duration(tasks*(1+steps)-limit) * time.Minute / limit
		took := lastRow(t, v, ids).Sub(begun)
		t.Logf("%d rows in %v, %v allowed", tasks*(1+steps), took, allowed)
		if took > allowed+allowed/8 {
			t.Errorf("%d rows took %v, the limits allow %v", tasks*(1+steps), took, allowed)
		}
		if said := v.far.overLimits(); said != "" {
			t.Errorf("called too often:%s", said)
		}
	})
}

// lastRow is when the last row of all these tasks was made.
func lastRow(t *testing.T, v *virtual, ids []pipeline.TaskID) (last time.Time) {
	t.Helper()
	for _, id := range ids {
		if task := v.stored(id); task == nil || !task.OnBoard() {
			t.Fatalf("%v is not on the board", id)
		}
		for _, e := range v.events(id) {
			if w, is := e.Data.(core.BoardWritten); is && len(w.Steps) > 0 && e.At.After(last) {
				last = e.At
			}
		}
	}
	return last
}
