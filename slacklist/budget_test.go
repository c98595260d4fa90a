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
				err := s.gate.do(t.Context(), method, func() error { return nil })
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
	if due := w.due(listMethod, 1); !due.Equal(w.clock.Now().Add(window)) {
		t.Errorf("due %v", due)
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

// The first page of a walk waits for the budget. Once begun, the walk takes what
// the board allows, and all its pages count.
func TestBudgetOfPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client(func(o *Options) { o.Budget = 0.05 }) // one call a minute
	begin := w.clock.Now()
	w.batch(c, func(s *Session) {
		more := boardtest.Rewrite("", func(answer map[string]any) {
			answer["response_metadata"] = map[string]any{"next_cursor": "more"}
		})
		w.Faults.Next(listMethod, more, boardtest.Body("last page", `{"ok":true,"items":[]}`))
		w.walk(s)
		if n := len(s.snap.Calls[listMethod]); n != 2 {
			t.Errorf("%d calls counted", n)
		}
		if e := boardError(t, s.Refresh(t.Context(), 0)); e.Code != codeLimited || !e.Until.Equal(begin.Add(window)) {
			t.Errorf("error %+v", e)
		}
	})
	if !w.clock.Now().Equal(begin) {
		t.Errorf("waited %v", w.clock.Now().Sub(begin))
	}
}

// HeldUntil holds for its method alone, for all processes of the directory,
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
		if due := w.due(createMethod, 1); !due.Equal(w.clock.Now().Add(30 * time.Second)) {
			t.Errorf("due %v", due)
		}
		w.clock.Advance(25 * time.Second)
		w.batch(c, func(s *Session) { w.add(s, 1) }) // the last 5 s are waited out
		if due := w.due(createMethod, 1); due.After(w.clock.Now()) {
			t.Errorf("due %v", due)
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
		return s.gate.do(t.Context(), listMethod, func() error { return nil })
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
	s.holdOff(createMethod, now.Add(30*time.Second))
	if got := s.due(createMethod, 1, now); !got.Equal(now.Add(30 * time.Second)) {
		t.Errorf("held until %v, now %v", got, now)
	}
	if back := now.Add(-3 * time.Hour); s.due(createMethod, 1, back).After(back) {
		t.Error("held for three hours")
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
	for range 2 {
		w.batch(c, func(s *Session) { slept = append(slept, w.clock.Now().Sub(begin)-BatchTime) })
	}
	if !slices.Equal(slept, []time.Duration{courtesy, courtesy}) {
		t.Errorf("slept %v, want once %v", slept, courtesy)
	}
}
