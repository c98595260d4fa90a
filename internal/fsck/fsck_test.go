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

	"otm/core"
	"otm/core/store"
	"otm/internal/crash/crashtest"
	"otm/internal/explain"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// world is a directory with one task in which nothing is wrong, and its rows.
type world struct {
	*testing.T
	o     Options
	ws    string
	task  *core.Task // nil: there is none
	also  []core.Task
	did   []string       // ids of the updates that the task carried out
	waits []core.Pending // effects that are not delivered
	wrong []string       // what the tables say otherwise than the events
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, ws: t.TempDir(), did: []string{"u1"}}
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
	w.task = &core.Task{
		ID: 1, DropID: "d1", Title: "One", Agent: "devdas", RowID: "Rec1", Status: pipeline.Assigned, Attempt: 1,
		Steps:    []core.Step{{ID: 1, Title: "a", RowID: "Rec2"}, {ID: 2, Title: "b", RowID: "Rec3"}},
		Dispatch: &core.Dispatch{Attempt: 1, Agent: "devdas", Workspace: w.ws, At: at, FlippedAt: at},
		Wakes:    []core.Wake{{Attempt: 1, Key: "otm-T-00001-devdas-1"}},
	}
	w.settle(inbox.NewTasks, "t1.json", `{"id":"d1","taskId":"T-00001","title":"One","agent":"devdas","subtasks":["a","b"]}`)
	w.settle(inbox.TaskUpdates, "u1.json", `{"id":"u1","taskId":"T-00001","status":"in_progress"}`)
	w.entries(`{"taskId":"T-00001","agent":"devdas"}`)
	return w
}

// testStore is a store that holds what a world says.
type testStore struct {
	*store.Store
	w *world
}

func (s testStore) Pending(context.Context, core.Sink, ...pipeline.TaskID) ([]core.Pending, error) {
	return s.w.waits, nil
}

func (s testStore) Differs(context.Context) ([]string, error) { return s.w.wrong, nil }

// open makes the store of the world, which is closed when the test ends.
func (w *world) open() {
	w.Helper()
	db, err := store.Open(w.Context(), w.TempDir(), store.Options{})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { db.Close() })
	tasks := w.also
	if w.task != nil {
		tasks = append(slices.Clone(tasks), *w.task)
	}
	for _, task := range tasks {
		imported := core.Import{Imported: core.Imported{Task: task}}
		if w.task != nil && task.ID == w.task.ID {
			for _, id := range w.did {
				imported.Did = append(imported.Did, core.Done{ID: core.DropCommand(id, task.ID), Task: task.ID, At: w.o.Now})
			}
		}
		outcomes, err := db.Do(w.Context(), core.Command{At: w.o.Now, Task: task.ID, Do: imported})
		if err == nil {
			err = outcomes[0].Err
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	w.o.Store = testStore{db, w}
}

// check runs all checks on the world as it is.
func (w *world) check() ([]Finding, error) {
	w.Helper()
	w.open()
	return Check(w.Context(), w.o)
}

func (w *world) write(name, content string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.o.Dir, name), []byte(content), 0o600); err != nil {
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

// rules are the rules that a look finds broken.
func (w *world) rules() string {
	w.Helper()
	findings, err := w.check()
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
			w.task.GoneAt = w.o.Now
		}, ""},
		{"row gone of a finished task", func(w *world) {
			w.o.Rows = nil
			w.task.Status, w.task.GoneAt = pipeline.Done, w.o.Now
			w.entries()
		}, ""},
		{"row gone of a finished task, and nothing noted", func(w *world) {
			w.o.Rows = nil
			w.task.Status = pipeline.Done
			w.entries()
		}, RuleRow}, // at rest it was
		{"row just gone of a finished task", func(w *world) {
			w.o.Rows, w.o.Quiet = nil, false
			w.task.Status = pipeline.Done
			w.entries()
		}, ""},
		{"archived", func(w *world) {
			w.o.Rows = nil
			w.entries()
			w.task.Status, w.task.ArchivedAt = pipeline.Done, w.o.Now
		}, ""},
		{"a row that bears the id of an archived task", func(w *world) {
			w.o.Rows = []pipeline.Row{{ID: "Rec4", TaskID: "T-00001", Title: "typed"}}
			w.entries()
			w.task.Status, w.task.ArchivedAt = pipeline.Done, w.o.Now
		}, RuleRow},
		{"its id cleared", func(w *world) { w.o.Rows[0].TaskID = "" }, RuleRow},
		{"an id typed into a row that is nobody's yet", func(w *world) { w.o.Rows[3].TaskID = "T-00019"; w.write("next-task-id.json", `{"next":20}`) }, ""},
		{"its id changed to one that was never given", func(w *world) { w.o.Rows[0].TaskID = "T-00009"; w.write("next-task-id.json", `{"next":10}`) }, RuleRow},
		{"an unknown id far ahead", func(w *world) { // its row becomes a task
			w.o.Rows[3].TaskID, w.o.Rows[3].Assignee = "T-999999998", "devdas"
		}, ""}, // and it says nothing of the counter
		{"create that failed", func(w *world) {
			w.task = nil
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
		{"step missing", func(w *world) { w.o.Rows = slices.Delete(w.o.Rows, 1, 2) }, RuleSteps},
		{"step more", func(w *world) { w.o.Rows = append(w.o.Rows, pipeline.Row{ID: "Rec5", Parent: "Rec1", Title: "b"}) }, RuleSteps},
		{"step under nothing", func(w *world) { w.o.Rows = append(w.o.Rows, pipeline.Row{ID: "Rec5", Parent: "Rec7", Title: "x"}) }, RuleSteps},
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
		{"update unknown", func(w *world) {
			w.settle(inbox.TaskUpdates, "u2.json", `{"id":"u2","taskId":"T-00001","status":"in_progress"}`)
		}, RuleUpdates},
		{"no entry", func(w *world) { w.entries() }, RuleDispatch},
		{"entry twice", func(w *world) {
			w.entries(`{"taskId":"T-00001","agent":"devdas"}`, `{"taskId":"T-00001","agent":"Devdas"}`)
		}, RuleDispatch},
		{"entry of another", func(w *world) {
			w.entries(`{"taskId":"T-00001","agent":"devdas"}`, `{"taskId":"T-00001","agent":"robin"}`)
		}, RuleDispatch},
		{"entry of a finished task", func(w *world) {
			w.o.Rows[0].Status = pipeline.Done
			w.task.Status = pipeline.Done
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
		{"a step that the task does not have", func(w *world) {
			w.o.Rows = append(w.o.Rows, pipeline.Row{ID: "Rec5", Parent: "Rec1", Title: "c"})
		}, RuleSteps},
		{"step deleted by a person", func(w *world) {
			w.o.Rows = slices.Delete(w.o.Rows, 1, 2)
			w.task.Steps = w.task.Steps[1:]
		}, ""},
		{"ticked in the store", func(w *world) { w.task.Steps[0].Done = true }, RuleShown},
		{"ticked on the board", func(w *world) { w.o.Rows[1].Checked = true }, RuleShown},
		{"ticked on the board just now", func(w *world) { w.o.Rows[1].Checked, w.o.Quiet = true, false }, ""},
		{"another status on the board", func(w *world) { w.o.Rows[0].Status = pipeline.InProgress }, RuleShown},
		{"an archive that is damaged", func(w *world) { w.o.Bad = []core.BadArchive{{Why: "it is damaged", Do: "put it back"}} }, RuleArchive},
		{"tables that differ from the events", func(w *world) { w.wrong = []string{"tasks T-00001: title is missing"} }, RuleStore},
		{"an effect that waits", func(w *world) { w.waits = []core.Pending{{Task: 1, Sink: core.SinkBoard, Since: w.o.Now}} }, RuleHalfMade},
		{"an effect that waits, while something runs", func(w *world) {
			w.waits, w.o.Quiet = []core.Pending{{Task: 1, Sink: core.SinkBoard, Since: w.o.Now.Add(-time.Hour)}}, false
		}, ""},
		{"an effect that fails for long, while something runs", func(w *world) {
			w.waits, w.o.Quiet = []core.Pending{{Task: 1, Sink: core.SinkBoard, Since: w.o.Now.Add(-time.Hour), Tries: 3, Error: "no"}}, false
		}, RuleHalfMade},
		{"an effect that failed a moment ago, while something runs", func(w *world) {
			w.waits, w.o.Quiet = []core.Pending{{Task: 1, Sink: core.SinkBoard, Since: w.o.Now, Tries: 1, Error: "no"}}, false
		}, ""},
		{"drop waits", func(w *world) { w.write("new-tasks/x.json", `{"taskId":"T-00001"}`) }, RuleHalfMade},
		{"litter", func(w *world) {
			w.write("tasks/.otm-tmp-1", "x")
			old := w.o.Now.Add(-2 * time.Hour)
			os.Chtimes(filepath.Join(w.o.Dir, "tasks", ".otm-tmp-1"), old, old)
		}, RuleLitter},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.spoil(w)
			if got := w.rules(); got != c.rule {
				findings, _ := w.check()
				t.Errorf("found %q, want %q: %s", got, c.rule, fmt.Sprint(findings))
			}
		})
	}
}

// What is under way is no fault while something runs.
func TestCheckWhileRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.o.Quiet = false
	w.write("new-tasks/x.json", `{"id":"d5","taskId":"T-00005","title":"x","agent":"devdas"}`)
	w.write("next-task-id.json", `{"next":6}`)
	w.task.Steps[1].RowID = ""
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
	findings, err := w.check()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []explain.Code{explain.WorkspaceSilent, explain.Litter} {
		if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Code == want }) {
			t.Errorf("no %s in %s", want, fmt.Sprint(findings))
		}
	}
}

// TestC46SilentFormerWorkspace: a task names a former workspace that
// does not answer. It is named, and nothing is claimed about its entries.
func TestC46SilentFormerWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	former := t.TempDir()
	w.task.Dispatch.Workspace = former
	hung := crashtest.Hang(t, former)
	findings, err := w.check()
	if err != nil || len(findings) != 1 || findings[0].Code != explain.WorkspaceSilent || findings[0].Args["path"] != former {
		t.Errorf("%+v, %v", findings, err)
	}
	if hung.Load() != 1 {
		t.Errorf("%d steps hang", hung.Load())
	}
}
