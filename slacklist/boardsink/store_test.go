package boardsink

import (
	"context"
	"slices"
	"testing"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/core/store/storetest"
	"otm/internal/board/boardtest"
	"otm/pipeline"
)

// runs delivers for an outbox, in batches.
type runs struct{ w *world }

func (r runs) Deliver(ctx context.Context, effects []core.Pending) []outbox.Result {
	b, err := r.w.client.Begin(ctx)
	if err != nil {
		return slices.Repeat([]outbox.Result{{Err: err, Stop: true}}, len(effects))
	}
	defer b.End()
	return r.w.sink.Deliver(ctx, b, effects)
}

// The sink on the real store, behind the real outbox: many tasks, a lost answer, a
// person's edit, and a batch that is over again and again.
func TestOnTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := storetest.Open(t)
	over := 0
	w.client = boardtest.Disturb(w.client, func(d *boardtest.Disturbed) {
		d.IsOver = func() bool { over++; return over%40 == 0 }
	})
	w.sink.Store, w.differ.Store = s, s
	runner := &outbox.Runner{Outbox: s, Now: w.clock.Now, Sinks: map[core.Sink]outbox.Deliverer{
		core.SinkRender: &outbox.Render{Dir: w.dir, Store: s}, core.SinkBoard: runs{w},
	}}
	const n = 120
	for id := range pipeline.TaskID(n) {
		_, err := s.Do(t.Context(), core.Command{ID: titleOf(id + 1), At: w.clock.Now(), By: core.Component("otm-injector"), Task: id + 1, Do: core.Request{
			Task: pipeline.Task{ID: id + 1, Title: titleOf(id + 1), Agent: "devdas", Priority: pipeline.Normal, Type: pipeline.Action, Steps: []string{"x"}}, CreatedAt: w.clock.Now(),
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 60 {
		w.Faults.Next(apiCreate, boardtest.Pass())
	}
	w.Faults.Next(apiCreate, boardtest.ApplyThenReset())
	for range 4 {
		if _, err := runner.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(20 * time.Second)
	}
	if left, err := runner.Run(t.Context()); err != nil || len(left) > 0 {
		t.Fatalf("left %v, %v", left, err)
	}
	if rows := w.rows(); len(rows) != 2*n {
		t.Errorf("%d rows", len(rows))
	}
	task, err := s.Task(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	w.person(task.RowID, w.statusCell(pipeline.Blocked))
	if _, err := s.Do(t.Context(), core.Command{At: w.clock.Now(), By: core.ByPerson("Page"), Task: 7, Do: core.Edits{Title: new("New")}}); err != nil {
		t.Fatal(err)
	}
	if left, err := runner.Run(t.Context(), 7); err != nil || len(left) > 0 {
		t.Fatalf("left %v, %v", left, err)
	}
	if row := w.row(7); row.Title != "New" || row.Status != pipeline.Blocked {
		t.Errorf("row %+v", row)
	}
	if task, err = s.Task(t.Context(), 7); err != nil || task.Status != pipeline.Blocked || task.Unshown() {
		t.Errorf("task %+v, %v", task, err)
	}
}
