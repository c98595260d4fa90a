package dispatch

import (
	"os"
	"testing"
	"time"

	"otm/core"
	"otm/pipeline"
)

// statuses are the statuses of tasks, in order, with "*" where a task is in its agent's
// queue.
func (w *world) statuses(ids ...pipeline.TaskID) string {
	var all []any
	for _, id := range ids {
		s := string(w.record(id).Status)
		if w.record(id).Queued() {
			s += "*"
		}
		all = append(all, s)
	}
	return words(all...)
}

// An agent with one process or one session has one task that is assigned or in progress.
// The others wait behind it, and stand in its file. It may take any of them.
func TestQueueBehindABusyAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	a, b := w.create("a", "alpha", pipeline.Normal), w.create("b", "alpha", pipeline.Normal)
	other := w.create("other", "beta", pipeline.Normal)
	want(t, "woken", w.pass().Woken, 2)
	want(t, "at first", w.statuses(a, b, other), "assigned pending* assigned")
	want(t, "on the board", words(w.boardStatus(b), w.ids("alpha")), "pending T-00001 T-00002")

	urgent := w.create("urgent", "alpha", pipeline.Critical)
	w.pass()
	want(t, "a more urgent one waits too", w.statuses(a, b, urgent), "assigned pending* pending*")
	want(t, "it takes that one", w.next("alpha"), urgent)
	w.pass()
	want(t, "and no other is assigned", w.statuses(a, b, urgent), "pending* pending* in_progress")
	want(t, "the board", words(w.boardStatus(a), w.boardStatus(urgent)), "pending in_progress")
	want(t, "tries", w.record(a).Runs.Tries(0), 0)

	w.report(urgent, pipeline.AgentDone)
	want(t, "it takes the next one by itself", words(w.pass().Woken, w.next("alpha")), words(0, a))
	w.report(a, pipeline.Blocked)
	w.pass()
	want(t, "nobody is busy with a blocked task", w.statuses(a, b), "blocked pending*")
	w.clock.Advance(afterTask)
	want(t, "woken for the last one", w.pass().Woken, 1)
	want(t, "which is assigned", w.statuses(a, b), "blocked assigned")
}

// A report on a waiting task takes it, as a mark in the dispatch file does.
func TestReportOnAWaitingTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	first, reported, marked, done := w.create("a", "alpha", pipeline.Normal), w.create("b", "alpha", pipeline.Normal),
		w.create("c", "alpha", pipeline.Normal), w.create("d", "alpha", pipeline.Normal)
	w.pass()
	w.report(reported, pipeline.InProgress)
	w.report(done, pipeline.AgentDone)
	want(t, "reported", w.statuses(first, reported, marked, done), "assigned in_progress pending* agent_done")
	w.rewrite("alpha", func(file map[string]any) {
		for _, e := range file["dispatched"].([]any) {
			if e := e.(map[string]any); e["taskId"] == marked.String() {
				e["picked"] = true
			}
		}
	})
	w.pass()
	want(t, "marked", w.statuses(first, reported, marked), "pending* in_progress assigned")
	want(t, "by its mark", w.record(marked).Dispatch.TakenBy, core.TakenByFile)
}

// The tasks of an agent that is not started for a while wait, whatever they were.
func TestQueueOfAnAgentThatIsPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	a, b := w.create("a", "alpha", pipeline.Normal), w.create("b", "alpha", pipeline.High)
	w.pass()
	want(t, "at first", w.statuses(a, b), "pending* assigned")
	w.do(core.Command{By: core.Actor{Kind: core.Person, Name: "rob"}, Agent: "alpha", Do: core.PauseAgent{Reason: "its key"}})
	w.pass()
	want(t, "paused by a person", w.statuses(a, b), "pending* pending*")
	w.do(core.Command{By: core.Actor{Kind: core.Person, Name: "rob"}, Agent: "alpha", Do: core.ResumeAgent{}})
	want(t, "woken", w.pass().Woken, 1)
	want(t, "resumed", w.statuses(a, b), "pending* assigned")
}

// A person has all tasks at once, and so has an agent that looks by itself.
func TestNoQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.agents[0].Trigger = pipeline.TriggerNone
	w.agents = append(w.agents, pipeline.Agent{Name: "olga", Label: "olga", Person: true})
	w.restart()
	ids := []pipeline.TaskID{w.create("a", "alpha", pipeline.Normal), w.create("b", "alpha", pipeline.Normal), w.create("c", "olga", pipeline.Normal), w.create("d", "olga", pipeline.Normal)}
	w.pass()
	want(t, "statuses", w.statuses(ids...), "assigned assigned assigned assigned")
}

// Without a store, as in a sandbox, the entries of the file tell what waits.
func TestWaitingTaskWithoutAStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("a", "alpha", pipeline.Normal)
	b := w.create("b", "alpha", pipeline.Normal)
	w.pass()
	w.report(1, pipeline.AgentDone)
	w.pass()
	want(t, "it waits", w.statuses(b), "pending*")
	desk := w.desk()
	desk.Store = nil
	desk.Known = func(r *pipeline.Rendering) {
		its := w.record(r.TaskID).Rendering()
		r.Status, r.Steps, r.Body = its.Status, its.Steps, "what to know"
	}
	taken, err := desk.Next(t.Context(), w.agent("alpha"), false)
	if err != nil || taken == nil || taken.Task.ID != b || taken.Task.Body != "what to know" {
		t.Fatalf("taken: %+v, %v", taken, err)
	}
	w.clock.Advance(time.Second)
	w.pass()
	want(t, "the mark counts", words(w.record(b).Status, w.record(b).Taken()), "assigned true")
}

// B44: a person's answer is stored, and everything dies before the agent is woken for it. The
// next start wakes it, once.
func TestAnswerBeforeTheEndOfEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("a", "alpha", pipeline.Normal)
	w.pass()
	w.next("alpha")
	w.report(id, pipeline.Blocked)
	if _, err := RecordEnd(t.Context(), w.store, core.EndStart{Key: w.waker.keys(), Outcome: core.OutcomeOK}, w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Minute)
	want(t, "while it is blocked", w.pass().Woken, 0)
	w.edit(id, w.status(pipeline.InProgress))
	for n, woken := range []int{1, 0} {
		w.restart()
		want(t, words("start", n), w.pass().Woken, woken)
	}
}

// newLeftWorld has an agent whose process has ended, and left a task that it took; another
// task waits behind that.
func newLeftWorld(t *testing.T) (w *world, taken, waiting pipeline.TaskID) {
	w = newExecWorld(t, `exit 1`)
	taken, waiting = w.create("a", "alpha", pipeline.Normal), w.create("b", "alpha", pipeline.Normal)
	w.pass()
	w.ended()
	want(t, "taken", w.next("alpha"), taken)
	return w, taken, waiting
}

// A wake is for the task that otm next gives: a retry comes after what waited meanwhile.
func TestWakeAndNextAgree(t *testing.T) {
	t.Parallel()
	w, a, b := newLeftWorld(t)
	w.d.Wakers = nil
	w.report(a, pipeline.Failed)
	w.clock.Advance(time.Hour)
	w.pass() // hands the retry of a out, behind b
	w.d.Wakers = map[pipeline.Trigger]Waker{pipeline.TriggerExec: w.waker}
	w.clock.Advance(time.Hour)
	want(t, "woken", w.pass().Woken, 1)
	want(t, "for", w.record(b).Status, pipeline.Assigned)
	w.ended()
	want(t, "given", w.next("alpha"), b)
}

// The workspace of an agent is removed while it works. That its process ended counts all the
// same, and its task is no longer in progress.
func TestEndWithoutAWorkspace(t *testing.T) {
	t.Parallel()
	w, id, _ := newLeftWorld(t)
	if err := os.RemoveAll(w.agent("alpha").Workspace); err != nil {
		t.Fatal(err)
	}
	w.pass()
	want(t, "its run", words(w.runsOf(id), w.record(id).Status), "1 failed pending")
}

// A person sets a task that waits to in progress on the board. It counts as taken: its
// agent is woken to go on with it, and otm next gives it.
func TestPersonBeginsAWaitingTask(t *testing.T) {
	t.Parallel()
	w, a, b := newLeftWorld(t)
	w.edit(b, w.status(pipeline.InProgress))
	want(t, "as the person said", words(w.record(b).Status, w.record(b).Taken()), "in_progress true")
	w.report(a, pipeline.AgentDone)
	w.pass()
	w.ended()
	w.clock.Advance(time.Hour)
	w.pass()
	w.ended()
	want(t, "given", w.next("alpha"), b)
}

// A message on a task that waits does not begin it.
func TestNoteOnAWaitingTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("a", "alpha", pipeline.Normal)
	b := w.create("b", "alpha", pipeline.Normal)
	w.pass()
	w.do(core.Command{ID: "n", By: core.ByAgent("alpha"), Task: b, Do: core.Report{Drop: "n", Dropped: w.clock.Now(), Message: pipeline.Message{Text: "hello"}}})
	want(t, "it waits", words(w.record(b).Queued(), w.record(b).LastMessage.Text), "true hello")
}
