package slacklist

import (
	"slices"
	"time"
)

// window is the span that the published limits speak of.
const window = time.Minute

// maxHoldOff is longer than any wait the board has asked for.
const maxHoldOff = time.Hour

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

// due returns when a method may be called next: now or earlier means at once.
func (s *snapshot) due(method string, budget float64, now time.Time) time.Time {
	due := s.NotBefore[method].Time()
	if due.Sub(now) > maxHoldOff {
		due = now // the clock was set back since
	}
	limit := int(float64(perMinute[method]) * budget)
	if budget <= 0 || perMinute[method] == 0 {
		return due
	}
	limit = max(limit, 1)
	calls := s.recent(method, now)
	if len(calls) >= limit {
		free := calls[len(calls)-limit].Time().Add(window)
		if free.After(due) {
			due = free
		}
	}
	return due
}

// recent returns the times of a method's calls in the window, and forgets the
// others. Times in the future come from a clock that was set back; they would
// block the method for as long and are forgotten as well.
func (s *snapshot) recent(method string, now time.Time) []stamp {
	calls := slices.DeleteFunc(s.Calls[method], func(t stamp) bool {
		return t.Time().After(now) || now.Sub(t.Time()) >= window
	})
	s.Calls[method] = calls
	return calls
}

// called counts a call.
func (s *snapshot) called(method string, now time.Time) {
	if s.Calls == nil {
		s.Calls = map[string][]stamp{}
	}
	s.Calls[method] = append(s.recent(method, now), stampOf(now))
}

// holdOff keeps a method from being called before the given time.
func (s *snapshot) holdOff(method string, until time.Time) {
	if s.NotBefore == nil {
		s.NotBefore = map[string]stamp{}
	}
	s.NotBefore[method] = stampOf(until)
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
