package view

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/core/store"
	"otm/heartbeat"
	"otm/internal/crash/crashtest"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/pipeline"
	"otm/slacklist"
)

// load makes a view of a directory with the given rows and tasks.
func load(t *testing.T, agents pipeline.Agents, rows []pipeline.Row, tasks ...core.Task) *View {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, task := range tasks {
		outcomes, err := db.Do(t.Context(), core.Command{At: time.Now(), Task: task.ID, Do: core.Import{Imported: core.Imported{Task: task}}})
		if err != nil || outcomes[0].Err != nil {
			t.Fatal(err, outcomes)
		}
	}
	s := Sources{Dir: dir, LogDir: t.TempDir(), Agents: agents, Now: time.Now(), Store: db, Snapshot: &slacklist.Snapshot{Rows: rows, Count: len(rows)}}
	v, err := Load(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestC10OneNumbering: steps have the numbers of the state, which otm-update takes.
// A step that a person has just added comes last and has none.
func TestC10OneNumbering(t *testing.T) {
	t.Parallel()
	rows := []pipeline.Row{
		{ID: "R1", TaskID: "T-00001", Title: "One", Assignee: "devdas"},
		{ID: "S3", Parent: "R1", Title: "added"},
		{ID: "S2", Parent: "R1", Title: "b", Checked: true},
		{ID: "S1", Parent: "R1", Title: "a"},
	}
	v := load(t, nil, rows, core.Task{ID: 1, RowID: "R1", Status: pipeline.New, Steps: []core.Step{{ID: 1, Title: "a", RowID: "S1"}, {ID: 2, Title: "b", RowID: "S2"}, {ID: 3, Title: "c"}}})
	want := []Step{{1, "a", false, "S1"}, {2, "b", true, "S2"}, {3, "c", false, ""}, {0, "added", false, "S3"}}
	if got := v.Task(1).Steps; !slices.Equal(got, want) {
		t.Errorf("the steps are %v, want %v", got, want)
	}
	if open, all := v.Task(1).Open(); open != 2 || all != 3 {
		t.Errorf("%d of %d steps open, want 2 of 3 on the board", open, all)
	}
	rows[0].TaskID = "" // its row is found all the same
	if got := v.Tasks(); len(got) != 1 || got[0].ID != 1 || !slices.Equal(got[0].Steps, want) {
		t.Errorf("without its id: %+v", got)
	}
}

// TestEmptiedCells: a cell that a person emptied decides nothing until OTM fills it again:
// readers show the task as it is.
func TestEmptiedCells(t *testing.T) {
	t.Parallel()
	agents := pipeline.Agents{{Name: "devdas", Label: "devdas", Person: true}}
	rows := []pipeline.Row{{ID: "R1", TaskID: "T-00001", Assignee: "devdas"}, {ID: "S1", Parent: "R1"}, {ID: "R2", Assignee: "devdas"}}
	v := load(t, agents, rows, core.Task{
		ID: 1, RowID: "R1", Title: "One", Status: pipeline.Blocked, Priority: pipeline.High, Reason: "why", Steps: []core.Step{{ID: 1, Title: "a", RowID: "S1"}},
	})
	task := v.Task(1)
	c := task.Card()
	if got := fmt.Sprint(c.Title, " ", c.Status, " ", c.Priority, " ", c.Reason, " ", c.Steps[0].Title, " ", task.Status(), " ", task.Title()); got != "One blocked high why a blocked One" {
		t.Errorf("shown: %s", got)
	}
	s := SummaryOf(v, 0)
	if got := fmt.Sprint(s.Tasks, s.Agents[0].Tasks); got != "map[blocked:1 new:1] map[blocked:1 new:1]" { // a row without a task is new
		t.Errorf("counted: %s", got)
	}
}

// TestStatusAhead: a card shows the status of the state while the board still shows what OTM
// wrote there before, and that of a person who chose another one.
func TestStatusAhead(t *testing.T) {
	t.Parallel()
	rows := []pipeline.Row{{ID: "R1", TaskID: "T-00001", Status: pipeline.AgentDone}, {ID: "R2", TaskID: "T-00002", Status: pipeline.Cancelled}}
	v := load(t, nil, rows,
		core.Task{ID: 1, RowID: "R1", Status: pipeline.Done, Shown: core.Shown{Status: pipeline.AgentDone}},
		core.Task{ID: 2, RowID: "R2", Status: pipeline.Done, Shown: core.Shown{Status: pipeline.AgentDone}})
	for id, want := range map[pipeline.TaskID]pipeline.Status{1: pipeline.Done, 2: pipeline.Cancelled} {
		if task := v.Task(id); task.Card().Status != want || task.Status() != want {
			t.Errorf("%v: the card shows %s, the status is %s, want %s", id, task.Card().Status, task.Status(), want)
		}
	}
}

// What OTM is about to write to the board is told at once; what a person wrote there stays.
func TestToldBeforeItIsWritten(t *testing.T) {
	t.Parallel()
	shown := core.Shown{Title: "Old", Agent: "a", Priority: pipeline.Low, Status: pipeline.Blocked, Reason: "which one?", Result: "old"}
	row := func(id string, change func(*pipeline.Row)) pipeline.Row {
		r := pipeline.Row{ID: id, TaskID: "T-0000" + id[1:], Title: "Old", Assignee: "A", Priority: pipeline.Low, Status: pipeline.Blocked, Reason: "which one?", Result: "old"}
		if change != nil {
			change(&r)
		}
		return r
	}
	task := core.Task{RowID: "R1", Title: "New", Agent: "b", Priority: pipeline.High, Status: pipeline.InProgress, Reason: "the green one", Result: "new", Shown: shown}
	edited := task
	task.ID, edited.ID, edited.RowID = 1, 2, "R2"
	v := load(t, pipeline.Agents{{Name: "a", Label: "A"}, {Name: "b", Label: "B"}}, []pipeline.Row{row("R1", nil), row("R2", func(r *pipeline.Row) {
		r.Title, r.Assignee, r.Priority, r.Status, r.Reason, r.Result = "Mine", "C", pipeline.Critical, pipeline.Dormant, "not now", "mine"
	})}, task, edited)
	for id, want := range map[pipeline.TaskID]pipeline.Row{
		1: {Title: "New", Assignee: "B", Priority: pipeline.High, Status: pipeline.InProgress, Reason: "the green one", Result: "new"},
		2: {Title: "Mine", Assignee: "C", Priority: pipeline.Critical, Status: pipeline.Dormant, Reason: "not now", Result: "mine"},
	} {
		is := v.Task(id).Row
		if got := (pipeline.Row{Title: is.Title, Assignee: is.Assignee, Priority: is.Priority, Status: is.Status, Reason: is.Reason, Result: is.Result}); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %+v, want %+v", id, got, want)
		}
	}
	if a := v.Task(1).Agent; a == nil || a.Name != "b" {
		t.Errorf("its agent is %v", a)
	}
	for name, want := range map[string]int{"a": 0, "b": 1} {
		if got := v.Agent(v.Agents.Named(name)).Tasks; len(got) != want {
			t.Errorf("%s has %d tasks, want %d", name, len(got), want)
		}
	}
	s := SummaryOf(v, 0)
	if want := map[pipeline.Status]int{pipeline.InProgress: 1, pipeline.Dormant: 1}; !reflect.DeepEqual(s.Tasks, want) || s.Agents[1].Tasks[pipeline.InProgress] != 1 {
		t.Errorf("the summary counts %v, of the agents %+v", s.Tasks, s.Agents)
	}
}

// TestC46SilentWorkspace: a workspace on a file system that does not answer is named,
// and no other agent's is kept from being looked at.
func TestC46SilentWorkspace(t *testing.T) {
	t.Parallel()
	hangs, well, file := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	crashtest.Hang(t, hangs)
	agents := pipeline.Agents{
		{Name: "hangs", Workspace: hangs, Trigger: pipeline.TriggerExec}, {Name: "well", Workspace: well, Trigger: pipeline.TriggerExec},
		{Name: "gone", Workspace: filepath.Join(well, "no such")}, {Name: "file", Workspace: file}, {Name: "person", Person: true},
	}
	v := load(t, agents, nil)
	for i, want := range []explain.Code{explain.WorkspaceSilent, "", explain.WorkspaceMissing, explain.WorkspaceNoDir, ""} {
		got := explain.Code("")
		if f := v.Workspace(&agents[i]); f != nil {
			got = f.Code
			if text := f.Text(v.Now); !strings.Contains(text, agents[i].Workspace) || f.Next(v.Now) == "" {
				t.Errorf("%q, next %q", text, f.Next(v.Now))
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", agents[i].Name, got, want)
		}
	}
}

// TestC46LooksOnce: many workspaces do not answer, and a page looks again and again.
// One step hangs for each of them, and each is named by every look.
func TestC46LooksOnce(t *testing.T) {
	t.Parallel()
	var agents pipeline.Agents
	var hung []*atomic.Int32
	var rows []pipeline.Row
	for n := range 10 {
		ws := t.TempDir()
		hung = append(hung, crashtest.Hang(t, ws))
		agents = append(agents, pipeline.Agent{Name: fmt.Sprintf("a%d", n), Label: fmt.Sprintf("a%d", n), Workspace: ws})
		rows = append(rows, pipeline.Row{ID: fmt.Sprintf("R%d", n), TaskID: fmt.Sprintf("T-0000%d", n+1), Assignee: agents[n].Label})
	}
	for look := range 3 {
		v := load(t, agents, rows)
		for i := range agents {
			if its := v.Agent(&agents[i]); !patience.IsSilent(its.Err) || !strings.Contains(its.Err.Error(), agents[i].Workspace) {
				t.Errorf("look %d, %s: %v", look, agents[i].Name, its.Err)
			}
		}
	}
	for i, n := range hung {
		if n.Load() != 1 {
			t.Errorf("%d steps hang in the workspace of %s", n.Load(), agents[i].Name)
		}
	}
}

// TestC18NeverWellFor: a directory in which something is amiss is never well, whatever
// the heartbeats say.
func TestC18NeverWellFor(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	for name, c := range map[string]struct {
		spoil  func(v *View)
		health heartbeat.State
		code   explain.Code
	}{
		"nothing":       {func(*View) {}, heartbeat.Green, ""},
		"no agent":      {func(v *View) { v.Agents = nil }, heartbeat.Red, explain.NoAgents},
		"no workspace":  {func(v *View) { v.Agents[0].Workspace += "/gone" }, heartbeat.Red, explain.WorkspaceMissing},
		"a failed file": {func(v *View) { v.Inbox.Failed = []string{"x.json"} }, heartbeat.Yellow, explain.FilesFailed},
		"a full list":   {func(v *View) { v.Board.Limit, v.Board.Count = 3, 3 }, heartbeat.Yellow, explain.ListFullAt},
		"little room":   {func(v *View) { v.Board.Limit, v.Board.Count = 10, 9 }, heartbeat.Yellow, explain.ListNearlyFull},
		"a backlog":     {func(v *View) { v.Inbox.Oldest = v.Now.Add(-time.Hour) }, heartbeat.Red, explain.BacklogOld},
		"an effect that fails": {func(v *View) {
			v.late = outbox.Late([]core.Pending{{Task: 1, Sink: core.SinkBoard, Since: v.Now.Add(-time.Hour), Tries: 3, Error: "no column x"}}, v.Now)
		}, heartbeat.Yellow, explain.EffectFails},
		"a board that takes nothing": {func(v *View) {
			away := core.Pending{Task: 1, Sink: core.SinkBoard, Since: v.Now.Add(-time.Hour), Tries: 3, Error: "away"}
			v.late = outbox.Late([]core.Pending{away, away, away}, v.Now)
		}, heartbeat.Yellow, explain.EffectsFail},
		"failures": {func(v *View) {
			v.Component(heartbeat.Detector).Found = []explain.Finding{{Code: explain.TaskNoAgent}}
		}, heartbeat.Red, explain.TaskNoAgent},
	} {
		v := load(t, pipeline.Agents{{Name: "devdas", Workspace: ws}}, nil)
		for _, id := range heartbeat.Components {
			v.Component(id).Problem = nil
		}
		c.spoil(v)
		problems := v.Problems()
		code := explain.Code("")
		if len(problems) > 0 {
			code = problems[0].Code
		}
		if got := Health(problems); got != c.health || code != c.code {
			t.Errorf("%s: %q with %s, want %q with %q", name, got, fmt.Sprint(problems), c.health, c.code)
		}
	}
}

// TestLateIsToldOnce: an effect that fails for long is told of as it stands in the store,
// and not once more as a component reported it.
func TestLateIsToldOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	now := time.Now()
	task := core.Task{ID: 1, Title: "One", Agent: "devdas", Status: pipeline.New}
	if _, err := db.Do(t.Context(), core.Command{At: now, Task: 1, Do: core.Import{Imported: core.Imported{Task: task}}}); err != nil {
		t.Fatal(err)
	}
	for _, sink := range []core.Sink{core.SinkRender, core.SinkBoard} {
		leased, err := db.Lease(t.Context(), sink, "me", now, time.Minute, 0)
		if err != nil || len(leased) != 1 {
			t.Fatal(sink, leased, err)
		}
		if sink == core.SinkBoard {
			leased[0].Tries, leased[0].Error, leased[0].Code = 3, "there is no column x", "missing"
			err = db.Postponed(t.Context(), leased...)
		} else {
			err = db.Delivered(t.Context(), leased...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	undelivered := explain.New(explain.EffectUndelivered, "error", "there is no column x").On(1)
	for _, later := range []time.Duration{0, time.Hour} {
		v, err := Load(t.Context(), Sources{Dir: dir, LogDir: t.TempDir(), Agents: pipeline.Agents{{Name: "devdas", Person: true}}, Now: now.Add(later), Store: db, Snapshot: &slacklist.Snapshot{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range heartbeat.Components {
			v.Component(id).Problem = nil
		}
		v.Component(heartbeat.Detector).Found = []explain.Finding{undelivered}
		want := explain.EffectUndelivered // of a moment ago, nobody else knows
		if later > 0 {
			want = explain.EffectFails
		}
		if found := v.Problems(); len(found) != 1 || found[0].Code != want || found[0].Task != 1 {
			t.Errorf("after %v: %v, want %s", later, found, want)
		}
		if p := v.Task(1).Waits(core.SinkBoard); p == nil || p.Tries != 3 {
			t.Errorf("the task waits for %+v", p)
		}
	}
}

// counted is a store that counts the tasks it hands out, and fails if it is told to.
type counted struct {
	Store
	tasks int
	fails error
}

func (c *counted) Tasks(ctx context.Context, f core.Filter) ([]*core.Task, error) {
	tasks, err := c.Store.Tasks(ctx, f)
	c.tasks += len(tasks)
	return tasks, errors.Join(err, c.fails)
}

// TestReadsWhatIsAskedFor: a view reads those tasks that somebody asks for, once, and an
// error of reading them is kept for its reader.
func TestReadsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	var rows []pipeline.Row
	var tasks []core.Task
	for id := pipeline.TaskID(1); id <= 20; id++ {
		row := pipeline.Row{ID: fmt.Sprint("R", int(id)), TaskID: id.String(), Title: "One", Assignee: "devdas", Status: pipeline.New}
		if id > 10 {
			row.Assignee = "other"
		}
		rows = append(rows, row)
		tasks = append(tasks, core.Task{ID: id, RowID: row.ID, Status: pipeline.New})
	}
	agents := pipeline.Agents{{Name: "devdas", Label: "devdas", Person: true}, {Name: "other", Label: "other", Person: true}}
	v := load(t, agents, rows, tasks...)
	c := &counted{Store: v.Store}
	v.Store = c
	for _, look := range []struct {
		what string
		does func() bool
		most int // tasks read since the beginning
	}{
		{"health", func() bool { v.Problems(); return true }, 0},
		{"one", func() bool { return v.Task(3).State != nil && v.OfRow(&rows[2]).ID == 3 }, 1},
		{"an agent", func() bool { return len(v.Agent(&agents[0]).Tasks) == 10 }, 10},
		{"all", func() bool { return len(v.Tasks()) == 20 }, 30},
		{"all again, one by one", func() bool { return v.Task(20).State != nil && v.OfRow(&rows[19]).ID == 20 }, 30},
	} {
		if !look.does() || v.Err() != nil || c.tasks > look.most {
			t.Errorf("%s: %d tasks read, want at most %d; error %v", look.what, c.tasks, look.most, v.Err())
		}
	}
	c.fails = errors.New("no store")
	if v.Task(21); !errors.Is(v.Err(), c.fails) {
		t.Errorf("error %v", v.Err())
	}
}
