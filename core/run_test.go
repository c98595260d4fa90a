package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"otm/pipeline"
)

// runs is the chain of a task's runs: numbers, endings, tries.
func runs(t *Task) string {
	var all []string
	for _, r := range t.Runs {
		ending := r.Ending
		if ending == "" {
			ending = "open"
		}
		all = append(all, fmt.Sprintf("%d %s", r.Number, ending))
	}
	return strings.Join(all, ", ")
}

// wantRuns checks the chain of task 1's runs, its status, and how many tries failed.
func (w *world) wantRuns(status pipeline.Status, tries int, chain string) {
	w.t.Helper()
	w.want(status)
	if got := runs(w.task()); got != chain || w.task().Runs.Tries(w.task().CountFrom) != tries {
		w.t.Fatalf("runs %q, %d tries, want %q, %d", got, w.task().Runs.Tries(w.task().CountFrom), chain, tries)
	}
}

// again hands task 1 out once its wait is over, and has its agent take it.
func (w *world) again() {
	w.t.Helper()
	if wait := w.task().Wait; wait.Waits(w.now) {
		w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas", Workspace: "/w"}})
		w.want(pipeline.Pending) // not yet
		w.now = wait.Until
	}
	w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas", Workspace: "/w"}})
	w.must(Command{Task: 1, By: devdas, Do: Take{TakenByNext}})
	w.show()
}

// dies ends the open run of task 1 without a result.
func (w *world) dies(f Failure) {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	w.must(Command{Task: 1, By: boss, Do: FailRun{Run: w.task().Runs.Number(), Failure: f}})
}

// A person who resumes an agent has mended it: its tasks need not wait for their next run,
// those of others do.
func TestResumeEndsTheWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	w.dies(Failure{Exit: "exit status 1"})
	w.must(Command{By: ada, Agent: "archibald", Also: []pipeline.TaskID{1}, Do: ResumeAgent{}})
	if !w.task().Wait.Waits(w.now) {
		t.Error("the task of another does not wait")
	}
	w.must(Command{By: ada, Agent: "Devdas", Also: []pipeline.TaskID{1}, Do: ResumeAgent{}})
	w.wantRuns(pipeline.Pending, 1, "1 failed")
	w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas", Workspace: "/w"}})
	w.want(pipeline.Assigned)
	w.checkRebuild()
}

// A task whose runs end without a result is tried four times, after growing pauses, and
// is a dead letter then. Requeueing gives it one more run, or four with a new count.
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	code := 1
	for i, pause := range []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute} {
		w.dies(Failure{Exit: "exit code 1", Code: &code, Log: "/log"})
		w.want(pipeline.Pending)
		if wait := w.task().Wait.Until.Sub(w.now); wait < pause*9/10 || wait > pause*11/10 {
			t.Fatalf("after %d runs it waits %v, want about %v", i+1, wait, pause)
		}
		if w.task().Reason != "the run ended without a result: exit code 1" {
			t.Fatalf("reason %q", w.task().Reason)
		}
		w.again()
		if w.task().Reason != "" {
			t.Fatalf("in the next run the reason is still %q", w.task().Reason)
		}
	}
	w.dies(Failure{Exit: "exit code 1", Code: &code})
	w.wantRuns(pipeline.Failed, 4, "1 failed, 2 failed, 3 failed, 4 failed")
	w.must(Command{Task: 1, By: ada, Do: Edits{Status: ptr(pipeline.New)}})
	w.again()
	w.dies(Failure{Words: "no GPU"})
	w.wantRuns(pipeline.Failed, 5, "1 failed, 2 failed, 3 failed, 4 failed, 5 failed")
	w.must(Command{Task: 1, By: ada, Do: Edits{Status: ptr(pipeline.New), Reset: true}})
	w.again()
	w.dies(Failure{})
	w.wantRuns(pipeline.Pending, 1, "1 failed, 2 failed, 3 failed, 4 failed, 5 failed, 6 failed")
	w.again()
	w.must(Command{Task: 1, By: devdas, Do: Report{Status: pipeline.AgentDone}})
	w.wantRuns(pipeline.AgentDone, 0, "1 failed, 2 failed, 3 failed, 4 failed, 5 failed, 6 failed, 7 succeeded")
	w.checkRebuild()
}

// A run that ticked a step, or asks to be tried later, counts no try.
func TestFreeRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	w.must(Command{Task: 1, By: devdas, Do: Report{Dropped: w.now.Add(time.Second), Steps: []string{"one"}}})
	w.now = w.now.Add(time.Minute)
	w.dies(Failure{})
	w.wantRuns(pipeline.Pending, 0, "1 failed")
	if !w.task().Ready(w.now) {
		t.Error("a run that got on is not followed by the next at once")
	}
	w.again()
	later := w.now.Add(20 * time.Minute)
	w.must(Command{Task: 1, By: boss, Do: FailRun{Run: 2, Failure: Failure{Free: true}, NotBefore: later}})
	w.wantRuns(pipeline.Pending, 0, "1 failed, 2 failed")
	if until := w.task().Wait.Until; !until.Equal(later) {
		t.Errorf("it waits until %v, want %v", until, later)
	}
}

// An agent that ticks all steps and ends has done its task: no failure is made of that
// before the completion detector has looked.
func TestAllStepsDoneIsAResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	w.must(Command{Task: 1, By: devdas, Do: Report{Dropped: w.now, Steps: []string{"one", "two"}}})
	w.dies(Failure{})
	w.wantRuns(pipeline.AgentDone, 0, "1 succeeded")
}

// A report that comes after its run counted as failed puts the task back under the run,
// until the next one begins. The run goes on as if it had not failed.
func TestLateReportStrikesTheFailure(t *testing.T) {
	t.Parallel()
	retries := func(n int) pipeline.Types {
		return pipeline.Types{"": {Review: true, MaxRetries: n}, pipeline.Action: {Review: true, MaxRetries: n}}
	}
	for _, tt := range []struct {
		name   string
		report Report
		want   pipeline.Status
		chain  string
	}{
		{"a step", Report{Steps: []string{"one"}}, pipeline.InProgress, "1 open"},
		{"words", Report{Result: "half of it"}, pipeline.InProgress, "1 open"},
		{"a note", Report{Message: pipeline.Message{Text: "half of it"}}, pipeline.InProgress, "1 open"},
		{"done", Report{Status: pipeline.AgentDone}, pipeline.AgentDone, "1 succeeded"},
		{"blocked", Report{Status: pipeline.Blocked, Reason: "why"}, pipeline.Blocked, "1 paused"},
		{"failed", Report{Status: pipeline.Failed, Reason: "no GPU"}, pipeline.Pending, "1 failed"},
		{"given up", Report{Status: pipeline.Failed, Reason: "no GPU", Terminal: true}, pipeline.Failed, "1 failed"},
	} {
		for _, max := range []int{0, 3} { // a dead letter, and one that waits for its retry
			t.Run(fmt.Sprint(tt.name, max), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.taken()
				w.must(Command{Task: 1, By: boss, Do: FailRun{Run: 1, Types: retries(max)}})
				report := tt.report
				report.Dropped = w.now
				w.must(Command{Task: 1, By: devdas, Do: report})
				w.want(tt.want)
				if got := runs(w.task()); got != tt.chain {
					t.Errorf("runs %q, want %q", got, tt.chain)
				}
				w.checkRebuild()
			})
		}
	}
}

// OTM ends what a killed process left, and then the run is canceled: its end tells nothing of the
// agent.
func TestEndsForAnotherReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	judge := func(e *Ends) {
		t.Helper()
		w.must(Command{By: boss, Agent: "devdas", Do: JudgeStart{MaxFailures: 3, Ends: e}})
	}
	judge(&Ends{Task: 1, Since: t0, Orphan: true})
	judge(&Ends{Task: 1, Since: t0.Add(time.Second), Orphan: true})
	if is := w.state.Agents["devdas"].Ends; !is.Since.Equal(t0) || is.Canceled() {
		t.Errorf("noted again: %+v", is)
	}
	judge(&Ends{Task: 1, Since: t0.Add(time.Minute)})
	if is := w.state.Agents["devdas"].Ends; !is.Canceled() {
		t.Errorf("canceled since: %+v", is)
	}
}

// A run that the agent says failed is retried, or not if a retry makes no sense.
func TestAgentSaysFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	w.must(Command{Task: 1, By: devdas, Do: Report{Status: pipeline.Failed, Reason: "the tests need a GPU"}})
	w.wantRuns(pipeline.Pending, 1, "1 failed")
	if w.task().Reason != "the tests need a GPU" {
		t.Errorf("reason %q", w.task().Reason)
	}
	note := Report{Message: pipeline.Message{Text: "the small ones pass"}} // does not take it back
	w.must(Command{Task: 1, By: devdas, Do: note})
	w.wantRuns(pipeline.Pending, 1, "1 failed")
	w.again()
	w.must(Command{Task: 1, By: devdas, Do: Report{Status: pipeline.Failed, Reason: "there is none", Terminal: true}})
	w.must(Command{Task: 1, By: devdas, Do: note})
	w.wantRuns(pipeline.Failed, 2, "1 failed, 2 failed")
}

// Runs are numbered, and a report of a former run is a conflict: of one that another run
// followed, and of one whose task left its agent's hands.
func TestFormerRun(t *testing.T) {
	t.Parallel()
	report := func(w *world, run int) error {
		return w.do(Command{Task: 1, By: devdas, Do: Report{Dropped: w.now, Run: run, Result: "x"}})
	}
	w := newWorld(t)
	w.taken()
	if err := report(w, 1); err != nil {
		t.Fatal(err)
	}
	w.dies(Failure{})
	w.again()
	if err := report(w, 1); refusal(err) != string(RuleFormerRun) {
		t.Errorf("a report of run 1 in run 2: %v", err)
	}
	if err := report(w, 2); err != nil {
		t.Error(err)
	}
	// A person releases it, and its agent is to begin anew: the old process goes on.
	w.must(Command{Task: 1, By: ada, Do: Edits{Status: ptr(pipeline.New)}})
	w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas", Workspace: "/w"}})
	if err := report(w, 2); refusal(err) != string(RuleFormerRun) {
		t.Errorf("a report of a run that was taken away: %v", err)
	}
	// Given to another agent, which has not taken it yet.
	w.must(Command{Task: 1, By: ada, Do: Edits{Agent: ptr("mira")}})
	w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "mira", Workspace: "/m"}})
	if err := w.do(Command{Task: 1, By: ByAgent("mira"), Do: Report{Dropped: w.now, Run: 2, Result: "x"}}); refusal(err) != string(RuleFormerRun) {
		t.Errorf("a report of the former agent's run: %v", err)
	}
}

// The agent ticks its last step, and that ends the task. Somebody sends it back before the agent
// says what came of it: these words do not end the task again, with nobody aware of the rework.
func TestLateWordsAfterARework(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	done := func(run int) Command {
		return Command{Task: 1, By: devdas, Do: Report{Dropped: w.now, Run: run, Status: pipeline.AgentDone, Result: "x"}}
	}
	w.must(done(1))
	w.must(done(1)) // once more, while it waits for review
	for _, to := range []pipeline.Status{pipeline.New, pipeline.InProgress} {
		w.must(Command{Task: 1, By: ada, Do: Edits{Status: &to, Reason: ptr("tests are missing")}})
		if to == pipeline.New {
			w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas", Workspace: "/w"}})
		}
		run := w.task().Runs.Number()
		if err := w.do(done(run)); refusal(err) != string(RuleFormerRun) {
			t.Errorf("late words of run %d after it was set to %s: %v; it is %s", run, to, err, w.task().Status)
		}
		w.must(Command{Task: 1, By: devdas, Do: Take{TakenByNext}})
		w.must(done(run + 1))
	}
}

// A process of a former run that is still about changes nothing: neither while the task
// waits for its next run, nor as a dead letter, nor once it is done.
func TestFormerRunOfLeftoverProcess(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world){
		"pending": func(w *world) { w.dies(Failure{}) },
		"failed": func(w *world) {
			w.must(Command{Task: 1, By: devdas, Do: Report{Status: pipeline.Failed, Reason: "no", Terminal: true}})
		},
		"done": func(w *world) {
			w.must(Command{Task: 1, By: devdas, Do: Report{Status: pipeline.AgentDone, Result: "of run 2"}})
		},
		"blocked": func(w *world) {
			w.must(Command{Task: 1, By: devdas, Do: Report{Status: pipeline.Blocked, Reason: "why"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.taken()
			w.dies(Failure{})
			w.again()
			end(w)
			was := mustJSON(t, w.task())
			for _, r := range []Report{{Result: "of run 1"}, {Status: pipeline.AgentDone}, {Steps: []string{"one"}}} {
				r.Run, r.Dropped = 1, w.now
				if err := w.do(Command{Task: 1, By: devdas, Do: r}); refusal(err) != string(RuleFormerRun) {
					t.Errorf("%+v: %v", r, err)
				}
			}
			if is := mustJSON(t, w.task()); is != was {
				t.Errorf("the task changed from\n%s\nto\n%s", was, is)
			}
		})
	}
}

// What a person asked for with a rework is read until that is done.
func TestDoneClearsTheReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	w.must(Command{Task: 1, By: devdas, Do: Report{Dropped: w.now, Status: pipeline.AgentDone}})
	w.must(Command{Task: 1, By: ada, Do: Edits{Status: ptr(pipeline.New), Reason: ptr("shorter, please")}})
	w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas", Workspace: "/w"}})
	w.must(Command{Task: 1, By: devdas, Do: Report{Dropped: w.now, Steps: []string{"one"}}})
	if reason := w.task().Reason; reason != "shorter, please" {
		t.Errorf("the reason of the rework is %q while the agent works", reason)
	}
	w.must(Command{Task: 1, By: devdas, Do: Report{Dropped: w.now, Status: pipeline.AgentDone}})
	if reason := w.task().Reason; reason != "" {
		t.Errorf("the reason of the rework stands on what is done: %q", reason)
	}
	w.must(Command{Task: 1, By: devdas, Do: Report{Dropped: w.now, Status: pipeline.AgentDone, Reason: "see the notes"}})
	if reason := w.task().Reason; reason != "see the notes" {
		t.Errorf("reason %q", reason)
	}
}

// A report that names the last run puts the task back under it, also once the task was
// handed out again, as long as nobody took it. So does one of a run that has not begun:
// it is the holder's word, and a lost store knows no numbers.
func TestReportNamesRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		run   int
		chain string
	}{{1, "1 succeeded"}, {0, "1 failed, 2 succeeded"}, {2, "1 failed, 2 succeeded"}, {9, "1 failed, 2 succeeded"}} {
		t.Run(fmt.Sprint(tt.run), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.taken()
			w.dies(Failure{})
			w.now = w.task().Wait.Until
			w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas", Workspace: "/w"}})
			w.must(Command{Task: 1, By: devdas, Do: Report{Dropped: w.now, Run: tt.run, Status: pipeline.AgentDone}})
			w.wantRuns(pipeline.AgentDone, 0, tt.chain)
			w.checkRebuild()
		})
	}
}

// A report that says only what came of it is the word of a run, too: its end without a
// result is a failure.
func TestAnyReportBeginsARun(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Report{
		"a result": {Result: "half of it"}, "a reason": {Reason: "slow"}, "a message": {Message: pipeline.Message{Text: "hello"}},
		"a step": {Steps: []string{"one"}}, "a status": {Status: pipeline.InProgress},
	} {
		w := newWorld(t)
		w.handedOut()
		r.Dropped = w.now
		w.must(Command{Task: 1, By: devdas, Do: r})
		if got := runs(w.task()); got != "1 open" {
			t.Errorf("%s: runs %q", name, got)
		}
		w.dies(Failure{})
		if free := name == "a step"; w.task().Runs[0].Free != free || w.task().Status != pipeline.Pending {
			t.Errorf("%s: the task is %s, and its run %+v", name, w.task().Status, w.task().Runs[0])
		}
	}
}

// A person blocks a task, and its agent's mark in the dispatch file is seen afterwards:
// the end of the process does not move the task out of the person's hands.
func TestEndWhileBlocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.handedOut()
	w.moveTo(pipeline.Blocked)
	w.must(Command{Task: 1, By: devdas, Do: Take{TakenByFile}})
	w.must(Command{Task: 1, By: boss, Do: FailRun{Run: w.task().Runs.Number()}})
	w.wantRuns(pipeline.Blocked, 0, "")
	w.moveTo(pipeline.InProgress)
	w.must(Command{Task: 1, By: devdas, Do: Take{TakenByNext}})
	w.must(Command{Task: 1, By: devdas, Do: Report{Dropped: w.now, Status: pipeline.Blocked, Reason: "why"}})
	w.must(Command{Task: 1, By: boss, Do: FailRun{Run: 1}})
	w.wantRuns(pipeline.Blocked, 0, "1 paused")
}

// A run may ask for a long pause. It gets the longest that there is, and not none.
func TestLongestWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	w.must(Command{Task: 1, By: boss, Do: FailRun{Run: 1, NotBefore: w.now.Add(5 * time.Hour)}})
	if wait := w.task().Wait; !wait.Waits(w.now) || wait.Waits(w.now.Add(longestWait)) {
		t.Errorf("at %v it waits until %v", w.now, wait.Until)
	}
}

// The clock was a year ahead when the agent ticked a step. After it was set back, that is
// no progress of later runs: each counts, and the task is a dead letter after four.
func TestProgressAheadOfTheClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	was := w.now
	w.now = w.now.Add(365 * 24 * time.Hour)
	w.must(Command{Task: 1, By: devdas, Do: Report{Dropped: w.now, Steps: []string{"one"}}})
	w.now = was
	for range 3 {
		w.dies(Failure{})
		w.again()
	}
	w.dies(Failure{})
	w.wantRuns(pipeline.Failed, 4, "1 failed, 2 failed, 3 failed, 4 failed")
}

// A lost store finds the task on the board, where it waits for its next run: it is handed
// out again, and a report waits until then.
func TestLostWhilePending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(Command{Task: 1, By: boss, Do: Adopt{
		Task: pipeline.Task{ID: 1, Title: "x", Agent: "devdas"}, Status: pipeline.Pending, Lost: true,
		Row: RowFound{Row: "Rec1", Shown: Shown{Status: pipeline.Pending}, Steps: []FoundStep{{Row: "Rec1.1", Title: "one"}}},
	}})
	report := Command{Task: 1, By: devdas, Do: Report{Dropped: w.now, Run: 3, Status: pipeline.AgentDone}}
	if err := w.do(report); !errors.Is(err, ErrNotYet) {
		t.Errorf("a report: %v", err)
	}
	w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas", Workspace: "/w"}})
	w.want(pipeline.Assigned)
	w.must(report)
	w.wantRuns(pipeline.AgentDone, 0, "1 succeeded")
	w.checkRebuild()
}

// An agent that blocks its task and goes on by itself works on in its run. After an
// answer it takes the task anew, in the next one.
func TestPausedRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	block := Command{Task: 1, By: devdas, Do: Report{Status: pipeline.Blocked, Reason: "which port?"}}
	w.must(block)
	w.wantRuns(pipeline.Blocked, 0, "1 paused")
	w.must(Command{Task: 1, By: devdas, Do: Report{Status: pipeline.InProgress}})
	w.wantRuns(pipeline.InProgress, 0, "1 open")
	w.must(block)
	w.must(Command{Task: 1, By: ada, Do: Edits{Status: ptr(pipeline.InProgress), Reason: ptr("8080")}})
	w.must(Command{Task: 1, By: devdas, Do: Take{TakenByNext}})
	w.wantRuns(pipeline.InProgress, 0, "1 paused, 2 open")
	w.must(Command{Task: 1, By: ada, Do: Edits{Status: ptr(pipeline.Cancelled)}})
	w.wantRuns(pipeline.Cancelled, 0, "1 paused, 2 canceled")
}

// Pending is OTM's queue. A person who chooses it sets the task aside.
func TestPersonChoosesPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	w.moveTo(pipeline.Pending)
	w.want(pipeline.Dormant)
	if w.task().Shown.Status != pipeline.Pending || !w.task().Unshown() {
		t.Errorf("the board is not to show dormant: %+v", w.task().Shown)
	}
	w.moveTo(pipeline.Pending)
	w.want(pipeline.Dormant)
}

// A step that somebody takes out of a task leaves the board, and one that is added comes
// onto it, before the task is handed out again.
func TestStepsAddedAndDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	w.must(Command{Task: 1, By: devdas, Do: Report{Status: pipeline.AgentDone}})
	w.must(Command{Task: 1, By: ada, Do: Edits{Status: ptr(pipeline.New), AddSteps: []string{"three"}, DropSteps: []string{"one"}}})
	task := w.task()
	if len(task.Steps) != 2 || task.OnBoard() || !task.Unshown() || len(task.Dropped) != 1 || task.Dropped[0] != "Stepone" {
		t.Fatalf("steps %+v, dropped %q", task.Steps, task.Dropped)
	}
	w.must(Command{Task: 1, By: boss, Do: Written{Shown: task.View(), Gone: []string{"Stepone"}, Steps: []WrittenStep{{Step: 3, Row: "Stepthree", Shown: StepShown{Title: "three"}}}}})
	if task = w.task(); !task.OnBoard() || task.Unshown() {
		t.Errorf("it is still to be written: %+v", task)
	}
	w.checkRebuild()
}

// B32: whatever ends a task's time with its agent leaves no trace of it behind: no hand-out
// that is over, no open run, no wait. B41: who judges a run too late changes nothing.
func TestRunLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world){
		"done": func(w *world) {
			w.must(Command{ID: "u", Task: 1, By: devdas, Do: Report{Drop: "u", Dropped: w.now, Status: pipeline.AgentDone}})
		},
		"failed": func(w *world) {
			w.must(Command{ID: "u", Task: 1, By: devdas, Do: Report{Drop: "u", Dropped: w.now, Status: pipeline.Failed, Reason: "x", Terminal: true}})
		},
		"blocked": func(w *world) {
			w.must(Command{ID: "u", Task: 1, By: devdas, Do: Report{Drop: "u", Dropped: w.now, Status: pipeline.Blocked, Reason: "x"}})
		},
		"died":      func(w *world) { w.dies(Failure{Exit: "killed by signal 9"}) },
		"released":  func(w *world) { w.moveTo(pipeline.New) },
		"cancelled": func(w *world) { w.moveTo(pipeline.Cancelled) },
		"set aside": func(w *world) { w.moveTo(pipeline.Dormant) },
		"given":     func(w *world) { w.must(Command{Task: 1, By: ada, Do: Edits{Agent: ptr("mira")}}) },
		"deleted":   func(w *world) { w.must(Command{Task: 1, By: ada, Do: LoseRow{"Rec1"}}) },
	} {
		w := newWorld(t)
		w.taken()
		end(w)
		now := w.task()
		if now.Runs.Open() != nil || now.AtWork() || now.Waiting() || (now.Wait != nil) != (name == "died") {
			t.Errorf("%s: runs %s, at work %t, waiting %t, wait %v", name, runs(now), now.AtWork(), now.Waiting(), now.Wait)
		}
		if now.Status == pipeline.New && now.Dispatch != nil {
			t.Errorf("%s: still handed out to %s", name, now.Dispatch.Agent)
		}
		events := len(w.events)
		w.must(Command{Task: 1, By: boss, Do: FailRun{Run: 1, Failure: Failure{Exit: "exit code 1"}}})
		if len(w.events) != events {
			t.Errorf("%s, and the end of its process changes: %s", name, story(w.events[events:]))
		}
		w.checkRebuild()
	}
}
