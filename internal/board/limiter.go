package board

import (
	"cmp"
	"math"
	"net/http"
	"sync"
	"time"
)

// Limits are Slack's rate limits, counted by method and token in a bucket that
// holds a minute's worth of calls (facts 1.1: items.list 20, items.create 50,
// files.info 100, ...).
type Limits struct {
	// Minute is how long a minute lasts; tests shorten it. If zero, one minute.
	Minute time.Duration
}

// A limiter holds a bucket for each method and token. A nil limiter allows
// everything.
type limiter struct {
	minute time.Duration
	now    func() time.Time

	mu      sync.Mutex // guards buckets
	buckets map[bucketKey]*bucket
}

type bucketKey struct{ method, token string }

// A bucket holds up to a minute's worth of calls and fills evenly.
type bucket struct {
	calls float64 // left
	at    time.Time
}

func newLimiter(limits *Limits, now func() time.Time) *limiter {
	if limits == nil {
		return nil
	}
	return &limiter{minute: cmp.Or(limits.Minute, time.Minute), now: now, buckets: make(map[bucketKey]*bucket)}
}

// take takes one call out of the bucket of the method and the token.
func (l *limiter) take(m method, token string) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	key := bucketKey{m.name, token}
	b := l.buckets[key]
	if b == nil {
		b = &bucket{calls: float64(m.perMinute), at: now}
		l.buckets[key] = b
	}
	perCall := l.minute.Seconds() / float64(m.perMinute)
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.calls = math.Min(float64(m.perMinute), b.calls+passed/perCall)
	}
	b.at = now // also if the clock went back
	if b.calls >= 1 {
		b.calls--
		return nil
	}
	e := refuse("ratelimited")
	e.status = http.StatusTooManyRequests
	e.retryAfter = max(1, int(math.Ceil((1-b.calls)*perCall)))
	return e
}
