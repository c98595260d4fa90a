package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"otm/core"
	"otm/internal/crash"
	"otm/pipeline"
)

// Do carries commands out, see core.Store.
func (s *Store) Do(ctx context.Context, commands ...core.Command) ([]core.Outcome, error) {
	d, err := s.durabilityOf(ctx, commands)
	if err != nil {
		return nil, err
	}
	var outcomes []core.Outcome
	err = s.write(ctx, d, func(t tx) error {
		w := &work{tx: t, lock: s.db.forUpdate()}
		var err error
		if err = w.load(commands); err != nil {
			return err
		}
		if outcomes, err = w.decide(commands); err != nil {
			return err
		}
		return w.save()
	})
	if err != nil {
		return nil, err
	}
	// If we crash here, the same commands again find that they were carried out.
	crash.Point("store.done")
	return outcomes, nil
}

// durabilityOf returns what commands must survive. What the board shows by our own
// writes is found again: after a power failure the same cells are written once more. But
// a row that was made must not be made again.
func (s *Store) durabilityOf(ctx context.Context, commands []core.Command) (durability, error) {
	var shown []pipeline.TaskID
	for _, c := range commands {
		if w, ok := c.Do.(core.Written); !ok || w.Row != "" {
			return synced, nil
		}
		shown = append(shown, c.Task)
	}
	makes, err := reading(ctx, s, func(t tx) (bool, error) { return anyWithoutRows(t, shown) })
	return durability(makes), err
}

// work is a transaction that carries commands out. It decides in memory, and writes
// afterwards: a command that is refused, or panics, has written nothing.
type work struct {
	tx       tx
	lock     string               // ends the queries of states
	now      time.Time            // the latest time of a command
	before   core.State           // as it was, without incidents
	state    core.State           // as it is
	events   []core.Event         // of all commands
	imported []core.Done          // commands from before the store, some of which may be known
	done     map[string]core.Done // the commands that are carried out now, by id
}

// load reads the states that the commands concern, in an order that all transactions
// share, so that no two wait for each other.
func (w *work) load(commands []core.Command) error {
	w.state = core.State{Tasks: map[pipeline.TaskID]*core.Task{}, Agents: map[string]*core.AgentState{}}
	w.done = map[string]core.Done{}
	ids, names := map[pipeline.TaskID]bool{}, map[string]bool{}
	for _, c := range commands {
		if id, needs := core.IncidentsOf(c.Do); needs {
			if err := w.loadIncidents(id, c.At.Add(-core.IncidentAgain)); err != nil {
				return err
			}
		}
		ids[c.Task], names[pipeline.FoldName(c.Agent)] = true, true
		for _, id := range c.Also {
			ids[id] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		t, err := loadTask(w.tx, id, w.lock)
		if err != nil {
			return err
		}
		if t != nil {
			w.state.Tasks[id] = t
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, err := loadAgent(w.tx, name, w.lock)
		if err != nil {
			return err
		}
		if a != nil {
			w.state.Agents[name] = a
		}
	}
	w.before = core.State{Tasks: maps.Clone(w.state.Tasks), Agents: maps.Clone(w.state.Agents), LastIncident: w.state.LastIncident}
	return nil
}

// loadIncidents reads the incidents that stand or stood since a time, and the one of an id.
func (w *work) loadIncidents(id int64, since time.Time) error {
	if err := w.tx.QueryRow("SELECT coalesce(max(id), 0) FROM incidents").Scan(&w.state.LastIncident); err != nil {
		return err
	}
	all, err := loadIncidents(w.tx, core.IncidentFilter{Since: since}, w.lock)
	if err == nil && id != 0 {
		var one []*core.Incident
		one, err = loadIncidents(w.tx, core.IncidentFilter{IDs: []int64{id}}, w.lock)
		all = append(all, one...)
	}
	w.state.Incidents = map[int64]*core.Incident{}
	for _, i := range all {
		w.state.Incidents[i.ID] = i
	}
	return err
}

// decide carries the commands out in memory, and numbers the events.
func (w *work) decide(commands []core.Command) ([]core.Outcome, error) {
	outcomes := make([]core.Outcome, len(commands))
	ends := make([]int, len(commands)) // of the events of each command, in w.events
	for i, c := range commands {
		c.At = c.At.Round(0).UTC()
		if c.At.After(w.now) {
			w.now = c.At
		}
		o := &outcomes[i]
		var err error
		if o.Before, o.Err, err = w.repeated(&c); err != nil {
			return nil, err
		}
		if !o.Before && o.Err == nil {
			o.Err = w.carryOut(c)
		}
		if t := w.state.Tasks[c.Task]; t != nil {
			o.Task = t.Clone()
		}
		ends[i] = len(w.events)
	}
	if err := enumerate(w.tx, w.events); err != nil {
		return nil, err
	}
	begin := 0
	for i, end := range ends {
		outcomes[i].Events = w.events[begin:end:end]
		begin = end
	}
	return outcomes, nil
}

// repeated reports whether a command of this id was carried out before. The error
// refused says that it was another one.
func (w *work) repeated(c *core.Command) (before bool, refused, err error) {
	if c.ID == "" {
		return false, nil, nil
	}
	d, ok := w.done[c.ID]
	if !ok {
		if d, ok, err = loadDone(w.tx, c.ID); !ok || err != nil {
			return false, nil, err
		}
	}
	if d.Task != c.Task || c.Sum != "" && d.Sum != "" && c.Sum != d.Sum {
		return false, &core.Refused{Rule: core.RuleOtherDrop, Class: core.Conflict, Task: d.Task, By: c.By, Drop: d.Drop}, nil
	}
	return true, nil, nil
}

// carryOut decides one command on a copy of its states, which it keeps if the command
// is not refused.
func (w *work) carryOut(c core.Command) error {
	trial := core.State{Tasks: map[pipeline.TaskID]*core.Task{}, Agents: map[string]*core.AgentState{}}
	for _, id := range append([]pipeline.TaskID{c.Task}, c.Also...) {
		if t := w.state.Tasks[id]; t != nil {
			trial.Tasks[id] = t.Clone()
		}
	}
	name := pipeline.FoldName(c.Agent)
	if a := w.state.Agents[name]; a != nil {
		trial.Agents[name] = a.Clone()
	}
	trial.Incidents, trial.LastIncident = maps.Clone(w.state.Incidents), w.state.LastIncident
	events, err := core.Decide(&trial, c)
	if err != nil {
		return err
	}
	maps.Copy(w.state.Tasks, trial.Tasks)
	maps.Copy(w.state.Agents, trial.Agents)
	w.state.Incidents, w.state.LastIncident = trial.Incidents, trial.LastIncident
	w.events = append(w.events, events...)
	if c.ID != "" {
		w.done[c.ID] = core.Done{ID: c.ID, Task: c.Task, At: c.At, Sum: c.Sum, Drop: dropOf(c.Do)}
	}
	if i, ok := c.Do.(core.Import); ok {
		w.imported = append(w.imported, i.Did...)
		if len(events) == 0 {
			return nil
		}
		for _, d := range i.Did { // what the former format carried out is not carried out again
			w.done[d.ID] = d
		}
	}
	return nil
}

// dropOf returns the name of the file that asked for an action; "": none did.
func dropOf(a core.Action) string {
	switch a := a.(type) {
	case core.Request:
		return a.Drop
	case core.Report:
		return a.Drop
	}
	return ""
}

// save writes what the commands changed.
func (w *work) save() error {
	if err := saveEvents(w.tx, w.events); err != nil {
		return err
	}
	tasks, agents, incidents := map[pipeline.TaskID]bool{}, map[string]bool{}, map[int64]bool{}
	for i := range w.events {
		e := &w.events[i]
		if id := e.IncidentOf(); id != 0 {
			incidents[id] = true
			continue
		}
		if _, ok := e.Data.(core.AgentChanged); ok {
			agents[pipeline.FoldName(e.Agent)] = true
		}
		tasks[e.Task] = true
	}
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		if id == 0 {
			continue
		}
		was, is := w.before.Tasks[id], w.state.Tasks[id]
		if err := saveTask(w.tx, was, is); err != nil {
			return err
		}
		if err := enqueue(w.tx, w.now, was, is); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if err := rowOfAgent(name, w.state.Agents[name]).save(w.tx, w.before.Agents[name] != nil); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(incidents)) {
		if err := rowOfIncident(w.state.Incidents[id]).save(w.tx, id <= w.before.LastIncident); err != nil {
			return err
		}
	}
	for _, d := range w.imported {
		_, known, err := loadDone(w.tx, d.ID)
		if err != nil {
			return err
		}
		if _, now := w.done[d.ID]; !known && !now && d.ID != "" {
			w.done[d.ID] = d
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.done)) {
		if err := saveDone(w.tx, w.done[id]); err != nil {
			return err
		}
	}
	return nil
}
