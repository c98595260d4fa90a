package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/crash/crashtest"
	"otm/internal/view"
	"otm/pipeline"
)

// alice works on the list, the bot's of which is not hers.
const alice = "U0ALICE"

// TestPeopleUnderSlacksLimits is about what people type, change, delete and
// restore on a list that has Slack's limits while all daemons run: it is
// respected, and the history and the logs say who did it. A minute of this Slack
// has six seconds, so that OTM may call ten times as often.
func TestPeopleUnderSlacksLimits(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "waits for limits of Slack")
	h := newHouse(t)
	b := boardtest.Start(t, func(o *boardtest.Options) {
		o.Limits, o.RowLimit = &board.Limits{Minute: time.Minute / 10}, 1000
		o.Identities = append(o.Identities, board.Identity{Token: "xoxp-alice", UserID: alice, Unlimited: true})
	})
	b.Must(t, "slackLists.access.set", map[string]any{"list_id": b.ListID, "access_level": "write", "user_ids": []string{alice}})
	assignee := b.Column(t, "Assignee", "select")
	edit := func(row string, cells ...boardtest.Cell) {
		t.Helper()
		if err := b.Server.EditRow(alice, b.ListID, row, cells...); err != nil {
			t.Fatal(err)
		}
	}
	sel := func(column, value string) boardtest.Cell {
		return boardtest.SelectCell(b.Column(t, column, "select"), value)
	}
	for _, agent := range []string{"devdas", "runner"} {
		if err := b.Server.AddOption(alice, b.ListID, assignee, agent, agent); err != nil {
			t.Fatal(err)
		}
	}
	title := b.Column(t, "Title", "text")
	text := fmt.Sprintf("[slack]\nlist_id = %q\napi_url = %q\ntoken_file = %q\nbudget = %v\n[times]\nadopt_after = \"1s\"\nsettle_after = \"1s\"\n", b.ListID, b.URL, filepath.Join(h.root, "token"), 10*config.DefaultSlackBudget)
	for _, agent := range []string{"devdas", "runner"} {
		text += fmt.Sprintf("[agents.%s]\nworkspace = %q\ntrigger = \"none\"\n", agent, h.workspaceOf(agent))
	}
	for path, data := range map[string]string{filepath.Join(h.dir, "otm.toml"): text, filepath.Join(h.root, "token"): b.Token} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := storeOf(t, h.dir, "")
	record := store.load
	noted := func(id pipeline.TaskID, what, detail string) func() bool {
		return func() bool {
			return slices.ContainsFunc(store.history(id), func(e view.Line) bool { return e.Who == alice && e.What == what && e.Detail == detail })
		}
	}
	entered := func(agent, text string) func() bool {
		return func() bool {
			data, _ := os.ReadFile(filepath.Join(h.workspaceOf(agent), "task-dispatch.json"))
			return strings.Contains(string(data), text)
		}
	}
	h.start("otm-injector")
	h.start("otm-dispatcher", "--every", "1s")
	h.start("otm-completion-detector", "--every", "1s")

	// A row without an assignee waits, one with it is taken up.
	idle, err := b.Server.AddRow(alice, b.ListID, boardtest.TextCell(title, "For nobody yet"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = b.Server.AddRow(alice, b.ListID, boardtest.TextCell(title, "Typed by hand"), boardtest.SelectCell(assignee, "devdas")); err != nil {
		t.Fatal(err)
	}
	h.waitFor("the typed row is taken up", entered("devdas", "Typed by hand"))
	if first := store.history(1)[0]; first.Who != alice || first.What != "typed on the board" {
		t.Errorf("the history of the typed row begins with %+v", first)
	}

	// What she changes counts. The board names only who touched a row last: she waits
	// until OTM has written it.
	h.must("otm-create", "--title", "Bild it", "--agent", "devdas", "--subtask", "form", "--subtask", "tests", "--subtask", "docs")
	h.waitFor("it is handed out", func() bool { return record(2).Status == pipeline.Assigned && !record(2).Unshown() })
	rec := record(2)
	edit(rec.RowID, boardtest.TextCell(title, "Build it"))
	edit(rec.RowID, sel("Priority", "critical"))
	edit(rec.Steps[0].RowID, boardtest.CheckboxCell(b.Column(t, "Completed", "todo_completed"), true))
	edit(rec.Steps[2].RowID, boardtest.TextCell(title, "manual"))
	h.waitFor("the title is noted", noted(2, "changed title", "to Build it"))
	h.waitFor("the priority is noted", noted(2, "changed priority", "to critical"))
	h.waitFor("the tick is noted", noted(2, "ticked a step", "form"))
	h.waitFor("the new name of a step is noted", noted(2, "renamed a step", "docs to manual"))
	h.waitFor("the agent is told the title", entered("devdas", `"title":"Build it"`))
	h.waitFor("the agent is told the priority", entered("devdas", `"priority":"critical"`))
	h.waitFor("the agent is told the step", entered("devdas", "manual"))
	d := &desk{find: func() (base, token, list string, err error) { return b.URL, "xoxp-alice", b.ListID, nil }} // her calls are not among those that are limited
	h.waitFor("its progress is right", func() bool {                                                             // until then, OTM may write to the row after her
		cards, err := d.cards()
		return err == nil && slices.ContainsFunc(cards, func(c card) bool { return c.ID == rec.RowID && c.cells["subtasks_remaining"] == "2" })
	})
	edit(rec.RowID, sel("Status", "blocked"))
	h.waitFor("the status is noted", noted(2, "changed status", "assigned to blocked"))
	edit(rec.RowID, sel("Status", "new"))
	h.waitFor("it is handed out again", func() bool {
		r := record(2)
		return r.Status == pipeline.Assigned && r.Attempt == 2 && !r.Unshown()
	})
	edit(rec.RowID, boardtest.SelectCell(assignee, "runner"))
	h.waitFor("it is the other agent's", entered("runner", "T-00002"))
	h.waitFor("that she gave it away is noted", noted(2, "assigned", "to runner"))

	// She deletes it while it is under way, and restores it.
	h.must("otm", "next", "--agent", "runner")
	if err := b.Server.DeleteRow(alice, b.ListID, rec.RowID); err != nil {
		t.Fatal(err)
	}
	h.waitFor("it is noticed", func() bool { return !record(2).GoneAt.IsZero() })
	h.waitFor("its entry goes", func() bool { return !entered("runner", "T-00002")() })
	if said := h.must("otm", "why", "T-00002"); !strings.Contains(said, "somebody deleted or archived its row") {
		t.Errorf("otm why says %s", said)
	}
	if err := b.Server.RestoreRow(alice, b.ListID, rec.RowID); err != nil {
		t.Fatal(err)
	}
	h.waitFor("it is back", noted(2, "row back", rec.RowID))
	h.must("otm-update", "--task-id", "2", "--subtask-done", "2", "--subtask-done", "3")
	h.waitFor("it goes on to its end", func() bool {
		if failed, _ := filepath.Glob(filepath.Join(h.dir, "failed", "*.json")); len(failed) > 0 {
			t.Fatalf("the report failed: %s\n%+v", must(os.ReadFile(failed[0])), store.history(2))
		}
		return record(2).Status == pipeline.AgentDone
	})

	for _, c := range must(d.cards()) {
		if c.ID == idle && (c.cells["task_id"] != "" || c.cells["status"] != "") {
			t.Errorf("the row for nobody was taken up: %v", c.cells)
		}
	}
	log := ""
	for _, name := range []string{"otm-injector", "otm-dispatcher", "otm-completion-detector"} {
		log += string(must(os.ReadFile(filepath.Join(h.dir, "logs", name+".log"))))
	}
	for _, want := range []string{`to\":\"Build it`, `to\":\"critical`, `to\":\"blocked`, "StepDone", `to\":\"manual`, `to\":\"runner`, "RowBack"} {
		if !slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
			return strings.Contains(line, "seen on the board") && strings.Contains(line, alice) && strings.Contains(line, want)
		}) {
			t.Errorf("the logs do not say that she %q", want)
		}
	}
	h.waitFor("nothing is wrong", func() bool { // the daemons may have used up the calls that it needs
		said, code, _ := h.run("", "otm", "fsck")
		if code != cli.OK && code != cli.TryLater {
			t.Fatalf("otm fsck: exit %d\n%s", code, said)
		}
		return code == cli.OK
	})
}

func (h *house) workspaceOf(agent string) string {
	return filepath.Join(h.root, map[string]string{"devdas": "ws", "runner": "ws2"}[agent])
}
