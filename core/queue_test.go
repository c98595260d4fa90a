package core

import (
	"testing"
	"time"

	"otm/pipeline"
)

// unclaimed has task 1 in the shared queue.
func (w *world) unclaimed() {
	w.t.Helper()
	w.must(Command{ID: "d1", Task: 1, By: boss, Do: Request{
		Task: pipeline.Task{ID: 1, Title: "Build it", Agent: pipeline.SharedQueue, Type: pipeline.Action, Steps: []string{"one", "two"}}, CreatedAt: t0,
	}})
	w.show()
}

func claim(by string) Command {
	return Command{Task: 1, By: ByAgent(by), Do: Claim{Workspace: "/w", Via: pipeline.TriggerExec}}
}

// claimed has task 1 in progress with an agent that claimed it.
func (w *world) claimed() {
	w.t.Helper()
	w.unclaimed()
	w.must(claim("devdas"))
	w.show()
}

// retried has task 1 in the shared queue, ready for its second run.
func (w *world) retried() {
	w.t.Helper()
	w.claimed()
	w.must(failRun(1))
	w.now = w.now.Add(time.Minute)
}

func failRun(run int) Command {
	return Command{Task: 1, By: boss, Do: FailRun{Run: run, Types: pipeline.Types{pipeline.Action: {MaxRetries: 3}}}}
}

// Who claims a task of the shared queue, what happens by it, and where the task is after
// whatever happens to it then.
func TestSharedQueue(t *testing.T) {
	t.Parallel()
	edit := func(e Edits) Command { return Command{Task: 1, By: ada, Do: e} }
	to := func(s pipeline.Status) Command { return edit(Edits{Status: &s}) }
	report := func(by string, r Report) Command { return Command{ID: "u", Task: 1, By: ByAgent(by), Do: r} }
	renamed := Command{Task: 1, By: boss, Do: Edits{Agent: ptr("mira")}} // as otm.toml says
	const isClaimed = "HandedOut Acknowledged RunStarted new→in_progress(TT-23)"
	for _, tt := range []struct {
		name    string
		from    func(*world)
		command Command
		want    string // story, or the refusal after "!"
		agent   string
	}{
		{"claim", (*world).unclaimed, claim("devdas"), isClaimed, "devdas"},
		{"claim in vain", (*world).claimed, claim("mira"), "!outdated", "devdas"},
		{"claim it twice", (*world).claimed, claim("devdas"), "!outdated", "devdas"},
		{"claim the task of an agent", (*world).requested, claim("mira"), "!outdated", "devdas"},
		{"claim what nobody has", func(w *world) { w.requested(); w.must(edit(Edits{Agent: ptr("")})) }, claim("mira"), "!outdated", ""},
		{"claim what is set aside", func(w *world) { w.unclaimed(); w.moveTo(pipeline.Dormant) }, claim("mira"), "!outdated", "queue"},
		{"claim what a person set to assigned", func(w *world) { w.unclaimed(); w.moveTo(pipeline.Assigned) }, claim("mira"),
			"HandedOut Acknowledged RunStarted assigned→in_progress(TT-02)", "mira"},
		{"claim what was deleted", func(w *world) { w.unclaimed(); w.must(Command{Task: 1, By: ada, Do: LoseRow{"Rec1"}}) }, claim("mira"), "!outdated", "queue"},
		{"hand it out", (*world).unclaimed, Command{Task: 1, By: boss, Do: HandOut{Agent: "mira"}}, "!outdated", "queue"},
		{"report without a claim", (*world).unclaimed, report("mira", Report{Status: pipeline.InProgress}), "!not yet", "queue"},
		{"report from before the claim", (*world).claimed, report("devdas", Report{Dropped: t0, Status: pipeline.AgentDone}), "!former", "devdas"},

		{"its run fails", (*world).claimed, failRun(1), "RunFailed RetryScheduled in_progress→pending(TT-21)", "queue"},
		{"claim before the retry", func(w *world) { w.claimed(); w.must(failRun(1)) }, claim("mira"), "!outdated", "queue"},
		{"claim the retry", (*world).retried, claim("mira"), "pending→new(TT-05) " + isClaimed, "mira"},
		{"the run did not fail", (*world).retried, report("devdas", Report{Steps: []string{"1"}}), "RunStarted pending→in_progress(TT-02) StepDone Noted", "devdas"},
		{"a report of the former run", func(w *world) { w.retried(); w.must(claim("mira")) },
			report("devdas", Report{Run: 1, Claims: "devdas", Steps: []string{"1"}}), "!other", "mira"},
		{"no retry", (*world).claimed, report("devdas", Report{Status: pipeline.Failed, Reason: "no", Terminal: true}),
			"RunFailed in_progress→failed(TT-13) Noted", "devdas"},
		{"requeued", func(w *world) { w.claimed(); w.moveTo(pipeline.Failed) }, to(pipeline.New), "failed→new(TT-14)", "queue"},
		{"released", (*world).claimed, to(pipeline.New), "in_progress→new(TT-24) RunCanceled", "queue"},
		{"stopped and activated", func(w *world) { w.claimed(); w.moveTo(pipeline.Dormant) }, to(pipeline.New), "dormant→new(TT-22)", "queue"},
		{"given to an agent", (*world).claimed, edit(Edits{Agent: ptr("mira")}), "Edited(assignee) in_progress→new(TT-24) RunCanceled", "mira"},
		{"its agent has another name", (*world).claimed, renamed, "Edited(assignee) in_progress→new(TT-24) RunCanceled", "mira"},
		{"its agent has another name, and is released", func(w *world) {
			w.claimed()
			w.must(renamed)
			w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "mira"}})
		}, to(pipeline.New), "assigned→new(TT-24)", "queue"},
		{"its agent has another name, and its work is taken up", func(w *world) {
			w.claimed()
			w.moveTo(pipeline.AgentDone)
			w.must(renamed)
		}, to(pipeline.InProgress), "agent_done→in_progress()", "mira"},
		{"given to an agent before", (*world).unclaimed, edit(Edits{Agent: ptr("mira")}), "Edited(assignee)", "mira"},
		{"given to an agent, and released", func(w *world) {
			w.claimed()
			w.must(edit(Edits{Agent: ptr("mira")}))
			w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "mira"}})
		}, to(pipeline.New), "assigned→new(TT-24)", "mira"},
		{"put into the queue", (*world).taken, edit(Edits{Agent: ptr("queue")}), "Edited(assignee) in_progress→new(TT-24) RunCanceled", "queue"},
		{"answered", func(w *world) { w.claimed(); w.moveTo(pipeline.Blocked) }, to(pipeline.InProgress), "blocked→in_progress(TT-17)", "devdas"},
		{"sent back", func(w *world) { w.claimed(); w.moveTo(pipeline.AgentDone) }, to(pipeline.New), "agent_done→new(TT-26)", "devdas"},
		{"sent back after a rest", func(w *world) { w.claimed(); w.moveTo(pipeline.AgentDone); w.moveTo(pipeline.Rejected) }, to(pipeline.New), "rejected→new(TT-08)", "devdas"},
		{"the rework fails", func(w *world) {
			w.claimed()
			w.moveTo(pipeline.AgentDone)
			w.moveTo(pipeline.New)
			w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas", Workspace: "/w"}})
			w.must(Command{Task: 1, By: devdas, Do: Take{TakenByNext}})
		}, failRun(2), "RunFailed RetryScheduled in_progress→pending(TT-21)", "queue"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.from(w)
			n := len(w.events)
			err := w.do(tt.command)
			got := story(w.events[n:])
			if err != nil {
				got = "!" + refusal(err)
			}
			if got != tt.want || w.task().Agent != tt.agent {
				t.Errorf("%q, with %q; want %q, with %q", got, w.task().Agent, tt.want, tt.agent)
			}
			w.checkRebuild()
		})
	}
}
