package slacklist

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"otm/pipeline"
)

// window is the span that the published limits speak of, and a second: a call
// counts from when it leaves, and may arrive a little sooner after the one before.
const window = time.Minute + time.Second

// perMinute is how many calls a minute Slack grants an app for each method
// (docs.slack.dev/apis/web-api/rate-limits).
var perMinute = map[string]int{
	createMethod: 50, updateMethod: 50, listMethod: 20, infoMethod: 20, deleteMethod: 20, filesMethod: 100, listUpdate: 20,
}

// maxHold is the longest wait that the board can impose. A longer one is left
// from before the clock was set back, and does not count.
const maxHold = time.Hour

// A ledger counts the calls of all processes of the directory. It is part of the
// snapshot.
type ledger struct {
	Calls     map[string][]stamp `json:"calls,omitempty"`     // of the last minute, by method
	HeldUntil map[string]stamp   `json:"heldUntil,omitempty"` // by method, because the board said so
}

// due returns when a method may be called: now or earlier means at once.
func (l *ledger) due(method string, budget float64, now time.Time) time.Time {
	due := l.HeldUntil[method].Time()
	if due.Sub(now) > maxHold {
		due = time.Time{}
	}
	if budget <= 0 || perMinute[method] == 0 {
		return due
	}
	limit := max(1, int(float64(perMinute[method])*budget))
	calls := l.recent(method, now)
	if over := len(calls) - limit; over >= 0 {
		if free := calls[over].Time().Add(window); free.After(due) {
			due = free
		}
	}
	return due
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

// answered moves the last call of a method to the time of its answer: it may have been
// long on its way, and the board counts from when it arrived.
func (l *ledger) answered(method string, now time.Time) {
	if calls := l.Calls[method]; len(calls) > 0 {
		calls[len(calls)-1] = stampOf(now)
	}
}

// holdOff keeps a method from being called before the given time.
func (l *ledger) holdOff(method string, until time.Time) {
	if l.HeldUntil == nil {
		l.HeldUntil = map[string]stamp{}
	}
	l.HeldUntil[method] = stampOf(until)
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
	return g.within(ctx, method, g.budget, call)
}

// within makes one call as soon as budget and board allow it, unless that is
// after the end of the batch.
func (g *gate) within(ctx context.Context, method string, budget float64, call func() error) error {
	now := g.now()
	if due := g.due(method, budget, now); due.After(now) {
		if due.After(g.deadline) {
			g.dirty = true // if the clock was set back, due has changed the ledger
			return &pipeline.BoardError{Method: method, Code: codeLimited, Until: due, Message: "waiting for the rate limit"}
		}
		g.log.Debug("waiting for the rate limit", "method", method, "wait", due.Sub(now))
		if err := g.sleep(ctx, due.Sub(now)); err != nil {
			return err
		}
	}
	if g.budget > 0 {
		g.called(method, g.now())
		g.dirty = true
	}
	err := call()
	if g.budget > 0 {
		g.answered(method, g.now())
	}
	if e, ok := errors.AsType[*pipeline.BoardError](err); ok && e.Code == codeLimited && !e.Until.IsZero() {
		g.holdOff(method, e.Until)
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
