package dispatch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"otm/core"
	"otm/internal/explain"
	"otm/pipeline"
)

// A failed run is noted once, and only with the task that holds its wake.
func TestRecordEndOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.Normal)
	w.pass()
	failed := core.EndStart{Outcome: core.OutcomeFailed, Detail: "no model"}
	for n, key := range []string{"otm-T-00001-alpha-1", "otm-T-00001-alpha-1", "otm-T-00001-alpha-2", "otm-T-1x-alpha-1", "somebody-elses-run-1", "", "otm-T-00009-alpha-1"} {
		failed.Key = key
		news, err := RecordEnd(t.Context(), w.store, failed, w.clock.Now())
		if err != nil || news != (n == 0) {
			t.Errorf("%s: news %v, %v", key, news, err)
		}
	}
	want(t, "noted, and why", words(w.count(1, "StartEnded"), w.record(1).Wakes[0].Exit), "1 no model")
	if _, err := w.store.Task(t.Context(), 9); !errors.Is(err, core.ErrNoTask) {
		t.Errorf("a task was made: %v", err)
	}
}

// C60: the first 500 bytes of a run's last words are kept, as valid UTF-8 on one
// line, because they usually say why the agent took nothing.
func TestC60LastWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.Normal)
	w.pass()
	end := core.EndStart{Key: "otm-T-00001-alpha-1", Outcome: core.OutcomeOK, LastWords: "exec needs\napproval \xff " + strings.Repeat("\u00e4", 600)}
	if _, err := RecordEnd(t.Context(), w.store, end, w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	said := w.record(1).Wakes[0].LastWords
	if !strings.HasPrefix(said, "exec needs approval \uFFFD \u00e4") || len(said) > 500 || len(said) < 497 || !utf8.ValidString(said) {
		t.Errorf("last words of %d bytes: %q", len(said), said)
	}
	run := &core.EndedStart{StartResult: core.StartResult{Exit: "ok", LastWords: "needs approval\x1b[2J"}}
	h := Health{AgentState: &core.AgentState{Agent: "alpha", Fruitless: 1, LastStart: run}}
	if said := h.Finding(minute(10)).Text(minute(10)); !strings.Contains(said, `(ok, and it said last: "needs approval\x1b[2J")`) {
		t.Errorf("finding: %s", said)
	}
}

// A run may be reported by an event and by its final answer, in any order. The
// worse outcome and the first time count.
func TestRunEndReportedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.Normal)
	w.pass()
	asked := w.record(1).Wakes[0].AskedAt
	w.clock.Advance(10 * time.Minute)
	now := w.clock.Now()
	for name, first := range map[string]int{"event first": 0, "answer first": 1} {
		ends := []core.EndStart{
			{Key: "otm-T-00001-alpha-1", Ended: asked.Add(2 * time.Minute), Outcome: core.OutcomeOK, LastWords: "done"},
			{Key: "otm-T-00001-alpha-1", Ended: asked.Add(3 * time.Minute), Outcome: core.OutcomeFailed, Detail: "no model", RetryAfter: time.Minute},
		}
		is := &core.State{Tasks: map[pipeline.TaskID]*core.Task{1: w.record(1)}}
		for _, end := range []core.EndStart{ends[first], ends[1-first]} {
			for n := range 2 {
				events, err := core.Decide(is, core.Command{At: now, By: by(), Task: 1, Do: end})
				if err != nil || len(events) != 1-n {
					t.Errorf("%s: time %d: %v, %v", name, n+1, events, err)
				}
			}
		}
		wake := is.Tasks[1].Wakes[0]
		want(t, name, words(wake.Outcome, wake.Exit, wake.LastWords, wake.RetryAt.Equal(now.Add(time.Minute))), "failed no model done true")
		want(t, name+": ended", wake.Ended.Equal(ends[first].Ended), true)
	}
	// The gateway's clock may differ from ours.
	for _, wrong := range []time.Time{{}, asked.Add(-time.Minute), now.Add(time.Hour)} {
		is := &core.State{Tasks: map[pipeline.TaskID]*core.Task{1: w.record(1)}}
		if _, err := core.Decide(is, core.Command{At: now, By: by(), Task: 1, Do: core.EndStart{Key: "otm-T-00001-alpha-1", Ended: wrong, Outcome: core.OutcomeOK}}); err != nil {
			t.Fatal(err)
		}
		want(t, "a time that cannot be", is.Tasks[1].Wakes[0].Ended.Equal(now), true)
	}
}

// C6, C56: the end of a run that took nothing is known at once, not after 15
// minutes. The agent is woken again without a question to the gateway. C57: that
// happens after a pause, which grows.
func TestC56EndCountsAtOnce(t *testing.T) {
	t.Parallel()
	for _, outcome := range []core.StartOutcome{core.OutcomeOK, core.OutcomeFailed} {
		w := newWorld(t, "alpha")
		w.create("x", "alpha", pipeline.Normal)
		want(t, "woken", w.pass().Woken, 1)
		w.clock.Advance(2 * time.Second)
		if news, err := RecordEnd(t.Context(), w.store, core.EndStart{Key: "otm-T-00001-alpha-1", Ended: w.clock.Now(), Outcome: outcome}, w.clock.Now()); err != nil || !news {
			t.Fatal(news, err)
		}
		want(t, "woken before the pause is over", w.pass().Woken, 0)
		w.clock.Advance(10 * time.Second)
		want(t, string(outcome)+": woken again", w.pass().Woken, 1)
		want(t, "asked", len(w.waker.asked), 0)
	}
}

// A run that the gateway failed with retryAfterMs met a limit: the task loses no try, the agent
// is not left alone, and after three in a row people are told of a rate limit.
func TestRetryAfterCountsNoTry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	for n, told := range []explain.Code{explain.AgentLater, explain.AgentLater, explain.AgentLimited, explain.AgentLimited} {
		want(t, fmt.Sprint("start ", n+1), w.pass().Woken, 1)
		want(t, "takes", w.next("alpha"), id)
		wakes := w.record(id).Wakes
		end := core.EndStart{Key: wakes[len(wakes)-1].Key, Outcome: core.OutcomeFailed, Detail: "429", RetryAfter: time.Minute}
		if _, err := RecordEnd(t.Context(), w.store, end, w.clock.Now()); err != nil {
			t.Fatal(err)
		}
		w.pass()
		health, err := AgentHealth(t.Context(), w.store, w.dir, w.agent("alpha"))
		want(t, "health", words(health.Finding(w.clock.Now()).Code, health.LeftAlone.IsZero(), w.record(id).Runs.Tries(0), err), words(told, true, 0, nil))
		w.clock.Advance(45 * time.Minute)
	}
}
