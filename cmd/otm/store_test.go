package main

import (
	"context"
	"testing"

	"otm/core"
	"otm/core/store"
	"otm/internal/view"
	"otm/pipeline"
)

// storeOf opens the store of a data directory until the test ends. url is that of
// PostgreSQL, if it is there.
func storeOf(t *testing.T, dir, url string) tasks {
	t.Helper()
	s, err := store.Open(t.Context(), dir, store.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return tasks{s}
}

// tasks reads the tasks of a store.
type tasks struct{ *store.Store }

// load returns a task; an empty one if it does not exist.
func (s tasks) load(id pipeline.TaskID) *core.Task {
	t, err := s.Task(context.Background(), id)
	if err != nil {
		return &core.Task{}
	}
	return t
}

// all returns all tasks, by their ids.
func (s tasks) all() map[pipeline.TaskID]*core.Task {
	all := map[pipeline.TaskID]*core.Task{}
	for _, t := range must(s.Tasks(context.Background(), core.Filter{})) {
		all[t.ID] = t
	}
	return all
}

// events returns what happened to a task, oldest first.
func (s tasks) events(id pipeline.TaskID) []core.Event {
	return must(s.Events(context.Background(), core.EventFilter{Task: id}))
}

// history returns the same as people read it.
func (s tasks) history(id pipeline.TaskID) []view.Line { return view.Lines(s.events(id)) }

// reports returns the files of the reports that took effect on a task, each as often as
// it did.
func (s tasks) reports(id pipeline.TaskID) (drops []string) {
	for _, e := range s.events(id) {
		if noted, ok := e.Data.(core.Noted); ok {
			drops = append(drops, noted.Drop)
		}
	}
	return drops
}
