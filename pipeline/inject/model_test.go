package inject

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"otm/core"
	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// model is what the updates of one task come to where nothing ever fails: each
// applies once, in order, or is refused whole.
type model struct {
	state *core.State
	fate  map[string]inbox.Class // of each update's file; "": processed
}

func (m *model) apply(name string, r report) {
	trial := &core.State{Tasks: map[pipeline.TaskID]*core.Task{1: m.state.Tasks[1].Clone()}}
	_, err := core.Decide(trial, core.Command{At: time.Now(), By: core.ByAgent("devdas"), Task: 1, Do: core.Report{
		Drop: name, Dropped: time.Now(), Status: r.status, Steps: r.steps, Reason: r.reason, Result: r.result,
	}})
	var refused *core.Refused
	if errors.As(err, &refused) {
		m.fate[name] = inbox.Class(refused.Class)
		return
	}
	m.fate[name], m.state = "", trial
}

// TestUpdatesAgainstModel drops random updates while the board fails at random
// and the injector is restarted at random, and holds what came of it against
// the model.
func TestUpdatesAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(crashtest.Fewer(6)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			w := newWorld(t, func(o *boardtest.Options) { o.Quirks.RefuseMultiRow = seed%2 == 0 })
			titles := []string{"same", "same", "x", "same", "y"}
			w.create(1, "A", titles...)
			w.sweepTo(1, 0, 0)
			w.dispatch(1)
			m := &model{state: &core.State{Tasks: map[pipeline.TaskID]*core.Task{1: w.task(1)}}, fate: map[string]inbox.Class{}}
			for range 15 {
				u := randomReport(random)
				name := w.update(1, u)
				m.apply(name, u)
				w.Faults.Next(updateMethod, randomFault(random), randomFault(random))
				w.Faults.Next(listMethod, randomFault(random))
				if random.IntN(3) == 0 {
					w.restart()
				}
				if random.IntN(2) == 0 {
					w.sweep()
				}
				w.clock.Advance(time.Duration(random.IntN(8000)) * time.Millisecond)
			}
			w.heal(t, 0, seed%3 == 0, func() {})
			row, want, done := w.row(1), m.state.Tasks[1], 0
			for i, s := range w.steps(1) {
				if s.StepDone() != want.Steps[i].Done {
					t.Errorf("step %d is done: %t, in the model %t", i+1, s.StepDone(), want.Steps[i].Done)
				}
				if s.StepDone() {
					done++
				}
			}
			if row.Status != want.Status || row.Reason != want.Reason || row.Result != want.Result {
				t.Errorf("row %+v\nmodel %+v", row, want)
			}
			remaining, percent := row.Derived[pipeline.FieldRemaining], row.Derived[pipeline.FieldCompletion]
			if remaining != fmt.Sprint(len(titles)-done) || percent != fmt.Sprint(100*done/len(titles)) {
				t.Errorf("%v remaining, %v %% with %d done", remaining, percent, done)
			}
			for name, class := range m.fate {
				if class == "" {
					if r := w.processed(name); r.SkippedDuplicate {
						t.Errorf("%s: %+v", name, r)
					}
				} else {
					w.failed(name, class)
				}
			}
		})
	}
}

func randomReport(random *rand.Rand) report {
	steps := []string{"same", "x", "y", "SAME", "3", "nonsense"}
	r := report{result: fmt.Sprint("result ", random.IntN(1000))}
	for range random.IntN(3) {
		r.steps = append(r.steps, steps[random.IntN(len(steps))])
	}
	switch random.IntN(12) {
	case 0, 1, 2:
		r.status = pipeline.InProgress
	case 3, 4:
		r.status, r.reason = pipeline.Blocked, fmt.Sprint("reason ", random.IntN(1000))
	case 5:
		r.status = pipeline.AgentDone
	}
	return r
}

func randomFault(random *rand.Rand) boardtest.Fault {
	faults := []func() boardtest.Fault{boardtest.Pass, boardtest.Pass, boardtest.Pass, boardtest.Reset, boardtest.ApplyThenReset, boardtest.ApplyThenHalf,
		func() boardtest.Fault { return boardtest.ApplyThenStatus(502) }, func() boardtest.Fault { return boardtest.RateLimited("2") },
		func() boardtest.Fault { return boardtest.ErrorCode("internal_error") }}
	return faults[random.IntN(len(faults))]()
}
