package pipeline

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// standing is a record that agrees with standingRow and standingSteps.
func standing() *Record {
	return &Record{
		TaskID: 35, Title: "Build it", Priority: High, RowID: "R1", Status: InProgress,
		Steps: []StepRecord{{Title: "a", RowID: "R2", Done: true}, {Title: "b", RowID: "R3"}},
	}
}

func standingRow() *Row {
	return &Row{ID: "R1", Title: "Build it", Priority: High, Status: InProgress, UpdatedBy: "U0ROB"}
}

func standingSteps() []*Row {
	return []*Row{
		{ID: "R2", Parent: "R1", Title: "a", Status: Done, Created: 10},
		{ID: "R3", Parent: "R1", Title: "b", Created: 10},
	}
}

func byRob(*Row) string    { return "U0ROB" }
func byNobody(*Row) string { return "" }

func TestObserve(t *testing.T) {
	t.Parallel()
	seen := func(who, what, detail string) *Event { return &Event{At: noon, Who: who, What: what, Detail: detail} }
	moved, byOTM := seen("U0ROB", "changed status", "in_progress to blocked"), seen("board", "changed status", "in_progress to blocked")
	tests := []struct {
		name     string
		rec      func(*Record)
		row      func(*Row)
		steps    func([]*Row) []*Row
		byPerson bool
		want     func(*Record) // what it changes; nil: nothing, and Observe says so
		event    *Event
	}{
		{name: "nothing new"},
		{name: "status by a person", byPerson: true, row: func(r *Row) { r.Status = Blocked },
			want: func(r *Record) { r.Status = Blocked }, event: moved},
		{name: "status by OTM", row: func(r *Row) { r.Status = Blocked },
			want: func(r *Record) { r.Status = Blocked }, event: byOTM},
		{name: "status cleared is new", row: func(r *Row) { r.Status = "" },
			want: func(r *Record) { r.Status = New }, event: seen("board", "changed status", "in_progress to new")},
		{name: "unheard of status", row: func(r *Row) { r.Status = "waiting_for_godot" },
			want: func(r *Record) { r.Status = "waiting_for_godot" }, event: seen("board", "changed status", "in_progress to waiting_for_godot")},
		{name: "first status is no change", rec: func(r *Record) { r.Status = "" },
			want: func(r *Record) { r.Status = InProgress }},
		{name: "title", byPerson: true, row: func(r *Row) { r.Title = "Build them" }, want: func(r *Record) { r.Title = "Build them" },
			event: seen("U0ROB", "changed title", "to Build them")},
		{name: "title cleared is kept", row: func(r *Row) { r.Title = "" }},
		{name: "priority", byPerson: true, row: func(r *Row) { r.Priority = Low }, want: func(r *Record) { r.Priority = Low },
			event: seen("U0ROB", "changed priority", "to low")},
		{name: "priority, and OTM wrote the row since", row: func(r *Row) { r.Priority = Low }, want: func(r *Record) { r.Priority = Low },
			event: seen("board", "changed priority", "to low")},
		{name: "priority cleared is kept", row: func(r *Row) { r.Priority = "" }},
		{name: "reason by a person", byPerson: true, row: func(r *Row) { r.Reason = "green" },
			want: func(r *Record) { r.Reason, r.Answered = "green", true }, event: seen("U0ROB", "reason", "green")},
		{name: "C9: reason that no person is known to have written", row: func(r *Row) { r.Reason = "green" },
			want: func(r *Record) { r.Reason = "green" }, event: seen("board", "reason", "green")},
		{name: "C9: reason of a report of ours that was begun", byPerson: true,
			rec: func(r *Record) { why := "which colour?"; r.Reporting = &Report{ID: "U", Reason: &why} },
			row: func(r *Row) { r.Reason = "which colour?" }, want: func(r *Record) { r.Reason = "which colour?" }},
		{name: "C9: another reason than that of the report that was begun", byPerson: true,
			rec: func(r *Record) { why := "which colour?"; r.Reporting = &Report{ID: "U", Reason: &why} },
			row: func(r *Row) { r.Reason = "green" }, want: func(r *Record) { r.Reason, r.Answered = "green", true }, event: seen("U0ROB", "reason", "green")},
		{name: "reason cleared is kept", rec: func(r *Record) { r.Reason = "why" }},
		{name: "ticked", byPerson: true, steps: func(rows []*Row) []*Row { rows[1].Checked = true; return rows },
			want: func(r *Record) { r.Steps[1].Done = true }, event: seen("U0ROB", "ticked a step", "b")},
		{name: "ticked by our own update, whose answer was lost", rec: func(r *Record) { r.Reporting = &Report{ID: "U", Steps: []int{1}} },
			steps: func(rows []*Row) []*Row { rows[1].Checked = true; return rows },
			want:  func(r *Record) { r.Steps[1].Done = true }},
		{name: "done by status", steps: func(rows []*Row) []*Row { rows[1].Status = AgentDone; return rows },
			want: func(r *Record) { r.Steps[1].Done = true }, event: seen("board", "ticked a step", "b")},
		{name: "unticked", byPerson: true, steps: func(rows []*Row) []*Row { rows[0].Status = New; return rows },
			want: func(r *Record) { r.Steps[0].Done = false }, event: seen("U0ROB", "opened a step again", "a")},
		{name: "step renamed", byPerson: true, steps: func(rows []*Row) []*Row { rows[0].Title = "A"; return rows },
			want: func(r *Record) { r.Steps[0].Title = "A" }, event: seen("U0ROB", "renamed a step", "a to A")},
		{name: "step name cleared is kept", steps: func(rows []*Row) []*Row { rows[0].Title = ""; return rows }},
		{name: "rows of steps in another order", steps: func(rows []*Row) []*Row { return []*Row{rows[1], rows[0]} }},
		{name: "a step's row is missing", steps: func(rows []*Row) []*Row { return rows[:1] }},
		{name: "step added", steps: func(rows []*Row) []*Row {
			return append([]*Row{{ID: "R9", Title: "c", Created: 11, Checked: true}}, rows...)
		}, want: func(r *Record) {
			r.Steps = append(r.Steps, StepRecord{Title: "c", RowID: "R9", Done: true})
		}, event: seen("board", "step added", "c")},
		{name: "a row that a lost answer may have made is no added step", rec: func(r *Record) { r.Steps[1].RowID, r.Steps[1].AskedAt = "", &noon }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			person := byNobody
			if tt.byPerson {
				person = byRob
			}
			got, want, row, steps := standing(), standing(), standingRow(), standingSteps()
			if tt.rec != nil {
				tt.rec(got)
				tt.rec(want)
			}
			if tt.row != nil {
				tt.row(row)
			}
			if tt.steps != nil {
				steps = tt.steps(steps)
			}
			if tt.want != nil {
				tt.want(want)
			}
			if tt.event != nil {
				want.History = []Event{*tt.event}
			}
			changed := got.Observe(row, steps, person, noon)
			if changed != (tt.want != nil) {
				t.Errorf("Observe said changed = %v, want %v", changed, tt.want != nil)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("record:\n%+v\nwant:\n%+v", got, want)
			}
			if got.Observe(row, steps, person, noon) {
				t.Error("Observe of the same once more said changed = true")
			}
		})
	}
}

// TestObserveAddsStepsInTheOrderOfTheirMaking is about several at once.
func TestObserveAddsStepsInTheOrderOfTheirMaking(t *testing.T) {
	t.Parallel()
	r := standing()
	added := []*Row{{ID: "R8", Title: "late", Created: 30}, {ID: "R7", Title: "early", Created: 20}, {ID: "R6", Title: "same second", Created: 20}}
	r.Observe(standingRow(), append(added, standingSteps()...), byNobody, noon)
	var got []string
	for _, s := range r.Steps {
		got = append(got, s.Title)
	}
	if want := []string{"a", "b", "early", "same second", "late"}; !reflect.DeepEqual(got, want) {
		t.Errorf("steps are %q, want %q", got, want)
	}
}

func TestFromRow(t *testing.T) {
	t.Parallel()
	row := &Row{ID: "R1", Title: "Typed", Assignee: "Devdas", Project: "P", Reason: "r", Result: "s", Created: 1700000000}
	steps := []*Row{{ID: "R3", Title: "second", Created: 3}, {ID: "R2", Title: "first", Created: 2, Checked: true}}
	want := &Record{
		TaskID: 35, Title: "Typed", Agent: "Devdas", Priority: Normal, Project: "P", Type: Action, CreatedAt: time.Unix(1700000000, 0).UTC(),
		RowID: "R1", Status: New, Reason: "r", Result: "s",
		Steps: []StepRecord{{Title: "first", RowID: "R2", Done: true}, {Title: "second", RowID: "R3"}},
	}
	got := &Record{TaskID: 35}
	for range 2 { // once more: nothing may double
		got.FromRow(row, steps, nil)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("FromRow made\n%+v\nwant\n%+v", got, want)
		}
	}
	if steps[0].ID != "R3" {
		t.Error("FromRow sorted the caller's rows")
	}
	got.FromRow(&Row{ID: "R1", Priority: Low, Type: "review", Status: AgentDone}, nil, nil)
	if got.Priority != Low || got.Type != Review || got.Status != AgentDone || len(got.Steps) != 0 {
		t.Errorf("FromRow of a full row made %+v", got)
	}
}

// TestFromRowInOrder has rows of one second in an order that says nothing.
func TestFromRowInOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ rows, titles, want string }{
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
		var rows []*Row
		for _, title := range strings.Fields(tt.rows) {
			rows = append(rows, &Row{ID: "R" + title, Title: title, Created: 7})
		}
		var r Record
		r.FromRow(&Row{ID: "R1"}, rows, strings.Fields(tt.titles))
		var got []string
		for _, s := range r.Steps {
			got = append(got, s.Title)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("rows %q, drop %q: steps %q, want %q", tt.rows, tt.titles, got, tt.want)
		}
	}
}

// A row that was archived and restored is back once somebody opened it again;
// one that the board still shows while it is being deleted is not.
func TestObserveBackFromTheArchive(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	r := &Record{TaskID: 1, RowID: "Rec1", Status: Done, ArchivedAt: &at}
	if r.Observe(&Row{ID: "Rec1", Status: Done}, nil, byNobody, at) || r.ArchivedAt == nil {
		t.Error("back while it was done")
	}
	if !r.Observe(&Row{ID: "Rec1", Status: New}, nil, byRob, at) || r.ArchivedAt != nil {
		t.Error("still archived")
	}
}
