package store

import (
	"context"
	"sync"
	"testing"
	"time"

	"otm/core"
	"otm/internal/durable"
	"otm/pipeline"
)

func lease(t testing.TB, s *Store, sink core.Sink, owner string, now time.Time, tasks ...pipeline.TaskID) []core.Pending {
	t.Helper()
	leased, err := s.Lease(context.Background(), sink, owner, now, time.Minute, 0, tasks...)
	if err != nil {
		t.Fatal(err)
	}
	return leased
}

func pending(t testing.TB, s *Store, sink core.Sink) []core.Pending {
	t.Helper()
	p, err := s.Pending(context.Background(), sink)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func settled(t testing.TB, s *Store, done ...core.Pending) {
	t.Helper()
	if err := s.Delivered(context.Background(), done...); err != nil {
		t.Fatal(err)
	}
}

// An effect waits for the earlier ones of its task, and goes once it is delivered.
func TestEffects(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		task := do(t, s, request(1, "a")).Task
		if got := pending(t, s, ""); len(got) != 2 || got[0].Sink != core.SinkRender || got[1].Sink != core.SinkBoard || !got[1].Since.Equal(t0) || got[1].Wanted != 1 {
			t.Errorf("pending: %+v", got)
		}
		if early := lease(t, s, core.SinkBoard, "me", t0, 1); len(early) > 0 {
			t.Errorf("leased before the rendering: %+v", early)
		}
		settled(t, s, lease(t, s, core.SinkRender, "me", t0)...)
		board := lease(t, s, core.SinkBoard, "me", t0)
		if len(board) != 1 || board[0].Owner != "me" {
			t.Fatalf("leased: %+v", board)
		}
		do(t, s, written(task))
		if got := pending(t, s, ""); len(got) > 0 {
			t.Errorf("pending after the board showed all: %+v", got)
		}
		// While it was settled, and its lease goes on, nobody else writes the next change.
		do(t, s, retitle(1, "other"))
		settled(t, s, lease(t, s, core.SinkRender, "other", t0)...)
		if got := lease(t, s, core.SinkBoard, "other", t0); len(got) > 0 {
			t.Errorf("two lease the effects of one task: %+v", got)
		}
		settled(t, s, board...)
		if got := lease(t, s, core.SinkBoard, "other", t0); len(got) != 1 || got[0].Tries != 0 || !got[0].AskedAt.IsZero() {
			t.Errorf("leased after it was given back: %+v", got)
		}
	})
}

// What changes while it is delivered is delivered again.
func TestChangedWhileDelivered(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		do(t, s, request(1, "a"))
		leased := lease(t, s, core.SinkRender, "me", t0)
		do(t, s, retitle(1, "other"))
		settled(t, s, leased...)
		if got := lease(t, s, core.SinkRender, "other", t0); len(got) != 1 || got[0].Wanted != 2 {
			t.Errorf("leased: %+v", got)
		}
	})
}

// A failed try waits for its time, unless its task is named. What is known of it stays
// when the task changes, which is tried at once.
func TestPostponed(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		do(t, s, request(1, "a"))
		p := lease(t, s, core.SinkRender, "me", t0)
		due := t0.Add(time.Minute)
		p[0].Due, p[0].Tries, p[0].Error, p[0].Code, p[0].AskedAt = due, 1, "disk full", "full", t0
		if err := s.Postponed(t.Context(), p...); err != nil {
			t.Fatal(err)
		}
		p[0].Owner = ""
		if got := pending(t, s, core.SinkRender); len(got) != 1 || got[0] != p[0] {
			t.Errorf("pending: %+v, want %+v", got, p)
		}
		if got := lease(t, s, core.SinkRender, "me", t0); len(got) > 0 {
			t.Errorf("leased before its time: %+v", got)
		}
		named := lease(t, s, core.SinkRender, "me", t0, 1)
		if len(named) != 1 || named[0].Tries != 1 || !named[0].AskedAt.Equal(t0) {
			t.Fatalf("leased by name: %+v", named)
		}
		if err := s.Postponed(t.Context(), named...); err != nil {
			t.Fatal(err)
		}
		do(t, s, retitle(1, "other"))
		if got := lease(t, s, core.SinkRender, "me", t0); len(got) != 1 || got[0].Error != "disk full" || !got[0].Since.Equal(t0) {
			t.Errorf("leased after the change: %+v", got)
		}
	})
}

// A lease that lapsed may have been followed by a try: the next owner learns when. Who
// lost it settles nothing; as he may have written an older state, it is written again.
func TestLapsedLease(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		do(t, s, request(1, "a"))
		lost := lease(t, s, core.SinkRender, "lost", t0)
		if again := lease(t, s, core.SinkRender, "lost", t0); len(again) != 1 || !again[0].AskedAt.IsZero() {
			t.Errorf("a renewed lease: %+v", again)
		}
		if got := lease(t, s, core.SinkRender, "me", t0.Add(59*time.Second)); len(got) > 0 {
			t.Errorf("leased while another leases it: %+v", got)
		}
		mine := lease(t, s, core.SinkRender, "me", t0.Add(2*time.Minute))
		if len(mine) != 1 || !mine[0].AskedAt.Equal(t0.Add(time.Minute)) {
			t.Fatalf("leased: %+v", mine)
		}
		later := lost[0]
		later.Error = "late"
		if err := s.Postponed(t.Context(), later); err != nil {
			t.Fatal(err)
		}
		if got := pending(t, s, core.SinkRender); len(got) != 1 || got[0].Owner != "me" || got[0].Error != "" {
			t.Errorf("pending after a late answer: %+v", got)
		}
		settled(t, s, mine...)
		settled(t, s, lost...)
		if got := lease(t, s, core.SinkRender, "me", t0.Add(2*time.Minute)); len(got) != 1 {
			t.Errorf("leased after a late write: %+v", got)
		}
	})
}

// Eight processes share the effects of many tasks: each is leased once.
func TestEightClaimers(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		const tasks = 200
		s := open()
		var commands []core.Command
		for id := pipeline.TaskID(1); id <= tasks; id++ {
			c := request(id, "")
			c.ID = ""
			commands = append(commands, c)
		}
		if _, err := s.Do(t.Context(), commands...); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		claimed := map[pipeline.TaskID]int{}
		inParallel(open, 8, func(i int, s *Store) {
			for {
				leased, err := s.Lease(context.Background(), core.SinkRender, string(rune('a'+i)), t0, time.Minute, 10)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, p := range leased {
					claimed[p.Task]++
				}
				all := len(claimed) == tasks
				mu.Unlock()
				if err := s.Delivered(context.Background(), leased...); err != nil {
					t.Error(err)
				}
				if all {
					return
				}
			}
		})
		for id, n := range claimed {
			if n != 1 {
				t.Errorf("%v was leased %d times", id, n)
			}
		}
		if left := pending(t, s, core.SinkRender); len(left) > 0 {
			t.Errorf("left: %+v", left)
		}
	})
}

// The first start after the machine started writes the renderings of live tasks again.
func TestRenderedAgainAfterBoot(t *testing.T) {
	if durable.BootID() == "" {
		t.Skip("needs a kernel that names its start, as those of Linux and macOS do; without, OTM does not know of one either")
	}
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		do(t, s, request(1, "a"))
		settled(t, s, lease(t, s, core.SinkRender, "me", t0)...)
		if got := pending(t, open(), core.SinkRender); len(got) > 0 {
			t.Errorf("pending after another start: %+v", got)
		}
		err := s.db.write(t.Context(), synced, func(t tx) error {
			_, err := t.Exec("UPDATE meta SET value = replace(value, $1, 'before') WHERE key = 'place'", durable.BootID())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := pending(t, open(), core.SinkRender); len(got) != 1 {
			t.Errorf("pending after the machine started: %+v", got)
		}
	})
}
