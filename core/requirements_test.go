package core

import (
	"encoding/json"
	"errors"
	"regexp"
	"testing"
	"time"

	"otm/pipeline"
)

// Each move keeps the status before it, and the times of the last end, acceptance and
// cancellation. Only done ticks the task's own check mark.
func TestFieldsOfMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	for _, to := range []pipeline.Status{pipeline.AgentDone, pipeline.Done, pipeline.New, pipeline.Blocked, pipeline.Cancelled} {
		was := w.task().Status
		w.moveTo(to)
		task := w.task()
		if task.Previous != was || task.StatusAt != w.now || task.StatusBy != ada {
			t.Errorf("%s: previous status %s, set at %v by %v", to, task.Previous, task.StatusAt, task.StatusBy)
		}
		for field, got := range map[pipeline.Status]time.Time{pipeline.AgentDone: task.CompletedAt, pipeline.Done: task.ValidatedAt, pipeline.Cancelled: task.CancelledAt} {
			if field == to && got != w.now {
				t.Errorf("%s: its time is %v, want %v", to, got, w.now)
			}
		}
		if task.View().Checked != (to == pipeline.Done) {
			t.Errorf("%s: the check mark is %v", to, task.View().Checked)
		}
	}
	w.checkRebuild()
}

// The usual way of a task is told by events in one order, each move by one event. A drop
// that comes again adds one event, and nothing follows the end of a task but words.
func TestSequenceOfEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.handedOut()
	w.must(Command{Task: 1, By: devdas, Do: Take{TakenByNext}})
	w.must(Command{ID: "u1", Task: 1, By: devdas, Do: Report{Drop: "u1.json", Dropped: w.now, Steps: []string{"1", "2"}}})
	w.must(Command{Task: 1, By: boss, Do: Promote{}})
	done := pipeline.Done
	w.must(Command{Task: 1, By: ada, Do: Edits{From: []pipeline.Status{pipeline.AgentDone}, Status: &done, Accept: true}})
	const want = "TaskRequested BoardWritten HandedOut new→assigned(TT-01) BoardWritten Acknowledged RunStarted assigned→in_progress(TT-02) " +
		"StepDone StepDone Noted in_progress→agent_done(TT-04) RunSucceeded Approved agent_done→done(TT-06)"
	if got := story(w.events); got != want {
		t.Errorf("the events are\n%s\nwant\n%s", got, want)
	}
	n := len(w.events)
	w.must(Command{ID: "d2", Task: 1, By: boss, Do: Request{Task: pipeline.Task{ID: 1, Title: "Build it"}, Drop: "d2.json"}})
	if got := story(w.events[n:]); got != "DuplicateSkipped" {
		t.Errorf("a second drop makes %s", got)
	}
	var refused *Refused
	if err := w.do(Command{ID: "u2", Task: 1, By: devdas, Do: Report{Drop: "u2.json", Steps: []string{"1"}}}); !errors.As(err, &refused) {
		t.Errorf("a report after the end: %v", err)
	}
}

// A run that fails is followed by the next one: the specification's sequence of events in
// our names, and the causes that its events name.
func TestSequenceOfARetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	n, code := len(w.events), 1
	w.dies(Failure{Exit: "exit status 1", Code: &code, Log: "/log"})
	w.again()
	const want = "RunFailed RetryScheduled in_progress→pending(TT-21) HandedOut pending→assigned(TT-05) " +
		"Acknowledged RunStarted assigned→in_progress(TT-02) BoardWritten"
	if got := story(w.events[n:]); got != want {
		t.Errorf("the events are\n%s\nwant\n%s", got, want)
	}
	failed, _ := w.events[n].Data.(RunFailed)
	retry, _ := w.events[n+1].Data.(RetryScheduled)
	if failed.Run != 1 || failed.Failure.Exit != "exit status 1" || *failed.Failure.Code != 1 || failed.Failure.Log != "/log" {
		t.Errorf("the run failed as %+v", failed)
	}
	if retry.Run != 2 || retry.Try != 1 || retry.Wait.Why != WaitBackoff || !retry.Wait.Until.After(w.events[n].At) {
		t.Errorf("the retry is %+v", retry)
	}
	if last := w.task().Runs.Last(); last.Number != 2 || last.Agent != "devdas" || last.Began.IsZero() {
		t.Errorf("the next run is %+v", last)
	}
}

// What leaves the program has the fields of the envelope, and names causes and subjects.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.handedOut()
	w.must(Command{ID: "u1", Task: 1, By: devdas, Do: Report{Drop: "u1.json", Dropped: w.now, Steps: []string{"1"}}})
	w.must(Command{Task: 1, By: ada, Do: Edits{Title: ptr("Build them")}})
	moves := 0
	for i := range w.events {
		e := &w.events[i]
		e.Seq, e.ID = int64(i+1), "01JDXH3K5N0000000000000000"
		e.At = e.At.In(time.FixedZone("", 3600))
		env, err := e.Envelope("store-1", Producer{"otm", "1.2"})
		if err != nil {
			t.Fatal(err)
		}
		if env.Schema != "otm.event.v1" || env.EventID != e.ID || env.EventType != e.Type() || env.EventVersion != 2 || env.Sequence != e.Seq ||
			env.Scope != (Scope{"store-1", "default"}) || env.Producer != (Producer{"otm", "1.2"}) || env.Tags.Sensitivity != "internal" || env.Actor != e.By {
			t.Errorf("%s: envelope %+v", e.Type(), env)
		}
		if env.Subject.Task != "T-00001" || env.CorrelationID != "T-00001" || env.Subject.Agent != "devdas" {
			t.Errorf("%s is about %+v, of %q", e.Type(), env.Subject, env.CorrelationID)
		}
		if caused := e.Cause != ""; caused != (env.CausationID != nil) || env.Key != e.Cause || caused && *env.CausationID != e.Cause {
			t.Errorf("%s: caused by %v under the key %q, want %q", e.Type(), env.CausationID, env.Key, e.Cause)
		}
		if m, ok := e.Data.(TaskMoved); ok {
			if moves++; env.Code != m.Move {
				t.Errorf("the move %s has the code %q", m.Move, env.Code)
			}
		}
		line, err := json.Marshal(env)
		if err != nil || !regexp.MustCompile(`"timestamp":"[0-9-]+T[0-9:]+Z".*"causation_id":(null|"[du]1").*"tags":\{"sensitivity":"internal"\},"payload":\{`).Match(line) {
			t.Errorf("%s: %s, %v", e.Type(), line, err)
		}
	}
	if moves != 2 || w.events[0].Cause != "d1" {
		t.Errorf("%d moves; the first event is caused by %q", moves, w.events[0].Cause)
	}
}
