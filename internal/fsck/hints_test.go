package fsck

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

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
		{"two rows, and no task", func(w *world) {
			w.o.Rows = append(w.o.Rows, pipeline.Row{ID: "Rec4", TaskID: "T-00001"})
			w.task = nil
		}, RuleRow, "", "2 rows bear its id: Rec1, Rec4", "clear the Task ID of those that are not it"},
		{"two rows", func(w *world) { w.o.Rows = append(w.o.Rows, pipeline.Row{ID: "Rec4", TaskID: "T-00001"}) },
			RuleRow, "", "Rec1, Rec4", "all but Rec1"},
		{"a row that bears the id of one that was deleted", func(w *world) {
			w.o.Rows = []pipeline.Row{{ID: "Rec9", TaskID: "T-00001", Title: "typed"}}
			w.entries()
			w.task.GoneAt = w.o.Now
		}, RuleRow, "", "and is not its row: that was deleted", "becomes a task of its own"},
		{"a row that bears the id of another", func(w *world) { w.o.Rows[0].TaskID, w.o.Rows[3].TaskID = "", "T-00001" },
			RuleRow, "", `the row "typed by hand" bears its id, and is not its row`, "becomes a task of its own"},
		{"a step under another row", func(w *world) { w.o.Rows[2].Parent = "Rec9" },
			RuleSteps, "", `step 2 "b" stands under another row`, "move it back"},
		{"a create that took no effect", func(w *world) {
			w.o.Rows, w.task = nil, nil
			w.entries()
			os.Remove(filepath.Join(w.o.Dir, "processed", "u1.json"))
		}, RuleDropped, "", "neither board nor store knows it", "mv %s/processed/t1.json %s/new-tasks"},
		{"a step that is not on the board", func(w *world) { w.o.Rows = slices.Delete(w.o.Rows, 2, 3) },
			RuleSteps, "", `the row of step 2 "b" is not on the board`, "otm-dispatcher --once"},
		{"the board does not take a task", func(w *world) {
			w.waits = []core.Pending{{Task: 1, Sink: core.SinkBoard, Since: w.o.Now.Add(-time.Hour), Tries: 3, Error: "there is no option x"}}
		}, RuleHalfMade, "", "after 3 tries: there is no option x", "otm doctor"},
		{"an archive is damaged", func(w *world) {
			w.o.Bad = []core.BadArchive{{Why: "the archive is damaged: x", Do: "put x back from a backup"}}
		}, RuleArchive, "", "the archive is damaged: x", "put x back from a backup"},
		{"tables that differ", func(w *world) { w.wrong = []string{"tasks T-00001: title is missing"} },
			RuleStore, Rebuild, "tasks T-00001: title is missing", "otm fsck --repair"},
		{"the workspace is gone", func(w *world) {
			if err := os.RemoveAll(w.ws); err != nil {
				w.Fatal(err)
			}
		}, RuleDispatch, "", "has no entry in", "otm-dispatcher --once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.spoil(w)
			findings, err := w.check()
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

// What says nothing is no fault: files that are not ours or were edited, rows that nobody can understand.
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
		"an odd row of no task": func(w *world) {
			w.o.Rows[0].Odd, w.o.Rows[0].Status = true, ""
			w.entries()
			w.task = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			spoil(w)
			if findings, err := w.check(); err != nil || len(findings) != 0 {
				t.Errorf("found %s, %v", fmt.Sprint(findings), err)
			}
		})
	}
}
