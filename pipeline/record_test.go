package pipeline

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func TestNoteKeepsTheBeginningAndTheEnd(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, maxHistory - 1, maxHistory, maxHistory + 1, 3 * maxHistory} {
		var r Record
		for i := range n {
			r.Note(noon.In(time.FixedZone("", 3600)), "who", "what", fmt.Sprint(i))
		}
		if want := min(n, maxHistory); len(r.History) != want {
			t.Fatalf("after %d notes there are %d events, want %d", n, len(r.History), want)
		}
		first, last := r.History[0], r.History[len(r.History)-1]
		if first.Detail != "0" || last.Detail != fmt.Sprint(n-1) {
			t.Errorf("after %d notes the first event is %s and the last %s", n, first.Detail, last.Detail)
		}
		if first.At.Location() != time.UTC {
			t.Errorf("the time of an event is %v, want it in UTC", first.At)
		}
	}
}

// TestNoteShortensALongHistory is about a record that another version wrote.
func TestNoteShortensALongHistory(t *testing.T) {
	t.Parallel()
	r := Record{History: make([]Event, 2*maxHistory)}
	r.History[0].What = "first"
	r.Note(noon, "who", "last", "")
	if len(r.History) != maxHistory || r.History[0].What != "first" || r.History[maxHistory-1].What != "last" {
		t.Errorf("a history of %d events became %d, from %q to %q", 2*maxHistory, len(r.History), r.History[0].What, r.History[len(r.History)-1].What)
	}
}

func TestOnBoard(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		rec  Record
		want bool
	}{
		{"nothing", Record{}, false},
		{"row, no steps", Record{RowID: "R1"}, true},
		{"row and steps", Record{RowID: "R1", Steps: []StepRecord{{RowID: "R2"}, {RowID: "R3"}}}, true},
		{"a step is missing", Record{RowID: "R1", Steps: []StepRecord{{RowID: "R2"}, {}}}, false},
		{"steps, no row", Record{Steps: []StepRecord{{RowID: "R2"}}}, false},
	} {
		if got := tt.rec.OnBoard(); got != tt.want {
			t.Errorf("%s: OnBoard() = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestUnfinished(t *testing.T) {
	t.Parallel()
	open := []StepRecord{{Title: "a", Done: true}, {Title: "b"}}
	ticked := []StepRecord{{Title: "a", Done: true}}
	for _, s := range append([]Status{""}, Statuses...) {
		want := s == New || s == Assigned || s == InProgress
		r := Record{Status: s, Steps: open}
		if got := r.Unfinished(); got != want {
			t.Errorf("Unfinished() of %q with an open step = %v, want %v", s, got, want)
		}
		r.Steps = ticked
		if r.Unfinished() {
			t.Errorf("Unfinished() of %q with all steps ticked = true", s)
		}
		gone := time.Now()
		r.Steps, r.GoneAt = open, &gone
		if r.Unfinished() {
			t.Errorf("Unfinished() of %q whose row is gone = true", s)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		done, steps, remaining int
		percent                float64
	}{
		{0, 0, 0, 0}, {0, 1, 1, 0}, {1, 1, 0, 100}, {1, 3, 2, 33}, {2, 3, 1, 66}, {49, 50, 1, 98}, {50, 50, 0, 100},
	} {
		r := Record{Steps: make([]StepRecord, tt.steps)}
		for i := range tt.done {
			r.Steps[i].Done = true
		}
		remaining, percent := r.Progress()
		if remaining != tt.remaining || percent != tt.percent {
			t.Errorf("Progress of %d of %d = %d, %v; want %d, %v", tt.done, tt.steps, remaining, percent, tt.remaining, tt.percent)
		}
	}
}

func TestAppliedAs(t *testing.T) {
	t.Parallel()
	r := Record{Updates: []Applied{{ID: "u1", Drop: "a.json"}, {ID: "u2", Drop: ""}}}
	for _, tt := range []struct {
		id, drop string
		applied  bool
	}{
		{"u1", "a.json", true}, {"u2", "", true}, {"u3", "", false}, {"", "", false},
	} {
		if a, applied := r.AppliedAs(tt.id); a.Drop != tt.drop || applied != tt.applied {
			t.Errorf("AppliedAs(%q) = %q, %v; want %q, %v", tt.id, a.Drop, applied, tt.drop, tt.applied)
		}
	}
}

func TestPlainSteps(t *testing.T) {
	t.Parallel()
	r := Record{Steps: []StepRecord{{Title: "a", RowID: "R1", Done: true}, {Title: "b"}}}
	if got, want := r.PlainSteps(), []Step{{"a", true}, {"b", false}}; !reflect.DeepEqual(got, want) {
		t.Errorf("PlainSteps() = %v, want %v", got, want)
	}
}

// TestRecordKeepsItsForm reads a record back as it was written, every field of
// it: other tools read these files.
func TestRecordKeepsItsForm(t *testing.T) {
	t.Parallel()
	at, text := noon, "text\x1b\x00\u2028"
	want := Record{
		TaskID: 35, DropID: "d", Drop: "d.json", Title: text, Agent: "devdas", Priority: High, Project: "p", Type: Review, CreatedAt: at,
		RowID: "R1", RowAskedAt: &at, Unverified: true, Steps: []StepRecord{{Title: text, RowID: "R2", AskedAt: &at, Done: true}},
		Status: Blocked, Reason: "r", Result: "s",
		Reporting: &Report{ID: "u", Drop: "u.json", Status: Blocked, Steps: []int{0}, Reason: &text, Result: &text},
		Updates:   []Applied{{ID: "u", Drop: "u.json"}},
		Attempt:   2, Dispatch: &Dispatch{Attempt: 2, Agent: "devdas", Workspace: "/w", At: at, EntryAt: &at, FlippedAt: &at, TakenAt: &at, TakenBy: "x", MissingAt: &at},
		Wakes:   []Wake{{Attempt: 2, Key: "k", Agent: "devdas", Via: "exec", Tasks: []TaskID{35}, AskedAt: at, Sent: true, Accepted: &at, Refused: "n", Unknown: &at, Ended: &at, Exit: "0"}},
		History: []Event{{At: at, Who: "w", What: "x", Detail: text}},
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Record
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back:\n%+v\nwant:\n%+v", got, want)
	}
}

// A clone shares nothing that changes. (What pointers to times and texts lead
// to is replaced, never written.)
func TestClone(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	text := "why"
	full := func() *Record {
		return &Record{
			TaskID: 7, Title: "x", Steps: []StepRecord{{Title: "a", AskedAt: &at}}, Status: Assigned, Updates: []Applied{{ID: "u"}},
			Reporting: &Report{ID: "r", Steps: []int{0}, Reason: &text}, Dispatch: &Dispatch{Attempt: 1, EntryAt: &at},
			Wakes: []Wake{{Key: "k", Tasks: []TaskID{7}}}, History: []Event{{What: "dropped"}}, GoneAt: &at,
		}
	}
	r := full()
	c := r.Clone()
	if !reflect.DeepEqual(r, c) {
		t.Fatalf("clone %+v", c)
	}
	c.Title, c.Steps[0].Title, c.Updates[0].ID, c.Reporting.ID, c.Reporting.Steps[0] = "y", "b", "v", "s", 1
	c.Dispatch.Attempt, c.Dispatch.TakenAt, c.Wakes[0].Key, c.Wakes[0].Tasks[0], c.History[0].What = 2, &at, "l", 8, "lost"
	c.Note(at, "x", "y", "z")
	c.Steps = append(c.Steps, StepRecord{})
	if !reflect.DeepEqual(r, full()) {
		t.Errorf("the original changed: %+v", r)
	}
}

// C2: a report counts from when it was dropped, and not from when it was applied,
// so that the end of a process is not taken for older than its last report. A
// report that is applied out of order replaces nothing later.
func TestC2HeardWhenDropped(t *testing.T) {
	t.Parallel()
	at := func(m int) time.Time { return time.Date(2026, 3, 14, 15, m, 0, 0, time.UTC) }
	r := &Record{}
	r.Hear("Alpha", at(5), func(h *Heard) { h.Progress = at(5) })
	r.Hear("alpha", at(3), func(h *Heard) { h.Progress, h.Took = at(3), at(3) })
	if got := r.HeardOf("ALPHA"); !got.At.Equal(at(5)) || !got.Progress.Equal(at(5)) || !got.Took.Equal(at(3)) {
		t.Errorf("heard %+v", got)
	}
	if got := r.HeardOf("beta"); !got.At.IsZero() {
		t.Errorf("of another: %+v", got)
	}
	c := r.Clone()
	c.Hear("alpha", at(9), nil)
	if r.HeardOf("alpha").At.Equal(at(9)) {
		t.Error("a clone shares what was heard")
	}
}

// C4: a blocked task that goes on counts as resumed from then, and no other move does.
func TestC4SetStatus(t *testing.T) {
	t.Parallel()
	for _, from := range Statuses {
		for _, to := range Statuses {
			r := &Record{Status: from}
			r.SetStatus(to, noon)
			if resumed := from == Blocked && to == InProgress; r.Status != to || r.ResumedAt.Equal(noon) != resumed {
				t.Errorf("%s to %s: %+v", from, to, r)
			}
		}
	}
}
