package app

import (
	"testing"
	"time"

	"otm/core"
)

// A run that asked for a later start, or ticked a step, did not fail: it counts no try.
func TestStatsCountTries(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 29, 8, 0, 0, 0, time.UTC)
	run := func(n int, ending core.Ending, f core.Failure) core.Run {
		return core.Run{Number: n, Agent: "devdas", Began: began, Ended: began.Add(time.Minute), Ending: ending, Failure: f}
	}
	s := &Stats{Since: began, Until: began.Add(time.Hour)}
	var is AgentStats
	s.task(&core.Task{Agent: "devdas", CreatedAt: began, Runs: core.Runs{
		run(1, core.EndFailed, core.Failure{Exit: "exit status 75", Code: new(75), Free: true}), run(2, core.EndFailed, core.Failure{Exit: "exit status 1"}), run(3, core.EndSucceeded, core.Failure{}),
	}}, func(string) *AgentStats { return &is })
	if is.Failed != 1 || is.Retries != 2 || is.Runs.Count != 3 {
		t.Errorf("%+v", is)
	}
}

func TestSpanInWords(t *testing.T) {
	t.Parallel()
	for span, want := range map[Span]string{{}: "-", {Average: 2, Longest: 2, Count: 1}: "2s on average, 2s at most, 1 time", {Average: 2, Longest: 3, Count: 2}: "2s on average, 3s at most, 2 times"} {
		if got := span.String(); got != want {
			t.Errorf("%+v is %q, want %q", span, got, want)
		}
	}
}
