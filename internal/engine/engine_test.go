package engine

import (
	"context"
	"iter"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"otm/core"
	"otm/core/coretest"
	"otm/internal/explain"
	"otm/internal/leak"
	"otm/pipeline"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// world is an engine on a store and a board in memory. It counts the looks that read the
// tasks.
type world struct {
	*coretest.Store
	pipeline.Batch
	rows  []*pipeline.Row
	walk  time.Time
	looks int
}

func (w *world) Tasks(ctx context.Context, f core.Filter) ([]*core.Task, error) {
	if f.Live {
		w.looks++
	}
	return w.Store.Tasks(ctx, f)
}

func (w *world) Begin(context.Context) (pipeline.Batch, error)    { return w, nil }
func (w *world) End() error                                       { return nil }
func (w *world) Rows() iter.Seq[*pipeline.Row]                    { return slices.Values(w.rows) }
func (w *world) StepRows(string) []*pipeline.Row                  { return nil }
func (w *world) WalkAt() time.Time                                { return w.walk }
func (w *world) Fresh(time.Duration) bool                         { return true }
func (w *world) Refresh(context.Context, time.Duration) error     { return nil }
func (w *world) Person(*pipeline.Row) string                      { return "U1" }
func (w *world) TakeOne(context.Context) (pipeline.TaskID, error) { return 0, nil }
func (w *world) Raise(context.Context, ...pipeline.TaskID) error  { return nil }
func (w *world) RaiseAbove(context.Context, pipeline.Batch) error { return nil }

// A look compares the board with the store only if one of them has changed, or something
// on the board is still to come. What it finds is found each time.
func TestLook(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	w := &world{Store: &coretest.Store{}, walk: now}
	e := &Engine{
		Store: w, Outbox: w, Board: w, Counter: w, Agents: pipeline.Agents{{Name: "devdas", Label: "devdas"}}, Times: pipeline.DefaultTimes,
		By: core.Component("otm"), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
	}
	w.rows = []*pipeline.Row{{ID: "Rec1", TaskID: "no id", Title: "x", Assignee: "devdas", Status: pipeline.New}}
	look := func(when string, compares bool) {
		t.Helper()
		before := w.looks
		found, err := e.Look(t.Context(), time.Hour)
		if err != nil || len(found.Findings) != 1 || found.Findings[0].Code != explain.RowNoTaskID {
			t.Errorf("%s: found %+v, %v", when, found, err)
		}
		if compared := w.looks > before; compared != compares {
			t.Errorf("%s: compared %v, want %v", when, compared, compares)
		}
	}
	look("first", true)
	look("nothing changed", false)
	w.walk = now.Add(time.Second)
	look("a walk", true)
	look("nothing changed since the walk", false)
	_, err := w.Do(t.Context(), core.Command{At: now, By: core.Component("otm"), Task: 1, Do: core.Request{
		Task: pipeline.Task{ID: 1, Title: "y", Agent: "devdas", Priority: pipeline.Normal, Type: pipeline.Action, Steps: []string{"a"}}, CreatedAt: now,
	}})
	if err != nil {
		t.Fatal(err)
	}
	look("a command", true)
	look("nothing changed since the command", false)
	w.rows = append(w.rows, &pipeline.Row{ID: "Rec2", Title: "typed just now", Assignee: "devdas", Status: pipeline.New, Updated: now.Unix()})
	w.walk = now.Add(2 * time.Second)
	look("a person is typing", true)
	look("a person is typing still", true)
}
