package core

import (
	"slices"
	"time"

	"otm/pipeline"
)

// Run is one attempt of a task. It begins when the agent takes the task. It ends when the
// agent reports the end, when it fails, or when the task is taken away. A run that is
// paused, as its task is blocked, is over.
type Run struct {
	Number  int       `json:"run"` // from 1, in each task
	Agent   string    `json:"agent"`
	Attempt int       `json:"attempt"` // of the hand-out in which it began
	Began   time.Time `json:"beganAt"`
	Ended   time.Time `json:"endedAt,omitzero"`
	Ending  Ending    `json:"ending,omitempty"`
	Failure
	Advice *Advice `json:"advice,omitempty"` // on the retry that follows; nil: none was given yet
}

// Advice is what the command of [retry] advise said about a failed run. The zero value says
// that it had nothing to say.
type Advice struct {
	Text string `json:"text,omitempty"` // for the agent of the next run; of Skip: why
	Skip bool   `json:"skip,omitempty"` // no retry makes sense
	// Failed is why the command gave no answer, for people. The retry follows as without it.
	Failed string `json:"adviceFailed,omitempty"`
}

// Ending is how a run ended.
type Ending string

// The endings.
const (
	EndSucceeded Ending = "succeeded" // the agent said that it is done, or all steps are
	EndPaused    Ending = "paused"    // something outside holds the task up
	EndFailed    Ending = "failed"
	EndCanceled  Ending = "canceled" // the task was taken from the agent
)

// Failure is why a run failed.
type Failure struct {
	Words string `json:"words,omitempty"` // of the agent; "": it said nothing
	Exit  string `json:"exit,omitempty"`  // how its process, or its run at the gateway, ended
	Code  *int   `json:"exitCode,omitempty"`
	Log   string `json:"log,omitempty"` // what its process printed
	// Free says that the run does not count as a try: it ticked a step, or asked for a
	// later retry.
	Free bool `json:"free,omitempty"`
}

// String says in words why the run failed. They are part of a task's state, so they stay as
// they are: old events that are replayed must give the state that is stored.
func (f *Failure) String() string {
	switch {
	case f.Words != "":
		return f.Words
	case f.Exit != "":
		return "the run ended without a result: " + f.Exit
	}
	return "the run ended without a result"
}

// Wait is why a pending task waits, and until when.
type Wait struct {
	Why   WaitReason `json:"why"`
	Until time.Time  `json:"until,omitzero"`
}

// Waits reports whether the task still has to wait. An Until beyond the longest wait does
// not count: the clock was set back since.
func (w *Wait) Waits(now time.Time) bool {
	return w != nil && now.Before(w.Until) && !w.Until.After(now.Add(longestWait))
}

// BacksOff reports whether the wait is one for the next run after a failed one, and is not over.
func (w *Wait) BacksOff(now time.Time) bool { return w.Waits(now) && w.Why == WaitBackoff }

// WaitReason is a reason to wait.
type WaitReason string

// The reasons to wait.
const (
	WaitBackoff WaitReason = "backoff" // a run failed, and a retry follows
	// WaitBusy: the task is handed out, and its agent has another one. The agent may take
	// this one all the same, so its Until is zero.
	WaitBusy WaitReason = "busy"
)

// Runs are the runs of a task, in their order.
type Runs []Run

// Open is the run that goes on; nil: there is none.
func (rs Runs) Open() *Run {
	if r := rs.Last(); r != nil && r.Ended.IsZero() {
		return r
	}
	return nil
}

// Last is the run that began last; nil: none began yet.
func (rs Runs) Last() *Run {
	if len(rs) == 0 {
		return nil
	}
	return &rs[len(rs)-1]
}

// LastOf is the last run of an agent; nil: it began none.
func (rs Runs) LastOf(agent string) *Run {
	for i := range slices.Backward(rs) {
		if SameAgent(rs[i].Agent, agent) {
			return &rs[i]
		}
	}
	return nil
}

// Asker is the agent of the last run that was paused; "": none was.
func (rs Runs) Asker() string {
	for _, r := range slices.Backward(rs) {
		if r.Ending == EndPaused {
			return r.Agent
		}
	}
	return ""
}

// Number is the number of the last run; 0: none began yet.
func (rs Runs) Number() int {
	if r := rs.Last(); r != nil {
		return r.Number
	}
	return 0
}

// Next is the number of the run in which an agent that takes the task now works.
func (rs Runs) Next() int {
	if rs.Open() != nil {
		return rs.Number()
	}
	return rs.Number() + 1
}

// Tries counts the failed runs since the last one that succeeded. Runs up to number from
// do not count, see Task.CountFrom.
func (rs Runs) Tries(from int) int {
	n := 0
	for _, r := range slices.Backward(rs) {
		if r.Number <= from || r.Ending == EndSucceeded {
			break
		}
		if r.Ending == EndFailed && !r.Free {
			n++
		}
	}
	return n
}

// retryAfter are the pauses before a retry. The last one repeats.
var retryAfter = []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute}

// longestWait bounds the wait for which a failed run may ask.
const longestWait = time.Hour

// begin begins a run, if none is open. By a report, the agent goes on with its last run if
// that was paused or counted as failed. Once the task was handed out again, the report has
// to name the run for that.
func (d *decision) begin(by *Report) {
	t := d.task
	if t.Runs.Open() != nil || t.Dispatch == nil {
		return
	}
	started := RunStarted{Run: t.Runs.Number() + 1, Agent: d.By.Name, Attempt: t.Dispatch.Attempt}
	if by != nil {
		started.Heard = by.Dropped
		last := t.Runs.Last()
		if last != nil && (last.Ending == EndPaused || last.Ending == EndFailed) && SameAgent(last.Agent, started.Agent) &&
			(last.Attempt == started.Attempt || last.Number == by.Run) {
			started.Run, started.Again = last.Number, true
		}
	}
	d.emit(started)
}

// endRun ends the open run as the task's new status says.
func (d *decision) endRun() {
	run := d.task.Runs.Open()
	if run == nil {
		return
	}
	switch d.task.Status {
	case pipeline.InProgress:
	case pipeline.AgentDone, pipeline.Done:
		d.emit(RunSucceeded{Run: run.Number})
	case pipeline.Blocked:
		d.emit(RunPaused{Run: run.Number})
	default:
		d.emit(RunCanceled{Run: run.Number})
	}
}

// TakenFrom reports whether the agent of a run no longer has the task: the run was canceled, or
// it was paused and the task was then set aside, deleted, or given to another agent or name.
func TakenFrom(t *Task, r *Run) bool {
	aside := slices.Contains([]pipeline.Status{pipeline.Dormant, pipeline.Cancelled, pipeline.Rejected, pipeline.Failed}, t.Status)
	return r.Ending == EndCanceled || r.Ending == EndPaused && (aside || t.Away() || !SameAgent(holder(t), r.Agent))
}

// FailRun says that the process of an agent, or its run at the gateway, ended without a
// result for the task.
type FailRun struct {
	Run       int
	Failure   Failure
	NotBefore time.Time      // of the next run; zero: it follows after the usual pause
	Types     pipeline.Types // their rules say how many retries follow
	heard     time.Time      // when its agent said that it failed; zero: it did not
	atOnce    bool           // the next run needs no pause, as this one ticked a step
}

func (f FailRun) decide(d *decision) error {
	t := d.task
	if t == nil || t.Runs.Open() == nil || t.Runs.Open().Number != f.Run || !t.Status.Active() || t.Away() {
		return nil // it ended otherwise meanwhile
	}
	if t.Status == pipeline.InProgress && t.StepsDone() == len(t.Steps) && !t.EndsByWord() {
		return Promote{f.Types}.decide(d) // its steps are the result
	}
	if at := t.HeardOf(t.Runs.Open().Agent).Progress; !at.Before(t.Runs.Open().Began) && !at.After(d.At) {
		f.Failure.Free, f.atOnce = true, true
	}
	return d.fail(f, false)
}

// fail ends the open run as failed. The task waits for the next run. If no retry is left,
// or the failure is terminal, it becomes a dead letter.
func (d *decision) fail(f FailRun, terminal bool) error {
	run := d.task.Runs.Open()
	f.Failure.Words, f.Failure.Exit = Excerpt(f.Failure.Words), Excerpt(f.Failure.Exit)
	d.emit(RunFailed{Run: run.Number, Heard: f.heard, Failure: f.Failure})
	tries := d.task.Runs.Tries(d.task.CountFrom)
	if terminal || tries > f.Types.Rules(d.task.Type).MaxRetries {
		return d.move(pipeline.Failed, TaskMoved{})
	}
	until := d.At.Add(jittered(retryAfter[min(max(tries, 1), len(retryAfter))-1], d.Task, run.Number))
	if f.atOnce {
		until = d.At
	}
	if f.NotBefore.After(until) {
		until = f.NotBefore
	}
	if longest := d.At.Add(longestWait); until.After(longest) {
		until = longest // a later one would not count, see Wait.Waits
	}
	d.emit(RetryScheduled{Run: run.Number + 1, Try: tries, Wait: Wait{WaitBackoff, until.UTC()}})
	return d.moveAs(Component("otm"), pipeline.Pending, TaskMoved{})
}

// AwaitsAdvice returns the failed run that a retry of the task follows, if nobody has given
// advice on it; nil: there is no such run.
func AwaitsAdvice(t *Task, now time.Time) *Run {
	run := t.Runs.Last()
	retries := t.Status == pipeline.Pending && t.Wait.BacksOff(now)
	if !retries || run == nil || run.Ending != EndFailed || run.Advice != nil {
		return nil
	}
	return run
}

// AdviseRetry gives advice on the retry that follows a failed run. The first answer counts,
// and none once the retry is due.
type AdviseRetry struct {
	Run int
	Advice
}

func (a AdviseRetry) decide(d *decision) error {
	if d.task == nil {
		return ErrNoTask
	}
	run := AwaitsAdvice(d.task, d.At)
	if run == nil || run.Number != a.Run {
		return nil
	}
	a.Text, a.Failed = Excerpt(a.Text), Excerpt(a.Failed)
	d.emit(RetryAdvised(a))
	if !a.Skip {
		return nil
	}
	return d.moveAs(Component("otm"), pipeline.Failed, TaskMoved{Reason: a.Text})
}

// ReclaimRun takes a task from its agent, of which nothing was heard for as long as
// reclaim_after of its type allows, whether or not its run goes on. The task is handed out
// again.
type ReclaimRun struct {
	Run   int
	Heard time.Time // when something was last heard of the agent
}

func (r ReclaimRun) decide(d *decision) error {
	t := d.task
	if t == nil || t.Status != pipeline.InProgress || t.Away() || t.Runs.Open() == nil || t.Runs.Open().Number != r.Run ||
		!t.HeardOf(t.Runs.Open().Agent).At.Equal(r.Heard) {
		return nil // it ended, or the agent was heard of meanwhile
	}
	d.emit(RetryScheduled{Run: r.Run + 1, Try: t.Runs.Tries(t.CountFrom), Wait: Wait{WaitBackoff, d.At.Add(jittered(retryAfter[0], d.Task, r.Run)).UTC()}})
	return d.moveAs(Component("otm"), pipeline.Pending, TaskMoved{})
}

// jittered makes a pause up to a tenth longer or shorter, so that runs that failed together
// do not begin again together. It follows from task and run: a decision uses no randomness.
func jittered(pause time.Duration, id pipeline.TaskID, run int) time.Duration {
	return pause * time.Duration(90+(int(id)*7919+run*104729)%21) / 100
}
