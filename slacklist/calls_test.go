package slacklist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// Each call fails in each way. The error says the method, the outcome and when to
// try again, and the snapshot loses nothing. A limited method is not called before
// its time. Then work goes on.
func TestEachCallFails(t *testing.T) {
	t.Parallel()
	noSelf := func(s *Session) { s.snap.Self = "" }
	noSchema := func(s *Session) { s.snap.Schema = Schema{} }
	type session = func(ctx context.Context, s *Session, row string) error
	create := func(ctx context.Context, s *Session, _ string) error {
		_, err := s.Create(ctx, "", taskCells(2)...)
		return err
	}
	update := func(ctx context.Context, s *Session, row string) error {
		return s.Update(ctx, status(row, pipeline.Done))
	}
	refresh := func(ctx context.Context, s *Session, _ string) error { return s.Refresh(ctx, 0) }
	alone := func(call func(context.Context, *Client) error) session {
		return func(ctx context.Context, s *Session, _ string) error { return call(ctx, s.client) }
	}
	for _, call := range []struct {
		name, method string
		writes       bool
		alone        bool // it keeps no limits: nobody calls it often
		prepare      func(*Session)
		do           session
	}{
		{"the walk's rows", listMethod, false, false, nil, refresh},
		{"as whom we write", "auth.test", false, false, noSelf, refresh},
		{"create", createMethod, true, false, nil, create},
		{"the schema for a create", filesMethod, false, false, noSchema, create},
		{"update", updateMethod, true, false, nil, update},
		{"the schema for an update", filesMethod, false, false, noSchema, update},
		{"one row", "slackLists.items.info", false, false, nil, func(ctx context.Context, s *Session, row string) error {
			_, err := s.IsGone(ctx, row)
			return err
		}},
		{"delete", "slackLists.items.deleteMultiple", true, false, nil, func(ctx context.Context, s *Session, row string) error { return s.Delete(ctx, row) }},
		{"look", listMethod, false, true, nil, alone(func(ctx context.Context, c *Client) error { _, err := c.Look(ctx); return err })},
		{"identify", "auth.test", false, true, nil, alone(func(ctx context.Context, c *Client) error { _, err := c.Identify(ctx); return err })},
		{"inspect", filesMethod, false, true, nil, alone(func(ctx context.Context, c *Client) error { _, err := c.Inspect(ctx, nil, nil); return err })},
	} {
		for _, fault := range []struct {
			name    string
			fault   boardtest.Fault
			code    string
			maybe   bool // of a write
			limited time.Duration
		}{
			{"reset", boardtest.Reset(), "", true, 0},
			{"HTML", boardtest.HTML(), "", true, 0},
			{"internal_error", boardtest.ErrorCode("internal_error"), "internal_error", true, 0},
			{"429 for long", boardtest.RateLimited("40"), "ratelimited", false, 40 * time.Second},
			{"429 for a moment", boardtest.RateLimited("3"), "ratelimited", false, 3 * time.Second},
		} {
			t.Run(call.name+" "+fault.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				c := w.client()
				var row string
				w.batch(c, func(s *Session) { w.walk(s); row = w.add(s, 1) })
				w.batch(c, func(s *Session) {
					if call.prepare != nil {
						call.prepare(s)
					}
					before := ids(s)
					w.Faults.Next(call.method, fault.fault)
					err := call.do(t.Context(), s, row)
					e := boardError(t, err)
					if e.Method != call.method || e.Code != fault.code || e.Class != pipeline.Transient || e.MaybeApplied != (call.writes && fault.maybe) {
						t.Errorf("error %+v", e)
					}
					if until := e.Until.Sub(w.clock.Now()); !e.Until.IsZero() && until != fault.limited || e.Until.IsZero() != (fault.limited == 0) {
						t.Errorf("to be called again at %v, want in %v", e.Until, fault.limited)
					}
					if got := ids(s); !slices.Equal(got, before) {
						t.Errorf("rows %v, before %v", got, before)
					}
					if fault.limited == 0 || call.alone {
						return
					}
					// The board said when: until then, no call is made.
					called, canceled := w.Faults.Count(call.method), errors.New("told to stop")
					s.gate.sleep = func(context.Context, time.Duration) error { return canceled }
					err = call.do(t.Context(), s, row)
					if fault.limited > BatchTime {
						if e := boardError(t, err); e.Code != "ratelimited" || e.Method != call.method || e.MaybeApplied {
							t.Errorf("too early: %+v", e)
						}
					} else if !errors.Is(err, canceled) {
						t.Errorf("told to stop while it waits: %v", err)
					}
					if n := w.Faults.Count(call.method) - called; n != 0 {
						t.Errorf("%d calls before their time", n)
					}
					s.gate.sleep = w.clock.Sleep
				})
				w.clock.Advance(time.Minute)
				w.batch(c, func(s *Session) {
					if call.prepare != nil {
						call.prepare(s)
					}
					if err := call.do(t.Context(), s, row); err != nil {
						t.Errorf("and then: %v", err)
					}
					if fault.maybe {
						w.walk(s)
					}
					want := map[string]int{"delete": 0, "create": 2, "the schema for a create": 2}
					n, ok := want[call.name]
					if !ok {
						n = 1
					}
					if got := ids(s); len(got) != n {
						t.Errorf("rows %v, want %d", got, n)
					}
				})
			})
		}
	}
}

// What comes as the list but is none is said to be so, by each who asks for it;
// what was known stays.
func TestListIsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	w.batch(c, func(s *Session) { w.walk(s); w.add(s, 1) })
	for body, want := range map[string]string{
		`{"ok":true,"items":[],"list":{"list_metadata":7},"file":{"list_metadata":7}}`: "list object has no columns",
		`{"ok":true,"items":[],"list":{},"file":{}}`:                                   "list object has no columns",
		`{"ok":true,"items":[]}`:                                                       "list object has no columns",
	} {
		w.batch(c, func(s *Session) {
			before := ids(s)
			for name, do := range map[string]func() error{
				listMethod + " of a look": func() error { _, err := c.Look(t.Context()); return err },
				listMethod + " of a walk": func() error { return s.Refresh(t.Context(), 0) },
				filesMethod + " of a create": func() error {
					kept := s.snap.Schema
					defer func() { s.snap.Schema = kept }()
					s.snap.Schema = Schema{}
					_, err := s.Create(t.Context(), "", taskCells(2)...)
					return err
				},
				filesMethod + " of an inspection": func() error { _, err := c.Inspect(t.Context(), nil, nil); return err },
			} {
				method, _, _ := strings.Cut(name, " ")
				w.Faults.Next(method, boardtest.Body("", body))
				err := do()
				w.Faults.Forget()
				if method == listMethod && !strings.Contains(body, `"list"`) {
					if err != nil { // the schema of before will do, or one that is asked for
						t.Errorf("%s of %s: %v", name, body, err)
					}
				} else if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s of %s: %v, want %q", name, body, err, want)
				}
			}
			if got := ids(s); !slices.Equal(got, before) {
				t.Errorf("rows %v, before %v", got, before)
			}
		})
	}
	w.batch(c, func(s *Session) {
		w.walk(s)
		if len(ids(s)) != 1 {
			t.Errorf("rows %v", ids(s))
		}
	})
}

// Look shows the rows of a walk while another batch holds the board, and leaves
// nothing behind. Pages that never end, or are none, are errors.
func TestLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *boardtest.Options) { o.RowLimit = 7 })
	c := w.client()
	w.batch(c, func(s *Session) {
		w.walk(s)
		row := w.add(s, 1)
		if _, err := s.Create(t.Context(), row, pipeline.Cell{Field: pipeline.FieldTitle, Text: "step"}); err != nil {
			t.Fatal(err)
		}
		w.walk(s)
		snap, err := w.client(func(o *Options) { o.Dir = t.TempDir() }).Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if snap.Count != 2 || snap.Limit != 7 || !snap.WalkAt.Equal(w.clock.Now()) {
			t.Errorf("%d of %d rows at %v", snap.Count, snap.Limit, snap.WalkAt)
		}
		for i, r := range snap.Rows {
			if want := s.snap.Rows[i].Row; fmt.Sprint(r) != fmt.Sprint(want) {
				t.Errorf("row %+v, want %+v", r, want)
			}
		}
	})
	more := boardtest.Rewrite("", func(answer map[string]any) {
		answer["response_metadata"] = map[string]any{"next_cursor": "more"}
	})
	again := boardtest.Body("", `{"ok":true,"items":[],"response_metadata":{"next_cursor":"more"}}`)
	lost := boardtest.Body("", fmt.Sprintf(`{"ok":true,"items":[],"list":%s,"response_metadata":{"next_cursor":"more"}}`, asJSON(w.Must(t, filesMethod, map[string]any{"file": w.ListID})["file"])))
	for name, faults := range map[string][]boardtest.Fault{
		"does not advance": {lost, again, again},
		"no page of rows":  {boardtest.Rewrite("", func(answer map[string]any) { answer["items"] = 7 })},
		"HTTP status 500":  {more, boardtest.Status(500)},
	} {
		w.Faults.Next(listMethod, faults...)
		if snap, err := c.Look(t.Context()); snap != nil || err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, %v; want %q", snap, err, name)
		}
		w.Faults.Forget()
	}
}

// A walk that has begun and may not go on leaves what was known.
func TestLimitedInAWalk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client(func(o *Options) { o.Budget = 1 })
	w.batch(c, func(s *Session) {
		w.add(s, 1)
		for range perMinute[listMethod] - 1 {
			w.walk(s)
		}
		before, at, called := ids(s), s.WalkAt(), w.Faults.Count(listMethod)
		w.clock.Advance(time.Second)
		w.Faults.Next(listMethod, boardtest.Rewrite("", func(answer map[string]any) {
			answer["items"], answer["response_metadata"] = []any{}, map[string]any{"next_cursor": "more"}
		}), boardtest.RateLimited("3"))
		if e := boardError(t, s.Refresh(t.Context(), 0)); e.Code != "ratelimited" || e.Method != listMethod {
			t.Errorf("error %+v", e)
		}
		if got := ids(s); !slices.Equal(got, before) || !s.WalkAt().Equal(at) || w.Faults.Count(listMethod) != called+2 {
			t.Errorf("rows %v of %v, before %v of %v, by %d calls", got, s.WalkAt(), before, at, w.Faults.Count(listMethod)-called)
		}
	})
}

// A caller that waits for its turn, or for the rate limit, can be stopped, and
// leaves the board to others.
func TestSleepGivenUp(t *testing.T) {
	t.Parallel()
	cause := errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := sleep(ctx, time.Hour); !errors.Is(err, cause) {
		t.Errorf("slept: %v", err)
	}
	if err := sleep(t.Context(), 0); err != nil {
		t.Errorf("slept: %v", err)
	}
	w := newWorld(t)
	c := w.client()
	w.batch(c, func(s *Session) {
		w.walk(s)
		s.gate.holdOff(createMethod, w.clock.Now().Add(BatchTime/2))
		s.gate.sleep = func(context.Context, time.Duration) error { return cause }
		if _, err := s.Create(t.Context(), "", taskCells(1)...); !errors.Is(err, cause) {
			t.Errorf("waited for the rate limit: %v", err)
		}
		if b, err := c.Begin(ctx); b != nil || !errors.Is(err, cause) {
			t.Errorf("waited for the turn: %v, %v", b, err)
		}
	})
	for _, c := range []*Client{c, w.client()} {
		w.batch(c, func(*Session) {})
	}
}

// A snapshot that cannot be read is told to those who only look, and is not taken
// for none.
func TestUnreadableSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) { w.walk(s); w.add(s, 1) })
	crashtest.Below(t, w.dir, func(step, path string) error { return syscall.EIO })
	if s, err := ReadSnapshot(w.dir); s != nil || !errors.Is(err, syscall.EIO) {
		t.Errorf("%+v, %v", s, err)
	}
}
