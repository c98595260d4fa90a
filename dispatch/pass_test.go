package dispatch

import (
	"context"
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

	"otm/core"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// The whole way of one task, with what is written and when.
func TestOneTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("Build it", "alpha", pipeline.High, "one", "two")
	r := w.pass()
	want(t, "summary", r.Details(), "Dispatched 1 task, woke 1 agent, 0 failures")
	want(t, "writes to the board", w.board.writes.Load(), 1)
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
	want(t, "status on the board", w.boardStatus(id), pipeline.Assigned)

	e := w.entry("alpha", id)
	keys := slices.Sorted(maps.Keys(e))
	want(t, "keys", keys, "[agent attempt dispatchedAt priority project run runId slackItemId subtasks taskId title triggeredAt type]")
	want(t, "entry", words(e["title"], e["priority"], e["project"], e["subtasks"], e["type"], e["attempt"], e["runId"], e["slackItemId"]),
		words("Build it", "high", nil, "[one two]", "action", 1, "otm-T-00001-alpha-1", w.record(id).RowID))

	rec := w.record(id)
	d := rec.Dispatch
	want(t, "flipped, accepted", words(d.FlippedAt.IsZero(), rec.Wakes[0].Accepted.IsZero()), "false false")
	want(t, "task", words(d.Agent, d.Workspace, d.Attempt, rec.Status, d.TakenAt.IsZero(), rec.Wakes[0].Tasks, rec.Wakes[0].Via),
		words("alpha", w.agent("alpha").Workspace, 1, "assigned", true, "[T-00001]", "gateway"))

	want(t, "the agent takes it", w.next("alpha"), id)
	w.report(id, pipeline.InProgress)
	w.report(id, pipeline.AgentDone, 1, 2)
	w.pass()
	want(t, "entries after its end", w.ids("alpha"), "")
	want(t, "wakes at its end", w.waker.keys(), "otm-T-00001-alpha-1")

	w.create("Once more", "alpha", pipeline.Normal)
	want(t, "the next one", w.pass().Dispatched, 1)
	want(t, "writes for the next one", w.board.writes.Load(), 1)
}

// An idle pass writes nothing: no event, no file, nothing to the board.
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
	state := func() string {
		events, err := w.store.Events(t.Context(), core.EventFilter{})
		if err != nil {
			t.Fatal(err)
		}
		all := []any{len(events), w.board.writes.Load()}
		for _, dir := range []string{w.agent("alpha").Workspace, w.agent("beta").Workspace} {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				info, err := e.Info()
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, e.Name(), info.ModTime(), info.Sys())
			}
		}
		return words(all...)
	}
	before := state()
	for range 3 {
		want(t, "summary", w.pass().Details(), "Dispatched 0 tasks, woke 0 agents, 0 failures")
	}
	want(t, "after idle passes", state(), before)
}

// A pass reads the store as often for many agents as for few.
func TestReadsOfPass(t *testing.T) {
	t.Parallel()
	reads := func(agents int) int {
		names := make([]string, agents)
		for i := range names {
			names[i] = fmt.Sprint("agent", i)
		}
		w := newWorld(t, names...)
		for _, name := range names {
			w.create("x", name, pipeline.Normal)
		}
		w.pass() // wakes all
		counted := &countingStore{Store: w.store}
		w.d.Store = counted
		want(t, "summary", w.pass().Details(), "Dispatched 0 tasks, woke 0 agents, 0 failures")
		return counted.reads
	}
	want(t, "reads with 12 agents", reads(12), reads(2))
}

// countingStore counts reads. It is for one goroutine.
type countingStore struct {
	core.Store
	reads int
}

func (s *countingStore) Task(ctx context.Context, id pipeline.TaskID) (*core.Task, error) {
	s.reads++
	return s.Store.Task(ctx, id)
}

func (s *countingStore) Tasks(ctx context.Context, f core.Filter) ([]*core.Task, error) {
	s.reads++
	return s.Store.Tasks(ctx, f)
}

func (s *countingStore) Agent(ctx context.Context, name string) (*core.AgentState, error) {
	s.reads++
	return s.Store.Agent(ctx, name)
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
			if rec.Status != pipeline.Assigned || rec.Shown.Status != pipeline.Assigned || len(w.record(ids[0]).Wakes) == 0 {
				t.Errorf("woken before store and board say so: %+v", rec)
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
	return taken.Task.ID
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
		`T-00001: unknown agent "ghost": no [agents.NAME] table of otm.toml has this name or label, and no gateway lists it`,
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
	want(t, "errors logged", w.log.count(slog.LevelError, "msg=failed"), 3)
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
	w.clock.Advance(retryWake)
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

// A task is dispatched only when all of it is on the board.
func TestStepsStillComing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.request("x", "alpha", pipeline.Normal, "one", "two")
	show := func(steps ...core.WrittenStep) {
		t.Helper()
		w.do(core.Command{By: core.Component("otm"), Task: id, Do: core.Written{Row: "Rec1", Shown: w.record(id).View(), Steps: steps}})
	}
	one := core.WrittenStep{Step: 1, Row: "Rec1.1", Shown: core.StepShown{Title: "one"}}
	show(one)
	w.board.refuse(func(pipeline.TaskID) error { return boardGone })
	r := w.pass()
	want(t, "dispatched", words(r.Dispatched, len(r.Failed), w.record(id).Status), "0 0 new")
	w.edit(id, w.status(pipeline.Assigned)) // not even by hand
	want(t, "dispatched", words(w.pass().Dispatched, w.record(id).Dispatch == nil), "0 true")
	w.board.refuse(nil)
	w.clock.Advance(time.Minute)
	w.pass() // the other step is made
	want(t, "dispatched", w.pass().Dispatched, 1)

	bare := w.create("y", "alpha", pipeline.Normal, "only")
	w.edit(bare, func(e *core.Edits) { e.Gone = []string{w.record(bare).Steps[0].RowID} })
	want(t, "dispatched without steps: its agent says when it is done", w.pass().Dispatched, 1)
}

// The board cannot be written: the task is handed out, its entry stands, and its agent
// is woken once the board shows that.
func TestBoardWrittenLater(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "alpha")
			id := w.create("x", "alpha", pipeline.Normal)
			w.board.refuse(func(pipeline.TaskID) error { return boardGone })
			r := w.pass()
			if r.Trouble == nil {
				t.Error("no trouble")
			}
			want(t, "woken without knowing", w.waker.keys(), "")
			want(t, "the entry stands", w.ids("alpha"), "T-00001")
			w.board.refuse(nil)
			if restart {
				w.restart()
			}
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

// One task that the board refuses does not stop the others, and each pass says so. If its row
// is gone, nothing is wrong: it is looked for.
func TestFlipRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	refused := *rowRefused
	refused.Code, refused.RowGone = "invalid_option", false
	bad := w.create("x", "alpha", pipeline.Critical)
	good := w.create("y", "alpha", pipeline.Normal)
	w.board.refuse(func(id pipeline.TaskID) error {
		if id == bad {
			return &refused
		}
		return nil
	})
	for range 2 {
		r := w.pass()
		if len(r.Failed) != 1 || !strings.HasPrefix(r.Failed[0], "T-00001: ") || r.Trouble != nil {
			t.Errorf("failed: %q, trouble %v", r.Failed, r.Trouble)
		}
	}
	refused = *rowRefused
	if r := w.pass(); len(r.Failed) > 0 || r.Trouble != nil {
		t.Errorf("its row is gone: failed: %q, trouble %v", r.Failed, r.Trouble)
	}
	want(t, "logged", w.log.count(slog.LevelError, "msg=failed"), 1)
	want(t, "status", words(w.boardStatus(bad), w.boardStatus(good)), "new assigned")
	want(t, "wakes", w.waker.keys(), "otm-T-00002-alpha-1")
	w.board.refuse(nil)
	w.pass()
	want(t, "status behind the other one", w.boardStatus(bad), pipeline.Pending)
	want(t, "attempts", w.record(bad).Attempt, 1)
}

// While the board is down, agents are woken for tasks that it shows as assigned, and
// dispatch files are kept. Nothing new is handed out.
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
	w.clock.Advance(retryWake)
	late := w.create("y", "alpha", pipeline.Normal)
	w.board.goDown(boardGone)
	r = w.pass()
	want(t, "woken", words(r.Dispatched, r.Woken, r.Trouble != nil, w.record(late).Status), "0 1 true new")
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
	w.rewrite("alpha", func(f map[string]any) { f["dispatched"].([]any)[0].(map[string]any)["picked"] = true })
	w.pass()
	want(t, "taken", w.record(id).Dispatch.TakenBy, core.TakenByFile)
	w.board.goDown(nil)
	want(t, "the other", w.pass().Dispatched, 1)
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

	// It is back: the wait begins anew.
	content, err := os.ReadFile(w.path("alpha"))
	if err != nil {
		t.Fatal(err)
	}
	w.rewrite("alpha", func(f map[string]any) { f["dispatched"] = []any{} })
	w.pass()
	w.write(w.path("alpha"), content)
	w.clock.Advance(pipeline.DefaultTimes.RedeliverAfter)
	w.pass()
	want(t, "entries", w.ids("alpha"), "T-00001")
	w.rewrite("alpha", func(f map[string]any) { f["dispatched"] = []any{} })
	w.clock.Advance(pipeline.DefaultTimes.RedeliverAfter / 2)
	w.pass()
	want(t, "missing for half the time", w.ids("alpha"), "")
	w.clock.Advance(pipeline.DefaultTimes.RedeliverAfter / 2)
	w.pass()
	want(t, "put back again", w.ids("alpha"), "T-00001")

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
	crashtest.Long(t, "brings 200 tasks to their end")
	w := newWorld(t, "alpha")
	w.agents[0].Trigger = pipeline.TriggerNone
	const rounds, each = 8, 25
	largest := int64(0)
	var last []pipeline.TaskID
	for range rounds {
		for _, id := range last {
			w.report(id, pipeline.AgentDone)
		}
		last = nil
		for range each {
			last = append(last, w.create("x", "alpha", pipeline.Normal))
		}
		w.pass()
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
		if rec.Dispatch.TakenAt.IsZero() || rec.Dispatch.TakenBy != core.TakenByFile {
			t.Fatalf("marked with %v: %+v", mark, rec.Dispatch)
		}
		w.clock.Advance(pipeline.DefaultTimes.SilentAfter - time.Minute)
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
				want(t, "task", words(rec.Attempt, rec.Dispatch.Attempt, rec.Taken(), rec.Status), "2 2 false assigned")
				e := w.entry("alpha", id)
				want(t, "entry", words(e["attempt"], e["picked"], e["runId"]), "2 <nil> otm-T-00001-alpha-2")
				want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1 otm-T-00001-alpha-2")
				taken, err := w.desk().Next(t.Context(), w.agent("alpha"), false)
				if err != nil || taken == nil || taken.Continue || words(doneIn(taken)) != "[1]" {
					t.Errorf("taken anew: %+v, %v", taken, err)
				}
				want(t, "once", w.pass().Details(), "Dispatched 0 tasks, woke 0 agents, 0 failures")
			})
		}
	}
}

// The board could not be written, the agent took the task, and a person sets it back
// before the next pass.
func TestSetBackBeforeFlipIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.board.refuse(func(pipeline.TaskID) error { return boardGone })
	w.pass()
	w.board.refuse(nil)
	w.restart()
	w.report(id, pipeline.InProgress)
	w.edit(id, w.status(pipeline.Assigned))
	w.clock.Advance(2 * time.Minute)
	want(t, "pass", w.pass().Dispatched, 1)
	rec := w.record(id)
	want(t, "task", words(rec.Attempt, rec.Taken(), rec.Dispatch.FlippedAt.IsZero()), "2 false false")
	w.clock.Advance(time.Minute)
	w.pass()
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-2")
}

// We were killed after a new hand-out and before its entry was written. The old entry
// and its mark do not count for it.
func TestOldEntryOfNewDispatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.next("alpha")
	w.edit(id, w.status(pipeline.New))
	w.do(core.Command{By: by(), Task: id, Do: core.HandOut{Agent: "alpha", Workspace: w.agent("alpha").Workspace}})
	want(t, "the old entry", words(w.entry("alpha", id)["attempt"], w.entry("alpha", id)["picked"]), "1 true")
	w.clock.Advance(2 * time.Minute)
	want(t, "pass", w.pass().Details(), "Dispatched 1 task, woke 1 agent, 0 failures")
	e := w.entry("alpha", id)
	want(t, "entry", words(e["attempt"], e["picked"], e["runId"]), "2 <nil> otm-T-00001-alpha-2")
}

func TestEntryOf(t *testing.T) {
	t.Parallel()
	tell := func(e *Entry) string { return words(e.Attempt, e.RunID, !e.members.Has("triggeredAt"), e.Picked) }
	named := func(m float64, attempt int) with {
		return func(t *core.Task) {
			t.Woken = &core.Woken{Key: core.WakeKey(t.ID, "a", attempt), Agent: "a", Attempt: attempt, At: minute(m)}
		}
	}
	want(t, "not woken", tell(entryOf(recordWith(1))), "1  true false")
	want(t, "not accepted", tell(entryOf(recordWith(1, wake(1, lost)))), "1  true false")
	want(t, "woken", tell(entryOf(recordWith(1, wake(0, endedAt(0, 15)), wake(16, accepted(16)), named(16, 2)))), "2 otm-T-00001-a-2 false false")
	want(t, "named by the wake of another task", tell(entryOf(recordWith(1, named(16, 9)))), "1 otm-T-00001-a-9 false false")
	want(t, "taken", tell(entryOf(recordWith(1, wake(0, accepted(0)), named(0, 1), taken(1)))), "1 otm-T-00001-a-1 false true")
	want(t, "dispatched anew", tell(entryOf(recordWith(1, wake(0, accepted(0)), named(0, 1), func(t *core.Task) { t.Dispatch.Attempt, t.Dispatch.At = 2, minute(1) }))), "2  true false")
	want(t, "given to another", tell(entryOf(recordWith(1, wake(0, accepted(0)), named(0, 1), func(t *core.Task) { t.Dispatch.Agent = "b" }))), "1  true false")
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
			w.pass() // both were woken by now: alpha is told
			want(t, "whom it was given to", w.next("beta"), id)
			want(t, "once", w.pass().Details(), "Dispatched 0 tasks, woke 0 agents, 0 failures")

			w.edit(id, w.assignee("alpha")) // and back
			w.clock.Advance(time.Hour)
			w.pass()
			want(t, "files", fmt.Sprintf("%q %q", w.ids("alpha"), w.ids("beta")), `"T-00001" ""`)
			want(t, "its old mark does not count", w.record(id).Taken(), false)
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
				w.edit(id, w.assignee(name))
				r := w.pass()
				want(t, "dispatched", r.Dispatched == 1, to == "to a person")
				want(t, "told", len(r.Failed) == 1, to == "to a stranger")
				want(t, "entries", w.ids("alpha"), "")
				want(t, "status", w.boardStatus(id), map[bool]pipeline.Status{true: pipeline.Assigned, false: pipeline.New}[to == "to a person"])
				want(t, "it has it no more", w.next("alpha"), pipeline.TaskID(0))
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

// A task is given away, and the board cannot be written at first.
func TestReassignedFlipLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	id := w.create("x", "alpha", pipeline.Normal)
	w.bringTo(id, "in_progress")
	w.edit(id, w.assignee("beta"))
	w.board.refuse(func(pipeline.TaskID) error { return boardGone })
	w.pass()
	want(t, "files", fmt.Sprintf("%q %q", w.ids("alpha"), w.ids("beta")), `"" "T-00001"`)
	w.board.refuse(nil)
	w.restart()
	w.pass()
	w.pass() // both were woken by now: alpha is told
	want(t, "status", words(w.boardStatus(id), w.record(id).Status), "assigned assigned")
	want(t, "files", fmt.Sprintf("%q %q", w.ids("alpha"), w.ids("beta")), `"" "T-00001"`)
	slices.Sort(w.waker.executed)
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1 otm-T-00001-alpha-1-loss otm-T-00001-beta-2")
}

// A person moves a task by hand after it was handed out and before the board shows
// that. The person's status stays.
func TestMovedByHandBeforeFlip(t *testing.T) {
	t.Parallel()
	for _, status := range []pipeline.Status{pipeline.InProgress, pipeline.Blocked} {
		w := newWorld(t, "alpha")
		id := w.create("x", "alpha", pipeline.Normal)
		w.do(core.Command{By: by(), Task: id, Do: core.HandOut{Agent: "alpha", Workspace: w.agent("alpha").Workspace}})
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

// An agent is renamed, and its tasks that rest go on resting: nobody answered the question of
// the blocked one, nor asked for another try of the failed one.
func TestRenamedAgentsTasksRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	blocked, failed, rejected, retried := w.create("a", "alpha", pipeline.Critical), w.create("b", "alpha", pipeline.High), w.create("c", "alpha", pipeline.Normal), w.create("d", "alpha", pipeline.Low)
	w.pass()
	for _, id := range []pipeline.TaskID{blocked, failed, rejected, retried} {
		want(t, "works on", w.next("alpha"), id)
		if to, ok := map[pipeline.TaskID]pipeline.Status{blocked: pipeline.Blocked, failed: pipeline.Failed, rejected: pipeline.Rejected}[id]; ok {
			w.edit(id, w.status(to))
		}
	}
	w.do(core.Command{By: by(), Task: retried, Agent: "alpha", Do: core.FailRun{Run: 1, Types: pipeline.Types{pipeline.Action: {MaxRetries: 3}}}})
	w.agents[0].Name = "omega" // on the board it is still alpha
	w.restart()
	want(t, "given out", w.pass().Dispatched, 0)
	want(t, "they are", w.statuses(blocked, failed, rejected, retried), "blocked failed rejected pending")
	want(t, "runs", w.runsOf(retried), "1 failed")
	w.edit(blocked, w.status(pipeline.InProgress))
	want(t, "woken for the answer", w.pass().Woken, 1)
	want(t, "takes", w.next("omega"), blocked)
	w.report(blocked, pipeline.AgentDone)
	w.clock.Advance(time.Hour)
	w.pass()
	want(t, "the retry", w.next("omega"), retried)
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

// The row of a task is deleted, and comes back.
func TestRowDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.create("y", "alpha", pipeline.Normal)
	w.pass()
	w.deleteRow(id)
	w.pass()
	want(t, "deleted", w.ids("alpha"), "T-00002")
	w.do(core.Command{By: core.ByPerson(""), Task: id, Do: core.RestoreRow{Row: w.record(id).RowID}})
	w.pass()
	want(t, "restored", w.ids("alpha"), "T-00002 T-00001")
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1 otm-T-00001-alpha-1-loss")
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
	want(t, "wakes", w.waker.keys(), "otm-T-00001-alpha-1")
	if d := r.Due.Sub(heard); d < pipeline.DefaultTimes.SilentAfter-time.Minute || d > pipeline.DefaultTimes.SilentAfter+time.Minute {
		t.Errorf("to be looked at %v after it was heard of", d)
	}
	w.clock.Advance(2 * time.Minute)
	for range 3 {
		want(t, "told", words(w.pass().Given), "[T-00001: alpha took it and has reported nothing for too long, the last time 1h ago → otm release T-00001]")
	}
	want(t, "logged", w.log.count(slog.LevelWarn, "reported nothing for too long"), 1)
	want(t, "asked once", w.waker.keys(), "otm-T-00001-alpha-1 otm-T-00001-alpha-2")
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
			want(t, "entries", w.sorted("alpha"), "[T-00001 T-00002]")
			w.clock.Advance(2 * pipeline.DefaultTimes.RedeliverAfter)
			w.pass()
			want(t, "entries", w.sorted("alpha"), "[T-00001 T-00002]")
			want(t, "alpha takes", w.next("alpha"), a)
			want(t, "beta takes", w.next("beta"), b)
			for name, id := range map[string]pipeline.TaskID{"alpha": a, "beta": b} {
				state, err := w.d.Entries.files().state(w.agents, w.agent(name))
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

// sorted are the tasks in an agent's dispatch file, in the order of their ids.
func (w *world) sorted(agent string) []string {
	w.Helper()
	ids := strings.Fields(w.ids(agent))
	slices.Sort(ids)
	return ids
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
	for _, i := range []pipeline.TaskID{id, bent} {
		w.edit(i, func(e *core.Edits) {
			title, priority := "changed", pipeline.Critical
			e.Title, e.Priority = &title, &priority
		})
	}
	w.pass()
	e := w.entry("alpha", id)
	want(t, "entry", words(e["title"], e["priority"], e["subtasks"]), "changed critical [one]")
	e = w.entry("alpha", bent)
	want(t, "bent entry", words(e["title"], e["priority"], e["subtasks"]), "<nil> critical [map[done:true title:one]]")
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
	w.d.Entries.lockWait = 10 * time.Millisecond
	r := w.pass()
	if len(r.Failed) != 2 || !strings.Contains(r.Failed[0], "T-00001: dispatch file of alpha: lock") || !strings.Contains(r.Failed[1], "held by process") {
		t.Errorf("failed: %q", r.Failed)
	}
	want(t, "the other", w.boardStatus(other), pipeline.Assigned)
	close(release)
	w.d.Entries.lockWait = 0
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want(t, "then", w.pass().Dispatched, 1)
}

// B76: whatever an agent does to the file without our lock, each dispatch is
// delivered until it is taken.
func TestConcurrentRewriting(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "brings 120 tasks to their end")
	w := newWorld(t, "alpha")
	w.agents[0].Trigger = pipeline.TriggerNone
	const all = 120
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
	tend := func(upTo int) {
		for int(w.last) < upTo {
			w.create("x", "alpha", pipeline.Normal)
		}
		w.pass()
	}
	for i := range 40 {
		tend((i + 1) * all / 40)
		if i%4 == 3 {
			w.clock.Advance(pipeline.DefaultTimes.RedeliverAfter)
			taken, err := w.desk().Next(t.Context(), w.agent("alpha"), true)
			if err != nil {
				t.Fatal(err)
			}
			if taken != nil {
				if takenOnce[taken.Task.ID] {
					t.Errorf("%v was given twice", taken.Task.ID)
				}
				takenOnce[taken.Task.ID] = true
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
	for id := range w.last {
		if rec := w.record(id + 1); !rec.Taken() && !there[rec.ID.String()] {
			t.Errorf("%v was never taken, and is not in the file", rec.ID)
		}
	}
}

// More tasks than one chunk are handed out in one pass.
func TestManyTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	for range maxChunk + 1 {
		w.create("x", "alpha", pipeline.Normal)
	}
	want(t, "dispatched", w.pass().Dispatched, maxChunk+1)
	want(t, "entries", len(w.entries("alpha")), maxChunk+1)
}

// Another process shows a hand-out on the board before its entry is written. The entry
// is written all the same, and the agent is woken only then.
func TestBoardBeforeEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.do(core.Command{By: by(), Task: id, Do: core.HandOut{Agent: "alpha", Workspace: w.agent("alpha").Workspace}})
	if err := w.board.write(t.Context(), w.record(id)); err != nil {
		t.Fatal(err)
	}
	release, held, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- edit(t.Context(), w.dir, w.agent("alpha").Workspace, minute(0), func(*File) error {
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	w.d.Entries.lockWait = 10 * time.Millisecond
	want(t, "the file is locked", w.pass().Woken, 0)
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.d.Entries.lockWait = 0
	w.clock.Advance(time.Minute)
	want(t, "then", w.pass().Woken, 1)
	want(t, "entries", w.ids("alpha"), "T-00001")
}
