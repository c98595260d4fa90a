package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"otm/core/store"
	"otm/internal/crash/crashtest"
	"otm/internal/sqlite"
)

// patient is a house in which one task, T-00001, is dispatched and was reported
// on, another, T-00002, is dispatched, and no problems found. Then something
// is spoilt.
type patient struct{ *house }

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{newHouse(t)}
	p.within = true
	config, err := os.ReadFile(p.path("otm.toml"))
	p.check(err)
	p.check(os.WriteFile(p.path("otm.toml"), bytes.Replace(config, []byte("settle_after = \"1s\""), []byte("adopt_after = \"0s\"\nredeliver_after = \"1ms\"\nsettle_after = \"1ms\""), 1), 0o600))
	p.startBoard("")
	p.must("otm-create", "--title", "One", "--agent", "devdas", "--subtask", "a", "--subtask", "b")
	p.must("otm-create", "--title", "Two", "--agent", "devdas")
	p.must("otm-injector", "--once")
	p.must("otm-dispatcher", "--once")
	p.must("otm", "next", "--agent", "devdas")
	p.must("otm-update", "--task-id", "1", "--subtask-done", "a")
	p.must("otm-injector", "--once")
	p.must("otm", "fsck", "--at-rest")
	return p
}

func (p *patient) path(name string) string { return filepath.Join(p.dir, name) }

func (p *patient) check(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// sql changes the database behind everybody's back.
func (p *patient) sql(statements ...string) {
	p.Helper()
	db, err := sqlite.Open(p.Context(), p.path(store.FileName), sqlite.Options{})
	p.check(err)
	defer db.Close()
	p.check(db.Write(p.Context(), func(t *sqlite.Tx) error {
		for _, statement := range statements {
			if _, err := t.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	}))
}

// forget takes a task out of the store, as an older backup does.
func (p *patient) forget(id int) {
	p.Helper()
	var all []string
	for _, table := range []string{"events", "tasks", "commands", "outbox"} {
		column := map[string]string{"tasks": "id"}[table]
		all = append(all, fmt.Sprintf("DELETE FROM %s WHERE %s = %d", table, cmp.Or(column, "task"), id))
	}
	p.sql(all...)
}

// end has a person finish a task, and has that seen.
func (p *patient) end(id string) {
	p.Helper()
	p.person(id, "done")
	p.must("otm-dispatcher", "--once")
	p.must("otm", "fsck", "--at-rest")
}

func (p *patient) archive(id string) {
	p.Helper()
	p.end(id)
	p.must("otm", "archive", "--older-than", "0d", "--yes")
}

// rows are the ids of the rows that bear a task's id or have a title.
func (p *patient) rows(what string) (ids []string) {
	p.Helper()
	cards, err := deskOf(p.dir).cards()
	p.check(err)
	for _, c := range cards {
		if c.cells["task_id"] == what || c.cells["title"] == what {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func (p *patient) remove(what string) {
	p.Helper()
	for _, row := range p.rows(what) {
		p.check(deskOf(p.dir).remove(row))
	}
}

// removeUnseen deletes a row, and lets nobody know that it was there.
func (p *patient) removeUnseen(what string) {
	p.Helper()
	p.remove(what)
	p.check(os.Remove(p.path("board/snapshot.json")))
}

// clear clears the Task ID of the row that has a title.
func (p *patient) clear(title string) {
	p.Helper()
	p.check(deskOf(p.dir).set("task_id", "", p.rows(title)...))
}

func (p *patient) types(pairs ...string) {
	p.Helper()
	p.check(deskOf(p.dir).add(pairs...))
}

// dispatchFile changes the dispatch file of the agent.
func (p *patient) dispatchFile(f func(text string) string) {
	p.Helper()
	path := filepath.Join(p.root, "ws", "task-dispatch.json")
	data, err := os.ReadFile(path)
	p.check(err)
	p.check(os.WriteFile(path, []byte(f(string(data))), 0o600))
}

// entries changes the list in it.
func (p *patient) entries(f func(list []any) []any) {
	p.Helper()
	p.dispatchFile(func(text string) string {
		var file map[string]any
		p.check(json.Unmarshal([]byte(text), &file))
		file["dispatched"] = f(file["dispatched"].([]any))
		data, err := json.Marshal(file)
		p.check(err)
		return string(data)
	})
}

// hintLine is a hint as fsck prints it.
var hintLine = regexp.MustCompile(`(?m)^(?:  →|otm: hint:) (.*)$`)

// follow does what a hint says: runs it, or has a person do it.
func (p *patient) follow(hint string, byPerson map[string]func(*patient)) {
	p.Helper()
	for what, do := range byPerson {
		if strings.Contains(hint, what) {
			do(p)
			return
		}
	}
	cmd := exec.Command("sh", "-c", hint)
	cmd.Env = append(p.command("", "otm").Env, "PATH="+p.bin+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		p.Errorf("%s: %v\n%s", hint, err, out)
	}
}

// healed follows the hints until nothing is found any more.
func (p *patient) healed(byPerson map[string]func(*patient)) {
	p.Helper()
	const looks = 4
	for n := 1; ; n++ {
		out, code, _ := p.run("", "otm", "fsck", "--at-rest")
		if code == 0 {
			return
		}
		if n == looks || code != 3 && code != 1 {
			p.Fatalf("look %d: exit %d:\n%s", n, code, out)
		}
		hints := hintLine.FindAllStringSubmatch(out, -1)
		if len(hints) == 0 {
			p.Fatalf("no hint: %s", out)
		}
		for _, h := range hints {
			p.follow(h[1], byPerson)
		}
	}
}

// TestFsckHints: what fsck says to do helps, to the letter, and loses no task.
func TestFsckHints(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "starts 50 boards")
	clearTyped := map[string]func(*patient){"clear the Task ID of": func(p *patient) { p.clear("typed") }}
	for _, c := range crashtest.Some(t, []struct {
		name     string
		spoil    func(*patient)
		finds    string
		byPerson map[string]func(*patient) // hints that are no commands, by a part of them
		gone     string                    // the task that is not there afterwards, as a person wanted it
	}{
		{name: "state broken", spoil: func(p *patient) {
			p.sql("UPDATE tasks SET doc = '{' WHERE id = 1")
		}, finds: "a state in the database is damaged: of a task"},
		{name: "state lost", spoil: func(p *patient) {
			p.sql("DELETE FROM tasks WHERE id = 2")
		}, finds: "T-00002: the rendering does not show it"}, // it was taken from the board
		{name: "state of an archived task lost", spoil: func(p *patient) {
			p.archive("T-00001")
			p.sql("DELETE FROM tasks WHERE id = 1")
		}, finds: "the tables say otherwise than the events: "},
		{name: "state knows no row", spoil: func(p *patient) {
			p.sql("UPDATE tasks SET row_id = '', doc = json_remove(doc, '$.rowId') WHERE id = 1")
		}, finds: "the tables say otherwise than the events: "},
		{name: "archive lost", spoil: func(p *patient) {
			p.sql("INSERT INTO archives (last, first, day, until_at, sum) VALUES (1, 1, '2026-01-01', 0, '')")
		}, finds: "events-2026-01-01.ndjson.gz", byPerson: map[string]func(*patient){"back from a backup": func(p *patient) { p.sql("DELETE FROM archives") }}},
		{name: "task and row lost", spoil: func(p *patient) {
			p.forget(2)
			p.removeUnseen("T-00002")
		}, finds: "T-00002: it was brought to the board, and neither board nor store knows it"},
		{name: "task lost", spoil: func(p *patient) {
			p.forget(2)
		}, finds: "T-00002: the rendering does not show it"}, // the same
		{name: "create waits", spoil: func(p *patient) {
			p.must("otm-create", "--title", "Three", "--agent", "devdas")
		}, finds: "still waits in new-tasks"},
		{name: "update unknown", spoil: func(p *patient) {
			p.sql("DELETE FROM commands WHERE task = 1 AND sum <> '' AND id NOT IN (SELECT cause FROM events WHERE type = 'TaskRequested')")
		}, finds: "was settled as applied, and the store does not know it"},
		{name: "two rows", spoil: func(p *patient) {
			p.types("title", "typed", "task_id", "T-00001", "assignee", "devdas")
		}, finds: "T-00001: 2 rows bear its id", byPerson: clearTyped},
		{name: "two rows, one deleted", spoil: func(p *patient) {
			p.types("title", "typed", "task_id", "T-00001", "assignee", "devdas")
		}, finds: "T-00001: 2 rows bear its id", byPerson: map[string]func(*patient){"or delete them": func(p *patient) { p.remove("typed") }}},
		{name: "id of an archived task typed", spoil: func(p *patient) {
			p.archive("T-00001")
			p.types("title", "typed", "task_id", "T-00001", "assignee", "devdas")
		}, finds: `T-00001: the row "typed" bears its id, and is not its row: it was archived, see otm history T-00001`, byPerson: clearTyped},
		{name: "id of a deleted task typed", spoil: func(p *patient) {
			p.remove("T-00002")
			p.must("otm", "fsck", "--repair")
			p.types("title", "typed", "task_id", "T-00002", "assignee", "devdas")
		}, finds: `T-00002: the row "typed" bears its id, and is not its row: that was deleted`, byPerson: clearTyped, gone: "Two"},
		{name: "id typed into a row that is nobody's yet", spoil: func(p *patient) {
			p.types("title", "typed", "task_id", "T-00050")
		}},
		{name: "id cleared", spoil: func(p *patient) { p.clear("One") }, finds: `T-00001: the Task ID of its row "One" is empty`},
		{name: "id changed", spoil: func(p *patient) {
			p.check(deskOf(p.dir).set("task_id", "T-00077", p.rows("One")...))
		}, finds: `T-00001: the Task ID of its row "One" says "T-00077"`},
		{name: "row deleted", spoil: func(p *patient) { p.remove("T-00002") }, finds: "T-00002: the dispatch file does not show it", gone: "Two"},
		{name: "row deleted unseen", spoil: func(p *patient) { p.removeUnseen("T-00002") }, finds: "T-00002: the dispatch file does not show it", gone: "Two"},
		{name: "row of a finished task deleted", spoil: func(p *patient) {
			p.end("T-00002")
			p.remove("T-00002")
		}, gone: "Two"},
		{name: "step ticked on the board", spoil: func(p *patient) {
			p.check(deskOf(p.dir).set("status", "done", p.rows("b")...))
		}, finds: "T-00001: the rendering does not show it"},
		{name: "another status in the tables", spoil: func(p *patient) {
			p.sql("UPDATE tasks SET status = 'blocked', doc = json_set(doc, '$.status', 'blocked') WHERE id = 1")
		}, finds: "the tables say otherwise than the events: "},
		{name: "another status on the board", spoil: func(p *patient) {
			p.person("T-00001", "blocked")
		}, finds: "T-00001: the rendering does not show it"},
		{name: "step deleted", spoil: func(p *patient) { p.remove("b") }, finds: "T-00001: the rendering does not show it"},
		{name: "step added", spoil: func(p *patient) {
			title, err := deskOf(p.dir).cell("title", "more")
			if err != nil { // the columns are read with the first cell
				p.Fatal(err)
			}
			data, err := json.Marshal([]any{title})
			p.check(err)
			p.check(deskOf(p.dir).call("slackLists.items.create", url.Values{"parent_item_id": p.rows("T-00001"), "initial_fields": {string(data)}}, nil))
		}, finds: "T-00001: the rendering does not show it"},
		{name: "no entry", spoil: func(p *patient) {
			p.check(os.Remove(filepath.Join(p.root, "ws", "task-dispatch.json")))
		}, finds: "T-00002: it is assigned to devdas, and has no entry in"},
		{name: "dispatch file broken", spoil: func(p *patient) {
			p.dispatchFile(func(string) string { return "{" })
		}, finds: "the dispatch file in"},
		{name: "entry of another", spoil: func(p *patient) {
			p.dispatchFile(func(text string) string { return strings.ReplaceAll(text, `"devdas"`, `"runner"`) })
		}, finds: "T-00002: it is devdas's, and has an entry of runner"},
		{name: "entry twice", spoil: func(p *patient) {
			p.entries(func(list []any) []any { return append(list, list...) })
		}, finds: "T-00002: it has 2 entries in", byPerson: map[string]func(*patient){"delete all but one of them": func(p *patient) {
			p.entries(func(list []any) []any { return list[:2] }) // of both tasks
		}}},
		{name: "entry of a finished task", spoil: func(p *patient) {
			before := ""
			p.dispatchFile(func(text string) string { before = text; return text })
			p.end("T-00002")
			p.dispatchFile(func(string) string { return before })
		}, finds: "T-00002: it is done, and has an entry in"},
		{name: "litter", spoil: func(p *patient) {
			path, old := p.path("failed/.otm-tmp-1"), time.Now().Add(-2*time.Hour)
			p.check(os.WriteFile(path, nil, 0o600))
			p.check(os.Chtimes(path, old, old))
		}, finds: "a crashed writer left"},
	}, 16) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			c.spoil(p)
			out, code, _ := p.run("", "otm", "fsck", "--at-rest")
			if !strings.Contains(out, c.finds) || (code == 0) != (c.finds == "") {
				t.Fatalf("exit %d: %s\nwant %q", code, out, c.finds)
			}
			p.healed(c.byPerson)
			known := p.must("otm", "list", "--all", "--json") + p.must("otm", "history", "--json")
			for _, title := range []string{"One", "Two"} {
				if there := strings.Contains(known, `"`+title+`"`); there != (c.gone != title) {
					t.Errorf("%s is there: %v\n%s", title, there, known)
				}
			}
		})
	}
}
