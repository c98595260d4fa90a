package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/internal/board/boardtest"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// stateIn is a task in a status, with its three steps of which the second is done.
func stateIn(status pipeline.Status) *core.State {
	return &core.State{Tasks: map[pipeline.TaskID]*core.Task{7: {
		ID: 7, Agent: "devdas", Status: status, RowID: "Rec1", StatusBy: core.ByPerson("U0PERSON"), StatusAt: time.Date(2026, 3, 14, 16, 0, 0, 0, time.UTC),
		Steps: []core.Step{{ID: 1, Title: "same", RowID: "Rec2"}, {ID: 2, Title: "Done one", RowID: "Rec3", Done: true}, {ID: 3, Title: "same", RowID: "Rec4"}},
	}}}
}

// decide carries a report on a task out, by its agent or by the person who has it. It
// returns the task before and after.
func decide(status pipeline.Status, person bool, r report) (before, after *core.Task, err error) {
	s := stateIn(status)
	before = s.Tasks[7].Clone()
	by := core.ByAgent("devdas")
	if person {
		by.Kind = core.Worker
	}
	_, err = core.Decide(s, core.Command{ID: "u", At: time.Now(), By: by, Task: 7, Do: core.Report{
		Drop: "u.json", Dropped: time.Now(), Status: r.status, Steps: r.steps, Reason: r.reason, Result: r.result,
	}})
	return before, s.Tasks[7], err
}

// TestDecide is the table of what an update may do: by the state of the task,
// the state that is reported, and whether the task is a person's.
func TestDecide(t *testing.T) {
	t.Parallel()
	const wait = inbox.Class("wait")
	states := append(slices.Clone(pipeline.Statuses), "on_hold") // and one that people made up
	for _, from := range states {
		for _, to := range []pipeline.Status{"", pipeline.InProgress, pipeline.Blocked, pipeline.AgentDone, pipeline.Done} { // the last does not parse, and would not do
			for _, person := range []bool{false, true} {
				want := inbox.Conflict
				switch from {
				case pipeline.New:
					want = wait
					if person {
						want = ""
					}
				case pipeline.Assigned, pipeline.InProgress, pipeline.Blocked:
					want = ""
				case pipeline.AgentDone:
					if to == "" || to == pipeline.AgentDone {
						want = ""
					}
				}
				if to == pipeline.Done && want == "" {
					want = inbox.Conflict
				}
				name := fmt.Sprintf("%s to %q, person %t", from, to, person)
				before, after, err := decide(from, person, report{status: to, reason: "why", result: "that"})
				class := inbox.Class("")
				var refused *core.Refused
				switch {
				case err == nil:
				case errors.As(err, &refused):
					class = inbox.Class(refused.Class)
					if !strings.Contains(refused.Error(), "T-00007 is "+string(from)+" (U0PERSON set it at 2026-03-14T16:00:00Z)") {
						t.Errorf("%s: %q does not say who set what when", name, refused)
					}
				case errors.Is(err, core.ErrNotYet):
					class = wait
				}
				if class != want {
					t.Errorf("%s: %q, want %q", name, class, want)
				}
				if err != nil {
					continue
				}
				if status := cmp.Or(to, from); after.Status != status || after.Reason != "why" || after.Result != "that" || after.StepsDone() != before.StepsDone() {
					t.Errorf("%s: task %+v", name, after)
				}
			}
		}
	}
}

// What is written besides.
func TestDecideSteps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		from   pipeline.Status
		person bool
		r      report
		status pipeline.Status
		steps  []int
		reason string
		class  inbox.Class
		text   string
	}{
		{"a step of an assigned task", pipeline.Assigned, false, report{steps: []string{"same"}}, pipeline.InProgress, []int{0}, "", "", ""},
		{"a step of a person's new task", pipeline.New, true, report{steps: []string{"same"}}, pipeline.InProgress, []int{0}, "", "", ""},
		{"a step of a task in progress", pipeline.InProgress, false, report{steps: []string{"same"}}, "", []int{0}, "", "", ""},
		{"a step of a blocked task leaves it blocked", pipeline.Blocked, false, report{steps: []string{"same"}}, "", []int{0}, "", "", ""},
		{"with another status", pipeline.Assigned, false, report{status: pipeline.Blocked, reason: "r", steps: []string{"same"}}, pipeline.Blocked, []int{0}, "r", "", ""},
		{"equal titles one at a time", pipeline.InProgress, false, report{steps: []string{"same", "same"}}, "", []int{0, 2}, "", "", ""},
		{"equal titles, more than there are", pipeline.InProgress, false, report{steps: []string{"same", "same", "same"}}, "", []int{0, 2}, "", "", ""},
		{"by number", pipeline.InProgress, false, report{steps: []string{"3", "1"}}, "", []int{2, 0}, "", "", ""},
		{"folded", pipeline.InProgress, false, report{steps: []string{" SAME "}}, "", []int{0}, "", "", ""},
		{"ticked already", pipeline.InProgress, false, report{steps: []string{"Done one"}}, "", nil, "", "", ""},
		{"ticked already, of an assigned task", pipeline.Assigned, false, report{steps: []string{"2"}}, pipeline.InProgress, nil, "", "", ""},
		{"unknown", pipeline.InProgress, false, report{steps: []string{"same", "Done won"}}, "", nil, "", inbox.Unmatched,
			`no step of T-00007 matches "Done won"; its steps are 1 "same" 2 "Done one" 3 "same"; nearest: "Done one"`},
		{"a number too large", pipeline.InProgress, false, report{steps: []string{"4"}}, "", nil, "", inbox.Unmatched, `matches "4"`},
		{"agent_done with open steps", pipeline.InProgress, false, report{status: pipeline.AgentDone}, pipeline.AgentDone, nil, "", "", ""},
		{"a result at agent_done", pipeline.AgentDone, false, report{result: "x"}, "", nil, "", "", ""},
		{"a ticked step at agent_done", pipeline.AgentDone, false, report{steps: []string{"Done one"}}, "", nil, "", "", ""},
		{"an open step at agent_done", pipeline.AgentDone, false, report{steps: []string{"same"}}, "", nil, "", inbox.Conflict, `step "same" stays open`},
		{"an unknown step at agent_done", pipeline.AgentDone, false, report{steps: []string{"x"}}, "", nil, "", inbox.Unmatched, ""},
		{"leaving blocked clears the reason", pipeline.Blocked, false, report{status: pipeline.InProgress}, pipeline.InProgress, nil, "", "", ""},
		{"leaving blocked to agent_done", pipeline.Blocked, false, report{status: pipeline.AgentDone}, pipeline.AgentDone, nil, "", "", ""},
		{"leaving blocked with a reason of its own", pipeline.Blocked, false, report{status: pipeline.InProgress, reason: "new"}, pipeline.InProgress, nil, "new", "", ""},
		{"blocked again", pipeline.Blocked, false, report{status: pipeline.Blocked, reason: "worse"}, pipeline.Blocked, nil, "worse", "", ""},
		{"a step of a cancelled task", pipeline.Cancelled, false, report{steps: []string{"same"}}, "", nil, "", inbox.Conflict, "changes nothing any more"},
		{"a step of a new task", pipeline.New, false, report{steps: []string{"nonsense"}}, "", nil, "", "wait", ""},
	} {
		before, after, err := decide(c.from, c.person, c.r)
		if c.class != "" {
			var refused *core.Refused
			switch {
			case c.class == "wait" && errors.Is(err, core.ErrNotYet):
			case !errors.As(err, &refused) || string(refused.Class) != string(c.class) || !strings.Contains(refused.Error(), c.text):
				t.Errorf("%s: error %v, want %s %q", c.name, err, c.class, c.text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var ticked []int
		for i := range after.Steps {
			if after.Steps[i].Done && !before.Steps[i].Done {
				ticked = append(ticked, i)
			}
		}
		slices.Sort(c.steps)
		if after.Status != cmp.Or(c.status, c.from) || !slices.Equal(ticked, c.steps) || after.Reason != c.reason {
			t.Errorf("%s: task %+v", c.name, after)
		}
	}
}

// An update is one report: what it writes, in how many calls, and what its
// record says afterwards.
func TestUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x", "y")
	w.sweepTo(1, 0, 0)
	w.dispatch(1)
	w.manyRows(true)
	name := w.update(1, report{steps: []string{"x"}, result: "half of it"})
	w.sweepTo(1, 0, 0)
	if want := map[string]int{updateMethod: 1}; !maps.Equal(w.calls(), want) {
		t.Errorf("calls %v, want %v", w.calls(), want)
	}
	task := w.task(1)
	step, row := task.Steps[0].RowID, task.RowID
	want := map[string]string{
		step + " Status": `["done"]`, step + " Completed": "true",
		row + " Status": `["in_progress"]`, row + " Result": "half of it", row + " Subtasks remaining": "[1]", row + " Completion": "[50]",
	}
	if got := w.cellsOf(w.Faults.Calls()[0]); !maps.Equal(got, want) {
		t.Errorf("wrote %v\nwant %v", got, want)
	}
	if task.Status != pipeline.InProgress || !task.Steps[0].Done || task.Steps[1].Done || task.Result != "half of it" ||
		!slices.Equal(w.reports(1), []string{name}) || !task.Taken() || task.Dispatch.TakenBy != core.TakenByUpdate {
		t.Errorf("task %+v", task)
	}
	events := w.events(1)
	if want := []string{"agent devdas: Acknowledged", "agent devdas: RunStarted", "agent devdas: StepDone", "agent devdas: TaskMoved", "agent devdas: Noted"}; !slices.Equal(events[len(events)-5:], want) {
		t.Errorf("events %q, want %q", events, want)
	}
	if r := w.processed(name); r.SlackItemID != row || !slices.Equal(r.SubtaskItemIDs, []string{step}) || r.SkippedDuplicate {
		t.Errorf("result %+v", r)
	}
	// The end of it.
	w.Faults.Reset()
	w.update(1, report{status: pipeline.AgentDone, steps: []string{"y"}, reason: "ok"})
	w.sweepTo(1, 0, 0)
	last := w.row(1)
	if last.Status != pipeline.AgentDone || last.Derived[pipeline.FieldCompletedAt] != w.clock.Now().UTC().Format(time.RFC3339) || last.Derived[pipeline.FieldRemaining] != "0" || last.Derived[pipeline.FieldCompletion] != "100" || last.Checked {
		t.Errorf("row %+v", last)
	}
	if want := map[string]int{updateMethod: 1}; !maps.Equal(w.calls(), want) {
		t.Errorf("calls %v, want %v", w.calls(), want)
	}
}

// Leaving blocked clears the reason on the board; an update that writes
// nothing is a success without a call.
func TestBlockedAndBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x")
	w.sweepTo(1, 0, 0)
	w.dispatch(1)
	for _, step := range []struct {
		r      report
		status pipeline.Status
		reason string
		calls  int
	}{
		{report{status: pipeline.Blocked, reason: "no key"}, pipeline.Blocked, "no key", 1},
		{report{status: pipeline.Blocked, reason: "still no key"}, pipeline.Blocked, "still no key", 1},
		{report{status: pipeline.InProgress}, pipeline.InProgress, "", 1},
		{report{status: pipeline.InProgress}, pipeline.InProgress, "", 0},
		{report{status: pipeline.AgentDone}, pipeline.AgentDone, "", 1},
		{report{status: pipeline.AgentDone, reason: "late", result: "thing"}, pipeline.AgentDone, "late", 1},
	} {
		w.Faults.Reset()
		w.update(1, step.r)
		w.sweepTo(1, 0, 0)
		if n := w.Faults.Count(updateMethod); n != step.calls {
			t.Errorf("%+v: %d calls", step.r, n)
		}
		if row := w.row(1); row.Status != step.status || row.Reason != step.reason || w.task(1).Reason != step.reason {
			t.Errorf("%+v: row %+v", step.r, row)
		}
	}
	if w.row(1).Result != "thing" || w.steps(1)[0].StepDone() {
		t.Error("a step was ticked that nobody reported, or the result is lost")
	}
}

// The updates of one task apply in the order of their names. One that has to
// wait holds back the later ones of its task, and nobody else's.
func TestOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "1", "2", "3")
	w.create(2, "B", "x")
	w.sweepTo(2, 0, 0)
	var names []string
	for i := range 3 {
		names = append(names, w.update(1, report{steps: []string{fmt.Sprint(i + 1)}, result: fmt.Sprint("result ", i+1)}))
	}
	w.dispatch(2)
	w.update(2, report{steps: []string{"x"}})
	r := w.sweepTo(1, 0, 3) // those of T-00001 wait until it is dispatched
	if len(r.Kept) != 0 || !r.Due.IsZero() {
		t.Errorf("report %+v", r)
	}
	w.dispatch(1)
	w.restart()
	w.sweepTo(3, 0, 0)
	applied := w.reports(1)
	if !slices.Equal(applied, names) || w.row(1).Result != "result 3" {
		t.Errorf("applied %v, want %v; result %q", applied, names, w.row(1).Result)
	}
}

// TestCaseB97UpdateBeforeCreate delivers updates before the create, and many
// at once: none is lost, none comes before its time.
func TestCaseB97UpdateBeforeCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.update(5, report{steps: []string{"x"}})
	second := w.update(5, report{status: pipeline.AgentDone})
	r := w.sweepTo(0, 0, 2)
	if r.Due.IsZero() || r.Due.After(time.Now().Add(w.times.UpdateWait)) {
		t.Errorf("due %v", r.Due)
	}
	w.createFor("olga", 5, "Hers", "x", "y")
	w.sweepTo(3, 0, 0)
	if row := w.row(5); row.Status != pipeline.AgentDone || row.Derived[pipeline.FieldRemaining] != "1" {
		t.Errorf("row %+v", row)
	}
	if got := w.reports(5); !slices.Equal(got, []string{first, second}) {
		t.Errorf("reports %q", got)
	}
	// The same in one sweep, with the create's name behind the update's.
	w.update(6, report{steps: []string{"x"}})
	w.createFor("olga", 6, "Hers, too", "x")
	w.sweepTo(2, 0, 0)
	if row := w.row(6); row.Status != pipeline.InProgress {
		t.Errorf("row %+v", row)
	}
}

// An update whose create is still in the inbox waits for it, for however long.
func TestUpdateWaitsForItsCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.Faults.Always(createMethod, boardtest.RateLimited("60"))
	w.createFor("olga", 1, "Hers", "x")
	w.update(1, report{steps: []string{"x"}})
	for range 3 {
		w.sweepTo(0, 0, 2)
		w.clock.Advance(w.times.UpdateWait)
	}
	stop()
	w.sweepTo(2, 0, 0)
}

// An update of a task that nobody knows waits for update_wait, then fails. One
// whose create failed does so as well.
func TestUnknownTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := w.create(2, "Bad")
	w.Faults.Next(createMethod, boardtest.ErrorCode("invalid_blocks"))
	name, other := w.update(1, report{steps: []string{"x"}}), w.update(2, report{steps: []string{"x"}})
	w.sweepTo(0, 1, 2)
	w.failed(bad, inbox.Rejected)
	w.clock.Advance(w.times.UpdateWait - time.Minute)
	w.sweepTo(0, 0, 2)
	w.clock.Advance(2 * time.Minute)
	w.sweepTo(0, 2, 0)
	w.failed(name, inbox.Unmatched, "no task T-00001 is known", "10m0s", "otm list")
	w.failed(other, inbox.Unmatched, "no task T-00002 is known")
}

// A step that is not there fails the whole update: nothing is applied in part.
func TestUnknownStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "Create form", "Add validation")
	w.sweepTo(1, 0, 0)
	w.dispatch(1)
	w.Faults.Reset()
	bad := w.update(1, report{status: pipeline.InProgress, steps: []string{"Create form", "Add validations"}, result: "r"})
	good := w.update(1, report{steps: []string{"Add validation"}})
	w.sweepTo(1, 1, 0)
	w.failed(bad, inbox.Unmatched, `no step of T-00001 matches "Add validations"`, `1 "Create form" 2 "Add validation"`, `nearest: "Add validation"`, "otm show T-00001")
	if r := w.processed(good); len(r.SubtaskItemIDs) != 1 {
		t.Errorf("result %+v", r)
	}
	if row, steps := w.row(1), w.steps(1); row.Result != "" || steps[0].StepDone() || !steps[1].StepDone() {
		t.Errorf("row %+v, steps %+v", row, steps)
	}
	if f := w.failures(1); len(f) != 1 || f[0].Drop != bad || !strings.Contains(f[0].Why, "Add validations") {
		t.Errorf("failures %+v", f)
	}
}

// Composed and decomposed titles are the same (B16).
func TestCaseB16ComposedTitles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "Cafe\u0301 buchen")
	w.sweepTo(1, 0, 0)
	w.dispatch(1)
	w.update(1, report{steps: []string{"Caf\u00e9 buchen"}})
	w.sweepTo(1, 0, 0)
	if !w.steps(1)[0].StepDone() {
		t.Error("the step is open")
	}
}

// An update that comes twice applies once: under another name, and under its
// own after it was settled.
func TestUpdateComesTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "same", "same")
	w.sweepTo(1, 0, 0)
	w.dispatch(1)
	name := w.update(1, report{steps: []string{"same"}})
	data, err := os.ReadFile(filepath.Join(w.dir, "task-updates", name))
	if err != nil {
		t.Fatal(err)
	}
	w.sweepTo(1, 0, 0)
	for _, again := range []string{"zz-" + name, name} {
		w.Faults.Reset()
		w.clock.Advance(time.Minute)
		w.put(inbox.TaskUpdates, again, data)
		os.Chtimes(filepath.Join(w.dir, "processed", again), time.Now(), time.Now().Add(-time.Hour))
		w.restart()
		w.sweepTo(1, 0, 0)
		if n := len(w.calls()); n != 0 {
			t.Errorf("%s: calls %v", again, w.calls())
		}
	}
	if r := w.processed("zz-" + name); !r.SkippedDuplicate {
		t.Errorf("result %+v", r)
	}
	if steps := w.steps(1); !steps[0].StepDone() || steps[1].StepDone() {
		t.Errorf("steps %+v", steps)
	}
}

// A person approves a task while the board does not answer a report on it: the report
// was applied before, and the person's status stays.
func TestApprovedBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for _, fault := range []boardtest.Fault{boardtest.ApplyThenReset(), boardtest.Reset()} {
		for _, r := range []report{
			{status: pipeline.AgentDone, steps: []string{"x"}, result: "r"}, {status: pipeline.AgentDone, result: "r"}, {steps: []string{"x"}}, {status: pipeline.AgentDone},
		} {
			w := newWorld(t)
			w.create(1, "A", "x")
			w.sweepTo(1, 0, 0)
			w.dispatch(1)
			name := w.update(1, r)
			w.Faults.Next(updateMethod, fault)
			w.sweepTo(0, 0, 1)
			w.person(w.row(1).ID, w.statusCell(pipeline.Done))
			w.clock.Advance(w.times.SettleAfter)
			w.sweepTo(1, 0, 0)
			if got := w.processed(name); got.SkippedDuplicate {
				t.Errorf("%v, %+v: result %+v", fault, r, got)
			}
			row, task := w.row(1), w.task(1)
			if row.Status != pipeline.Done || task.Status != pipeline.Done || row.Result != r.result || task.StatusBy != core.ByPerson("U0PERSON") ||
				w.steps(1)[0].StepDone() != (len(r.steps) > 0) || len(w.reports(1)) != 1 {
				t.Errorf("%v, %+v: row %+v, task %+v", fault, r, row, task)
			}
		}
	}
}

// What people set on the board is respected: read before it is written over,
// however we last knew it.
func TestPersonsStatusIsRespected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set  pipeline.Status
		to   pipeline.Status
		want inbox.Class
	}{
		{pipeline.Dormant, pipeline.InProgress, inbox.Conflict},
		{pipeline.Rejected, pipeline.AgentDone, inbox.Conflict},
		{pipeline.Failed, pipeline.InProgress, inbox.Conflict},
		{pipeline.Cancelled, pipeline.AgentDone, inbox.Conflict},
		{pipeline.Archived, pipeline.AgentDone, inbox.Conflict},
		{pipeline.Done, pipeline.AgentDone, inbox.Conflict},
		{pipeline.AgentDone, pipeline.InProgress, inbox.Conflict},
		{pipeline.AgentDone, pipeline.AgentDone, ""},
		{pipeline.Blocked, pipeline.InProgress, ""},
		{pipeline.InProgress, pipeline.AgentDone, ""},
	} {
		t.Run(fmt.Sprintf("%s, then %s", c.set, c.to), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(1, "A", "x")
			w.sweepTo(1, 0, 0)
			w.dispatch(1)
			w.person(w.row(1).ID, w.statusCell(c.set))
			w.Faults.Reset()
			name := w.update(1, report{status: c.to})
			if c.want == "" {
				w.sweepTo(1, 0, 0)
				if got := w.row(1).Status; got != c.to {
					t.Errorf("row is %s", got)
				}
				return
			}
			w.sweepTo(0, 1, 0)
			w.failed(name, c.want, "T-00001 is "+string(c.set)+" (U0PERSON set it at ")
			if got := w.row(1); got.Status != c.set || got.Result != "" {
				t.Errorf("row %+v, calls %v", got, w.calls())
			}
			if n := w.Faults.Count(listMethod); n != 1 {
				t.Errorf("%d walks", n)
			}
		})
	}
}

// A task that a person gave to somebody else is that one's.
func TestReassigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x")
	w.sweepTo(1, 0, 0)
	w.person(w.row(1).ID, boardtest.SelectCell(w.Column(t, "Assignee", "select"), "olga"))
	w.update(1, report{steps: []string{"x"}}) // still new: hers may be reported on
	w.sweepTo(1, 0, 0)
	if got := w.row(1).Status; got != pipeline.InProgress {
		t.Errorf("row is %s", got)
	}
}

// A report that an agent dropped when a person had just given its task to another one is
// not that one's.
func TestReportAfterReassignment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.begun(1, "A", "x")
	w.person(w.row(1).ID, boardtest.SelectCell(w.Column(t, "Assignee", "select"), "archibald"))
	late := w.update(1, report{steps: []string{"x"}, status: pipeline.AgentDone})
	w.sweepTo(0, 0, 1) // until archibald has it
	w.clock.Advance(time.Second)
	w.dispatch(1)
	w.sweepTo(0, 1, 0)
	w.failed(late, inbox.Conflict, "T-00001 was handed out to archibald at ", "counts as one of the former agent", "otm show T-00001")
	if task := w.task(1); task.Status != pipeline.Assigned || task.StepsDone() != 0 {
		t.Errorf("task %+v", task)
	}
}

// The history tells a refused report as one of the agent that it names, or else of the agent
// of its run, and not as one of the task's present agent. It knows no name of an old one that
// has neither.
func TestRefusedReportHasItsAuthor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.begun(1, "A", "x")
	w.update(1, report{steps: []string{"x"}})
	w.sweepTo(1, 0, 0) // its run has begun
	w.person(w.row(1).ID, boardtest.SelectCell(w.Column(t, "Assignee", "select"), "archibald"))
	old := w.update(1, report{result: "old"})
	w.sweepTo(0, 0, 1)
	w.clock.Advance(time.Second)
	w.dispatch(1)
	want := map[string]core.Actor{
		old: {Kind: core.Agent},
		w.update(1, report{result: "named", by: "Devdas"}):             core.ByAgent("Devdas"),
		w.update(1, report{result: "of a run", run: 1}):                core.ByAgent("devdas"),
		w.update(1, report{result: "own", steps: []string{"no such"}}): core.ByAgent("archibald"),
	}
	w.sweepTo(0, 4, 0)
	events, err := w.store.Events(t.Context(), core.EventFilter{Task: 1, Types: []string{"ReportFailed"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if drop := e.Data.(core.ReportFailed).Drop; e.By != want[drop] {
			t.Errorf("%s is by %v, want %v", drop, e.By, want[drop])
		}
	}
	if len(events) != len(want) {
		t.Errorf("%d reports failed, want %d", len(events), len(want))
	}
}

// Text that the board refuses fails its update, also where that comes again. The board
// shows how far the task is, and updates without a text go on. Another text heals it.
func TestRefusedUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x", "y")
	w.createFor("olga", 2, "Hers, too", "x")
	w.sweepTo(2, 0, 0)
	w.eng.Board = bent{w.eng.Board, func(b pipeline.Batch) pipeline.Batch { return refusingBatch{b, "refused"} }}
	bad := w.update(1, report{steps: []string{"x"}, result: "refused"})
	good := w.update(1, report{steps: []string{"y"}})
	other := w.update(2, report{steps: []string{"x"}})
	w.sweepTo(2, 1, 0)
	w.failed(bad, inbox.Rejected, "the board refuses it", "invalid_blocks")
	w.processed(good)
	w.processed(other)
	if row := w.row(1); row.Result != "" || row.Derived[pipeline.FieldRemaining] != "0" || row.Status != pipeline.InProgress {
		t.Errorf("row %+v", row)
	}
	w.clock.Advance(time.Minute)
	w.update(1, report{status: pipeline.AgentDone})
	w.sweepTo(1, 0, 0)
	w.update(1, report{result: "better"})
	w.sweepTo(1, 0, 0)
	if row := w.row(1); row.Result != "better" || row.Status != pipeline.AgentDone || w.task(1).Unshown() {
		t.Errorf("row %+v", row)
	}
}

// refusingBatch refuses a text.
type refusingBatch struct {
	pipeline.Batch
	text string
}

func (r refusingBatch) Update(ctx context.Context, changes ...pipeline.Change) error {
	for _, c := range changes {
		if slices.ContainsFunc(c.Cells, func(c pipeline.Cell) bool { return c.Text == r.text }) {
			return &pipeline.BoardError{Method: updateMethod, Code: "invalid_blocks", Class: pipeline.Refused}
		}
	}
	return r.Batch.Update(ctx, changes...)
}

// A report that the board refused leaves a trace with its task. Put back, it is delivered,
// and not applied again.
func TestRefusedUpdateIsRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "same", "same")
	w.sweepTo(1, 0, 0)
	w.manyRows(true)
	name := w.update(1, report{steps: []string{"same"}})
	w.Faults.Next(updateMethod, boardtest.ErrorCode("invalid_blocks"), boardtest.ErrorCode("invalid_blocks"))
	w.sweepTo(0, 1, 0)
	if f := w.failures(1); len(f) != 1 || f[0].Drop != name || !strings.Contains(f[0].Why, "the board refuses it") {
		t.Errorf("failures %+v", f)
	}
	if _, _, err := w.box.Retry(name, nil); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Minute)
	w.sweepTo(1, 0, 0)
	if r := w.processed(name); r.SkippedDuplicate {
		t.Errorf("result %+v", r)
	}
	if steps := w.steps(1); !steps[0].StepDone() || steps[1].StepDone() {
		t.Errorf("steps %+v", steps)
	}
}

// failures are the reports on a task that failed.
func (w *world) failures(id pipeline.TaskID) []core.ReportFailed {
	w.t.Helper()
	var failed []core.ReportFailed
	for _, e := range w.eventsOf(id) {
		if f, ok := e.Data.(core.ReportFailed); ok {
			failed = append(failed, f)
		}
	}
	return failed
}

// An option that is missing keeps the update; others go on.
func TestMissingOptionKeepsTheUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.createFor("olga", 2, "Hers, too", "x")
	w.sweepTo(2, 0, 0)
	column := w.Column(t, "Status", "select")
	if err := w.Server.RemoveOption("", w.ListID, column, "blocked"); err != nil {
		t.Fatal(err)
	}
	w.update(1, report{status: pipeline.Blocked, reason: "r"})
	w.update(2, report{status: pipeline.InProgress})
	w.clock.Advance(time.Minute)
	r := w.sweepTo(1, 0, 1)
	if len(r.Kept) != 1 || !strings.Contains(r.Kept[0], `option "blocked" of column "Status" is missing`) {
		t.Errorf("report %+v", r)
	}
	if err := w.Server.AddOption("", w.ListID, column, "", "Blocked"); err != nil {
		t.Fatal(err)
	}
	w.sweepTo(1, 0, 0)
	if got := w.row(1); got.Status != pipeline.Blocked || got.Reason != "r" {
		t.Errorf("row %+v", got)
	}
	w.update(1, report{status: pipeline.InProgress})
	w.sweepTo(1, 0, 0)
	if got := w.row(1); got.Status != pipeline.InProgress || got.Reason != "" {
		t.Errorf("row %+v", got)
	}
}

// An update that comes after its task was archived is told that, and takes it
// for no deletion.
func TestUpdateOfAnArchivedTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.sweepTo(1, 0, 0)
	done := pipeline.Done
	w.do(1, core.ByPerson("U0PERSON"), core.Edits{Status: &done})
	w.deliver()
	w.do(1, core.Component("otm"), core.Archive{Row: w.row(1), Steps: w.steps(1)})
	at := w.clock.Now()
	w.deliver()
	late := w.update(1, report{result: "late"})
	w.sweepTo(0, 1, 0)
	w.failed(late, inbox.Conflict, "T-00001 is done, and was archived at "+at.UTC().Format(time.RFC3339), "otm history T-00001")
	if task := w.task(1); !task.GoneAt.IsZero() {
		t.Errorf("its row counts as deleted: %+v", task)
	}
}

// The row of a task was deleted: its updates wait until the board says so, then fail.
// The row is not made again, and others are not held up.
func TestRowOfTheTaskIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.sweepTo(1, 0, 0)
	w.clock.Advance(time.Minute)
	row := w.row(1).ID
	if err := w.Server.DeleteRow("", w.ListID, row); err != nil {
		t.Fatal(err)
	}
	w.update(1, report{steps: []string{"x"}})
	silent := w.Faults.Always(infoMethod, boardtest.Status(500))
	if r := w.sweepTo(0, 0, 1); r.Due.After(w.clock.Now().Add(w.times.SettleAfter)) {
		t.Errorf("due %v", r.Due)
	}
	silent()
	if err := w.Server.RestoreRow("", w.ListID, row); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(w.times.SettleAfter)
	w.sweepTo(1, 0, 0)
	if got := w.row(1); got.Status != pipeline.InProgress || got.Derived[pipeline.FieldRemaining] != "0" {
		t.Errorf("restored, the row is %+v", got)
	}
	// Once more, and for longer.
	w.createFor("olga", 2, "Hers, too", "x")
	w.sweepTo(1, 0, 0)
	w.clock.Advance(time.Minute)
	if err := w.Server.DeleteRow("", w.ListID, row); err != nil {
		t.Fatal(err)
	}
	made := w.calls()[createMethod]
	names := []string{w.update(1, report{result: "r"}), w.update(1, report{status: pipeline.AgentDone})}
	w.update(2, report{steps: []string{"x"}})
	w.sweepTo(1, 2, 0)
	for _, name := range names {
		w.failed(name, inbox.Conflict, "the row of T-00001 is no longer on the board: somebody deleted or archived it", "otm show T-00001")
	}
	if n := w.calls()[createMethod]; n != made {
		t.Errorf("%d rows were made", n-made)
	}
	for _, r := range w.rows() {
		if r.Task() == 1 {
			t.Errorf("T-00001 has a row: %+v", r)
		}
	}
	// The next one need not wait.
	late := w.update(1, report{result: "late"})
	w.sweepTo(0, 1, 0)
	w.failed(late, inbox.Conflict, "the row of T-00001 is no longer on the board")
	// It is restored, and all is as before.
	if err := w.Server.RestoreRow("", w.ListID, row); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Minute)
	w.update(1, report{result: "back"})
	w.sweepTo(1, 0, 0)
	var what []string
	for _, e := range w.eventsOf(1) {
		if strings.HasPrefix(e.Type(), "Row") {
			what = append(what, e.Type())
		}
	}
	if want := []string{"RowGone", "RowBack"}; !slices.Equal(what, want) || w.row(1).Result != "back" {
		t.Errorf("events %q, want %q; row %+v", what, want, w.row(1))
	}
}

// Where the snapshot was lost, the board is asked for a row that the walk after that
// lacks.
func TestRowIsGoneAndTheSnapshot(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{true, false} {
		w := newWorld(t)
		w.createFor("olga", 1, "Hers", "x")
		w.sweepTo(1, 0, 0)
		row := w.row(1).ID
		if err := os.Remove(filepath.Join(w.dir, "board", "snapshot.json")); err != nil {
			t.Fatal(err)
		}
		stop := w.Faults.Always(listMethod, w.lacks(row))
		if deleted {
			if err := w.Server.DeleteRow("", w.ListID, row); err != nil {
				t.Fatal(err)
			}
		}
		w.restart()
		name := w.update(1, report{steps: []string{"x"}})
		if deleted {
			w.sweepTo(0, 1, 0)
			w.failed(name, inbox.Conflict, "the row of T-00001 is no longer on the board")
		} else if r := w.sweepTo(0, 0, 1); r.Due.IsZero() || r.Due.After(w.clock.Now().Add(retryBoard)) {
			t.Errorf("report %+v", r)
		}
		stop()
		if gone := !w.task(1).GoneAt.IsZero(); gone != deleted || w.Faults.Count(infoMethod) == 0 {
			t.Errorf("deleted %t: gone %t, asked %d times", deleted, gone, w.Faults.Count(infoMethod))
		}
	}
}

// lacks is a fault that answers with a page that lacks a row.
func (w *world) lacks(row string) boardtest.Fault {
	return boardtest.Rewrite("lacks a row", func(answer map[string]any) {
		answer["items"] = slices.DeleteFunc(answer["items"].([]any), func(item any) bool { return item.(map[string]any)["id"] == row })
	})
}

// A walk that lasts long may lack a row, and the next one have it: then nothing was
// amiss.
func TestRowComesBackWhileWeLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.sweepTo(1, 0, 0)
	w.restart()
	w.eng.Board = &boardtest.Wrapped{Board: w.eng.Board, Wrap: func(b pipeline.Batch) pipeline.Batch {
		return &boardtest.Disturbed{Batch: b, After: func() error { w.clock.Advance(w.times.SettleAfter + time.Second); return nil }}
	}}
	// An update's row.
	w.clock.Advance(time.Minute)
	w.Faults.Next(listMethod, w.lacks(w.row(1).ID))
	done := w.update(1, report{steps: []string{"x"}})
	w.sweepTo(1, 0, 0)
	w.processed(done)
	// The row above a step that the board refuses to make.
	made := w.create(2, "New", "a", "b")
	w.Faults.Next(createMethod, boardtest.Pass(), boardtest.ErrorCode("row_not_found"))
	w.Faults.Next(listMethod, boardtest.Rewrite("lacks the newest", func(answer map[string]any) {
		items := answer["items"].([]any)
		answer["items"] = slices.DeleteFunc(items, func(item any) bool { return item.(map[string]any)["id"] == w.row(2).ID })
	}))
	if r := w.sweepTo(0, 0, 1); r.Due.IsZero() || r.Due.After(w.clock.Now().Add(retryBoard)) {
		t.Errorf("report %+v", r.Report)
	}
	for range 2 {
		w.clock.Advance(retryBoard)
		w.sweep()
	}
	w.processed(made)
	w.checkTask(2, "New", "a", "b")
	if !w.task(1).GoneAt.IsZero() || !w.task(2).GoneAt.IsZero() || w.Faults.Count(infoMethod) != 2 {
		t.Errorf("tasks %+v, %+v, asked %d times", w.task(1), w.task(2), w.Faults.Count(infoMethod))
	}
}

// An update of a task that is half made, whose create was taken away, gets the rows
// made that are missing.
func TestUpdateOfWhatIsHalfMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.createFor("olga", 1, "Half", "x", "y")
	w.Faults.Next(createMethod, boardtest.Pass(), boardtest.Pass(), boardtest.RateLimited("1"))
	w.sweepTo(0, 0, 1)
	if err := os.Remove(filepath.Join(w.box.Dir(inbox.NewTasks), file)); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Minute)
	w.update(1, report{steps: []string{"x"}})
	w.sweepTo(1, 0, 0)
	w.checkTask(1, "Half", "x", "y")
	w.createFor("olga", 1, "Half", "x", "y")
	w.sweepTo(1, 0, 0)
	w.checkTask(1, "Half", "x", "y")
	if task := w.task(1); task.StepsDone() != 1 {
		t.Errorf("task %+v", task)
	}
}

// Walks may lack a row by mistake, and the board may not say whether they do:
// then its updates wait, and nobody else's.
func TestWalksLackTheRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.createFor("olga", 2, "Hers, too", "x", "y")
	w.sweepTo(2, 0, 0)
	w.manyRows(true)
	w.clock.Advance(time.Minute)
	row := w.row(1).ID
	stop := w.Faults.Always(listMethod, w.lacks(row))
	w.update(1, report{steps: []string{"x"}})
	w.update(2, report{steps: []string{"x"}})
	w.sweepTo(1, 0, 1)
	w.clock.Advance(w.times.SettleAfter)
	w.Faults.Next(infoMethod, boardtest.RateLimited("42"))
	w.update(2, report{steps: []string{"y"}})
	if r := w.sweepTo(1, 0, 1); r.Trouble != nil || r.Due.IsZero() || r.Due.After(w.clock.Now().Add(time.Minute)) {
		t.Errorf("the board does not say: report %+v", r.Report)
	}
	w.clock.Advance(time.Minute)
	if r := w.sweepTo(0, 0, 1); r.Due.IsZero() || r.Due.After(w.clock.Now().Add(retryBoard)) {
		t.Errorf("the board has it: report %+v", r.Report)
	}
	if n := w.Faults.Count(infoMethod); n > 4 || !w.task(1).GoneAt.IsZero() {
		t.Errorf("asked %d times, gone at %v", n, w.task(1).GoneAt)
	}
	stop()
	w.clock.Advance(time.Minute)
	w.sweepTo(1, 0, 0)
}

// The row of a step was deleted while its agent reports it, and the board does not say so
// yet: the report applies, and then the step goes.
func TestRowOfAStepIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x", "y", "z")
	w.sweepTo(1, 0, 0)
	w.clock.Advance(time.Minute)
	if err := w.Server.DeleteRow("", w.ListID, w.steps(1)[1].ID); err != nil {
		t.Fatal(err)
	}
	both, last := w.update(1, report{steps: []string{"x", "y"}}), w.update(1, report{steps: []string{"z"}})
	silent := w.Faults.Always(infoMethod, boardtest.Status(500))
	w.sweep()
	silent()
	for range 2 {
		w.clock.Advance(w.times.SettleAfter)
		w.sweep()
	}
	w.processed(both)
	w.processed(last)
	if task := w.task(1); !slices.Equal(task.StepTitles(), []string{"x", "z"}) || task.StepsDone() != 2 {
		t.Errorf("task %+v", task)
	}
	for _, s := range w.steps(1) {
		if !s.StepDone() {
			t.Errorf("step %+v", s)
		}
	}
	late := w.update(1, report{steps: []string{"y"}})
	w.sweepTo(0, 1, 0)
	w.failed(late, inbox.Unmatched, `no step of T-00001 matches "y"`)
}

// A status that cannot be read holds the update, until it can.
func TestUnreadableStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x")
	w.sweepTo(1, 0, 0)
	w.dispatch(1)
	w.clock.Advance(time.Minute)
	status := w.Column(t, "Status", "select")
	w.update(1, report{steps: []string{"x"}})
	w.Faults.Next(listMethod, boardtest.Rewrite("odd status", func(answer map[string]any) {
		for _, item := range answer["items"].([]any) {
			for _, f := range item.(map[string]any)["fields"].([]any) {
				if f := f.(map[string]any); f["column_id"] == status {
					f["select"] = map[string]any{"value": "assigned"}
				}
			}
		}
	}))
	if r := w.sweepTo(0, 0, 1); len(r.Kept) != 1 || !strings.Contains(r.Kept[0], "a status that OTM does not know") {
		t.Errorf("report %+v", r)
	}
	w.clock.Advance(time.Minute)
	w.sweepTo(1, 0, 0)
}

// A task that the store lost is made again from its row.
func TestTaskIsRebuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x", "y")
	w.sweepTo(1, 0, 0)
	w.dispatch(1)
	w.forget()
	file := w.update(1, report{steps: []string{"y"}})
	w.sweepTo(1, 0, 0)
	task := w.task(1)
	if task.RowID != w.row(1).ID || task.Title != "A" || task.Agent != "devdas" || len(task.Steps) != 2 || task.StepsDone() != 1 || len(w.reports(1)) != 1 {
		t.Errorf("task %+v", task)
	}
	for _, s := range w.steps(1) {
		if s.StepDone() != (s.Title == "y") {
			t.Errorf("step %+v", s)
		}
	}
	if r := w.processed(file); r.SlackItemID != task.RowID {
		t.Errorf("result %+v", r)
	}
}

// So is one whose create comes once more.
func TestTaskIsRebuiltByItsCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.create(1, "A", "x", "y")
	w.sweepTo(1, 0, 0)
	w.dispatch(1)
	w.update(1, report{steps: []string{"y"}})
	w.sweepTo(1, 0, 0)
	w.forget()
	again := w.drop("devdas", 1, "A", "x", "y")
	again.ID = pipeline.DropIDInName(first)
	w.put(inbox.NewTasks, "again.json", again.Encode())
	w.sweepTo(1, 0, 0)
	task := w.task(1)
	if task.RowID != w.row(1).ID || task.DropID != again.ID || task.StepsDone() != 1 {
		t.Errorf("task %+v", task)
	}
}

// C2: what is heard of an agent has the time at which its report was dropped. That
// a task is in progress, which otm next reports by itself, is no progress.
func TestC2ReportCountsFromItsDrop(t *testing.T) {
	t.Parallel()
	s := stateIn(pipeline.Assigned)
	dropped := time.Date(2026, 3, 14, 15, 0, 0, 0, time.UTC)
	if h := reportAt(t, s, dropped, report{status: pipeline.InProgress}); !h.At.Equal(dropped) || !h.Progress.IsZero() {
		t.Errorf("in progress: %+v", h)
	}
	dropped = dropped.Add(time.Minute)
	if h := reportAt(t, s, dropped, report{steps: []string{"same"}}); !h.Progress.Equal(dropped) {
		t.Errorf("a step: %+v", h)
	}
}

// reportAt carries out a report that was dropped at a time, and returns what was heard of
// the agent then.
func reportAt(t *testing.T, s *core.State, dropped time.Time, r report) core.Heard {
	t.Helper()
	if _, err := core.Decide(s, core.Command{At: dropped.Add(time.Hour), By: core.ByAgent("devdas"), Task: 7, Do: core.Report{
		Drop: "u.json", Dropped: dropped, Status: r.status, Steps: r.steps, Reason: r.reason, Result: r.result,
	}}); err != nil {
		t.Fatal(err)
	}
	return s.Tasks[7].HeardOf("devdas")
}

// C1: a result, a reason or a state that stays is no progress; that a task is
// blocked or ends is noted by itself.
func TestC1WhatGetsATaskOn(t *testing.T) {
	t.Parallel()
	s := stateIn(pipeline.InProgress)
	dropped := time.Date(2026, 3, 14, 15, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		report report
		ended  bool
	}{
		{report{status: pipeline.InProgress, result: "still", reason: "working"}, false},
		{report{status: pipeline.Blocked, reason: "r"}, true},
		{report{status: pipeline.Blocked, reason: "r"}, false},
		{report{status: pipeline.InProgress}, false},
		{report{status: pipeline.AgentDone, result: "r"}, true},
		{report{result: "r"}, false},
	} {
		dropped = dropped.Add(time.Minute)
		if h := reportAt(t, s, dropped, c.report); !h.Progress.IsZero() || h.Ended.Equal(dropped) != c.ended || !h.At.Equal(dropped) {
			t.Errorf("%+v: %+v", c.report, h)
		}
	}
}

// C4: a report moves a blocked task back to in progress, and nobody may be at work on
// it: it counts as resumed until the agent is heard of again.
func TestC4ReportResumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x")
	w.sweepTo(1, 0, 0)
	w.dispatch(1)
	w.update(1, report{status: pipeline.Blocked, reason: "no key"})
	w.update(1, report{status: pipeline.InProgress})
	w.sweepTo(2, 0, 0)
	if task := w.task(1); !task.ResumedAt.After(task.HeardOf("devdas").At) {
		t.Errorf("resumed at %v, heard of at %v", task.ResumedAt, task.HeardOf("devdas").At)
	}
	w.clock.Advance(time.Second)
	w.update(1, report{steps: []string{"x"}})
	w.sweepTo(1, 0, 0)
	if task := w.task(1); task.ResumedAt.After(task.HeardOf("devdas").At) {
		t.Errorf("resumed at %v, heard of at %v", task.ResumedAt, task.HeardOf("devdas").At)
	}
}

// C1: a report that failed is no sign of work: with it a task would stay that of a
// run that is over.
func TestC1FailedReportIsNotHeard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.begun(1, "A", "x")
	before := w.task(1).HeardOf("devdas")
	w.clock.Advance(time.Minute)
	w.update(1, report{steps: []string{"no such step"}})
	w.sweepTo(0, 1, 0)
	if h := w.task(1).HeardOf("devdas"); h != before || h.At.IsZero() {
		t.Errorf("heard %+v, before %+v", h, before)
	}
}

// C1: a report whose name has a time far ahead counts from now.
func TestC1NameFromTheFuture(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x")
	w.sweepTo(1, 0, 0)
	w.dispatch(1)
	w.put(inbox.TaskUpdates, inbox.NewName(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), pipeline.NewDropID()), []byte(`{"taskId":"T-00001","subtasksDone":["x"]}`))
	w.sweepTo(1, 0, 0)
	if h := w.task(1).HeardOf("devdas"); h.Progress.IsZero() || h.Progress.After(w.clock.Now()) || h.At.After(w.clock.Now()) {
		t.Errorf("heard %+v at %v", h, w.clock.Now())
	}
}
