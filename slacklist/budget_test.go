package slacklist

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/pipeline"
)

// TestBudgetOfTwoClients lets two clients of one directory, as two processes
// have them, make calls as fast as they may, for twenty minutes. In no minute
// are there more calls of a method than its share.
func TestBudgetOfTwoClients(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{1, 0.25, 0.01} {
		clock := newClock()
		o := Options{Dir: t.TempDir(), URL: "http://board.invalid/", ListID: "F1", Token: "t", Budget: share, Now: clock.Now}
		clients := []*Client{New(o), New(o)}
		methods := []string{listMethod, createMethod, updateMethod}
		made := map[string][]time.Time{}
		random := rand.New(rand.NewPCG(1, 2))
		for end := clock.Now().Add(20 * time.Minute); clock.Now().Before(end); {
			c := clients[random.IntN(2)]
			c.sleep = clock.Sleep
			s, err := c.begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var wait time.Time
			for range random.IntN(30) {
				method := methods[random.IntN(len(methods))]
				err := s.gate.ready(t.Context(), method, s.opts.Budget, 1)
				var e *pipeline.BoardError
				switch {
				case err == nil:
					made[method] = append(made[method], clock.Now())
					clock.Advance(time.Duration(random.IntN(300)) * time.Millisecond)
				case errors.As(err, &e) && e.Code == "ratelimited" && e.Until.After(clock.Now()):
					wait = e.Until
				default:
					t.Fatalf("error %v", err)
				}
			}
			if err := s.End(); err != nil {
				t.Fatal(err)
			}
			if random.IntN(3) == 0 && wait.After(clock.Now()) {
				clock.Advance(wait.Sub(clock.Now()))
			}
			clock.Advance(time.Duration(random.IntN(1000)) * time.Millisecond)
		}
		for method, calls := range made {
			limit := max(1, int(float64(perMinute[method])*share))
			for i := range calls {
				if j := i + limit; j < len(calls) && calls[j].Sub(calls[i]) < window {
					t.Errorf("share %v: %d calls of %s within %v", share, limit+1, method, calls[j].Sub(calls[i]))
					break
				}
			}
			if want := limit * 10; len(calls) < want {
				t.Errorf("share %v: only %d calls of %s in 20 minutes, want at least %d", share, len(calls), method, want)
			}
		}
	}
}

// Over the wire: the calls that do not fit into a batch come back with the
// time, and are good then.
func TestBudgetOnTheWire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client(func(o *Options) { o.Budget = 1 })
	w.batch(c, func(s *Session) {
		for range perMinute[listMethod] {
			w.walk(s)
		}
		e := boardError(t, s.Refresh(t.Context(), 0))
		if want := w.clock.Now().Add(window); e.Code != "ratelimited" || !e.Until.Equal(want) || e.MaybeApplied {
			t.Errorf("error %+v, want to wait until %v", e, want)
		}
		w.add(s, 1) // other methods have limits of their own
	})
	if snap, err := ReadSnapshot(w.dir, 1, w.clock.Now()); err != nil || !slices.Equal(snap.Limits, []Limited{{listMethod, w.clock.Now().Add(window)}}) {
		t.Errorf("shown limits %v, %v", snap.Limits, err)
	}
	if n := w.Faults.Count(listMethod); n != 20 {
		t.Errorf("%d calls", n)
	}
	w.clock.Advance(window - 5*time.Second)
	other := w.client(func(o *Options) { o.Budget = 1 })
	before := w.clock.Now()
	w.batch(other, func(s *Session) { w.walk(s) }) // waits the rest within the batch
	if waited := w.clock.Now().Sub(before); waited != 5*time.Second {
		t.Errorf("waited %v", waited)
	}
}

// A call counts as of its answer: it may have been long on its way, and the board
// counts from when it arrived.
func TestBudgetCountsFromTheAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client(func(o *Options) { o.Budget = 0.02 }) // one create a minute
	w.batch(c, func(s *Session) {
		w.add(s, 1)
		asked := s.snap.Calls[createMethod][0].Time()
		w.clock.Advance(3 * time.Second)
		if err := s.gate.done(createMethod, nil); err != nil {
			t.Fatal(err)
		}
		if got, want := s.snap.due(createMethod, 0.02, 1, w.clock.Now()), asked.Add(3*time.Second+window); !got.Equal(want) {
			t.Errorf("the next is due at %v, want %v", got, want)
		}
	})
}

// A walk of several pages begins only when the budget has room for all of them;
// once begun, it may exceed our share of what Slack allows.
func TestBudgetOfPages(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := &snapshot{}
	for range 18 {
		s.called(listMethod, now)
	}
	if !s.due(listMethod, 1, 2, now).Equal(time.Time{}) {
		t.Error("two pages fit and wait")
	}
	if got, want := s.due(listMethod, 1, 3, now.Add(time.Second)), stampOf(now).Time().Add(window); !got.Equal(want) {
		t.Errorf("three pages are due at %v, want %v", got, want)
	}
	small := &snapshot{}
	if !small.due(listMethod, 0.05, 5, now).IsZero() {
		t.Error("five pages with one call a minute never begin")
	}
	small.called(listMethod, now)
	if small.due(listMethod, 0.05, 1, now).IsZero() || !small.due(listMethod, overShare(0.05), 1, now).IsZero() {
		t.Error("the second page does not go on")
	}
	if overShare(0) != 0 || overShare(2) != 2 {
		t.Error("no limit became one")
	}
}

// NotBefore holds for its method alone, for all processes of the directory,
// with and without a budget.
func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	for _, budget := range []float64{0, 1} {
		w := newWorld(t)
		withBudget := func(o *Options) { o.Budget = budget }
		c := w.client(withBudget)
		w.batch(c, func(s *Session) {
			w.walk(s)
			w.Faults.Next(createMethod, boardtest.RateLimited("30"))
			boardError(t, func() error { _, err := s.Create(t.Context(), "", taskCells(1)...); return err }())
		})
		w.Faults.Reset()
		for _, c := range []*Client{c, w.client(withBudget)} {
			w.batch(c, func(s *Session) {
				_, err := s.Create(t.Context(), "", taskCells(1)...)
				if e := boardError(t, err); e.Code != "ratelimited" || !e.Until.Equal(w.clock.Now().Add(30*time.Second)) || e.MaybeApplied {
					t.Errorf("error %+v", e)
				}
				w.walk(s)
			})
		}
		if n := w.Faults.Count(createMethod); n != 0 {
			t.Errorf("budget %v: called %d times before its time", budget, n)
		}
		snap, err := ReadSnapshot(w.dir, 1, w.clock.Now())
		if err != nil || !slices.Equal(snap.Limits, []Limited{{createMethod, w.clock.Now().Add(30 * time.Second)}}) {
			t.Errorf("shown limits %v, %v", snap.Limits, err)
		}
		w.clock.Advance(25 * time.Second)
		w.batch(c, func(s *Session) { w.add(s, 1) }) // the last 5 s are waited out
		if snap, err := ReadSnapshot(w.dir, 1, w.clock.Now()); err != nil || len(snap.Limits) != 0 {
			t.Errorf("shown limits %v, %v", snap.Limits, err)
		}
	}
}

// A clock that was set back neither frees calls nor blocks a method for as
// long as it was set back.
func TestBudgetClockSetBack(t *testing.T) {
	t.Parallel()
	clock := newClock()
	o := Options{Dir: t.TempDir(), URL: "http://board.invalid/", ListID: "F1", Token: "t", Budget: 1, Now: clock.Now}
	call := func() error {
		c := New(o)
		c.sleep = clock.Sleep
		s, err := c.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.End()
		return s.gate.ready(t.Context(), listMethod, s.opts.Budget, 1)
	}
	for range perMinute[listMethod] {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(-3 * time.Hour)
	e := boardError(t, call())
	if wait := e.Until.Sub(clock.Now()); wait <= 0 || wait > window {
		t.Errorf("blocked for %v", wait)
	}
	clock.Advance(window)
	if err := call(); err != nil {
		t.Errorf("a minute later: %v", err)
	}

	s := &snapshot{}
	now := clock.Now()
	s.holdOff(createMethod, now, now.Add(30*time.Second))
	back := now.Add(-time.Hour)
	if got := s.heldUntil(createMethod, back); !got.Equal(back.Add(30 * time.Second)) {
		t.Errorf("held until %v, now %v", got, back)
	}
	if later := back.Add(31 * time.Second); s.due(createMethod, 1, 1, later).After(later) {
		t.Error("held for more than the board has asked for")
	}
}

// A process with much to do leaves the board to others for a moment after each
// batch that lasted its time.
func TestCourtesy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	var slept []time.Duration
	begin := w.clock.Now()
	w.batch(c, func(s *Session) {
		if s.Over() {
			t.Error("over at once")
		}
		w.clock.Advance(BatchTime)
		if !s.Over() {
			t.Error("not over")
		}
	})
	w.batch(c, func(s *Session) { slept = append(slept, w.clock.Now().Sub(begin)-BatchTime) })
	w.batch(c, func(s *Session) { slept = append(slept, w.clock.Now().Sub(begin)-BatchTime) })
	if !slices.Equal(slept, []time.Duration{courtesy, courtesy}) {
		t.Errorf("slept %v, want once %v", slept, courtesy)
	}
}
