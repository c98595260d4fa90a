package differ

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/core/coretest"
	"otm/internal/explain"
	"otm/pipeline"
)

// run has a differ of its own, with a store, compare the rows of a fake batch.
type run struct {
	*Differ
	store *coretest.Store
	batch *fakeBatch
	log   strings.Builder
	next  pipeline.TaskID
}

func newRun(rows ...*pipeline.Row) *run {
	r := &run{store: &coretest.Store{}, batch: &fakeBatch{rows: rows, walkAt: noon}, next: 100}
	r.Differ = &Differ{
		Store: r.store, Agents: agents, Times: pipeline.DefaultTimes, By: core.Component("otm-dispatcher"), Now: func() time.Time { return noon },
		Log:   slog.New(slog.NewTextHandler(&r.log, nil)),
		NewID: func(context.Context) (pipeline.TaskID, error) { r.next++; return r.next, nil },
	}
	return r
}

func (r *run) run(t *testing.T) Found {
	t.Helper()
	found, err := r.Run(t.Context(), r.batch)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (r *run) tasks(t *testing.T) []*core.Task {
	t.Helper()
	tasks, err := r.store.Tasks(t.Context(), core.Filter{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func (r *run) task(t *testing.T, id pipeline.TaskID) *core.Task {
	t.Helper()
	task, err := r.store.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func typedRow(id string) *pipeline.Row {
	old := noon.Add(-time.Hour).Unix()
	return &pipeline.Row{ID: id, Title: "Fix", Assignee: "Dev Das", Created: old, Updated: old, CreatedBy: "U0ROB", UpdatedBy: "U0ROB"}
}

// A row that a person typed becomes a task, once: the second run finds it by its row,
// whether its Task ID stands there yet or not.
func TestRunAdopts(t *testing.T) {
	t.Parallel()
	r := newRun(typedRow("R1"), &pipeline.Row{ID: "R2", Parent: "R1", Title: "a", Checked: true})
	for n := range 3 {
		found := r.run(t)
		if want := map[bool]int{true: 1}[n == 0]; found.Adopted != want || len(r.tasks(t)) != 1 {
			t.Errorf("run %d: %+v", n, found)
		}
	}
	task := r.task(t, 101)
	if got := fmt.Sprint(task.Title, task.Agent, task.Status, task.Type, task.StatusBy, task.CreatedAt.Equal(noon.Add(-time.Hour)), task.PlainSteps()); got != "FixdevdasnewactionU0ROB true [{a true}]" {
		t.Errorf("task %s", got)
	}
	if !task.Unshown() {
		t.Error("its Task ID is not to be written")
	}
}

// Without a counter, rows wait; with one that fails, they are reported, and others go on.
func TestRunWithoutIDs(t *testing.T) {
	t.Parallel()
	r := newRun(typedRow("R1"), typedRow("R2"))
	r.NewID = nil
	if found := r.run(t); found.Adopted != 0 || len(found.Findings) != 0 {
		t.Errorf("found %+v", found)
	}
	first := true
	r.NewID = func(context.Context) (pipeline.TaskID, error) {
		if first {
			first = false
			return 0, errors.New("counter held")
		}
		return 7, nil
	}
	found := r.run(t)
	if found.Adopted != 1 || len(found.Findings) != 1 || found.Findings[0].Code != explain.RowUnfit || found.Again.IsZero() {
		t.Errorf("found %+v", found)
	}
}

// A row of a lost task shows pending: the task waited for its next run, and is handed out
// again. On a board without dormant a person may have set it aside: that stays.
func TestLostRowIsPending(t *testing.T) {
	t.Parallel()
	for _, bare := range [][]pipeline.Status{nil, {pipeline.Dormant}} {
		r := newRun(&pipeline.Row{ID: "R9", TaskID: "T-00007", Title: "x", Assignee: "devdas", Status: pipeline.Pending, Created: noon.Unix(), Updated: noon.Unix() - 3600})
		r.batch.bare = bare
		r.run(t)
		task, want := r.task(t, 7), pipeline.Pending
		if bare != nil {
			want = pipeline.Dormant
		}
		if task.Status != want || task.Ready(noon) != (bare == nil) {
			t.Errorf("without %v: the task is %s, ready %v", bare, task.Status, task.Ready(noon))
		}
	}
}

// A row of a lost task is taken over, in the order of the create; while that still
// waits in an inbox, the row is left to the injector.
func TestRunTakesOver(t *testing.T) {
	t.Parallel()
	row := typedRow("R1")
	row.TaskID, row.Status, row.CreatedBy, row.UpdatedBy, row.Result, row.Type, row.Priority = "T-00007", pipeline.InProgress, self, self, "r", "action", pipeline.Low
	r := newRun(row)
	for _, title := range []string{"c", "a", "b"} {
		r.batch.rows = append(r.batch.rows, &pipeline.Row{ID: "R" + title, Parent: "R1", Title: title})
	}
	dropped := pipeline.Dropped{Steps: []string{"a", "b", "c"}, Waiting: true}
	r.Drops = func() (map[pipeline.TaskID]pipeline.Dropped, error) {
		return map[pipeline.TaskID]pipeline.Dropped{7: dropped}, nil
	}
	r.run(t)
	if tasks := r.tasks(t); len(tasks) != 0 {
		t.Errorf("tasks %+v", tasks)
	}
	dropped.Waiting = false
	r.run(t)
	task := r.task(t, 7)
	if got := fmt.Sprint(task.Status, task.StepTitles(), task.Result, task.Attempt, " ", task.StatusBy); got != "in_progress[a b c]r3602 otm-dispatcher" {
		t.Errorf("task %s", got)
	}
	if !task.AtWork() || !task.LastHeard().Equal(time.Unix(row.Updated, 0)) {
		t.Errorf("its agent had it: %+v, heard %v", task.Dispatch, task.LastHeard())
	}
	if stale := fmt.Sprint(task.Stale()); stale != "[assigned_at completion subtasks_remaining]" { // the row does not show them
		t.Errorf("stale: %s", stale)
	}
	r.Drops = func() (map[pipeline.TaskID]pipeline.Dropped, error) { return nil, errors.New("unreadable") }
	r.store.Lose(7)
	if _, err := r.Run(t.Context(), r.batch); err == nil {
		t.Error("creates cannot be read, and nobody says so")
	}
}

// A row that a walk lacks is gone by the board's word. A task that is over is found by the
// Task ID of its row.
func TestRunMisses(t *testing.T) {
	t.Parallel()
	r := newRun(typedRow("R1"))
	r.run(t)
	row := r.batch.rows[0]
	r.batch.rows = nil
	looks := 0
	r.batch.look = func(id string) (bool, error) {
		looks++
		return looks > 2, map[int]error{1: errors.New("limited")}[looks]
	}
	for n := range 3 {
		found := r.run(t)
		if gone := !r.task(t, 101).GoneAt.IsZero(); gone != (n == 2) || found.Again.IsZero() == (n == 0) {
			t.Errorf("look %d: gone %t, %+v", n+1, gone, found)
		}
	}
	row.TaskID, row.Status = "T-00101", pipeline.Cancelled
	r.batch.rows = []*pipeline.Row{row}
	r.run(t)
	if task := r.task(t, 101); !task.GoneAt.IsZero() || task.Status != pipeline.Cancelled {
		t.Errorf("task %+v", task)
	}
}

// The error of a walk that an adoption needs is the board's, and the rest is carried
// out. One of the store ends the run.
func TestRunInTrouble(t *testing.T) {
	t.Parallel()
	r := newRun(typedRow("R1"))
	away := errors.New("away")
	r.batch.stale = away
	if found := r.run(t); !errors.Is(found.Trouble, away) || found.Adopted != 0 {
		t.Errorf("found %+v", found)
	}
	r.batch.stale = nil
	r.store.Before = func() error { return away }
	if _, err := r.Run(t.Context(), r.batch); !errors.Is(err, away) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Run(ctx, r.batch); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// Where only a newer snapshot tells whether a person made a change, the run walks: a timer
// would leave the person waiting for minutes.
func TestRunWalksWhereTheSnapshotIsOld(t *testing.T) {
	t.Parallel()
	for want, seen := range map[string]pipeline.Status{"ours": pipeline.Assigned, "a person's": pipeline.Blocked} {
		r := newRun(typedRow("R1"))
		r.Consistent = true
		r.run(t)
		row, task := r.batch.rows[0], r.task(t, 101)
		r.batch.walkAt = task.ChangedAt.Add(-time.Second)
		row.TaskID, row.Status, row.UpdatedBy = "T-00101", pipeline.Blocked, self
		walks := 0
		r.batch.walk = func() {
			walks++
			r.batch.walkAt, row.Status = noon.Add(time.Second), seen
			if seen == pipeline.Blocked {
				row.UpdatedBy = "U0ROB"
			}
		}
		r.run(t)
		if got := r.task(t, 101).Status == pipeline.Blocked; walks != 1 || got != (want == "a person's") {
			t.Errorf("%s: %d walks, the task is %s", want, walks, r.task(t, 101).Status)
		}
	}
}
