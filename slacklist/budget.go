package slacklist

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"otm/pipeline"
)

// window is the span that the published limits speak of.
const window = time.Minute

// perMinute is how many calls a minute Slack grants an app for each method
// (docs.slack.dev/apis/web-api/rate-limits).
var perMinute = map[string]int{
	createMethod: 50, updateMethod: 50, listMethod: 20, infoMethod: 20, deleteMethod: 20, filesMethod: 100,
}

// hold is a time before which a method may not be called, because the board
// said so.
type hold struct {
	From  stamp `json:"from"` // when it said so
	Until stamp `json:"until"`
}

// A ledger counts the calls of all processes of the directory. It is part of the
// snapshot.
type ledger struct {
	Calls     map[string][]stamp `json:"calls,omitempty"`     // of the last minute, by method
	NotBefore map[string]hold    `json:"notBefore,omitempty"` // by method
}

// due returns when a method may be called n times in a row: now or earlier
// means at once. If n is more than the budget, the whole budget is meant.
func (l *ledger) due(method string, budget float64, n int, now time.Time) time.Time {
	due := l.heldUntil(method, now)
	if budget <= 0 || perMinute[method] == 0 {
		return due
	}
	limit := max(1, int(float64(perMinute[method])*budget))
	calls := l.recent(method, now)
	if over := len(calls) + min(n, limit) - limit; over > 0 {
		free := calls[over-1].Time().Add(window)
		if free.After(due) {
			due = free
		}
	}
	return due
}

// heldUntil returns until when the board wants no call of a method. If the
// clock was set back since the board said so, the wait begins anew.
func (l *ledger) heldUntil(method string, now time.Time) time.Time {
	h, ok := l.NotBefore[method]
	if !ok {
		return time.Time{}
	}
	if span := h.Until - h.From; h.From > stampOf(now) {
		h = hold{From: stampOf(now), Until: stampOf(now) + span}
		l.NotBefore[method] = h
	}
	return h.Until.Time()
}

// recent returns the times of a method's calls in the window, and forgets the
// others. Times in the future come from a clock that was set back; they count
// as calls of this moment, which can only be too careful, by a minute at most.
func (l *ledger) recent(method string, now time.Time) []stamp {
	calls := slices.DeleteFunc(l.Calls[method], func(t stamp) bool { return now.Sub(t.Time()) >= window })
	for i := range calls {
		calls[i] = min(calls[i], stampOf(now))
	}
	if l.Calls != nil {
		l.Calls[method] = calls
	}
	return calls
}

// called counts a call.
func (l *ledger) called(method string, now time.Time) {
	if l.Calls == nil {
		l.Calls = map[string][]stamp{}
	}
	l.Calls[method] = append(l.recent(method, now), stampOf(now))
}

// answered moves the last call of a method to the time of its answer.
func (l *ledger) answered(method string, now time.Time) {
	if calls := l.Calls[method]; len(calls) > 0 {
		calls[len(calls)-1] = stampOf(now)
	}
}

// holdOff keeps a method from being called before the given time.
func (l *ledger) holdOff(method string, now, until time.Time) {
	if l.NotBefore == nil {
		l.NotBefore = map[string]hold{}
	}
	l.NotBefore[method] = hold{From: stampOf(now), Until: stampOf(until)}
}

// A gate lets the calls of one batch through when the budget and the board
// allow them, and counts them.
type gate struct {
	*ledger
	dirty    bool    // the ledger has changed
	budget   float64 // see Options
	deadline time.Time
	now      func() time.Time
	sleep    func(context.Context, time.Duration) error
	log      *slog.Logger
}

// do makes one call as soon as it may be made.
func (g *gate) do(ctx context.Context, method string, call func() error) error {
	if err := g.ready(ctx, method, g.budget, 1); err != nil {
		return err
	}
	return g.done(method, call())
}

// ready waits, within the batch, until a method may be called n times in a row,
// and counts one call.
func (g *gate) ready(ctx context.Context, method string, budget float64, n int) error {
	now := g.now()
	if due := g.due(method, budget, n, now); due.After(now) {
		if due.After(g.deadline) {
			g.dirty = true // if the clock was set back, due has changed the ledger
			return &pipeline.BoardError{Method: method, Code: "ratelimited", Until: due, Message: "waiting for the rate limit"}
		}
		g.log.Debug("waiting for the rate limit", "method", method, "wait", due.Sub(now))
		if err := g.sleep(ctx, due.Sub(now)); err != nil {
			return err
		}
	}
	if budget > 0 {
		g.called(method, g.now())
		g.dirty = true
	}
	return nil
}

// done notes that a call has an answer, or certainly gets none, and returns err.
// The call counts as of now: it may have been long on its way, and the board
// counts from when it arrived. If we crash before, it counts as of when it left,
// or not at all, and the board may refuse a call; then it says when to come back.
func (g *gate) done(method string, err error) error {
	g.answered(method, g.now())
	var e *pipeline.BoardError
	if errors.As(err, &e) && e.Code == "ratelimited" && !e.Until.IsZero() {
		g.holdOff(e.Method, g.now(), e.Until)
		g.dirty = true
	}
	return err
}

// stamp is a time in milliseconds since 1970; 0 is never.
type stamp int64

func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return 0
	}
	return stamp(t.UnixMilli())
}

// Time returns the time; the zero time for never.
func (s stamp) Time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(s))
}
