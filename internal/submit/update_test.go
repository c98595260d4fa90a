package submit

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"otm/pipeline"
	"otm/pipeline/rendering"
)

func TestUpdate(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	p.create("--title", "x", "--agent", "devdas", "--subtask", "a").ok(t)
	for _, args := range [][]string{
		{"--task-id", "T-00001", "--status", "in_progress"},
		{"--task-id", "1", "--subtask-done", "a", "--subtask-done", "2"},
		{"--task-id", "t-1", "--status", "blocked", "--reason", "why"},
		{"--task-id=T-00001", "--status=agent_done", "--result=so\nand so"},
		{"--task-id", "1", "--note", "half of it", "--percent", "0", "--tag", "Handoff", "--mention", "kim", "--mention", "robin x"},
	} {
		if got := p.update(args...).ok(t); got != "T-00001\n" {
			t.Errorf("%q: stdout %q, want the id alone", args, got)
		}
	}
	drops := p.drops("task-updates")
	for i, want := range []map[string]any{
		{"status": "in_progress", "subtasksDone": []any{}, "reason": nil, "result": nil},
		{"status": nil, "subtasksDone": []any{"a", "2"}, "reason": nil, "result": nil},
		{"status": "blocked", "subtasksDone": []any{}, "reason": "why", "result": nil},
		{"status": "agent_done", "subtasksDone": []any{}, "reason": nil, "result": "so\nand so"},
		{"status": nil, "subtasksDone": []any{}, "reason": nil, "result": nil, "note": "half of it", "percent": 0.0, "tag": "handoff", "mentions": []any{"kim", "robin x"}},
	} {
		got := drops[i]
		if name := got["name"].(string); !ourName.MatchString(name) || !strings.HasSuffix(name, got["id"].(string)+".json") {
			t.Errorf("drop %v stands under %q", got["id"], name)
		}
		want["taskId"], want["action"] = "T-00001", "update"
		for _, key := range []string{"name", "id", "createdAt"} {
			if got[key] == nil {
				t.Errorf("drop %d lacks %s", i, key)
			}
			delete(got, key)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("drop %d is %v, want %v", i, got, want)
		}
	}
	got := p.update("--task-id", "1", "--result", "r", "--json").ok(t)
	if want := fmt.Sprintf("{\"taskId\":\"T-00001\",\"file\":%q}\n", p.drops("task-updates")[5]["name"]); got != want {
		t.Errorf("stdout %s, want %s", got, want)
	}
}

func TestUpdateRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 501)
	tests := []struct {
		name string
		args []string
		says []string
	}{
		{"nothing", nil, []string{"otm: error: --task-id is missing", "otm: hint: otm-update --task-id T-00033 --status in_progress\n"}},
		{"no id", []string{"--status", "in_progress"}, []string{"--task-id is missing"}},
		{"id is no number", []string{"--task-id", "login", "--result", "x"}, []string{`--task-id: task id "login"`, "otm: hint: otm list\n"}},
		{"missing file", []string{"--from", "/none/at/all"}, []string{"no such file", `otm: hint: echo '{"taskId":"T-00033","status":"in_progress"}' | otm-update --from -` + "\n"}},
		{"id has ten digits", []string{"--task-id", "T-1234567890", "--result", "x"}, []string{"has more than nine digits"}},
		{"id is zero", []string{"--task-id", "0", "--result", "x"}, []string{"ids begin at T-00001"}},
		{"id is empty", []string{"--task-id", "", "--result", "x"}, []string{"want a form such as T-00035"}},
		{"says nothing", []string{"--task-id", "1"}, []string{"--status is missing: an update needs a status, a finished step, a result or a note", "otm: hint: otm-update --task-id 1 --status in_progress\n"}},
		{"reason alone", []string{"--task-id", "1", "--reason", "r"}, []string{"needs a status"}},
		{"blocked without a reason", []string{"--task-id", "1", "--status", "blocked"}, []string{"--reason is missing: blocked needs one", "otm: hint: otm-update --task-id 1 --status blocked --reason why\n"}},
		{"blocked with a blank reason", []string{"--task-id", "1", "--status", "blocked", "--reason", " "}, []string{"--reason is missing"}},
		{"long reason", []string{"--task-id", "1", "--status", "blocked", "--reason", long}, []string{"--reason has 501 characters"}},
		{"long result", []string{"--task-id", "1", "--result", strings.Repeat("é", 4001)}, []string{"--result has 4001 characters, more than 4000", // C16: the hint says what to do
			"otm: hint: write it to a file in your workspace and give its path: otm-update --task-id 1 --result 'in short; all of it is in result.md'"}},
		{"long step", []string{"--task-id", "1", "--subtask-done", long}, []string{"--subtask-done has 501 characters"}},
		{"blank step", []string{"--task-id", "1", "--subtask-done", ""}, []string{"--subtask-done is missing"}},
		{"invalid UTF-8", []string{"--task-id", "1", "--result", "\xff"}, []string{"--result is not UTF-8"}},
		{"long note", []string{"--task-id", "1", "--note", long}, []string{"--note has 501 characters", "otm: hint: write it to a file in your workspace"}},
		{"percent without a note", []string{"--task-id", "1", "--percent", "5"}, []string{"--note is missing", "otm: hint: otm-update --task-id 1 --percent 5 --note 'what is new'\n"}},
		{"percent is too large", []string{"--task-id", "1", "--note", "x", "--percent", "101"}, []string{"--percent is 101: it is a whole number from 0 to 100"}},
		{"percent is text", []string{"--task-id", "1", "--note", "x", "--percent", "half"}, []string{"percent"}},
		{"unknown tag", []string{"--task-id", "1", "--note", "x", "--tag", "progres"}, []string{`--tag is "progres": it is one of handoff,`, "otm: hint: otm-update --task-id 1 --note x --tag progress\n"}},
		{"a mention is a path", []string{"--task-id", "1", "--note", "x", "--mention", "../x"}, []string{`--mention is "../x", which is no name for an agent`}},
		{"words", []string{"--task-id", "1", "--subtask-done", "Create", "form"}, []string{"otm: hint: otm-update --task-id 1 --subtask-done 'Create form'\n"}},
		{"id and state as words", []string{"T-00005", "done"}, []string{`unexpected "T-00005"`, "otm: hint: otm-update --task-id T-00005 --status done\n"}},
		{"id and blocked as words", []string{"5", "blocked"}, []string{"otm: hint: otm-update --task-id 5 --status blocked\n"}},
		{"id as a word", []string{"1", "--status", "in_progress"}, []string{"otm: hint: otm-update --task-id 1 --status in_progress\n"}},
		{"empty status", []string{"--task-id", "1", "--status", ""}, []string{`--status is ""`, "otm: hint: otm-update --task-id 1 --status in_progress\n"}},
		{"never issued", []string{"--task-id", "1", "--status", "in_progress"}, []string{"otm: error: T-00001 was never issued", "otm: hint: otm list"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := initialised(t)
			p.update(tt.args...).refused(t, 64, tt.says...)
			p.untouched()
		})
	}
}

// TestCaseB107CorrectedLines prints for each near miss the line that works.
func TestCaseB107CorrectedLines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args []string
		hint string
	}{
		{[]string{"--task-id", "1", "--status", "done"}, "otm-update --task-id 1 --status agent_done"},
		{[]string{"--task-id", "1", "--status", "completed", "--result", "it's so"}, `otm-update --task-id 1 --status agent_done --result 'it'\''s so'`},
		{[]string{"--task-id", "1", "--status=Agent_Done"}, "otm-update --task-id 1 --status agent_done"},
		{[]string{"--status", "agent-done", "--task-id", "1", "--status", "done"}, "otm-update --status agent_done --task-id 1"},
		{[]string{"--task-id", "1", "--status", "In Progress"}, "otm-update --task-id 1 --status in_progress"},
		{[]string{"--task-id", "1", "--status", "stuck"}, "otm-update --task-id 1 --status blocked --reason why"},
		{[]string{"--task-id", "1", "--status", "stuck", "--reason", "no key"}, "otm-update --task-id 1 --status blocked --reason 'no key'"},
	}
	for _, tt := range tests {
		p := initialised(t)
		p.create("--title", "x", "--agent", "devdas").ok(t)
		a := p.update(tt.args...)
		a.refused(t, 64, "an update sets in_progress, blocked, agent_done", "otm: hint: "+tt.hint+"\n")
		if d := p.drops("task-updates"); len(d) > 0 {
			t.Errorf("%q: dropped %v", tt.args, d)
		}
	}
	for _, status := range []string{"new", "assigned", "pending", "cancelled", "archived", "dormant", "rejected", "whatever"} {
		p := initialised(t)
		a := p.update("--task-id", "1", "--status", status)
		a.refused(t, 64, "an update sets in_progress, blocked, agent_done")
		if strings.Contains(a.stderr, "otm: hint: otm-update") {
			t.Errorf("--status %s: stderr %q guesses what was meant", status, a.stderr)
		}
	}
}

// TestUpdateIsHeldAgainstTheRecord is about what OTM knows of the task.
func TestUpdateIsHeldAgainstTheRecord(t *testing.T) {
	t.Parallel()
	form, validation := pipeline.Step{Title: "Create login form", Done: true}, pipeline.Step{Title: "Add validation"}
	steps := "otm: hint: its steps: 1 [x] Create login form · 2 [ ] Add validation\n"
	over := "nothing is to be reported any more"
	tests := []struct {
		name   string
		status pipeline.Status
		args   []string
		says   []string // nil: it is dropped
	}{
		{"step by title", pipeline.InProgress, []string{"--subtask-done", "Add validation"}, nil},
		{"step by number", pipeline.InProgress, []string{"--subtask-done", "2"}, nil},
		{"step folded", pipeline.InProgress, []string{"--subtask-done", "  add   VALIDATION "}, nil},
		{"step that is ticked", pipeline.InProgress, []string{"--subtask-done", "Create login form"}, nil},
		{"unknown step", pipeline.InProgress, []string{"--subtask-done", "Create logn form"},
			[]string{`no step of T-00007 matches "Create logn form"`, `otm: hint: nearest is 1, "Create login form": --subtask-done 1`, steps}},
		{"number too large", pipeline.InProgress, []string{"--subtask-done", "3"}, []string{`no step of T-00007 matches "3"`, steps}},
		// C47: a number, or a word like no title, gets the list of steps and no guess.
		{"C47 no guess for all", pipeline.InProgress, []string{"--subtask-done", "all"}, []string{`matches "all"` + "\notm: hint: its steps: 1 [x]"}},
		{"C47 no guess for a number", pipeline.InProgress, []string{"--subtask-done", "3"}, []string{`matches "3"` + "\notm: hint: its steps: 1 [x]"}},
		{"one known, one not", pipeline.InProgress, []string{"--subtask-done", "2", "--subtask-done", "x"}, []string{`matches "x"`}},
		{"hostile step", pipeline.InProgress, []string{"--subtask-done", "\x1b[2J\n"}, []string{`matches "\x1b[2J\n"`}},
		{"still new", pipeline.New, []string{"--status", "in_progress"}, nil},
		{"status not known yet", "", []string{"--status", "in_progress"}, nil},
		{"a person may have moved it on since", pipeline.Pending, []string{"--status", "in_progress"}, nil},
		{"agent_done: result", pipeline.AgentDone, []string{"--result", "r"}, nil},
		{"agent_done: result and reason", pipeline.AgentDone, []string{"--result", "r", "--reason", "s"}, nil},
		{"agent_done: said again", pipeline.AgentDone, []string{"--status", "agent_done"}, nil},
		{"agent_done: step that is ticked", pipeline.AgentDone, []string{"--subtask-done", "1"}, nil},
		{"agent_done: open step", pipeline.AgentDone, []string{"--subtask-done", "2"}, []string{"T-00007 is agent_done: " + over, "otm: hint: otm show T-00007", steps}},
		{"agent_done: back", pipeline.AgentDone, []string{"--status", "in_progress"}, []string{"T-00007 is agent_done: " + over}},
		{"done", pipeline.Done, []string{"--result", "r"}, []string{"T-00007 is done: " + over}},
		{"rejected", pipeline.Rejected, []string{"--status", "agent_done"}, []string{"T-00007 is rejected: " + over}},
		{"dormant", pipeline.Dormant, []string{"--status", "agent_done"}, []string{"T-00007 is dormant: a person set it aside"}},
		{"failed: its last run may have gone on", pipeline.Failed, []string{"--status", "agent_done"}, nil},
		{"cancelled", pipeline.Cancelled, []string{"--status", "agent_done"}, []string{"T-00007 is cancelled: " + over}},
		{"archived", pipeline.Archived, []string{"--result", "r"}, []string{"T-00007 is archived: " + over}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := initialised(t)
			p.rendered(7, tt.status, form, validation)
			a := p.update(append([]string{"--task-id", "7"}, tt.args...)...)
			dropped := len(p.drops("task-updates"))
			if tt.says == nil {
				if got := a.ok(t); got != "T-00007\n" || dropped != 1 {
					t.Errorf("stdout %q, %d drops", got, dropped)
				}
				return
			}
			a.refused(t, 64, tt.says...)
			if dropped != 0 {
				t.Errorf("%d drops, want none", dropped)
			}
		})
	}
	p := initialised(t)
	p.rendered(7, pipeline.InProgress)
	p.update("--task-id", "7", "--subtask-done", "1").
		refused(t, 64, "no step of T-00007 matches \"1\"\notm: hint: it has no steps: report its end with --status agent_done\n")
}

// In the shell of an agent, a report belongs to the run for which its process was started.
// Once the task is in another run, only its agent is told how to go on.
func TestUpdateOfAFormerRun(t *testing.T) {
	for agent, hint := range map[string]string{
		"Dev Das": "otm next --agent 'dev das'   # gives the task again, with the number of its run", "archibald": "otm show T-00007", "": "otm show T-00007",
	} {
		p := initialised(t)
		p.env["OTM_AGENT"], p.env["OTM_TASK_ID"], p.env["OTM_RUN"] = agent, "T-00007", "1"
		p.rendered(7, pipeline.InProgress)
		if err := rendering.Write(p.dir, pipeline.Rendering{TaskID: 7, Agent: "dev das", Status: pipeline.InProgress, Run: 2}); err != nil {
			t.Fatal(err)
		}
		p.update("--task-id", "7", "--status", "agent_done").
			refused(t, 64, "otm: error: T-00007 is with dev das, and run 1, to which this report belongs, is over\notm: hint: "+hint+"\n")
		if got := p.update("--task-id", "7", "--run", "2", "--status", "agent_done").ok(t); got != "T-00007\n" {
			t.Errorf("with its run: %q", got)
		}
	}
}

// TestUpdateOfTheUnknown is about tasks without a record.
func TestUpdateOfTheUnknown(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	p.create("--title", "x", "--agent", "devdas").ok(t)
	p.update("--task-id", "1", "--subtask-done", "whatever it says").ok(t)
	p.update("--task-id", "2", "--status", "in_progress").refused(t, 64, "T-00002 was never issued")
	p.write("new-tasks/foreign.json", "\xef\xbb\xbf{\"taskId\":\"T-00041\",\"title\":\"x\",\"agent\":\"devdas\"}")
	p.update("--task-id", "41", "--status", "in_progress").ok(t)
	p.write("next-task-id.json", "?")
	p.update("--task-id", "99", "--status", "in_progress").ok(t) // nobody can say that it was not issued
	if n := len(p.drops("task-updates")); n != 3 {
		t.Errorf("%d drops, want 3", n)
	}
	for _, damaged := range []string{"corrupt", ""} { // a power failure may leave an empty one
		p.write("tasks/T-00050.json", damaged)
		if a := p.update("--task-id", "50", "--status", "in_progress"); a.code != 0 || !strings.Contains(a.stderr, "otm: warning: rendering ") {
			t.Errorf("with the rendering %q: exit code %d, stderr %q; want a warning and the drop", damaged, a.code, a.stderr)
		}
	}
}

func TestUpdateFrom(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	p.rendered(7, pipeline.InProgress, pipeline.Step{Title: "a"}, pipeline.Step{Title: "b"})
	p.rendered(8, pipeline.Done)
	p.in = "{\"taskId\":\"7\",\"subtasksDone\":[\"a\"]}\n\n{\"subtasksDone\":[\"b\"],\"status\":null}\n{\"taskId\":\"T-00007\",\"status\":\"agent_done\",\"result\":\"r\"}\n"
	if got := p.update("--from", "-", "--task-id", "7").ok(t); got != "T-00007\nT-00007\nT-00007\n" {
		t.Errorf("stdout %q", got)
	}
	var got []string
	for _, d := range p.drops("task-updates") {
		got = append(got, fmt.Sprintf("%v %v %v", d["subtasksDone"], d["status"], d["result"]))
	}
	if want := []string{"[a] <nil> <nil>", "[b] <nil> <nil>", "[] agent_done r"}; !reflect.DeepEqual(got, want) {
		t.Errorf("drops in the order of their names are %q, want %q", got, want)
	}
	p.in = "{\"taskId\":\"7\",\"result\":\"r\"}\n\n{\"taskId\":\"7\",\"status\":\"done\"}\n{\"id\":\"x\",\"taskId\":\"7\",\"result\":\"r\"}\n{\"result\":\"r\"}\n"
	p.update("--from", "-").refused(t, 64, "otm: error: line 3: status is \"done\"", "otm: error: line 4: id is given by otm-update: leave it out; the task's id is \"taskId\"", "otm: error: line 5: taskId is missing", "otm: hint: nothing was written")
	p.in = "{\"taskId\":\"7\",\"result\":\"r\"}\n\n{\"taskId\":\"7\",\"subtasksDone\":[\"x\"]}\n{\"taskId\":\"8\",\"result\":\"r\"}\n{\"taskId\":\"99\",\"result\":\"r\"}\n"
	p.update("--from", "-").refused(t, 64, `otm: error: line 3: no step of T-00007 matches "x"`, "otm: error: line 4: T-00008 is done", "otm: error: line 5: T-00099 was never issued")
	if n := len(p.drops("task-updates")); n != 3 {
		t.Errorf("%d drops, want none to come on top of the 3", n)
	}
}
