package dispatch

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"otm/pipeline"
)

// A failed run is noted once, and only in the record that holds its wake.
func TestRecordEndOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.Normal)
	w.pass()
	failed := RunEnd{Outcome: pipeline.OutcomeFailed, Detail: "no model"}
	for _, key := range []string{"otm-T-00001-alpha-1", "otm-T-00001-alpha-1", "otm-T-00001-alpha-2", "otm-T-1x-alpha-1", "somebody-elses-run-1", ""} {
		failed.Key = key
		if _, err := RecordEnd(t.Context(), w.store, failed, w.clock.Now()); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	noted := 0
	for _, e := range w.record(1).History {
		if e.What == "run failed" {
			noted++
		}
	}
	want(t, "noted, and why", words(noted, w.record(1).Wakes[0].Exit), "1 no model")
	failed.Key = "otm-T-00009-alpha-1"
	if _, err := RecordEnd(t.Context(), w.store, failed, w.clock.Now()); !errors.Is(err, fs.ErrNotExist) && err != nil {
		t.Errorf("of a task that is not there: %v", err)
	}
	if _, err := w.store.Load(9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a record was made: %v", err)
	}
}

// C60: the first 500 bytes of a run's last words are kept, as valid UTF-8 on one
// line, because they usually say why the agent took nothing.
func TestC60LastWords(t *testing.T) {
	t.Parallel()
	now := minute(10)
	w := &pipeline.Wake{AskedAt: minute(0), Accepted: at(0)}
	end := RunEnd{At: minute(2), Outcome: pipeline.OutcomeOK, LastWords: "exec needs\napproval \xff " + strings.Repeat("\u00e4", 600)}
	want(t, "noted", noteRunEnd(w, end, now), true)
	if !strings.HasPrefix(w.LastWords, "exec needs approval \uFFFD \u00e4") || len(w.LastWords) > 500 || len(w.LastWords) < 497 || !utf8.ValidString(w.LastWords) {
		t.Errorf("last words of %d bytes: %q", len(w.LastWords), w.LastWords)
	}
	want(t, "ended", *w.Ended, minute(2))

	run := &EndedRun{Words: "ok", LastWords: "needs approval\x1b[2J"}
	h := Health{Agent: "alpha", State: HealthPausing, LastRun: run}
	if said := h.Finding().Text(now); !strings.Contains(said, `(ok, and it said last: "needs approval\x1b[2J")`) {
		t.Errorf("finding: %s", said)
	}
}

// A run may be reported by an event and by its final answer, in any order. The
// worse outcome and the first time count.
func TestRunEndReportedTwice(t *testing.T) {
	t.Parallel()
	fine := RunEnd{At: minute(2), Outcome: pipeline.OutcomeOK, LastWords: "done"}
	failed := RunEnd{At: minute(3), Outcome: pipeline.OutcomeFailed, Detail: "no model", RetryAfter: time.Minute}
	for name, ends := range map[string][]RunEnd{"event first": {fine, failed}, "answer first": {failed, fine}} {
		w := &pipeline.Wake{AskedAt: minute(0), Accepted: at(0)}
		for _, end := range ends {
			noteRunEnd(w, end, minute(4))
			want(t, name+": repeated", noteRunEnd(w, end, minute(5)), false)
		}
		want(t, name, words(w.Outcome, w.Exit, w.LastWords, *w.RetryAt), words("failed", "no model", "done", minute(5)))
		want(t, name+": ended", *w.Ended, *endOfFirst(ends))
	}
	// The gateway's clock may differ from ours.
	for _, wrong := range []time.Time{{}, minute(-1), minute(60)} {
		w := &pipeline.Wake{AskedAt: minute(0)}
		noteRunEnd(w, RunEnd{At: wrong, Outcome: pipeline.OutcomeOK}, minute(4))
		want(t, "a time that cannot be", *w.Ended, minute(4))
	}
}

func endOfFirst(ends []RunEnd) *time.Time { return &ends[0].At }

// C6, C56: the end of a run that took nothing is known at once, not after 15
// minutes. The agent is woken again without a question to the gateway. C57: that
// happens after a pause, which grows.
func TestC56EndCountsAtOnce(t *testing.T) {
	t.Parallel()
	for _, outcome := range []pipeline.Outcome{pipeline.OutcomeOK, pipeline.OutcomeFailed} {
		w := newWorld(t, "alpha")
		w.create("x", "alpha", pipeline.Normal)
		want(t, "woken", w.pass().Woken, 1)
		w.clock.Advance(2 * time.Second)
		if news, err := RecordEnd(t.Context(), w.store, RunEnd{Key: "otm-T-00001-alpha-1", At: w.clock.Now(), Outcome: outcome}, w.clock.Now()); err != nil || !news {
			t.Fatal(news, err)
		}
		want(t, "woken before the pause is over", w.pass().Woken, 0)
		w.clock.Advance(10 * time.Second)
		want(t, string(outcome)+": woken again", w.pass().Woken, 1)
		want(t, "asked", len(w.waker.asked), 0)
	}
}
