package app

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/heartbeat"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/explain"
	"otm/internal/lock"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// TestStatusTells: what needs a person is told, in a line of its own.
func TestStatusTells(t *testing.T) {
	t.Parallel()
	p := newBusy(t)
	if err := os.RemoveAll(p.h.Config.Agents[0].Workspace); err != nil {
		t.Fatal(err)
	}
	for n := range 7 {
		put(t, filepath.Join(p.h.Dir, inbox.FailedDir, fmt.Sprintf("c%d.json", n)), fmt.Sprintf(`{"title":"x","_result":{"inbox":"new-tasks","error":"reason %d","class":"rejected"}}`, n))
	}
	beat := heartbeat.NewWriter(p.h.Dir, heartbeat.Dispatcher, "test", time.Now)
	if err := beat.Beat(heartbeat.Partial, "gate: refused; runner: stuck"); err != nil {
		t.Fatal(err)
	}
	for n := range 7 { // with the three there are: one is left
		p.must("otm-create", "--title", fmt.Sprint("More ", n), "--agent", "devdas")
	}
	// The report on a task of devdas waits for its person, not for the time.
	if code, out := p.main("otm-injector", "--once"); !strings.Contains(out, "stays in the inbox: dispatch file of devdas: ") {
		t.Errorf("otm-injector without the workspace: exit %d: %s", code, out)
	}
	code, out := p.main("otm", "status")
	for _, want := range []string{
		`yellow +otm-dispatcher +\d+s ago +gate: refused\n`,
		`health +red: \d problems\n(.*\n)* +otm-dispatcher: gate: refused; runner: stuck\n`, // once, whole
		`nothing stays running here; unless timers run the components, start them with: otm up\n`,
		`c6.json: reason 6\n +c5.json: reason 5\n +c4.json: reason 4\n +c3.json: reason 3\n +c2.json: reason 2\nboard`, // the newest
		`9 of 10 rows, read \d+s ago\n`,
		`agents +devdas +starts by itself \(trigger none\) .*\n`,
		`\n +the workspace of devdas is missing: /.*\n +→ mkdir -p /.*`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("exit %d, %q is missing:\n%s", code, want, out)
		}
	}
	if code, out := p.main("otm", "next", "--agent", "devdas"); code != cli.Partial || !strings.Contains(out, "\notm: hint: mkdir -p /") {
		t.Errorf("otm next without the workspace: exit %d: %s", code, out)
	}
}

// ending has OTM end a process of devdas since a time. It runs until the test is over.
func (p *patient) ending(since time.Time) {
	p.Helper()
	do(p, p.h, core.Command{At: since, By: core.Component("otm"), Agent: "devdas", Do: core.ImportAgent{State: core.AgentState{
		Agent: "devdas", Ends: &core.Ends{Task: 1, Since: since},
	}}})
	process, err := lock.Acquire(p.Context(), p.h.lockPath("exec-devdas"), 0)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := process.Release(); err != nil {
			p.Error(err)
		}
	})
}

// A process that OTM ends, as a person stopped its task, is a problem only once it should have
// ended. Only then there is a step.
func TestEndingProcessIsNoProblemYet(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.runs("true")
	begun := time.Now().UTC()
	p.ending(begun)
	for after, want := range map[time.Duration][]explain.Code{0: nil, 29 * time.Second: nil, 30 * time.Second: {explain.AgentWillNotEnd}} {
		p.h.Now = func() time.Time { return begun.Add(after) }
		v, err := loadView(t.Context(), p.h, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		for name, found := range map[string][]explain.Finding{"status": v.Problems(), "incidents": view.Watched(v)} {
			var got []explain.Code
			for _, f := range found {
				got = append(got, f.Code)
				if next := f.Next(p.h.Now()); !strings.HasPrefix(next, "kill -KILL -- -") {
					t.Errorf("the next step is %q", next)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s after %v: %v, want %v", name, after, got, want)
			}
		}
	}
}

// TestOneListOfProblems: status counts exactly the lines that doctor does not take for
// well, where the set-up is well. An agent in trouble has its own line in both, with
// its age as of now, and no component repeats it.
func TestOneListOfProblems(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.runs("true")
	ended := time.Now().Add(-34 * time.Second).UTC()
	do(t, p.h, core.Command{At: ended, By: core.Component("otm"), Agent: "devdas", Do: core.ImportAgent{State: core.AgentState{
		Agent: "devdas", Failures: 3, Fruitless: 3, LeftAlone: ended, LastStart: &core.EndedStart{Key: "k", StartResult: core.StartResult{Ended: ended, Exit: "exit status 1", Log: "/x/run.log"}},
	}}})
	beat := heartbeat.NewWriter(p.h.Dir, heartbeat.Dispatcher, "test", time.Now)
	if err := beat.Beat(heartbeat.Partial, "Dispatched 0 tasks, woke 0 agents, 2 failures; devdas is left alone, the last 10s ago",
		explain.New(explain.AgentLeftAlone, "agent", "devdas", "n", 3, "ended", ended),
		explain.New(explain.TaskNoAgent, "name", "nobody").On(7)); err != nil {
		t.Fatal(err)
	}
	v, err := lookAround(t.Context(), p.h, false, false)
	if err != nil {
		t.Fatal(err)
	}
	problems := v.Problems()
	var lines []string
	for _, f := range p.findings() {
		if f.Level != explain.OK {
			lines = append(lines, f.Check+" "+f.Text)
		}
	}
	if len(problems) != 2 || len(lines) != len(problems) {
		t.Errorf("status counts %v, doctor says %q", problems, lines)
	}
	if all := strings.Join(lines, "\n"); !strings.Contains(all, "state devdas is left alone") || !strings.Contains(all, "state T-00007: unknown agent") {
		t.Errorf("doctor says %q", lines)
	}
	var out strings.Builder
	p.h.Out = &out
	if err := printStatus(p.h, v, view.SummaryOf(v, maxReasonsShown)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`yellow +otm-dispatcher +\d+s ago +Dispatched 0 tasks, woke 0 agents, 2 failures\n`,
		`health +red: 2 problems\n +T-00007: unknown agent "nobody".*\n( +.*\n)+ +devdas is left alone: .* 3\ds ago`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%q is missing:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "10s ago") || strings.Count(out.String(), "left alone") != 1 {
		t.Errorf("the text of the heartbeat is repeated:\n%s", &out)
	}
}

// TestChangedConfigIsToldAtOnce: the otm.toml that a process read when it started is
// compared with the one that is there: status and doctor say first that it changed,
// and why says no old judgement.
func TestChangedConfigIsToldAtOnce(t *testing.T) {
	t.Parallel()
	w := newWhyWorld(t)
	w.status(pipeline.New)
	w.task.Dispatch = nil
	stays, err := takeResident(t.Context(), w.h, heartbeat.Dispatcher)
	if err != nil {
		t.Fatal(err)
	}
	defer stays.Release()
	beat := heartbeat.NewWriter(w.h.Dir, heartbeat.Dispatcher, "test", func() time.Time { return w.now })
	beat.Config = w.h.configStamp
	unknown := explain.New(explain.TaskNoAgent, "name", "gate").On(1) // it was added since
	if err := beat.Beat(heartbeat.Partial, "x", unknown); err != nil {
		t.Fatal(err)
	}
	if v := w.view(); v.OldConfig() != nil {
		t.Fatalf("nothing changed, and %v", v.OldConfig())
	}
	beat.Config = "another"
	if err := beat.Beat(heartbeat.Partial, "x", unknown); err != nil {
		t.Fatal(err)
	}
	v := w.view()
	if found := v.Problems(); len(found) != 2 || found[0].Code != explain.ComponentOldConfig || found[0].Args["component"] != heartbeat.Dispatcher {
		t.Errorf("the problems are %v", found)
	}
	var out strings.Builder
	w.h.Out = &out
	if err := printStatus(w.h, v, view.SummaryOf(v, maxReasonsShown)); err != nil || !strings.Contains(out.String(), "2 problems\n         otm.toml was changed since otm-dispatcher started") {
		t.Errorf("status, %v:\n%s", err, &out)
	}
	d := &doctor{home: w.h}
	if d.examine(t.Context()); d.findings[0].Code != explain.ComponentOldConfig {
		t.Errorf("doctor says first: %+v", d.findings[0])
	}
	if r, err := why.Of(v, 1); err != nil || !strings.Contains(r.Sentence, "otm.toml was changed") || strings.Contains(r.Sentence, "unknown agent") || !strings.Contains(r.Next, "start it again") {
		t.Errorf("why: %+v, %v", r, err)
	}
	broken := explain.New(explain.ConfigBroken, "error", "line 3", "path", "/otm.toml")
	if err := beat.Beat(heartbeat.Partial, "x", broken); err != nil {
		t.Fatal(err)
	}
	if f := w.view().OldConfig(); f == nil || f.Code != explain.ConfigBroken || f.Next(w.now) != "edit /otm.toml" {
		t.Errorf("of a file that cannot be read it says %v", f)
	}
}

// TestStartsWhatWasInstalled: where otm install has been, nobody is told to start
// the components beside it.
func TestStartsWhatWasInstalled(t *testing.T) {
	t.Parallel()
	w := newWhyWorld(t)
	w.installed()
	var errs strings.Builder
	w.h.Err = &errs
	if err := printComponents(w.h, w.view(), &view.Summary{}); err != nil || !strings.Contains(errs.String(), "to start what was installed, run: otm install --") {
		t.Errorf("%v, %s", err, &errs)
	}
}

// TestShowAndListOdd: a task whose row is gone is shown as the store has it, and rows
// that are no task yet are listed without an id.
func TestShowAndListOdd(t *testing.T) {
	t.Parallel()
	p := newBusy(t)
	b, title, assignee := p.b, p.b.Column(t, "Title", "text"), p.b.Column(t, "Assignee", "select")
	b.Create(t, "", boardtest.TextCell(title, "Typed"), boardtest.SelectCell(assignee, "devdas"))
	p.must("otm-injector", "--once") // the report on T-00002
	row := stateOf(t, p.h, 2).RowID
	p.edit(row, boardtest.TextCell(b.Column(t, "Reason", "text"), "not yet"))
	for _, step := range []struct{ command, want string }{
		{"otm list --fresh", `(?m)^- +new +devdas +0/0 .*Typed$`},
		{"otm show T-00002", `T-00002  At work\nassigned · normal · action · devdas\n  1 \[ \] a\n  2 \[ \] b\nreason: not yet\nresult: half of it\nwhy: `},
	} {
		if code, out := p.main(strings.Fields(step.command)...); code != cli.OK || !regexp.MustCompile(step.want).MatchString(out) {
			t.Errorf("%s: exit %d: %s\nwant %s", step.command, code, out, step.want)
		}
	}
	if err := b.Server.DeleteRow("", b.ListID, row); err != nil {
		t.Fatal(err)
	}
	code, out := p.main("otm", "show", "T-00002", "--fresh")
	if code != cli.OK || !regexp.MustCompile(`T-00002  At work\n.*\n  1 \[ \] a\n  2 \[ \] b\n(reason: .*\n)?result: half of it\nwhy:    somebody deleted or archived its row on the board`).MatchString(out) {
		t.Errorf("its row is gone: exit %d: %s", code, out)
	}
}

// TestNobodyIsConfigured says where to name agents.
func TestNobodyIsConfigured(t *testing.T) {
	t.Parallel()
	p := &patient{T: t, h: reopenHome(t, newHome(t, "").Dir, "")}
	code, out := p.main("otm", "next", "--agent", "devdas")
	if code != cli.Usage || !strings.Contains(out, "no agents are configured\notm: hint: add [agents.devdas] with a workspace to ") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestHistoryTells: what was archived is listed, by agent too, and shown as the board
// had it.
func TestHistoryTells(t *testing.T) {
	t.Parallel()
	w := newWhyWorld(t)
	row := pipeline.Row{ID: "Rec7", TaskID: "T-00007", Title: "As it was", Assignee: "gate", Status: pipeline.Done}
	do(t, w.h, core.Command{At: w.now, By: core.Component("otm"), Task: 7, Do: core.Import{Imported: core.Imported{
		Task: core.Task{ID: 7, Title: "As it was", Agent: "gate", RowID: "Rec7", Status: pipeline.Done, ArchivedAt: w.now, Shown: core.Shown{Gone: true}}, Row: &row,
	}}})
	p := &patient{T: t, h: w.h}
	for command, want := range map[string]string{
		"otm history":         "T-00007",
		"otm history T-00007": "T-00007  As it was",
		"otm why T-00007":     "archived",
	} {
		code, out := p.main(strings.Fields(command)...)
		if code != cli.OK || !strings.Contains(out, want) || want == "" && out != "" || strings.Contains(out, "warning") {
			t.Errorf("%s: exit %d: %s", command, code, out)
		}
	}
}
