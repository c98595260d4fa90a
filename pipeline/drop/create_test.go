package drop

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"otm/pipeline"
)

var created = time.Date(2026, 3, 14, 8, 20, 19, 0, time.UTC)

// The forms on disk are fixed by the contract, section 3: other programs read
// and write them.
func TestCreateOnDisk(t *testing.T) {
	t.Parallel()
	c := Create{ID: "d1", CreatedAt: created.In(time.FixedZone("", 3600)).Add(500 * time.Millisecond), Task: pipeline.Task{
		ID: 35, Title: "Short <task> & title", Agent: "devdas", Priority: pipeline.Normal, Project: "prj-012",
		Steps: []string{"Subtask 1", "Subtask 2"}, Type: pipeline.Action,
	}}
	want := `{"id":"d1","taskId":"T-00035","title":"Short <task> & title","agent":"devdas","createdAt":"2026-03-14T08:20:19Z",` +
		`"priority":"normal","project":"prj-012","subtasks":["Subtask 1","Subtask 2"],"type":"action","status":"pending"}` + "\n"
	if got := string(c.Encode()); got != want {
		t.Errorf("Encode gave\n%s\nwant\n%s", got, want)
	}
	c.Task.Project = ""
	if got := string(c.Encode()); !strings.Contains(got, `"project":null,`) {
		t.Errorf("Encode of no project gave\n%s\nwant null", got)
	}
	c.Task.Context, c.Task.Inputs, c.Task.Body = "support", []string{"/srv/log", "https://example.com/a"}, "a\nb"
	if got := string(c.Encode()); !strings.Contains(got, `"type":"action","context":"support","inputFiles":["/srv/log","https://example.com/a"],"body":"a\nb","status":`) {
		t.Errorf("Encode gave\n%s", got)
	}
}

func TestParseCreate(t *testing.T) {
	t.Parallel()
	full := &Create{ID: "d1", CreatedAt: created, Task: pipeline.Task{ID: 35, Title: "Build login page", Agent: "devdas", Priority: pipeline.High,
		Steps: []string{"Create form", "Add validation"}, Type: pipeline.Action}}
	least := func(change func(*Create)) *Create {
		c := &Create{Task: pipeline.Task{ID: 35, Title: "x", Agent: "devdas", Priority: pipeline.Normal,
			Steps: []string{pipeline.DefaultStep}, Type: pipeline.Action}}
		if change != nil {
			change(c)
		}
		return c
	}
	with := func(more string) string { return `{"taskId":"T-00035","title":"x","agent":"devdas"` + more + `}` }
	tests := []struct {
		name, data string
		want       *Create
	}{
		{"full", good, full},
		{"least", with(""), least(nil)},
		{"unknown keys", with(`,"colour":"green","tags":["a"]`), least(func(c *Create) { c.Ignored = []string{"colour", "tags"} })}, // C14
		{"nulls", with(`,"id":null,"createdAt":null,"priority":null,"project":null,"subtasks":null,"type":null,"status":null`), least(nil)},
		{"no steps", with(`,"subtasks":[]`), least(nil)},
		{"empty project", with(`,"project":""`), least(nil)},
		{"medium", with(`,"priority":"medium"`), least(nil)},
		{"priority as a label", with(`,"priority":"High"`), least(func(c *Create) { c.Task.Priority = pipeline.High })},
		{"parent", with(`,"parent":"T-00007"`), least(func(c *Create) { c.Task.Parent = 7 })},
		{"type", with(`,"type":"decision"`), least(func(c *Create) { c.Task.Type = pipeline.Decision })},
		{"context and input files", with(`,"context":"Research","inputFiles":["a b","c"]`), least(func(c *Create) { c.Task.Context, c.Task.Inputs = "research", []string{"a b", "c"} })},
		{"body", with(`,"body":"a\n  b\u0007\n"`), least(func(c *Create) { c.Task.Body = "a\n  b\a\n" })},
		{"body as long as it may be", with(`,"body":"` + strings.Repeat("a", pipeline.MaxBody) + `"`), least(func(c *Create) { c.Task.Body = strings.Repeat("a", pipeline.MaxBody) })},
		{"blank body", with(`,"body":" \n"`), least(nil)},
		{"shared queue", with("")[:len(`{"taskId":"T-00035","title":"x",`)] + `"agent":"QUEUE"}`, least(func(c *Create) { c.Task.Agent = pipeline.SharedQueue })},
		{"no context and no input files", with(`,"context":"","inputFiles":null`), least(nil)},
		{"C44 pending", with(`,"status":"Pending","reason":"x"`), least(nil)},
		{"C44 parked", with(`,"status":"blocked","reason":"no key yet"`), least(func(c *Create) { c.Parked = "no key yet" })},
		{"six digits", `{"taskId":"T-100000","title":"x","agent":"devdas"}`, least(func(c *Create) { c.Task.ID = 100000 })},
		{"agent composed", with("")[:len(`{"taskId":"T-00035","title":"x",`)] + "\"agent\":\"Jose\u0301\"}", least(func(c *Create) { c.Task.Agent = "Jos\u00e9" })},
		{"fraction of a second", with(`,"createdAt":"2026-03-14T09:20:19.75+01:00"`), least(func(c *Create) { c.CreatedAt = created })},
		{"no time", with(`,"createdAt":"yesterday"`), least(nil)},
		{"year beyond writing", with(`,"createdAt":"9999-12-31T23:59:59-23:00"`), least(nil)},
		{"year before writing", with(`,"createdAt":"0000-01-01T00:00:00+23:00"`), least(nil)},
		{"escaped", `{"task\u0049d":"T-00035","title":"\u0078","agent":"devdas"}`, least(nil)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseCreate([]byte(tt.data))
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("ParseCreate(%s)\n got %+v, %v\nwant %+v", tt.data, got, err, tt.want)
			}
		})
	}
}

func TestParseCreateRefuses(t *testing.T) {
	t.Parallel()
	set := func(field, value string) string {
		fields := map[string]string{"taskId": `"T-00035"`, "title": `"x"`, "agent": `"devdas"`}
		fields[field] = value
		if value == "" {
			delete(fields, field)
		}
		var parts []string
		for k, v := range fields {
			parts = append(parts, fmt.Sprintf("%q:%s", k, v))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	long := strings.Repeat("ä", pipeline.MaxText+1)
	tests := []struct{ name, data, field, reason string }{
		{"nothing", `{}`, "taskId", "is missing: only otm-create gives out task ids"},
		{"no id", set("taskId", ""), "taskId", "is missing: only otm-create gives out task ids"},
		{"id is null", set("taskId", "null"), "taskId", "is missing: only otm-create gives out task ids"},
		{"id is empty", set("taskId", `""`), "taskId", "is missing"},
		{"id is a number", set("taskId", "35"), "taskId", "must be a string, is a number"},
		{"id is short", set("taskId", `"T-35"`), "taskId", "at least five digits"},
		{"id is a path", set("taskId", `"T-../../x"`), "taskId", "want a form such as T-00035"},
		{"id has ten digits", set("taskId", `"T-1234567890"`), "taskId", "more than nine digits"},
		{"id is zero", set("taskId", `"T-00000"`), "taskId", "begin at T-00001"},
		{"no title", set("title", ""), "title", "is missing"},
		{"title is null", set("title", "null"), "title", "is missing"},
		{"title is empty", set("title", `""`), "title", "is missing"},
		{"title is blank", set("title", `" \t\u00a0"`), "title", "is blank"},
		{"title is a number", set("title", "5"), "title", "must be a string, is a number"},
		{"title is an object", set("title", "{}"), "title", "must be a string, is an object"},
		{"title is an array", set("title", `["x"]`), "title", "must be a string, is an array"},
		{"title is a boolean", set("title", "true"), "title", "must be a string, is a boolean"},
		{"title has two lines", set("title", `"a\nb"`), "title", "has a line break"},
		{"title has a carriage return", set("title", `"a\rb"`), "title", "has a line break"},
		{"title is too long", set("title", `"`+long+`"`), "title", "has 501 characters, more than 500"},
		{"no agent", set("agent", ""), "agent", "is missing"},
		{"agent is a number", set("agent", "7"), "agent", "must be a string, is a number"},
		{"agent is a path", set("agent", `"../x"`), "agent", "is no name for an agent"},
		{"agent is an option", set("agent", `"--all"`), "agent", "is no name for an agent"},
		{"agent is a command", set("agent", `"$(id)"`), "agent", "is no name for an agent"},
		{"agent has an escape", set("agent", `"a\u001b[31m"`), "agent", "is no name for an agent"},
		{"agent is long", set("agent", `"`+strings.Repeat("a", 65)+`"`), "agent", "is no name for an agent"},
		{"priority is unknown", set("priority", `"urgent"`), "priority", `is "urgent": it is one of critical, high, normal, low, batchable`},
		{"priority is empty", set("priority", `""`), "priority", `is "": it is one of`},
		{"priority is a number", set("priority", "1"), "priority", "must be a string, is a number"},
		{"parent is no id", set("parent", `"12"`), "parent", "want T- and at least five digits"},
		{"parent is a number", set("parent", `12`), "parent", "must be a string"},
		{"parent is empty", set("parent", `""`), "parent", "is missing"},
		{"parent is the task", set("parent", `"T-00035"`), "parent", "is the task itself"},
		{"type is no name", set("type", `"a/b"`), "type", `is "a/b", which is no name`},
		{"type is an array", set("type", "[]"), "type", "must be a string, is an array"},
		{"project is a number", set("project", "12"), "project", "must be a string, is a number"},
		{"project is too long", set("project", `"`+long+`"`), "project", "has 501 characters"},
		{"subtasks is text", set("subtasks", `"a, b"`), "subtasks", "must be an array of strings, is a string"},
		{"subtasks is an object", set("subtasks", `{}`), "subtasks", "must be an array of strings, is an object"},
		{"a subtask is a number", set("subtasks", `["a",2]`), "subtasks[1]", "must be a string, is a number"},
		{"a subtask is null", set("subtasks", `[null]`), "subtasks[0]", "must be a string, is null"},
		{"a subtask is an object", set("subtasks", `[{"title":"a"}]`), "subtasks[0]", "must be a string, is an object"},
		{"a subtask is blank", set("subtasks", `["a"," "]`), "subtasks[1]", "is blank"},
		{"a subtask is too long", set("subtasks", `["`+long+`"]`), "subtasks[0]", "has 501 characters"},
		{"51 subtasks", set("subtasks", `[`+strings.TrimSuffix(strings.Repeat(`"a",`, 51), ",")+`]`), "subtasks", "has 51 steps, more than 50"},
		{"context is unknown", set("context", `"party"`), "context", `is "party": it is one of project, research, operations, support, internal`},
		{"context is a number", set("context", "1"), "context", "must be a string, is a number"},
		{"input files is text", set("inputFiles", `"a"`), "inputFiles", "must be an array of strings, is a string"},
		{"an input file is blank", set("inputFiles", `["a",""]`), "inputFiles[1]", "is missing"},
		{"an input file is too long", set("inputFiles", `["`+long+`"]`), "inputFiles[0]", "has 501 characters"},
		{"an input file has two lines", set("inputFiles", `["a\nb"]`), "inputFiles[0]", "has a line break"},
		{"51 input files", set("inputFiles", `[`+strings.TrimSuffix(strings.Repeat(`"a",`, 51), ",")+`]`), "inputFiles", "has 51 paths, more than 50"},
		{"drop id is a number", set("id", "1"), "id", "must be a string, is a number"},
		{"drop id is too long", set("id", `"`+long+`"`), "id", "has 501 characters"},
		{"time is a number", set("createdAt", "1773476419"), "createdAt", "must be a string, is a number"},
		{"known key in another case", `{"TaskID":"T-00035","title":"x","agent":"devdas"}`, "TaskID", `must be written "taskId"`},
		{"Title", `{"taskId":"T-00035","Title":"x","agent":"devdas"}`, "Title", `must be written "title"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseCreate([]byte(tt.data))
			var invalid *InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("ParseCreate(%.200s) = %+v, %v; want an *InvalidError", tt.data, got, err)
			}
			if invalid.Field != tt.field || !strings.Contains(invalid.Reason, tt.reason) {
				t.Errorf("ParseCreate(%.200s): field %q, reason %q; want %q, %q", tt.data, invalid.Field, invalid.Reason, tt.field, tt.reason)
			}
			if wantHint := strings.Contains(tt.reason, "only otm-create"); wantHint != (invalid.Hint == "otm-create --from -") {
				t.Errorf("ParseCreate(%.200s): hint %q", tt.data, invalid.Hint)
			}
		})
	}
}

// TestLimits goes to each limit and one past it, in characters of four bytes.
func TestLimits(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return strings.Repeat("🦊", n) }
	steps := func(n int) []string { return make([]string, n) }
	fill := func(n int) []string {
		s := steps(n)
		for i := range s {
			s[i] = "s"
		}
		return s
	}
	task := func(change func(*pipeline.Task)) error {
		t := pipeline.Task{Title: "x", Agent: "devdas"}
		change(&t)
		return CheckTask(&t)
	}
	update := func(change func(*Update)) error {
		u := Update{Status: pipeline.InProgress}
		change(&u)
		return CheckUpdate(&u)
	}
	tests := []struct {
		name  string
		limit int
		check func(n int) error
	}{
		{"title", 500, func(n int) error { return task(func(t *pipeline.Task) { t.Title = text(n) }) }},
		{"project", 500, func(n int) error { return task(func(t *pipeline.Task) { t.Project = text(n) }) }},
		{"step", 500, func(n int) error { return task(func(t *pipeline.Task) { t.Steps = []string{"a", text(n)} }) }},
		{"steps", 50, func(n int) error { return task(func(t *pipeline.Task) { t.Steps = fill(n) }) }},
		{"reason", 500, func(n int) error { return update(func(u *Update) { u.Reason = text(n) }) }},
		{"result", 4000, func(n int) error { return update(func(u *Update) { u.Result = text(n) }) }},
		{"reported step", 500, func(n int) error { return update(func(u *Update) { u.StepsDone = []string{text(n)} }) }},
		{"reported steps", 50, func(n int) error { return update(func(u *Update) { u.StepsDone = fill(n) }) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := tt.check(tt.limit); err != nil {
				t.Errorf("%s of %d: %v", tt.name, tt.limit, err)
			}
			var invalid *InvalidError
			if err := tt.check(tt.limit + 1); !errors.As(err, &invalid) {
				t.Errorf("%s of %d: %v, want an *InvalidError", tt.name, tt.limit+1, err)
			}
		})
	}
}

// hostile is text that is more than text somewhere.
var hostile = []string{
	`quotes " ' and backslash \ and \n`, "backticks `id` and $(id) and ${HOME}", "emoji 🦊👩‍👩‍👧 and é and e\u0301",
	"right to left \u202e\u2067 שלום", "escape \x1b[31m\x1b]0;x\x07 bell \a", "NUL \x00 inside", "separators \u2028\u2029 and tab\t",
	"<script>&amp;</script>", "-- --title x", "../../etc/passwd", "%s %d %n", "😀" + strings.Repeat("a", 480), "{\"json\":true}", "'; DROP TABLE tasks; --",
	"\ufeffmark", "\ufffd", "a\u00a0b", "```json",
}

// TestCaseB25ControlCharactersRoundTrip brings hostile text through a file and
// back, as title, project, step, reason and result.
func TestCaseB25ControlCharactersRoundTrip(t *testing.T) {
	t.Parallel()
	for _, text := range hostile {
		c := &Create{ID: text, CreatedAt: created, Task: pipeline.Task{ID: 35, Title: text, Agent: "devdas", Priority: pipeline.Low,
			Project: text, Steps: []string{text, text + "\nsecond line"}, Type: pipeline.Review}}
		got, err := ParseCreate(c.Encode())
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("create with %q came back as %+v, %v", text, got, err)
		}
		u := &Update{ID: text, TaskID: 35, CreatedAt: created, Status: pipeline.Blocked, StepsDone: []string{text}, Reason: text + "\n", Result: text}
		back, err := ParseUpdate(u.Encode())
		if err != nil || !reflect.DeepEqual(back, u) {
			t.Errorf("update with %q came back as %+v, %v", text, back, err)
		}
		for _, data := range [][]byte{c.Encode(), u.Encode()} {
			if i := strings.IndexFunc(string(data[:len(data)-1]), func(r rune) bool { return r < ' ' || r == '\u2028' }); i >= 0 {
				t.Errorf("the file for %q has the raw control character %q", text, data[i])
			}
		}
	}
}

// TestHalfOfASurrogatePair is what a language model cuts off in the middle of
// an emoji.
func TestHalfOfASurrogatePair(t *testing.T) {
	t.Parallel()
	c, err := ParseCreate([]byte(`{"taskId":"T-00035","title":"fox \ud83e","agent":"devdas"}`))
	if err != nil || c.Task.Title != "fox \ufffd" {
		t.Errorf("got %+v, %v; want the half shown as U+FFFD", c, err)
	}
}

func TestParseLine(t *testing.T) {
	t.Parallel()
	defaults := Line{Key: "k0", Create: Create{Task: pipeline.Task{Title: "t0", Agent: "devdas", Priority: pipeline.Low, Project: "p0",
		Type: pipeline.Review, Steps: []string{"s0"}}}}
	with := func(change func(*Line)) *Line {
		l := defaults
		change(&l)
		return &l
	}
	tests := []struct {
		name, data string
		want       *Line
	}{
		{"nothing", `{}`, with(func(*Line) {})},
		{"nulls", `{"title":null,"agent":null,"priority":null,"project":null,"type":null,"subtasks":null,"key":null}`, with(func(*Line) {})},
		{"title", `{"title":"t1"}`, with(func(l *Line) { l.Task.Title = "t1" })},
		{"all", `{"title":"t1","agent":"archibald","priority":"high","project":"p1","type":"decision","subtasks":["s1"],"key":"k1"}`,
			&Line{Key: "k1", Create: Create{Task: pipeline.Task{Title: "t1", Agent: "archibald", Priority: pipeline.High, Project: "p1", Type: pipeline.Decision, Steps: []string{"s1"}}}}},
		{"body", `{"body":"b"}`, with(func(l *Line) { l.Task.Body = "b" })},
		{"context and input files", `{"context":"internal","inputFiles":["i"]}`, with(func(l *Line) { l.Task.Context, l.Task.Inputs = "internal", []string{"i"} })},
		{"project cleared", `{"project":""}`, with(func(l *Line) { l.Task.Project = "" })},
		{"no steps", `{"subtasks":[]}`, with(func(l *Line) { l.Task.Steps = []string{pipeline.DefaultStep} })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseLine([]byte(tt.data), defaults)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("ParseLine(%s)\n got %+v, %v\nwant %+v", tt.data, got, err, tt.want)
			}
		})
	}
	for _, tt := range []struct{ data, field, reason string }{
		{`{"id":"x"}`, "id", "is given by otm-create"},
		{`{"taskId":"T-00001"}`, "taskId", "is given by otm-create"},
		{`{"createdAt":"2026-03-14T08:20:19Z"}`, "createdAt", "is given by otm-create"},
		{`{"status":"pending"}`, "status", "is given by otm-create"},
		{`{"title":""}`, "title", "is missing"},
		{`{"key":""}`, "key", "is blank"},
		{`{"key":"  "}`, "key", "is blank"},
		{`{"key":7}`, "key", "must be a string, is a number"},
		{`{"Key":"k"}`, "Key", `must be written "key"`},
		// C14: a key that nobody reads would be lost without a word.
		{`{"sub_tasks":["a"]}`, "sub_tasks", `use "subtasks"`},
		{`{"prioritty":"high"}`, "prioritty", `use "priority"`},
		{`{"by":"human"}`, "by", `the keys are title, agent, `},
		{`{"x":1}`, "x", `the keys are title, agent, `},
	} {
		_, err := ParseLine([]byte(tt.data), defaults)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Field != tt.field || !strings.Contains(invalid.Reason, tt.reason) {
			t.Errorf("ParseLine(%s): %v, want %s %s", tt.data, err, tt.field, tt.reason)
		}
	}
	if _, err := ParseLine([]byte("```"), defaults); !errors.As(err, new(*SyntaxError)) {
		t.Errorf("ParseLine of a fence: %v, want a *SyntaxError", err)
	}
}
