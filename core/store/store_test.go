package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"otm/core"
	"otm/pipeline"
)

var (
	t0       = time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	injector = core.Component("otm-injector")
	ada      = core.ByPerson("Ada")
)

// request asks for a task with two steps.
func request(id pipeline.TaskID, drop string) core.Command {
	return core.Command{ID: drop, Sum: "sum of " + drop, At: t0, By: injector, Task: id, Do: core.Request{
		Task: pipeline.Task{ID: id, Title: fmt.Sprint("task ", int(id)), Agent: "Dev Das", Priority: pipeline.Normal, Type: pipeline.Action, Steps: []string{"one", "two"}},
		Drop: drop + ".json", CreatedAt: t0,
	}}
}

// written says that the board shows a task as it is.
func written(t *core.Task) core.Command {
	b := core.Written{Shown: t.View()}
	if t.RowID == "" {
		b.Row = "Rec" + t.ID.String()
	}
	for _, s := range t.Steps {
		b.Steps = append(b.Steps, core.WrittenStep{Step: s.ID, Row: fmt.Sprint("Step", t.ID, s.ID), Shown: core.StepShown{Title: s.Title, Done: s.Done}})
	}
	return core.Command{At: t0.Add(time.Second), By: injector, Task: t.ID, Do: b}
}

func handOut(id pipeline.TaskID) core.Command {
	return core.Command{At: t0.Add(2 * time.Second), By: core.Component("otm-dispatcher"), Task: id, Do: core.HandOut{Agent: "Dev Das", Workspace: "/w"}}
}

func retitle(id pipeline.TaskID, title string) core.Command {
	return core.Command{At: t0.Add(time.Minute), By: ada, Task: id, Do: core.Edits{Title: &title}}
}

// do carries one command out, which must not be refused.
func do(t testing.TB, s *Store, c core.Command) core.Outcome {
	t.Helper()
	o, err := s.Do(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if o[0].Err != nil {
		t.Fatalf("%T: %v", c.Do, o[0].Err)
	}
	return o[0]
}

// handedOut makes a task that is handed out, and stands on the board.
func handedOut(t testing.TB, s *Store, id pipeline.TaskID) *core.Task {
	t.Helper()
	do(t, s, written(do(t, s, request(id, fmt.Sprint("d", int(id)))).Task))
	return do(t, s, written(do(t, s, handOut(id)).Task)).Task
}

// check fails the test if the rows do not follow from the events, or the live tasks in
// memory are not those of the rows.
func check(t testing.TB, s *Store) {
	t.Helper()
	checkLive(t, s)
	found, err := Check(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		t.Error(d)
	}
}

func checkLive(t testing.TB, s *Store) {
	t.Helper()
	got, err := s.Tasks(context.Background(), core.Filter{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	var want []*core.Task
	err = s.read(context.Background(), func(t tx) (err error) {
		want, err = loadTasks(t, core.Filter{Live: true}, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
		t.Errorf("live in memory:\n%+v\nin the database:\n%+v", got, want)
	}
}

func ids(tasks []*core.Task) []pipeline.TaskID {
	var all []pipeline.TaskID
	for _, t := range tasks {
		all = append(all, t.ID)
	}
	return all
}

func TestRequest(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		o := do(t, s, request(1, "a"))
		if len(o.Events) != 1 || o.Events[0].Seq != 1 || len(o.Events[0].ID) != 26 || o.Task.Title != "task 1" {
			t.Errorf("the outcome is %+v", o)
		}
		got, err := open().Task(t.Context(), 1)
		if err != nil || got.Title != "task 1" || got.Version != 1 {
			t.Errorf("the task is %+v, %v", got, err)
		}
		if _, err := s.Task(t.Context(), 2); !errors.Is(err, core.ErrNoTask) {
			t.Errorf("a task that does not exist: %v", err)
		}
		d, ok, err := s.Did(t.Context(), "a")
		if want := (core.Done{ID: "a", Task: 1, At: t0, Sum: "sum of a", Drop: "a.json"}); d != want || !ok || err != nil {
			t.Errorf("of the command is known %+v, %v, %v", d, ok, err)
		}
		check(t, s)
	})
}

// A command whose id was carried out before changes nothing; with another content it is
// refused.
func TestRepeatedCommand(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		do(t, s, request(1, "a"))
		unknown, other := request(1, "a"), request(2, "a")
		unknown.Sum, other.Sum = "", "another"
		o, err := s.Do(t.Context(), request(1, "a"), unknown, other, request(3, "c"), request(3, "c"))
		if err != nil {
			t.Fatal(err)
		}
		for i, before := range []bool{true, true, false, false, true} {
			if o[i].Before != before || before && (o[i].Task == nil || len(o[i].Events) > 0) {
				t.Errorf("outcome %d: %+v", i, o[i])
			}
		}
		var refused *core.Refused
		if !errors.As(o[2].Err, &refused) || refused.Rule != core.RuleOtherDrop || refused.Drop != "a.json" || refused.Class != core.Conflict || refused.Task != 1 {
			t.Errorf("another drop of the same id: %+v", o[2].Err)
		}
		check(t, s)
	})
}

// A task that is taken over brings the drops that were carried out on it. Once more, it
// changes nothing.
func TestImport(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		old := core.Task{ID: 7, Title: "old", Agent: "mira", Status: pipeline.Done, Version: 3, CreatedAt: t0}
		old.Wakes = []core.Wake{{Attempt: 1, Key: "otm-T-00007-mira-1", Agent: "mira", AskedAt: t0}}
		did := core.Done{ID: "u1", Task: 7, At: t0, Sum: "s", Drop: "u1.json"}
		c := core.Command{At: t0, By: injector, Task: 7, Do: core.Import{Imported: core.Imported{Task: old}, Did: []core.Done{did, did}}}
		do(t, s, c)
		if o := do(t, s, c); len(o.Events) > 0 {
			t.Errorf("once more: %+v", o)
		}
		if d, ok, err := s.Did(t.Context(), "u1"); d != did || !ok || err != nil {
			t.Errorf("of the drop is known %+v, %v, %v", d, ok, err)
		}
		if id, err := s.TaskOfWake(t.Context(), "otm-T-00007-mira-1"); id != 7 || err != nil {
			t.Errorf("the wake is of %v, %v", id, err)
		}
		if live, err := s.Tasks(t.Context(), core.Filter{Live: true}); len(live) > 0 || err != nil {
			t.Errorf("live: %v, %v", live, err)
		}
		check(t, s)
	})
}

// A refused command changes nothing, is not remembered, and leaves the others alone.
func TestRefused(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		handedOut(t, s, 1)
		report := core.Command{ID: "u", Sum: "s", At: t0.Add(time.Hour), By: core.ByAgent("Dev Das"), Task: 1, Do: core.Report{Drop: "u.json", Dropped: t0, Steps: []string{"three"}}}
		before, err := s.Events(t.Context(), core.EventFilter{})
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Do(t.Context(), request(2, "b"), report, request(3, "c"))
		var refused *core.Refused
		if err != nil || o[0].Err != nil || !errors.As(o[1].Err, &refused) || refused.Rule != core.RuleNoStep || o[2].Err != nil {
			t.Fatalf("outcomes: %+v, %v", o, err)
		}
		if o[1].Task == nil || o[1].Task.Taken() {
			t.Errorf("the refused command changed %+v", o[1].Task)
		}
		if _, ok, err := s.Did(t.Context(), "u"); ok || err != nil {
			t.Errorf("the refusal is remembered, %v", err)
		}
		after, err := s.Events(t.Context(), core.EventFilter{After: before[len(before)-1].Seq})
		if err != nil || len(after) != 2 {
			t.Errorf("events: %+v, %v", after, err)
		}
		check(t, s)
	})
}

// A command that panics changes nothing, and the others go on.
func TestPanic(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		outcomes, err := s.Do(t.Context(), core.Command{ID: "x", Task: 1}, request(1, "a")) // it has no action
		if err != nil {
			t.Fatal(err)
		}
		if p := (*core.PanicError)(nil); !errors.As(outcomes[0].Err, &p) || outcomes[1].Err != nil {
			t.Errorf("outcomes %+v", outcomes)
		}
		if _, did, err := s.Did(t.Context(), "x"); did || err != nil {
			t.Errorf("it is known: %t, %v", did, err)
		}
		check(t, s)
	})
}

func TestTasks(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		for id := pipeline.TaskID(1); id <= 5; id++ {
			handedOut(t, s, id)
		}
		cancelled, other := pipeline.Cancelled, "mira"
		do(t, s, core.Command{At: t0, By: ada, Task: 2, Do: core.Edits{Seen: true, Status: &cancelled}}) // its row stands on the board
		do(t, s, core.Command{At: t0, By: ada, Task: 3, Do: core.Edits{Seen: true, Status: &cancelled}})
		do(t, s, core.Command{At: t0, By: ada, Task: 3, Do: core.LoseRow{Row: "RecT-00003"}})
		do(t, s, core.Command{At: t0, By: ada, Task: 4, Do: core.Edits{Seen: true, Agent: &other}})
		woken := t0.Add(time.Minute)
		do(t, s, core.Command{At: woken, By: injector, Task: 5, Agent: "Dev Das", Do: core.BeginWake{Version: mustTask(t, s, 5).Version, Via: pipeline.TriggerExec, Tasks: []pipeline.TaskID{5}, AskedAt: woken}})
		for _, tt := range []struct {
			filter core.Filter
			want   []pipeline.TaskID
		}{
			{core.Filter{}, []pipeline.TaskID{1, 2, 3, 4, 5}},
			{core.Filter{IDs: []pipeline.TaskID{5, 9, 1, 5}}, []pipeline.TaskID{1, 5}},
			{core.Filter{IDs: []pipeline.TaskID{}}, nil},
			{core.Filter{Live: true}, []pipeline.TaskID{1, 2, 4, 5}},
			{core.Filter{Rows: []string{"RecT-00003", "RecT-00001", "x"}}, []pipeline.TaskID{1, 3}},
			{core.Filter{Rows: []string{}}, nil},
			{core.Filter{Agent: "dev_das", Live: true}, []pipeline.TaskID{1, 2, 5}},
			{core.Filter{Agent: "MIRA"}, []pipeline.TaskID{4}},
			{core.Filter{Woken: []string{"x", "Dev Das"}, WokenFrom: woken}, []pipeline.TaskID{5}},
			{core.Filter{Woken: []string{"dev_das"}, WokenFrom: woken.Add(time.Second)}, nil},
			{core.Filter{Woken: []string{"x"}}, nil},
			{core.Filter{Woken: []string{}}, nil},
		} {
			got, err := s.Tasks(t.Context(), tt.filter)
			if err != nil || !slices.Equal(ids(got), tt.want) {
				t.Errorf("%+v selects %v, want %v (%v)", tt.filter, ids(got), tt.want, err)
			}
		}
		key := mustTask(t, s, 5).Wakes[0].Key
		if id, err := s.TaskOfWake(t.Context(), key); id != 5 || err != nil {
			t.Errorf("the wake is of %v, %v", id, err)
		}
		if _, err := s.TaskOfWake(t.Context(), "x"); !errors.Is(err, core.ErrNoTask) {
			t.Errorf("a wake that is not known: %v", err)
		}
		check(t, s)
	})
}

// A task that was read stays as it was, whatever changes later.
func TestTasksStay(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		handedOut(t, s, 1)
		handedOut(t, s, 2)
		kept, err := s.Tasks(t.Context(), core.Filter{Live: true})
		if err != nil {
			t.Fatal(err)
		}
		want := []*core.Task{mustTask(t, s, 1), mustTask(t, s, 2)}
		do(t, s, retitle(1, "another"))
		do(t, s, core.Command{At: t0, By: ada, Task: 2, Do: core.LoseRow{Row: "RecT-00002"}})
		do(t, s, core.Command{At: t0, By: ada, Task: 1, Agent: "Dev Das", Do: core.BeginWake{Version: mustTask(t, s, 1).Version, Via: pipeline.TriggerExec, Tasks: []pipeline.TaskID{1}, AskedAt: t0}})
		checkLive(t, s)
		if !reflect.DeepEqual(kept, want) {
			t.Errorf("kept %+v, want %+v", kept, want)
		}
	})
}

// What another process does to live tasks is seen, whatever it is.
func TestLiveTasks(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s, other := open(), open()
		checkLive(t, s)
		for id := pipeline.TaskID(1); id <= 4; id++ {
			handedOut(t, other, id)
			checkLive(t, s)
		}
		cancelled, again := pipeline.Cancelled, pipeline.New
		for _, c := range []core.Command{
			retitle(2, "another"),
			{At: t0, By: ada, Agent: "mira", Do: core.ResumeAgent{}}, // concerns no task
			{At: t0, By: ada, Task: 3, Do: core.Edits{Seen: true, Status: &cancelled}},
			{At: t0, By: ada, Task: 3, Do: core.LoseRow{Row: "RecT-00003"}}, // it is over
			request(700, "far"),
			{At: t0, By: ada, Task: 3, Do: core.RestoreRow{Row: "RecT-00003", Opened: true}}, // it is live again
			{At: t0, By: ada, Task: 3, Do: core.Edits{Seen: true, Status: &again}},
		} {
			do(t, other, c)
			checkLive(t, s)
		}
		change(t, other, `DELETE FROM tasks WHERE id = 1`, `UPDATE tasks SET doc = replace(doc, '"another"', '"lost"') WHERE id = 2`)
		if _, found, err := Rebuild(t.Context(), other, t0); err != nil || len(found) != 2 {
			t.Errorf("rebuilt: %v, %v", found, err)
		}
		checkLive(t, s)
		check(t, other)
	})
}

// Who waits for another goroutine's read of the live tasks waits no longer than its context,
// and virtual time goes on meanwhile: TestDrainUnderSlacksLimits hung, as that read slept in
// SQLite.
func TestLiveTasksWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := opened(t)(Open(t.Context(), t.TempDir(), Options{}))
		s.live.turn <- struct{}{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.Tasks(ctx, core.Filter{Live: true}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while another reads: %v", err)
		}
		<-s.live.turn
		checkLive(t, s)
	})
}

func mustTask(t testing.TB, s *Store, id pipeline.TaskID) *core.Task {
	t.Helper()
	task, err := s.Task(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func TestEvents(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		handedOut(t, s, 1)
		do(t, s, request(2, "b"))
		do(t, s, core.Command{At: t0, By: ada, Agent: "Mira", Do: core.ResumeAgent{}})
		for _, tt := range []struct {
			filter core.EventFilter
			want   string
		}{
			{core.EventFilter{}, "TaskRequested BoardWritten HandedOut TaskMoved BoardWritten TaskRequested AgentChanged"},
			{core.EventFilter{Task: 2}, "TaskRequested"},
			{core.EventFilter{Agent: "mira"}, "AgentChanged"},
			{core.EventFilter{After: 1, Limit: 2}, "BoardWritten HandedOut"},
			{core.EventFilter{Types: []string{"HandedOut", "TaskMoved", "Noted"}, Since: t0.Add(time.Second)}, "HandedOut TaskMoved"},
			{core.EventFilter{Since: t0.Add(time.Hour)}, ""},
		} {
			events, err := s.Events(t.Context(), tt.filter)
			var types []string
			for _, e := range events {
				types = append(types, e.Type())
			}
			if got := strings.Join(types, " "); got != tt.want || err != nil {
				t.Errorf("%+v selects %q, want %q (%v)", tt.filter, got, tt.want, err)
			}
		}
		a, err := s.Agent(t.Context(), "mira")
		if err != nil || !a.Resumed.Equal(t0) || a.Version != 1 {
			t.Errorf("the agent is %+v, %v", a, err)
		}
		if a, err := s.Agent(t.Context(), "Nobody"); err != nil || a.Agent != "Nobody" || a.Version != 0 {
			t.Errorf("an agent without state is %+v, %v", a, err)
		}
		check(t, s)
	})
}

// inParallel runs f in n goroutines that begin together, each with a store of its own,
// as processes have.
func inParallel(open func() *Store, n int, f func(i int, s *Store)) {
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		s := open()
		wg.Go(func() {
			<-begin
			f(i, s)
		})
	}
	close(begin)
	wg.Wait()
}

// Of many who move a task at once, one succeeds; the others are told how it stands.
func TestOneOfManyMovers(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		handedOut(t, s, 1)
		var mu sync.Mutex
		moved := 0
		inParallel(open, 8, func(i int, s *Store) {
			to := []pipeline.Status{pipeline.Cancelled, pipeline.Blocked}[i%2]
			o, err := s.Do(context.Background(), core.Command{At: t0, By: ada, Task: 1, Do: core.Edits{From: []pipeline.Status{pipeline.Assigned}, Status: &to}})
			mu.Lock()
			defer mu.Unlock()
			var refused *core.Refused
			switch {
			case err != nil:
				t.Error(err)
			case o[0].Err == nil:
				moved++
			case !errors.As(o[0].Err, &refused) || refused.Rule != core.RuleMoved || refused.From == pipeline.Assigned:
				t.Errorf("refused: %v", o[0].Err)
			}
		})
		if moved != 1 {
			t.Errorf("%d moved it", moved)
		}
		check(t, s)
	})
}

// Of many agents that claim the tasks of the shared queue at once, each gets at most one of
// each, and each task goes to one of them.
func TestOneOfManyClaimers(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		for id := range pipeline.TaskID(3) {
			c := request(id+1, fmt.Sprint("d", int(id)))
			r := c.Do.(core.Request)
			r.Task.Agent = pipeline.SharedQueue
			c.Do = r
			do(t, s, written(do(t, s, c).Task))
		}
		var mu sync.Mutex
		claimed := map[pipeline.TaskID][]string{}
		inParallel(open, 8, func(i int, s *Store) {
			name := fmt.Sprint("agent", i)
			for id := range pipeline.TaskID(3) {
				o, err := s.Do(context.Background(), core.Command{At: t0.Add(time.Minute), By: core.ByAgent(name), Task: id + 1, Do: core.Claim{Workspace: "/w"}})
				switch {
				case err != nil:
					t.Error(err)
				case o[0].Err == nil:
					mu.Lock()
					claimed[id+1] = append(claimed[id+1], o[0].Task.Agent)
					mu.Unlock()
				case !errors.Is(o[0].Err, core.ErrOutdated):
					t.Error(o[0].Err)
				}
			}
		})
		for id, by := range claimed {
			if is, err := s.Task(t.Context(), id); err != nil || len(by) != 1 || is.Agent != by[0] || is.Status != pipeline.InProgress {
				t.Errorf("%v was claimed by %v: %+v, %v", id, by, is, err)
			}
		}
		left, err := s.Tasks(t.Context(), core.Filter{Live: true, Agent: pipeline.SharedQueue})
		if err != nil || len(left) != 0 || len(claimed) != 3 {
			t.Errorf("left in the queue: %+v, %v", left, err)
		}
		check(t, s)
	})
}

// Of many who make a task of one id, or send one command, one does it.
func TestOneOfManyCreators(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		inParallel(open, 8, func(i int, s *Store) {
			mine := request(1, fmt.Sprint("drop", i))
			o, err := s.Do(context.Background(), request(2, "same"), mine, core.Command{At: t0, By: ada, Agent: "mira", Do: core.ResumeAgent{}})
			if err != nil || o[0].Err != nil || o[1].Err != nil || o[2].Err != nil {
				t.Errorf("outcomes: %+v, %v", o, err)
			}
		})
		events, err := s.Events(t.Context(), core.EventFilter{Types: []string{"TaskRequested"}})
		if err != nil || len(events) != 2 {
			t.Errorf("requested: %+v, %v", events, err)
		}
		if a, err := s.Agent(t.Context(), "mira"); err != nil || a.Version != 8 {
			t.Errorf("the agent is %+v, %v", a, err)
		}
		check(t, s)
	})
}

// Who follows the events sees each once: their numbers have no gap at any time.
func TestFollow(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		const writers, each = 4, 20
		follower := open()
		last := int64(0)
		follow := func() {
			events, err := follower.Events(context.Background(), core.EventFilter{After: last})
			if err != nil {
				t.Error(err)
			}
			for _, e := range events {
				if e.Seq != last+1 {
					t.Errorf("event %d follows %d", e.Seq, last)
				}
				last = e.Seq
			}
		}
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				follow()
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
		inParallel(open, writers, func(i int, s *Store) {
			for n := range each {
				id := pipeline.TaskID(1 + i*each + n)
				if _, err := s.Do(context.Background(), request(id, fmt.Sprint("d", id))); err != nil {
					t.Error(err)
				}
			}
		})
		close(stop)
		<-stopped
		if follow(); last != writers*each {
			t.Errorf("%d events", last)
		}
		check(t, follower)
	})
}

// lossy is a database whose answers to commits get lost.
type lossy struct {
	engine
	lose bool
}

var errLost = errors.New("the answer is lost")

func (l *lossy) write(ctx context.Context, d durability, fn func(tx) error) error {
	err := l.engine.write(ctx, d, fn)
	if l.lose && err == nil {
		return errLost
	}
	return err
}

// The answer to a commit is lost: the same command again changes nothing.
func TestLostAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		l := &lossy{engine: s.db, lose: true}
		s.db = l
		if _, err := s.Do(t.Context(), request(1, "a")); !errors.Is(err, errLost) {
			t.Errorf("the command: %v", err)
		}
		l.lose = false
		if o := do(t, s, request(1, "a")); !o.Before || o.Task.Version != 1 {
			t.Errorf("the same command again: %+v", o)
		}
		check(t, s)
	})
}

// A clock that is set back, or ahead, changes no order and loses nothing.
func TestClockSetBack(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		late := request(1, "a")
		late.At = t0.AddDate(1, 0, 0)
		do(t, s, late)
		leased, err := s.Lease(t.Context(), core.SinkRender, "me", late.At, time.Minute, 0)
		if err != nil || len(leased) != 1 {
			t.Fatalf("leased: %v, %v", leased, err)
		}
		do(t, s, request(2, "b")) // a year earlier
		leased, err = s.Lease(t.Context(), core.SinkRender, "other", t0, time.Minute, 0)
		if err != nil || len(leased) != 2 {
			t.Errorf("leased after the clock was set back: %+v, %v", leased, err)
		}
		for i := range leased {
			leased[i].Due = late.At
		}
		if err := s.Postponed(t.Context(), leased...); err != nil {
			t.Fatal(err)
		}
		if leased, err = s.Lease(t.Context(), core.SinkRender, "other", t0, time.Minute, 0); err != nil || len(leased) != 2 {
			t.Errorf("leased after a time in another year: %+v, %v", leased, err)
		}
		events, err := s.Events(t.Context(), core.EventFilter{})
		if err != nil || len(events) != 2 || events[0].Task != 1 {
			t.Errorf("events: %+v, %v", events, err)
		}
		check(t, s)
	})
}

// recorder is a database that notes what each change must survive.
type recorder struct {
	engine
	asked []durability
}

func (r *recorder) write(ctx context.Context, d durability, fn func(tx) error) error {
	r.asked = append(r.asked, d)
	return r.engine.write(ctx, d, fn)
}

// Commands survive a power failure, and so does what says that a row may have been made.
// What would only be done once more need not.
func TestDurability(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		r := &recorder{engine: s.db}
		s.db = r
		var task *core.Task
		deliver := func(sink core.Sink) []core.Pending { return lease(t, s, sink, "me", t0) }
		for _, step := range []struct {
			name string
			do   func()
			want durability
		}{
			{"a command", func() { task = do(t, s, request(1, "a")).Task }, synced},
			{"the lease of a rendering", func() { deliver(core.SinkRender) }, unsynced},
			{"its end", func() { settled(t, s, pending(t, s, core.SinkRender)...) }, unsynced},
			{"the lease of a new row", func() { deliver(core.SinkBoard) }, synced},
			{"the new row", func() { task = do(t, s, written(task)).Task }, synced},
			{"the end of its lease", func() { settled(t, s, core.Pending{Task: 1, Sink: core.SinkBoard, Owner: "me"}) }, unsynced},
			{"a person's edit", func() { task = do(t, s, retitle(1, "other")).Task }, synced},
			{"another rendering", func() { settled(t, s, deliver(core.SinkRender)...) }, unsynced},
			{"the lease of a row", func() { deliver(core.SinkBoard) }, unsynced},
			{"a failed try without an answer", func() {
				p := pending(t, s, core.SinkBoard)
				p[0].AskedAt = t0
				if err := s.Postponed(t.Context(), p...); err != nil {
					t.Error(err)
				}
			}, synced},
			{"cells", func() { do(t, s, written(task)) }, unsynced},
			{"a step that has no row", func() {
				do(t, s, core.Command{At: t0, By: ada, Task: 1, Do: core.Edits{Added: []core.AddedStep{{FoundStep: core.FoundStep{Title: "three"}}}}})
			}, synced},
			{"its row", func() { do(t, s, written(mustTask(t, s, 1))) }, synced},
		} {
			r.asked = nil
			if step.do(); len(r.asked) == 0 || r.asked[0] != step.want {
				t.Errorf("%s: %v, want %v", step.name, r.asked, step.want)
			}
		}
		check(t, s)
	})
}

// Incidents are opened once and closed once, also where two programs find the same at the
// same time, and follow from their events.
func TestIncidents(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		stores := []*Store{open(), open()}
		found := func(keys ...string) (w core.Watch) {
			for _, key := range keys {
				w.Found = append(w.Found, core.Seen{Found: core.Found{Key: key, Kind: key, Severity: 1, Task: 1, Args: map[string]string{"agent": "Dev Das"}}, Since: t0})
			}
			return w
		}
		together := func(at time.Time, w core.Watch) (events int) {
			var all sync.WaitGroup
			counts := make([]int, len(stores))
			for i, s := range stores {
				all.Go(func() { counts[i] = len(do(t, s, core.Command{At: at, By: injector, Do: w}).Events) })
			}
			all.Wait()
			return counts[0] + counts[1]
		}
		stand := func() []*core.Incident {
			t.Helper()
			all, err := stores[0].Incidents(t.Context(), core.IncidentFilter{Open: true})
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		was := handedOut(t, stores[0], 1)
		if n := together(t0, found("a", "b")); n != 2 || len(stand()) != 2 {
			t.Fatalf("%d events, %d stand", n, len(stand()))
		}
		both := stand()
		if n := together(t0.Add(time.Minute), core.Watch{Gone: []core.Incident{*both[0], *both[1]}}); n != 2 || len(stand()) != 0 {
			t.Errorf("%d events, %d stand", n, len(stand()))
		}
		if n := together(t0.Add(2*time.Minute), found("a")); n != 1 || stand()[0].Count != 2 {
			t.Errorf("again: %d events, %+v", n, stand()[0])
		}
		if n := together(t0.Add(2*time.Minute), core.Watch{Gone: []core.Incident{*both[0], *both[1]}}); n != 0 {
			t.Errorf("it was closed by who saw it before it was opened again: %d events", n)
		}
		if n := together(t0.Add(3*time.Hour), found("b")); n != 1 || len(stand()) != 2 || stand()[0].Count+stand()[1].Count != 3 {
			t.Errorf("long after: %d events", n)
		}
		o := do(t, stores[1], core.Command{At: t0, By: ada, Do: core.TagIncident{ID: both[0].ID, Cause: "the disk"}})
		if len(o.Events) != 1 {
			t.Errorf("tagged: %+v", o.Events)
		}
		if o, err := stores[1].Do(t.Context(), core.Command{At: t0, By: ada, Do: core.TagIncident{ID: 99}}); err != nil || o[0].Err != core.ErrNoIncident {
			t.Errorf("tagged what is not there: %+v, %v", o, err)
		}
		if now := mustTask(t, stores[0], 1); now.Version != was.Version {
			t.Error("its task changed")
		}
		check(t, stores[0])
		change(t, stores[0], "DELETE FROM incidents WHERE id = 2", `UPDATE incidents SET closed_at = 7 WHERE id = 1`)
		if _, found, err := Rebuild(t.Context(), stores[0], t0); err != nil || len(found) != 2 {
			t.Errorf("rebuilt %v, %v", found, err)
		}
		check(t, stores[0])
	})
}
