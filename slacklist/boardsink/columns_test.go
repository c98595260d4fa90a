package boardsink

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/internal/board/boardtest"
	"otm/pipeline"
	"otm/slacklist"
)

// Without the optional columns there is nothing to keep right, and nothing is written
// for ever. Once they are there, they are filled.
func TestOptionalColumnsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"Subtasks remaining", "Completion", "Completed at", "Assigned at", "Reason", "Result"} {
		if err := w.Server.RemoveColumn("", w.ListID, w.Column(t, name, "")); err != nil {
			t.Fatal(err)
		}
	}
	w.create(1, "x", "a", "b")
	w.delivers()
	w.handOut(1)
	w.delivers()
	w.report(1, core.Report{Steps: []string{"a"}, Status: pipeline.Blocked, Reason: "why?", Result: "r"})
	w.clock.Advance(time.Minute)
	w.delivers()
	w.Faults.Reset()
	for range 3 {
		if got := w.looks(time.Minute); got != "" || w.found.Drifted != 0 {
			t.Errorf("found %s, %d drifts", got, w.found.Drifted)
		}
		w.delivers()
	}
	if n := w.Faults.Count(apiUpdate); n != 0 {
		t.Errorf("%d updates", n)
	}
	if row := w.row(1); row.Status != pipeline.Blocked || len(row.Derived) > 0 {
		t.Errorf("row %+v", row)
	}
}

// Each optional column that the list has is filled, in the form of its type, and written
// again where somebody changes it. A select without the option stays empty.
func TestExtraColumns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		choice, times string // types of columns
		previous      string // the only option of the column, or ""
		want          []string
	}{
		{"text", "text", "", []string{"in_progress", "support", "2026-03-14T10:00:00Z"}},
		{"select", "date", "In progress", []string{"in_progress", "support", "2026-03-14"}},
		{"select", "number", "New", []string{"", "support", "1773482400"}},
	} {
		w := newWorld(t)
		w.clock.Advance(time.Date(2026, 3, 14, 10, 0, 0, 5000, time.UTC).Sub(w.clock.Now()))
		columns, err := w.Server.Columns(w.ListID)
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[pipeline.Kind]string{pipeline.KindTime: c.times, pipeline.KindChoice: c.choice, pipeline.KindText: "text", pipeline.KindLink: "text"}
		columns = slices.DeleteFunc(columns, func(c boardtest.Column) bool { return strings.HasPrefix(c.Type, "todo_") })
		columns[slices.IndexFunc(columns, func(c boardtest.Column) bool { return c.Name == "Assignee" })].Options = []boardtest.Choice{{Value: "OptD", Label: "Dev Das"}}
		for _, f := range pipeline.DerivedFields {
			column := boardtest.Column{Name: f.Column, Type: kinds[f.Kind]}
			switch {
			case !f.Extra:
				continue
			case column.Type != "select":
			case f.Field == pipeline.FieldPrevious:
				column.Options = []boardtest.Choice{{Value: "OptP", Label: c.previous}}
			default:
				column.Options = []boardtest.Choice{{Value: "OptC", Label: "Support"}}
			}
			columns = append(columns, column)
		}
		if w.ListID, err = w.Server.AddList("", "Tasks", columns...); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.store.Request(t.Context(), w.clock.Now(), pipeline.Task{
			ID: 1, Title: "x", Agent: "devdas", Priority: pipeline.High, Type: pipeline.Action, Steps: []string{"a"}, Context: "support", Inputs: []string{"/a b", "c"}})
		if left := w.delivers(); len(left) > 0 {
			t.Fatalf("left %v", left)
		}
		w.handOut(1)
		w.report(1, core.Report{Status: pipeline.InProgress})
		for _, to := range []pipeline.Status{pipeline.Cancelled, pipeline.Done, pipeline.InProgress, pipeline.AgentDone} {
			w.do(core.ByPerson("Page"), 1, core.Edits{Status: &to})
		}
		shows := func(when string) {
			t.Helper()
			row := w.row(1).Derived
			if got := []string{row[pipeline.FieldPrevious], row[pipeline.FieldContext], row[pipeline.FieldValidatedAt]}; !slices.Equal(got, c.want) ||
				row[pipeline.FieldCancelledAt] != c.want[2] || row[pipeline.FieldInputs] != "/a b\nc" {
				t.Errorf("%s, %s and %s show %q, want %q", when, c.choice, c.times, row, c.want)
			}
		}
		const link = "https://x.slack.com/archives/C1/p1"
		w.do(core.Component("x"), 1, core.PostAudit{AuditPosted: core.AuditPosted{Channel: "C1", TS: "1.0", Link: link}})
		w.delivers()
		shows("made")
		if got := w.row(1).Derived[pipeline.FieldThread]; got != link {
			t.Errorf("the thread is shown as %q", got)
		}
		drifts := func(n int) {
			t.Helper()
			if w.clock.Advance(time.Minute); w.compare().Drifted != n {
				t.Errorf("%s and %s: %d drifts, want %d", c.choice, c.times, w.found.Drifted, n)
			}
		}
		drifts(0)
		for _, name := range []string{"Input files", "Validated at"} {
			kind := map[string]string{"Input files": "text", "Validated at": c.times}[name]
			cell := boardtest.Cell{"column_id": w.Column(t, name, kind)}
			cell[map[string]string{"text": "rich_text", "date": "date", "number": "number"}[kind]] = []any{}
			w.person(w.row(1).ID, cell)
			drifts(1)
			w.delivers()
			shows(name + " cleared")
		}
		drifts(0)
	}
}

// withAssignees has the world use a new list whose column of assignees is another one.
func (w *world) withAssignees(t *testing.T, change func(*boardtest.Column)) {
	t.Helper()
	columns, err := w.Server.Columns(w.ListID)
	if err != nil {
		t.Fatal(err)
	}
	columns = slices.DeleteFunc(columns, func(c boardtest.Column) bool {
		return c.Type == "todo_completed" || c.Type == "todo_assignee" || c.Type == "todo_due_date"
	})
	for i := range columns {
		if columns[i].Name == "Assignee" {
			change(&columns[i])
		}
	}
	if w.ListID, err = w.Server.AddList("", "Tasks", columns...); err != nil {
		t.Fatal(err)
	}
	w.client = slacklist.New(slacklist.Options{Dir: w.dir, URL: w.URL, ListID: w.ListID, Token: w.Token, Now: w.clock.Now})
}

func ofPeople(c *boardtest.Column) { c.Type, c.Options = "user", nil }

// Where the column of assignees holds people, an agent is written as its user, and one
// without a user needs a person to name one.
func TestAssigneesArePeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withAssignees(t, ofPeople)
	people := slices.Clone(agents)
	people[0].User = "U0DEV"
	w.sink.Agents, w.differ.Agents = people, people
	w.create(1, "x", "a")
	w.create(2, "y", "a")
	w.do(core.ByPerson("Page"), 2, core.Edits{Agent: new("archibald")})
	if got := codes(w.delivers()); got != "2 option_missing (person)" {
		t.Errorf("left %s", got)
	}
	w.looks(time.Minute)
	row := w.row(1)
	if row.Assignee != "U0DEV" || w.task(1).Agent != "devdas" {
		t.Errorf("row %+v, task %+v", row, w.task(1))
	}
	w.person(row.ID, boardtest.UserCell(w.Column(t, "Assignee", "user"), "U0STRANGER"))
	w.looks(time.Second)
	if w.task(1).Agent != "U0STRANGER" {
		t.Errorf("task %+v", w.task(1))
	}
}

// A task of the shared queue has no assignee where the list cannot show one: that is nobody's
// choice, and its row shows who claimed it.
func TestSharedQueueWithoutTheOption(t *testing.T) {
	t.Parallel()
	for kind, change := range map[string]func(*boardtest.Column){
		"user":   ofPeople,
		"select": func(c *boardtest.Column) { c.Options = []boardtest.Choice{{Value: "OptDev", Label: "Dev Das"}} },
	} {
		w := newWorld(t)
		w.withAssignees(t, change)
		w.store.Request(t.Context(), w.clock.Now(), pipeline.Task{ID: 1, Title: "x", Agent: pipeline.SharedQueue, Steps: []string{"a"}})
		shows := func(when, assignee, agent string) {
			t.Helper()
			if got := codes(w.delivers()); got != "" {
				t.Errorf("%s, %s: left %s", kind, when, got)
			}
			w.looks(time.Minute)
			if row := w.row(1); row.Assignee != assignee || w.task(1).Agent != agent {
				t.Errorf("%s, %s: the row shows %q, the agent is %q", kind, when, row.Assignee, w.task(1).Agent)
			}
		}
		own := map[string]string{"user": "U0DEVDAS", "select": "Dev Das"}[kind]
		shows("at first", "", "queue")
		w.do(core.ByAgent("devdas"), 1, core.Claim{Workspace: "/w"})
		shows("claimed", own, "devdas")
		w.do(core.ByPerson("Page"), 1, core.Edits{Status: new(pipeline.New)})
		shows("released", "", "queue")
	}
}

// A status is read again before it is overwritten if it is older than a few seconds,
// and not before.
func TestStatusIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "x", "a")
	w.create(2, "y", "a")
	w.delivers()
	w.clock.Advance(time.Minute)
	w.Faults.Reset()
	for n, c := range []struct {
		after time.Duration
		walks int
	}{{0, 1}, {3 * time.Second, 0}, {6 * time.Second, 1}, {3 * time.Second, 0}} {
		w.clock.Advance(c.after)
		w.do(core.ByPerson("Page"), pipeline.TaskID(n%2+1), core.Edits{Title: new(fmt.Sprint("title ", n))})
		w.Faults.Reset()
		w.delivers()
		if got := w.Faults.Count(apiList); got != c.walks {
			t.Errorf("write %d: %d walks, want %d", n+1, got, c.walks)
		}
	}
	w.check()
}
