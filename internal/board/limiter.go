package board

import (
	"math"
	"net/http"
	"sync"
	"time"
)

// A limiter holds a bucket for each method and caller. A nil limiter allows
// everything.
type limiter struct {
	limits Limits
	now    func() time.Time

	mu      sync.Mutex // guards buckets
	buckets map[bucketKey]*bucket
}

type bucketKey struct{ method, who string }

// A bucket holds up to a minute's worth of calls and fills evenly.
type bucket struct {
	calls float64 // left
	at    time.Time
}

func newLimiter(limits *Limits, now func() time.Time) *limiter {
	if limits == nil {
		return nil
	}
	l := &limiter{limits: *limits, now: now, buckets: make(map[bucketKey]*bucket)}
	if l.limits.Minute <= 0 {
		l.limits.Minute = time.Minute
	}
	return l
}

// take takes one call out of the bucket of the method and caller, which holds
// n calls for each span of Slack's time. Zero calls are no limit.
func (l *limiter) take(method, who string, n int, span time.Duration) error {
	if l == nil {
		return nil
	}
	if own, ok := l.limits.PerMinute[method]; ok {
		n, span = own, time.Minute
	}
	if n <= 0 {
		return nil
	}
	span = time.Duration(float64(span) * float64(l.limits.Minute) / float64(time.Minute))
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	key := bucketKey{method, who}
	b := l.buckets[key]
	if b == nil {
		b = &bucket{calls: float64(n), at: now}
		l.buckets[key] = b
	}
	perCall := span.Seconds() / float64(n)
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.calls = math.Min(float64(n), b.calls+passed/perCall)
	}
	b.at = now // also where the clock went back
	if b.calls >= 1 {
		b.calls--
		return nil
	}
	e := refuse("ratelimited")
	e.status = http.StatusTooManyRequests
	e.retryAfter = max(1, int(math.Ceil((1-b.calls)*perCall)))
	return e
}
