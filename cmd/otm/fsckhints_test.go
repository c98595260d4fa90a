package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/pipeline"
	"otm/pipeline/task"
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
	p.check(os.WriteFile(p.path("otm.toml"), bytes.Replace(config, []byte("settle_after = \"1s\""), []byte("adopt_after = \"0s\"\nsettle_after = \"1ms\""), 1), 0o600))
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

func (p *patient) append(name, text string) {
	p.Helper()
	data, err := os.ReadFile(p.path(name))
	p.check(err)
	p.check(os.WriteFile(p.path(name), append(data, text...), 0o600))
}

// change changes a record behind everybody's back.
func (p *patient) change(id pipeline.TaskID, f func(*pipeline.Record)) {
	p.Helper()
	_, err := task.Open(p.dir, nil).Change(context.Background(), id, func(r *pipeline.Record) error {
		f(r)
		return nil
	})
	p.check(err)
}

func (p *patient) record(id pipeline.TaskID) *pipeline.Record {
	p.Helper()
	rec, err := task.Open(p.dir, nil).Load(id)
	p.check(err)
	return rec
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

// drops are the files of a directory whose task is that one.
func (p *patient) drops(dir, id string) (paths []string) {
	p.Helper()
	all, err := filepath.Glob(p.path(dir + "/*.json"))
	p.check(err)
	for _, path := range all {
		data, err := os.ReadFile(path)
		p.check(err)
		var o struct{ TaskID, Title string }
		if json.Unmarshal(data, &o) == nil && o.TaskID == id && o.Title != "" {
			paths = append(paths, path)
		}
	}
	return paths
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
var hintLine = regexp.MustCompile(`(?m)^  → (.*)$`)

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
		if n == looks || code != 3 {
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
	if testing.Short() {
		t.Skip("starts 49 boards")
	}
	clearTyped := map[string]func(*patient){"clear the Task ID of": func(p *patient) { p.clear("typed") }}
	for _, c := range []struct {
		name     string
		spoil    func(*patient)
		finds    string
		byPerson map[string]func(*patient) // hints that are no commands, by a part of them
		gone     string                    // the task that is not there afterwards, as a person wanted it
	}{
		{name: "record broken", spoil: func(p *patient) {
			p.check(os.WriteFile(p.path("tasks/T-00001.json"), []byte("{"), 0o600))
		}, finds: "T-00001: its record cannot be read"},
		{name: "record of an archived task broken", spoil: func(p *patient) {
			p.archive("T-00001")
			p.check(os.WriteFile(p.path("tasks/T-00001.json"), []byte("{"), 0o600))
		}, finds: "its record cannot be read, and there is no row"},
		{name: "record lost", spoil: func(p *patient) {
			p.check(os.Remove(p.path("tasks/T-00002.json")))
		}, finds: "T-00002: it stands on the board, and has no record"},
		{name: "record and row lost", spoil: func(p *patient) {
			p.check(os.Remove(p.path("tasks/T-00002.json")))
			p.removeUnseen("T-00002")
		}, finds: "T-00002: it was brought to the board, and neither board, record nor history knows it"},
		{name: "record knows no row", spoil: func(p *patient) {
			p.change(1, func(r *pipeline.Record) { r.RowID = "" })
		}, finds: "T-00001: a row bears its id, and its record knows none"},
		{name: "row never made", spoil: func(p *patient) {
			p.change(2, func(r *pipeline.Record) { r.RowID, r.Steps[0].RowID, r.Status, r.Dispatch = "", "", "", nil })
			p.removeUnseen("T-00002")
		}, finds: "T-00002: its row was never made, and its create counts as handled"},
		{name: "row never made, create lost", spoil: func(p *patient) {
			p.change(2, func(r *pipeline.Record) { r.RowID, r.Steps[0].RowID, r.Status, r.Dispatch = "", "", "", nil })
			p.removeUnseen("T-00002")
			p.check(os.Remove(p.drops("processed", "T-00002")[0]))
		}, finds: "T-00002: its row was never made, and its create is not there any more"},
		{name: "line of the history broken", spoil: func(p *patient) {
			p.archive("T-00001")
			p.append("history.jsonl", "what is this\n")
		}, finds: "history.jsonl: line 2 is no entry", byPerson: map[string]func(*patient){"mend that line or delete it": func(p *patient) {
			data, err := os.ReadFile(p.path("history.jsonl"))
			p.check(err)
			p.check(os.WriteFile(p.path("history.jsonl"), []byte(strings.TrimSuffix(string(data), "what is this\n")), 0o600))
		}}},
		{name: "history replaced by a directory", spoil: func(p *patient) {
			p.archive("T-00001")
			p.check(os.Remove(p.path("history.jsonl")))
			p.check(os.Mkdir(p.path("history.jsonl"), 0o700))
		}, finds: "the history cannot be read", byPerson: map[string]func(*patient){"make it a file that you can read": func(p *patient) {
			p.check(os.Remove(p.path("history.jsonl")))
		}}},
		{name: "history lost", spoil: func(p *patient) {
			p.archive("T-00001")
			p.check(os.Remove(p.path("history.jsonl")))
		}, finds: "T-00001: it was archived at"},
		{name: "create waits", spoil: func(p *patient) {
			p.must("otm-create", "--title", "Three", "--agent", "devdas")
		}, finds: "still waits in new-tasks"},
		{name: "update applied twice", spoil: func(p *patient) {
			p.change(1, func(r *pipeline.Record) { r.Updates = append(r.Updates, r.Updates[0]) })
		}, finds: "was applied twice"},
		{name: "update unknown", spoil: func(p *patient) {
			p.change(1, func(r *pipeline.Record) { r.Updates = nil })
		}, finds: "was settled as applied, and its record does not know it"},
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
		{name: "row deleted", spoil: func(p *patient) { p.remove("T-00002") }, finds: "T-00002: its row", gone: "Two"},
		{name: "row deleted unseen", spoil: func(p *patient) { p.removeUnseen("T-00002") }, finds: "T-00002: its row", gone: "Two"},
		{name: "row of a finished task deleted", spoil: func(p *patient) {
			p.end("T-00002")
			p.remove("T-00002")
		}, finds: "T-00002: its row", gone: "Two"},
		{name: "step not made", spoil: func(p *patient) {
			p.change(1, func(r *pipeline.Record) { r.Steps[1].RowID = "" })
			p.remove("b")
		}, finds: `T-00001: step 2 "b" does not stand on the board`},
		{name: "step not made, create failed", spoil: func(p *patient) {
			p.change(1, func(r *pipeline.Record) { r.Steps[1].RowID = "" })
			p.remove("b")
			path := p.drops("processed", "T-00001")[0]
			p.check(os.Rename(path, p.path("failed/"+filepath.Base(path))))
		}, finds: `T-00001: step 2 "b" does not stand on the board`},
		{name: "step not made, create lost", spoil: func(p *patient) {
			p.change(1, func(r *pipeline.Record) { r.Steps[1].RowID = "" })
			p.remove("b")
			p.check(os.Remove(p.drops("processed", "T-00001")[0]))
		}, finds: `T-00001: step 2 "b" does not stand on the board`},
		{name: "step has the row of another", spoil: func(p *patient) {
			p.change(1, func(r *pipeline.Record) { r.Steps[1].RowID = r.Steps[0].RowID })
		}, finds: `T-00001: step 2 "b" has the row of another step`},
		{name: "step under another row", spoil: func(p *patient) {
			other := p.record(2).Steps[0].RowID
			p.change(1, func(r *pipeline.Record) { r.Steps[1].RowID = other })
		}, finds: `T-00001: step 2 "b" stands under another row`},
		{name: "two creates became one task", spoil: func(p *patient) {
			data, err := os.ReadFile(p.drops("processed", "T-00002")[0])
			p.check(err)
			id := p.record(2).DropID
			text := strings.NewReplacer(id, "11111111-2222-4333-8444-555555555555", `"Two"`, `"Stranger"`).Replace(string(data))
			p.check(os.WriteFile(p.path("processed/20260101T000000Z-stranger.json"), []byte(text), 0o600))
		}, finds: "T-00002: the drops 20260101T000000Z-stranger.json and ", byPerson: map[string]func(*patient){"otm-injector --once": func(p *patient) {
			if out, code, _ := p.run("", "otm-injector", "--once"); code != 3 {
				p.Errorf("the stranger was taken for the task: exit %d\n%s", code, out)
			}
			p.must("otm", "retry", "--new-id", "20260101T000000Z-stranger.json")
			p.must("otm-injector", "--once")
			if list := p.must("otm", "list", "--all"); !strings.Contains(list, "T-00003") || !strings.Contains(list, "Stranger") {
				p.Errorf("the stranger has no task of its own:\n%s", list)
			}
		}}},
		{name: "step lost on both sides", spoil: func(p *patient) {
			p.change(1, func(r *pipeline.Record) { r.Steps = r.Steps[:1] })
			p.remove("b")
		}, finds: "T-00001: 2 steps were asked for, and it has 1"},
		{name: "step ticked in the record", spoil: func(p *patient) {
			p.change(1, func(r *pipeline.Record) { r.Steps[1].Done = true })
		}, finds: `T-00001: step 2 "b" is done on the board: false, and in its record: true`},
		{name: "step ticked on the board", spoil: func(p *patient) {
			p.check(deskOf(p.dir).set("status", "done", p.rows("b")...))
		}, finds: `T-00001: step 2 "b" is done on the board: true, and in its record: false`},
		{name: "another status in the record", spoil: func(p *patient) {
			p.change(1, func(r *pipeline.Record) { r.Status = pipeline.Blocked })
		}, finds: "T-00001: it is in_progress on the board, and blocked in its record"},
		{name: "another status on the board", spoil: func(p *patient) {
			p.person("T-00001", "blocked")
		}, finds: "T-00001: it is blocked on the board, and in_progress in its record"},
		{name: "done in the record", spoil: func(p *patient) {
			p.change(2, func(r *pipeline.Record) { r.Status = pipeline.Done })
		}, finds: "T-00002: it is assigned on the board, and done in its record"},
		{name: "twice in the history", spoil: func(p *patient) {
			p.archive("T-00001")
			data, err := os.ReadFile(p.path("history.jsonl"))
			p.check(err)
			p.append("history.jsonl", string(data))
		}, finds: "T-00001: it stands twice in history.jsonl", byPerson: map[string]func(*patient){"delete one of its lines": func(p *patient) {
			data, err := os.ReadFile(p.path("history.jsonl"))
			p.check(err)
			p.check(os.WriteFile(p.path("history.jsonl"), data[:len(data)/2], 0o600))
		}}},
		{name: "steps in another order", spoil: func(p *patient) {
			p.must("otm-create", "--title", "Three", "--agent", "devdas", "--subtask", "x", "--subtask", "y", "--subtask", "z")
			p.must("otm-injector", "--once")
			p.must("otm-dispatcher", "--once")
			p.must("otm", "fsck", "--at-rest")
			p.change(3, func(r *pipeline.Record) { slices.Reverse(r.Steps) })
		}, finds: "T-00003: its steps are in another order than was asked for"},
		{name: "step deleted", spoil: func(p *patient) { p.remove("b") }, finds: `T-00001: the row of step 2 "b" is not on the board`},
		{name: "step added", spoil: func(p *patient) {
			title, err := deskOf(p.dir).cell("title", "more")
			if err != nil { // the columns are read with the first cell
				p.Fatal(err)
			}
			data, err := json.Marshal([]any{title})
			p.check(err)
			p.check(deskOf(p.dir).call("slackLists.items.create", url.Values{"parent_item_id": p.rows("T-00001"), "initial_fields": {string(data)}}, nil))
		}, finds: `T-00001: the step "more" on the board is not in its record`},
		{name: "row asked for, nothing waits", spoil: func(p *patient) {
			now := time.Now()
			p.change(1, func(r *pipeline.Record) { r.RowAskedAt = &now })
		}, finds: "T-00001: its row was asked for at"},
		{name: "update half applied, nothing waits", spoil: func(p *patient) {
			p.change(1, func(r *pipeline.Record) { r.Reporting = &pipeline.Report{ID: "x", Drop: "x.json"} })
		}, finds: "T-00001: an update is half applied"},
		{name: "key of a wake used twice", spoil: func(p *patient) {
			p.change(2, func(r *pipeline.Record) {
				w := pipeline.Wake{Attempt: 1, Key: "k", Agent: "devdas"}
				r.Wakes = []pipeline.Wake{w, w}
			})
		}, finds: "T-00002: the key k was used for a wake of T-00002 as well"},
		{name: "attempt of a wake too high", spoil: func(p *patient) {
			p.change(2, func(r *pipeline.Record) { r.Wakes = []pipeline.Wake{{Attempt: 7, Key: "k", Agent: "devdas"}} })
		}, finds: "T-00002: one of its wakes has a higher attempt"},
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
	} {
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
