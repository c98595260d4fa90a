package differ

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/pipeline"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// agents are two AI agents and a person.
var agents = pipeline.Agents{
	{Name: "devdas", Label: "Dev Das"}, {Name: "archibald", Label: "archibald", User: "U0ARCH"}, {Name: "olga", Label: "olga", Person: true},
}

var opts = Differ{Now: func() time.Time { return noon }, By: core.Component("otm-dispatcher"), Times: pipeline.DefaultTimes}

// compare compares rows with tasks, as a differ with these agents does.
func compare(b pipeline.Batch, tasks []*core.Task, agents pipeline.Agents, d Differ) *comparison {
	d.Agents = agents
	return d.compare(b, tasks)
}

// scene is one task in progress, with one step of two done, and the rows that show it.
type scene struct {
	task   *core.Task
	tasks  []*core.Task
	batch  *fakeBatch
	row    *pipeline.Row
	a, b   *pipeline.Row
	agents pipeline.Agents
}

func progress(remaining, completion string) map[pipeline.Field]string {
	return map[pipeline.Field]string{pipeline.FieldRemaining: remaining, pipeline.FieldCompletion: completion}
}

func newScene() *scene {
	old := noon.Add(-time.Hour)
	s := &scene{agents: agents}
	s.task = &core.Task{
		ID: 35, Title: "Build it", Agent: "devdas", Priority: pipeline.High, Type: pipeline.Action, Project: "P", Status: pipeline.InProgress, RowID: "R1",
		ChangedAt: old, LastStep: 2, Steps: []core.Step{
			{ID: 1, Title: "a", RowID: "R2", Done: true, Shown: core.StepShown{Title: "a", Done: true}},
			{ID: 2, Title: "b", RowID: "R3", Shown: core.StepShown{Title: "b"}},
		},
	}
	s.task.Shown = core.Shown{TaskID: 35, Title: "Build it", Agent: "devdas", Priority: pipeline.High, Type: pipeline.Action, Project: "P", Status: pipeline.InProgress, Derived: progress("1", "50")}
	s.tasks = []*core.Task{s.task}
	at := old.Unix()
	s.row = &pipeline.Row{ID: "R1", Title: "Build it", TaskID: "T-00035", Assignee: "Dev Das", Priority: pipeline.High, Type: "action", Project: "P",
		Status: pipeline.InProgress, Derived: progress("1", "50"), Created: at, Updated: at, UpdatedBy: self, CreatedBy: self}
	s.a = &pipeline.Row{ID: "R2", Parent: "R1", Title: "a", Status: pipeline.Done, Checked: true, Created: at, Updated: at, UpdatedBy: self}
	s.b = &pipeline.Row{ID: "R3", Parent: "R1", Title: "b", Status: pipeline.New, Created: at, Updated: at, UpdatedBy: self}
	s.batch = &fakeBatch{rows: []*pipeline.Row{s.row, s.a, s.b}, walkAt: noon}
	return s
}

// byRob has a person touch rows last.
func byRob(rows ...*pipeline.Row) {
	for _, r := range rows {
		r.UpdatedBy = "U0ROB"
	}
}

// said is a result in short: commands, findings, rows to adopt, and when to look again.
func said(r *comparison) string {
	var lines []string
	for _, c := range r.commands {
		raw, err := json.Marshal(c.Do)
		if err != nil {
			panic(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			panic(err)
		}
		lines = append(lines, fmt.Sprintf("%v by %v: %s %s", c.Task, c.By, reflect.TypeOf(c.Do).Name(), short(c.Do)))
	}
	for _, f := range r.Findings {
		lines = append(lines, "finds "+explain.Sentence(&f, noon))
	}
	if len(r.typed) > 0 {
		lines = append(lines, fmt.Sprint("typed ", r.typed))
	}
	if len(r.lost) > 0 {
		lines = append(lines, fmt.Sprint("lost ", r.lost))
	}
	if r.stale {
		lines = append(lines, "walk")
	}
	if !r.Again.IsZero() {
		lines = append(lines, "again in "+r.Again.Sub(noon).String())
	}
	return strings.Join(lines, "\n")
}

// short says what a command asks for.
func short(do core.Action) string {
	var parts []string
	say := func(name string, v any) { parts = append(parts, fmt.Sprintf("%s=%v", name, v)) }
	switch do := do.(type) {
	case core.Edits:
		if !do.Seen {
			say("seen", false)
		}
		if do.Status != nil {
			say("status", *do.Status)
		}
		if do.Title != nil {
			say("title", *do.Title)
		}
		if do.Agent != nil {
			say("agent", *do.Agent)
		}
		if do.Priority != nil {
			say("priority", *do.Priority)
		}
		if do.Reason != nil {
			say("reason", *do.Reason)
		}
		for _, s := range do.Steps {
			step := s.Row + " by " + s.By.String()
			if s.Title != nil {
				step += " title " + *s.Title
			}
			if s.Done != nil {
				step += fmt.Sprint(" done ", *s.Done)
			}
			say("step", step)
		}
		for _, s := range do.Added {
			say("added", fmt.Sprint(s.Row, " ", s.Title, " ", s.Done, " by ", s.By))
		}
		for _, row := range do.Gone {
			say("gone", row)
		}
	case core.Written:
		say("status", do.Shown.Status)
		say("title", do.Shown.Title)
		say("agent", do.Shown.Agent)
		say("remaining", do.Shown.Derived[pipeline.FieldRemaining])
		for _, s := range do.Steps {
			say("step", fmt.Sprint(s.Step, " ", s.Shown))
		}
	case core.Drifted:
		say("fields", do.Fields)
		say("was", do.Was)
		if len(do.Steps) > 0 {
			say("steps", do.Steps)
		}
	case core.LoseRow:
		say("row", do.Row)
	case core.RestoreRow:
		say("opened", do.Opened)
	}
	return strings.Join(parts, " ")
}

// The cells of one task's rows, one change at a time, and what it means.
func TestCompare(t *testing.T) {
	t.Parallel()
	const edits, dispatcher = "T-00035 by U0ROB: Edits ", "T-00035 by otm-dispatcher: "
	const written = dispatcher + "Written status=in_progress title=Build it agent=devdas remaining=1"
	for _, c := range []struct {
		name   string
		change func(s *scene)
		want   string
	}{
		{"nothing new", func(s *scene) {}, ""},
		{"no walk yet", func(s *scene) { s.row.Status = pipeline.Blocked; s.batch.walkAt = time.Time{} }, ""},
		{"status by a person", func(s *scene) { s.row.Status = pipeline.Blocked; byRob(s.row) }, edits + "status=blocked"},
		{"status by nobody who is known", func(s *scene) { s.row.Status = pipeline.Blocked }, "T-00035 by board: Edits status=blocked"},
		{"status just after a change of ours: the walk may lag", func(s *scene) {
			s.row.Status = pipeline.Assigned
			s.task.ChangedAt = noon.Add(-5 * time.Second)
		}, "again in 10s"},
		{"by a person just after a change of ours", func(s *scene) {
			s.row.Status = pipeline.Assigned
			s.task.ChangedAt = noon.Add(-5 * time.Second)
			byRob(s.row)
		}, edits + "status=assigned"},
		{"the clock was set back since our change", func(s *scene) {
			s.row.Status = pipeline.Assigned
			s.task.ChangedAt = noon.Add(time.Hour)
		}, "T-00035 by board: Edits status=assigned"},
		{"status cleared is written back", func(s *scene) { s.row.Status = ""; byRob(s.row) }, dispatcher + "Drifted fields=[status] was=T-00035"},
		{"a status that OTM does not know decides nothing", func(s *scene) { s.row.Status = "waiting_for_godot"; byRob(s.row) },
			`finds T-00035: its row shows the status "waiting_for_godot", which OTM does not know: OTM leaves the row alone`},
		{"our own status, whose answer was lost", func(s *scene) { s.row.Status, s.task.Shown.Status = pipeline.InProgress, pipeline.Assigned }, written},
		{"a status that is still to be written", func(s *scene) { s.task.Status = pipeline.AgentDone }, ""},
		{"a person's status while ours is to be written", func(s *scene) {
			s.task.Status, s.row.Status = pipeline.AgentDone, pipeline.Blocked
			byRob(s.row)
		}, edits + "status=blocked"},
		{"our own result, whose answer was lost", func(s *scene) { s.row.Result, s.task.Result = "r", "r" }, written},
		{"a person's result is left alone", func(s *scene) { s.row.Result = "mine"; byRob(s.row) }, ""},
		{"nothing is known of what the row showed", func(s *scene) { s.task.Shown = core.Shown{} }, written},
		{"title", func(s *scene) { s.row.Title = "Build them"; byRob(s.row) }, edits + "title=Build them"},
		{"title cleared is written back", func(s *scene) { s.row.Title = ""; byRob(s.row) }, dispatcher + "Drifted fields=[title] was=T-00035"},
		{"title cleared just now", func(s *scene) { s.row.Title, s.row.Updated = "", noon.Unix()-50; byRob(s.row) }, "again in 10s"},
		{"priority", func(s *scene) { s.row.Priority = pipeline.Low; byRob(s.row) }, edits + "priority=low"},
		{"priority cleared is written back", func(s *scene) { s.row.Priority = ""; byRob(s.row) }, dispatcher + "Drifted fields=[priority] was=T-00035"},
		{"reason", func(s *scene) { s.row.Reason = "green"; byRob(s.row) }, edits + "reason=green"},
		{"C9: reason of a report of ours", func(s *scene) { s.row.Reason, s.task.Reason = "which colour?", "which colour?"; byRob(s.row) }, written},
		{"C9: another reason than that of a report of ours", func(s *scene) { s.row.Reason, s.task.Reason = "green", "which colour?"; byRob(s.row) }, edits + "reason=green"},
		{"reason cleared is written back", func(s *scene) { s.task.Reason, s.task.Shown.Reason = "why", "why"; byRob(s.row) }, dispatcher + "Drifted fields=[reason] was=T-00035"},
		{"no column for the reason", func(s *scene) {
			s.task.Reason, s.task.Shown.Reason = "why", "why"
			s.batch.lacks = []pipeline.Field{pipeline.FieldReason}
		}, ""},
		{"several at once", func(s *scene) {
			s.row.Title, s.row.Status, s.row.Assignee = "Build them", pipeline.New, "olga"
			byRob(s.row)
		}, edits + "status=new title=Build them agent=olga"},

		{"assignee by label", func(s *scene) { s.row.Assignee = "Archibald"; byRob(s.row) }, edits + "agent=archibald"},
		{"the shared queue by its option", func(s *scene) { s.row.Assignee = "Queue"; byRob(s.row) }, edits + "agent=Queue"},
		{"the shared queue, for which there is no option", func(s *scene) {
			s.task.Agent, s.task.Shown.Agent, s.row.Assignee = "queue", "queue", ""
			byRob(s.row)
		}, ""},
		{"claimed, and not written yet", func(s *scene) { s.task.Shown.Agent, s.row.Assignee = "queue", ""; byRob(s.row) }, ""},
		{"back in the shared queue, and the answer was lost", func(s *scene) { s.task.Agent, s.row.Assignee = "queue", "" }, dispatcher + "Written status=in_progress title=Build it agent=queue remaining=1"},
		{"claimed, and back in the shared queue, and both answers were lost", func(s *scene) {
			s.task.Agent, s.task.Shown.Agent, s.task.Runs = "queue", "queue", core.Runs{{Number: 1, Agent: "devdas", Ended: noon}}
		}, dispatcher + "Written status=in_progress title=Build it agent=devdas remaining=1"},
		{"claimed by two agents, and all answers were lost", func(s *scene) {
			s.task.Agent, s.task.Shown.Agent, s.task.Claimed = "archibald", "queue", true
			s.task.Runs = core.Runs{{Number: 1, Agent: "devdas", Ended: noon}, {Number: 2, Agent: "archibald"}}
		}, dispatcher + "Written status=in_progress title=Build it agent=devdas remaining=1"},
		{"claimed a second time, and the answer of the return was lost", func(s *scene) {
			s.task.Agent, s.task.Shown.Agent, s.task.Claimed, s.row.Assignee = "archibald", "devdas", true, "queue"
		}, dispatcher + "Written status=in_progress title=Build it agent=queue remaining=1"},
		{"given by a person to an agent that had claimed it", func(s *scene) {
			s.task.Agent, s.task.Shown.Agent, s.task.Runs = "queue", "queue", core.Runs{{Number: 1, Agent: "devdas", Ended: noon}}
			byRob(s.row)
		}, edits + "agent=devdas"},
		{"taken out of the shared queue", func(s *scene) {
			s.task.Agent, s.task.Shown.Agent, s.row.Assignee = "queue", "queue", "archibald"
			byRob(s.row)
		}, edits + "agent=archibald"},
		{"assignee by user", func(s *scene) { s.row.Assignee = "U0ARCH"; byRob(s.row) }, edits + "agent=archibald"},
		{"the same agent, spelt otherwise", func(s *scene) { s.row.Assignee = "dev-das" }, ""},
		{"assignee that nobody knows", func(s *scene) { s.row.Assignee = "Nobody"; byRob(s.row) }, edits + "agent=Nobody"},
		{"assignee cleared", func(s *scene) { s.row.Assignee = ""; byRob(s.row) }, edits + "agent="},
		{"the agent was renamed in otm.toml", func(s *scene) {
			s.row.Assignee = "devdas"
			s.agents = pipeline.Agents{{Name: "omega", Label: "devdas"}}
			byRob(s.row)
		}, dispatcher + "Edits agent=omega\n" +
			`finds T-00035: unknown agent "devdas": no [agents.NAME] table of otm.toml has this name or label, and no gateway lists it`},
		{"an agent that is not configured", func(s *scene) { s.agents = agents[1:] },
			"T-00035 by board: Edits agent=Dev Das\n" + `finds T-00035: unknown agent "devdas": no [agents.NAME] table of otm.toml has this name or label, and no gateway lists it`},

		{"ticked", func(s *scene) { s.b.Checked = true; byRob(s.b) }, "T-00035 by board: Edits step=R3 by U0ROB done true"},
		{"done by status", func(s *scene) { s.b.Status = pipeline.AgentDone; byRob(s.row, s.b) }, edits + "step=R3 by U0ROB done true"},
		{"opened again", func(s *scene) { s.a.Status, s.a.Checked = pipeline.New, false; byRob(s.row, s.a) }, edits + "step=R2 by U0ROB done false"},
		{"a step's status that OTM does not know", func(s *scene) { s.a.Status, s.a.Checked = "godot", false; byRob(s.row, s.a) }, ""},
		{"ticked by our own write, whose answer was lost", func(s *scene) { s.b.Checked, s.task.Steps[1].Done = true, true },
			written + " step=2 {b true}"},
		{"step renamed", func(s *scene) { s.a.Title = "A"; byRob(s.row, s.a) }, edits + "step=R2 by U0ROB title A"},
		{"step's name cleared is written back", func(s *scene) { s.a.Title = ""; byRob(s.a) }, dispatcher + "Drifted fields=[] was=T-00035 steps=[1]"},
		{"rows of steps in another order", func(s *scene) { slices.Reverse(s.batch.rows) }, ""},
		{"a step's row is missing", func(s *scene) { s.batch.rows = s.batch.rows[:2] }, ""},
		{"steps added, in the order of their making", func(s *scene) {
			for _, row := range []pipeline.Row{{ID: "R8", Title: "late", Created: 30}, {ID: "R7", Title: "early", Created: 20, Checked: true}, {ID: "R6", Title: "same second", Created: 20}} {
				row.Parent, row.UpdatedBy = "R1", "U0ROB"
				s.batch.rows = append(s.batch.rows, &row)
			}
			byRob(s.row)
		}, edits + "added=R7 early true by U0ROB added=R6 same second false by U0ROB added=R8 late false by U0ROB"},
		{"a row that a lost answer may have made is no added step", func(s *scene) { s.task.Steps[1].RowID, s.task.Steps[1].Shown = "", core.StepShown{} }, ""},

		{"remaining steps changed", func(s *scene) { s.row.Derived[pipeline.FieldRemaining] = "7"; byRob(s.row) }, dispatcher + "Drifted fields=[subtasks_remaining] was=T-00035"},
		{"progress cleared", func(s *scene) { s.row.Derived = nil }, dispatcher + "Drifted fields=[subtasks_remaining completion] was=T-00035"},
		{"progress that is to be written", func(s *scene) {
			delete(s.task.Shown.Derived, pipeline.FieldRemaining)
			delete(s.row.Derived, pipeline.FieldRemaining)
		}, ""},
		{"no column for progress", func(s *scene) {
			s.row.Derived = nil
			s.batch.lacks = []pipeline.Field{pipeline.FieldRemaining, pipeline.FieldCompletion}
		}, ""},
		{"progress of a cancelled task is left alone", func(s *scene) {
			s.task.Status, s.task.Shown.Status, s.row.Status, s.row.Derived = pipeline.Cancelled, pipeline.Cancelled, pipeline.Cancelled, nil
		}, ""},
		{"done, and its tick is gone", func(s *scene) {
			s.task.Status, s.task.Shown.Status, s.row.Status, s.task.Shown.Checked = pipeline.Done, pipeline.Done, pipeline.Done, true
		}, dispatcher + "Drifted fields=[todo_completed] was=T-00035"},
		{"sent back, and still ticked", func(s *scene) { s.row.Checked, s.task.ValidatedAt = true, noon }, dispatcher + "Drifted fields=[todo_completed] was=T-00035"},
		{"a person's tick on a task that is not done is left alone", func(s *scene) { s.row.Checked = true; byRob(s.row) }, ""},

		{"a cell cannot be read", func(s *scene) {
			s.row.Odd, s.row.Assignee, s.row.TaskID, s.row.Derived, s.row.Status = true, "", "", nil, "unreadable"
		}, `finds T-00035: its row shows the status "unreadable", which OTM does not know: OTM leaves the row alone`},
		{"a cell cannot be read, and others were edited", func(s *scene) { s.row.Odd, s.row.Assignee, s.row.Title = true, "", "B"; byRob(s.row) }, edits + "title=B"},
		{"a step's cell cannot be read", func(s *scene) { s.a.Odd, s.a.Checked, s.a.Status = true, false, "unreadable" }, ""},

		{"the row is back", func(s *scene) { s.task.GoneAt = noon; byRob(s.row) }, "T-00035 by U0ROB: RestoreRow opened=true"},
		{"back, and edited", func(s *scene) { s.task.GoneAt, s.row.Status = noon, pipeline.New; byRob(s.row) },
			"T-00035 by U0ROB: RestoreRow opened=true\n" + edits + "status=new"},
		{"archived, and not deleted yet", func(s *scene) {
			s.task.ArchivedAt, s.task.Status, s.task.Shown.Status, s.row.Status, s.row.Title = noon, pipeline.Done, pipeline.Done, pipeline.Done, "x"
		}, ""},
		{"back from the archive", func(s *scene) {
			s.task.ArchivedAt, s.task.Status, s.task.Shown.Status, s.row.Status = noon, pipeline.Done, pipeline.Done, pipeline.New
			byRob(s.row)
		}, "T-00035 by U0ROB: RestoreRow opened=true\n" + edits + "status=new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			c.change(s)
			if got := said(compare(s.batch, s.tasks, s.agents, opts)); got != c.want {
				t.Errorf("compared to\n%s\nwant\n%s", got, c.want)
			}
			carriedOut(t, s)
		})
	}
}

// carriedOut checks that the commands of a scene, once carried out, leave nothing for
// another comparison but further drift, and that none is refused.
func carriedOut(t *testing.T, s *scene) {
	t.Helper()
	state := core.State{Tasks: map[pipeline.TaskID]*core.Task{}}
	for _, task := range s.tasks {
		state.Tasks[task.ID] = task
	}
	for _, c := range compare(s.batch, s.tasks, s.agents, opts).commands {
		if _, err := core.Decide(&state, c); err != nil {
			t.Errorf("%T: %v", c.Do, err)
		}
	}
	var tasks []*core.Task
	for _, task := range state.Tasks {
		tasks = append(tasks, task)
	}
	if left := compare(s.batch, tasks, s.agents, opts).commands; len(left) > 0 {
		t.Errorf("compared again to\n%s", said(&comparison{commands: left}))
	}
}

// A person changes the Task ID cell of a task's row. The row stays the task's.
func TestCompareTaskIDs(t *testing.T) {
	t.Parallel()
	const lost = "T-00035 by otm-dispatcher: Drifted fields=[task_id] was="
	for _, c := range []struct {
		name   string
		change func(s *scene)
		want   string
	}{
		{"cleared", func(s *scene) { s.row.TaskID = "" }, lost},
		{"no id", func(s *scene) { s.row.TaskID = "soon" }, lost + "soon"},
		{"the id of no task", func(s *scene) { s.row.TaskID = "T-00007" }, lost + "T-00007"},
		{"the id of another task", func(s *scene) {
			s.row.TaskID = "T-00002"
			s.tasks = append(s.tasks, &core.Task{ID: 2, RowID: "gone", Status: pipeline.Done})
		}, lost + "T-00002"},
		{"written by another hand just now", func(s *scene) { s.row.TaskID, s.row.Updated = "", noon.Unix()-50 }, "again in 10s"},
		{"the board's clock is ahead", func(s *scene) { s.row.TaskID, s.row.Updated = "", noon.Unix()+3600 }, lost},
		{"to be written back already", func(s *scene) { s.row.TaskID, s.task.Shown.TaskID = "", 0 }, ""},
		{"written back, and the answer was lost", func(s *scene) { s.task.Shown.TaskID = 0 }, "T-00035 by otm-dispatcher: Written status=in_progress title=Build it agent=devdas remaining=1"},
		{"again within an hour", func(s *scene) { s.row.TaskID, s.task.IDBackAt = "", noon.Add(-59*time.Minute) },
			"finds somebody changed the Task ID of its row again after OTM wrote it back at 2026-03-14T11:01:00Z: it must be T-00035"},
		{"again after an hour", func(s *scene) { s.row.TaskID, s.task.IDBackAt = "", noon.Add(-time.Hour) }, lost},
		{"again, and the clock was set back", func(s *scene) { s.row.TaskID, s.task.IDBackAt = "", noon.Add(time.Hour) }, lost},
		{"a copy has it now", func(s *scene) {
			s.row.TaskID = ""
			s.batch.rows = append(s.batch.rows, &pipeline.Row{ID: "R9", TaskID: "T-00035", Title: "copy", Status: pipeline.Done})
		}, `finds T-00035: somebody changed the Task ID of its row, and another row, "copy", has that Task ID`},
		{"a copy has it, too", func(s *scene) {
			s.batch.rows = append(s.batch.rows, &pipeline.Row{ID: "R0", TaskID: "T-00035", Title: "copy", Assignee: "olga"})
		}, `finds T-00035: two rows bear this id: its own, R1, and R0 ("copy")`},
		{"a copy that is over says nothing", func(s *scene) {
			s.batch.rows = append(s.batch.rows, &pipeline.Row{ID: "R9", TaskID: "T-00035", Title: "copy", Status: pipeline.Done})
		}, ""},
		{"a row of a task whose create got no answer", func(s *scene) {
			s.tasks = append(s.tasks, &core.Task{ID: 7, Title: "x", Status: pipeline.New})
			s.batch.rows = append(s.batch.rows, &pipeline.Row{ID: "R9", TaskID: "T-00007", Title: "x", Assignee: "olga"})
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			c.change(s)
			if got := said(compare(s.batch, s.tasks, s.agents, opts)); got != c.want {
				t.Errorf("compared to\n%s\nwant\n%s", got, c.want)
			}
			carriedOut(t, s)
		})
	}
}

// Rows that no task has.
func TestCompareStrangers(t *testing.T) {
	t.Parallel()
	old := noon.Add(-time.Hour).Unix()
	typed := pipeline.Row{ID: "R9", Title: "Fix", Assignee: "devdas", Created: old, Updated: old, UpdatedBy: "U0ROB"}
	for _, c := range []struct {
		name   string
		change func(r *pipeline.Row)
		step   *pipeline.Row
		agents pipeline.Agents
		want   string
	}{
		{"typed", func(r *pipeline.Row) {}, nil, agents, "typed [R9]"},
		{"for a person", func(r *pipeline.Row) { r.Assignee, r.Status = "olga", pipeline.New }, nil, agents, "typed [R9]"},
		{"still edited", func(r *pipeline.Row) { r.Updated = noon.Unix() - 20 }, nil, agents, "again in 40s"},
		{"a step is still edited", func(r *pipeline.Row) {}, &pipeline.Row{ID: "R10", Updated: noon.Unix() - 30}, agents, "again in 30s"},
		{"the board's clock is far ahead", func(r *pipeline.Row) { r.Updated = noon.Unix() + 3600 }, nil, agents, "typed [R9]"},
		{"without an assignee", func(r *pipeline.Row) { r.Assignee = "" }, nil, agents, ""},
		{"without a title", func(r *pipeline.Row) { r.Title = "" }, nil, agents, ""},
		{"not new", func(r *pipeline.Row) { r.Status = pipeline.Pending }, nil, agents, ""},
		{"an unknown status", func(r *pipeline.Row) { r.Status = "godot" }, nil, agents, ""},
		{"a cell cannot be read", func(r *pipeline.Row) { r.Odd, r.Status = true, pipeline.New }, nil, agents, ""},
		{"nobody is configured", func(r *pipeline.Row) {}, nil, nil, ""},
		{"an unknown agent", func(r *pipeline.Row) { r.Assignee = "nobody" }, nil, agents,
			`finds row "Fix": unknown agent "nobody": no [agents.NAME] table of otm.toml has this name or label, and no gateway lists it`},
		{"no task id", func(r *pipeline.Row) { r.TaskID = "soon" }, nil, agents, `finds row "Fix": "soon" is no task id`},
		{"an id of its own", func(r *pipeline.Row) { r.TaskID = "T-00007" }, nil, agents, "lost [R9]"},
		{"an id of its own, and still edited", func(r *pipeline.Row) { r.TaskID, r.Updated = "T-00007", noon.Unix() }, nil, agents, "again in 1m0s"},
		{"a lost task, just written by OTM", func(r *pipeline.Row) { r.TaskID, r.Updated, r.UpdatedBy = "T-00007", noon.Unix(), self }, nil, agents, "lost [R9]"},
		{"a lost task at work", func(r *pipeline.Row) { r.TaskID, r.Status = "T-00007", pipeline.InProgress }, nil, agents, "lost [R9]"},
		{"a lost task that is done", func(r *pipeline.Row) { r.TaskID, r.Status = "T-00007", pipeline.Done }, nil, agents, "lost [R9]"},
		{"a lost task of nobody's", func(r *pipeline.Row) { r.TaskID, r.Assignee = "T-00007", "" }, nil, agents, ""},
		{"a lost task of an unknown agent", func(r *pipeline.Row) { r.TaskID, r.Assignee = "T-00007", "nobody" }, nil, agents, "lost [R9]"},
		{"over, and of a person", func(r *pipeline.Row) { r.TaskID, r.Assignee, r.Status = "T-00007", "olga", pipeline.Done }, nil, agents, ""},
		{"its status cannot be read", func(r *pipeline.Row) { r.TaskID, r.Odd, r.Status = "T-00007", true, "unreadable" }, nil, agents, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			row := typed
			c.change(&row)
			s.batch.rows = append(s.batch.rows, &row)
			if c.step != nil {
				c.step.Parent = "R9"
				s.batch.rows = append(s.batch.rows, c.step)
			}
			for _, task := range s.tasks {
				task.Agent, task.Shown.Agent, s.row.Assignee = "olga", "olga", "olga"
			}
			r := compare(s.batch, s.tasks, c.agents, opts)
			r.commands = nil
			if got := said(r); got != c.want {
				t.Errorf("compared to\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// Two rows with one id that no task has: one of them is the task's.
func TestCompareTwoLostRows(t *testing.T) {
	t.Parallel()
	s := newScene()
	for _, id := range []string{"R9", "R8"} {
		s.batch.rows = append(s.batch.rows, &pipeline.Row{ID: id, Title: "x", TaskID: "T-00007", Assignee: "olga", UpdatedBy: self})
	}
	want := `finds T-00007: two rows bear this id: its own, R8, and R9 ("x")` + "\nlost [R8]"
	if got := said(compare(s.batch, s.tasks, agents, opts)); got != want {
		t.Errorf("compared to\n%s\nwant\n%s", got, want)
	}
}

// The rows of tasks that a walk lacks are asked for, and gone by the board's word.
func TestGone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		rows   string // that are missing
		gone   string // by the board's word
		change func(s *scene)
		want   string
	}{
		{"not by the board's word", "R1", "", nil, ""},
		{"a row", "R1", "R1", nil, "T-00035 by board: LoseRow row=R1"},
		{"a row and its steps", "R1 R2 R3", "R1 R2 R3", nil, "T-00035 by board: LoseRow row=R1"},
		{"a row that was written since, and its steps", "R2 R3", "R1 R2 R3", nil, "T-00035 by board: LoseRow row=R1"},
		{"a step", "R2", "R2", nil, "T-00035 by board: Edits gone=R2"},
		{"both steps", "R3 R2", "R3 R2", nil, "T-00035 by board: Edits gone=R2\nT-00035 by board: Edits gone=R3"},
		{"a step of a finished task", "R2", "R2", func(s *scene) {
			s.task.Status, s.task.Shown.Status, s.row.Status = pipeline.AgentDone, pipeline.AgentDone, pipeline.AgentDone
		}, ""},
		{"known to be gone", "R1", "R1", func(s *scene) { s.task.GoneAt = noon }, ""},
		{"archived by us", "R1", "R1", func(s *scene) { s.task.ArchivedAt = noon }, ""},
		{"before the first walk", "R1", "R1", func(s *scene) { s.batch.walkAt = time.Time{} }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			if c.change != nil {
				c.change(s)
			}
			for _, id := range strings.Fields(c.rows) {
				s.batch.rows = slices.DeleteFunc(s.batch.rows, func(r *pipeline.Row) bool { return r.ID == id })
			}
			s.batch.look = func(id string) (bool, error) { return slices.Contains(strings.Fields(c.gone), id), nil }
			found := compare(s.batch, s.tasks, agents, opts)
			found.commands = nil
			found.gone(t.Context(), s.tasks)
			if got := said(found); got != c.want {
				t.Errorf("found\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestInOrder has rows of one second in an order that says nothing.
func TestInOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rows, titles, want string }{
		{"c b a", "", "c b a"},
		{"c b a", "a b c", "a b c"},
		{"c B a", "a b c", "a B c"},
		{"a c a b", "a b a c", "a b a c"},
		{"d renamed a c", "a b c d", "a renamed c d"},
		{"mine c a", "a b c", "a mine c"},
		{"mine c a b", "a b c", "a b c mine"},
		{"c a", "a b c d", "a c"},
		{"", "a", ""},
		{"x y", "a b", "x y"},
	} {
		var rows []*pipeline.Row
		for _, title := range strings.Fields(c.rows) {
			rows = append(rows, &pipeline.Row{ID: "R" + title, Title: title, Created: 7})
		}
		var got []string
		for _, r := range inOrder(rows, strings.Fields(c.titles)) {
			got = append(got, r.Title)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("rows %q, create %q: steps %q, want %q", c.rows, c.titles, got, c.want)
		}
	}
}

// A status was written and its answer lost, and the task went on before the next look.
// The row shows a status that OTM wrote: nobody chose it. If a person touched the row
// last, in whatever cell, it is a choice, but for assigned: the task was handed out
// since, and is not handed out again because somebody changed the title.
func TestStatusWrittenBeforeTheTaskWentOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status pipeline.Status
		person bool
		want   string
	}{
		{pipeline.Assigned, false, "Written"}, {pipeline.Assigned, true, "Written"},
		{pipeline.Blocked, false, "Written"}, {pipeline.Blocked, true, "Edits"},
		{pipeline.New, false, "Written"}, // of pending, for which the board has no option
	} {
		s := newScene()
		if c.status == pipeline.New {
			s.batch.bare, s.task.Passed = []pipeline.Status{pipeline.Pending}, []pipeline.Status{pipeline.Pending}
			s.task.Shown.Status = pipeline.InProgress
		} else {
			s.task.Shown.Status, s.task.Passed = pipeline.New, []pipeline.Status{pipeline.Assigned, pipeline.Blocked}
		}
		s.row.Status = c.status
		if c.person {
			byRob(s.row)
		}
		o := opts
		o.Consistent = true
		r := compare(s.batch, s.tasks, s.agents, o)
		if len(r.commands) != 1 || reflect.TypeOf(r.commands[0].Do).Name() != c.want {
			t.Errorf("%v, a person touched it: %t: %s, want %s", c.status, c.person, said(r), c.want)
		}
		if w, is := r.commands[0].Do.(core.Written); is && w.Shown.Status != c.status {
			t.Errorf("%v: the board is said to show %v", c.status, w.Shown.Status)
		}
	}
}

// A process was killed after it noted what the board shows, and before it kept the
// snapshot. The snapshot is older than what is noted: a row in it that OTM touched last
// shows nobody's choice. One that a person touched last does.
func TestSnapshotOlderThanWhatIsNoted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		walk   time.Duration
		person bool
		want   string
	}{
		"older":           {-2 * time.Second, false, "walk"},
		"of that moment":  {-time.Second, false, "T-00035 by board: Edits status=new"},
		"older, a person": {-2 * time.Second, true, "T-00035 by U0ROB: Edits status=new"},
	} {
		s := newScene()
		s.task.ChangedAt, s.batch.walkAt = noon.Add(-time.Second), noon.Add(c.walk)
		s.row.Status = pipeline.New
		if c.person {
			byRob(s.row)
		}
		o := opts
		o.Consistent = true
		if got := said(compare(s.batch, s.tasks, s.agents, o)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
