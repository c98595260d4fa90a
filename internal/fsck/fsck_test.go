package fsck

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/internal/crash/crashtest"
	"otm/internal/explain"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/pipeline/task"
)

// world is a directory with one task in which no problems found, and its
// rows.
type world struct {
	*testing.T
	o  Options
	ws string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, ws: t.TempDir()}
	w.o = Options{Dir: t.TempDir(), Now: time.Now(), Quiet: true, Agents: pipeline.Agents{{Name: "devdas", Label: "devdas", Workspace: w.ws}}}
	for _, name := range []string{"new-tasks", "task-updates", "processed", "failed", "tasks", "keys"} {
		if err := os.Mkdir(filepath.Join(w.o.Dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.write("next-task-id.json", `{"next":2}`)
	w.o.Rows = []pipeline.Row{
		{ID: "Rec1", TaskID: "T-00001", Title: "One", Assignee: "devdas", Status: pipeline.Assigned},
		{ID: "Rec2", Parent: "Rec1", Title: "a"}, {ID: "Rec3", Parent: "Rec1", Title: "b"},
		{ID: "Rec9", Title: "typed by hand"},
	}
	at := w.o.Now.Add(-time.Minute)
	w.change(func(r *pipeline.Record) {
		*r = pipeline.Record{
			TaskID: 1, DropID: "d1", Title: "One", Agent: "devdas", RowID: "Rec1", Status: pipeline.Assigned, Attempt: 1,
			Steps:    []pipeline.StepRecord{{Title: "a", RowID: "Rec2"}, {Title: "b", RowID: "Rec3"}},
			Dispatch: &pipeline.Dispatch{Attempt: 1, Agent: "devdas", Workspace: w.ws, At: at, EntryAt: &at, FlippedAt: &at},
			Wakes:    []pipeline.Wake{{Attempt: 1, Key: "otm-T-00001-devdas-1"}},
			Updates:  []pipeline.Applied{{ID: "u1", Drop: "u1.json"}},
		}
	})
	w.settle(inbox.NewTasks, "t1.json", `{"id":"d1","taskId":"T-00001","title":"One","agent":"devdas","subtasks":["a","b"]}`)
	w.settle(inbox.TaskUpdates, "u1.json", `{"id":"u1","taskId":"T-00001","status":"in_progress"}`)
	w.entries(`{"taskId":"T-00001","agent":"devdas"}`)
	return w
}

func (w *world) write(name, content string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.o.Dir, name), []byte(content), 0o600); err != nil {
		w.Fatal(err)
	}
}

func (w *world) change(f func(*pipeline.Record)) {
	w.Helper()
	_, err := task.Open(w.o.Dir, nil).Change(context.Background(), 1, func(r *pipeline.Record) error {
		f(r)
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) settle(kind inbox.Kind, name, content string) {
	w.Helper()
	o, err := drop.ParseObject([]byte(content))
	if err == nil {
		err = o.Set("_result", map[string]any{"at": "2026-03-14T09:00:00Z", "inbox": kind, "attempts": 1})
	}
	if err != nil {
		w.Fatal(err)
	}
	w.write("processed/"+name, string(o.Bytes()))
}

func (w *world) entries(list ...string) {
	w.Helper()
	data := `{"dispatched":[` + strings.Join(list, ",") + `]}`
	if err := os.WriteFile(filepath.Join(w.ws, "task-dispatch.json"), []byte(data), 0o600); err != nil {
		w.Fatal(err)
	}
}

// neverWoken has the agent be one that is woken, and was not, for so long.
func (w *world) neverWoken(since time.Duration) {
	w.o.Agents[0].Trigger = pipeline.TriggerGateway
	at := w.o.Now.Add(-since)
	w.change(func(r *pipeline.Record) { r.Wakes, r.Dispatch.FlippedAt = nil, &at })
}

// rules are the rules that a look finds broken.
func (w *world) rules() string {
	w.Helper()
	findings, err := Check(w.o)
	if err != nil {
		w.Fatal(err)
	}
	var rules []string
	for _, f := range findings {
		if f.Text == "" || f.Hint == "" {
			w.Errorf("a finding without a word, or a next step: %+v", f)
		}
		rules = append(rules, f.Rule)
	}
	return strings.Join(slices.Compact(rules), "; ")
}

// Each fault is found, and nothing else is.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(*world)
		rule  string
	}{
		{"nothing", func(*world) {}, ""},
		{"two rows", func(w *world) {
			w.o.Rows = append(w.o.Rows, pipeline.Row{ID: "Rec4", TaskID: "T-00001"})
		}, RuleRow},
		{"row gone", func(w *world) { w.o.Rows = w.o.Rows[3:] }, RuleRow},
		{"row gone and said", func(w *world) {
			w.o.Rows = nil
			w.change(func(r *pipeline.Record) { r.GoneAt = &w.o.Now })
		}, ""},
		{"row gone of a finished task", func(w *world) {
			w.o.Rows = nil
			w.change(func(r *pipeline.Record) { r.Status, r.GoneAt = pipeline.Done, &w.o.Now })
			w.entries()
		}, ""},
		{"row gone of a finished task, and nothing noted", func(w *world) {
			w.o.Rows = nil
			w.change(func(r *pipeline.Record) { r.Status = pipeline.Done })
			w.entries()
		}, RuleRow}, // at rest it was
		{"row just gone of a finished task", func(w *world) {
			w.o.Rows, w.o.Quiet = nil, false
			w.change(func(r *pipeline.Record) { r.Status = pipeline.Done })
			w.entries()
		}, ""},
		{"archived", func(w *world) {
			w.o.Rows = nil
			w.entries()
			w.change(func(r *pipeline.Record) { r.Status, r.ArchivedAt = pipeline.Done, &w.o.Now })
			w.write("history.jsonl", `{"taskId":"T-00001"}`)
		}, ""},
		{"archived, and not in the history", func(w *world) {
			w.o.Rows = nil
			w.entries()
			w.change(func(r *pipeline.Record) { r.Status, r.ArchivedAt = pipeline.Done, &w.o.Now })
		}, RuleHistory},
		{"a row that bears the id of an archived task", func(w *world) {
			w.o.Rows = []pipeline.Row{{ID: "Rec4", TaskID: "T-00001", Title: "typed"}}
			w.entries()
			w.change(func(r *pipeline.Record) { r.Status, r.ArchivedAt = pipeline.Done, &w.o.Now })
			w.write("history.jsonl", `{"taskId":"T-00001"}`)
		}, RuleRow},
		{"its id cleared", func(w *world) { w.o.Rows[0].TaskID = "" }, RuleRow},
		{"an id far ahead", func(w *world) {
			w.o.Rows[3].TaskID, w.o.Rows[3].Assignee = "T-999999998", "devdas"
		}, RuleRecord}, // and none of the counter
		{"an id typed into a row that is nobody's yet", func(w *world) { w.o.Rows[3].TaskID = "T-00019"; w.write("next-task-id.json", `{"next":20}`) }, ""},
		{"its id changed to one that was never given", func(w *world) { w.o.Rows[0].TaskID = "T-00009"; w.write("next-task-id.json", `{"next":10}`) }, RuleRow},
		{"lost record of a person's finished task", func(w *world) {
			w.o.Rows[0].Status, w.o.Rows[0].Assignee = pipeline.Done, "Alice"
			os.Remove(filepath.Join(w.o.Dir, "tasks", "T-00001.json"))
		}, ""},
		{"create that failed", func(w *world) {
			w.change(func(r *pipeline.Record) { *r = pipeline.Record{TaskID: 1, DropID: "d1", Status: ""} })
			if err := os.Rename(filepath.Join(w.o.Dir, "processed", "t1.json"), filepath.Join(w.o.Dir, "failed", "t1.json")); err != nil {
				w.Fatal(err)
			}
			os.Remove(filepath.Join(w.o.Dir, "processed", "u1.json"))
			w.o.Rows = nil
			w.entries()
		}, ""},
		{"litter of a retry", func(w *world) {
			w.write("failed/.otm-tmp-1", "x")
			w.o.Now = w.o.Now.Add(2 * time.Hour)
		}, RuleLitter},
		{"no record", func(w *world) { os.Remove(filepath.Join(w.o.Dir, "tasks", "T-00001.json")) }, RuleRecord},
		{"broken record", func(w *world) { w.write("tasks/T-00001.json", "{") }, RuleRecord},
		{"step missing", func(w *world) { w.o.Rows = slices.Delete(w.o.Rows, 1, 2) }, RuleSteps},
		{"step more", func(w *world) { w.o.Rows = append(w.o.Rows, pipeline.Row{ID: "Rec5", Parent: "Rec1", Title: "b"}) }, RuleSteps},
		{"step without a row", func(w *world) { w.change(func(r *pipeline.Record) { r.Steps[1].RowID = "" }) }, RuleSteps},
		{"step under nothing", func(w *world) { w.o.Rows = append(w.o.Rows, pipeline.Row{ID: "Rec5", Parent: "Rec7", Title: "x"}) }, RuleSteps},
		{"dropped and lost", func(w *world) {
			w.settle(inbox.NewTasks, "t2.json", `{"id":"d2","taskId":"T-00001","title":"x","agent":"y"}`)
		}, RuleMerged},
		{"dropped twice under one id of its own", func(w *world) {
			w.settle(inbox.NewTasks, "t2.json", `{"id":"d1","taskId":"T-00001","title":"One","agent":"devdas","subtasks":["a","b"]}`)
		}, ""},
		{"dropped and found to be there", func(w *world) {
			w.write("processed/t2.json", `{"id":"d2","taskId":"T-00001","title":"One","agent":"devdas","_result":{"at":"2026-03-14T09:00:00Z","inbox":"new-tasks","attempts":1,"skippedDuplicate":true}}`)
		}, ""},
		{"dropped and unknown", func(w *world) {
			w.settle(inbox.NewTasks, "t2.json", `{"id":"d2","taskId":"T-00002","title":"x","agent":"y"}`)
			w.write("next-task-id.json", `{"next":3}`)
		}, RuleDropped},
		{"update twice", func(w *world) {
			w.change(func(r *pipeline.Record) {
				r.Updates = append(r.Updates, pipeline.Applied{ID: "u1", Drop: "u9.json"})
			})
		}, RuleUpdates},
		{"update twice, and no drop is left", func(w *world) {
			os.Remove(filepath.Join(w.o.Dir, "processed", "u1.json"))
			w.change(func(r *pipeline.Record) {
				r.Updates = append(r.Updates, pipeline.Applied{ID: "u1", Drop: "u9.json"})
			})
		}, RuleUpdates},
		{"update unknown", func(w *world) {
			w.settle(inbox.TaskUpdates, "u2.json", `{"id":"u2","taskId":"T-00001","status":"in_progress"}`)
		}, RuleUpdates},
		{"key twice", func(w *world) {
			w.change(func(r *pipeline.Record) {
				r.Wakes = append(r.Wakes, pipeline.Wake{Attempt: 1, Key: "otm-T-00001-devdas-1"})
			})
		}, RuleWakes},
		{"attempt too low", func(w *world) { w.change(func(r *pipeline.Record) { r.Wakes[0].Attempt = 7 }) }, RuleWakes},
		{"no entry", func(w *world) { w.entries() }, RuleDispatch},
		{"entry twice", func(w *world) {
			w.entries(`{"taskId":"T-00001","agent":"devdas"}`, `{"taskId":"T-00001","agent":"Devdas"}`)
		}, RuleDispatch},
		{"entry of another", func(w *world) {
			w.entries(`{"taskId":"T-00001","agent":"devdas"}`, `{"taskId":"T-00001","agent":"robin"}`)
		}, RuleDispatch},
		{"entry of a finished task", func(w *world) {
			w.o.Rows[0].Status = pipeline.Done
			w.change(func(r *pipeline.Record) { r.Status = pipeline.Done })
		}, RuleDispatch},
		{"dispatch file broken", func(w *world) { os.WriteFile(filepath.Join(w.ws, "task-dispatch.json"), []byte("{"), 0o600) }, RuleDispatch},
		{"counter low", func(w *world) { w.write("next-task-id.json", `{"next":1}`) }, RuleCounter},
		{"counter broken", func(w *world) { w.write("next-task-id.json", "x") }, RuleCounter},
		{"counter lost", func(w *world) { os.Remove(filepath.Join(w.o.Dir, "next-task-id.json")) }, RuleCounter},
		{"counter below a key", func(w *world) {
			w.write("keys/k.json", `{"key":"k","taskId":"T-00002","file":"t2.json","delivered":true}`)
		}, RuleCounter},
		{"counter below a failed create", func(w *world) {
			w.write("failed/t2.json", `{"id":"d2","taskId":"T-00002","title":"x","agent":"y","_result":{"at":"2026-03-14T09:00:00Z","inbox":"new-tasks","attempts":1,"error":"no","class":"invalid"}}`)
		}, RuleCounter},
		{"archived twice", func(w *world) {
			w.o.Rows = nil
			w.entries()
			w.change(func(r *pipeline.Record) { r.Status, r.ArchivedAt = pipeline.Done, &w.o.Now })
			w.write("history.jsonl", `{"taskId":"T-00001","row":{"id":"Rec1"}}`+"\n"+`{"taskId":"T-00001","row":{"id":"Rec1"}}`+"\n")
		}, RuleHistory},
		{"archived, opened again, and archived", func(w *world) {
			w.o.Rows = nil
			w.entries()
			w.change(func(r *pipeline.Record) { r.Status, r.ArchivedAt = pipeline.Done, &w.o.Now })
			w.write("history.jsonl", `{"taskId":"T-00001","row":{"id":"Rec1","updated":1}}`+"\n"+`{"taskId":"T-00001","row":{"id":"Rec1","updated":2}}`+"\n")
		}, ""},
		{"steps in another order", func(w *world) {
			w.change(func(r *pipeline.Record) { slices.Reverse(r.Steps) })
		}, RuleSteps},
		{"titles that a person may have exchanged", func(w *world) {
			w.o.Rows[1].Updated = 1
			w.change(func(r *pipeline.Record) { slices.Reverse(r.Steps) })
		}, ""},
		{"step lost on both sides", func(w *world) {
			w.o.Rows = slices.Delete(w.o.Rows, 1, 2)
			w.change(func(r *pipeline.Record) { r.Steps = r.Steps[1:] })
		}, RuleSteps},
		{"step deleted by a person", func(w *world) {
			w.o.Rows = slices.Delete(w.o.Rows, 1, 2)
			w.change(func(r *pipeline.Record) {
				r.Steps = r.Steps[1:]
				r.Note(w.o.Now, pipeline.WhoBoard, "step deleted", "a")
			})
		}, ""},
		{"step of a record that was made anew", func(w *world) {
			w.o.Rows = slices.Delete(w.o.Rows, 1, 2)
			w.change(func(r *pipeline.Record) {
				r.Steps = r.Steps[1:]
				r.Note(w.o.Now, "otm-dispatcher", pipeline.EventRebuilt, "Rec1")
			})
		}, ""},
		{"ticked in the record", func(w *world) { w.change(func(r *pipeline.Record) { r.Steps[0].Done = true }) }, RuleSeen},
		{"ticked on the board", func(w *world) { w.o.Rows[1].Checked = true }, RuleSeen},
		{"ticked on the board just now", func(w *world) { w.o.Rows[1].Checked, w.o.Quiet = true, false }, ""},
		{"another status on the board", func(w *world) { w.o.Rows[0].Status = pipeline.InProgress }, RuleSeen},
		{"another status of a row that is a person's", func(w *world) {
			w.o.Rows[0].Status, w.o.Rows[0].Assignee = pipeline.Done, "Alice"
		}, ""},
		{"never woken", func(w *world) { w.neverWoken(48 * time.Hour) }, RuleWoken},
		{"not woken yet", func(w *world) { w.neverWoken(time.Hour) }, ""},
		{"never woken, as it looks by itself", func(w *world) {
			w.neverWoken(48 * time.Hour)
			w.o.Agents[0].Trigger = pipeline.TriggerNone
		}, ""},
		{"never woken, and taken", func(w *world) {
			w.neverWoken(48 * time.Hour)
			w.change(func(r *pipeline.Record) { r.Dispatch.TakenAt = &w.o.Now })
		}, ""},
		{"woken for another task", func(w *world) {
			w.neverWoken(48 * time.Hour)
			w.write("next-task-id.json", `{"next":3}`)
			w.o.Rows = append(w.o.Rows, pipeline.Row{ID: "Rec7", TaskID: "T-00002", Assignee: "devdas", Status: pipeline.Done})
			w.write("tasks/T-00002.json", `{"taskId":"T-00002","dropId":"d2","title":"Two","rowId":"Rec7","status":"done","attempt":1,"steps":[],"wakes":[{"attempt":1,"key":"k2","agent":"devdas","via":"gateway","askedAt":"`+w.o.Now.Add(-time.Hour).UTC().Format(time.RFC3339)+`"}]}`)
		}, ""},
		{"row asked for", func(w *world) { w.change(func(r *pipeline.Record) { r.RowAskedAt = &w.o.Now }) }, RuleHalfMade},
		{"update half applied", func(w *world) { w.change(func(r *pipeline.Record) { r.Reporting = &pipeline.Report{ID: "u2"} }) }, RuleHalfMade},
		{"drop waits", func(w *world) { w.write("new-tasks/x.json", `{"taskId":"T-00001"}`) }, RuleHalfMade},
		{"litter", func(w *world) {
			w.write("tasks/.otm-tmp-1", "x")
			old := w.o.Now.Add(-2 * time.Hour)
			os.Chtimes(filepath.Join(w.o.Dir, "tasks", ".otm-tmp-1"), old, old)
		}, RuleLitter},
		{"C29 taken aside by a crash", func(w *world) {
			w.write("new-tasks/.otm-taken-0000000000000000-zz.json", "x")
			w.o.Now = w.o.Now.Add(2 * time.Hour)
		}, RuleLitter},
		{"history broken", func(w *world) { w.write("history.jsonl", "x\n") }, RuleHistory},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.spoil(w)
			if got := w.rules(); got != c.rule {
				findings, _ := Check(w.o)
				t.Errorf("found %q, want %q: %s", got, c.rule, fmt.Sprint(findings))
			}
		})
	}
}

// Whatever its path looks like, a directory is searched; before the first task
// there are no records.
func TestRecordsSetAside(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a[b]*c?")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := &check{&facts{Options: Options{Dir: dir}, store: task.Open(dir, nil)}}
	if err := c.readRecords(); err != nil || len(c.findings) != 0 {
		t.Errorf("without records: %+v, %v", c.findings, err)
	}
	w := &world{T: t, o: Options{Dir: dir}}
	if err := os.Mkdir(filepath.Join(dir, "tasks"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.write("tasks/T-00001.json.corrupt-1", "{")
	if err := c.readRecords(); err != nil || len(c.findings) != 1 || c.findings[0].Rule != RuleRecord {
		t.Errorf("with one that was set aside: %+v, %v", c.findings, err)
	}
}

// Of a history that cannot be read nobody knows whether it has what is archived.
func TestHistoryUnread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.o.Rows = nil
	w.entries()
	w.change(func(r *pipeline.Record) { r.Status, r.ArchivedAt = pipeline.Done, &w.o.Now })
	if err := os.Mkdir(filepath.Join(w.o.Dir, "history.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	findings, err := Check(w.o)
	if err != nil || len(findings) != 1 || findings[0].Rule != RuleHistory || findings[0].Repair != "" {
		t.Errorf("%+v, %v", findings, err)
	}
}

// What is under way is no fault while something runs.
func TestCheckWhileRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.o.Quiet = false
	w.write("new-tasks/x.json", `{"id":"d5","taskId":"T-00005","title":"x","agent":"devdas"}`)
	w.write("next-task-id.json", `{"next":6}`)
	w.change(func(r *pipeline.Record) { r.RowAskedAt, r.Steps[1].RowID = &w.o.Now, "" })
	w.entries()
	if got := w.rules(); got != "" {
		t.Errorf("found %q", got)
	}
}

// TestC46SilentWorkspace: a workspace whose file system does not answer is named, and
// the rest is looked at.
func TestC46SilentWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	crashtest.Hang(t, w.ws)
	w.write("tasks/.otm-tmp-1", "x")
	old := w.o.Now.Add(-3 * time.Hour)
	if err := os.Chtimes(filepath.Join(w.o.Dir, "tasks", ".otm-tmp-1"), old, old); err != nil {
		t.Fatal(err)
	}
	findings, err := Check(w.o)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []explain.Code{explain.WorkspaceSilent, explain.Litter} {
		if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Code == want }) {
			t.Errorf("no %s in %s", want, fmt.Sprint(findings))
		}
	}
}

// TestC46SilentFormerWorkspace: the record of a task names a former workspace that
// does not answer. It is named, and nothing is claimed about its entries.
func TestC46SilentFormerWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	former := t.TempDir()
	w.change(func(r *pipeline.Record) { r.Dispatch.Workspace = former })
	hung := crashtest.Hang(t, former)
	findings, err := Check(w.o)
	if err != nil || len(findings) != 1 || findings[0].Code != explain.WorkspaceSilent || findings[0].Args["path"] != former {
		t.Errorf("%+v, %v", findings, err)
	}
	if hung.Load() != 1 {
		t.Errorf("%d steps hang", hung.Load())
	}
}
