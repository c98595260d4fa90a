package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"otm/core"
	"otm/internal/leak"
	"otm/pipeline"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

var (
	t0       = time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	injector = core.Component("otm-injector")
)

// openIn opens the SQLite store of a directory.
func openIn(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(context.Background(), dir, Options{BusyTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// request asks for a task with two steps.
func request(id pipeline.TaskID, drop string) core.Command {
	return core.Command{ID: drop, Sum: "sum of " + drop, At: t0, By: injector, Task: id, Do: core.Request{
		Task: pipeline.Task{ID: id, Title: fmt.Sprint("task ", int(id)), Agent: "Dev Das", Priority: pipeline.Normal, Type: pipeline.Action, Steps: []string{"one", "two"}},
		Drop: drop + ".json", CreatedAt: t0,
	}}
}

// written says that the board shows a task as it is.
func written(t *core.Task) core.Command {
	b := core.Written{Shown: t.View()}
	if t.RowID == "" {
		b.Row = "Rec" + t.ID.String()
	}
	for _, s := range t.Steps {
		b.Steps = append(b.Steps, core.WrittenStep{Step: s.ID, Row: fmt.Sprint("Step", t.ID, s.ID), Shown: core.StepShown{Title: s.Title, Done: s.Done}})
	}
	return core.Command{At: t0.Add(time.Second), By: injector, Task: t.ID, Do: b}
}

// do carries one command out, which must not be refused.
func do(t testing.TB, s *Store, c core.Command) core.Outcome {
	t.Helper()
	o, err := s.Do(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if o[0].Err != nil {
		t.Fatalf("%T: %v", c.Do, o[0].Err)
	}
	return o[0]
}

func TestRequest(t *testing.T) {
	t.Parallel()
	s := openIn(t, t.TempDir())
	o := do(t, s, request(1, "a"))
	if len(o.Events) != 1 || o.Events[0].Seq != 1 || o.Task.Title != "task 1" {
		t.Errorf("the outcome is %+v", o)
	}
	got, err := s.Task(t.Context(), 1)
	if err != nil || got.Title != "task 1" || got.Version != 1 {
		t.Errorf("the task is %+v, %v", got, err)
	}
	if _, err := s.Task(t.Context(), 2); !errors.Is(err, core.ErrNoTask) {
		t.Errorf("a task that does not exist: %v", err)
	}
	p, err := s.Pending(t.Context(), "")
	if err != nil || len(p) != 2 {
		t.Errorf("pending: %+v, %v", p, err)
	}
	leased, err := s.Lease(t.Context(), core.SinkRender, "me", t0, time.Minute, 0)
	if err != nil || len(leased) != 1 {
		t.Fatalf("leased: %+v, %v", leased, err)
	}
	if early, err := s.Lease(t.Context(), core.SinkBoard, "me", t0, time.Minute, 0); err != nil || len(early) > 0 {
		t.Fatalf("leased before the rendering: %+v, %v", early, err)
	}
	if err := s.Delivered(t.Context(), leased...); err != nil {
		t.Fatal(err)
	}
	leased, err = s.Lease(t.Context(), core.SinkBoard, "me", t0, time.Minute, 0)
	if err != nil || len(leased) != 1 {
		t.Fatalf("leased: %+v, %v", leased, err)
	}
	do(t, s, written(o.Task))
	if p, err = s.Pending(t.Context(), ""); err != nil || len(p) != 0 {
		t.Errorf("pending: %+v, %v", p, err)
	}
	if err := s.Delivered(t.Context(), leased...); err != nil {
		t.Fatal(err)
	}
	again, err := s.Do(t.Context(), request(1, "a"))
	if err != nil || !again[0].Before || again[0].Task.RowID == "" {
		t.Errorf("again: %+v, %v", again, err)
	}
	tasks, err := s.Tasks(t.Context(), core.Filter{IDs: []pipeline.TaskID{1, 2, 3}, Rows: []string{"RecT-00001"}, Live: true, Agent: "dev_das"})
	if err != nil || len(tasks) != 1 {
		t.Errorf("tasks: %+v, %v", tasks, err)
	}
	events, err := s.Events(t.Context(), core.EventFilter{Task: 1, Agent: "dev das", Types: []string{"BoardWritten", "TaskMoved", "Noted"}, Since: t0, Limit: 3})
	if err != nil || len(events) != 1 {
		t.Errorf("events: %+v, %v", events, err)
	}
}
