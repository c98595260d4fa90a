package drop

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"otm/pipeline"
)

func TestUpdateOnDisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		update Update
		want   string
	}{
		{Update{ID: "d1", TaskID: 33, CreatedAt: created, Status: pipeline.InProgress, StepsDone: []string{"Create login form"}},
			`{"id":"d1","taskId":"T-00033","action":"update","createdAt":"2026-03-14T08:20:19Z","status":"in_progress","subtasksDone":["Create login form"],"reason":null,"result":null}`},
		{Update{ID: "d1", TaskID: 100000, CreatedAt: created, Reason: "why", Result: "<a>"},
			`{"id":"d1","taskId":"T-100000","action":"update","createdAt":"2026-03-14T08:20:19Z","status":null,"subtasksDone":[],"reason":"why","result":"<a>"}`},
		{Update{ID: "d1", TaskID: 33, CreatedAt: created, Message: pipeline.Message{Text: "half of it", Tag: pipeline.TagProgress, Percent: new(int), Mentions: []string{"kim"}}},
			`{"id":"d1","taskId":"T-00033","action":"update","createdAt":"2026-03-14T08:20:19Z","status":null,"subtasksDone":[],"reason":null,"result":null,` +
				`"note":"half of it","percent":0,"tag":"progress","mentions":["kim"]}`},
	} {
		if got := string(tt.update.Encode()); got != tt.want+"\n" {
			t.Errorf("Encode gave\n%s\nwant\n%s", got, tt.want)
		}
	}
}

func TestParseUpdate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, data string
		want       *Update
	}{
		{"full", `{"id":"d1","taskId":"T-00033","action":"update","createdAt":"2026-03-14T08:20:19Z","status":"blocked","subtasksDone":["a","2"],"reason":"r","result":"s"}`,
			&Update{ID: "d1", TaskID: 33, CreatedAt: created, Status: pipeline.Blocked, StepsDone: []string{"a", "2"}, Reason: "r", Result: "s"}},
		{"status alone", `{"taskId":"T-00033","status":"agent_done"}`, &Update{TaskID: 33, Status: pipeline.AgentDone}},
		{"steps by their numbers", `{"taskId":"T-00033","subtasksDone":[1,"2"]}`, &Update{TaskID: 33, StepsDone: []string{"1", "2"}}},
		{"step alone", `{"taskId":"T-00033","subtasksDone":["a"]}`, &Update{TaskID: 33, StepsDone: []string{"a"}}},
		{"result alone", `{"taskId":"T-00033","result":"s"}`, &Update{TaskID: 33, Result: "s"}},
		{"nulls", `{"taskId":"T-00033","id":null,"action":null,"createdAt":null,"status":null,"subtasksDone":null,"reason":null,"result":"s"}`, &Update{TaskID: 33, Result: "s"}},
		{"empty status counts as none", `{"taskId":"T-00033","status":"","result":"s"}`, &Update{TaskID: 33, Result: "s"}},
		{"reason with another status", `{"taskId":"T-00033","status":"in_progress","reason":"r"}`, &Update{TaskID: 33, Status: pipeline.InProgress, Reason: "r"}},
		{"unknown keys", `{"taskId":"T-00033","result":"s","mood":"good"}`, &Update{TaskID: 33, Result: "s", Ignored: []string{"mood"}}},
		{"note alone", `{"taskId":"T-00033","note":"n","percent":null,"tag":null,"mentions":null}`, &Update{TaskID: 33, Message: pipeline.Message{Text: "n"}}},
		{"message", `{"taskId":"T-00033","note":"n","percent":0,"tag":"HandOff","mentions":["kim","Dev Das"]}`,
			&Update{TaskID: 33, Message: pipeline.Message{Text: "n", Tag: pipeline.TagHandoff, Percent: new(int), Mentions: []string{"kim", "Dev Das"}}}},
		{"line feeds in a result", `{"taskId":"T-00033","result":"a\nb"}`, &Update{TaskID: 33, Result: "a\nb"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseUpdate([]byte(tt.data))
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("ParseUpdate(%s)\n got %+v, %v\nwant %+v", tt.data, got, err, tt.want)
			}
		})
	}
}

func TestParseUpdateRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, data, field, reason string }{
		{"nothing", `{}`, "status", "is missing"},
		{"no id", `{"status":"in_progress"}`, "taskId", "is missing"},
		{"id is null", `{"status":"in_progress","taskId":null}`, "taskId", "is missing"},
		{"id is short", `{"status":"in_progress","taskId":"33"}`, "taskId", "at least five digits"},
		{"id has ten digits", `{"status":"in_progress","taskId":"T-1234567890"}`, "taskId", "more than nine digits"},
		{"id is a number", `{"status":"in_progress","taskId":33}`, "taskId", "must be a string, is a number"},
		{"says nothing", `{"taskId":"T-00033"}`, "status", "needs a status, a finished step, a result or a note"},
		{"reason alone", `{"taskId":"T-00033","reason":"r"}`, "status", "needs a status, a finished step, a result or a note"},
		{"other action", `{"taskId":"T-00033","action":"delete","result":"s"}`, "action", `is "delete": only "update" is known`},
		{"action is a number", `{"taskId":"T-00033","action":1,"result":"s"}`, "action", "must be a string"},
		{"status is a number", `{"taskId":"T-00033","status":1}`, "status", "must be a string, is a number"},
		{"status of the board", `{"taskId":"T-00033","status":"assigned"}`, "status", "the dispatcher sets assigned"},
		{"blocked without a reason", `{"taskId":"T-00033","status":"blocked"}`, "reason", "is missing: blocked needs one"},
		{"blocked with a blank reason", `{"taskId":"T-00033","status":"blocked","reason":" "}`, "reason", "is missing: blocked needs one"},
		{"steps are text", `{"taskId":"T-00033","subtasksDone":"a"}`, "subtasksDone", "must be an array of strings, is a string"},
		{"a step is a number", `{"taskId":"T-00033","subtasksDone":[1.5]}`, "subtasksDone[0]", "must be a string, is a number"},
		{"a step is blank", `{"taskId":"T-00033","subtasksDone":[" "]}`, "subtasksDone[0]", "is blank"},
		{"reason is an object", `{"taskId":"T-00033","status":"blocked","reason":{}}`, "reason", "must be a string, is an object"},
		{"result is an array", `{"taskId":"T-00033","result":[]}`, "result", "must be a string, is an array"},
		{"result is too long", `{"taskId":"T-00033","result":"` + strings.Repeat("ä", 4001) + `"}`, "result", "has 4001 characters, more than 4000"},
		{"note is too long", `{"taskId":"T-00033","note":"` + strings.Repeat("ä", 501) + `"}`, "note", "has 501 characters, more than 500"},
		{"note is blank", `{"taskId":"T-00033","note":" "}`, "note", "is blank"},
		{"note is a number", `{"taskId":"T-00033","note":1}`, "note", "must be a string"},
		{"tag without a note", `{"taskId":"T-00033","result":"s","tag":"note"}`, "note", "is missing"},
		{"unknown tag", `{"taskId":"T-00033","note":"n","tag":"progres"}`, "tag", "is one of handoff, progress, complete, blocked, escalate, result, note"},
		{"percent is too large", `{"taskId":"T-00033","note":"n","percent":101}`, "percent", "is 101: it is a whole number from 0 to 100"},
		{"percent is below 0", `{"taskId":"T-00033","note":"n","percent":-1}`, "percent", "is -1"},
		{"percent is a part", `{"taskId":"T-00033","note":"n","percent":0.5}`, "percent", "must be a whole number from 0 to 100, is 0.5"},
		{"percent is text", `{"taskId":"T-00033","note":"n","percent":"50"}`, "percent", "must be a whole number"},
		{"mentions are text", `{"taskId":"T-00033","note":"n","mentions":"kim"}`, "mentions", "must be an array of strings"},
		{"a mention is a path", `{"taskId":"T-00033","note":"n","mentions":["kim","../x"]}`, "mentions[1]", "which is no name for an agent"},
		{"known key in another case", `{"taskId":"T-00033","Result":"s"}`, "Result", `must be written "result"`},
		{"drop id is a boolean", `{"taskId":"T-00033","result":"s","id":true}`, "id", "must be a string, is a boolean"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseUpdate([]byte(tt.data))
			var invalid *InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("ParseUpdate(%.200s) = %+v, %v; want an *InvalidError", tt.data, got, err)
			}
			if invalid.Field != tt.field || !strings.Contains(invalid.Reason, tt.reason) {
				t.Errorf("ParseUpdate(%.200s): field %q, reason %q; want %q, %q", tt.data, invalid.Field, invalid.Reason, tt.field, tt.reason)
			}
		})
	}
}

// TestCaseB107NearMisses is about how language models write states: each is
// refused with the state that was meant.
func TestCaseB107NearMisses(t *testing.T) {
	t.Parallel()
	tests := []struct{ label, correction, says string }{
		{"done", "agent_done", "a person or a reviewing agent sets done"},
		{"completed", "agent_done", ""}, {"complete", "agent_done", ""}, {"finished", "agent_done", ""},
		{"Agent_Done", "agent_done", ""}, {"agent-done", "agent_done", ""}, {"agent done", "agent_done", ""}, {"agentDone", "agent_done", ""},
		{"AGENT_DONE", "agent_done", ""}, {" agent_done", "agent_done", ""},
		{"In Progress", "in_progress", ""}, {"in-progress", "in_progress", ""}, {"inProgress", "in_progress", ""}, {"started", "in_progress", ""}, {"working", "in_progress", ""},
		{"Blocked", "blocked", ""}, {"stuck", "blocked", ""}, {"waiting", "blocked", ""},
		{"new", "", "a task is new when it comes onto the board"}, {"assigned", "", "the dispatcher sets assigned"},
		{"pending", "", "OTM sets pending"}, {"dormant", "", "a person sets dormant"}, {"cancelled", "", "a reviewing agent sets cancelled"}, {"Failed", "failed", ""}, {"error", "failed", ""},
		{"rejected", "", "a reviewing agent sets rejected"}, {"archived", "", "a person sets archived"},
		{"", "", ""}, {"no idea", "", ""}, {"\x1b[31m", "", ""},
	}
	for _, tt := range tests {
		got, err := ParseReport(tt.label)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || got != "" {
			t.Errorf("ParseReport(%q) = %q, %v; want it refused", tt.label, got, err)
			continue
		}
		if invalid.Correction != tt.correction {
			t.Errorf("ParseReport(%q) corrects to %q, want %q", tt.label, invalid.Correction, tt.correction)
		}
		if !strings.Contains(invalid.Reason, "an update sets in_progress, blocked, agent_done, failed") || !strings.Contains(invalid.Reason, tt.says) {
			t.Errorf("ParseReport(%q): %q, want it to list what may be set and to say %q", tt.label, invalid.Reason, tt.says)
		}
	}
	for _, s := range pipeline.Reportable {
		if got, err := ParseReport(string(s)); got != s || err != nil {
			t.Errorf("ParseReport(%q) = %q, %v", s, got, err)
		}
	}
}

func TestParseUpdateLine(t *testing.T) {
	t.Parallel()
	defaults := Update{TaskID: 33, Status: pipeline.InProgress, StepsDone: []string{"a"}, Reason: "r", Result: "s", CreatedAt: time.Time{}}
	with := func(change func(*Update)) *Update {
		u := defaults
		change(&u)
		return &u
	}
	tests := []struct {
		name, data string
		want       *Update
	}{
		{"nothing", `{}`, with(func(*Update) {})},
		{"nulls", `{"taskId":null,"status":null,"subtasksDone":null,"reason":null,"result":null}`, with(func(*Update) {})},
		{"id as people type it", `{"taskId":"34"}`, with(func(u *Update) { u.TaskID = 34 })},
		{"status", `{"status":"agent_done"}`, with(func(u *Update) { u.Status = pipeline.AgentDone })},
		{"steps", `{"subtasksDone":["b"]}`, with(func(u *Update) { u.StepsDone = []string{"b"} })},
		{"action", `{"action":"update","result":"t"}`, with(func(u *Update) { u.Result = "t" })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseUpdateLine([]byte(tt.data), defaults)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("ParseUpdateLine(%s)\n got %+v, %v\nwant %+v", tt.data, got, err, tt.want)
			}
		})
	}
	for _, tt := range []struct {
		data   string
		with   Update
		reason string
	}{
		{`{"id":"x"}`, defaults, "is given by otm-update"},
		{`{"createdAt":"x"}`, defaults, "is given by otm-update"},
		{`{"taskId":"x"}`, defaults, "want a form such as T-00035"},
		{`{"status":"in_progress"}`, Update{}, "is missing"},
		{`{"taskId":"33"}`, Update{}, "needs a status"},
		{`{"status":"done"}`, defaults, "an update sets"},
		// C14: a key that nobody reads would be lost without a word.
		{`{"subtaskDone":["a"]}`, defaults, `use "subtasksDone"`},
		{`{"task_id":"T-00001"}`, defaults, `use "taskId"`},
		{`{"x":1}`, defaults, "the keys are taskId, "},
	} {
		if _, err := ParseUpdateLine([]byte(tt.data), tt.with); !errors.As(err, new(*InvalidError)) || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("ParseUpdateLine(%s): %v, want it to say %q", tt.data, err, tt.reason)
		}
	}
	if _, err := ParseUpdateLine([]byte("nonsense"), defaults); !errors.As(err, new(*SyntaxError)) {
		t.Errorf("ParseUpdateLine of no JSON: %v, want a *SyntaxError", err)
	}
}

func TestCheckUpdateRefusesInvalidUTF8(t *testing.T) {
	t.Parallel()
	for _, u := range []Update{
		{Result: "a\xff"}, {Status: pipeline.Blocked, Reason: "a\xff"}, {StepsDone: []string{"a\xff"}},
	} {
		if err := CheckUpdate(&u); err == nil || !strings.Contains(err.Error(), "is not UTF-8") {
			t.Errorf("CheckUpdate(%+v) = %v, want it refused", u, err)
		}
	}
}
