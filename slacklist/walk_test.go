package slacklist

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/pipeline"
)

// TestCaseB98Paging walks a list of 2,501 rows, three pages, while paging goes
// wrong in all the ways that were seen. Either the full set is there once, or
// the walk fails and nothing is taken for absent.
func TestCaseB98Paging(t *testing.T) {
	t.Parallel()
	const rows = 2501
	b := boardtest.Start(t)
	fill(t, b, 61, 41)
	pageWith := func(n int, f boardtest.Fault) []boardtest.Fault {
		var faults []boardtest.Fault
		for range n - 1 {
			faults = append(faults, boardtest.Pass())
		}
		return append(faults, f)
	}
	always := func(f boardtest.Fault) func(*boardtest.Layer) {
		return func(l *boardtest.Layer) { l.Always(listMethod, f) }
	}
	next := func(faults ...boardtest.Fault) func(*boardtest.Layer) {
		return func(l *boardtest.Layer) { l.Next(listMethod, faults...) }
	}
	items := func(edit func([]any) []any) boardtest.Fault {
		return boardtest.Rewrite("items", func(answer map[string]any) {
			list, _ := answer["items"].([]any)
			answer["items"] = edit(list)
		})
	}
	var shifted any // the last row of page 1, which comes again on page 2
	for _, c := range []struct {
		name  string
		fault func(*boardtest.Layer)
		full  bool
	}{
		{"last page with an empty cursor", func(*boardtest.Layer) {}, true},
		{"last page without response_metadata", always(boardtest.NoCursor()), true},
		{"last page with the first cursor again", always(boardtest.CycleCursor()), true},
		{"a cursor that never advances", always(boardtest.StuckCursor()), false},
		{"a row on two pages", next(
			items(func(l []any) []any { shifted = l[len(l)-1]; return l }),
			items(func(l []any) []any { return append([]any{shifted}, l...) })), true},
		{"a row twice on one page", next(items(func(l []any) []any { return append(l, l[0]) })), true},
		{"an item without an id", next(items(func(l []any) []any { return append(l, map[string]any{"fields": []any{}}, 7, nil) })), true},
		{"page 1 broken off", next(pageWith(1, boardtest.ApplyThenHalf())...), false},
		{"page 2 reset", next(pageWith(2, boardtest.Reset())...), false},
		{"page 2 cut in the middle", next(pageWith(2, boardtest.Truncated())...), false},
		{"page 3 with 503", next(pageWith(3, boardtest.Status(503))...), false},
		{"page 3 limited", next(pageWith(3, boardtest.RateLimited("3"))...), false},
		{"page 3 refused", next(pageWith(3, boardtest.ErrorCode("invalid_cursor"))...), false},
		{"page 2 is HTML", next(pageWith(2, boardtest.HTML())...), false},
		{"page 2 has no items", next(pageWith(2, boardtest.Body("bare", `{"ok":true}`))...), false},
		{"page 2 has items that are none", next(pageWith(2, boardtest.Body("bare", `{"ok":true,"items":{"id":"Rec1"}}`))...), false},
		{"page 2 has items that are null", next(pageWith(2, boardtest.Body("bare", `{"ok":true,"items":null}`))...), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			layer, address := layerOf(t, b.Server)
			client := New(Options{Dir: t.TempDir(), URL: address, ListID: b.ListID, Token: b.Token})
			s, err := client.begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer s.End()
			c.fault(layer)
			err = s.Refresh(t.Context(), 0)
			if c.full {
				if err != nil {
					t.Fatal(err)
				}
				if got := ids(s); len(got) != rows || len(slices.Compact(got)) != rows {
					t.Errorf("%d rows, %d different, want %d", len(ids(s)), len(slices.Compact(got)), rows)
				}
				return
			}
			if pipeline.IsRefused(err) || !errors.As(err, new(*pipeline.BoardError)) {
				t.Fatalf("error %v, want a transient one", err)
			}
			if len(ids(s)) != 0 || !s.WalkAt().IsZero() || s.Fresh(time.Hour) {
				t.Error("a walk that was cut off is believed")
			}
		})
	}
}

// fill makes many rows, with nothing in them, each of the makers so many.
func fill(t *testing.T, b *boardtest.Board, makers, each int) {
	var wg sync.WaitGroup
	for range makers {
		wg.Go(func() {
			for range each {
				if _, err := b.Server.AddRow("", b.ListID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// Rows that a person deletes between two pages, also the one that the cursor
// stands on, hide no other: pages go on after a row, not after a number of them.
func TestRowsVanishInAWalk(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	fill(t, b, 41, 61) // three pages
	layer, address := layerOf(t, b.Server)
	client := New(Options{Dir: t.TempDir(), URL: address, ListID: b.ListID, Token: b.Token})
	s, err := client.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.End()
	if err := s.Refresh(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	all := slices.Sorted(slices.Values(ids(s)))

	gone := map[string]bool{}
	deleteFrom := func(first int) boardtest.Fault {
		return boardtest.Rewrite("rows vanish", func(answer map[string]any) {
			page := answer["items"].([]any)
			top, last := page[0].(map[string]any)["id"].(string), page[len(page)-1].(map[string]any)["id"].(string)
			doomed := []string{top, last}
			for i := first; i < len(all); i += 10 { // on this page, those before and those to come
				doomed = append(doomed, all[i])
			}
			for _, id := range doomed {
				if gone[id] {
					continue
				}
				gone[id] = true
				if err := b.Server.DeleteRow("", b.ListID, id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	layer.Next(listMethod, deleteFrom(1), deleteFrom(2))
	if err := s.Refresh(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, id := range ids(s) {
		seen[id]++
	}
	for _, id := range all {
		if !gone[id] && seen[id] != 1 {
			t.Errorf("%s, which nobody deleted, was seen %d times", id, seen[id])
		}
	}
	if len(gone) < 400 || len(seen) == len(all) {
		t.Errorf("%d rows were deleted, %d of %d seen: the test tests nothing", len(gone), len(seen), len(all))
	}
}

// TestSetBackInTheSameSecond: what a person sets back in the second in which we made
// the row and wrote its status is theirs, and no walk that lags.
func TestSetBackInTheSameSecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) {
		row := w.made(s, 1)[0]
		w.set(s, status(row, pipeline.Assigned))
		w.person(row, w.status(pipeline.New))
		w.clock.Advance(6 * time.Second)
		w.walk(s)
		if r := s.Row(row); r.Status != pipeline.New || s.Person(r) == "" {
			t.Errorf("row %+v", r)
		}
	})
}

// A walk that fails leaves the snapshot as it was, and as old as it was.
func TestFailedWalkKeepsSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	w.batch(c, func(s *Session) {
		w.add(s, 1)
		w.add(s, 2)
		w.walk(s)
		before, at := ids(s), s.WalkAt()
		w.clock.Advance(time.Minute)
		w.add(s, 3)
		w.Faults.Next(listMethod, boardtest.Status(500))
		if err := s.Refresh(t.Context(), 0); err == nil {
			t.Fatal("no error")
		}
		if got := ids(s); len(got) != 3 || !slices.Contains(got, before[0]) || !slices.Contains(got, before[1]) {
			t.Errorf("rows %v, before %v", got, before)
		}
		if !s.WalkAt().Equal(at) || s.Fresh(30*time.Second) || !s.Fresh(2*time.Minute) {
			t.Errorf("walk at %v, before %v", s.WalkAt(), at)
		}
	})
}

// Refresh reads only where what is known is too old.
func TestRefresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	walks := func(maxAge time.Duration) int {
		w.Faults.Reset()
		w.batch(c, func(s *Session) {
			if err := s.Refresh(t.Context(), maxAge); err != nil {
				t.Fatal(err)
			}
		})
		return w.Faults.Count(listMethod)
	}
	for i, step := range []struct {
		after  time.Duration
		maxAge time.Duration
		want   int
	}{
		{0, time.Hour, 1}, // there was none
		{time.Minute, time.Minute, 0},
		{time.Second, time.Minute, 1},
		{0, 0, 1}, // always
		{0, time.Millisecond, 0},
		{-time.Hour, time.Hour, 1}, // the clock was set back: of unknown age
	} {
		w.clock.Advance(step.after)
		if got := walks(step.maxAge); got != step.want {
			t.Errorf("step %d: %d walks, want %d", i, got, step.want)
		}
	}
	if n := w.Faults.Count("auth.test"); n != 0 {
		t.Errorf("asked again as whom we write: %d times", n)
	}
}

// TestOddItems reads a page with one odd item. The other rows are whole, and the
// odd one has all but its odd part.
func TestOddItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	var plain []pipeline.Row
	w.batch(c, func(s *Session) {
		for i := range 3 {
			w.add(s, pipeline.TaskID(i+1), pipeline.Cell{Field: pipeline.FieldRemaining, Text: "1"})
		}
		w.clock.Advance(time.Minute) // so that a walk is believed
		w.walk(s)
		for r := range s.Rows() {
			plain = append(plain, *r)
		}
	})
	for _, odd := range boardtest.OddBodies() {
		for i := range 3 {
			w.Faults.Next(listMethod, boardtest.Odd(odd, 2-i)) // the page has the newest first
			w.batch(c, func(s *Session) {
				w.walk(s)
				for j := range 3 {
					got := s.Row(plain[j].ID)
					switch {
					case got == nil:
						t.Fatalf("%s: row %d of 3 is gone", odd.Name, j)
					case j != i && !equalRows(got, &plain[j]):
						t.Errorf("%s: row %d is %+v, want %+v", odd.Name, j, got, plain[j])
					case odd.Name == "fields null":
						if got.Status != Unreadable && j == i {
							t.Errorf("%s: the odd row is %+v", odd.Name, got)
						}
					case !sameCells(got, &plain[j]):
						t.Errorf("%s: the odd row lost cells: %+v, want %+v", odd.Name, got, plain[j])
					}
				}
			})
		}
	}
	w.Faults.Next(listMethod, boardtest.OddList())
	w.batch(c, func(s *Session) { w.walk(s) })
}

func equalRows(a, b *pipeline.Row) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

// decodedItem is the row that an item of the wire makes.
func decodedItem(schema *Schema, text string) (pipeline.Row, bool) {
	var it item
	if !decode([]byte(text), &it) {
		return pipeline.Row{}, false
	}
	return newDecoder(schema).row(&it)
}

// sameCells compares all that a change may write.
func sameCells(a, b *pipeline.Row) bool {
	return a.Status == b.Status && a.Checked == b.Checked && a.Type == b.Type && a.Project == b.Project &&
		a.Priority == b.Priority && textsOf(a) == textsOf(b)
}

func textsOf(r *pipeline.Row) string {
	return fmt.Sprintf("%q %q", []string{r.Title, r.TaskID, r.Assignee, r.Reason, r.Result}, r.Derived)
}

// decoded is the row of an item with one more field.
func decoded(t *testing.T, schema *Schema, field string) pipeline.Row {
	t.Helper()
	r, ok := decodedItem(schema, `{"id":"Rec1","fields":[{"column_id":"ColT","rich_text":[],"text":"title"},`+field+`]}`)
	if !ok {
		t.Fatalf("no row with %s", field)
	}
	if r.Title != "title" {
		t.Errorf("%s spoiled the title: %+v", field, r)
	}
	return r
}

// Odd cells of our own columns. A status that cannot be read is never taken for
// none, as a row without one is a new task.
func TestOddCells(t *testing.T) {
	t.Parallel()
	schema := &Schema{
		Columns: []Column{
			{ID: "ColT", Name: "Title", Type: "text"}, {ID: "ColS", Name: "Status", Type: "select", Options: []Option{{"Opt1", "In Progress"}}},
			{ID: "ColA", Name: "Assignee", Type: "user"}, {ID: "ColR", Name: "Remaining", Type: "number"},
			{ID: "ColC", Name: "Done", Type: "todo_completed"}, {ID: "ColD", Name: "Assigned at", Type: "date"},
		},
		Fields: map[pipeline.Field]string{
			pipeline.FieldTitle: "ColT", pipeline.FieldStatus: "ColS", pipeline.FieldAssignee: "ColA",
			pipeline.FieldRemaining: "ColR", pipeline.FieldChecked: "ColC", pipeline.FieldAssignedAt: "ColD",
		},
	}
	for field, want := range map[string]pipeline.Status{
		`{"column_id":"ColS","select":["Opt1"]}`:                  pipeline.InProgress,
		`{"column_id":"ColS","select":["Opt1","Opt2"]}`:           pipeline.InProgress,
		`{"column_id":"ColS","select":"Opt1"}`:                    pipeline.InProgress,
		`{"column_id":"ColS","select":["OptGone"]}`:               "optgone",
		`{"column_id":"ColS","select":[]}`:                        "",
		`{"column_id":"ColS","select":null}`:                      Unreadable,
		`{"column_id":"ColS","select":[null]}`:                    "",
		`{"column_id":"ColS","select":{"value":"Opt1"}}`:          Unreadable,
		`{"column_id":"ColS","select":[{"value":"Opt1"}]}`:        Unreadable,
		`{"column_id":"ColS","select":7}`:                         Unreadable,
		`{"column_id":"ColS","value":"Opt1"}`:                     Unreadable,
		`{"column_id":"ColS","select":["Opt1"],"select2":["no"]}`: pipeline.InProgress,
	} {
		r := decoded(t, schema, field)
		if r.Status != want || r.Odd != (want == Unreadable) {
			t.Errorf("%s: status %q, odd %t; want %q", field, r.Status, r.Odd, want)
		}
	}
	if r := decoded(t, schema, `{"column_id":"ColC","checkbox":[true]}`); !r.Checked || r.Odd {
		t.Errorf("checkbox as an array: %+v", r)
	}
	if r := decoded(t, schema, `{"column_id":"ColC","checkbox":"yes"}`); r.Checked || !r.Odd {
		t.Errorf("checkbox as a text: %+v", r)
	}
	if r := decoded(t, schema, `{"column_id":"ColA","user":["U1","U2"]}`); r.Assignee != "U1" {
		t.Errorf("two users: %+v", r)
	}
	if r := decoded(t, schema, `{"column_id":"ColA","user":[["U1"]]}`); r.Assignee != "" || !r.Odd {
		t.Errorf("user as an array: %+v", r)
	}
	for field, want := range map[string]string{
		`{"column_id":"ColR","number":[3]}`: "3", `{"column_id":"ColR","number":3.5}`: "3.5", `{"column_id":"ColR","number":[]}`: "",
		`{"column_id":"ColR","number":["NaN"]}`: "", `{"column_id":"ColR","number":[1e999]}`: "", `{"column_id":"ColR","text":"two"}`: "",
	} {
		if got := decoded(t, schema, field).Derived[pipeline.FieldRemaining]; got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	for field, want := range map[string]string{
		`{"column_id":"ColD","date":["2026-03-14"],"timestamp":[-1]}`: "2026-03-14", `{"column_id":"ColD","date":[],"timestamp":[-1]}`: "",
	} {
		if got := decoded(t, schema, field).Derived[pipeline.FieldAssignedAt]; got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	for in, want := range map[string]int64{
		`1758744346`: 1758744346, `"1758744346"`: 1758744346, `2.5`: 2, `"x"`: 0, `null`: 0, `1e300`: 0, `"NaN"`: 0, `[1]`: 0, `-3`: 0,
		`1758744346000`: 0, `-62167219201`: 0, `253402300799`: 253402300799, `9007199254740992`: 0, `{}`: 0,
	} {
		r, ok := decodedItem(schema, `{"date_created":`+in+`,"updated_timestamp":`+in+`,"id":"Rec1","fields":[]}`)
		if _, err := json.Marshal(time.Unix(r.Created, 0).UTC()); !ok || r.Created != want || r.Updated != want || err != nil {
			t.Errorf("%s is read as %+v, %t, %v", in, r, ok, err)
		}
	}
	for _, item := range []string{``, `7`, `null`, `[]`, `{}`, `{"id":7}`, `{"id":""}`, `{"id":"Rec1"`} {
		if _, ok := decodedItem(schema, item); ok {
			t.Errorf("%s is a row", item)
		}
	}
	for item, odd := range map[string]bool{
		`{"id":"Rec1","parent_record_id":{"id":"Rec0"},"created_by":7,"fields":{"a":1}}`: true,
		`{"id":"Rec1","fields":null}`: true, `{"id":"Rec1"}`: true, `{"id":"Rec1","fields":[7]}`: true, `{"id":"Rec1","fields":[null]}`: true,
		`{"id":"Rec1","fields":[{"column_id":"ColS","select":["Opt1"]},7]}`: true, `{"id":"Rec1","fields":[]}`: false,
	} {
		r, ok := decodedItem(schema, item)
		if !ok || r.Parent != "" || r.Odd != odd || odd && r.Status == "" || !odd && r.Status != "" {
			t.Errorf("%s: %+v, %t", item, r, ok)
		}
	}
}

// Text that people typed comes back as text, ours byte for byte.
func TestText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	blocks := func(elements string) []any {
		var all []any
		if err := json.Unmarshal([]byte(`[{"type":"rich_text","elements":[`+elements+`]}]`), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	section := func(inline string) []any {
		return blocks(`{"type":"rich_text_section","elements":[` + inline + `]}`)
	}
	title := w.Column(t, "Title", "text")
	for _, typed := range []struct {
		blocks []any
		want   string
	}{
		{section(`{"type":"text","text":"plain "},{"type":"text","text":"bold","style":{"bold":true}}`), "plain bold"},
		{section(`{"type":"text","text":"see "},{"type":"link","url":"https://a.example/x","text":"this"}`), "see this"},
		{section(`{"type":"link","url":"https://a.example/x"}`), "https://a.example/x"},
		{section(`{"type":"emoji","name":"rocket","unicode":"1f680"},{"type":"text","text":" go 🚀"}`), "rocket go 🚀"},
		{section(`{"type":"user","user_id":"U1"},{"type":"text","text":" "},{"type":"channel","channel_id":"C1"},{"type":"text","text":" "},{"type":"broadcast","range":"here"}`), "U1 C1 here"},
		{section(`{"type":"usergroup","usergroup_id":"S1"},{"type":"color","value":"#F405B3"},{"type":"date","timestamp":1720710212,"format":"{date}","fallback":"July 11"}`), "S1July 11"},
		{blocks(`{"type":"rich_text_section","elements":[{"type":"text","text":"a"}]},{"type":"rich_text_list","style":"bullet","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"b"}]},{"type":"rich_text_section","elements":[{"type":"text","text":"c"}]}]}`), "a\nb\nc"},
		{append(section(`{"type":"text","text":"one"}`), section(`{"type":"text","text":"two"}`)...), "one\ntwo"},
		{blocks(`{"type":"rich_text_preformatted","elements":[{"type":"text","text":"x := 1"}]}`), "x := 1"},
	} {
		row, err := w.Server.AddRow("U0PERSON", w.ListID, boardtest.Cell{"column_id": title, "rich_text": typed.blocks})
		if err != nil {
			t.Fatal(err)
		}
		w.batch(c, func(s *Session) {
			w.walk(s)
			if got := s.Row(row).Title; got != typed.want {
				t.Errorf("%v comes back as %q, want %q", typed.blocks, got, typed.want)
			}
		})
	}
	hostile := []string{
		`quotes " ' and back\slash`, "backticks `id` and $(id)", "*stars* _under_ ~tilde~ <@U1> <!here> &lt; & < >", "a😀 family 👨‍👩‍👧 flag 🇩🇪",
		"right \u202eto left\u202c, zero\u200bwidth, nbsp\u00a0here", "ESC \x1b[31m BEL \x07 NUL \x00 end", "line\nbreak\ttab\r\n", "U+2028\u2028and\u2029",
		"e\u0301 and é", "https://a.example?q=1&r=%20", strings.Repeat("x", 500), " leading and trailing ", "{\"json\":true}", "-1", "true", "null", "日本語 עברית العربية",
	}
	w.batch(c, func(s *Session) {
		for i, text := range hostile {
			cells := taskCells(pipeline.TaskID(i + 100))
			cells[0].Text = text
			row, err := s.Create(t.Context(), "", append(cells, pipeline.Cell{Field: pipeline.FieldReason, Text: text})...)
			if err != nil {
				t.Fatal(err)
			}
			s.snap.row(row).Wrote = 0
			s.snap.row(row).Title = ""
		}
		w.walk(s)
		for i, text := range hostile {
			r := s.TaskRow(pipeline.TaskID(i + 100))
			if r.Title != text || r.Reason != text {
				t.Errorf("%q comes back as %q and %q", text, r.Title, r.Reason)
			}
		}
	})
	w.batch(w.client(), func(s *Session) { // and out of the file
		for i, text := range hostile {
			if r := s.TaskRow(pipeline.TaskID(i + 100)); r == nil || r.Title != text {
				t.Errorf("%q comes back from the file as %+v", text, r)
			}
		}
	})
}

// Empty values clear a cell.
func TestClearing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) {
		row := w.add(s, 1, pipeline.Cell{Field: pipeline.FieldReason, Text: "r"}, pipeline.Cell{Field: pipeline.FieldProject, Text: "p"},
			pipeline.Cell{Field: pipeline.FieldAssignedAt, Text: w.clock.Now().Format(time.RFC3339)}, pipeline.Cell{Field: pipeline.FieldChecked, Checked: true})
		if r := s.Row(row); r.Reason == "" || r.Project == "" || r.Derived[pipeline.FieldAssignedAt] == "" || !r.Checked {
			t.Fatalf("row %+v", r)
		}
		w.set(s, pipeline.Change{Row: row, Cells: []pipeline.Cell{{Field: pipeline.FieldReason}, {Field: pipeline.FieldProject},
			{Field: pipeline.FieldAssignedAt}, {Field: pipeline.FieldChecked}}})
		for _, when := range []string{"patched", "walked"} {
			if r := s.Row(row); r.Reason != "" || r.Project != "" || r.Derived[pipeline.FieldAssignedAt] != "" || r.Checked {
				t.Errorf("%s: row %+v", when, r)
			}
			s.snap.row(row).Wrote = 0
			w.walk(s)
		}
	})
}

// Steps are found by their parent, tasks by their id, also where the id is
// written another way or stands twice.
func TestLookup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) {
		task := w.add(s, 5)
		for _, title := range []string{"a", "b"} {
			if _, err := s.Create(t.Context(), task, pipeline.Cell{Field: pipeline.FieldTitle, Text: title}); err != nil {
				t.Fatal(err)
			}
		}
		typed, err := w.Server.AddRow("", w.ListID, boardtest.TextCell(w.Column(t, "Task ID", "text"), " t-6 "))
		if err != nil {
			t.Fatal(err)
		}
		twice := []string{w.add(s, 9), w.add(s, 9)}
		slices.Sort(twice)
		w.walk(s)
		if r := s.TaskRow(5); r == nil || r.ID != task || len(s.StepRows(task)) != 2 {
			t.Errorf("task %+v, steps %v", r, s.StepRows(task))
		}
		if r := s.TaskRow(6); r == nil || r.ID != typed {
			t.Errorf("T-00006 is %+v", r)
		}
		if r := s.TaskRow(9); r == nil || r.ID != twice[0] {
			t.Errorf("T-00009 is %+v, want the first by id of %v", r, twice)
		}
		if s.TaskRow(7) != nil || s.TaskRow(0) != nil || s.Row("Rec0") != nil || len(s.StepRows("Rec0")) > 0 {
			t.Error("found what is not there")
		}
		w.set(s, pipeline.Change{Row: typed, Cells: []pipeline.Cell{{Field: pipeline.FieldTaskID, Text: "T-00007"}}})
		if s.TaskRow(6) != nil || s.TaskRow(7) == nil {
			t.Error("a Task ID that we wrote is not found")
		}
	})
}

// The answer to the making of a step may lack its parent.
func TestParentOmitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *boardtest.Options) { o.Quirks.OmitParentOnCreate = true })
	w.batch(w.client(), func(s *Session) {
		task := w.add(s, 1)
		step, err := s.Create(t.Context(), task, pipeline.Cell{Field: pipeline.FieldTitle, Text: "a"})
		if err != nil || s.Row(step).Parent != task || len(s.StepRows(task)) != 1 {
			t.Errorf("%v, step %+v", err, s.Row(step))
		}
	})
}

// What travels: one page of a thousand rows with the list, and the token in
// the form alone.
func TestWalkOnTheWire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) { w.walk(s) })
	calls := w.Faults.Calls()
	want := url.Values{"limit": {"1000"}, "include_list": {"true"}, "list_id": {w.ListID}}
	if n := len(calls); n != 2 || calls[0].Method != "auth.test" || calls[1].Method != listMethod {
		t.Fatalf("calls %v", calls)
	}
	for name := range want {
		if got := calls[1].Args.Get(name); got != want.Get(name) {
			t.Errorf("%s=%q, want %q", name, got, want.Get(name))
		}
	}
}

// C39: a board that always answers with a new cursor was walked for ever, under
// locks/board. A walk has bounds: it ends as an error that says so, the
// rows stay as they were, and the next batch begins.
func TestC39EndlessList(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]bool{"the same rows again": false, "new rows on every page": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.client()
			w.batch(c, func(s *Session) {
				w.add(s, 1)
				w.walk(s)
				before := ids(s)
				w.Faults.Always(listMethod, boardtest.EndlessPages(fresh))
				w.Faults.Reset()
				e := boardError(t, s.Refresh(t.Context(), 0))
				if !e.Endless || e.Class != pipeline.Transient || !strings.Contains(e.Error(), "the walk is given up") {
					t.Errorf("error %+v", e)
				}
				if n := w.Faults.Count(listMethod); n > maxPages {
					t.Errorf("%d pages were read, at most %d are", n, maxPages)
				}
				if got := ids(s); !slices.Equal(got, before) {
					t.Errorf("rows %v, before %v", got, before)
				}
			})
			if _, err := c.Look(t.Context()); !boardError(t, err).Endless {
				t.Errorf("look: %v", err)
			}
			w.batch(w.client(), func(s *Session) { // another process
				if len(ids(s)) != 1 {
					t.Errorf("rows %v", ids(s))
				}
			})
		})
	}
}

// An item that came before is read as it would be anew, also after the columns changed.
func TestItemsThatCameBefore(t *testing.T) {
	t.Parallel()
	schema := &Schema{
		Columns: []Column{{ID: "C1", Type: "text"}, {ID: "C2", Type: "select", Options: []Option{{"o1", "devdas"}}}, {ID: "C3", Type: "text"}},
		Fields:  map[pipeline.Field]string{pipeline.FieldTitle: "C1", pipeline.FieldAssignee: "C2"},
	}
	one := `{"id":"Rec1","fields":[{"column_id":"C1","text":"a"},{"column_id":"C2","select":["o1"]},{"column_id":"C3","text":"c"}]}`
	var before decodedRows
	walk := func(change func(), items ...string) {
		t.Helper()
		change()
		var fresh decodedRows
		toRow, anew := before.begin(schema), fresh.begin(schema)
		for _, raw := range items {
			got, ok := toRow([]byte(raw))
			want, wanted := anew([]byte(raw))
			if ok != wanted || !reflect.DeepEqual(got, want) {
				t.Errorf("%s is read as %+v (%v), anew as %+v (%v)", raw, got, ok, want, wanted)
			}
		}
	}
	nothing := func() {}
	walk(nothing, one, `{"fields":[]}`, `7`)
	walk(nothing, one, `{"fields":[]}`, `7`)
	walk(nothing, strings.Replace(one, `"a"`, `"b"`, 1))
	walk(nothing, one)
	walk(func() { schema.Columns[1].Options[0].Label = "mira" }, one)
	walk(func() { schema.Columns[1].Options = append(schema.Columns[1].Options, Option{"o2", "x"}) }, one)
	walk(func() { schema.Fields[pipeline.FieldTitle] = "C3" }, one)
	walk(func() { schema.Columns[2].Type = "number" }, one)
}
