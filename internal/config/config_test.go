package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"otm/pipeline"
)

// env is an environment.
func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(key string) string { return m[key] }
}

// load reads text as the otm.toml of a directory of its own.
func load(t *testing.T, text string, getenv func(string) string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(dir, getenv)
}

// problems returns what is wrong with text, which must be something.
func problems(t *testing.T, text string, getenv func(string) string) []string {
	t.Helper()
	c, err := load(t, text, getenv)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("Load of\n%s\n= %+v, %v; want an *Error", text, c, err)
	}
	if filepath.Base(e.Path) != FileName || len(e.Problems) == 0 {
		t.Errorf("the error is %+v", e)
	}
	for _, p := range e.Problems {
		if !strings.Contains(e.Error(), p) {
			t.Errorf("the error's text %q lacks %q", e.Error(), p)
		}
	}
	return e.Problems
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := &Config{
		Dir:     dir,
		Slack:   Slack{URL: "https://slack.com/api/", Token: Token{TokenEnv: "SLACK_BOT_TOKEN"}, Budget: 1, Columns: map[pipeline.Field]string{}},
		Board:   Board{Listen: "127.0.0.1:18780"},
		Gateway: Gateway{URL: "ws://127.0.0.1:18789", Token: Token{TokenEnv: "OPENCLAW_GATEWAY_TOKEN"}},
		Times:   pipeline.DefaultTimes,
	}
	want.Notify.Telegram.URL, want.Notify.Telegram.TokenEnv = "https://api.telegram.org", "TELEGRAM_BOT_TOKEN"
	want.Notify.Webhook.SecretEnv = "OTM_WEBHOOK_SECRET"
	if got, err := Load(dir, env()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Load without a file\n got %+v, %v\nwant %+v", got, err, want)
	}
	for name, text := range map[string]string{"empty": "", "comments": "# nothing\n\n", "mark": "\xef\xbb\xbf# nothing\r\n", "empty tables": "[slack]\n[slack.columns]\n[board]\n[gateway]\n[agents]\n[times]\n"} {
		got, err := load(t, text, env())
		if err == nil {
			got.Dir = dir
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// TestEveryKey sets all that the contract, section 6, lists.
func TestEveryKey(t *testing.T) {
	t.Parallel()
	c, err := load(t, "\xef\xbb\xbf"+`
[slack]
list_id    = "F0ALE8DCW1F"
api_url    = "https://slack.example/api/"
token_file = "secrets/slack"
token_env  = "MY_TOKEN"
budget     = 0.5
audit_channel = "C0123"

[slack.columns]
title = "c1"
task_id = "c2"
type = "c3"
assignee = "c4"
project = "c5"
priority = "c6"
status = "c7"
subtasks_remaining = "c8"
completion = "c9"
assigned_at = "c10"
completed_at = "c11"
reason = "c12"
result = "c13"
validated_at = "an extra validated_at"
cancelled_at = "an extra cancelled_at"
previous_status = "an extra previous_status"
context = "an extra context"
input_files = "an extra input_files"
thread = "an extra thread"

[board]
listen = "[::1]:0"

[gateway]
url = "wss://gateway.example/rpc"
token_file = "/etc/otm/gateway token"
token_env = "MY_GATEWAY"
config = "~/.openclaw/openclaw.json"
rewake_max = 0

[agents.devdas]
kind = "ai"
workspace = "/Volumes/OPENCLAW/workspaces/devdas workspace"
trigger = "gateway"
command = ["claude", "-p", "{message}"]
label = "Devdas the First"
gateway_agent = "dev"
slack_user = "U0DEV"

[agents.robin]
kind = "human"
workspace = "not looked at"
trigger = "gateway"

[agents."Jose`+"\u0301"+` 2"]
workspace = "~/ws"
command = ["run"]

[agents.quiet]
workspace = "/w"

[types."Bug fix"]
review = false
max_retries = 0
max_runtime = "2h"
reclaim_after = "30m"
silence = ["1m", "5m"]

[types.review]
max_retries = 5

[review]
agents = ["Quiet"]

[retry]
advise = ["~/bin/advise", "--now"]

[notify]
command = ["~/bin/tell", "x"]
what = ["done"]
quiet = "22:00-07:30"

[notify.telegram]
chat = "-100"
api_url = "https://telegram.example"
token_file = "secrets/telegram"
token_env = "MY_BOT"

[notify.slack]
channel = "C0456"

[notify.webhook]
url = "https://hook.example/?a=b"
secret_file = "secrets/webhook"
secret_env = "MY_SECRET"

[times]
settle_after = "1s"
adopt_after = "2s"
redeliver_after = "3s"
rewake_after = "4s"
update_wait = "5s"
silent_after = "6s"
dedup_give_up = "7s"
keep_processed = "0s"
archive_after = "8s"
keep_events = "169h"
`, env("HOME", "/home/me"))
	if err != nil {
		t.Fatal(err)
	}
	columns := map[pipeline.Field]string{}
	for i, f := range []pipeline.Field{pipeline.FieldTitle, pipeline.FieldTaskID, pipeline.FieldType, pipeline.FieldAssignee, pipeline.FieldProject,
		pipeline.FieldPriority, pipeline.FieldStatus, pipeline.FieldRemaining, pipeline.FieldCompletion, pipeline.FieldAssignedAt,
		pipeline.FieldCompletedAt, pipeline.FieldReason, pipeline.FieldResult} {
		columns[f] = "c" + string(rune('1'+i))
		if i >= 9 {
			columns[f] = "c1" + string(rune('0'+i-9))
		}
	}
	for _, f := range pipeline.DerivedFields {
		if f.Extra {
			columns[f.Field] = "an extra " + string(f.Field)
		}
	}
	want := &Config{
		Dir: c.Dir, home: "/home/me",
		Slack: Slack{ListID: "F0ALE8DCW1F", URL: "https://slack.example/api/", Token: Token{filepath.Join(c.Dir, "secrets/slack"), "MY_TOKEN"},
			AuditChannel: "C0123", Budget: 0.5, BudgetSet: true, Columns: columns},
		Board:   Board{Listen: "[::1]:0"},
		Gateway: Gateway{URL: "wss://gateway.example/rpc", Token: Token{"/etc/otm/gateway token", "MY_GATEWAY"}, Config: "/home/me/.openclaw/openclaw.json"},
		Agents: pipeline.Agents{
			{Name: "Jos\u00e9 2", Label: "Jose\u0301 2", Workspace: "/home/me/ws", Trigger: pipeline.TriggerExec, Command: []string{"run"}, GatewayAgent: "Jose\u0301 2", Source: pipeline.SourceOTM},
			{Name: "devdas", Label: "Devdas the First", User: "U0DEV", Workspace: "/Volumes/OPENCLAW/workspaces/devdas workspace", Trigger: pipeline.TriggerGateway,
				Command: []string{"claude", "-p", "{message}"}, GatewayAgent: "dev", Source: pipeline.SourceOTM},
			{Name: "quiet", Label: "quiet", Workspace: "/w", Trigger: pipeline.TriggerNone, GatewayAgent: "quiet", Source: pipeline.SourceOTM},
			{Name: "robin", Label: "robin", Person: true, Trigger: pipeline.TriggerNone, GatewayAgent: "robin", Source: pipeline.SourceOTM},
		},
		Reviewers: []string{"quiet"},
		Advise:    []string{"/home/me/bin/advise", "--now"},
		Types: pipeline.Types{
			"bug_fix": {MaxRuntime: new(2 * time.Hour), ReclaimAfter: 30 * time.Minute, Silence: []time.Duration{time.Minute, 5 * time.Minute}},
			"review":  {Review: true, MaxRetries: 5, Silence: pipeline.DefaultTypeRules.Silence},
		},
		Times: pipeline.Times{RewakeMax: 0, ParseableAge: 2 * time.Second, SettleAfter: time.Second, AdoptAfter: 2 * time.Second, RedeliverAfter: 3 * time.Second, RewakeAfter: 4 * time.Second,
			UpdateWait: 5 * time.Second, SilentAfter: 6 * time.Second, DedupGiveUp: 7 * time.Second, ArchiveAfter: 8 * time.Second, KeepEvents: 169 * time.Hour},
	}
	n := &want.Notify
	n.Command, n.What, n.Quiet, n.from, n.to = []string{"/home/me/bin/tell", "x"}, []string{"done"}, "22:00-07:30", 22*time.Hour, 7*time.Hour+30*time.Minute
	n.Telegram.Chat, n.Telegram.URL, n.Telegram.TokenFile, n.Telegram.TokenEnv = "-100", "https://telegram.example", filepath.Join(c.Dir, "secrets/telegram"), "MY_BOT"
	n.Slack.Channel = "C0456"
	n.Webhook.URL, n.Webhook.SecretFile, n.Webhook.SecretEnv = "https://hook.example/?a=b", filepath.Join(c.Dir, "secrets/webhook"), "MY_SECRET"
	if !reflect.DeepEqual(c, want) {
		t.Errorf("Load\n got %+v\nwant %+v", c, want)
	}
}

// Quiet hours follow the clock of this machine, also over midnight.
func TestQuietHours(t *testing.T) {
	t.Parallel()
	for quiet, want := range map[string]map[string]bool{
		"22:00-07:30": {"21:59": false, "22:00": true, "00:00": true, "07:29": true, "07:30": false, "12:00": false},
		"12:00-13:00": {"11:59": false, "12:00": true, "12:59": true, "13:00": false},
		"":            {"00:00": false, "12:00": false},
	} {
		c, err := load(t, fmt.Sprintf("[notify]\nquiet = %q\n", quiet), env())
		if err != nil {
			t.Fatal(err)
		}
		for clock, silent := range want {
			at, err := time.ParseInLocation("15:04", clock, time.Local)
			if err != nil {
				t.Fatal(err)
			}
			at = at.AddDate(2026, 5, 0)
			if got := c.Notify.Silent(at.UTC()); got != silent {
				t.Errorf("%s at %s: %v", quiet, clock, got)
			}
		}
	}
}

func TestEnvironmentOverrides(t *testing.T) {
	t.Parallel()
	c, err := load(t, "[slack]\napi_url = \"https://a/\"\n[gateway]\nurl = \"wss://a\"\n",
		env("SLACK_API_URL", "http://127.0.0.1:1/api/", "OPENCLAW_GATEWAY_URL", "ws://localhost:2"))
	if err != nil || c.Slack.URL != "http://127.0.0.1:1/api/" || c.Gateway.URL != "ws://localhost:2" {
		t.Errorf("Load = %+v, %v", c, err)
	}
	got := problems(t, "", env("SLACK_API_URL", "http://slack.com/", "OPENCLAW_GATEWAY_URL", "ws://10.0.0.1"))
	if len(got) != 2 || !strings.Contains(got[0], "SLACK_API_URL: ") || !strings.Contains(got[1], "OPENCLAW_GATEWAY_URL: ") {
		t.Errorf("problems %q, want them to name the variables", got)
	}
}

// TestProblems lists what is wrong in one way each.
func TestProblems(t *testing.T) {
	t.Parallel()
	agent := func(more string) string { return "[agents.devdas]\nworkspace = \"/w\"\n" + more }
	tests := []struct{ name, text, want string }{
		{"unknown table", "[slak]\nx = 1\n", "line 1: unknown key slak"},
		{"unknown key at the top", "list_id = \"x\"\n", "line 1: unknown key list_id"},
		{"unknown key", "[slack]\n\n# id\nlistid = \"x\"\n", "line 4: unknown key slack.listid"},
		{"a secret in the file", "[slack]\ntoken = \"xoxb-1\"\n", "line 2: unknown key slack.token"},
		{"unknown column", "[slack.columns]\ntitle = \"T\"\nowner = \"O\"\n", "line 3: unknown key slack.columns.owner"},
		{"the checkbox has no key", "[slack.columns]\ntodo_completed = \"x\"\n", "line 2: unknown key slack.columns.todo_completed"},
		{"unknown key of an agent", agent("workspce = \"/w\"\n"), "line 3: unknown key agents.devdas.workspce"},
		{"table in an agent", agent("[agents.devdas.env]\nA = \"1\"\n"), "line 3: unknown key agents.devdas.env"},
		{"unknown time", "[times]\nsettle = \"1s\"\n", "line 2: unknown key times.settle"},
		{"no TOML", "slack:\n  list_id: x\n", "line 1, column 6"},
		{"JSON", "{\"slack\":{}}", "line 1, column 1"},
		{"cut", "[slack\n", "line 1"},
		{"key twice", "[slack]\nlist_id = \"a\"\nlist_id = \"b\"\n", "line 3, column 1: key list_id is already defined"},
		{"table twice", "[slack]\n[board]\n[slack]\n", "line 3"},
		{"UTF-16", "\xff\xfe[\x00s\x00", "the file is UTF-16"},
		{"NUL bytes", strings.Repeat("\x00", 20), "the file is UTF-16 or holds NUL bytes"},
		{"invalid UTF-8", "[slack]\nlist_id = \"\xff\"\n", "line 2, column 12: invalid UTF-8"},
		{"number for text", "[slack]\nlist_id = 5\n", "line 2, column 11: slack.list_id cannot be of the type integer"},
		{"array for text", "[slack]\nlist_id = [\"x\"]\n", "slack.list_id cannot be of the type array"},
		{"text for a number", "[slack]\nbudget = \"1\"\n", "line 2, column 10: slack.budget cannot be of the type string"},
		{"fraction for a count", "[gateway]\nrewake_max = 1.5\n", "gateway.rewake_max cannot be of the type float"},
		{"text for a command", agent("command = \"claude -p\"\n"), "agents.devdas.command cannot be of the type string"},
		{"number in a command", agent("command = [\"x\", 1]\n"), "agents.devdas.command cannot be of the type integer"},
		{"value for a table", "agents = 5\n", "agents cannot be of the type integer"},
		{"value for an agent", "[agents]\ndevdas = \"/w\"\n", "agents.devdas cannot be of the type string"},
		{"array of agents", "[[agents]]\nname = \"devdas\"\n", "line 1"},
		{"seconds without a unit", "[times]\nsettle_after = 15\n", "line 2, column 16: times.settle_after cannot be of the type integer"},
		{"no duration", "[times]\nsettle_after = \"15\"\n", `times.settle_after: "15" is not a duration such as 15s or 10m`},
		{"days", "[times]\nkeep_processed = \"7d\"\n", `times.keep_processed: "7d" is not a duration`},
		{"events kept too short", "[times]\nkeep_events = \"167h59m\"\n", "times.keep_events: 167h59m0s is too short: want 168h or more, or 0 for ever"},
		{"events hardly kept", "[times]\nkeep_events = \"1ns\"\n", "times.keep_events: 1ns is too short"},
		{"negative duration", "[times]\nrewake_after = \"-1s\"\n", `times.rewake_after: "-1s" is negative`},
		{"negative budget", "[slack]\nbudget = -0.1\n", "slack.budget: -0.1 is out of range"},
		{"large budget", "[slack]\nbudget = 1001\n", "slack.budget: 1001 is out of range"},
		{"no number at all", "[slack]\nbudget = nan\n", "slack.budget: NaN is out of range"},
		{"infinite budget", "[slack]\nbudget = inf\n", "slack.budget: +Inf is out of range"},
		{"negative limit", "[limits]\nmax_running = -1\n", "limits.max_running: -1 is negative"},
		{"negative count", "[gateway]\nrewake_max = -1\n", "gateway.rewake_max: -1 is negative"},
		{"empty column", "[slack.columns]\nreason = \"\"\n", "slack.columns.reason: is empty"},
		{"plain http", "[slack]\napi_url = \"http://slack.com/api/\"\n", `slack.api_url or SLACK_API_URL: "http://slack.com/api/" is not encrypted`},
		{"plain ws", "[gateway]\nurl = \"ws://192.168.1.5:18789\"\n", `gateway.url or OPENCLAW_GATEWAY_URL: "ws://192.168.1.5:18789" is not encrypted`},
		{"board for all", "[board]\nlisten = \"0.0.0.0:18780\"\n", "is reachable from other machines"},
		{"board on every address", "[board]\nlisten = \":18780\"\n", "is reachable from other machines"},
		{"board by name", "[board]\nlisten = \"example.com:80\"\n", "is reachable from other machines"},
		{"board without a port", "[board]\nlisten = \"127.0.0.1\"\n", "missing port"},
		{"board with a bad port", "[board]\nlisten = \"127.0.0.1:http\"\n", "has no port such as 18780"},
		{"board with an empty port", "[board]\nlisten = \"127.0.0.1:\"\n", "has no port such as 18780"},
		{"board with a large port", "[board]\nlisten = \"127.0.0.1:65536\"\n", "has no port such as 18780"},
		{"kind", agent("kind = \"robot\"\n"), `agents.devdas.kind: "robot": want ai or human`},
		{"trigger", agent("trigger = \"cron\"\n"), `agents.devdas.trigger: "cron": want gateway, exec or none`},
		{"exec without a command", agent("trigger = \"exec\"\n"), "agents.devdas.command: is missing: the trigger exec starts it"},
		{"unknown placeholder alone", agent("command = [\"x\", \"{note}\"]\n"), "agents.devdas.command: {note} is not known: use {message}, {agent}, {task}, {file}, {dir}"},
		{"command of a person", "[agents.robin]\nkind = \"human\"\ncommand = [\"x\"]\n", `agents.robin.command: a person is not started: leave it out, or write kind = "ai"`},
		{"empty program", agent("command = [\"\", \"x\"]\n"), "agents.devdas.command: the first element, the program to start, is empty"},
		{"no workspace", "[agents.devdas]\n", "agents.devdas.workspace: is missing"},
		{"relative workspace", "[agents.devdas]\nworkspace = \"ws\"\n", `agents.devdas.workspace: "ws" is not absolute`},
		{"dotted workspace", "[agents.devdas]\nworkspace = \"./ws\"\n", `"./ws" is not absolute`},
		{"home of another", "[agents.devdas]\nworkspace = \"~other/ws\"\n", `"~other/ws" is not absolute`},
		{"home without HOME", "[agents.devdas]\nworkspace = \"~/ws\"\n", `"~/ws" is not absolute`},
		{"name is a path", "[agents.\"../x\"]\nworkspace = \"/w\"\n", `"../x" is not a name for an agent`},
		{"empty name", "[agents.\"\"]\nworkspace = \"/w\"\n", `"" is not a name for an agent`},
		{"names that fold to one", agent("[agents.DevDas]\nworkspace = \"/w\"\n"), "agents.devdas: is the same as agents.DevDas"},
		{"names that compose to one", "[agents.\"Jos\u00e9\"]\nworkspace = \"/w\"\n[agents.\"Jose\u0301\"]\nworkspace = \"/w\"\n", "is the same as"},
		{"labels that fold to one", agent("label = \"One\"\n[agents.other]\nworkspace = \"/w\"\nlabel = \"one\"\n"), "agents.other: is the same as agents.devdas"},
		{"label that is another's name", agent("label = \"Other\"\n[agents.other]\nworkspace = \"/w\"\n"), "agents.other: is the same as agents.devdas"},
		{"no quiet hours", "[notify]\nquiet = \"22-7\"\n", `notify.quiet: "22-7" is not a span such as 22:00-07:00`},
		{"quiet for no time", "[notify]\nquiet = \"22:00-22:00\"\n", "notify.quiet: "},
		{"unknown news", "[notify]\nwhat = [\"all\"]\n", `notify.what: "all": there is blocked, review,`},
		{"a token in the file", "[notify.telegram]\ntoken = \"123:x\"\n", "line 2: unknown key notify.telegram.token"},
		{"plain webhook", "[notify.webhook]\nurl = \"http://hook.example/\"\n", "notify.webhook.url: \"http://hook.example/\" is not encrypted"},
		{"type is no name", "[types.\"a/b\"]\n", `types.a/b: "a/b" is not a name for a type`},
		{"types that fold to one", "[types.bug_fix]\n[types.\"Bug Fix\"]\n", "types.bug_fix: is the same as types.Bug Fix"},
		{"unknown key of a type", "[types.bug]\nmax_retrys = 1\n", "line 2: unknown key types.bug.max_retrys"},
		{"negative retries", "[types.bug]\nmax_retries = -1\n", "types.bug.max_retries: -1 is negative"},
		{"a rung that is none", "[types.bug]\nsilence = [\"soon\"]\n", `types.bug.silence: "soon" is not a duration`},
		{"rungs out of order", "[types.bug]\nsilence = [\"1h\", \"10m\"]\n", "types.bug.silence: each rung must be longer than the one before"},
		{"too many rungs", "[types.bug]\nsilence = [\"1m\", \"2m\", \"3m\", \"4m\", \"5m\", \"6m\"]\n", "types.bug.silence: has 6 rungs, there are at most 5"},
		{"no duration of a type", "[types.bug]\nmax_runtime = \"2\"\n", `types.bug.max_runtime: "2" is not a duration`},
		{"negative duration of a type", "[types.bug]\nreclaim_after = \"-2s\"\n", `types.bug.reclaim_after: "-2s" is negative`},
		{"reviewer is nobody", "[review]\nagents = [\"x\"]\n", "review.agents: there is no table agents.x"},
		{"reviewer is a person", "[agents.robin]\nkind = \"human\"\n[review]\nagents = [\"robin\"]\n", "review.agents: robin is a person"},
		{"one user twice", agent("slack_user = \"U1\"\n[agents.other]\nworkspace = \"/w\"\nslack_user = \"U1\"\n"), "agents.other.slack_user: is that of agents.devdas"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := problems(t, tt.text, env())
			if len(got) != 1 || !strings.Contains(got[0], tt.want) {
				t.Errorf("Load of\n%s\nsays %q, want it to say %q", tt.text, got, tt.want)
			}
			if strings.Contains(got[0], "config.") || strings.Contains(got[0], "xoxb") {
				t.Errorf("%q tells too much", got[0])
			}
		})
	}
}

// TestAllProblemsAtOnce has several mistakes in one file.
func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	got := problems(t, `
[slack]
listid = "x"
budget = -1
api_url = "http://slack.com"
[slack.columns]
titel = "T"
result = ""
[gateway]
rewake_max = -1
[board]
listen = "0.0.0.0:1"
[store]
url = "mysql://otm:secret@db"
[agents.devdas]
kind = "robot"
trigger = "cron"
workspace = "ws"
[agents.archibald]
[times]
settle_after = "soon"
silent_after = "-1s"
`, env())
	want := []string{
		"line 3: unknown key slack.listid", "line 7: unknown key slack.columns.titel", "slack.budget", "slack.columns.result", "slack.api_url", "gateway.rewake_max",
		"agents.archibald.workspace", "agents.devdas.kind", "agents.devdas.trigger", "agents.devdas.workspace", "board.listen", "store.url", "times.settle_after", "times.silent_after",
	}
	for _, w := range want {
		n := 0
		for _, p := range got {
			if strings.HasPrefix(p, w) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%q is said %d times", w, n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d problems, want %d: %q", len(got), len(want), got)
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"https://slack.com/api/", "https://10.0.0.1:8443", "http://127.0.0.1:18780/api/", "http://localhost", "http://[::1]:1/", "http://127.9.9.9/",
	} {
		if err := CheckURL(raw, "http", "https"); err != nil {
			t.Errorf("CheckURL(%q): %v", raw, err)
		}
	}
	for _, tt := range []struct{ raw, want string }{
		{"", "the scheme must be https"},
		{"slack.com", "the scheme must be https"},
		{"ftp://127.0.0.1/", "the scheme must be https"},
		{"wss://slack.com", "the scheme must be https"},
		{"https://", "has no host"},
		{"https:///api", "has no host"},
		{"http://slack.com/?token=s3cret", "is not encrypted"},
		{"http://127.0.0.1.example.com/", "is not encrypted"},
		{"http://localhost.example.com/", "is not encrypted"},
		{"http://0.0.0.0/", "is not encrypted"},
		{"https://me:s3cret@slack.com/", "holds credentials"},
		{"http://s3cret@127.0.0.1/", "holds credentials"},
		{"https://me:s3cret@", "holds credentials"},
		{"https://me:s3cret@host:port/", "is not an address"},
		{"https://s3cret\x7f/", "is not an address"},
		{"http://[::1", "is not an address"},
	} {
		err := CheckURL(tt.raw, "http", "https")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("CheckURL(%q) = %v, want it to say %q", tt.raw, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("CheckURL(%q) tells the secret: %v", tt.raw, err)
		}
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	getenv := env("SLACK_BOT_TOKEN", " from-env\n", "OTHER", "other", "OPENCLAW_GATEWAY_TOKEN", "gateway", "HOME", "/nowhere")
	c, err := load(t, "", getenv)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Slack.ReadToken(getenv); got != "from-env" || err != nil {
		t.Errorf("SlackToken from the environment = %q, %v", got, err)
	}
	if got, err := c.Gateway.ReadToken(getenv); got != "gateway" || err != nil {
		t.Errorf("GatewayToken from the environment = %q, %v", got, err)
	}
	if got, err := c.Slack.ReadToken(env()); got != "" || err != nil {
		t.Errorf("SlackToken where none is set = %q, %v; want none", got, err)
	}
	c, err = load(t, "[slack]\ntoken_env = \"OTHER\"\n[gateway]\ntoken_file = \"secrets/gateway\"\n", getenv)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Slack.ReadToken(getenv); got != "other" || err != nil {
		t.Errorf("SlackToken from another variable = %q, %v", got, err)
	}
	if got, err := c.Gateway.ReadToken(getenv); got != "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("GatewayToken from a missing file = %q, %v; want an error: the file wins", got, err)
	}
	if err := os.Mkdir(filepath.Join(c.Dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, "secrets", "gateway"), []byte("from-file\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Gateway.ReadToken(getenv); got != "from-file" || err != nil {
		t.Errorf("GatewayToken from a file = %q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, "secrets", "gateway"), make([]byte, 9), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Gateway.ReadToken(getenv); got != "" || err == nil || !strings.Contains(err.Error(), "NUL") {
		t.Errorf("GatewayToken from a file of NUL bytes = %q, %v", got, err)
	}
	if got, want := c.SecretEnv(), []string{"SLACK_BOT_TOKEN", "OPENCLAW_GATEWAY_TOKEN", "TELEGRAM_BOT_TOKEN", "OTM_WEBHOOK_SECRET", "OTM_TOKEN_FILE", "OTHER", "OPENCLAW_GATEWAY_TOKEN", "TELEGRAM_BOT_TOKEN", "OTM_WEBHOOK_SECRET"}; !reflect.DeepEqual(got, want) {
		t.Errorf("SecretEnv = %q, want %q", got, want)
	}
	c, err = load(t, "[slack]\ntoken_file = \"~/slack\"\n", env("HOME", "/home/me"))
	if err != nil || c.Slack.TokenFile != "/home/me/slack" {
		t.Errorf("a token file below the home is %q, %v", c.Slack.TokenFile, err)
	}
}

func TestLoadWithoutAccess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, FileName), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, env()); err == nil {
		t.Error("Load of a directory gave no error")
	}
}

func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"[slack]\nlist_id = \"F0\"\nbudget = 0.5\n[slack.columns]\ntitle = \"T\"\n", "[agents.devdas]\nworkspace = \"/w\"\ncommand = [\"x\"]\n",
		"[times]\nsettle_after = \"15s\"\n", "[gateway]\nurl = \"ws://127.0.0.1:1\"\nrewake_max = 3\n", "[board]\nlisten = \"127.0.0.1:0\"\n",
		"[slack]\nbudget = nan\n", "[times]\nsettle_after = 15\n", "[agents.\"Jose\u0301\"]\n[agents.\"Jos\u00e9\"]\n", "\xef\xbb\xbf", "\xff\xfe[\x00", "[[agents]]\n", "agents.a.b.c = 1\n",
		"[slack]\napi_url = \"https://u:s3cret@h:x\"\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, wrong := parse(data)
		if parsed == nil && len(wrong) == 0 {
			t.Fatalf("%q gives neither a configuration nor a problem", data)
		}
		if parsed == nil {
			return
		}
		c, err := Parse("/data", data, env())
		if err != nil {
			return
		}
		// What is accepted keeps what others rely on.
		if CheckURL(c.Slack.URL, "http", "https") != nil || CheckURL(c.Gateway.URL, "ws", "wss") != nil {
			t.Errorf("%q: accepted addresses %q and %q", data, c.Slack.URL, c.Gateway.URL)
		}
		if !(c.Slack.Budget >= 0) || c.Times.RewakeMax < 0 || c.Times.SettleAfter < 0 {
			t.Errorf("%q: accepted %+v", data, c)
		}
		for i, a := range c.Agents {
			if !pipeline.ValidAgentName(a.Name) || !a.Person && !filepath.IsAbs(a.Workspace) || a.Trigger == pipeline.TriggerExec && len(a.Command) == 0 {
				t.Errorf("%q: accepted the agent %+v", data, a)
			}
			if c.Agents.Named(a.Name) != &c.Agents[i] || c.Agents.Assigned(a.Label) != &c.Agents[i] {
				t.Errorf("%q: the agent %+v is not found by its name and label", data, a)
			}
		}
	})
}
