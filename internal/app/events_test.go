package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/internal/cli"
	"otm/internal/daemon"
	"otm/pipeline"
)

// newEvents is a directory with some events: of three tasks, of two agents and of a
// person.
func newEvents(t *testing.T) *patient {
	t.Helper()
	p := &patient{T: t, h: newHome(t, "")}
	begun := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	for i, agent := range []string{"devdas", "archibald", "devdas"} {
		id := pipeline.TaskID(i + 1)
		do(t, p.h, core.Command{ID: fmt.Sprint("d", i+1), At: begun.Add(time.Duration(i) * time.Hour), By: core.Component("otm-injector"), Task: id, Do: core.Request{
			Task: pipeline.Task{ID: id, Title: fmt.Sprint("task ", i+1), Agent: agent, Priority: pipeline.Normal, Type: pipeline.Action, Steps: []string{"a"}},
			Drop: fmt.Sprint("d", i+1, ".json"), CreatedAt: begun.Add(time.Duration(i) * time.Hour),
		}})
	}
	done := pipeline.Done
	do(t, p.h, core.Command{At: begun.Add(3 * time.Hour), By: core.ByPerson("Ada\x1b[31m"), Task: 1, Do: core.Edits{Status: &done}})
	do(t, p.h, core.Command{At: begun.Add(4 * time.Hour), By: core.Component("otm"), Agent: "devdas", Do: core.ImportAgent{State: core.AgentState{Agent: "devdas", Failures: 1}}})
	return p
}

// TestEvents: each flag selects, and a line says when, what, by whom and in which words.
func TestEvents(t *testing.T) {
	t.Parallel()
	p := newEvents(t)
	testEvents(t, p)
	if code, out := p.main("otm", "show", "1"); code != cli.OK || !strings.Contains(out, "new to done") {
		t.Errorf("shown: exit %d: %s", code, out)
	}
}

// TestEventsArchived: the detector archives what is older than 90 days, and all commands find
// it there. They name an archive that was changed, with the next step.
func TestEventsArchived(t *testing.T) {
	t.Parallel()
	p := newEvents(t)
	p.main("otm-completion-detector", "--once") // there is no board: old events go all the same
	archive := filepath.Join(p.h.Dir, "archive", "events-2026-03-14.ndjson.gz")
	if live, err := storeOf(t, p.h).Events(t.Context(), core.EventFilter{}); len(live) != 0 || err != nil || !exists(archive) {
		t.Errorf("%d events are in the table, %v", len(live), err)
	}
	testEvents(t, p)
	if code, out := p.main("otm", "show", "1"); code != cli.OK || !strings.Contains(out, "new to done") {
		t.Errorf("shown: exit %d: %s", code, out)
	}
	if code, out := p.main("otm", "rebuild", "--check"); code != cli.OK {
		t.Errorf("checked: exit %d: %s", code, out)
	}
	damage(t, p.h, `DELETE FROM tasks`)
	if code, out := p.main("otm", "rebuild"); code != cli.OK || stateOf(t, p.h, 2).Title != "task 2" {
		t.Errorf("rebuilt: exit %d: %s", code, out)
	}
	if err := os.WriteFile(archive, []byte("edited"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := p.main("otm", "rebuild", "--check"); code != cli.Partial || strings.Count(out, archive) < 2 {
		t.Errorf("checked with an edited archive: exit %d: %s", code, out)
	}
	if code, out := p.main("otm", "show", "1"); code != cli.OK || !strings.Contains(out, "earlier events cannot be read") || strings.Contains(out, "unknown time") {
		t.Errorf("show with an edited archive: exit %d: %s", code, out)
	}
	for _, args := range [][]string{{"events"}, {"history"}} {
		code, out := p.main(append([]string{"otm"}, args...)...)
		if code != cli.Failed || strings.Count(out, archive) < 2 || !strings.Contains(out, "is damaged") || !strings.Contains(out, "back from a backup") {
			t.Errorf("%v with an edited archive: exit %d: %s", args, code, out)
		}
	}
}

func testEvents(t *testing.T, p *patient) {
	t.Helper()
	for args, want := range map[string]string{
		"":                             "TaskRequested 1; TaskRequested 2; TaskRequested 3; TaskMoved 1; AgentChanged",
		"--task T-00001":               "TaskRequested 1; TaskMoved 1",
		"--task 2":                     "TaskRequested 2",
		"--agent archibald":            "TaskRequested 2",
		"--agent DEVDAS":               "TaskRequested 1; TaskRequested 3; TaskMoved 1; AgentChanged",
		"--type TaskMoved":             "TaskMoved 1",
		"--type TaskMoved,StepDone":    "TaskMoved 1",
		"--type TaskMoved --task 2":    "",
		"--since 2026-03-14T10:30:00Z": "TaskRequested 3; TaskMoved 1; AgentChanged",
		"--since 1h":                   "",
		"--since 9000d":                "TaskRequested 1; TaskRequested 2; TaskRequested 3; TaskMoved 1; AgentChanged",
	} {
		code, out := p.main(append([]string{"otm", "events", "--json"}, strings.Fields(args)...)...)
		var got []string
		for line := range strings.Lines(out) {
			var e core.Envelope
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%q: %v: %s", args, err, line)
			}
			got = append(got, strings.TrimSpace(e.EventType+" "+strings.TrimLeft(strings.TrimPrefix(e.Subject.Task, "T-"), "0")))
		}
		if all := strings.Join(got, "; "); code != cli.OK || all != want {
			t.Errorf("otm events %s: exit %d: %q, want %q", args, code, all, want)
		}
	}
	code, out := p.main("otm", "events", "--task", "1")
	if want := "2026-03-14T09:00:00.000Z  T-00001         TaskRequested        otm-create  dropped (d1.json)\n" +
		`2026-03-14T12:00:00.000Z  T-00001         TaskMoved            Ada\x1b[31m  changed status (new to done)` + "\n"; code != cli.OK || out != want {
		t.Errorf("exit %d:\n%s\nwant\n%s", code, out, want)
	}
}

// TestEventsEnvelope: an event leaves the program in the envelope that others read.
func TestEventsEnvelope(t *testing.T) {
	t.Parallel()
	p := newEvents(t)
	code, out := p.main("otm", "events", "--json", "--task", "1")
	first, rest, _ := strings.Cut(out, "\n")
	var e, moved map[string]any
	if err := json.Unmarshal([]byte(first), &e); err != nil || code != cli.OK {
		t.Fatalf("exit %d, %v: %s", code, err, out)
	}
	if err := json.Unmarshal([]byte(rest), &moved); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"schema": "otm.event.v1", "sequence": 1.0, "event_type": "TaskRequested", "event_version": 2.0, "timestamp": "2026-03-14T09:00:00Z",
		"correlation_id": "T-00001", "causation_id": "d1", "idempotency_key": "d1",
	} {
		if e[key] != want {
			t.Errorf("%s is %v, want %v", key, e[key], want)
		}
	}
	scope, producer, subject, payload := e["scope"].(map[string]any), e["producer"].(map[string]any), e["subject"].(map[string]any), e["payload"].(map[string]any)
	if scope["tenant_id"] != storeOf(t, p.h).ID() || scope["project_id"] != "default" || producer["service"] != "otm" || producer["version"] != cli.Version() {
		t.Errorf("scope %v, producer %v", scope, producer)
	}
	if subject["task_id"] != "T-00001" || subject["agent"] != "devdas" || payload["title"] != "task 1" || len(e["event_id"].(string)) != 26 {
		t.Errorf("subject %v, payload %v, id %v", subject, payload, e["event_id"])
	}
	if cause, there := moved["causation_id"]; cause != nil || !there || moved["actor"].(map[string]any)["name"] != "Ada\x1b[31m" {
		t.Errorf("a person's: %v", moved)
	}
}

// TestEventsRefuse: what cannot be asked for is refused, with what can be.
func TestEventsRefuse(t *testing.T) {
	t.Parallel()
	p := newEvents(t)
	for args, want := range map[string]string{
		"--task x":             "otm events --task T-00035",
		"--type TaskMooved":    "otm events --type TaskMoved",
		"--since yesterday":    `--since "yesterday" is neither a duration nor a time`,
		"--since -1h":          `--since "-1h" is neither a duration nor a time`,
		"everything":           "everything",
		"--type StartEnded --": "",
	} {
		code, out := p.main(append([]string{"otm", "events"}, strings.Fields(args)...)...)
		if refused := want != ""; (code == cli.Usage) != refused || !strings.Contains(out, want) {
			t.Errorf("otm events %s: exit %d: %s", args, code, out)
		}
	}
}

// linesOut is an output that gives each of its lines to a channel.
type linesOut chan string

func (l linesOut) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestEventsFollow: --follow prints what there is, and then what comes, also from
// another process, until it is interrupted, which is no failure.
func TestEventsFollow(t *testing.T) {
	t.Parallel()
	p := newEvents(t)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	out := make(linesOut, 100)
	ended := make(chan int, 1)
	s := cli.Streams{In: strings.NewReader(""), Out: out, Err: out, Getenv: func(name string) string {
		return map[string]string{"OTM_DIR": p.h.Dir, "HOME": filepath.Dir(p.h.Dir)}[name]
	}}
	args := []string{"events", "--follow", "--type", "TaskMoved", "--task", "1"}
	go func() { ended <- cli.Run(ctx, commandNamed("otm", s, args), args, s, Explain) }()
	until := func(want string) {
		t.Helper()
		select {
		case line := <-out:
			if !strings.Contains(line, want) {
				t.Errorf("it prints %q, want %q", line, want)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("%q is not printed", want)
		}
	}
	until("new to done")
	again := pipeline.New
	for _, id := range []pipeline.TaskID{2, 1} { // of another task it tells nothing
		cancelled := pipeline.Cancelled
		status := &again
		if id == 2 {
			status = &cancelled
		}
		do(t, p.h, core.Command{At: time.Now(), By: core.ByPerson("Ada"), Task: id, Do: core.Edits{Status: status}})
	}
	until("done to new")
	stop(daemon.ErrStop)
	select {
	case code := <-ended:
		if code != cli.OK {
			t.Errorf("exit %d", code)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it goes on")
	}
}

// TestEventsMany: more events than are read at once are all printed, once, in order.
func TestEventsMany(t *testing.T) {
	t.Parallel()
	p := &patient{T: t, h: newHome(t, "")}
	var commands []core.Command
	for n := range eventsAtOnce + 10 {
		commands = append(commands, core.Command{At: time.Now(), By: core.Component("otm"), Task: pipeline.TaskID(n + 1),
			Do: core.Import{Imported: core.Imported{Task: core.Task{ID: pipeline.TaskID(n + 1), Title: "x", Status: pipeline.New}}}})
	}
	if _, err := storeOf(t, p.h).Do(t.Context(), commands...); err != nil {
		t.Fatal(err)
	}
	_, out := p.main("otm", "events", "--json")
	n := 0
	for line := range strings.Lines(out) {
		var e core.Envelope
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if n++; e.Sequence != int64(n) {
			t.Fatalf("line %d is event %d", n, e.Sequence)
		}
	}
	if n != len(commands) {
		t.Errorf("%d events, want %d", n, len(commands))
	}
}

// TestRebuild: what the tables say otherwise than the events is told by --check, which
// exits with 3 and changes nothing, and put right by otm rebuild, after a backup.
func TestRebuild(t *testing.T) {
	t.Parallel()
	p := newEvents(t)
	if code, out := p.main("otm", "rebuild", "--check"); code != cli.OK || out != "no problems found\n" {
		t.Errorf("all is well: exit %d: %s", code, out)
	}
	if code, out := p.main("otm", "rebuild"); code != cli.OK || out != "nothing to rebuild: the tables follow from the events\n" {
		t.Errorf("nothing to do: exit %d: %s", code, out)
	}
	damage(t, p.h, `UPDATE tasks SET doc = replace(doc, '"task 2"', '"Task Two"') WHERE id = 2`, "DELETE FROM agents")
	const want = `tasks T-00002: title is "Task Two", and the events say "task 2"`
	for range 2 {
		code, out := p.main("otm", "rebuild", "--check")
		if code != cli.Partial || !strings.Contains(out, want+"\n") || !strings.Contains(out, "agents devdas: ") {
			t.Errorf("damaged: exit %d: %s", code, out)
		}
	}
	code, out := p.main("otm", "rebuild")
	backup, found := strings.CutPrefix(strings.TrimSpace(out), "rebuilt; the former tables are in ")
	if code != cli.OK || !found || !exists(backup) || filepath.Dir(backup) != p.h.Dir {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := p.main("otm", "rebuild", "--check"); code != cli.OK {
		t.Errorf("rebuilt: exit %d: %s", code, out)
	}
	if task := stateOf(t, p.h, 2); task.Title != "task 2" {
		t.Errorf("its title is %q", task.Title)
	}
	if code, out := p.main("otm", "rebuild", "now"); code != cli.Usage {
		t.Errorf("a word too much: exit %d: %s", code, out)
	}
}
