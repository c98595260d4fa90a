package dispatch

import (
	"os"
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
		now := w.clock.Now()
		w.change(id, func(r *pipeline.Record) { applied(r, now, pipeline.AgentDone) })
		return nil, nil
	}
	w.pass()
	health, err := AgentHealth(w.dir, w.agent("alpha"))
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
		health, err := AgentHealth(w.dir, w.agent("alpha"))
		if err != nil {
			t.Fatal(err)
		}
		return health.Failures
	}
	want(t, "while it waits", failures(), 0)
	unread = map[pipeline.TaskID]time.Time{id: w.clock.Now().Add(time.Hour), 99: {}}
	want(t, "of others, and later", failures(), 1)
}

// A pass reads the inbox once for all runs that ended before, and again for a run
// that ended later.
func TestInboxReadOnceAPass(t *testing.T) {
	t.Parallel()
	reads := 0
	read := func() (map[pipeline.TaskID]time.Time, error) {
		reads++
		return map[pipeline.TaskID]time.Time{pipeline.TaskID(reads): minute(0)}, nil
	}
	u := unreadReports{read: read, now: func() time.Time { return minute(5) }}
	for _, c := range []struct {
		ended float64
		want  pipeline.TaskID // in the inbox as it was read
	}{{1, 1}, {4, 1}, {5, 2}, {6, 3}, {1, 3}} {
		dropped, err := u.droppedBy(minute(c.ended))
		if _, ok := dropped[c.want]; !ok || err != nil {
			t.Errorf("ended at minute %v: %v, %v, want %v", c.ended, dropped, err, c.want)
		}
	}
}

// The state of one agent cannot be written: the others are woken.
func TestAgentStateUnwritable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	if err := os.MkdirAll(agentPath(w.dir, "alpha"), 0o700); err != nil { // no file of ours
		t.Fatal(err)
	}
	w.create("x", "alpha", pipeline.Normal)
	other := w.create("y", "beta", pipeline.Normal)
	r := w.pass()
	want(t, "failed", len(r.Failed), 1)
	want(t, "wakes", w.waker.keys(), Key(other, "beta", 1))
}
