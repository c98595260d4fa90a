package slacklist

import (
	"slices"
	"time"
)

// window is the span that the published limits speak of.
const window = time.Minute

// perMinute is how many calls a minute Slack grants an app for each method, by
// its rate limit tiers (docs.slack.dev/apis/web-api/rate-limits).
var perMinute = map[string]int{
	"slackLists.items.create":         50,
	"slackLists.items.update":         50,
	"slackLists.items.list":           20,
	"slackLists.items.info":           20,
	"slackLists.items.delete":         20,
	"slackLists.items.deleteMultiple": 20,
	"files.info":                      100,
}

// hold is a time before which a method may not be called, because the board
// said so.
type hold struct {
	From  stamp `json:"from"` // when it said so
	Until stamp `json:"until"`
}

// due returns when a method may be called n times in a row: now or earlier
// means at once. Where n is more than the budget, the whole budget is meant.
func (s *snapshot) due(method string, budget float64, n int, now time.Time) time.Time {
	due := s.heldUntil(method, now)
	if budget <= 0 || perMinute[method] == 0 {
		return due
	}
	limit := max(1, int(float64(perMinute[method])*budget))
	calls := s.recent(method, now)
	if over := len(calls) + min(n, limit) - limit; over > 0 {
		free := calls[over-1].Time().Add(window)
		if free.After(due) {
			due = free
		}
	}
	return due
}

// heldUntil returns until when the board wants no call of a method. If the
// clock was set back since it said so, the wait begins anew.
func (s *snapshot) heldUntil(method string, now time.Time) time.Time {
	h, ok := s.NotBefore[method]
	if !ok {
		return time.Time{}
	}
	if span := h.Until - h.From; h.From > stampOf(now) {
		h = hold{From: stampOf(now), Until: stampOf(now) + span}
		s.NotBefore[method] = h
	}
	return h.Until.Time()
}

// recent returns the times of a method's calls in the window, and forgets the
// others. Times in the future come from a clock that was set back; they count
// as calls of this moment, which can only be too careful, by a minute at most.
func (s *snapshot) recent(method string, now time.Time) []stamp {
	calls := slices.DeleteFunc(s.Calls[method], func(t stamp) bool { return now.Sub(t.Time()) >= window })
	for i := range calls {
		calls[i] = min(calls[i], stampOf(now))
	}
	if s.Calls != nil {
		s.Calls[method] = calls
	}
	return calls
}

// called counts a call.
func (s *snapshot) called(method string, now time.Time) {
	if s.Calls == nil {
		s.Calls = map[string][]stamp{}
	}
	s.Calls[method] = append(s.recent(method, now), stampOf(now))
}

// answered moves the last call of a method to the time of its answer.
func (s *snapshot) answered(method string, now time.Time) {
	if calls := s.Calls[method]; len(calls) > 0 {
		calls[len(calls)-1] = stampOf(now)
	}
}

// holdOff keeps a method from being called before the given time.
func (s *snapshot) holdOff(method string, now, until time.Time) {
	if s.NotBefore == nil {
		s.NotBefore = map[string]hold{}
	}
	s.NotBefore[method] = hold{From: stampOf(now), Until: stampOf(until)}
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
