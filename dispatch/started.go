package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"otm/core"
	"otm/pipeline"
)

// Start is something that started.
type Start struct {
	What    string // core.StartedDispatcher, core.StartedGateway
	Version string
	// Lost is when a gateway came back that forgets its runs: those that it accepted before
	// are over. Zero: no run is known to be.
	Lost time.Time
}

// noteStarts notes what started since the last pass, and what is there. If we crash before,
// the start of the next dispatcher notes the same.
func (rn *run) noteStarts(ctx context.Context) error {
	if len(rn.Starts) == 0 {
		return nil
	}
	if err := rn.load(ctx); err != nil {
		return err
	}
	last, _, err := core.EventsAtHand(ctx, rn.Store, core.EventFilter{Types: []string{"Started"}, Last: true})
	if err != nil {
		return err
	}
	known := rn.Agents.Names()
	before := known // at the first start of all, nobody is new
	if len(last) > 0 {
		before = last[0].Data.(core.Started).Agents
	}
	var commands []core.Command
	for _, start := range rn.Starts {
		s := core.Started{
			What: start.What, Version: start.Version, Agents: known,
			Added: without(known, before), Removed: without(before, known),
		}
		if s.Lost, err = rn.endLost(ctx, start.Lost); err != nil {
			return err
		}
		rn.count(&s)
		commands = append(commands, core.Command{At: rn.Now(), By: by(), Do: core.NoteStart{Started: s}})
		before = known
		rn.Log.Info("noted a start", "of", s.What, "version", s.Version, "runs", s.Runs, "wakes", s.Wakes, "added", s.Added, "removed", s.Removed)
	}
	if _, err := rn.Store.Do(ctx, commands...); err != nil {
		return err
	}
	rn.Starts = nil
	return nil
}

// endLost ends the runs that a gateway dropped which came back at a given time, and returns
// their keys. The open runs of their tasks are judged as after every end: once the reports
// that stand in the inbox are applied.
func (rn *run) endLost(ctx context.Context, back time.Time) (lost []string, err error) {
	if back.IsZero() {
		return nil, nil
	}
	for _, t := range rn.tasks {
		for i := range t.Wakes {
			w := &t.Wakes[i]
			if w.Via != pipeline.TriggerGateway || !outstanding(w) || w.Accepted.IsZero() || !w.Accepted.Before(back) {
				continue
			}
			end := core.EndStart{Key: w.Key, Ended: back, Outcome: core.OutcomeFailed, Detail: "the gateway was restarted, and forgot it"}
			if _, err := RecordEnd(ctx, rn.Store, end, rn.Now()); err != nil {
				return nil, err
			}
			lost = append(lost, w.Key)
		}
	}
	return lost, nil
}

// count adds the tasks, runs and wakes that are there to a start.
func (rn *run) count(s *core.Started) {
	for _, t := range rn.tasks {
		switch t.Status {
		case pipeline.InProgress, pipeline.Assigned, pipeline.Pending:
			if s.Tasks == nil {
				s.Tasks = map[pipeline.Status]int{}
			}
			s.Tasks[t.Status]++
		}
		if r := t.Runs.Open(); r != nil {
			s.Runs = append(s.Runs, fmt.Sprintf("%v.%d", t.ID, r.Number))
		}
		if n := len(t.Wakes); n > 0 && outstanding(&t.Wakes[n-1]) && !slices.Contains(s.Lost, t.Wakes[n-1].Key) {
			s.Wakes = append(s.Wakes, t.Wakes[n-1].Key)
		}
	}
}

// outstanding reports whether nobody knows how the run of a wake ended.
func outstanding(w *core.Wake) bool {
	return w.MaybeQueued() && w.Ended.IsZero() && w.Unknown.IsZero()
}

func without(names, others []string) []string {
	return pipeline.Filter(names, func(name string) bool {
		return !slices.ContainsFunc(others, func(o string) bool { return core.SameAgent(o, name) })
	})
}
