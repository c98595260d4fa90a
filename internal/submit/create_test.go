package submit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"otm/internal/crash"
)

var ourName = regexp.MustCompile(`^\d{8}T\d{6}\.\d{9}Z-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.json$`)

func TestCreate(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	if got := p.create("--title", "Short task title", "--agent", "devdas", "--project", "prj-012", "--priority", "medium",
		"--subtask", "Subtask 1", "--subtask", "Subtask 2").ok(t); got != "T-00001\n" {
		t.Errorf("stdout %q, want the id alone", got)
	}
	if got := p.create("--title=x", "--agent=archibald", "--priority=batchable", "--type=review").ok(t); got != "T-00002\n" {
		t.Errorf("stdout %q", got)
	}
	drops := p.drops("new-tasks")
	if len(drops) != 2 {
		t.Fatalf("%d drops, want 2", len(drops))
	}
	for i, want := range []map[string]any{
		{"taskId": "T-00001", "title": "Short task title", "agent": "devdas", "priority": "normal", "project": "prj-012",
			"subtasks": []any{"Subtask 1", "Subtask 2"}, "type": "action", "status": "pending"},
		{"taskId": "T-00002", "title": "x", "agent": "archibald", "priority": "batchable", "project": nil,
			"subtasks": []any{"Confirm that task has been done"}, "type": "review", "status": "pending"},
	} {
		got := drops[i]
		name := got["name"].(string)
		if !ourName.MatchString(name) || !strings.HasSuffix(name, got["id"].(string)+".json") {
			t.Errorf("drop %v stands under %q", got["id"], name)
		}
		delete(got, "name")
		delete(got, "id")
		if at, _ := got["createdAt"].(string); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`).MatchString(at) {
			t.Errorf("createdAt is %q", at)
		}
		delete(got, "createdAt")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("drop %d is %v, want %v", i, got, want)
		}
	}
}

func TestCreateJSON(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	got := p.create("--title", "x", "--agent", "devdas", "--key", "k", "--json").ok(t)
	want := fmt.Sprintf("{\"taskId\":\"T-00001\",\"file\":%q}\n", p.drops("new-tasks")[0]["name"])
	if got != want {
		t.Errorf("stdout %s, want %s", got, want)
	}
	if got := p.create("--title", "x", "--agent", "devdas", "--key", "k", "--json").ok(t); got != "{\"taskId\":\"T-00001\",\"existing\":true}\n" {
		t.Errorf("with the key once more: stdout %s", got)
	}
}

// TestCreateRefuses lists what is refused with nothing written.
func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 501)
	tests := []struct {
		name string
		args []string
		says []string
	}{
		{"nothing", nil, []string{"otm: error: --title is missing"}},
		{"no agent", []string{"--title", "x"}, []string{"otm: error: --agent is missing", "otm: hint: otm-create --title x --agent NAME\n"}},
		{"no title", []string{"--agent", "devdas"}, []string{"otm: error: --title is missing", "otm: hint: one short line in single quotes, and the rest in steps: otm-create --title 'In short' --agent devdas --subtask 'First this'\n"}},
		{"blank title", []string{"--title", " \t", "--agent", "devdas"}, []string{"--title is blank"}},
		{"empty title", []string{"--title", "", "--agent", "devdas"}, []string{"--title is missing"}},
		{"two lines", []string{"--title", "a\nb", "--agent", "devdas"}, []string{"--title has a line break: a title is one line"}},
		{"long title", []string{"--title", long, "--agent", "devdas"}, []string{"--title has 501 characters, more than 500", "otm: hint: one short line in single quotes, and the rest in steps: otm-create --title 'In short' --agent devdas"}},
		{"long step", []string{"--title", "x", "--agent", "devdas", "--subtask", long}, []string{"--subtask has 501 characters"}},
		{"unknown context", []string{"--title", "x", "--agent", "devdas", "--context", "reserch"}, []string{`--context is "reserch": it is one of project, research`, "otm: hint: otm-create --title x --agent devdas --context research\n"}},
		{"blank input", []string{"--title", "x", "--agent", "devdas", "--input", " "}, []string{"--input is blank"}},
		{"long project", []string{"--title", "x", "--agent", "devdas", "--project", long}, []string{"--project has 501 characters"}},
		{"blank step", []string{"--title", "x", "--agent", "devdas", "--subtask", " "}, []string{"--subtask is blank"}},
		{"empty step", []string{"--title", "x", "--agent", "devdas", "--subtask", ""}, []string{"--subtask is missing"}},
		{"invalid UTF-8", []string{"--title", "a\xff", "--agent", "devdas"}, []string{"--title is not UTF-8"}},
		{"agent is a path", []string{"--title", "x", "--agent", "../x"}, []string{`--agent "../x" is no name for an agent`}},
		{"priority", []string{"--title", "x", "--agent", "devdas", "--priority", "hgih"}, []string{`--priority "hgih"`, "otm: hint: otm-create --title x --agent devdas --priority high\n"}},
		{"mistyped flag", []string{"--title", "x", "--agnet", "devdas"}, []string{"unknown flag: --agnet", "otm: hint: otm-create --title x --agent devdas\n"}},
		{"flag of another tool", []string{"--title", "x", "--assignee=devdas"}, []string{"unknown flag: --assignee", "otm: hint: otm-create --title x --agent=devdas\n"}},
		{"type", []string{"--title", "it's", "--agent", "devdas", "--type", "acton"}, []string{`there is no type "acton"`, `otm: hint: otm-create --title 'it'\''s' --agent devdas --type action` + "\n"}},
		{"blank key", []string{"--title", "x", "--agent", "devdas", "--key", " "}, []string{"--key is blank"}},
		{"words", []string{"--title", "Fix", "login", "--agent", "devdas"}, []string{`unexpected "login"`, "otm: hint: otm-create --title 'Fix login' --agent devdas\n"}},
		{"words in front", []string{"Fix", "login", "--agent", "devdas"}, []string{"otm: hint: otm-create --title 'Fix login' --agent devdas\n"}},
		{"words behind two hyphens", []string{"--title", "Fix", "--agent", "devdas", "--", "x"}, []string{`unexpected "x"`}},
		{"unknown flag", []string{"--title", "x", "--agent", "devdas", "--due", "now"}, []string{"unknown flag: --due", "otm: hint: otm-create --help"}},
		{"help as a word", []string{"help"}, []string{`unexpected "help"`}},
		{"description", []string{"--title", "x", "--agent", "devdas", "--description", "more text"},
			[]string{"unknown flag: --description: use --body", "otm: hint: otm-create --title x --agent devdas --body 'more text'\n"}},
		{"assignedTo", []string{"--title", "x", "--assignedTo", "devdas"}, []string{"unknown flag: --assignedTo: use --agent", "otm: hint: otm-create --title x --agent devdas\n"}},
		{"creator", []string{"--title", "x", "--creator=larry"}, []string{"unknown flag: --creator: use --agent", "otm: hint: otm-create --title x --agent=larry\n"}},
		{"removed beside the new one", []string{"--title", "x", "--agent", "devdas", "--creator", "larry"}, []string{"--creator: use --agent", "otm: hint: otm-create --help\n"}},
		{"missing file", []string{"--from", "/none/at/all"}, []string{"--from: open /none/at/all: no such file", `otm: hint: echo '{"title":"Fix the login page","agent":"devdas"}' | otm-create --from -` + "\n"}},
		{"directory", []string{"--from", "/"}, []string{"--from: read /: is a directory", "| otm-create --from -\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := initialised(t)
			p.create(tt.args...).refused(t, 64, tt.says...)
			p.untouched()
		})
	}
	t.Run("51 steps", func(t *testing.T) {
		t.Parallel()
		p := initialised(t)
		args := []string{"--title", "x", "--agent", "devdas"}
		for range 51 {
			args = append(args, "--subtask", "s")
		}
		p.create(args...).refused(t, 64, "--subtask has 51 steps, more than 50")
		p.untouched()
		p.create(args[:len(args)-2]...).ok(t)
	})
}

// TestCorrectedLinesWork runs what the hints say.
func TestCorrectedLinesWork(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	a := p.create("--title", "Fix", "the", "login", "--agent", "devdas", "--subtask", "it's $(id)")
	a.refused(t, 64, "otm: hint: otm-create --title 'Fix the login' --agent devdas --subtask 'it'\\''s $(id)'\n")
	p.create("--title", "Fix the login", "--agent", "devdas", "--description", "it's $(id)").
		refused(t, 64, "otm: hint: otm-create --title 'Fix the login' --agent devdas --body 'it'\\''s $(id)'\n")
	p.create("--title", "Fix the login", "--agent", "devdas", "--body", "it's $(id)").ok(t)
}

// TestC15NoWrongPriority: a word that is near none of ours gets no guess, which would
// set another priority than was meant.
func TestC15NoWrongPriority(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"urgent", "P0", "0", "whatever"} {
		initialised(t).create("--title", "x", "--agent", "devdas", "--priority", word).refused(t, 64, "otm: hint: otm-create --help\n")
	}
}

func TestCaseB26HostileTitles(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	titles := []string{"`id` $(id) ${HOME}", "it's \"quoted\" \\", "🦊 \u202e שלום", "\x1b[2J\x07", "-- --agent root", "%s%n", "a\u2028b", "a\tb", "../../x"}
	for i, title := range titles {
		if got := p.create("--title", title, "--agent", "devdas", "--subtask", title, "--project", title).ok(t); got != fmt.Sprintf("T-%05d\n", i+1) {
			t.Errorf("title %q: stdout %q", title, got)
		}
	}
	for i, d := range p.drops("new-tasks") {
		if d["title"] != titles[i] || d["project"] != titles[i] || d["subtasks"].([]any)[0] != titles[i] {
			t.Errorf("drop %d is %v, want all its texts to be %q", i, d, titles[i])
		}
	}
	a := p.create("--title", "bash: gizmo: command not found", "--agent", "devdas")
	if a.code != 0 || !strings.Contains(a.stderr, "otm: warning: the title looks like the output of a command that failed") {
		t.Errorf("a title from a failed command: exit code %d, stderr %q; want a warning", a.code, a.stderr)
	}
}

func TestCreateFrom(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	p.in = "\xef\xbb\xbf{\"title\":\"first\"}\r\n\r\n" +
		`{"title":"second","agent":"archibald","subtasks":["x"],"priority":"low","project":"p","type":"decision"}` + "\n" +
		`{"title":"third","agent":null,"key":null}`
	if got := p.create("--from", "-", "--agent", "devdas", "--priority", "high", "--subtask", "s").ok(t); got != "T-00001\nT-00002\nT-00003\n" {
		t.Errorf("stdout %q", got)
	}
	var got []string
	for _, d := range p.drops("new-tasks") {
		got = append(got, fmt.Sprintf("%v %v %v %v %v %v %v", d["taskId"], d["title"], d["agent"], d["priority"], d["project"], d["subtasks"], d["type"]))
	}
	want := []string{"T-00001 first devdas high <nil> [s] action", "T-00002 second archibald low p [x] decision", "T-00003 third devdas high <nil> [s] action"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("drops are %q, want %q", got, want)
	}
	// From a file, as JSON.
	path := filepath.Join(t.TempDir(), "some lines")
	if err := os.WriteFile(path, []byte(`{"title":"fourth","agent":"devdas"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var a struct{ TaskID string }
	if err := json.Unmarshal([]byte(p.create("--from", path, "--json").ok(t)), &a); err != nil || a.TaskID != "T-00004" {
		t.Errorf("--json: %+v, %v", a, err)
	}
}

// TestCreateFromAllOrNone has good lines among bad ones.
func TestCreateFromAllOrNone(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	p.in = strings.Join([]string{
		`{"title":"fine","agent":"devdas"}`, ``, `{"agent":"devdas"}`, `{"title":"x","agent":"devdas","taskId":"T-00099"}`, `{"title":"x"`, `[]`,
		`{"title":"x","agent":"../x"}`, `{"title":"x","title":"y","agent":"devdas"}`, `{"title":"x","agent":"devdas","key":" "}`, `{"title":"fine","agent":"devdas"}`, "\x1b[31m",
	}, "\n")
	p.create("--from", "-").refused(t, 64,
		"otm: error: line 3: title is missing", "otm: error: line 4: taskId is given by otm-create", "otm: error: line 5: file ends in the middle",
		"otm: error: line 6: file holds JSON that is no object", `otm: error: line 7: agent "../x" is no name`, `otm: error: line 8: key "title" stands twice`,
		"otm: error: line 9: key is blank", "otm: error: line 11, column 1: not JSON", "otm: hint: nothing was written; mend these lines and run it again with all of them")
	p.untouched()

	p.in = strings.Repeat("bad\n", 25)
	a := p.create("--from", "-")
	a.refused(t, 64, "otm: error: line 20, column 1:", "otm: error: and 5 more\n")
	if strings.Contains(a.stderr, "line 21,") {
		t.Errorf("stderr tells of more than is readable:\n%s", a.stderr)
	}

	for name, in := range map[string]string{"nothing": "", "blank lines": "\n \r\n\n"} {
		p.in = in
		p.create("--from", "-").refused(t, 64, "nothing to read: --from wants one JSON object a line")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	p.in = `{"title":"x","agent":"devdas","more":"` + strings.Repeat("x", 1<<20) + "\"}\n"
	p.create("--from", "-").refused(t, 64, "line 1: a line is longer than 1048576 bytes")
	// One long line as large as may be is fine.
	p.untouched()
	p.in = `{"title":"x","agent":"devdas","key":"` + strings.Repeat("x", 1<<20-40) + "\"}\r\n"
	p.create("--from", "-").ok(t)
}

func TestCreateFromMany(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	const n = 200
	var in, want strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "{\"title\":\"task %d\",\"agent\":\"devdas\"}\n", i)
		fmt.Fprintf(&want, "T-%05d\n", i+1)
	}
	p.in = in.String()
	if got := p.create("--from", "-").ok(t); got != want.String() {
		t.Errorf("stdout %q", got)
	}
	// The names are in the order of the lines: they are handled in it.
	for i, d := range p.drops("new-tasks") {
		if d["title"] != fmt.Sprintf("task %d", i) {
			t.Fatalf("drop %d is %q", i, d["title"])
		}
	}
}

func TestAgentsAreChecked(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	p.write("otm.toml", "[agents.devdas]\nworkspace = \"/w\"\n[agents.\"Jos\u00e9\"]\nkind = \"human\"\n")
	p.create("--title", "x", "--agent", "devda").refused(t, 64, `no agent "devda" is configured; there are Jos`+"\u00e9"+`, devdas`, "otm: hint: otm-create --title x --agent devdas\n")
	p.in = "{\"title\":\"x\"}\n\n{\"title\":\"y\",\"agent\":\"ghost\"}\n{\"title\":\"z\",\"agent\":\"ghoul\"}\n"
	p.create("--from", "-", "--agent", "devdas").refused(t, 64, `otm: error: line 3: no agent "ghost" is configured`, `otm: error: line 4: no agent "ghoul"`)
	p.untouched()
	p.create("--title", "x", "--agent", "DevDas").ok(t)
	p.create("--title", "x", "--agent", "jose\u0301").ok(t)
	if d := p.drops("new-tasks"); d[0]["agent"] != "devdas" || d[1]["agent"] != "Jos\u00e9" {
		t.Errorf("the drops are for %q and %q, want the configured names", d[0]["agent"], d[1]["agent"])
	}
	p.update("--task-id", "1", "--note", "x", "--mention", "devda").refused(t, 64, `--mention "devda": no such agent is configured`, "otm: hint: --mention devdas\n")
	p.update("--task-id", "1", "--note", "x", "--mention", "DEVDAS").ok(t)
	if got := fmt.Sprint(p.drops("task-updates")[0]["mentions"]); got != "[devdas]" {
		t.Errorf("the message mentions %s, want the configured name", got)
	}
}

func TestTypesAreChecked(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	p.write("otm.toml", "[types.\"Bug fix\"]\nreview = false\n")
	p.create("--title", "x", "--agent", "a", "--type", "bugfix").refused(t, 64, `there is no type "bugfix"; there are action, decision, review, bug_fix`, "otm: hint: otm-create --title x --agent a --type bug_fix\n")
	p.create("--title", "x", "--agent", "a", "--type", "a/b").refused(t, 64, `--type "a/b" is no name`, "--type action\n")
	p.in = "{\"title\":\"x\",\"agent\":\"a\",\"type\":\"bug\"}\n"
	p.create("--from", "-").refused(t, 64, `otm: error: line 1: there is no type "bug"`)
	p.untouched()
	p.create("--title", "x", "--agent", "a", "--type", "Bug Fix").ok(t)
	if d := p.drops("new-tasks"); d[0]["type"] != "bug_fix" {
		t.Errorf("the drop is of type %q", d[0]["type"])
	}
}

func TestBrokenConfigurationStopsNoDrop(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	p.write("otm.toml", "[slack]\nlist = 1\n")
	a := p.create("--title", "x", "--agent", "anybody")
	if a.code != 0 || a.stdout != "T-00001\n" || !strings.HasPrefix(a.stderr, "otm: warning: configuration ") || !strings.Contains(a.stderr, "line 2: unknown key slack.list") {
		t.Errorf("exit code %d, stdout %q, stderr %q", a.code, a.stdout, a.stderr)
	}
	p.update("--task-id", "1", "--status", "in_progress").ok(t)
}

func TestDataDirectory(t *testing.T) {
	t.Parallel()
	create := []string{"--title", "x", "--agent", "devdas"}
	t.Run("not initialised", func(t *testing.T) {
		t.Parallel()
		p := initialised(t)
		none := filepath.Join(t.TempDir(), "none")
		for _, a := range []answered{p.create(append(create, "--dir", none)...), p.update("--task-id", "1", "--result", "x", "--dir", none)} {
			a.refused(t, 10, "not initialised", "otm: hint: otm init")
		}
		if _, err := os.Stat(none); err == nil {
			t.Error("the directory was made")
		}
		p.untouched()
	})
	t.Run("nobody says where", func(t *testing.T) {
		t.Parallel()
		p := initialised(t)
		p.env = map[string]string{}
		for _, a := range []answered{p.create(create...), p.update("--task-id", "1", "--result", "x")} {
			if a.code == 0 || a.stdout != "" || !strings.Contains(a.stderr, "HOME is not set") || !strings.Contains(a.stderr, "otm: hint: export OTM_DIR=") {
				t.Errorf("exit code %d, stdout %q, stderr %q", a.code, a.stdout, a.stderr)
			}
		}
		p.untouched()
	})
	t.Run("newer format", func(t *testing.T) {
		t.Parallel()
		p := initialised(t)
		p.write("format", "3\n")
		p.create(create...).refused(t, 78, "has format 3, this program knows 2", "otm: hint: use a version of otm that knows format 3")
		p.untouched()
	})
	t.Run("others can write", func(t *testing.T) {
		t.Parallel()
		p := initialised(t)
		if err := os.Chmod(p.dir, 0o770); err != nil {
			t.Fatal(err)
		}
		p.create(create...).refused(t, 78, "others can write to", "otm: hint: chmod go-w '")
		p.untouched()
	})
	t.Run("others can read", func(t *testing.T) {
		t.Parallel()
		p := initialised(t)
		if err := os.Chmod(p.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if a := p.create(create...); a.code != 0 || a.stdout != "T-00001\n" || strings.Count(a.stderr, "otm: warning:") != 1 {
			t.Errorf("exit code %d, stdout %q, stderr %q; want one warning", a.code, a.stdout, a.stderr)
		}
	})
	t.Run("inbox missing", func(t *testing.T) {
		t.Parallel()
		p := initialised(t)
		if err := os.RemoveAll(filepath.Join(p.dir, "new-tasks")); err != nil {
			t.Fatal(err)
		}
		p.create(create...).ok(t)
		if n := len(p.drops("new-tasks")); n != 1 {
			t.Errorf("%d drops", n)
		}
	})
	t.Run("counter lost", func(t *testing.T) {
		t.Parallel()
		p := initialised(t)
		p.create(create...).ok(t)
		if err := os.Remove(filepath.Join(p.dir, "next-task-id.json")); err != nil {
			t.Fatal(err)
		}
		if a := p.create(create...); a.code != 0 || a.stdout != "T-00002\n" || strings.Count(a.stderr, "otm: warning:") != 1 {
			t.Errorf("exit code %d, stdout %q, stderr %q; want one warning", a.code, a.stdout, a.stderr)
		}
	})
}

// TestAnswerNotWritten is about a full disk behind stdout: whoever called does
// not know the id, and must not take it for a success.
func TestAnswerNotWritten(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	p.out = failing{}
	for _, a := range []answered{p.create("--title", "x", "--agent", "devdas"), p.create("--title", "x", "--agent", "devdas", "--json"), p.update("--task-id", "T-1", "--result", "r")} {
		a.refused(t, 1, "the drop of T-0000", "is on disk, but the answer was not written: disk full", "otm: hint: otm list")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestKey(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	args := []string{"--title", "Nightly <report>", "--agent", "devdas", "--key", "report-14"}
	for range 3 {
		if got := p.create(args...).ok(t); got != "T-00001\n" {
			t.Errorf("stdout %q, want the same id", got)
		}
	}
	other := p.create("--title", "another title", "--agent", "archibald", "--key", "report-14")
	if other.code != 0 || other.stdout != "T-00001\n" || !strings.Contains(other.stderr, `otm: note: T-00001 has another title: "Nightly <report>"`) {
		t.Errorf("with other texts: %+v, want the same id: the key decides, and says so", other)
	}
	// The drop has been handled and cleared away: the key still holds.
	if err := os.Remove(filepath.Join(p.dir, "new-tasks", p.drops("new-tasks")[0]["name"].(string))); err != nil {
		t.Fatal(err)
	}
	if got := p.create(args...).ok(t); got != "T-00001\n" || len(p.drops("new-tasks")) != 0 {
		t.Errorf("for ever: stdout %q, drops %v", got, p.drops("new-tasks"))
	}
	// Keys among lines.
	p.in = `{"title":"a","agent":"devdas","key":"a"}` + "\n" + `{"title":"r","agent":"devdas","key":"report-14"}` + "\n" +
		`{"title":"b","agent":"devdas"}` + "\n" + `{"title":"a","agent":"devdas","key":"a"}` + "\n"
	if got := p.create("--from", "-"); got.code != 0 || got.stdout != "T-00002\nT-00001\nT-00003\nT-00002\n" || strings.Count(got.stderr, "otm: note") != 1 {
		t.Errorf("%+v", got)
	}
	if n := len(p.drops("new-tasks")); n != 2 {
		t.Errorf("%d drops, want 2", n)
	}
}

// TestKeyIsForOneTask has keys among the lines that would lose a task.
func TestKeyIsForOneTask(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	lines := func(list ...string) string { return strings.Join(list, "\n") }
	a, b := `{"title":"a","agent":"devdas"}`, `{"title":"b","agent":"devdas"}`
	aK, bK := `{"title":"a","agent":"devdas","key":"K"}`, `{"title":"b","agent":"devdas","key":"K"}`
	for _, tt := range []struct {
		in   string
		args []string
		says []string
	}{
		{lines(a, "", b), []string{"--key", "K"}, []string{`otm: error: line 3: key "K" stands on line 1 for another task`}},
		{lines(aK, b), []string{"--key", "K"}, []string{`otm: error: line 2: key "K" stands on line 1 for another task`}},
		{lines(aK, aK, bK), nil, []string{`otm: error: line 3: key "K" stands on line 1 for another task`}},
		{lines(aK, `{"title":"a","agent":"devdas","key":"K","priority":"low"}`), nil, []string{`line 2: key "K" stands on line 1`}},
	} {
		p.in = tt.in
		p.create(append(tt.args, "--from", "-")...).refused(t, 64, append(tt.says, "otm: hint: nothing was written")...)
		p.untouched()
	}
	// Equal lines with an equal key are one task, and --key serves one line.
	p.in = lines(aK, b, aK)
	if got := p.create("--from", "-", "--key", "other").ok(t); got != "T-00001\nT-00002\nT-00001\n" || len(p.drops("new-tasks")) != 2 {
		t.Errorf("stdout %q, %d drops", got, len(p.drops("new-tasks")))
	}
	if got := p.create("--title", "b", "--agent", "devdas", "--key", "other").ok(t); got != "T-00002\n" {
		t.Errorf("--key was not that of the line without one: stdout %q", got)
	}
}

// TestKeyUnderTrouble crashes before the delivery, and cannot read the record
// at the next call: the drop must not be taken for delivered.
func TestKeyUnderTrouble(t *testing.T) {
	p := initialised(t)
	args := []string{"--title", "x", "--agent", "devdas", "--key", "k"}
	type killed struct{}
	crash.Hook = func(point string) {
		if point == "publish.before" {
			crash.Hook = nil
			panic(killed{})
		}
	}
	func() {
		defer func() {
			if r := recover(); r != (killed{}) {
				t.Fatalf("recovered %v", r)
			}
		}()
		p.create(args...)
	}()
	file := filepath.Join(p.dir, "tasks", "T-00001.json")
	if err := os.Symlink("T-00001.json", file); err != nil { // ELOOP
		t.Fatal(err)
	}
	if a := p.create(args...); a.code != 1 || a.stdout != "" || len(p.drops("new-tasks")) != 0 {
		t.Errorf("exit code %d, stdout %q, drops %v", a.code, a.stdout, p.drops("new-tasks"))
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := p.create(args...).ok(t); got != "T-00001\n" || len(p.drops("new-tasks")) != 1 {
		t.Errorf("afterwards: stdout %q, drops %v", got, p.drops("new-tasks"))
	}
}

func TestDamagedKey(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	args := []string{"--title", "x", "--agent", "devdas", "--key", "k"}
	p.create(args...).ok(t)
	files, err := filepath.Glob(filepath.Join(p.dir, "keys", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte("\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.create(args...).refused(t, 1, "key file", "is damaged", "otm: hint: otm list --all\n", "otm: hint: if the task is not there: rm '"+files[0]+"'\n")
	if n := len(p.drops("new-tasks")); n != 1 {
		t.Errorf("%d drops: a damaged key made the task once more", n)
	}
}

// TestKeySurvivesACrash dies at every point between the first and the last
// effect of otm-create --key: the next call with the key delivers its task,
// once, and prints the id that it has.
func TestKeySurvivesACrash(t *testing.T) {
	type killed struct{}
	args := []string{"--title", "Nightly <report> & \u2028", "--agent", "devdas", "--key", "k"}
	points := 0
	for nth := 1; ; nth++ {
		p := initialised(t)
		left := nth
		crash.Hook = func(string) {
			if left--; left == 0 {
				panic(killed{})
			}
		}
		crashed := func() (crashed bool) {
			defer func() {
				crash.Hook = nil
				if r := recover(); r != nil {
					crashed = r == killed{}
				}
			}()
			p.create(args...)
			return false
		}()
		if !crashed {
			break
		}
		points++
		for range 2 {
			got := p.create(args...).ok(t)
			drops := 0
			for _, e := range mustReadDir(t, filepath.Join(p.dir, "new-tasks")) {
				if strings.HasPrefix(e.Name(), ".") {
					continue // a temporary file, to be swept away
				}
				drops++
				data, err := os.ReadFile(filepath.Join(p.dir, "new-tasks", e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				var d struct{ TaskID, Title string }
				if err := json.Unmarshal(data, &d); err != nil || d.TaskID+"\n" != got || d.Title != args[1] {
					t.Errorf("crashed at point %d: printed %q, dropped %s", nth, got, data)
				}
				if strings.Count(string(data), "\n") != 1 {
					t.Errorf("crashed at point %d: the drop is %q, want one line", nth, data)
				}
			}
			if drops != 1 {
				t.Errorf("crashed at point %d: %d drops, want 1", nth, drops)
			}
		}
	}
	if points < 8 {
		t.Errorf("only %d points were reached", points)
	}
}

// TestKeyDeliveredAndHandled crashes after the delivery, and has the injector
// take the drop before the next call: it must not be delivered again.
func TestKeyDeliveredAndHandled(t *testing.T) {
	type killed struct{}
	args := []string{"--title", "x", "--agent", "devdas", "--key", "k"}
	for _, handled := range []string{"processed", "failed", "tasks"} {
		p := initialised(t)
		crash.Hook = func(point string) {
			if point == "publish.after" {
				crash.Hook = nil
				panic(killed{})
			}
		}
		func() {
			defer func() {
				if r := recover(); r != (killed{}) {
					t.Fatalf("recovered %v", r)
				}
			}()
			p.create(args...)
		}()
		name := p.drops("new-tasks")[0]["name"].(string)
		if handled == "tasks" {
			p.rendered(1, "new")
			if err := os.Remove(filepath.Join(p.dir, "new-tasks", name)); err != nil {
				t.Fatal(err)
			}
		} else if err := os.Rename(filepath.Join(p.dir, "new-tasks", name), filepath.Join(p.dir, handled, name)); err != nil {
			t.Fatal(err)
		}
		if got := p.create(args...).ok(t); got != "T-00001\n" {
			t.Errorf("%s: stdout %q", handled, got)
		}
		if d := p.drops("new-tasks"); len(d) > 0 {
			t.Errorf("%s: it was delivered once more: %v", handled, d)
		}
	}
}

func mustReadDir(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}
