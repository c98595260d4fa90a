package slacklist

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/pipeline"
)

// handMade are the columns of a list that a person made for OTM: all by their
// default names.
func handMade() []boardtest.Column {
	options := func(labels ...string) []boardtest.Choice {
		var all []boardtest.Choice
		for _, l := range labels {
			all = append(all, boardtest.Choice{Label: l})
		}
		return all
	}
	return []boardtest.Column{
		{Name: "Title", Type: "text"},
		{Name: "Task ID", Type: "text"},
		{Name: "Type", Type: "select", Options: options("Action", "Decision", "Review")},
		{Name: "Assignee", Type: "select", Options: options("Devdas", "Archibald")},
		{Name: "Project 2", Type: "text"},
		{Name: "Priority", Type: "select", Options: options("Critical", "High", "Medium", "Low", "Batchable")},
		{Name: "Status", Type: "select", Options: options("New", "Assigned", "In Progress", "Blocked", "Agent Done", "Done")},
		{Name: "Subtasks remaining", Type: "number"},
		{Name: "Completion", Type: "number"},
		{Name: "Assigned at", Type: "text"},
		{Name: "Completed at", Type: "text"},
		{Name: "Reason", Type: "text"},
		{Name: "Result", Type: "text"},
	}
}

// list makes a list on the world's board and points the world at it. Each edit
// is given the column of a name.
func (w *world) list(edits map[string]func(*boardtest.Column)) {
	w.t.Helper()
	var columns []boardtest.Column
	for _, c := range handMade() {
		if edit := edits[c.Name]; edit != nil {
			edit(&c)
		}
		if c.Name != "" {
			columns = append(columns, c)
		}
	}
	id, err := w.Server.AddList("U0PERSON", "Tasks", columns...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.ListID = id
}

func drop(c *boardtest.Column) { c.Name = "" }

func retype(kind string, labels ...string) func(*boardtest.Column) {
	return func(c *boardtest.Column) {
		c.Type, c.Options = kind, nil
		for _, l := range labels {
			c.Options = append(c.Options, boardtest.Choice{Label: l})
		}
	}
}

// column returns the id of a column of the world's list.
func (w *world) column(name string) string {
	w.t.Helper()
	columns, err := w.Server.Columns(w.ListID)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range columns {
		if c.Name == name {
			return c.ID
		}
	}
	w.t.Fatalf("no column %q", name)
	return ""
}

// A list made by a person has keys that are ids and options with opaque
// values: all is found by name and label, and read back by them.
func TestHandMadeList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(nil)
	c := w.client()
	w.batch(c, func(s *Session) {
		row := w.add(s, 7, pipeline.Cell{Field: pipeline.FieldProject, Text: "PRJ-012"})
		w.set(s, pipeline.Change{Row: row, Cells: []pipeline.Cell{
			{Field: pipeline.FieldStatus, Text: "in_progress"}, {Field: pipeline.FieldReason, Text: "why"},
			{Field: pipeline.FieldRemaining, Text: "2"}, {Field: pipeline.FieldCompletion, Text: "33"},
		}})
		patched := *s.Row(row)
		s.snap.row(row).Wrote = 0
		w.walk(s)
		got := s.Row(row)
		if got.Title != "Task 7" || got.TaskID != "T-00007" || got.Type != "action" || got.Assignee != "Devdas" ||
			got.Project != "PRJ-012" || got.Priority != pipeline.Normal || got.Status != pipeline.InProgress ||
			got.Derived[pipeline.FieldRemaining] != "2" || got.Derived[pipeline.FieldCompletion] != "33" || got.Reason != "why" || got.Odd {
			t.Errorf("row %+v", got)
		}
		patched.Assignee, patched.Updated = got.Assignee, got.Updated // written as we call it, read as the list does
		if !sameCells(got, &patched) || got.CreatedBy != board.BotUser || got.UpdatedBy != patched.UpdatedBy {
			t.Errorf("walked %+v\npatched %+v", got, patched)
		}
	})
	for _, call := range w.Faults.Calls() {
		if cells := call.Args.Get("initial_fields"); strings.Contains(cells, `"select":["action"]`) {
			t.Errorf("a label was sent for a value: %s", cells)
		}
	}
}

// The embedded board's own list, with two columns named Assignee.
func TestDefaultList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) {
		w.walk(s)
		for field, name := range columnNames(nil) {
			d := derived(field)
			if c := s.snap.Schema.Column(field); c == nil && (d == nil || !d.Extra) || c != nil && c.Name != name {
				t.Errorf("field %s is served by %+v", field, c)
			}
		}
		if c := s.snap.Schema.Column(pipeline.FieldAssignee); c.Type != "select" {
			t.Errorf("the assignee is %+v, want the select", c)
		}
		if c := s.snap.Schema.Column(pipeline.FieldChecked); c == nil || c.ID != "Col00" {
			t.Errorf("the tick is %+v", c)
		}
		if s.snap.Schema.Column(pipeline.FieldResult) == nil || s.snap.Schema.Column(pipeline.FieldChecked) == nil {
			t.Error("it does not have what it has")
		}
		if rows, limit := len(s.snap.Rows), s.snap.Schema.Limit; rows != 0 || limit != 0 && limit < 1000 {
			t.Errorf("room for %d of %d", rows, limit)
		}
	})
}

// wire is a column as the list object shows it.
func wireOf(id, name, kind string, labels ...string) map[string]any {
	choices := []map[string]string{}
	for _, l := range labels {
		choices = append(choices, map[string]string{"value": "Opt" + l, "label": l})
	}
	c := map[string]any{"id": id, "name": name, "type": kind, "key": id}
	if len(labels) > 0 {
		c["options"] = map[string]any{"choices": choices, "format": "single_select"}
	}
	return c
}

func listObject(t *testing.T, columns ...map[string]any) *wireList {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"id":            "F1",
		"list_metadata": map[string]any{"schema": columns, "views": 7},
		"list_limits":   map[string]any{"row_count_limit": 1000, "row_count": 12},
	})
	if err != nil {
		t.Fatal(err)
	}
	var list wireList
	if !decode(raw, &list) {
		t.Fatalf("%s is no JSON", raw)
	}
	return &list
}

func TestSchema(t *testing.T) {
	t.Parallel()
	base := func() []map[string]any {
		return []map[string]any{
			wireOf("Col1", "Title", "text"), wireOf("Col2", "Task ID", "text"), wireOf("Col3", "Type", "select", "Action"),
			wireOf("Col4", "Assignee", "select", "Devdas"), wireOf("Col5", "Project 2", "text"),
			wireOf("Col6", "Priority", "select", "Normal"), wireOf("Col7", "Status", "select", "New"),
		}
	}
	with := func(more ...map[string]any) []map[string]any { return append(base(), more...) }
	without := func(name string) []map[string]any {
		return slices.DeleteFunc(base(), func(c map[string]any) bool { return c["name"] == name })
	}
	for _, c := range []struct {
		name    string
		columns []map[string]any
		names   map[pipeline.Field]string
		want    map[pipeline.Field]string // column ids; "" for none
		problem string                    // part of the error
	}{
		{"least", base(), nil, map[pipeline.Field]string{pipeline.FieldStatus: "Col7", pipeline.FieldReason: "", pipeline.FieldChecked: ""}, ""},
		{"all optional", with(wireOf("Col8", "Reason", "text"), wireOf("Col9", "Completion", "text"), wireOf("Col00", "Erledigt", "todo_completed")), nil,
			map[pipeline.Field]string{pipeline.FieldReason: "Col8", pipeline.FieldCompletion: "Col9", pipeline.FieldChecked: "Col00"}, ""},
		{"two named Assignee", with(wireOf("Col01", "Assignee", "todo_assignee")), nil, map[pipeline.Field]string{pipeline.FieldAssignee: "Col4"}, ""},
		{"only the todo list's Assignee", append(without("Assignee"), wireOf("Col01", "Assignee", "todo_assignee")), nil,
			map[pipeline.Field]string{pipeline.FieldAssignee: "Col01"}, ""},
		{"the one of people is better than the todo list's", append(without("Assignee"), wireOf("Col01", "Assignee", "todo_assignee"), wireOf("Col9", "Assignee", "user")), nil,
			map[pipeline.Field]string{pipeline.FieldAssignee: "Col9"}, ""},
		{"two of one type", with(wireOf("Col9", "Status", "select", "New")), nil, nil, `column "Status" stands more than once with a fitting type: configure one by its id (the board has: Col7, Col9)`},
		{"two of kinds that are alike", with(wireOf("Col9", "Status", "multi_select", "New")), nil, nil, "Col7, Col9"},
		{"two texts that are alike", with(wireOf("Col9", "Title", "rich_text")), nil, nil, "Col1, Col9"},
		{"two, one of them by id", with(wireOf("Col9", "Status", "select", "New")), map[pipeline.Field]string{pipeline.FieldStatus: "Col9"},
			map[pipeline.Field]string{pipeline.FieldStatus: "Col9"}, ""},
		{"two, one of them of no use", with(wireOf("Col9", "Status", "vote")), nil, map[pipeline.Field]string{pipeline.FieldStatus: "Col7"}, ""},
		{"other names", base(), map[pipeline.Field]string{pipeline.FieldTitle: "task-id", pipeline.FieldTaskID: "TITLE"},
			map[pipeline.Field]string{pipeline.FieldTitle: "Col2", pipeline.FieldTaskID: "Col1"}, ""},
		{"missing", without("Priority"), nil, nil, `column "Priority" is missing (the board has: Title, Task ID,`},
		{"missing by its configured name", base(), map[pipeline.Field]string{pipeline.FieldPriority: "Prio"}, nil, `column "Prio" is missing`},
		{"wrong type", append(without("Status"), wireOf("Col9", "Status", "text")), nil, nil, `column "Status" has the type text, needs select or multi_select`},
		{"wrong type by id", base(), map[pipeline.Field]string{pipeline.FieldStatus: "Col1"}, nil, "has the type text"},
		{"optional of the wrong type", with(wireOf("Col9", "Reason", "checkbox")), nil, nil, `column "Reason" has the type checkbox`},
		{"one column for two", base(), map[pipeline.Field]string{pipeline.FieldReason: "Title"}, nil, `column "Title" is to be title and reason at once`},
		{"todo_completed before completed", with(wireOf("Col9", "Done?", "completed"), wireOf("Col00", "x", "todo_completed")), nil,
			map[pipeline.Field]string{pipeline.FieldChecked: "Col00"}, ""},
		{"no columns", nil, nil, nil, "list object has no columns"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := parseSchema(listObject(t, c.columns...), columnNames(c.names))
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("error %v, want %q", err, c.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for field, want := range c.want {
				if got := s.Fields[field]; got != want {
					t.Errorf("field %s is served by %q, want %q", field, got, want)
				}
			}
			if s.Limit != 1000 || s.Count != 12 {
				t.Errorf("%d of %d rows", s.Count, s.Limit)
			}
		})
	}
}

// Where the list has no column for an optional field, its cells are left out.
func TestOptionalColumnsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(map[string]func(*boardtest.Column){"Reason": drop, "Result": drop, "Completion": drop})
	w.batch(w.client(), func(s *Session) {
		row := w.add(s, 1, pipeline.Cell{Field: pipeline.FieldCompletion, Text: "50"})
		w.set(s, pipeline.Change{Row: row, Cells: []pipeline.Cell{
			{Field: pipeline.FieldReason, Text: "why"}, {Field: pipeline.FieldStatus, Text: "blocked"},
		}})
		before := w.Faults.Count(updateMethod)
		w.set(s, pipeline.Change{Row: row, Cells: []pipeline.Cell{{Field: pipeline.FieldResult, Text: "nothing to write"}}})
		if n := w.Faults.Count(updateMethod); n != before {
			t.Error("a call was made for no cells")
		}
		if s.snap.Schema.Column(pipeline.FieldReason) != nil || s.Row(row).Reason != "" || s.Row(row).Status != pipeline.Blocked {
			t.Errorf("row %+v", s.Row(row))
		}
	})
}

// People rename options and build them anew. The refused value is looked up in
// a schema that is read anew, once.
func TestOptionRebuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	var row string
	w.batch(c, func(s *Session) {
		w.walk(s)
		row = w.add(s, 1)
	})
	column := w.Column(t, "Status", "select")
	if err := w.Server.RemoveOption("", w.ListID, column, "blocked"); err != nil {
		t.Fatal(err)
	}
	if err := w.Server.AddOption("", w.ListID, column, "", "Blocked!"); err != nil {
		t.Fatal(err)
	}
	w.Faults.Reset()
	w.batch(c, func(s *Session) {
		e := missing(t, s.Update(t.Context(), status(row, pipeline.Blocked)))
		if e.Column != "Status" || e.Option != "blocked" || !slices.Contains(e.Have, "Blocked!") {
			t.Errorf("error %v", e)
		}
		if n := w.Faults.Count(filesMethod); n != 1 {
			t.Errorf("schema read %d times", n)
		}
		missing(t, s.Update(t.Context(), status(row, pipeline.Blocked)))
		if n := w.Faults.Count(filesMethod); n != 1 {
			t.Errorf("schema read %d times in one batch", n)
		}
	})
	if err := w.Server.AddOption("", w.ListID, column, "", "blocked"); err != nil {
		t.Fatal(err)
	}
	w.Faults.Reset()
	w.batch(c, func(s *Session) {
		w.set(s, status(row, pipeline.Blocked))
		w.walk(s)
		if got := s.Row(row).Status; got != pipeline.Blocked {
			t.Errorf("status %q", got)
		}
	})
	if n, m := w.Faults.Count(filesMethod), w.Faults.Count(updateMethod); n != 1 || m != 1 {
		t.Errorf("schema read %d times, %d updates", n, m)
	}
}

// A column that was deleted and made again has another id; the board refuses
// the old one.
func TestColumnRebuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	w.batch(c, func(s *Session) {
		row := w.add(s, 1)
		schema := &s.snap.Schema
		old := schema.Column(pipeline.FieldStatus)
		schema.Fields[pipeline.FieldStatus], old.ID = "Col0GONE", "Col0GONE"
		s.schemas.read = false
		w.Faults.Reset()
		w.set(s, status(row, pipeline.Assigned))
		if n, m := w.Faults.Count(filesMethod), w.Faults.Count(updateMethod); n != 1 || m != 2 {
			t.Errorf("schema read %d times, %d updates; want one refused, one read, one that works", n, m)
		}
	})
}

// What the board goes on refusing with a schema that was just read waits for a
// person, as a missing column does.
func TestStillRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *boardtest.Options) { o.FixedAssignees = true })
	open := w.client()
	w.batch(open, func(s *Session) { w.walk(s) })
	w.batch(open, func(s *Session) {
		_, err := s.Create(t.Context(), "", taskCells(1)...)
		e := missing(t, err)
		if !strings.Contains(e.Column, "Assignee") || strings.Contains(e.Column, "Title") || !strings.Contains(e.Error(), "invalid_option_id") {
			t.Errorf("error %v", e)
		}
		if pipeline.MaybeApplied(err) {
			t.Error("a refused create may have been applied")
		}
	})
	if n := w.Faults.Count(createMethod); n != 2 {
		t.Errorf("%d creates", n)
	}
	w.Faults.Reset()
	closed := w.client(func(o *Options) { o.OpenAssignees = false })
	w.batch(closed, func(s *Session) { // and where the client knows better, it does not even ask
		e := missing(t, func() error { _, err := s.Create(t.Context(), "", taskCells(1)...); return err }())
		if e.Column != "Assignee" || e.Option != "devdas" {
			t.Errorf("error %v", e)
		}
	})
	if n := w.Faults.Count(createMethod); n != 0 {
		t.Errorf("%d creates", n)
	}
}

// A column that the configuration names and the list lost: the walk fails and
// says so, and the old rows stay.
func TestColumnRenamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	w.batch(c, func(s *Session) {
		w.add(s, 1)
		w.walk(s)
	})
	column := w.Column(t, "Status", "select")
	if err := w.Server.RenameColumn("", w.ListID, column, "State"); err != nil {
		t.Fatal(err)
	}
	w.batch(c, func(s *Session) {
		e := missing(t, s.Refresh(t.Context(), 0))
		if e.Column != "Status" || !slices.Contains(e.Have, "State") {
			t.Errorf("error %v", e)
		}
		if len(ids(s)) != 1 {
			t.Error("the old rows are gone")
		}
	})
	w.batch(w.client(func(o *Options) { o.Columns = map[pipeline.Field]string{pipeline.FieldStatus: "STATE"} }), func(s *Session) { w.walk(s) })
	w.batch(w.client(func(o *Options) { o.Columns = map[pipeline.Field]string{pipeline.FieldStatus: column} }), func(s *Session) { w.walk(s) })
}

// Older boards ignore that the list object is asked for with the rows.
func TestIncludeListIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *boardtest.Options) { o.Quirks.IgnoreIncludeList = true })
	c := w.client()
	w.batch(c, func(s *Session) { w.walk(s) })
	w.batch(c, func(s *Session) { w.walk(s); w.add(s, 1) })
	if n := w.Faults.Count(filesMethod); n != 1 {
		t.Errorf("schema read %d times", n)
	}
}

// The forms that times and projects take by the types of their columns.
func TestColumnTypes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 23, 30, 0, 0, time.FixedZone("", -5*3600))
	for _, c := range []struct {
		kind, column, want, cell string
	}{
		{"text", "Assigned at", "2026-03-15T04:30:00Z", `"text":"2026-03-15T04:30:00Z"`},
		{"date", "Assigned at", "2026-03-15", `"date":["2026-03-15"]`},
		{"number", "Assigned at", fmt.Sprint(at.Unix()), fmt.Sprintf(`"number":[%d]`, at.Unix())},
		{"text", "Project 2", "prj-012", `"text":"prj-012"`},
		{"select", "Project 2", "PRJ-012", `"select":["Opt`},
		{"text", "Completion", "50", `"text":"50"`},
		{"number", "Completion", "50", `"number":[50]`},
		{"multi_select", "Status", "new", `"select":["Opt`},
	} {
		t.Run(c.column+" "+c.kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			labels := map[string][]string{"Project 2": {"PRJ-011", "PRJ-012"}, "Status": {"New", "Done"}}[c.column]
			if !strings.Contains(c.kind, "select") {
				labels = nil
			}
			w.list(map[string]func(*boardtest.Column){c.column: retype(c.kind, labels...)})
			w.batch(w.client(), func(s *Session) {
				row := w.add(s, 1, pipeline.Cell{Field: pipeline.FieldAssignedAt, Text: at.Format(time.RFC3339Nano)},
					pipeline.Cell{Field: pipeline.FieldProject, Text: "prj-012"}, pipeline.Cell{Field: pipeline.FieldCompletion, Text: "50"})
				field := map[string]pipeline.Field{"Assigned at": pipeline.FieldAssignedAt, "Project 2": pipeline.FieldProject,
					"Completion": pipeline.FieldCompletion, "Status": pipeline.FieldStatus}[c.column]
				show := func(r *pipeline.Row) string {
					switch field {
					case pipeline.FieldProject:
						return r.Project
					case pipeline.FieldStatus:
						return string(r.Status)
					}
					return r.Derived[field]
				}
				if got := show(s.Row(row)); !strings.EqualFold(got, c.want) {
					t.Errorf("our own write shows as %q, want %q", got, c.want)
				}
				s.snap.row(row).Wrote = 0
				w.walk(s)
				if got := show(s.Row(row)); got != c.want {
					t.Errorf("walked as %q, want %q", got, c.want)
				}
				if raw := sent(t, w.Faults, w.column(c.column)); !strings.Contains(raw, c.cell) {
					t.Errorf("sent %s, want %s", raw, c.cell)
				}
				if field == pipeline.FieldStatus {
					return
				}
				w.set(s, pipeline.Change{Row: row, Cells: []pipeline.Cell{{Field: field}}})
				cleared := show(s.Row(row))
				s.snap.row(row).Wrote = 0
				w.walk(s)
				if walked := show(s.Row(row)); cleared != "" || walked != "" {
					t.Errorf("cleared, it shows as %q and walked as %q", cleared, walked)
				}
			})
		})
	}
}

// sent is the cell that the last create sent for a column.
func sent(t *testing.T, l *boardtest.Layer, column string) string {
	t.Helper()
	cell := ""
	for _, call := range l.Calls() {
		var cells []json.RawMessage
		if json.Unmarshal([]byte(call.Args.Get("initial_fields")), &cells) != nil {
			continue
		}
		for _, raw := range cells {
			if strings.Contains(string(raw), column) {
				cell = string(raw)
			}
		}
	}
	return cell
}

// Where the assignee column holds people, the agent's user is sent and read.
func TestAssigneeIsUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(map[string]func(*boardtest.Column){"Assignee": retype("user")})
	w.batch(w.client(), func(s *Session) {
		row := w.add(s, 1)
		if got := s.Row(row).Assignee; got != "U0DEVDAS" {
			t.Errorf("assignee %q", got)
		}
		s.snap.row(row).Wrote = 0
		w.walk(s)
		if got := s.Row(row).Assignee; got != "U0DEVDAS" {
			t.Errorf("walked assignee %q", got)
		}
		cells := taskCells(2)
		cells[3].User = ""
		_, err := s.Create(t.Context(), "", cells...)
		if e := missing(t, err); e.Option != "devdas" || !strings.Contains(e.Error(), "slack_user") {
			t.Errorf("error %v", e)
		}
		cells[3].User = "not a user"
		_, err = s.Create(t.Context(), "", cells...)
		if e := missing(t, err); e.Column != "Assignee" || !strings.Contains(e.Error(), "user_not_found") {
			t.Errorf("error %v", e)
		}
	})
}

// Normal and medium are one priority.
func TestMediumIsNormal(t *testing.T) {
	t.Parallel()
	c := &Column{Name: "Priority", Type: "select", Options: []Option{{"Opt1", "Medium"}, {"Opt2", "High"}}}
	f, err := (&encoder{}).choice(c, pipeline.Cell{Field: pipeline.FieldPriority, Text: "normal"})
	if err != nil || !slices.Equal(f.Select, []string{"Opt1"}) {
		t.Errorf("%v, %v", f, err)
	}
	if _, err := (&encoder{}).choice(c, pipeline.Cell{Field: pipeline.FieldPriority, Text: "batchable"}); err == nil {
		t.Error("an option that is missing was found")
	}
	var e *pipeline.MissingError
	_, err = (&encoder{}).choice(c, pipeline.Cell{Field: pipeline.FieldType, Text: "normal"})
	if !errors.As(err, &e) || e.Option != "normal" {
		t.Errorf("error %v", err)
	}
}

// A row that holds an option which a person removed is no new task, and nobody
// acts on what it holds.
func TestOptionRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(nil)
	w.batch(w.client(), func(s *Session) {
		row := w.add(s, 1)
		s.snap.row(row).Wrote = 0
		columns, err := w.Server.Columns(w.ListID)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(columns, func(c boardtest.Column) bool { return c.Name == "Status" })
		option := columns[i].Options[0]
		if err := w.Server.RemoveOption("", w.ListID, columns[i].ID, option.Value); err != nil {
			t.Fatal(err)
		}
		w.walk(s)
		if got := s.Row(row).Status; string(got) != pipeline.FoldName(option.Value) {
			t.Errorf("status %q, want that of the option %+v", got, option)
		}
	})
}
