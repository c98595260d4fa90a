package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"otm/core"
	"otm/heartbeat"
	"otm/internal/before"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/pipeline"
	"otm/pipeline/rendering"
)

// formerHome is a directory of format 1 with some tasks of devdas, in the way in which a
// program before the engine left it.
func formerHome(t *testing.T) *Home {
	t.Helper()
	h := newHome(t, "")
	for id := pipeline.TaskID(1); id <= 3; id++ {
		put(t, rendering.Path(h.Dir, id), fmt.Sprintf(`{"taskId":%q,"dropId":"d%d","drop":"d%[2]d.json","title":"Task %[2]d","agent":"devdas","priority":"normal","type":"action",
			"createdAt":"2026-03-14T09:00:00Z","rowId":"Rec%[2]d","steps":[{"title":"a","rowId":"Step%[2]d"}],"status":"new",
			"history":[{"at":"2026-03-14T09:00:00Z","who":"otm-create","what":"dropped","detail":"d%[2]d.json"},{"at":"2026-03-14T09:01:00Z","who":"otm-injector","what":"row created","detail":"Rec%[2]d"}]}`, id.String(), id))
	}
	put(t, filepath.Join(h.Dir, "history.jsonl"), `{"archivedAt":"2026-03-14T09:09:00Z","taskId":"T-00009","row":{"id":"Rec9","title":"Over","taskId":"T-00009","status":"done","assignee":"devdas"},"steps":[]}`+"\n")
	put(t, filepath.Join(h.Dir, "format"), "1\n")
	return h
}

// TestFormerDirectory: the first program of this version that opens a directory of format
// 1 takes it over, also if several start at once; then it is of format 2. Readers tell the
// old history as before, and otm-update finds the renderings.
func TestFormerDirectory(t *testing.T) {
	t.Parallel()
	h := formerHome(t)
	var programs sync.WaitGroup
	for range 4 {
		own := reopenHome(t, h.Dir, content(t, filepath.Join(h.Dir, config.FileName)))
		programs.Go(func() {
			if _, err := own.OpenStore(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	programs.Wait()
	if format := content(t, filepath.Join(h.Dir, "format")); format != "2\n" {
		t.Errorf("its format is %q", format)
	}
	if tasks, events := statesOf(t, h), eventsOf(t, h, 0); len(tasks) != 4 || len(events) != 4 || events[0].Type() != "Imported" {
		t.Errorf("%d tasks, %d events", len(tasks), len(events))
	}
	for _, name := range []string{"tasks/T-00003.json", "history.jsonl"} {
		if !exists(filepath.Join(h.Dir, before.Folder, name)) {
			t.Errorf("%s is not kept", name)
		}
	}
	if r, err := rendering.Read(h.Dir, 3); err != nil || r.Title != "Task 3" || len(r.Steps) != 1 {
		t.Errorf("its rendering is %+v, %v", r, err)
	}
	p := &patient{T: t, h: h}
	for command, want := range map[string]string{
		"otm show T-00002":    "T09:01:00Z otm-injector: row created (Rec2)",
		"otm history T-00009": "T-00009  Over",
		"otm rebuild --check": "no problems found",
		"otm-update --task-id 2 --status blocked --reason why": "T-00002",
	} {
		code, out := p.main(strings.Fields(command)...)
		if code != cli.OK || !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%s: exit %d: %s", command, code, out)
		}
	}
	if code, out := p.main("otm-update", "--task-id", "2", "--subtask-done", "b"); code != cli.Usage || !strings.Contains(out, `no step of T-00002 matches "b"`) {
		t.Errorf("a step that it does not have: exit %d: %s", code, out)
	}
}

// TestOlderProgramRuns: while a program of an older version stays in a directory of format
// 1, nothing is taken over: it would go on with files that were moved away.
func TestOlderProgramRuns(t *testing.T) {
	t.Parallel()
	h := formerHome(t)
	old, err := takeResident(t.Context(), h, heartbeat.Dispatcher)
	if err != nil {
		t.Fatal(err)
	}
	p := &patient{T: t, h: h}
	for _, command := range []string{"otm status", "otm-injector --once", "otm up"} {
		code, out := p.main(strings.Fields(command)...)
		if code != cli.TryLater || !strings.Contains(out, fmt.Sprintf("otm-dispatcher of an older version runs on this data directory, process %d", os.Getpid())) || !strings.Contains(out, "otm: hint: stop it") {
			t.Errorf("%s: exit %d: %s", command, code, out)
		}
	}
	if format := content(t, filepath.Join(h.Dir, "format")); format != "1\n" || exists(filepath.Join(h.Dir, before.Folder)) {
		t.Errorf("its format is %q, and files were moved: %v", format, exists(filepath.Join(h.Dir, before.Folder)))
	}
	if err := old.Release(); err != nil {
		t.Fatal(err)
	}
	if p.must("otm", "status"); len(statesOf(t, h)) != 4 {
		t.Errorf("%d tasks were taken over", len(statesOf(t, h)))
	}
}

// TestNewerDirectory: every program refuses a directory of a newer format and changes
// nothing in it.
func TestNewerDirectory(t *testing.T) {
	t.Parallel()
	p := &patient{T: t, h: newHome(t, "")}
	put(t, filepath.Join(p.h.Dir, "format"), fmt.Sprintln(config.Format+1))
	was := tree(t, p.h.Dir)
	for _, command := range []string{
		"otm status", "otm events", "otm rebuild --check", "otm next --agent devdas", "otm why --all", "otm up", "otm fsck --repair", "otm-injector --once", "otm-dispatcher --once",
		"otm-completion-detector --once", "otm-create --title x --agent devdas", "otm-update --task-id 1 --status blocked --reason why",
	} {
		code, out := p.main(strings.Fields(command)...)
		if code != cli.BadConfig || !strings.Contains(out, "has format 3, this program knows 2") || !strings.Contains(out, "otm: hint: use a version of otm that knows format 3") {
			t.Errorf("%s: exit %d: %s", command, code, out)
		}
	}
	if is := tree(t, p.h.Dir); strings.Join(is, "\n") != strings.Join(was, "\n") {
		t.Errorf("it was\n%s\nand is\n%s", strings.Join(was, "\n"), strings.Join(is, "\n"))
	}
}

// TestNewerStore: a database whose schema a newer program made is refused, too.
func TestNewerStore(t *testing.T) {
	t.Parallel()
	p := &patient{T: t, h: newHome(t, "")}
	storeOf(t, p.h)
	if err := p.h.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, p.h, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
	for _, command := range []string{"otm status", "otm next --agent devdas", "otm-injector --once", "otm rebuild"} {
		if code, out := p.main(strings.Fields(command)...); code != cli.BadConfig || !strings.Contains(out, "otm: hint: ") {
			t.Errorf("%s: exit %d: %s", command, code, out)
		}
	}
}

// TestUpdateAgainstRendering: what the engine decided reaches otm-update, which refuses
// what can no longer be reported, and takes what can.
func TestUpdateAgainstRendering(t *testing.T) {
	t.Parallel()
	p := newBusy(t)
	p.must("otm-injector", "--once")
	done := pipeline.Done
	do(t, p.h, core.Command{At: p.h.Now(), By: core.ByPerson("Ada"), Task: 2, Do: core.Edits{Status: &done}})
	p.must("otm-completion-detector", "--once")
	if code, out := p.main("otm-update", "--task-id", "2", "--subtask-done", "1"); code != cli.Usage || !strings.Contains(out, "T-00002 is done") {
		t.Errorf("over: exit %d: %s", code, out)
	}
	again := pipeline.New
	do(t, p.h, core.Command{At: p.h.Now(), By: core.ByPerson("Ada"), Task: 2, Do: core.Edits{Status: &again}})
	p.must("otm-completion-detector", "--once")
	p.must("otm-update", "--task-id", "2", "--subtask-done", "1")
	if err := os.Remove(rendering.Path(p.h.Dir, 2)); err != nil { // the machine lost it
		t.Fatal(err)
	}
	p.must("otm-update", "--task-id", "2", "--subtask-done", "whatever it says")
}
