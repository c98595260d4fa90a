package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/heartbeat"
	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/crash/crashtest"
	"otm/internal/explain"
	"otm/internal/install"
	"otm/internal/safe"
	"otm/internal/tokens"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// patient is a directory on a list that stands in for Slack's, in which all is
// well.
type patient struct {
	*testing.T
	h *Home
	b *boardtest.Board
}

// poorToken may read and write the list, and not its files.
const poorToken = "xoxb-poor"

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{T: t}
	p.b = boardtest.Start(t, func(o *boardtest.Options) {
		o.RowLimit = 10
		o.Identities = append(o.Identities, board.Identity{Token: poorToken, UserID: "U0POOR"})
		o.Scopes = map[string][]string{poorToken: {"lists:read", "lists:write"}}
	})
	dir, ws := filepath.Join(t.TempDir(), "data"), t.TempDir()
	if _, err := Init(dir); err != nil {
		t.Fatal(err)
	}
	if err := p.b.Server.AddOption("", p.b.ListID, p.b.Column(t, "Assignee", "select"), "devdas", "devdas"); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "secrets", "slack"), p.b.Token)
	if _, err := tokens.Open(dir).EnsureOwner(t.Context(), "ada", time.Now()); err != nil {
		t.Fatal(err)
	}
	p.h = reopenHome(t, dir, fmt.Sprintf("[slack]\nlist_id = %q\napi_url = %q\ntoken_file = \"secrets/slack\"\n[agents.devdas]\nworkspace = %q\ntrigger = \"none\"\n", p.b.ListID, p.b.URL, ws))
	p.beat(time.Now(), heartbeat.Components...)
	return p
}

func (p *patient) beat(at time.Time, ids ...string) {
	p.Helper()
	for _, id := range ids {
		w := heartbeat.NewWriter(p.h.Dir, id, "test", func() time.Time { return at })
		if err := w.Beat(heartbeat.Success, "fine"); err != nil {
			p.Fatal(err)
		}
	}
}

// says has a component have said something in its last run.
func (p *patient) says(id string, result heartbeat.Result, details string) {
	p.Helper()
	if err := heartbeat.NewWriter(p.h.Dir, id, "test", time.Now).Beat(result, details); err != nil {
		p.Fatal(err)
	}
}

// oldConfig has the detector have said that it works by an older otm.toml.
func (p *patient) oldConfig() {
	p.Helper()
	f := explain.New(explain.ConfigChanged)
	if err := heartbeat.NewWriter(p.h.Dir, heartbeat.Detector, "test", time.Now).Beat(heartbeat.Partial, f.Text(time.Now()), f); err != nil {
		p.Fatal(err)
	}
}

func (p *patient) workspace(path string) { p.h.Config.Agents[0].Workspace = path }

// runs has the agent be started by a command.
func (p *patient) runs(command string) {
	a := &p.h.Config.Agents[0]
	a.Trigger, a.Command = pipeline.TriggerExec, []string{command}
}

// withPerson adds a person who takes tasks on the board.
func (p *patient) withPerson() {
	p.Helper()
	if err := p.b.Server.AddOption("", p.b.ListID, p.b.Column(p, "Assignee", "select"), "robin", "robin"); err != nil {
		p.Fatal(err)
	}
	p.h = reopenHome(p.T, p.h.Dir, content(p.T, filepath.Join(p.h.Dir, "otm.toml"))+"[agents.robin]\nkind = \"human\"\n")
}

// refuseStep has the disk refuse a step below a directory.
func refuseStep(t testing.TB, dir, step string, err error) {
	crashtest.Below(t, dir, func(s, _ string) error {
		if s != step {
			return nil
		}
		return err
	})
}

func (p *patient) chmod(mode os.FileMode, name string) {
	p.Helper()
	if err := os.Chmod(filepath.Join(p.h.Dir, name), mode); err != nil {
		p.Fatal(err)
	}
}

func (p *patient) findings() []finding {
	d := &doctor{home: p.h}
	d.examine(p.Context())
	return d.findings
}

// Each thing that is wrong is told, by the check that looks for it and with what
// to do; where all is well, each check says so.
func TestDoctor(t *testing.T) {
	t.Parallel()
	well := newPatient(t)
	well.withPerson()
	ws := well.h.Config.Agents[0].Workspace
	for _, folder := range []string{"new-tasks", "processed", "logs"} { // which are made by whoever needs them
		if err := os.Remove(filepath.Join(well.h.Dir, folder)); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range well.findings() {
		if f.Level != explain.OK {
			t.Errorf("all is well, and it says %+v", f)
		}
	}
	if left, err := os.ReadDir(ws); err != nil || len(left) > 0 {
		t.Errorf("it left %v in the workspace, %v", left, err)
	}
	tests := []struct {
		name              string
		spoil             func(*patient)
		check, text, hint string
	}{
		{"directory that has gone", func(p *patient) {
			if err := os.Rename(p.h.Dir, p.h.Dir+" gone"); err != nil {
				p.Fatal(err)
			}
		}, "directory", "no such file", ""},
		{"open directory", func(p *patient) { p.chmod(0o755, "") }, "directory", "has mode 0755", "chmod 700"},
		{"open inbox", func(p *patient) { p.chmod(0o777, "new-tasks") }, "directory", "new-tasks has mode 0777", "chmod 700"},
		{"folder without rights", func(p *patient) { p.chmod(0o500, "keys") }, "directory", "keys has mode 0500, not 0700: its owner cannot work in it", "chmod 700"},
		{"open token", func(p *patient) { p.chmod(0o644, "secrets/slack") }, "secrets", "others can read", "chmod 600"},
		{"no token", func(p *patient) { os.Remove(filepath.Join(p.h.Dir, "secrets", "slack")) }, "board", "token of the board", "otm init --slack --token-stdin"},
		{"list that cannot be read", func(p *patient) { p.b.Faults.Next("files.info", boardtest.ErrorCode("file_not_found")) }, "board", "file_not_found", "check the list's id"},
		{"wrong token", func(p *patient) { put(p, filepath.Join(p.h.Dir, "secrets", "slack"), "xoxb-wrong") }, "board", "refuses the token", "otm init --slack --token-stdin"},
		{"token without scopes", func(p *patient) { put(p, filepath.Join(p.h.Dir, "secrets", "slack"), poorToken) }, "board", "lacks the scopes files:read", "add them to the Slack app"},
		{"board that does not answer", func(p *patient) { p.h.Config.Slack.URL = "http://127.0.0.1:1/" }, "board", "does not answer", "curl"},
		{"no such list", func(p *patient) { p.h.Config.Slack.ListID = "F0NOTHING0" }, "board", "file_not_found", "check the list's id"},
		{"option of a status", func(p *patient) {
			if err := p.b.Server.RemoveOption("", p.b.ListID, p.b.Column(p, "Status", "select"), "blocked"); err != nil {
				p.Fatal(err)
			}
		}, "list", `option "blocked" of column "Status"`, "add the option blocked"},
		{"option of an agent", func(p *patient) {
			if err := p.b.Server.RemoveOption("", p.b.ListID, p.b.Column(p, "Assignee", "select"), "devdas"); err != nil {
				p.Fatal(err)
			}
		}, "list", `option "devdas" of column "Assignee"`, "add the option devdas"},
		{"column", func(p *patient) {
			if err := p.b.Server.RemoveColumn("", p.b.ListID, p.b.Column(p, "Status", "select")); err != nil {
				p.Fatal(err)
			}
		}, "list", `column "Status" is missing`, "of the type select"},
		{"column that is of use", func(p *patient) {
			if err := p.b.Server.RemoveColumn("", p.b.ListID, p.b.Column(p, "Result", "text")); err != nil {
				p.Fatal(err)
			}
		}, "list", `column "Result" is missing`, "of the type text"},
		{"list that is full", func(p *patient) {
			for range 10 {
				p.b.Create(p, "", boardtest.TextCell(p.b.Column(p, "Title", "text"), "x"))
			}
			if code, out := p.main("otm", "status", "--fresh"); code != cli.OK {
				p.Errorf("exit %d: %s", code, out)
			}
		}, "state", "10 of 10 rows", "otm archive"},
		// C22: reads work, and Slack knows no such list when something is written.
		{"list that is shared for reading only (C22)", func(p *patient) {
			p.b.Faults.Always("slackLists.items.create", boardtest.ErrorCode("list_not_found"))
			put(p, filepath.Join(p.h.Box.Dir(inbox.NewTasks), "x.json"), `{"id":"d1","taskId":"T-00001","title":"One","agent":"devdas"}`)
			if code, out := p.main("otm-injector", "--once"); code != cli.BadConfig || !strings.Contains(out, "the app may read the list, and not change it") {
				p.Errorf("exit %d: %s", code, out)
			}
		}, "state", "the app may read the list, and not change it", "for editing"},
		{"no workspace", func(p *patient) { os.Remove(p.h.Config.Agents[0].Workspace) }, "state", "the workspace of devdas is missing", "mkdir -p"},
		{"workspace below a file", func(p *patient) { p.workspace(filepath.Join(p.h.Dir, "format", "ws")) }, "state", "not a directory", "ls -ld "},
		{"workspace that is a file", func(p *patient) { p.workspace(filepath.Join(p.h.Dir, "format")) }, "state", "the workspace of devdas is not a directory: ", "set agents.devdas.workspace"},
		{"workspace that cannot be written to", func(p *patient) {
			refuseStep(p, p.h.Config.Agents[0].Workspace, "create", syscall.EACCES)
		}, "agents", "the workspace of devdas cannot be written to: create ", "chmod u+w "},
		{"command that is not in the workspace", func(p *patient) { p.runs("bin/agent") }, "agents", "the command of devdas cannot be started", "agents.devdas.command"},
		{"command that is nowhere", func(p *patient) { p.runs("no-such-program") }, "agents", "the command of devdas cannot be started", "agents.devdas.command"},
		{"agent that is left alone (C1, C3)", func(p *patient) {
			at := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
			do(p, p.h, core.Command{At: at, By: core.Component("otm"), Agent: "devdas", Do: core.ImportAgent{State: core.AgentState{
				Agent: "devdas", Failures: 3, Fruitless: 3, LeftAlone: at, LastStart: &core.EndedStart{Key: "k", StartResult: core.StartResult{Ended: at, Exit: "exit status 1", Log: "/x/run.log"}},
			}}})
		}, "state", "devdas is left alone: 3 starts in a row ended without progress", "otm resume devdas"},
		{"component that never ran", func(p *patient) { os.Remove(heartbeat.Path(p.h.Dir, heartbeat.Injector)) }, "state", "otm-injector has never run", "otm up"},
		{"component that stopped", func(p *patient) { p.beat(time.Now().Add(-time.Hour), heartbeat.Detector) }, "state", "otm-completion-detector has not run for", "otm up"},
		{"component with an older otm.toml", func(p *patient) { p.oldConfig() }, "state", "otm.toml was changed since otm-completion-detector started", "stop otm up, or what else runs here"},
		{"component in trouble", func(p *patient) { p.says(heartbeat.Watcher, heartbeat.Error, "no such luck") }, "state", "ago: no such luck", "otm-injector.log"},
		{"disk that takes nothing", func(p *patient) { refuseStep(p, p.h.Dir, "write", syscall.ENOSPC) }, "disk", "no space left", "df -h "},
		{"disk that is full", func(p *patient) { refuseStep(p, p.h.Dir, "room", syscall.ENOSPC) }, "state", "nothing can be written: write ", "df -h "},
		{"disk that is mounted read-only", func(p *patient) { refuseStep(p, p.h.Dir, "room", syscall.EROFS) }, "state", "nothing can be written: write ", "df "},
		{"inbox that cannot be read", func(p *patient) { refuseStep(p, p.h.Box.Dir(inbox.NewTasks), "read directory", syscall.EACCES) }, "state", "permission denied", "ls -ld "},
		{"clock that was set back", func(p *patient) { p.beat(time.Now().Add(time.Hour), heartbeat.Detector) }, "state", "ahead of this machine's clock", "timedatectl"},
		{"drop that waits", func(p *patient) {
			path := filepath.Join(p.h.Box.Dir(inbox.NewTasks), "x.json")
			put(p, path, "{}")
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(path, old, old); err != nil {
				p.Fatal(err)
			}
		}, "state", "1 drop waits in the inboxes, the oldest for 1h", "otm status"},
		{"directory from before there were owners", func(p *patient) { os.Remove(tokens.Open(p.h.Dir).OwnerPath()) }, "secrets", "secrets/owner is missing", "otm init"},
		{"owner's token that others can read", func(p *patient) { os.Chmod(tokens.Open(p.h.Dir).OwnerPath(), 0o644) }, "secrets", "others can read ", "chmod 600 "},
		{"drop that failed", func(p *patient) { put(p, filepath.Join(p.h.Dir, inbox.FailedDir, "x.json"), "{}") }, "state", "1 drop failed", "otm dead"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			tt.spoil(p)
			all := p.findings()
			if !slices.ContainsFunc(all, func(f finding) bool {
				return f.Check == tt.check && f.Level != explain.OK && strings.Contains(f.Text, tt.text) && strings.Contains(f.Hint+"; or: "+f.Or, tt.hint)
			}) {
				t.Errorf("no %s with %q and the hint %q in\n%+v", tt.check, tt.text, tt.hint, all)
			}
		})
	}
}

// A command that is named by its place in the workspace is looked for there.
func TestDoctorCommandInTheWorkspace(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.runs("bin/agent")
	program := filepath.Join(p.h.Config.Agents[0].Workspace, "bin", "agent")
	put(t, program, "#!/bin/sh\n")
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	if f := checkAgent(&p.h.Config.Agents[0]); f != nil {
		t.Errorf("%+v", f)
	}
}

// For programs it is the same list, with the same exit code.
func TestDoctorJSON(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	look := func(code int) (levels []explain.Level) {
		t.Helper()
		got, out := p.main("otm", "doctor", "--json")
		var all []finding
		if err := json.Unmarshal([]byte(out), &all); err != nil || got != code {
			t.Fatalf("exit code %d, want %d, %v: %s", got, code, err, out)
		}
		for _, f := range all {
			levels = append(levels, f.Level)
		}
		return levels
	}
	if got := look(0); len(got) < 6 || len(slices.Compact(got)) != 1 || got[0] != explain.OK {
		t.Errorf("all is well, and the levels are %v", got)
	}
	os.Remove(filepath.Join(p.h.Dir, "secrets", "slack"))
	if got := look(1); !slices.Contains(got, explain.Fail) || !slices.Contains(got, explain.OK) {
		t.Errorf("the levels are %v", got)
	}
}

// How the units stand is told with the line that makes them right, and other hints name it too.
func TestDoctorUnits(t *testing.T) {
	p := newPatient(t)
	home, bin, log := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "called")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"otm", "otm-create", "otm-update", heartbeat.Injector, heartbeat.Dispatcher, heartbeat.Detector} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"systemctl", "launchctl"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho $0 >>'"+log+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	p.h.Getenv = func(key string) string { return map[string]string{"HOME": home, "PATH": os.Getenv("PATH")}[key] }
	manager := install.Native()
	var said bytes.Buffer
	s := cli.Streams{In: strings.NewReader(""), Out: &said, Err: &said, Getenv: p.h.Getenv}
	if code := Main([]string{"otm", "install", "--" + manager, "--user", "--dir", p.h.Dir}, s); code != 0 {
		t.Fatalf("exit code %d: %s", code, &said)
	}
	line := "otm install --" + manager + " --dir " + safe.Quote(p.h.Dir)
	look := func(l explain.Level, text, hint string) {
		t.Helper()
		all := p.findings()
		if !slices.ContainsFunc(all, func(f finding) bool {
			return f.Level == l && regexp.MustCompile(text).MatchString(f.Check+" "+f.Text) && f.Hint == hint
		}) {
			t.Errorf("no %s %q with the hint %q in\n%+v", l, text, hint, all)
		}
	}
	units, err := install.Look(p.h.Dir, p.h.Getenv)
	if err != nil || len(units) == 0 {
		t.Fatal(units, err)
	}
	path := units[0].Path
	look(explain.OK, "units "+path, "")
	look(explain.Fail, `state otm-completion-detector ran \d+s ago and does not run any more`, line)
	stays, err := takeResident(t.Context(), p.h, heartbeat.Detector)
	if err != nil {
		t.Fatal(err)
	}
	defer stays.Release()
	p.oldConfig()
	look(explain.Warn, "state otm.toml was changed since otm-completion-detector started", "run: "+line)
	p.beat(time.Now().Add(-time.Hour), heartbeat.Detector)
	look(explain.Fail, "state otm-completion-detector has not run", line)
	text := content(t, path)
	put(t, path, text+"\n")
	look(explain.Warn, "units "+path+" is stale", line)
	put(t, path, "mine\n")
	look(explain.Warn, "units "+path+" is foreign", line)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look(explain.Warn, "units "+path+" is missing", line)
	put(t, filepath.Join(p.h.Dir, "otm.toml"), "nonsense = 1\n")
	look(explain.Fail, "unknown key", "edit "+safe.Quote(filepath.Join(p.h.Dir, "otm.toml")))
	refuseStep(t, filepath.Dir(path), "read directory", syscall.EACCES)
	look(explain.Fail, "units ", "ls -ld "+safe.Quote(filepath.Dir(path))+"   # the user who runs this must be allowed to use it: id -un")
}
