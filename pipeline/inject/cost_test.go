package inject

import (
	"context"
	"fmt"
	"testing"

	"otm/core"
	"otm/pipeline"
)

// countingStore counts the tasks that are read.
type countingStore struct {
	core.Store
	read int
}

func (s *countingStore) Tasks(ctx context.Context, f core.Filter) ([]*core.Task, error) {
	tasks, err := s.Store.Tasks(ctx, f)
	s.read += len(tasks)
	return tasks, err
}

func (s *countingStore) Task(ctx context.Context, id pipeline.TaskID) (*core.Task, error) {
	s.read++
	return s.Store.Task(ctx, id)
}

// What a drop costs does not grow with the tasks that are there: a sweep reads all of them
// once, for the first look at the board.
func TestReadsOfASweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := &countingStore{Store: w.store}
	w.eng.Store = counting
	drop := func(n int) (read int) {
		for range n {
			id := pipeline.TaskID(w.drops + 1)
			w.create(id, fmt.Sprint("task ", id))
		}
		counting.read = 0
		w.sweepTo(n, 0, 0)
		return counting.read
	}
	of10 := drop(10)
	drop(30)
	if again := drop(10); again > of10+50 {
		t.Errorf("a sweep of 10 drops read %d tasks, and %d once 40 were there", of10, again)
	}
}
