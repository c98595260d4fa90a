package dispatch

import (
	"context"
	"testing"
	"time"

	"otm/pipeline"
)

// C1: the last report of a run is applied after the pass has read the records and
// before the run's end is judged. It counts as progress.
func TestC1ReportAppliedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exit 1`)
	id := w.create("x", "alpha", pipeline.Normal)
	other := w.create("y", "alpha", pipeline.Normal)
	w.pass()
	want(t, "takes", w.next("alpha"), id)
	w.ended()
	w.d.Unread = func() (map[pipeline.TaskID]time.Time, error) {
		w.report(id, pipeline.AgentDone)
		return nil, nil
	}
	w.pass()
	health, err := AgentHealth(context.Background(), w.store, w.dir, w.agent("alpha"))
	want(t, "health", words(health.Failures, err), "0 <nil>")
	w.ended()
	want(t, "woken for the other", len(w.record(other).Wakes)+len(w.record(id).Wakes), 2)
}

// C1: the end of a run counts once the reports that were in the inbox at that
// moment are applied. Later reports, and those on other tasks, delay nothing.
func TestC1UnreadReports(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exit 1`)
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	want(t, "takes", w.next("alpha"), id)
	w.ended()
	unread := map[pipeline.TaskID]time.Time{id: w.clock.Now().Add(-time.Hour)}
	w.d.Unread = func() (map[pipeline.TaskID]time.Time, error) { return unread, nil }
	failures := func() int {
		t.Helper()
		w.pass()
		health, err := AgentHealth(context.Background(), w.store, w.dir, w.agent("alpha"))
		if err != nil {
			t.Fatal(err)
		}
		return health.Failures
	}
	want(t, "while it waits", failures(), 0)
	unread = map[pipeline.TaskID]time.Time{id: w.clock.Now().Add(time.Hour), 99: {}}
	want(t, "of others, and later", failures(), 1)
}
