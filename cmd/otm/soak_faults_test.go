package main

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
)

// roundTasks is how many tasks a directory of TestSoakFaults takes before it is
// looked at; the next round has one of its own, and the next seed.
const roundTasks = 1000

// TestSoakFaults brings tasks through on a board that is far away: one call in
// ten, or in as many as are asked for, goes wrong. The board loses the answer,
// with or without having done what it was asked for, errs, refuses, or shows a
// row late. Now and then a process is killed as well.
func TestSoakFaults(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "goes on for ten seconds")
	tasks, seed := setting(t, soakTasks, 10), setting(t, soakSeed, int(time.Now().UnixNano()%1e6))
	for left := tasks; left > 0 && !t.Failed(); seed, left = seed+1, left-roundTasks {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newSoak(t, uint64(seed), "")
			b := s.farBoard()
			if s.most = min(left, roundTasks); s.most == roundTasks {
				s.room, s.block = 200, 60
			}
			s.live(func() {
				b.bad.Store(true)
				// One that died at its last task is woken only when another one waits for it.
				s.killing(func(int) bool { return s.known() >= s.most && s.open() < len(s.agents) }, 2*time.Second)
				b.bad.Store(false)
				b.mu.Lock()
				defer b.mu.Unlock()
				s.Logf("the board was called %d times; %v", b.calls, b.met)
			})
		})
	}
}

// farBoard is a board that no process of the house serves.
type farBoard struct {
	*boardtest.Board
	share int         // of so many calls one goes wrong
	bad   atomic.Bool // calls go wrong

	mu     sync.Mutex // guards what follows
	random *rand.Rand
	calls  int
	met    map[string]int // how often each fault came
}

// farBoard starts one, and configures it.
func (s *soak) farBoard() *farBoard {
	s.Helper()
	const person = "xoxp-pat"
	b := &farBoard{share: setting(s.T, soakShare, 10), random: s.random("board"), met: map[string]int{}}
	b.Board = boardtest.Start(s.T, func(o *boardtest.Options) { o.Identities = []board.Identity{{Token: person, UserID: board.HumanUser}} })
	assignee := b.Column(s.T, "Assignee", "select")
	for _, name := range append([]string{"olga"}, s.agents...) {
		if err := b.Server.AddOption("", b.ListID, assignee, name, name); err != nil {
			s.Fatal(err)
		}
	}
	b.Faults.Always("", boardtest.Pick(b.fault))
	eye := httptest.NewServer(b.Server.Handler()) // people see it as it is
	s.Cleanup(eye.Close)
	s.desk.find = func() (base, token, list string, err error) { return eye.URL + "/api/", person, b.ListID, nil }
	s.env = []string{"SLACK_BOT_TOKEN=" + b.Token}
	s.shapes = [][][]string{{{"otm-injector", "--sweep-every", "2s"}, {"otm-dispatcher", "--every", "2s"}, {"otm-completion-detector", "--every", "2s"}}}
	s.configure(fmt.Sprintf("[slack]\nlist_id = %q\napi_url = %q\nbudget = 0.0\n", b.ListID, b.URL))
	return b
}

// hidden is for how long a row is not shown: less than settle_after.
const hidden = 600 * time.Millisecond

// fault is what becomes of a call.
func (b *farBoard) fault(method string) boardtest.Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls++; b.calls%1000 == 0 {
		b.Faults.Reset() // it remembers every call
	}
	if !b.bad.Load() || b.random.IntN(b.share) > 0 {
		return boardtest.Pass()
	}
	faults := []func() boardtest.Fault{
		boardtest.Reset, boardtest.ApplyThenReset, boardtest.ApplyThenHalf, boardtest.Truncated, boardtest.HTML, boardtest.NoError,
		func() boardtest.Fault { return boardtest.Status(500) },
		func() boardtest.Fault { return boardtest.Status(503) },
		func() boardtest.Fault { return boardtest.ApplyThenStatus(502) },
		func() boardtest.Fault { return boardtest.ErrorCode("internal_error") },
		func() boardtest.Fault { return boardtest.ApplyThenError("internal_error") },
		func() boardtest.Fault { return boardtest.RateLimited("1") },
	}
	if method == "slackLists.items.create" && b.random.IntN(3) == 0 {
		b.met["apply, hide"]++
		return boardtest.ApplyAndHide(hidden)
	}
	f := faults[b.random.IntN(len(faults))]()
	b.met[f.Name]++
	return f
}
