package dispatch

import (
	"slices"
	"strings"
	"testing"

	"otm/pipeline"
)

// At most MaxRunning agents are at work at once: those with the most urgent tasks are
// woken first, and the next one when one of them is done. An agent at work is woken for
// its own further tasks as ever.
func TestMaxRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta", "gamma")
	w.d.Times.MaxRunning = 2
	low := w.create("low", "alpha", pipeline.Low)
	w.create("high", "beta", pipeline.High)
	w.create("normal", "gamma", pipeline.Normal)
	want(t, "woken at first", w.pass().Woken, 2)
	woken := func() string { // they are woken in parallel
		return strings.Join(slices.Sorted(slices.Values(strings.Fields(w.waker.keys()))), " ")
	}
	want(t, "who", woken(), "otm-T-00002-beta-1 otm-T-00003-gamma-1")
	want(t, "woken while they may begin", w.pass().Woken, 0)
	w.next("beta")
	w.next("gamma")
	want(t, "woken while they work", w.pass().Woken, 0)
	w.report(3, pipeline.AgentDone)
	want(t, "woken when one is done", w.pass().Woken, 1)
	want(t, "with the last", woken(), "otm-T-00001-alpha-1 otm-T-00002-beta-1 otm-T-00003-gamma-1")
	want(t, "it takes", w.next("alpha"), low)
}
