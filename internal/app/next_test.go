package app

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/dispatch"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// TestNextTellsOfFailedReports: an agent hears of the newest of its own reports that
// failed lately, and of nobody else's.
func TestNextTellsOfFailedReports(t *testing.T) {
	t.Parallel()
	w := newWhyWorld(t)
	w.also = &core.Task{ID: 2, DropID: "d2", Title: "Two", Agent: "runner", RowID: "Rec9", Status: pipeline.InProgress}
	w.view() // writes the store
	failed := func(name string, id pipeline.TaskID, kind inbox.Kind, at time.Time) {
		put(t, filepath.Join(w.h.Dir, inbox.FailedDir, name), fmt.Sprintf(`{"id":"u","taskId":%q,"title":"x","_result":{"at":%q,"inbox":%q,"error":%q,"class":"conflict"}}`,
			id, at.Format(time.RFC3339), kind, id.String()+" about "+name))
	}
	for n := range 7 {
		failed(fmt.Sprintf("u%d.json", n), 1, inbox.TaskUpdates, w.now)
	}
	failed("v-other.json", 2, inbox.TaskUpdates, w.now)
	failed("v-create.json", 1, inbox.NewTasks, w.now)
	failed("v-long-ago.json", 1, inbox.TaskUpdates, w.now.Add(-failedShownFor-time.Hour))
	failed("v-unknown.json", 77, inbox.TaskUpdates, w.now)
	put(t, filepath.Join(w.h.Dir, inbox.FailedDir, "v-unread.json"), "no JSON")
	if err := syscall.Mkfifo(filepath.Join(w.h.Box.Dir(inbox.TaskUpdates), "pipe.json"), 0o600); err != nil { // nobody writes into it
		t.Fatal(err)
	}
	p := &patient{T: t, h: w.h}
	code, out := p.main("otm", "next", "--agent", "gate")
	told := regexp.MustCompile(`(?s)report again:\n(.*)`).FindStringSubmatch(out)
	want := ""
	for n := 6; n >= 2; n-- {
		want += fmt.Sprintf("  T-00001: about u%d.json\n", n)
	}
	if code != cli.OK || told == nil || told[1] != want {
		t.Errorf("exit %d: %s\nwant\n%s", code, out, want)
	}
}

// TestContextAndInputs: what a task belongs to and starts from goes from the create to the
// agent and to those who look.
func TestContextAndInputs(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.must("otm-create", "--title", "Look into it", "--agent", "devdas", "--context", "Support", "--input", "/srv/the log", "--input", "https://example.com/x")
	p.must("otm-injector", "--once")
	p.must("otm-dispatcher", "--once")
	const members = `"context":"support","inputFiles":["/srv/the log","https://example.com/x"]`
	file, err := os.ReadFile(filepath.Join(p.h.Config.Agents[0].Workspace, dispatch.FileName))
	if err != nil || !strings.Contains(string(file), members) {
		t.Errorf("dispatch file %s, %v", file, err)
	}
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"otm", "show", "T-00001"}, " · support\ninput: /srv/the log\ninput: https://example.com/x\n"},
		{[]string{"otm", "next", "--agent", "devdas"}, ", context support\nInput: /srv/the log\nInput: https://example.com/x\n"},
		{[]string{"otm", "next", "--agent", "devdas", "--json"}, members},
	} {
		if code, out := p.main(c.argv...); code != cli.OK || !strings.Contains(out, c.want) {
			t.Errorf("%q prints\n%s\nwant %q", c.argv, out, c.want)
		}
	}
}

// TestBody: what an agent is to know beside the title goes from the create to the agent
// and to those who look. No line of it looks like one of ours.
func TestBody(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	const body = "The form is merged.\n\n  Steps:\x1b[31m\nTest the texts.\n"
	p.must("otm-create", "--title", "Test it", "--agent", "devdas", "--body", body)
	p.must("otm-create", "--title", "Then this", "--agent", "devdas", "--parent", "1")
	p.must("otm-injector", "--once")
	p.must("otm-dispatcher", "--once")
	const lines = "ody:\n  The form is merged.\n  \n    Steps:\\x1b[31m\n  Test the texts.\n"
	const member = `"body":"The form is merged.\n\n  Steps:\u001b[31m\nTest the texts.\n"`
	file, err := os.ReadFile(filepath.Join(p.h.Dir, "tasks", "T-00001.json"))
	if err != nil || !strings.Contains(string(file), strings.Replace(member, ":", ": ", 1)) {
		t.Errorf("rendering %s, %v", file, err)
	}
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"otm", "show", "T-00001"}, "b" + lines},
		{[]string{"otm", "show", "T-00001", "--json"}, member},
		{[]string{"otm", "next", "--agent", "devdas"}, "B" + lines},
		{[]string{"otm", "next", "--agent", "devdas", "--json"}, member},
		{[]string{"otm", "events", "--task", "1", "--json"}, member},
	} {
		if code, out := p.main(c.argv...); code != cli.OK || !strings.Contains(out, c.want) {
			t.Errorf("%q prints\n%s\nwant %q", c.argv, out, c.want)
		}
	}
	if code, out := p.main("otm", "next", "--agent", "devdas", "--another"); code != cli.OK || strings.Contains(out, "Body:") {
		t.Errorf("a task without one: exit %d\n%s", code, out)
	}
	for _, c := range []struct{ body, want string }{
		{strings.Repeat("ä", 10001), "body has 20002 bytes, more than 20000: put the rest into a file"},
		{strings.Repeat("a", 30000), "body has 30000 bytes, more than 20000: put the rest into a file"},
		{"a\xff", "body is not UTF-8"},
	} {
		if code, out := p.main("otm-create", "--title", "x", "--agent", "devdas", "--body", c.body); code != cli.Usage || !strings.Contains(out, c.want) {
			t.Errorf("exit %d: %.200s, want %q", code, out, c.want)
		}
	}
}

// TestNextNeedsNoEntry: a task that has no entry in the dispatch file any more is given
// all the same: the store knows it.
func TestNextNeedsNoEntry(t *testing.T) {
	t.Parallel()
	p := newBusy(t)
	p.must("otm-update", "--task-id", "2", "--status", "agent_done", "--result", "all of it")
	p.must("otm-injector", "--once")
	p.must("otm-dispatcher", "--once") // T-00003 waits
	if err := os.Remove(filepath.Join(p.h.Config.Agents[0].Workspace, dispatch.FileName)); err != nil {
		t.Fatal(err)
	}
	if code, out := p.main("otm", "next", "--agent", "devdas"); code != cli.OK || !strings.HasPrefix(out, "T-00003 Dropped\n") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestNextKnowsNothingElse: where it cannot be known what is on its way to an agent,
// it hears that nothing waits; where it cannot be known what it was given, that.
func TestNextKnowsNothingElse(t *testing.T) {
	t.Parallel()
	p := &patient{T: t, h: newHome(t, "")}
	put(t, filepath.Join(p.h.Dir, "otm-injector-state.json", "x"), "") // a directory where a file should be
	refuseStep(t, p.h.Box.Dir(inbox.NewTasks), "read directory", syscall.EACCES)
	if code, out := p.main("otm", "next", "--agent", "devdas"); code != cli.OK || !strings.HasPrefix(out, "no task waiting\n") {
		t.Errorf("exit %d: %s", code, out)
	}
	ws := p.h.Config.Agents.Named("devdas").Workspace
	put(t, filepath.Join(ws, dispatch.FileName), `{"dispatched":[]}`)
	refuseStep(t, ws, "read", syscall.EIO)
	if code, out := p.main("otm", "next", "--agent", "devdas"); code == cli.OK || !strings.Contains(out, "dispatch file of devdas: ") || !strings.Contains(out, syscall.EIO.Error()) {
		t.Errorf("the dispatch file is refused: exit %d: %s", code, out)
	}
}

// TestNextIsQuiet: what others dropped, and cannot be read, is none of an agent's.
func TestNextIsQuiet(t *testing.T) {
	t.Parallel()
	p := &patient{T: t, h: newHome(t, "")}
	put(t, filepath.Join(p.h.Dir, inbox.FailedDir, "odd.json"), `{"_result":"x"}`)
	if code, out := p.main("otm", "next", "--agent", "devdas"); code != cli.OK || out != "no task waiting\n" {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestC46ReadersAnswer: the workspace of an agent does not answer. Each command that
// reads answers all the same and names the directory.
func TestC46ReadersAnswer(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.must("otm-create", "--title", "Waits", "--agent", "devdas")
	p.must("otm-injector", "--once")
	ws := p.h.Config.Agents[0].Workspace
	hung := crashtest.Hang(t, ws)
	for _, argv := range [][]string{
		{"otm", "next", "--agent", "devdas"}, {"otm", "why", "T-1"}, {"otm", "status"}, {"otm", "doctor"}, {"otm", "fsck"},
	} {
		if code, out := p.main(argv...); !strings.Contains(out, ws) || !strings.Contains(out, "does not answer") {
			t.Errorf("%q: exit %d: %s", argv, code, out)
		}
	}
	if hung.Load() != 1 {
		t.Errorf("%d steps hang", hung.Load())
	}
}

// TestNextPassesOverAnUnreadableReport: one report that cannot be read, of whomever,
// keeps no agent from its next task.
func TestNextPassesOverAnUnreadableReport(t *testing.T) {
	t.Parallel()
	p := newBusy(t)
	bad := filepath.Join(p.h.Box.Dir(inbox.TaskUpdates), "bad.json")
	put(t, bad, "{}")
	crashtest.Below(t, p.h.Dir, func(step, path string) error {
		if step == "read" && path == bad {
			return syscall.EACCES
		}
		return nil
	})
	code, out := p.main("otm", "next", "--agent", "devdas")
	if code != cli.OK || !strings.Contains(out, "T-00002 At work") || !strings.Contains(out, "warning: a report that waits was passed over: read "+bad+": permission denied") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestNextIgnoresACopiedRow: a person duplicates the row of a task and cancels the
// copy. The copy bears the task's id, and the task is handed out all the same.
func TestNextIgnoresACopiedRow(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.must("otm-create", "--title", "Copied", "--agent", "devdas")
	p.must("otm-injector", "--once")
	p.must("otm-dispatcher", "--once")
	_, err := p.b.Server.AddRow("U0PERSON", p.b.ListID,
		boardtest.TextCell(p.b.Column(p, "Title", "text"), "Copied"), boardtest.TextCell(p.b.Column(p, "Task ID", "text"), "T-00001"),
		boardtest.SelectCell(p.b.Column(p, "Assignee", "select"), "devdas"), boardtest.SelectCell(p.b.Column(p, "Status", "select"), "cancelled"))
	if err != nil {
		t.Fatal(err)
	}
	p.must("otm", "list", "--fresh")
	if code, out := p.main("otm", "next", "--agent", "devdas"); code != cli.OK || !strings.Contains(out, "T-00001 Copied") {
		t.Errorf("exit %d: %s", code, out)
	}
}
