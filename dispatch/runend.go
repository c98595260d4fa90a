package dispatch

import (
	"cmp"
	"context"
	"strings"
	"time"

	"otm/pipeline"
)

// RunEnd is the end of a run, as data.
type RunEnd struct {
	Key     string           // of the run's wake
	At      time.Time        // when it ended; zero: not known
	Outcome pipeline.Outcome // never OutcomeUnknown
	Detail  string           // why it failed, for people; may be empty

	// Log is the path of what a process printed; empty: a run at the gateway, or not
	// known.
	Log string

	// LastWords is the agent's last message. It is untrusted text and may be empty.
	LastWords string

	// RetryAfter is the pause that the gateway asks for; zero: none.
	RetryAfter time.Duration
}

// maxWords bounds foreign text in a record, in bytes.
const maxWords = 500

// RecordEnd writes the end of a run into the record that holds its wake, durably,
// and reports whether it was news. It does nothing if no wake has the key: the
// gateway also reports runs that others began. The gateway may report a run twice,
// by an event and by the final answer. A failure then replaces a success.
func RecordEnd(ctx context.Context, records pipeline.Records, end RunEnd, now time.Time) (news bool, err error) {
	id, ok := taskOfKey(end.Key)
	if !ok {
		return false, nil
	}
	_, err = records.Change(ctx, id, func(r *pipeline.Record) error {
		w := wakeNamed(r, end.Key)
		if w == nil || !noteRunEnd(w, end, now) {
			return pipeline.ErrUnchanged
		}
		news = true
		if w.Outcome.Failed() {
			r.Note(now, Who, "run failed", w.Exit)
		}
		return nil
	})
	return news, err
}

// noteRunEnd adds end to w and reports whether that changed anything.
func noteRunEnd(w *pipeline.Wake, end RunEnd, now time.Time) bool {
	first := w.Ended == nil
	worse := !first && end.Outcome.Failed() && !w.Outcome.Failed()
	words := excerpt(end.LastWords)
	if !first && !worse && (words == "" || w.LastWords != "") {
		return false
	}
	if first {
		at := endTime(w, end.At, now)
		w.Ended = &at
	}
	if first || worse {
		w.Outcome, w.Exit, w.RetryAt = end.Outcome, string(end.Outcome), nil
		if end.Outcome.Failed() {
			w.Exit = cmp.Or(excerpt(end.Detail), w.Exit)
		}
		if end.RetryAfter > 0 {
			retry := now.Add(end.RetryAfter)
			w.RetryAt = &retry
		}
	}
	w.LastWords = cmp.Or(w.LastWords, words)
	return true
}

// endTime is at, or now if at is zero or impossible: the gateway's clock may differ
// from ours.
func endTime(w *pipeline.Wake, at, now time.Time) time.Time {
	if at.IsZero() || at.After(now) || at.Before(w.AskedAt) {
		return now
	}
	return at
}

// excerpt returns text on one line, at most maxWords bytes, as valid UTF-8.
func excerpt(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "\uFFFD")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "")
	}
	return text
}
