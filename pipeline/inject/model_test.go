package inject

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// model is what the updates of one task come to where nothing ever fails: each
// applies once, in order, or is refused whole.
type model struct {
	rec    *pipeline.Record
	ticked bool
	fate   map[string]inbox.Class // of each update's file; "": processed
}

func (m *model) apply(name string, u *drop.Update) {
	r, err := decide(m.rec, false, u)
	var refused *refusal
	if errors.As(err, &refused) {
		m.fate[name] = refused.class
		return
	}
	m.fate[name] = ""
	for _, i := range r.Steps {
		m.rec.Steps[i].Done = true
		m.ticked = true
	}
	if r.Status != "" {
		m.rec.Status = r.Status
	}
	if r.Reason != nil {
		m.rec.Reason = *r.Reason
	}
	if r.Result != nil {
		m.rec.Result = *r.Result
	}
}

// TestUpdatesAgainstModel drops random updates while the board fails at random
// and the injector is restarted at random, and holds what came of it against
// the model.
func TestUpdatesAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			w := newWorld(t, func(o *boardtest.Options) { o.Quirks.RefuseMultiRow = seed%2 == 0 })
			titles := []string{"same", "same", "x", "same", "y"}
			w.create(1, "A", titles...)
			w.sweepTo(1, 0, 0)
			w.dispatch(1)
			m := &model{rec: &pipeline.Record{TaskID: 1, Status: pipeline.Assigned}, fate: map[string]inbox.Class{}}
			for _, s := range titles {
				m.rec.Steps = append(m.rec.Steps, pipeline.StepRecord{Title: s})
			}
			for range 15 {
				u := randomReport(random)
				name := w.update(1, u)
				m.apply(name, &drop.Update{ID: name, TaskID: 1, Status: u.status, StepsDone: u.steps, Reason: u.reason, Result: u.result})
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
			row, done := w.row(1), 0
			for i, s := range w.steps(1) {
				if s.StepDone() != m.rec.Steps[i].Done {
					t.Errorf("step %d is done: %t, in the model %t", i+1, s.StepDone(), m.rec.Steps[i].Done)
				}
				if s.StepDone() {
					done++
				}
			}
			if row.Status != m.rec.Status || row.Reason != m.rec.Reason || row.Result != m.rec.Result {
				t.Errorf("row %+v\nmodel %+v", row, m.rec)
			}
			if *row.Remaining != float64(len(titles)-done) || *row.Completion != float64(100*done/len(titles)) {
				t.Errorf("%v remaining, %v %% with %d done", *row.Remaining, *row.Completion, done)
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
