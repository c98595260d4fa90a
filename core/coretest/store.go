// Package coretest has a store of tasks in memory, for tests of what works on a
// core.Store. It keeps to the contract of package store, without a disk.
package coretest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"otm/core"
	"otm/pipeline"
)

// Store implements core.Store and core.Outbox in memory. The zero value is empty.
type Store struct {
	// Before and After are called around each write. An error of Before prevents the
	// write; an error of After loses its answer. nil: nothing happens.
	Before, After func() error

	mu     sync.Mutex // guards what follows
	state  core.State
	events []core.Event
	done   map[string]core.Done
	outbox map[effect]*pending
	writes int
}

type effect struct {
	task pipeline.TaskID
	sink core.Sink
}

type pending struct {
	core.Pending
	owner string
	until time.Time // the end of the lease; zero: it is not leased
}

// Writes is how many transactions wrote.
func (s *Store) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// write makes one transaction.
func (s *Store) write(ctx context.Context, f func()) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if s.Before != nil {
		if err := s.Before(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.writes++
	f()
	s.mu.Unlock()
	if s.After != nil {
		return s.After()
	}
	return nil
}

// Do implements core.Store.
func (s *Store) Do(ctx context.Context, commands ...core.Command) (outcomes []core.Outcome, err error) {
	err = s.write(ctx, func() {
		for _, c := range commands {
			outcomes = append(outcomes, s.do(c))
		}
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

func (s *Store) do(c core.Command) core.Outcome {
	if done, before := s.done[c.ID]; before && c.ID != "" {
		o := core.Outcome{Before: true}
		if done.Task != c.Task || c.Sum != "" && done.Sum != "" && done.Sum != c.Sum {
			o.Err = &core.Refused{Rule: core.RuleOtherDrop, Class: core.Conflict, Task: c.Task, Drop: done.Drop}
		}
		if t := s.state.Tasks[done.Task]; t != nil {
			o.Task = t.Clone()
		}
		return o
	}
	on := core.State{Tasks: map[pipeline.TaskID]*core.Task{}, Agents: map[string]*core.AgentState{}}
	for _, id := range append([]pipeline.TaskID{c.Task}, c.Also...) {
		if t := s.state.Tasks[id]; t != nil {
			on.Tasks[id] = t.Clone()
		}
	}
	agent := pipeline.FoldName(c.Agent)
	if a := s.state.Agents[agent]; a != nil {
		on.Agents[agent] = a.Clone()
	}
	on.Incidents, on.LastIncident = maps.Clone(s.state.Incidents), s.state.LastIncident
	events, err := core.Decide(&on, c)
	if err != nil {
		o := core.Outcome{Err: err}
		if t := s.state.Tasks[c.Task]; t != nil {
			o.Task = t.Clone()
		}
		return o
	}
	for i := range events {
		events[i].Seq = int64(len(s.events) + 1)
		s.events = append(s.events, events[i])
	}
	s.commit(&c, &on)
	o := core.Outcome{Events: events}
	if t := s.state.Tasks[c.Task]; t != nil {
		o.Task = t.Clone()
	}
	return o
}

func (s *Store) commit(c *core.Command, on *core.State) {
	if s.done == nil {
		s.done, s.outbox = map[string]core.Done{}, map[effect]*pending{}
		s.state = core.State{Tasks: map[pipeline.TaskID]*core.Task{}, Agents: map[string]*core.AgentState{}}
	}
	for id, t := range on.Tasks {
		before := s.state.Tasks[id]
		s.state.Tasks[id] = t
		if before != nil && before.Version == t.Version {
			continue
		}
		stale, settled := core.Effects(before, t)
		for _, sink := range stale {
			key := effect{id, sink}
			if p := s.outbox[key]; p != nil {
				p.Wanted = t.Version
			} else {
				s.outbox[key] = &pending{Pending: core.Pending{Task: id, Sink: sink, Wanted: t.Version, Since: c.At, Due: c.At}}
			}
		}
		for _, sink := range settled {
			delete(s.outbox, effect{id, sink})
		}
	}
	maps.Copy(s.state.Agents, on.Agents)
	s.state.Incidents, s.state.LastIncident = on.Incidents, on.LastIncident
	if c.ID != "" {
		s.done[c.ID] = core.Done{Task: c.Task, At: c.At, Sum: c.Sum}
	}
}

// Lose forgets a task and its effects, as a store does that was replaced by an older
// backup.
func (s *Store) Lose(id pipeline.TaskID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.state.Tasks, id)
	for _, sink := range core.Sinks {
		delete(s.outbox, effect{id, sink})
	}
}

// Task implements core.Reader.
func (s *Store) Task(_ context.Context, id pipeline.TaskID) (*core.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.state.Tasks[id]; t != nil {
		return t.Clone(), nil
	}
	return nil, core.ErrNoTask
}

// Tasks implements core.Reader.
func (s *Store) Tasks(ctx context.Context, f core.Filter) ([]*core.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	var out []*core.Task
	for _, id := range slices.Sorted(maps.Keys(s.state.Tasks)) {
		if t := s.state.Tasks[id]; matches(t, &f) {
			out = append(out, t.Clone())
		}
	}
	return out, nil
}

func matches(t *core.Task, f *core.Filter) bool {
	onBoard := t.RowID != "" && t.GoneAt.IsZero() && !t.Shown.Gone
	switch {
	case len(f.IDs) > 0 && !slices.Contains(f.IDs, t.ID),
		len(f.Rows) > 0 && (t.RowID == "" || !slices.Contains(f.Rows, t.RowID)),
		f.Live && t.Status.Over() && !onBoard,
		f.Woken != nil && !slices.ContainsFunc(t.Wakes, func(w core.Wake) bool {
			return !w.AskedAt.Before(f.WokenFrom) && slices.ContainsFunc(f.Woken, func(name string) bool { return core.SameAgent(name, w.Agent) })
		}),
		f.Agent != "" && !core.SameAgent(t.Agent, f.Agent) && (t.Dispatch == nil || !core.SameAgent(t.Dispatch.Agent, f.Agent)):
		return false
	}
	return true
}

// TaskOfWake implements core.Reader.
func (s *Store) TaskOfWake(_ context.Context, key string) (pipeline.TaskID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.state.Tasks {
		if t.WakeNamed(key) != nil {
			return id, nil
		}
	}
	return 0, core.ErrNoTask
}

// Agent implements core.Reader.
func (s *Store) Agent(_ context.Context, name string) (*core.AgentState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.state.Agents[pipeline.FoldName(name)]; a != nil {
		return a.Clone(), nil
	}
	return &core.AgentState{Agent: name}, nil
}

// AgentStates implements core.Reader.
func (s *Store) AgentStates(context.Context) (map[string]*core.AgentState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	states := map[string]*core.AgentState{}
	for name, a := range s.state.Agents {
		states[name] = a.Clone()
	}
	return states, nil
}

// Incidents implements core.Reader.
func (s *Store) Incidents(_ context.Context, f core.IncidentFilter) ([]*core.Incident, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*core.Incident
	for id, i := range s.state.Incidents {
		if (f.IDs == nil || slices.Contains(f.IDs, id)) && (!f.Open || i.Open()) && (i.Open() || !i.ClosedAt.Before(f.Since)) {
			out = append(out, i)
		}
	}
	core.SortIncidents(out)
	return out, nil
}

// LastEvent implements core.Reader.
func (s *Store) LastEvent(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.events)), nil
}

// Events implements core.Reader.
func (s *Store) Events(_ context.Context, f core.EventFilter) ([]core.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []core.Event
	for _, e := range s.events {
		if e.Seq > f.After && (f.Task == 0 || e.Task == f.Task) && (f.Agent == "" || core.SameAgent(e.Agent, f.Agent)) &&
			(len(f.Types) == 0 || slices.Contains(f.Types, e.Type())) && !e.At.Before(f.Since) && (f.Limit == 0 || len(out) < f.Limit) {
			out = append(out, e)
		}
	}
	if f.Last && len(out) > 0 {
		out = out[len(out)-1:]
	}
	return out, nil
}

// Did implements core.Reader.
func (s *Store) Did(_ context.Context, id string) (core.Done, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.done[id]
	return d, ok, nil
}

// Rebuilt replays all events into an empty state and returns its tasks, by id.
func (s *Store) Rebuilt() map[pipeline.TaskID]*core.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	var state core.State
	for i := range s.events {
		core.Apply(&state, &s.events[i])
	}
	return state.Tasks
}

// Pending implements core.Outbox.
func (s *Store) Pending(_ context.Context, sink core.Sink, tasks ...pipeline.TaskID) ([]core.Pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []core.Pending
	for key, p := range s.outbox {
		if (sink == "" || key.sink == sink) && (len(tasks) == 0 || slices.Contains(tasks, key.task)) {
			out = append(out, p.Pending)
		}
	}
	slices.SortFunc(out, func(a, b core.Pending) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Task, b.Task), cmp.Compare(slices.Index(core.Sinks, a.Sink), slices.Index(core.Sinks, b.Sink)))
	})
	return out, nil
}

// Lease implements core.Outbox, but for the order of sinks: it leases the effects of a
// sink also where those of an earlier one are open. An effect whose former lease was
// not given back has AskedAt: its owner may have died in a call.
func (s *Store) Lease(ctx context.Context, sink core.Sink, owner string, now time.Time, lease time.Duration, limit int, tasks ...pipeline.TaskID) ([]core.Pending, error) {
	all, err := s.Pending(ctx, sink, tasks...)
	if err != nil {
		return nil, err
	}
	var out []core.Pending
	err = s.write(ctx, func() {
		for _, p := range all {
			held := s.outbox[effect{p.Task, p.Sink}]
			if held == nil || len(tasks) == 0 && held.Due.After(now) || held.owner != owner && held.until.After(now) || limit > 0 && len(out) >= limit {
				continue
			}
			if !held.until.IsZero() {
				asked := held.until
				if asked.After(now) {
					asked = now
				}
				if asked.After(held.AskedAt) {
					held.AskedAt = asked
				}
			}
			held.owner, held.until = owner, now.Add(lease)
			out = append(out, held.Pending)
		}
	})
	return out, err
}

// Delivered implements core.Outbox.
func (s *Store) Delivered(ctx context.Context, done ...core.Pending) error {
	return s.write(ctx, func() {
		for _, p := range done {
			key := effect{p.Task, p.Sink}
			if held := s.outbox[key]; held != nil && held.Wanted == p.Wanted {
				delete(s.outbox, key)
			} else if held != nil {
				held.owner, held.until, held.AskedAt = "", time.Time{}, time.Time{}
			}
		}
	})
}

// Postponed implements core.Outbox.
func (s *Store) Postponed(ctx context.Context, later ...core.Pending) error {
	return s.write(ctx, func() {
		for _, p := range later {
			if held := s.outbox[effect{p.Task, p.Sink}]; held != nil {
				held.Due, held.Tries, held.AskedAt, held.Error, held.Code = p.Due, p.Tries, p.AskedAt, p.Error, p.Code
				held.owner, held.until = "", time.Time{}
			}
		}
	})
}

// Request asks for a task with the given steps, as the injector does. It panics where
// that is refused.
func (s *Store) Request(ctx context.Context, at time.Time, task pipeline.Task) {
	id := fmt.Sprint("drop of ", task.ID)
	outcomes, err := s.Do(ctx, core.Command{ID: id, At: at, By: core.Component("otm-injector"), Task: task.ID, Do: core.Request{Task: task, Drop: id, CreatedAt: at}})
	if err == nil {
		err = outcomes[0].Err
	}
	if err != nil {
		panic(err)
	}
}
