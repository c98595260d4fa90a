package dispatch

import (
	"context"
	"testing"

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
	w.d.Carry = func(context.Context, *pipeline.Agent) (bool, error) {
		w.report(id, pipeline.AgentDone)
		return true, nil
	}
	w.pass()
	health, err := AgentHealth(context.Background(), w.store, w.dir, w.agent("alpha"))
	want(t, "health", words(health.Failures, err), "0 <nil>")
	w.ended()
	want(t, "woken for the other", len(w.record(other).Wakes)+len(w.record(id).Wakes), 2)
}
