package app

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/heartbeat"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/pipeline"
)

// wholeLife leads a task through its life to the archive, and looks whether all
// is as it must be.
func (l *life) wholeLife() {
	l.Helper()
	l.live()
	l.check()
	l.archive()
}

// TestBadWeather lets half of all calls to the board fail, all through a task's
// life, in each of the ways in which boards do, and in all of them in turn.
func TestBadWeather(t *testing.T) {
	t.Parallel()
	weathers := map[string][]boardtest.Fault{
		"429":               {boardtest.RateLimited("30"), boardtest.RateLimited("11.5"), boardtest.RateLimited(""), boardtest.ErrorCode("ratelimited")},
		"5xx":               {boardtest.Status(500), boardtest.Status(502), boardtest.Status(503), boardtest.ApplyThenStatus(504)},
		"HTML":              {boardtest.HTML()},
		"ok:false":          {boardtest.NoError(), boardtest.Body("nothing", `{}`), boardtest.Body("null", `null`), boardtest.Body("empty", "")},
		"truncated":         {boardtest.Truncated(), boardtest.ApplyThenHalf()},
		"dripping":          {boardtest.Dripping(100, time.Microsecond)},
		"resets":            {boardtest.Reset(), boardtest.ApplyThenReset()},
		"trouble of theirs": {boardtest.ErrorCode("internal_error"), boardtest.ApplyThenError("fatal_error"), boardtest.ErrorCode("service_unavailable")},
	}
	var all []boardtest.Fault
	for _, faults := range weathers {
		all = append(all, faults...)
	}
	weathers["all"] = all
	for name, faults := range weathers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, pipeline.TriggerNone)
			l.step = 31 * time.Second // longer than the board asks us to wait
			clears := l.weather(faults)
			l.live()
			clears()
			l.settled()
			l.check()
			l.archive()
		})
	}
}

// weather lets half of all calls fail until clears is called.
func (l *life) weather(faults []boardtest.Fault) (clears func()) {
	var mu sync.Mutex
	dice := rand.New(rand.NewPCG(1, 2))
	return l.b.Faults.Always("", boardtest.Pick(func(string) boardtest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if dice.IntN(2) == 0 {
			return boardtest.Pass()
		}
		return faults[dice.IntN(len(faults))]
	}))
}

// TestClockSetBack sets the clock back by an hour, or ahead by a year, at some
// moment of a task's life. What waits for a time may wait for long once; nothing is
// lost, and nothing is done twice.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"back an hour": -time.Hour, "ahead a year": 365 * 24 * time.Hour} {
		for _, round := range []int{1, 2, 3, 4, 6, 8} {
			t.Run(fmt.Sprint(name, " before round ", round), func(t *testing.T) {
				t.Parallel()
				l := newLife(t, pipeline.TriggerNone)
				n := 0
				l.each = func() {
					if n++; n == round {
						l.ahead.Add(int64(by))
					}
				}
				l.wholeLife()
			})
		}
	}
}

// TestTokenRevoked revokes the token in the middle of a task's life: a resident
// ends with the exit code that says so, each run tells it in the heartbeat, and
// with a token all goes on.
func TestTokenRevoked(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"token_revoked", "invalid_auth", "account_inactive"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, pipeline.TriggerNone)
			n := 0
			l.each = func() {
				if n++; n%3 != 0 {
					return
				}
				l.start() // residents have ended, and are started again
				stop := l.b.Faults.Always("", boardtest.ErrorCode(code))
				defer stop()
				for _, c := range l.all {
					out, err := c.once(l.Context(), asked)
					if err == nil && out.Trouble == nil && c.id != heartbeat.Injector { // which has nothing to bring
						l.Errorf("%s says nothing", c.id)
					}
					if out.Trouble == nil {
						continue
					}
					if err := c.judge(out, err); exitCode(err) != cli.Credentials {
						l.Errorf("%s goes on: %v", c.id, err)
					}
					data, err := os.ReadFile(heartbeat.Path(l.h.Dir, c.id))
					if err != nil || !strings.Contains(string(data), `"result":"error"`) || !strings.Contains(string(data), code) {
						l.Errorf("heartbeat of %s: %s, %v", c.id, data, err)
					}
				}
			}
			l.wholeLife()
		})
	}
}

// TestColumnsAndOptionsMadeAnew lets a person rename columns, take options away
// and make them anew, under other ids, while a task is on its way. What needs
// them waits, the heartbeat names them, and then all goes on.
func TestColumnsAndOptionsMadeAnew(t *testing.T) {
	t.Parallel()
	const who = "U0ALICE"
	for _, c := range []struct {
		name   string
		needed string // to be found in a heartbeat
		spoil  func(l *life) (mend func() error, err error)
	}{
		{"column renamed", "Status", func(l *life) (func() error, error) {
			id := l.b.Column(l, "Status", "select")
			mend := func() error { return l.b.Server.RenameColumn(who, l.b.ListID, id, "Status") }
			return mend, l.b.Server.RenameColumn(who, l.b.ListID, id, "State")
		}},
		{"options of the status", "in_progress", func(l *life) (func() error, error) {
			return l.remake("Status", "in_progress", "blocked", "agent_done")
		}},
		{"option of the assignee", "devdas", func(l *life) (func() error, error) {
			return l.remake("Assignee", "devdas")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, pipeline.TriggerNone)
			n, told := 0, false
			mend := func() error { return nil }
			l.each = func() {
				var err error
				switch n++; {
				case n > 21: // the last time was enough
				case n%3 == 1:
					mend, err = c.spoil(l)
				case n%3 == 0:
					err = mend()
				}
				if err != nil {
					l.Fatal(err)
				}
				told = told || l.beats(c.needed)
			}
			l.wholeLife()
			if !told {
				l.Errorf("no heartbeat named %s", c.needed)
			}
		})
	}
}

// beats reports whether some component's heartbeat says a text.
func (l *life) beats(text string) bool {
	for _, c := range l.all {
		if data, err := os.ReadFile(heartbeat.Path(l.h.Dir, c.id)); err == nil && strings.Contains(string(data), text) {
			return true
		}
	}
	return false
}

// remake removes options of a column; mend adds them under other ids.
func (l *life) remake(column string, labels ...string) (mend func() error, err error) {
	id := l.b.Column(l, column, "select")
	columns, err := l.b.Server.Columns(l.b.ListID)
	if err != nil {
		return nil, err
	}
	for _, c := range columns {
		for _, o := range c.Options {
			for _, label := range labels {
				if c.ID == id && (o.Value == label || strings.HasPrefix(o.Value, label+"-anew")) {
					err = l.b.Server.RemoveOption("U0ALICE", l.b.ListID, id, o.Value)
				}
			}
		}
	}
	return func() error {
		if t := l.task(); t.RowID != "" && column == "Assignee" { // its cell holds what there is no more
			defer func() {
				l.b.Server.EditRow("U0ALICE", l.b.ListID, t.RowID, boardtest.SelectCell(id, fmt.Sprintf("%s-anew-%d", labels[0], l.ahead.Load())))
			}()
		}
		for _, label := range labels {
			if err := l.b.Server.AddOption("U0ALICE", l.b.ListID, id, fmt.Sprintf("%s-anew-%d", label, l.ahead.Load()), label); err != nil {
				return err
			}
		}
		return nil
	}, err
}
