package dispatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/pipeline"
	"otm/slacklist"
)

const (
	apiUpdate = "slackLists.items.update"
	apiList   = "slackLists.items.list"
)

// The whole way of one task, with its calls and records.
func TestOneTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("Build it", "alpha", pipeline.High, "one", "two")
	w.board.Faults.Reset()
	r, err := w.d.Pass(t.Context(), time.Hour) // what we put there ourselves needs no look
	if err != nil {
		t.Fatal(err)
	}
	want(t, "summary", r.Details(), "Dispatched 1 task, woke 1 agent, 0 failures")
	want(t, "reads", w.board.Faults.Count(apiList), 1) // the first pass of a directory has to look once
	want(t, "writes", w.board.Faults.Count(apiUpdate), 1)
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
	want(t, "status on the board", w.boardStatus(id), pipeline.Assigned)

	e := w.entry("alpha", id)
	keys := slices.Sorted(maps.Keys(e))
	want(t, "keys", keys, "[agent attempt dispatchedAt priority project runId slackItemId subtasks taskId title triggeredAt type]")
	want(t, "entry", words(e["title"], e["priority"], e["project"], e["subtasks"], e["type"], e["attempt"], e["runId"], e["slackItemId"]),
		words("Build it", "high", nil, "[one two]", "action", 1, "otm-T-00001-alpha-1", w.record(id).RowID))

	rec := w.record(id)
	d := rec.Dispatch
	for name, at := range map[string]*time.Time{"entry": d.EntryAt, "flipped": d.FlippedAt, "accepted": rec.Wakes[0].Accepted} {
		if at == nil {
			t.Errorf("record knows nothing of: %s", name)
		}
	}
	want(t, "record", words(d.Agent, d.Workspace, d.Attempt, rec.Status, d.TakenAt, rec.Wakes[0].Tasks, rec.Wakes[0].Via),
		words("alpha", w.agent("alpha").Workspace, 1, "assigned", nil, "[T-00001]", "gateway"))

	want(t, "the agent takes it", w.next("alpha"), id)
	w.report(id, pipeline.InProgress)
	w.report(id, pipeline.AgentDone, 1, 2)
	w.pass()
	want(t, "entries after its end", w.ids("alpha"), "")
	want(t, "wakes at its end", w.waker.keys(), "otm-T-00001-alpha-1")

	w.create("Once more", "alpha", pipeline.Normal)
	w.board.Faults.Reset()
	if r, err = w.d.Pass(t.Context(), time.Hour); err != nil || r.Did[dispatched].N != 1 {
		t.Errorf("the next one: %+v, %v", r, err)
	}
	want(t, "calls for the next one", words(w.board.Faults.Count(""), w.board.Faults.Count(apiUpdate)), "1 1")
}

// An idle pass reads at most once and writes nothing.
func TestIdlePass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	for range 3 {
		w.create("x", "alpha", pipeline.Normal)
		w.create("y", "beta", pipeline.Normal)
	}
	w.pass()
	w.next("alpha")
	w.pass()
	times := func() map[string]string {
		all := map[string]string{}
		for _, dir := range []string{filepath.Join(w.dir, "tasks"), w.agent("alpha").Workspace, w.agent("beta").Workspace} {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				info, err := e.Info()
				if err != nil {
					t.Fatal(err)
				}
				all[filepath.Join(dir, e.Name())] = words(info.ModTime(), info.Sys())
			}
		}
		return all
	}
	before := times()
	w.board.Faults.Reset()
	for range 3 {
		r := w.pass()
		want(t, "summary", r.Details(), "Dispatched 0 tasks, woke 0 agents, 0 failures")
	}
	want(t, "calls", w.board.Faults.Count(""), 3)
	want(t, "reads", w.board.Faults.Count(apiList), 3)
	if after := times(); !maps.Equal(before, after) {
		t.Errorf("an idle pass wrote:\n%v\n%v", before, after)
	}
	if _, err := w.d.Pass(t.Context(), -1); err != nil {
		t.Fatal(err)
	}
	want(t, "calls of a pass that may use what is known", w.board.Faults.Count(""), 3)
}

// B43: a woken agent finds all of its tasks, in the file and on the board.
func TestWakeComesLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	var rounds atomic.Int32
	w.waker.set(func(r Request) error {
		rounds.Add(1)
		ids := named(r.Message)
		for _, id := range ids {
			if !strings.Contains(w.ids(r.Agent.Name), id.String()) {
				t.Errorf("%s woken for %v before it is in the file", r.Agent.Name, id)
			}
			rec := w.record(id)
			if rec.Status != pipeline.Assigned || rec.Dispatch.FlippedAt == nil || len(w.record(ids[0]).Wakes) == 0 {
				t.Errorf("woken before the record says so: %+v", rec)
			}
			item := w.board.Must(t, "slackLists.items.info", map[string]any{"list_id": w.board.ListID, "id": rec.RowID})
			if raw, _ := json.Marshal(item); !strings.Contains(string(raw), "assigned") {
				t.Errorf("woken before the board says so: %s", raw)
			}
		}
		return nil
	})
	for i := range 4 {
		w.create("x", []string{"alpha", "beta"}[i%2], pipeline.Normal)
		if i%4 == 3 {
			w.create("y", "alpha", pipeline.Normal)
		}
		w.pass()
		for _, agent := range []string{"alpha", "beta"} {
			for w.next(agent) != 0 {
				w.report(w.desk().mustCurrent(t, w.agent(agent)), pipeline.AgentDone)
			}
		}
		w.clock.Advance(2 * time.Minute)
	}
	want(t, "wakes", rounds.Load(), 5)
}

// mustCurrent returns the task that an agent was given last.
func (d *Desk) mustCurrent(t *testing.T, a *pipeline.Agent) pipeline.TaskID {
	t.Helper()
	taken, err := d.Next(t.Context(), a, false)
	if err != nil || taken == nil || !taken.Continue {
		t.Fatalf("current task of %s: %+v, %v", a.Name, taken, err)
	}
	return taken.Entry.TaskID
}

// B37: a task that cannot be dispatched is reported by every pass, logged once,
// fails the run, and stays new until a person acts.
func TestUnroutable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta", "gamma")
	gone, file := w.agent("beta").Workspace, w.agent("gamma").Workspace
	if err := errors.Join(os.Remove(gone), os.Remove(file), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	ghost := w.create("x", "ghost", pipeline.Critical)
	homeless := w.create("x", "beta", pipeline.Critical)
	blocked := w.create("x", "gamma", pipeline.Critical)
	fine := w.create("x", "alpha", pipeline.Low)
	reasons := []string{
		`T-00001: unknown agent "ghost": no [agents.NAME] table of otm.toml has this name or label`,
		fmt.Sprintf("T-00002: the workspace of beta is missing: %s", gone),
		fmt.Sprintf("T-00003: the workspace of gamma is not a directory: %s", file),
	}
	for range 3 {
		r := w.pass()
		want(t, "failed", r.Failed, reasons)
		for _, reason := range reasons {
			if !strings.Contains(r.Details(), reason) {
				t.Errorf("not told: %s in %s", reason, r.Details())
			}
		}
	}
	want(t, "errors logged", w.log.count(slog.LevelError, "task not dispatched"), 3)
	for _, id := range []pipeline.TaskID{ghost, homeless, blocked} {
		want(t, "status", w.boardStatus(id), pipeline.New)
		want(t, "attempts", w.record(id).Attempt, 0)
	}
	want(t, "the others go on", w.boardStatus(fine), pipeline.Assigned)

	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	w.edit(ghost, w.assignee("alpha"))
	want(t, "what was mended", len(w.pass().Failed), 1)
	want(t, "in a workspace that came later", w.ids("beta"), "T-00002")
	want(t, "given to one who exists", w.ids("alpha"), "T-00004 T-00001")

	// An agent that is removed later is reported as well.
	w.agents = slices.DeleteFunc(w.agents, func(a pipeline.Agent) bool { return a.Name == "beta" })
	w.restart()
	if r := w.pass(); !strings.Contains(r.Details(), `T-00002: unknown agent "beta"`) {
		t.Errorf("an agent was removed: %s", r.Details())
	}
}

// A workspace that vanishes while tasks wait in it is reported, and its agent is
// not woken.
func TestWorkspaceGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.waker.set(func(Request) error { return errors.New("not yet") })
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	aside := w.agent("alpha").Workspace + " aside"
	if err := os.Rename(w.agent("alpha").Workspace, aside); err != nil {
		t.Fatal(err)
	}
	w.waker.set(nil)
	if r := w.pass(); !strings.Contains(r.Details(), "the workspace of alpha is missing") {
		t.Errorf("not told: %s", r.Details())
	}
	want(t, "woken", w.waker.keys(), "")
	if err := os.Rename(aside, w.agent("alpha").Workspace); err != nil {
		t.Fatal(err)
	}
	w.pass()
	want(t, "woken", w.waker.keys(), "otm-T-00001-alpha-1")
	want(t, "its entry", w.entry("alpha", id)["attempt"], 1)
}

func TestPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "+robin", "alpha")
	id := w.create("Look at it", "robin", pipeline.Normal)
	want(t, "summary", w.pass().Details(), "Dispatched 1 task, woke 0 agents, 0 failures")
	want(t, "status", w.boardStatus(id), pipeline.Assigned)
	want(t, "wakes", len(w.waker.requests), 0)
	want(t, "files in workspaces", w.ids("alpha"), "")
	w.pass()
	want(t, "attempt", w.record(id).Attempt, 1)
	w.edit(id, w.status(pipeline.New))
	w.pass()
	want(t, "sent back", words(w.record(id).Attempt, w.boardStatus(id)), "2 assigned")
}

// Changes to a person's own task are noted like others, also if its dispatch began
// and we crashed before the flip.
func TestPersonsTaskIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "+robin")
	flipped, begun, foreign := w.create("x", "robin", pipeline.Normal), w.create("y", "robin", pipeline.Normal), w.create("z", "ghost", pipeline.Normal)
	w.edit(begun, w.status(pipeline.Pending))
	w.pass()
	w.change(begun, func(r *pipeline.Record) {
		r.Dispatch = &pipeline.Dispatch{Attempt: 1, Agent: "robin", At: w.clock.Now()}
	})
	for id, status := range map[pipeline.TaskID]pipeline.Status{flipped: pipeline.Done, begun: pipeline.Cancelled, foreign: pipeline.Done} {
		w.edit(id, w.status(status))
	}
	os.Remove(filepath.Join(w.dir, "tasks", foreign.String()+".json"))
	w.pass()
	want(t, "as they are known", words(w.record(flipped).Status, w.record(begun).Status), "done cancelled")
	if _, err := w.store.Load(foreign); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a record was made of what is over and nobody's: %v", err)
	}
}

// A task is dispatched only when all of it is on the board.
func TestStepsStillComing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal, "one", "two")
	whole := w.record(id)
	w.change(id, func(r *pipeline.Record) { r.Steps[1].RowID = "" })
	want(t, "dispatched", w.pass().Dispatched, 0)
	want(t, "failures", len(w.pass().Failed), 0)
	w.edit(id, w.status(pipeline.Assigned)) // not even by hand
	want(t, "dispatched", w.pass().Dispatched, 0)
	w.change(id, func(r *pipeline.Record) { r.Steps = whole.Steps })
	want(t, "dispatched", w.pass().Dispatched, 1)
	bare := w.createAs(w.last+1, "y", "alpha", pipeline.Normal, "only")
	row := w.record(bare).Steps[0].RowID
	w.change(bare, func(r *pipeline.Record) { r.Steps = nil })
	if err := w.board.Server.DeleteRow("", w.board.ListID, row); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Minute)
	want(t, "dispatched without steps", w.pass().Dispatched, 0)
}

func TestTwoRowsOneID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	first := w.record(id)
	w.createAs(id, "y", "alpha", pipeline.Normal)
	second := w.record(id).RowID
	w.change(id, func(r *pipeline.Record) { *r = *first })
	for range 2 {
		r := w.pass()
		want(t, "failures", r.Failed, []string{
			fmt.Sprintf("T-00001: two rows bear this id: its own, %s, and %s (%q)", first.RowID, second, "y")})
	}
	want(t, "entries", w.ids("alpha"), "T-00001")
	want(t, "its title", w.entry("alpha", id)["title"], "x")
	want(t, "attempt", w.record(id).Attempt, 1)
}

// The flip's answer may be lost, after it was applied or before.
func TestFlipAnswerLost(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]boardtest.Fault{
		"not applied, reset": boardtest.Reset(), "not applied, 503": boardtest.Status(503), "not applied, no error": boardtest.NoError(),
		"not applied, a page": boardtest.HTML(), "not applied, rate limit": boardtest.RateLimited("1"),
		"applied, reset": boardtest.ApplyThenReset(), "applied, 502": boardtest.ApplyThenStatus(502),
		"applied, internal error": boardtest.ApplyThenError("internal_error"), "applied, half an answer": boardtest.ApplyThenHalf(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			id := w.create("x", "alpha", pipeline.Normal)
			w.board.Faults.Next(apiUpdate, fault)
			r := w.pass()
			if r.Trouble == nil {
				t.Error("no trouble")
			}
			want(t, "woken without knowing", w.waker.keys(), "")
			want(t, "the entry stands", w.ids("alpha"), "T-00001")
			w.restart()
			w.clock.Advance(2 * time.Second)
			r = w.pass()
			want(t, "then", r.Details(), "Dispatched 1 task, woke 1 agent, 0 failures")
			want(t, "status", w.boardStatus(id), pipeline.Assigned)
			want(t, "one wake", w.waker.keys(), "otm-T-00001-alpha-1")
			want(t, "one attempt", words(w.record(id).Attempt, w.entry("alpha", id)["attempt"]), "1 1")
			want(t, "nothing more", w.pass().Details(), "Dispatched 0 tasks, woke 0 agents, 0 failures")
		})
	}
}

// A flip that the board shows late does not count as undone.
func TestFlipNotVisible(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	old := w.board.Must(t, apiList, map[string]any{"list_id": w.board.ListID, "limit": 1000, "include_list": true})
	body, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	w.pass()
	stop := w.board.Faults.Always(apiList, boardtest.Body("from before the flip", string(body)))
	for range 3 {
		want(t, "pass", w.pass().Details(), "Dispatched 0 tasks, woke 0 agents, 0 failures")
	}
	stop()
	want(t, "attempt", w.record(id).Attempt, 1)
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
}

// One task that the board refuses does not stop the others.
func TestFlipRefused(t *testing.T) {
	t.Parallel()
	for _, together := range []string{"one a row", "several rows a call"} {
		t.Run(together, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			if together == "one a row" {
				w.board.Server.SetQuirks(boardtest.Quirks{})
			}
			bad := w.create("x", "alpha", pipeline.Critical)
			good := w.create("y", "alpha", pipeline.Normal)
			w.board.Faults.Next(apiUpdate, boardtest.ErrorCode("invalid_args"), boardtest.ErrorCode("invalid_args"), boardtest.ErrorCode("invalid_args"))
			r := w.pass()
			if len(r.Failed) == 0 || !strings.Contains(r.Failed[0], "the board refuses to assign it") {
				t.Errorf("not told: %s", r.Details())
			}
			w.pass()
			want(t, "status", words(w.boardStatus(bad), w.boardStatus(good)), "assigned assigned")
		})
	}
	t.Run("for good", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "alpha")
		w.create("first", "alpha", pipeline.Normal) // so that the client knows how many rows a call takes
		w.create("first", "alpha", pipeline.Normal)
		w.pass()
		bad := w.create("x", "alpha", pipeline.Critical)
		good := w.create("y", "alpha", pipeline.Normal)
		row := w.record(bad).RowID
		w.refuseRow(row)
		r := w.pass()
		if len(r.Failed) != 1 || !strings.HasPrefix(r.Failed[0], "T-00003: the board refuses to assign it: ") {
			t.Errorf("failed: %q", r.Failed)
		}
		want(t, "status", words(w.boardStatus(bad), w.boardStatus(good)), "new assigned")
		want(t, "its attempt stays the same", w.record(bad).Attempt, 1)
	})
	t.Run("and then the board is in trouble", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "alpha")
		w.create("first", "alpha", pipeline.Normal)
		w.create("first", "alpha", pipeline.Normal)
		w.pass()
		a, b := w.create("x", "alpha", pipeline.Critical), w.create("y", "alpha", pipeline.Normal)
		w.board.Faults.Next(apiUpdate, boardtest.ErrorCode("invalid_args"), boardtest.Pass(), boardtest.Status(503))
		if r := w.pass(); r.Trouble == nil || len(r.Failed) > 0 {
			t.Errorf("trouble %v, failed %q", r.Trouble, r.Failed)
		}
		want(t, "status", words(w.boardStatus(a), w.boardStatus(b)), "assigned new")
		w.clock.Advance(20 * time.Second)
		w.pass()
		want(t, "status", words(w.boardStatus(a), w.boardStatus(b)), "assigned assigned")
		want(t, "attempts", words(w.record(a).Attempt, w.record(b).Attempt), "1 1")
	})
}

// refuseRow makes the board refuse every write to a row, as if it was deleted
// after the read.
func (w *world) refuseRow(row string) {
	w.Helper()
	w.d.Board = &boardtest.Wrapped{Board: w.client, Wrap: func(b pipeline.Batch) pipeline.Batch { return &refusing{b, row} }}
}

// An option that the board lacks is reported, and the daemon continues.
func TestStatusOptionMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	column := w.board.Column(t, "Status", "select")
	if err := w.board.Server.RemoveOption("", w.board.ListID, column, "assigned"); err != nil {
		t.Fatal(err)
	}
	r := w.pass()
	if len(r.Failed) != 1 || !strings.Contains(r.Failed[0], `option "assigned" of column "Status"`) || r.Trouble != nil {
		t.Errorf("report: %s, %v", r.Details(), r.Trouble)
	}
	if err := w.board.Server.AddOption("", w.board.ListID, column, "assigned", "Assigned"); err != nil {
		t.Fatal(err)
	}
	w.pass()
	want(t, "status", w.boardStatus(id), pipeline.Assigned)
}

// While the board is down, agents are woken for flipped tasks, and dispatch files
// are kept.
func TestBoardDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.waker.set(func(Request) error { return errors.New("the gateway is down") })
	id := w.create("x", "alpha", pipeline.Normal)
	r := w.pass()
	want(t, "summary", r.Details(), "Dispatched 1 task, woke 0 agents, 1 failure; agent alpha: the gateway is down → otm doctor")
	if r.Due.IsZero() || r.Due.After(w.clock.Now().Add(retryWake)) {
		t.Errorf("to be tried again at %v", r.Due)
	}
	w.waker.set(nil)
	stop := w.board.Faults.Always("", boardtest.Reset())
	late := w.last + 1
	w.change(late, func(r *pipeline.Record) { r.Title = "not on the board" })
	r = w.pass()
	want(t, "woken", words(r.Woken, r.Trouble != nil), "1 true")
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
	w.rewrite("alpha", func(f map[string]any) { f["dispatched"].([]any)[0].(map[string]any)["picked"] = true })
	w.pass()
	want(t, "taken", w.record(id).Dispatch.TakenBy, takenByFile)
	stop()
	// Another process holds the board: nothing is known, nothing happens.
	w.d.Board = slacklist.New(slacklist.Options{Dir: w.dir, URL: w.board.URL, ListID: w.board.ListID, LockWait: time.Millisecond})
	b, err := w.client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r = w.pass()
	if r.Trouble == nil || r.Dispatched+r.Woken+len(r.Failed) != 0 {
		t.Errorf("report: %+v", r)
	}
	if err := b.End(); err != nil {
		t.Fatal(err)
	}
}

// An entry that vanished without a report is put back, but not at once.
func TestEntryVanishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	if err := os.Remove(w.path("alpha")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.clock.Advance(pipeline.DefaultTimes.RedeliverAfter / 4)
		r := w.pass()
		want(t, "entries", w.ids("alpha"), "")
		if d := r.Due.Sub(w.clock.Now()); d <= 0 || d > pipeline.DefaultTimes.RedeliverAfter {
			t.Errorf("to be looked at again in %v", d)
		}
	}
	w.clock.Advance(pipeline.DefaultTimes.RedeliverAfter / 2)
	w.pass()
	want(t, "put back", w.ids("alpha"), "T-00001")
	want(t, "with what is known of its wake", w.entry("alpha", id)["runId"], "otm-T-00001-alpha-1")

	// It is back: MissingAt is cleared.
	content, err := os.ReadFile(w.path("alpha"))
	if err != nil {
		t.Fatal(err)
	}
	w.rewrite("alpha", func(f map[string]any) { f["dispatched"] = []any{} })
	w.pass()
	w.write(w.path("alpha"), content)
	w.clock.Advance(pipeline.DefaultTimes.RedeliverAfter)
	w.pass()
	want(t, "missing since", w.record(id).Dispatch.MissingAt, (*time.Time)(nil))
	want(t, "entries", w.ids("alpha"), "T-00001")

	// An update came: an agent at work needs no entry.
	w.report(id, pipeline.InProgress)
	w.rewrite("alpha", func(f map[string]any) { f["dispatched"] = []any{} })
	w.pass()
	w.clock.Advance(2 * pipeline.DefaultTimes.RedeliverAfter)
	w.pass()
	want(t, "entries", w.ids("alpha"), "")
}

// The clock is set back while an entry is missing.
func TestEntryVanishesClockSetBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.Normal)
	w.clock.Advance(1000 * time.Hour)
	w.pass()
	if err := os.Remove(w.path("alpha")); err != nil {
		t.Fatal(err)
	}
	w.pass()
	w.clock.Advance(-1000 * time.Hour)
	w.pass()
	want(t, "put back", w.ids("alpha"), "T-00001")
}

// Entries of tasks that are over, put off, or given to another agent are removed.
// The others stay, and so do those of tasks that OTM does not know.
func TestEntriesGo(t *testing.T) {
	t.Parallel()
	over := []pipeline.Status{pipeline.AgentDone, pipeline.Done, pipeline.Cancelled, pipeline.Rejected, pipeline.Failed, pipeline.Archived, pipeline.Pending}
	w := newWorld(t, "alpha")
	var ids []pipeline.TaskID
	for range len(over) + 3 {
		ids = append(ids, w.create("x", "alpha", pipeline.Normal))
	}
	w.pass()
	w.rewrite("alpha", func(f map[string]any) {
		f["dispatched"] = append(f["dispatched"].([]any),
			map[string]any{"taskId": "T-00077", "agent": "alpha"},
			map[string]any{"taskId": "T-00001", "agent": "alpha", "slackItemId": "another directory's"},
			map[string]any{"taskId": "T-00001", "todo": "mine"})
	})
	for i, s := range over {
		w.edit(ids[i], w.status(s))
	}
	w.report(ids[len(over)], pipeline.InProgress)
	w.report(ids[len(over)+1], pipeline.Blocked)
	w.pass()
	want(t, "entries", w.ids("alpha"), "T-00008 T-00009 T-00010 T-00077 T-00001 T-00001")
}

// B77: entries of ended tasks leave the file, so that it does not grow.
func TestFileStaysSmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	recs := newMemRecords()
	w.d.Records = recs
	p := keeper{newRun(w.d)}
	w.d.saidAt, w.d.cleaned, w.d.files = map[string]time.Time{}, map[string]bool{}, &workspaces{dir: w.dir}
	const rounds, each = 20, 100
	largest := int64(0)
	for round := range rounds {
		p.byName = map[string][]*task{}
		for i := range pipeline.TaskID(rounds * each) {
			id := i + 1
			switch n := int(i) / each; {
			case n == round:
				recs.recs[id] = recordWith(id, func(r *pipeline.Record) {
					r.Dispatch.Agent, r.Dispatch.Workspace, r.Dispatch.EntryAt = "alpha", w.agent("alpha").Workspace, nil
				})
				p.byName["alpha"] = append(p.byName["alpha"], &task{id: id, rec: copyOf(recs.recs[id]), agent: w.agent("alpha")})
			case n < round:
				recs.recs[id].Status = pipeline.AgentDone
			}
		}
		if err := p.tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, "entries", len(w.entries("alpha")), each)
		info, err := os.Stat(w.path("alpha"))
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	if largest > each*400 {
		t.Errorf("the file grew to %d bytes", largest)
	}
}

// A mark made by hand counts as taken, once.
func TestTakenByHand(t *testing.T) {
	t.Parallel()
	for _, mark := range []any{true, "true", 1} {
		w := newWorld(t, "alpha")
		id := w.create("x", "alpha", pipeline.Normal)
		w.pass()
		w.rewrite("alpha", func(f map[string]any) { f["dispatched"].([]any)[0].(map[string]any)["picked"] = mark })
		w.pass()
		rec := w.record(id)
		if rec.Dispatch.TakenAt == nil || rec.Dispatch.TakenBy != takenByFile {
			t.Fatalf("marked with %v: %+v", mark, rec.Dispatch)
		}
		w.clock.Advance(48 * time.Hour)
		w.pass()
		want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
		want(t, "the mark stays as it was made", w.entry("alpha", id)["picked"], mark)
		want(t, "it goes on with it", w.next("alpha"), id)
	}
}

// B38, B58: a task that a person sends back is dispatched again, with a new
// attempt, an entry without a mark, and a wake under its own key.
func TestSentBack(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]pipeline.Status{"to new": pipeline.New, "to assigned": pipeline.Assigned} {
		for _, from := range []pipeline.Status{pipeline.AgentDone, pipeline.InProgress, pipeline.Blocked} {
			t.Run(fmt.Sprintf("%s %s", from, name), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, "alpha")
				id := w.create("x", "alpha", pipeline.Normal, "one", "two")
				w.pass()
				w.next("alpha")
				w.report(id, pipeline.InProgress, 1)
				if from != pipeline.InProgress {
					w.report(id, from)
				}
				if from != pipeline.Blocked { // the entry may be gone by then, or not
					w.pass()
				}
				w.clock.Advance(2 * time.Minute)
				w.edit(id, w.status(to))
				want(t, "pass", w.pass().Details(), "Dispatched 1 task, woke 1 agent, 0 failures")
				rec := w.record(id)
				want(t, "record", words(rec.Attempt, rec.Dispatch.Attempt, rec.Dispatch.TakenAt, rec.Status), "2 2 <nil> assigned")
				e := w.entry("alpha", id)
				want(t, "entry", words(e["attempt"], e["picked"], e["runId"]), "2 <nil> otm-T-00001-alpha-2")
				want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1 otm-T-00001-alpha-2")
				taken, err := w.desk().Next(t.Context(), w.agent("alpha"), false)
				if err != nil || taken == nil || taken.Continue || words(taken.Done) != "[1]" {
					t.Errorf("taken anew: %+v, %v", taken, err)
				}
				want(t, "once", w.pass().Details(), "Dispatched 0 tasks, woke 0 agents, 0 failures")
			})
		}
	}
}

// The answer to the flip was lost, the agent took the task, and a person sets it
// back before the next pass.
func TestSetBackBeforeFlipIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.board.Faults.Next(apiUpdate, boardtest.ApplyThenReset())
	w.pass()
	w.restart()
	w.report(id, pipeline.InProgress)
	w.edit(id, w.status(pipeline.Assigned))
	w.clock.Advance(2 * time.Minute)
	want(t, "pass", w.pass().Dispatched, 1)
	rec := w.record(id)
	want(t, "record", words(rec.Attempt, rec.Dispatch.TakenAt, rec.Dispatch.FlippedAt != nil), "2 <nil> true")
	w.clock.Advance(time.Minute)
	w.pass()
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-2")
}

// We were killed after a new dispatch began and before its entry was written. The
// old entry and its mark do not count for it.
func TestOldEntryOfNewDispatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.next("alpha")
	w.change(id, func(r *pipeline.Record) {
		r.Attempt = 2
		r.Dispatch = &pipeline.Dispatch{Attempt: 2, Agent: "alpha", Workspace: w.agent("alpha").Workspace, At: w.clock.Now()}
	})
	w.clock.Advance(2 * time.Minute)
	want(t, "pass", w.pass().Details(), "Dispatched 1 task, woke 1 agent, 0 failures")
	e := w.entry("alpha", id)
	want(t, "entry", words(e["attempt"], e["picked"], e["runId"]), "2 <nil> otm-T-00001-alpha-2")
}

func TestEntryOf(t *testing.T) {
	t.Parallel()
	tell := func(e Entry) string { return words(e.Attempt, e.RunID, e.TriggeredAt.IsZero(), e.Picked) }
	want(t, "not woken", tell(entryOf(recordWith(1))), "1  true false")
	want(t, "not accepted", tell(entryOf(recordWith(1, wake(1, lost)))), "1  true false")
	want(t, "woken", tell(entryOf(recordWith(1, wake(0, endedAt(0, 15)), wake(16, accepted(16))))), "2 otm-T-00001-a-2 false false")
	want(t, "taken", tell(entryOf(recordWith(1, wake(0, accepted(0)), taken(1)))), "1 otm-T-00001-a-1 false true")
	want(t, "dispatched anew", tell(entryOf(recordWith(1, wake(0, accepted(0)), func(r *pipeline.Record) { r.Dispatch.Attempt = 2 }))), "2  true false")
	want(t, "given to another", tell(entryOf(recordWith(1, wake(0, accepted(0)), func(r *pipeline.Record) { r.Dispatch.Agent = "b" }))), "1  true false")
}

// An agent that rewrote its entry to only a mark gets the new dispatch all the
// same.
func TestSentBackBentEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.next("alpha")
	w.report(id, pipeline.Blocked)
	w.rewrite("alpha", func(f map[string]any) {
		f["dispatched"] = []any{map[string]any{"taskId": id, "agent": "alpha", "picked": true}}
	})
	w.clock.Advance(2 * time.Minute)
	w.edit(id, w.status(pipeline.New))
	want(t, "pass", w.pass().Details(), "Dispatched 1 task, woke 1 agent, 0 failures")
	e := w.entry("alpha", id)
	want(t, "entry", words(e["attempt"], e["picked"], e["title"]), "2 <nil> x")
}

// A person gives a task in any state to another assignee.
func TestReassigned(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"new", "assigned", "taken", "in_progress", "blocked"} {
		t.Run(state+", to another agent", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha", "beta")
			id := w.create("x", "alpha", pipeline.Normal)
			w.bringTo(id, state)
			before := w.record(id).Attempt
			w.edit(id, w.assignee("beta"))
			want(t, "pass", w.pass().Details(), "Dispatched 1 task, woke 1 agent, 0 failures")
			want(t, "files", fmt.Sprintf("%q %q", w.ids("alpha"), w.ids("beta")), `"" "T-00001"`)
			want(t, "status", w.boardStatus(id), pipeline.Assigned)
			want(t, "attempt", w.record(id).Attempt, before+1)
			want(t, "whom it was taken from", w.next("alpha"), pipeline.TaskID(0))
			want(t, "whom it was given to", w.next("beta"), id)
			want(t, "once", w.pass().Details(), "Dispatched 0 tasks, woke 0 agents, 0 failures")

			w.edit(id, w.assignee("alpha")) // and back
			w.clock.Advance(time.Hour)
			w.pass()
			want(t, "files", fmt.Sprintf("%q %q", w.ids("alpha"), w.ids("beta")), `"T-00001" ""`)
			want(t, "its old mark does not count", w.record(id).Dispatch.TakenAt, (*time.Time)(nil))
			want(t, "it takes it", w.next("alpha"), id)
		})
		if state == "new" {
			continue
		}
		for to, name := range map[string]string{"to a person": "robin", "to nobody": "", "to a stranger": "nobody we know"} {
			t.Run(state+", "+to, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, "alpha", "+robin")
				id := w.create("x", "alpha", pipeline.Normal)
				w.bringTo(id, state)
				status := w.boardStatus(id)
				w.edit(id, w.assignee(name))
				r := w.pass()
				want(t, "dispatched", r.Dispatched, 0)
				want(t, "told", len(r.Failed) == 1, to == "to a stranger")
				want(t, "entries", w.ids("alpha"), "")
				want(t, "status", w.boardStatus(id), status)
				if to != "to a stranger" {
					want(t, "it has it no more", w.next("alpha"), pipeline.TaskID(0))
				}
			})
		}
	}
}

// bringTo dispatches a task of alpha and brings it to a state.
func (w *world) bringTo(id pipeline.TaskID, state string) {
	w.Helper()
	if state == "new" {
		return
	}
	w.pass()
	if state == "assigned" {
		return
	}
	want(w, "taken", w.next("alpha"), id)
	if state != "taken" {
		w.report(id, pipeline.Status(state))
	}
}

// A task is given away, and we are killed before the flip: the next pass flips it.
func TestReassignedFlipLost(t *testing.T) {
	t.Parallel()
	for _, fault := range []boardtest.Fault{boardtest.Reset(), boardtest.ApplyThenReset()} {
		w := newWorld(t, "alpha", "beta")
		id := w.create("x", "alpha", pipeline.Normal)
		w.bringTo(id, "in_progress")
		w.edit(id, w.assignee("beta"))
		w.board.Faults.Next(apiUpdate, fault)
		w.pass()
		want(t, "files", fmt.Sprintf("%q %q", w.ids("alpha"), w.ids("beta")), `"" "T-00001"`)
		w.restart()
		w.pass()
		want(t, "status", words(w.boardStatus(id), w.record(id).Status), "assigned assigned")
		want(t, "files", fmt.Sprintf("%q %q", w.ids("alpha"), w.ids("beta")), `"" "T-00001"`)
		want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1 otm-T-00001-beta-2")
	}
}

// A person moves a new task by hand after its dispatch began, and we crashed
// before the flip. The person's status stays.
func TestMovedByHandBeforeFlip(t *testing.T) {
	t.Parallel()
	for _, status := range []pipeline.Status{pipeline.InProgress, pipeline.Blocked} {
		w := newWorld(t, "alpha")
		id := w.create("x", "alpha", pipeline.Normal)
		w.change(id, func(r *pipeline.Record) {
			r.Attempt = 1
			r.Dispatch = &pipeline.Dispatch{Attempt: 1, Agent: "alpha", Workspace: w.agent("alpha").Workspace, At: w.clock.Now()}
		})
		w.clock.Advance(time.Minute)
		w.edit(id, w.status(status))
		for range 2 {
			want(t, "dispatched again", w.pass().Woken, 0)
			want(t, "status", w.boardStatus(id), status)
		}
	}
}

// An agent that is renamed in the configuration keeps its tasks.
func TestAgentRenamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	waits, works := w.create("x", "alpha", pipeline.Low), w.create("y", "alpha", pipeline.High)
	w.pass()
	want(t, "works on", w.next("alpha"), works)
	w.report(works, pipeline.InProgress)
	w.agents[0].Name = "ALPHA" // the same name
	w.restart()
	want(t, "pass", w.pass().Dispatched, 0)
	want(t, "works on", w.next("alpha"), works)
	w.agents[0].Name = "omega" // another one; on the board it is still alpha
	w.restart()
	want(t, "pass", w.pass().Details(), "Dispatched 2 tasks, woke 1 agent, 0 failures")
	want(t, "entries", w.ids("omega"), "T-00002 T-00001")
	want(t, "takes", w.next("omega"), works)
	w.report(works, pipeline.AgentDone)
	want(t, "takes", w.next("omega"), waits)
}

// An agent that is moved to another workspace finds its tasks there.
func TestWorkspaceMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(w.agent("alpha").Workspace, link); err != nil {
		t.Fatal(err)
	}
	w.agents[0].Workspace = link // another name of the same
	w.restart()
	w.pass()
	want(t, "entries", w.ids("alpha"), "T-00001")
	w.agents[0].Workspace = t.TempDir()
	w.restart()
	w.pass()
	want(t, "entries", w.ids("alpha"), "T-00001")
	want(t, "attempt", w.record(id).Attempt, 1)
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
}

// A lost record is rebuilt from the board. Its keys are not used again, and a task
// at work is left alone.
func TestRecordLost(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"deleted", "corrupt", "emptied by hand"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			waits, picked, works := w.create("x", "alpha", pipeline.Low, "one", "two"), w.create("y", "alpha", pipeline.High), w.create("z", "alpha", pipeline.Critical)
			w.pass()
			want(t, "takes", w.next("alpha"), works)
			w.report(works, pipeline.InProgress)
			w.rewrite("alpha", func(f map[string]any) { f["dispatched"].([]any)[1].(map[string]any)["picked"] = true })
			before := w.waker.keys()
			for _, id := range []pipeline.TaskID{waits, picked, works} {
				path := filepath.Join(w.dir, "tasks", id.String()+".json")
				switch how {
				case "deleted":
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				case "corrupt":
					w.write(path, make([]byte, 100))
				default:
					w.write(path, []byte(fmt.Sprintf(`{"taskId":%q}`, id)))
				}
			}
			w.restart()
			w.clock.Advance(2 * time.Hour)
			w.pass()
			want(t, "status", words(w.boardStatus(waits), w.boardStatus(picked), w.boardStatus(works)), "assigned assigned in_progress")
			want(t, "entries", w.ids("alpha"), "T-00003 T-00002 T-00001")
			want(t, "steps", len(w.record(waits).Steps), 2)
			if rec := w.record(picked); rec.Dispatch == nil || rec.Dispatch.TakenAt == nil {
				t.Errorf("its mark is forgotten: %+v", rec.Dispatch)
			}
			if rec := w.record(works); rec.Dispatch != nil || rec.Status != pipeline.InProgress {
				t.Errorf("work is disturbed: %+v", rec)
			}
			for _, key := range strings.Fields(strings.TrimPrefix(w.waker.keys(), before)) {
				if strings.Contains(before, key) || !strings.HasPrefix(key, "otm-T-00001-alpha-") {
					t.Errorf("key %s after %s", key, before)
				}
			}
			want(t, "it goes on with", w.next("alpha"), works)
		})
	}
}

// The injector writes a record that is lost while its create is in the inbox, as
// the board may show only a part of the task. After the create was settled, the
// record is rebuilt in its order.
func TestRecordLostInTheMaking(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.d.Drops = w.store.Drops
	steps := []string{"e", "d", "c", "b", "a"}
	id := w.create("x", "alpha", pipeline.Normal, steps...)
	drop := []byte(`{"taskId":"T-00001","title":"x","agent":"alpha","subtasks":["e","d","c","b","a"]}`)
	waiting, processed := filepath.Join(w.dir, "new-tasks"), filepath.Join(w.dir, "processed")
	for _, dir := range []string{waiting, processed} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.write(filepath.Join(waiting, "a.json"), drop)
	record := filepath.Join(w.dir, "tasks", "T-00001.json")
	for _, lost := range [][]byte{nil, []byte("{"), []byte(`{"taskId":"T-00001"}`)} {
		if err := os.Remove(record); err != nil {
			t.Fatal(err)
		}
		if lost != nil {
			w.write(record, lost)
		}
		r := w.pass()
		want(t, "dispatched, failures", words(r.Dispatched, len(r.Failed), w.boardStatus(id)), "0 0 new")
		if data, _ := os.ReadFile(record); !bytes.Equal(data, lost) {
			t.Errorf("record %s is made of what may be half of it", data)
		}
		w.write(record, lost)
	}
	if err := os.Rename(filepath.Join(waiting, "a.json"), filepath.Join(processed, "a.json")); err != nil {
		t.Fatal(err)
	}
	want(t, "dispatched", w.pass().Dispatched, 1)
	var got []string
	for _, s := range w.record(id).Steps {
		got = append(got, s.Title)
	}
	want(t, "steps", got, steps)
}

// The key of a lost record's wake is not used again.
func TestKeyOfLostRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	for range 3 { // lost again and again
		before := w.waker.keys()
		if before == "" {
			w.create("x", "alpha", pipeline.Normal)
		} else if err := os.Remove(filepath.Join(w.dir, "tasks", "T-00001.json")); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.clock.Advance(2 * time.Second)
		want(t, "woken", w.pass().Woken, 1)
		if now := strings.Fields(w.waker.keys()); strings.Contains(before, now[len(now)-1]) || len(now) != len(strings.Fields(before))+1 {
			t.Errorf("wakes %q after %q", now, before)
		}
	}
}

// A record that vanishes during a pass stops neither the pass nor other tasks.
func TestRecordVanishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	ids := []pipeline.TaskID{w.create("x", "alpha", pipeline.Normal), w.create("y", "beta", pipeline.Normal)}
	for n := 1; n < 12; n++ {
		w.d.Records = &vanishing{Store: w.store, dir: w.dir, id: ids[0], after: n}
		if _, err := w.d.Pass(t.Context(), 0); err != nil {
			t.Errorf("vanished at change %d: %v", n, err)
		}
		want(t, "the other", w.boardStatus(ids[1]), pipeline.Assigned)
		w.d.Records = w.store
		w.pass()
		want(t, fmt.Sprintf("vanished at change %d: then", n), words(w.boardStatus(ids[0]), w.ids("alpha"), w.record(ids[0]).Status), "assigned T-00001 assigned")
		w.edit(ids[0], w.status(pipeline.New))
	}
	want(t, "wakes of the other", strings.Count(w.waker.keys(), "beta"), 1)
}

// A row is missing only after two walks that lack it, and back at once.
func TestRowDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.create("y", "alpha", pipeline.Normal)
	w.pass()
	row := w.record(id).RowID
	if err := w.board.Server.DeleteRow("", w.board.ListID, row); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Minute) // our own writes are trusted for a while
	w.pass()
	want(t, "after one walk", w.ids("alpha"), "T-00001 T-00002")
	want(t, "said", w.log.count(slog.LevelWarn, "row was deleted"), 0)
	w.pass()
	want(t, "after two", w.ids("alpha"), "T-00002")
	w.pass()
	want(t, "said once", w.log.count(slog.LevelWarn, "row was deleted"), 1)
	want(t, "looks", w.board.Faults.Count("slackLists.items.info"), 1)
	if err := w.board.Server.RestoreRow("", w.board.ListID, row); err != nil {
		t.Fatal(err)
	}
	w.pass()
	want(t, "restored", w.ids("alpha"), "T-00002 T-00001")
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
}

// B41: a task that is finished between read and write stays finished.
func TestFinishedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.edit(id, w.status(pipeline.New))
	w.onBoard(func(b pipeline.Batch) error { return b.Refresh(t.Context(), 0) }) // a look that is old by now
	w.edit(id, w.status(pipeline.Done))
	if _, err := w.d.Pass(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	want(t, "status", w.boardStatus(id), pipeline.Done)
	want(t, "entries", w.ids("alpha"), "")
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
}

// A status older than a few seconds is read again before it is overwritten, also
// without a hint of a change.
func TestStatusLookedAtAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.onBoard(func(b pipeline.Batch) error { return b.Refresh(t.Context(), 0) })
	w.clock.Advance(pipeline.StatusAge + time.Second)
	if err := w.board.Server.EditRow("", w.board.ListID, w.record(id).RowID, w.status(pipeline.Cancelled)); err != nil {
		t.Fatal(err)
	}
	r, err := w.d.Pass(t.Context(), time.Hour)
	if err != nil || r.Did[dispatched].N != 0 {
		t.Errorf("pass: %+v, %v", r, err)
	}
	want(t, "status", w.boardStatus(id), pipeline.Cancelled)
	want(t, "attempts", w.record(id).Attempt, 0)
}

// B40: a cancelled task that was at work leaves the file, and the agent gets the
// next one.
func TestCancelledWhileAtWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id, other := w.create("x", "alpha", pipeline.High), w.create("y", "alpha", pipeline.Normal)
	w.pass()
	want(t, "takes", w.next("alpha"), id)
	w.report(id, pipeline.InProgress)
	w.edit(id, w.status(pipeline.Cancelled))
	w.pass()
	want(t, "entries", w.ids("alpha"), "T-00002")
	want(t, "takes", w.next("alpha"), other)
}

// B50, B109: an agent that is silent during a task is logged once.
func TestSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.next("alpha")
	w.clock.Advance(pipeline.DefaultTimes.SilentAfter / 2)
	w.report(id, pipeline.InProgress)
	heard := w.clock.Now()
	w.clock.Advance(pipeline.DefaultTimes.SilentAfter - time.Minute)
	r := w.pass()
	want(t, "not yet", r.Given, []string(nil))
	if d := r.Due.Sub(heard); d < pipeline.DefaultTimes.SilentAfter-time.Minute || d > pipeline.DefaultTimes.SilentAfter+time.Minute {
		t.Errorf("to be looked at %v after it was heard of", d)
	}
	w.clock.Advance(2 * time.Minute)
	for range 3 {
		want(t, "told", words(w.pass().Given), "[T-00001: alpha took it and has reported nothing for too long, the last time 1h ago → look at the agent, or set the task to new on the board]")
	}
	want(t, "logged", w.log.count(slog.LevelWarn, "reported nothing for too long"), 1)
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
	w.report(id, pipeline.AgentDone)
	want(t, "then", w.pass().Given, []string(nil))
}

// Two agents in one workspace, also if one has it by a link: each has its entries,
// and all entries come back after the file was invalid.
func TestSharedWorkspace(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"by its name", "by a link"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha", "beta")
			w.agents[1].Workspace = w.agents[0].Workspace
			if how == "by a link" {
				w.agents[1].Workspace = filepath.Join(t.TempDir(), "link")
				if err := os.Symlink(w.agents[0].Workspace, w.agents[1].Workspace); err != nil {
					t.Fatal(err)
				}
			}
			w.restart()
			a, b := w.create("x", "alpha", pipeline.Normal), w.create("y", "beta", pipeline.Normal)
			w.pass()
			want(t, "entries", w.ids("alpha"), "T-00001 T-00002")
			w.clock.Advance(2 * pipeline.DefaultTimes.RedeliverAfter)
			w.pass()
			want(t, "entries", w.ids("alpha"), "T-00001 T-00002")
			want(t, "alpha takes", w.next("alpha"), a)
			want(t, "beta takes", w.next("beta"), b)
			for name, id := range map[string]pipeline.TaskID{"alpha": a, "beta": b} {
				state, err := readState(filepath.Join(w.agent(name).Workspace, "agent-state-"+name+".json"))
				if err != nil || *state.TaskID != id {
					t.Errorf("state of %s: %+v", name, state)
				}
			}
			c := w.create("z", "beta", pipeline.Normal)
			w.pass()
			w.write(w.path("alpha"), []byte("garbage"))
			w.pass()
			want(t, "entries after garbage", len(w.entries("alpha")), 3)
			want(t, "the marks are known", words(w.entry("alpha", a)["picked"], w.entry("beta", b)["picked"], w.entry("beta", c)["picked"]), "true true <nil>")
			w.report(a, pipeline.AgentDone)
			w.pass()
			want(t, "entries", len(w.entries("alpha")), 2)
			// otm next finds the invalid file first: it restores the other agent's entries
			// too.
			w.write(w.path("alpha"), []byte("garbage"))
			want(t, "beta goes on", w.next("beta"), b)
			want(t, "entries", len(w.entries("alpha")), 2)
		})
	}
}

// B20: an invalid dispatch file costs only the file.
func TestGarbage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	taken, waits := w.create("x", "alpha", pipeline.High), w.create("y", "alpha", pipeline.Normal)
	w.pass()
	w.next("alpha")
	data, err := os.ReadFile(w.path("alpha"))
	if err != nil {
		t.Fatal(err)
	}
	w.write(w.path("alpha"), data[:len(data)*2/3])
	comes := w.create("z", "alpha", pipeline.Normal)
	w.pass()
	want(t, "entries", len(w.entries("alpha")), 3)
	want(t, "marks", words(w.entry("alpha", taken)["picked"], w.entry("alpha", waits)["picked"], w.entry("alpha", comes)["picked"]), "true <nil> <nil>")
	want(t, "said", w.log.count(slog.LevelError, "set aside and begun anew"), 1)
	asides, err := filepath.Glob(w.path("alpha") + ".corrupt-*")
	if err != nil || len(asides) != 1 {
		t.Fatalf("set aside: %v, %v", asides, err)
	}
	if kept, err := os.ReadFile(asides[0]); err != nil || string(kept) != string(data[:len(data)*2/3]) {
		t.Errorf("kept: %q, %v", kept, err)
	}
	want(t, "attempts", words(w.record(taken).Attempt, w.record(waits).Attempt), "1 1")
}

// Changes on the board reach an entry that nobody took. Changes of the agent stay.
func TestEntryFollowsBoard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id, bent := w.create("x", "alpha", pipeline.Low, "one"), w.create("y", "alpha", pipeline.Normal, "one")
	w.pass()
	w.rewrite("alpha", func(f map[string]any) {
		e := f["dispatched"].([]any)[0].(map[string]any)
		if e["taskId"] != bent.String() {
			t.Fatalf("first is %v", e)
		}
		e["subtasks"], e["title"] = []any{map[string]any{"title": "one", "done": true}}, nil
	})
	title, priority := w.board.Column(t, "Title", "text"), w.board.Column(t, "Priority", "select")
	for _, i := range []pipeline.TaskID{id, bent} {
		w.edit(i, boardtest.TextCell(title, "changed"), boardtest.SelectCell(priority, "critical"))
	}
	w.pass()
	e := w.entry("alpha", id)
	want(t, "entry", words(e["title"], e["priority"], e["subtasks"]), "changed critical [one]")
	e = w.entry("alpha", bent)
	want(t, "bent entry", words(e["title"], e["priority"], e["subtasks"]), "<nil> critical [map[done:true title:one]]")
}

// A record that cannot be read or written is reported, and the others continue.
func TestBadRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	bad, good := w.create("x", "alpha", pipeline.Critical), w.create("y", "beta", pipeline.Normal)
	records := &failing{Store: w.store, id: bad}
	w.d.Records = records
	for range 2 {
		want(t, "failed", w.pass().Failed, []string{"T-00001: its record: disk full"})
	}
	want(t, "status", words(w.boardStatus(bad), w.boardStatus(good)), "new assigned")
	want(t, "logged", w.log.count(slog.LevelError, "disk full"), 1)
	w.d.Records = w.store
	w.pass()
	want(t, "status", w.boardStatus(bad), pipeline.Assigned)
}

// A dispatch file that another process keeps locked delays only its own workspace.
func TestFileLocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	w.create("x", "alpha", pipeline.Critical)
	other := w.create("y", "beta", pipeline.Normal)
	release, held := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- edit(t.Context(), w.dir, w.agent("alpha").Workspace, minute(0), func(*File) error {
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	w.d.fileWait = 10 * time.Millisecond
	r := w.pass()
	if len(r.Failed) != 2 || !strings.Contains(r.Failed[0], "T-00001: dispatch file of alpha: lock") || !strings.Contains(r.Failed[1], "held by process") {
		t.Errorf("failed: %q", r.Failed)
	}
	want(t, "the other", w.boardStatus(other), pipeline.Assigned)
	close(release)
	w.d.fileWait = 0
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want(t, "then", w.pass().Dispatched, 1)
}

// B76: whatever an agent does to the file without our lock, each dispatch is
// delivered until it is taken.
func TestConcurrentRewriting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	recs := newMemRecords()
	w.d.Records = recs
	w.d.saidAt, w.d.cleaned, w.d.files = map[string]time.Time{}, map[string]bool{}, &workspaces{dir: w.dir}
	const all = 200
	stop := make(chan struct{})
	stopped := make(chan int)
	go func() { // the agent: takes out what it finds, marks, adds, in its own way and time
		rewrites := 0
		for {
			select {
			case <-stop:
				stopped <- rewrites
				return
			default:
			}
			data, err := os.ReadFile(w.path("alpha"))
			var file map[string]any
			if err != nil || json.Unmarshal(data, &file) != nil {
				continue
			}
			list, _ := file["dispatched"].([]any)
			for _, e := range list {
				if e, ok := e.(map[string]any); ok && rewrites%3 == 0 {
					e["seen"] = rewrites
				}
			}
			if rewrites%7 == 0 && len(list) > 0 {
				list = list[:len(list)-1]
			}
			file["dispatched"] = list
			if data, err = json.Marshal(file); err != nil {
				continue
			}
			if rewrites%2 == 0 { // in place
				os.WriteFile(w.path("alpha"), data, 0o600)
			} else if os.WriteFile(w.path("alpha")+"~", data, 0o600) == nil {
				os.Rename(w.path("alpha")+"~", w.path("alpha"))
			}
			rewrites++
		}
	}()
	takenOnce := map[pipeline.TaskID]bool{}
	p := keeper{newRun(w.d)}
	tend := func(upTo int) {
		p.byName = map[string][]*task{}
		for i := range pipeline.TaskID(upTo) {
			id := i + 1
			if recs.recs[id] == nil {
				recs.recs[id] = recordWith(id, func(r *pipeline.Record) {
					r.Dispatch.Agent, r.Dispatch.Workspace, r.Dispatch.EntryAt = "alpha", w.agent("alpha").Workspace, nil
				})
			}
			rec, _ := recs.Load(id)
			p.byName["alpha"] = append(p.byName["alpha"], &task{id: id, rec: rec, agent: w.agent("alpha")})
		}
		if err := p.tend(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		tend((i + 1) * all / 40)
		if i%4 == 3 {
			w.clock.Advance(pipeline.DefaultTimes.RedeliverAfter)
			taken, err := (&Desk{
				Dir: w.dir, Records: recs, Agents: w.agents, Now: w.clock.Now, Warn: func(string) {},
				Said: func(pipeline.TaskID) ([]Said, error) { return nil, nil },
			}).Next(t.Context(), w.agent("alpha"), true)
			if err != nil {
				t.Fatal(err)
			}
			if taken != nil {
				if takenOnce[taken.Entry.TaskID] {
					t.Errorf("%v was given twice", taken.Entry.TaskID)
				}
				takenOnce[taken.Entry.TaskID] = true
			}
		}
	}
	close(stop)
	if n := <-stopped; n < 20 {
		t.Errorf("the agent rewrote the file only %d times", n)
	}
	tend(all)
	w.clock.Advance(pipeline.DefaultTimes.RedeliverAfter)
	tend(all)
	there := map[any]bool{}
	for _, e := range w.entries("alpha") {
		there[e["taskId"]] = true
	}
	for id, rec := range recs.recs {
		if rec.Dispatch.TakenAt == nil && !there[id.String()] {
			t.Errorf("%v was never taken, and is not in the file", id)
		}
	}
}

// More tasks than one chunk, and a batch whose time is over: the rest follows.
func TestManyTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	var ids []pipeline.TaskID
	for range 3 {
		ids = append(ids, w.create("x", "alpha", pipeline.Normal))
	}
	w.d.Board = &boardtest.Wrapped{Board: w.client, Wrap: func(b pipeline.Batch) pipeline.Batch { return overBatch{b} }}
	r := w.pass()
	want(t, "a batch that has lasted its time", words(r.Dispatched, r.Due.IsZero()), "0 false")
	w.d.Board = w.client
	want(t, "the next one", w.pass().Dispatched, len(ids))
}

// A row with an unreadable cell is left alone: the cell may not be empty.
func TestOddRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.bringTo(id, "in_progress")
	for _, cell := range []func(*pipeline.Row){func(r *pipeline.Row) { r.Status = "" }, func(r *pipeline.Row) { r.Assignee = "" }} {
		w.d.Board = &boardtest.Wrapped{Board: w.client, Wrap: func(b pipeline.Batch) pipeline.Batch { return oddBatch{b, cell} }}
		want(t, "pass", w.pass().Details(), "Dispatched 0 tasks, woke 0 agents, 0 failures")
		want(t, "record", words(w.record(id).Status, w.record(id).Dispatch.Agent, w.record(id).Attempt), "in_progress alpha 1")
		want(t, "entries", w.ids("alpha"), "T-00001")
	}
}
