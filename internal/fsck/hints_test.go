package fsck

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/pipeline"
	"otm/pipeline/inbox"
)

// move has a file of the directory lie elsewhere in it.
func (w *world) move(from, to string) {
	w.Helper()
	if err := os.Rename(filepath.Join(w.o.Dir, from), filepath.Join(w.o.Dir, to)); err != nil {
		w.Fatal(err)
	}
}

// rowless has the record know no row, and nothing be done for it yet.
func (w *world) rowless() {
	w.Helper()
	w.entries()
	w.change(func(r *pipeline.Record) {
		*r = pipeline.Record{TaskID: 1, DropID: r.DropID, Title: "One task", Agent: "devdas", Priority: "high", Type: "review", Project: "it's",
			Steps: []pipeline.StepRecord{{Title: "a"}, {Title: "b c"}}}
	})
	if err := os.Remove(filepath.Join(w.o.Dir, "processed", "u1.json")); err != nil {
		w.Fatal(err)
	}
}

// What is to be done about a fault depends on what is left: each time it is what
// helps, and what nobody can mend is not said to be mended by a run.
func TestWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		spoil  func(*world)
		rule   string
		repair Repair
		text   string // in what is said
		hint   string // in what is to be done
	}{
		{"a broken record, and no row", func(w *world) {
			w.write("tasks/T-00001.json", "{")
			w.o.Rows = nil
			w.entries()
		}, RuleRecord, "", "there is no row to make it anew from", "mv %s/tasks/T-00001.json %s/tasks/T-00001.json.corrupt-0"},
		{"a broken record, and a row", func(w *world) { w.write("tasks/T-00001.json", "{") },
			RuleRecord, RunAgain, "its record cannot be read", "otm-dispatcher --once"},
		{"two rows, and no record", func(w *world) {
			w.o.Rows = append(w.o.Rows, pipeline.Row{ID: "Rec4", TaskID: "T-00001"})
			w.write("tasks/T-00001.json", "{")
		}, RuleRow, "", "2 rows bear its id: Rec1, Rec4", "clear the Task ID of those that are not it"},
		{"two rows", func(w *world) { w.o.Rows = append(w.o.Rows, pipeline.Row{ID: "Rec4", TaskID: "T-00001"}) },
			RuleRow, "", "Rec1, Rec4", "all but Rec1"},
		{"a row that bears the id of one that was deleted", func(w *world) {
			w.o.Rows = []pipeline.Row{{ID: "Rec9", TaskID: "T-00001", Title: "typed"}}
			w.entries()
			w.change(func(r *pipeline.Record) { r.GoneAt = &w.o.Now })
		}, RuleRow, "", "and is not its row: that was deleted", "becomes a task of its own"},
		{"a row that bears the id of another", func(w *world) { w.o.Rows[0].TaskID, w.o.Rows[3].TaskID = "", "T-00001" },
			RuleRow, "", `the row "typed by hand" bears its id, and is not its row`, "becomes a task of its own"},
		{"the drop that is a stranger came first", func(w *world) {
			w.settle(inbox.NewTasks, "t2.json", `{"id":"d2","taskId":"T-00001","title":"x","agent":"devdas","subtasks":["a","b"]}`)
			w.change(func(r *pipeline.Record) { r.DropID = "d2" })
		}, RuleMerged, "", "t1.json and t2.json", "processed/t1.json"},
		{"the drop that is a stranger came last", func(w *world) {
			w.settle(inbox.NewTasks, "t2.json", `{"id":"d2","taskId":"T-00001","title":"x","agent":"devdas"}`)
		}, RuleMerged, "", "t1.json and t2.json", "processed/t2.json"},
		{"no row was made, and one bears its id", func(w *world) { w.rowless() },
			RuleHalfMade, "", "a row bears its id, and its record knows none", "T-00001.json.corrupt-0 && otm-dispatcher --once"},
		{"no row was made, and its create is handled", func(w *world) { w.rowless(); w.o.Rows = nil },
			RuleHalfMade, "", "its create counts as handled", "mv %s/processed/t1.json %s/new-tasks"},
		{"no row was made, and its create is gone", func(w *world) {
			w.rowless()
			w.o.Rows = nil
			os.Remove(filepath.Join(w.o.Dir, "processed", "t1.json"))
		}, RuleHalfMade, "", "its create is not there any more",
			`otm-create --title 'One task' --agent devdas --priority high --type review --project 'it'\''s' --subtask a --subtask 'b c'`},
		{"no row was made for what nobody dropped", func(w *world) {
			w.rowless()
			w.o.Rows = nil
			w.change(func(r *pipeline.Record) { r.DropID = "" })
			os.Remove(filepath.Join(w.o.Dir, "processed", "t1.json"))
		}, RuleHalfMade, "", "its create is not there any more", "otm-create"},
		{"a step that was never made, of a typed row", func(w *world) {
			w.change(func(r *pipeline.Record) { r.DropID, r.Steps[1].RowID = "", "" })
			w.o.Rows = slices.Delete(w.o.Rows, 2, 3)
			os.Remove(filepath.Join(w.o.Dir, "processed", "t1.json"))
		}, RuleSteps, RunAgain, `step 2 "b" does not stand on the board`, "otm-dispatcher --once"},
		{"a step that was never made, of a create that failed", func(w *world) {
			w.change(func(r *pipeline.Record) { r.Steps[1].RowID = "" })
			w.o.Rows = slices.Delete(w.o.Rows, 2, 3)
			w.move("processed/t1.json", "failed/t1.json")
		}, RuleSteps, "", "does not stand on the board", "otm retry t1.json"},
		{"a step that was never made, of a create that is handled", func(w *world) {
			w.change(func(r *pipeline.Record) { r.Steps[1].RowID = "" })
			w.o.Rows = slices.Delete(w.o.Rows, 2, 3)
		}, RuleSteps, "", "does not stand on the board", "processed/t1.json"},
		{"two steps have one row", func(w *world) { w.change(func(r *pipeline.Record) { r.Steps[1].RowID = "Rec2" }) },
			RuleSteps, "", `step 2 "b" has the row of another step`, "otm-dispatcher --once"},
		{"a step under another row", func(w *world) { w.o.Rows[2].Parent = "Rec9" },
			RuleSteps, "", `step 2 "b" stands under another row`, "otm-dispatcher --once"},
		{"a dispatch that is begun", func(w *world) {
			w.o.Rows[0].Status = pipeline.New
			w.change(func(r *pipeline.Record) { r.Status, r.Dispatch.FlippedAt = pipeline.New, nil })
		}, RuleHalfMade, RunAgain, "its dispatch is begun and not finished", "otm-dispatcher --once"},
		{"a row that was asked for, and its create waits", func(w *world) {
			w.change(func(r *pipeline.Record) { r.RowAskedAt = &w.o.Now })
			w.write("new-tasks/t1.json", `{"id":"d1","taskId":"T-00001","title":"One","agent":"devdas"}`)
		}, RuleHalfMade, RunAgain, "its row was asked for", "otm-injector --once"},
		{"a row that was asked for, and nothing waits", func(w *world) { w.change(func(r *pipeline.Record) { r.RowAskedAt = &w.o.Now }) },
			RuleHalfMade, "", "its row was asked for", "T-00001.json.corrupt-0 && otm-dispatcher --once"},
		{"a key used twice by what is over", func(w *world) {
			w.o.Rows = nil
			w.entries()
			w.change(func(r *pipeline.Record) {
				r.GoneAt, r.Wakes = &w.o.Now, append(r.Wakes, r.Wakes[0])
			})
		}, RuleWakes, "", "was used for a wake of T-00001 as well", "there is nothing to mend"},
		{"the workspace is gone", func(w *world) {
			if err := os.RemoveAll(w.ws); err != nil {
				w.Fatal(err)
			}
		}, RuleDispatch, RunAgain, "has no entry in", "otm-dispatcher --once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.spoil(w)
			findings, err := Check(w.o)
			if err != nil {
				t.Fatal(err)
			}
			hint := strings.ReplaceAll(c.hint, "%s", w.o.Dir)
			if !slices.ContainsFunc(findings, func(f Finding) bool {
				return f.Rule == c.rule && f.Repair == c.repair && strings.Contains(f.Text, c.text) && strings.Contains(f.Hint, hint)
			}) {
				t.Errorf("found %s\nwant %q, %q, %q, %q", fmt.Sprint(findings), c.rule, c.repair, c.text, hint)
			}
		})
	}
}

// What says nothing is no fault: files that are not ours or were edited, what a
// record has forgotten, rows that nobody can understand.
func TestSaysNothing(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*world){
		"foreign files beside the keys": func(w *world) {
			w.write("keys/README", "x")
			w.write("keys/k.json", "{")
			if err := os.Mkdir(filepath.Join(w.o.Dir, "keys", "d.json"), 0o700); err != nil {
				w.Fatal(err)
			}
		},
		"drops that are no JSON any more": func(w *world) {
			w.write("processed/x.json", "{")
			w.write("failed/x.json", "{")
			w.write("failed/y.json", `{"id":"y"}`)
		},
		"an update that is none any more": func(w *world) {
			w.settle(inbox.TaskUpdates, "u2.json", `{"id":"u2","taskId":"T-00001"}`)
		},
		"an update among more than a record keeps": func(w *world) {
			w.settle(inbox.TaskUpdates, "u0.json", `{"id":"u0","taskId":"T-00001","status":"in_progress"}`)
			w.change(func(r *pipeline.Record) {
				for i := len(r.Updates); i < pipeline.KeptUpdates; i++ {
					r.Updates = append(r.Updates, pipeline.Applied{ID: fmt.Sprint("v", i), Drop: fmt.Sprint("v", i, ".json")})
				}
			})
		},
		"an odd row of no record": func(w *world) {
			w.o.Rows[0].Odd, w.o.Rows[0].Status = true, ""
			w.entries()
			w.move("tasks/T-00001.json", "T-00001.json")
		},
		"never woken, while its process may be running": func(w *world) {
			w.neverWoken(48 * time.Hour)
			w.write("next-task-id.json", `{"next":3}`)
			w.o.Rows = append(w.o.Rows, pipeline.Row{ID: "Rec7", TaskID: "T-00002", Assignee: "devdas", Status: pipeline.Done})
			w.write("tasks/T-00002.json", `{"taskId":"T-00002","dropId":"d2","title":"Two","rowId":"Rec7","status":"done","attempt":1,"steps":[],"wakes":[{"attempt":1,"key":"k2","agent":"devdas","via":"exec","askedAt":"`+w.o.Now.Add(-72*time.Hour).UTC().Format(time.RFC3339)+`"}]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			spoil(w)
			if findings, err := Check(w.o); err != nil || len(findings) != 0 {
				t.Errorf("found %s, %v", fmt.Sprint(findings), err)
			}
		})
	}
}
