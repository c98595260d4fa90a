package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/pipeline"
)

// take takes a task and describes it: "continue T-00001", then the ticked steps.
func (w *world) take(agent string, another bool, carried ...core.Command) string {
	w.Helper()
	desk := w.desk()
	desk.Carry = func(ctx context.Context) error {
		_, err := w.store.Do(ctx, carried...)
		return err
	}
	taken, err := desk.Next(w.Context(), w.agent(agent), another)
	if err != nil {
		w.Fatal(err)
	}
	if taken == nil {
		return "nothing"
	}
	s := taken.Task.ID.String()
	if taken.Continue {
		s = "continue " + s
	}
	if done := doneIn(taken); len(done) > 0 {
		s = words(s, done)
	}
	return s
}

// doneIn are the numbers of the ticked steps, from 1.
func doneIn(taken *Taken) (done []int) {
	for i, s := range taken.Task.Steps {
		if s.Done {
			done = append(done, i+1)
		}
	}
	return done
}

func TestNextOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	for _, p := range []pipeline.Priority{pipeline.Low, pipeline.Normal, pipeline.Critical, pipeline.High, pipeline.Critical, pipeline.Batchable} {
		w.create("x", "alpha", p)
		w.pass() // each a little later than the one before
	}
	var order []string
	for range 7 {
		order = append(order, w.take("alpha", true))
	}
	want(t, "highest priority, then oldest", order, "[T-00003 T-00005 T-00004 T-00002 T-00001 T-00006 nothing]")
	want(t, "the last one is gone on with", w.take("alpha", false), "continue T-00006")
}

// otm next gives the last task again until store and inbox show that it is finished.
// It carries the agent's waiting reports into the store first.
func TestNextContinues(t *testing.T) {
	t.Parallel()
	type said struct {
		status pipeline.Status
		steps  []int
	}
	for _, c := range []struct {
		name string
		do   func(w *world)
		said []said // in the inbox
		want string
	}{
		{"nothing happened", nil, nil, "continue T-00001"},
		{"begun, in the inbox", nil, []said{{pipeline.InProgress, nil}}, "continue T-00001"},
		{"begun", func(w *world) { w.report(1, pipeline.InProgress) }, nil, "continue T-00001"},
		{"one step ticked", func(w *world) { w.report(1, pipeline.InProgress, 2) }, nil, "continue T-00001 [2]"},
		{"one step ticked, in the inbox", nil, []said{{"", []int{2}}}, "continue T-00001 [2]"},
		{"a step that nobody knows, in the inbox", nil, []said{{"", []int{3}}}, "continue T-00001"},
		{"all steps ticked, one of them in the inbox", func(w *world) { w.report(1, pipeline.InProgress, 1) }, []said{{"", []int{2}}}, "T-00002"},
		{"done", func(w *world) { w.report(1, pipeline.AgentDone) }, nil, "T-00002"},
		{"done, in the inbox", nil, []said{{pipeline.InProgress, nil}, {pipeline.AgentDone, nil}}, "T-00002"},
		{"blocked, in the inbox", nil, []said{{pipeline.Blocked, nil}}, "T-00002"},
		{"blocked, and no longer", nil, []said{{pipeline.Blocked, nil}, {pipeline.InProgress, nil}}, "continue T-00001"},
		{"cancelled", func(w *world) { w.edit(1, w.status(pipeline.Cancelled)); w.pass() }, nil, "T-00002"},
		{"cancelled, its entry is still there", func(w *world) { w.edit(1, w.status(pipeline.Cancelled)) }, nil, "T-00002"},
		{"put off", func(w *world) { w.edit(1, w.status(pipeline.Pending)); w.pass() }, nil, "T-00002"},
		{"sent back, not dispatched yet", func(w *world) { w.edit(1, w.status(pipeline.New)) }, nil, "T-00002"},
		{"given to another, whose entry is not there yet", func(w *world) {
			w.edit(1, w.assignee("beta"))
			w.do(core.Command{By: by(), Task: 1, Do: core.HandOut{Agent: "beta", Workspace: w.agent("beta").Workspace}})
		}, nil, "T-00002"},
		{"taken away, its entry is still there", func(w *world) { w.edit(1, w.assignee("")) }, nil, "T-00002"},
		{"dispatched anew, its entry is not there yet", func(w *world) {
			w.edit(1, w.status(pipeline.New))
			w.do(core.Command{By: by(), Task: 1, Do: core.HandOut{Agent: "alpha", Workspace: w.agent("alpha").Workspace}})
		}, nil, "T-00001"},
		{"the state file is lost", func(w *world) { os.Remove(w.statePath("alpha")) }, nil, "continue T-00001"},
		{"the state file is garbage", func(w *world) { w.write(w.statePath("alpha"), []byte("[")) }, nil, "continue T-00001"},
		{"the state file names another", func(w *world) {
			w.write(w.statePath("alpha"), []byte(`{"status":"working","taskId":"T-00002","since":"2026-03-14T15:00:00Z"}`))
		}, nil, "continue T-00001"},
		{"the dispatch file is lost", func(w *world) { os.Remove(w.path("alpha")) }, nil, "continue T-00001"},
		{"the dispatch file is garbage", func(w *world) { w.write(w.path("alpha"), []byte("{")) }, nil, "continue T-00001"},
		{"both are lost", func(w *world) { os.Remove(w.path("alpha")); os.Remove(w.statePath("alpha")) }, nil, "continue T-00001"},
		{"its mark is lost", func(w *world) {
			w.rewrite("alpha", func(f map[string]any) { delete(f["dispatched"].([]any)[0].(map[string]any), "picked") })
		}, nil, "continue T-00001"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha", "beta")
			w.create("x", "alpha", pipeline.High, "one", "two")
			w.create("y", "alpha", pipeline.Normal)
			w.pass()
			want(t, "first", w.take("alpha", false), "T-00001")
			if c.do != nil {
				c.do(w)
			}
			var carried []core.Command
			for _, u := range c.said {
				carried = append(carried, w.reported(1, u.status, u.steps...))
			}
			want(t, "then", w.take("alpha", false, carried...), c.want)
		})
	}
}

// A task that was marked by hand or by a report, not by otm next, is continued.
func TestNextTakenOtherwise(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	byHand, byReport := w.create("x", "alpha", pipeline.Normal), w.create("y", "alpha", pipeline.Normal)
	w.pass()
	w.report(byReport, pipeline.InProgress)
	want(t, "by a report", w.take("alpha", false), "continue T-00002")
	w.report(byReport, pipeline.AgentDone)
	w.rewrite("alpha", func(f map[string]any) { f["dispatched"].([]any)[0].(map[string]any)["picked"] = "true" })
	want(t, "by hand", w.take("alpha", false), "continue T-00001")
	want(t, "task", w.record(byHand).Dispatch.TakenBy, core.TakenByNext)
}

// --another takes another task. The first one is continued once that is finished.
func TestNextAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.High)
	w.create("y", "alpha", pipeline.Normal)
	w.pass()
	want(t, "first", w.take("alpha", false), "T-00001")
	want(t, "another", w.take("alpha", true), "T-00002")
	want(t, "the last one", w.take("alpha", false), "continue T-00002")
	want(t, "no third", w.take("alpha", true), "nothing")
	w.report(2, pipeline.AgentDone)
	want(t, "the one it left", w.take("alpha", false), "continue T-00001")
	w.report(1, pipeline.AgentDone)
	want(t, "nothing is left", w.take("alpha", false), "nothing")
}

// A doubled entry is given once.
func TestNextDoubledEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.rewrite("alpha", func(f map[string]any) {
		f["dispatched"] = append(f["dispatched"].([]any), f["dispatched"].([]any)[0])
	})
	want(t, "first", w.take("alpha", false), "T-00001")
	want(t, "another", w.take("alpha", true), "nothing")
}

// The row of a task at work is deleted. Once OTM knows, the agent gets the next
// task, not the same one for ever.
func TestNextRowDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	gone, waits := w.create("x", "alpha", pipeline.High), w.create("y", "alpha", pipeline.Low)
	w.pass()
	want(t, "takes", w.next("alpha"), gone)
	w.deleteRow(gone)
	want(t, "goes on with", w.next("alpha"), waits)
}

// B29: each task is picked once, however many processes ask at once.
func TestNextConcurrently(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	const callers = 20
	for range 3 {
		w.create("x", "alpha", pipeline.Normal)
	}
	w.pass()
	ask := func(another bool) (firsts []string) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				taken, err := w.desk().Next(t.Context(), w.agent("alpha"), another)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if taken != nil && !taken.Continue {
					firsts = append(firsts, taken.Task.ID.String())
				}
			})
		}
		all.Wait()
		slices.Sort(firsts)
		return firsts
	}
	want(t, "picked", ask(false), "[T-00001]")
	want(t, "picked as another", ask(true), "[T-00002 T-00003]")
	for id := range pipeline.TaskID(3) {
		events, err := w.store.Events(t.Context(), core.EventFilter{Task: id + 1, Types: []string{"Acknowledged"}})
		if err != nil {
			t.Fatal(err)
		}
		firsts := 0
		for _, e := range events {
			if !e.Data.(core.Acknowledged).Again {
				firsts++
			}
		}
		want(t, "noted", firsts, 1)
	}
}

func TestNextState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	path := filepath.Join(w.agent("alpha").Workspace, "agent-state.json")
	read := func() map[string]any {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var s map[string]any
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		return s
	}
	want(t, "nothing waits", w.take("alpha", false), "nothing")
	want(t, "state", words(read()["status"], read()["taskId"]), "idle <nil>")
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	want(t, "no dispatch file is made for nothing", w.ids("alpha"), "")
	w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.take("alpha", false)
	for range 2 { // continued, it is the same
		s := read()
		want(t, "state", words(s["status"], s["taskId"]), "working T-00001")
		want(t, "since", s["since"], w.record(1).Dispatch.TakenAt.Format(time.RFC3339Nano))
		w.take("alpha", false)
	}
	w.report(1, pipeline.AgentDone)
	want(t, "nothing waits", w.take("alpha", false), "nothing")
	want(t, "state", words(read()["status"], read()["taskId"]), "idle <nil>")
	for _, garbage := range []string{"", "[]", "null", "x", `"s"`} {
		w.write(path, []byte(garbage))
		want(t, "over garbage", w.take("alpha", false), "nothing")
		want(t, "state", read()["status"], "idle")
	}
}

func TestNextWorkspaceGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	if err := os.Remove(w.agent("alpha").Workspace); err != nil {
		t.Fatal(err)
	}
	_, err := w.desk().Next(t.Context(), w.agent("alpha"), false)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "dispatch file of alpha") {
		t.Errorf("error: %v", err)
	}
	_, err = os.Stat(w.agent("alpha").Workspace)
	want(t, "made", errors.Is(err, fs.ErrNotExist), true)
}

// The inbox cannot be read: nothing is taken.
func TestNextInboxUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.Normal)
	w.pass()
	desk := w.desk()
	desk.Carry = func(context.Context) error { return fs.ErrPermission }
	if _, err := desk.Next(t.Context(), w.agent("alpha"), false); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error: %v", err)
	}
	want(t, "mark", words(w.entry("alpha", 1)["picked"], w.record(1).Taken()), "<nil> false")
}

// The steps in the dispatch file are old: those of the store are printed.
func TestNextSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.Normal, "one", "two")
	w.pass()
	changed, done := "changed", true
	w.edit(1, func(e *core.Edits) {
		for n, s := range w.record(1).Steps {
			e.Steps = append(e.Steps, []core.StepEdit{{Row: s.RowID, Title: &changed}, {Row: s.RowID, Done: &done}}[n])
		}
	})
	taken, err := w.desk().Next(t.Context(), w.agent("alpha"), false)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "steps", words(taken.Task.StepTitles(), doneIn(taken)), "[changed two] [2]")
	raw, err := json.Marshal(taken)
	if err != nil {
		t.Fatal(err)
	}
	var e map[string]any
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatal(err)
	}
	want(t, "as JSON", words(e["taskId"], e["subtasks"], e["picked"], e["attempt"]), "T-00001 [changed two] true 1")
}

// Anything in place of the state file does no harm: the file is for people.
func TestStateFileIsAnything(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":      func(path string) error { return os.Symlink("/dev/zero", path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"huge":      func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha", "beta")
			if err := put(w.statePath("alpha")); err != nil {
				t.Fatal(err)
			}
			id, other := w.create("x", "alpha", pipeline.Normal), w.create("y", "beta", pipeline.Normal)
			r := w.pass()
			want(t, "pass", words(r.Dispatched, r.Woken), "2 2")
			want(t, "taken", words(w.next("alpha"), w.next("beta")), words(id, other))
			w.pass()
		})
	}
}

// C1: a task that breaks every run does not block the others. After a run without
// progress on it, otm next gives another task first, and continues with it only
// when nothing else waits.
func TestC1AnotherTaskFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	a, b := w.create("poison", "alpha", pipeline.Normal), w.create("other", "alpha", pipeline.Normal)
	w.pass()
	want(t, "at first", w.next("alpha"), a)
	want(t, "continued", w.next("alpha"), a)
	failed := func() {
		t.Helper()
		keys := strings.Fields(w.waker.keys())
		if _, err := RecordEnd(t.Context(), w.store, core.EndStart{Key: keys[len(keys)-1], Outcome: core.OutcomeFailed}, w.clock.Now()); err != nil {
			t.Fatal(err)
		}
		w.pass()
	}
	failed()
	want(t, "the task of the failed run", words(w.record(a).Status, w.record(a).Runs.Tries(0)), "pending 1")
	w.clock.Advance(10 * time.Second)
	want(t, "woken for the other one", w.pass().Woken, 1)
	want(t, "after its first failure", w.next("alpha"), b)
	w.clock.Advance(time.Minute)
	w.pass()
	want(t, "its retry waits behind the other one", words(w.record(a).Status, w.record(a).Queued()), "pending true")
	c := w.create("new", "alpha", pipeline.Normal)
	w.report(b, pipeline.AgentDone)
	w.pass()
	want(t, "when nothing else waits", words(w.next("alpha"), w.take2("alpha")), words(a, c))
}

// C64: a script takes the first task number in the output of otm next --json. That
// is the task's own number, and no other number is in the output.
func TestC64OwnNumberOnly(t *testing.T) {
	t.Parallel()
	task, e := recordWith(2, ticked(1)), &Entry{}
	e.set("taskId", task.ID)
	e.set("runId", "otm-T-00001-alpha-1")
	data, err := json.Marshal(&Taken{Task: task, entry: *e})
	if err != nil || !strings.HasPrefix(string(data), `{"taskId":"T-00002"`) || strings.Contains(string(data), "00001") {
		t.Errorf("%s, %v", data, err)
	}
	task.ID = 1
	if data, err = json.Marshal(&Taken{Task: task, entry: *e}); err != nil || !strings.Contains(string(data), `"runId":"otm-T-00001-alpha-1"`) || !strings.Contains(string(data), `"done":[1]`) {
		t.Errorf("%s, %v", data, err)
	}
}

// A sandbox in which the store cannot be opened: the dispatch file decides, with what
// the renderings and the reports in the inbox say. The next pass tells the store.
func TestNextWithoutStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.High, "one", "two")
	w.create("y", "alpha", pipeline.Normal)
	w.create("z", "alpha", pipeline.Low)
	w.pass()
	known := map[pipeline.TaskID]pipeline.Rendering{}
	desk := w.desk()
	desk.Store = nil
	desk.Known = func(r *pipeline.Rendering) {
		if is, ok := known[r.TaskID]; ok {
			*r = is
		}
	}
	take := func(another bool) string {
		t.Helper()
		taken, err := desk.Next(t.Context(), w.agent("alpha"), another)
		if err != nil {
			t.Fatal(err)
		}
		if taken == nil {
			return "nothing"
		}
		return words(taken.Task.ID, taken.Continue, doneIn(taken), taken.Unstored)
	}
	want(t, "the most urgent one", take(false), "T-00001 false [] true")
	want(t, "its mark", w.entry("alpha", 1)["picked"], true)
	want(t, "continued", take(false), "T-00001 true [] true")
	want(t, "another", take(true), "T-00002 false [] true")
	want(t, "the one that was given last", take(false), "T-00002 true [] true")
	w.pass()
	want(t, "what the store knows then", words(w.record(1).Dispatch.TakenBy, w.record(2).Taken(), w.record(3).Taken()), "file true false")

	known[2] = pipeline.Rendering{Status: pipeline.AgentDone}
	known[1] = pipeline.Rendering{Status: pipeline.InProgress, Steps: []pipeline.Step{{Title: "one", Done: true}, {Title: "two"}}}
	want(t, "after the end of the other", take(false), "T-00001 true [1] true")
	known[1] = pipeline.Rendering{Status: pipeline.InProgress, Steps: []pipeline.Step{{Title: "one", Done: true}, {Title: "two", Done: true}}}
	want(t, "after its last step", take(false), "T-00003 false [] true")
	known[3] = pipeline.Rendering{Status: pipeline.Cancelled}
	want(t, "after all", take(false), "nothing")
}
