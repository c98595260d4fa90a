package dispatch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// TestDiskFailsAtEachPlace: wherever the disk refuses a pass once, the next ones
// bring everything to where it comes without that.
func TestDiskFailsAtEachPlace(t *testing.T) {
	t.Parallel()
	plain := newTroubledWorld(t)
	plain.passes()
	want := plain.outcome()
	for _, part := range []string{"", "alpha"} { // the data directory, or a workspace
		t.Run("in "+part, func(t *testing.T) {
			t.Parallel()
			crashtest.EachPlace(t, syscall.EIO, "otm/dispatch", func(refuse crashtest.Refuse) {
				w := newTroubledWorld(t)
				dir := w.dir
				if part != "" {
					dir = w.agent(part).Workspace
				}
				refused, err := refuse(dir, func() error {
					for range 3 {
						if _, err := w.d.Pass(t.Context(), 0); err != nil {
							return err
						}
						w.clock.Advance(20 * time.Second)
					}
					return nil
				})
				w.passes()
				if got := w.outcome(); got != want {
					t.Fatalf("refused %q: %v; it comes to\n%s\nwant\n%s\nlog:\n%s", refused, err, got, want, w.log)
				}
			})
		})
	}
}

// TestNextWhereTheDiskFails: at whichever step an agent fails to take its task, it
// is given the same one the next time, and what it wrote into its state stays.
func TestNextWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"", "alpha"} {
		crashtest.EachPlace(t, syscall.EIO, "otm/dispatch", func(refuse crashtest.Refuse) {
			w := newWorld(t, "alpha")
			id := w.create("x", "alpha", pipeline.High)
			w.create("y", "alpha", pipeline.Normal)
			w.pass()
			state := statePath(w.agents, w.agent("alpha"))
			w.write(state, []byte(`{"status":"idle","mine":"kept"}`))
			dir, warned := w.dir, ""
			if part != "" {
				dir = w.agent(part).Workspace
			}
			desk := w.desk()
			desk.Warn = func(s string) { warned = s }
			refused, err := refuse(dir, func() error {
				_, err := desk.Next(t.Context(), w.agent("alpha"), false)
				return err
			})
			// State and pid are for people, and one bad record does not keep the desk.
			silent := refused.Of("read", filepath.Base(state)) || refused.Of("write", "locks/") || refused.Of("stat", "tasks/")
			if told := err != nil || warned != ""; told != refused.Came() && !silent {
				t.Errorf("refused %q, and was told: %v %s", refused, err, warned)
			}
			if got := w.next("alpha"); got != id {
				t.Errorf("refused %q: %v; then it is given %v", refused, err, got)
			}
			data, readErr := os.ReadFile(state)
			if s, ok := readState(state); !ok || s.Status != stateWorking || *s.TaskID != id || !strings.Contains(string(data), "kept") {
				t.Errorf("refused %q: the state is %s, %v", refused, data, readErr)
			}
		})
	}
}

// newTroubledWorld is a world in which a pass has everything to do that there is.
func newTroubledWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "alpha", "beta")
	for n, agent := range []string{"alpha", "beta", "alpha", "beta", "alpha", "beta", "alpha", "beta"} {
		w.create(fmt.Sprint("Task ", n+1), agent, pipeline.Normal, "a", "b")
	}
	w.pass()
	w.change(6, func(r *pipeline.Record) { r.Dispatch.FlippedAt = nil })                                             // its answer was lost
	w.rewrite("beta", func(file map[string]any) { file["dispatched"].([]any)[0].(map[string]any)["picked"] = true }) // task 2 is taken
	w.rewrite("alpha", func(file map[string]any) { file["dispatched"] = file["dispatched"].([]any)[1:] })            // task 1 vanishes
	w.edit(3, w.status(pipeline.Done))
	w.edit(4, w.taskIDCell(""))
	steps := w.record(8).Steps
	for _, err := range []error{
		os.Remove(filepath.Join(w.dir, "tasks", "T-00005.json")),
		w.board.Server.DeleteRow("", w.board.ListID, w.record(7).RowID),
		w.board.Server.DeleteRow("", w.board.ListID, steps[1].RowID),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.types("Typed", "alpha")
	w.createAs(20, "New", "beta", pipeline.High)
	w.clock.Advance(time.Minute)
	w.restart()
	return w
}

// passes lets other dispatchers finish what is to be done.
func (w *world) passes() {
	w.Helper()
	for range 3 {
		w.restart()
		w.pass()
		w.clock.Advance(2 * time.Minute)
	}
	if r := w.pass(); len(r.Failed) > 0 || r.Trouble != nil {
		w.Errorf("in the end: %+v", r)
	}
}

// outcome is what became of all tasks, without ids of rows and times.
func (w *world) outcome() string {
	w.Helper()
	var lines []string
	ids, err := w.store.IDs()
	if err != nil {
		w.Fatal(err)
	}
	status, rows := map[string]pipeline.Status{}, 0
	w.onBoard(func(b pipeline.Batch) error {
		for row := range b.Rows() { // the last pass has walked
			status[row.TaskID] = row.CurrentStatus()
			rows++
		}
		return nil
	})
	for _, id := range ids {
		r := w.record(id)
		line := words(id, r.Title, r.Status, status[id.String()], len(r.Steps), "attempt", min(r.Attempt, 2), "gone", r.GoneAt != nil, "wakes", len(r.Wakes))
		if d := r.Dispatch; d != nil && r.GoneAt == nil {
			line += words("", d.Agent, d.EntryAt != nil, d.FlippedAt != nil, d.TakenAt != nil, d.MissingAt != nil)
		}
		lines = append(lines, strings.ReplaceAll(line, "T-00022", "T-00021")) // an id that was taken when it failed stays unused
	}
	for _, a := range w.agents {
		in := strings.Fields(w.ids(a.Name))
		slices.Sort(in)
		lines = append(lines, strings.ReplaceAll(a.Name+" "+strings.Join(in, " "), "T-00022", "T-00021"))
	}
	keys := strings.Fields(w.waker.keys())
	slices.Sort(keys)
	lines = append(lines, strings.Join(keys, " "), fmt.Sprint(rows, " rows"))
	return strings.Join(lines, "\n")
}
