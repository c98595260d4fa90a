package boardsink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/core/store"
	"otm/core/store/storetest"
	"otm/internal/crash"
	"otm/internal/leak"
	"otm/pipeline"
	"otm/slacklist"
	"otm/slacklist/differ"
)

// victimEnv holds the order of a process that is to be killed, as JSON.
const victimEnv = "BOARDSINK_TEST_VICTIM"

// TestMain lets the test binary act as a program that is killed at a named point.
func TestMain(m *testing.M) {
	if order := os.Getenv(victimEnv); order != "" {
		os.Exit(victimMain(order))
	}
	os.Exit(leak.Main(m))
}

// order is what a victim is to do: to deliver all that is due, once.
type order struct {
	Dir, URL, List, Token string
	Ahead                 time.Duration // of its clock
	At                    string        // it dies there: "board.made:2" is the second time; "": nowhere
}

func (o *order) now() time.Time { return time.Now().Add(o.Ahead) }

func (o *order) kill() {
	point, nth, _ := strings.Cut(o.At, ":")
	left, _ := strconv.Atoi(nth)
	crash.Hook = func(name string) {
		if name != point {
			return
		}
		if left--; left == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// deliver compares the board with a store, and delivers.
func (o *order) deliver(ctx context.Context, s *store.Store) (map[pipeline.TaskID]error, error) {
	log := slog.New(slog.DiscardHandler)
	d := &differ.Differ{
		Store: s, Agents: agents, Times: pipeline.DefaultTimes, By: core.Component("otm-dispatcher"), Log: log, Now: o.now,
		NewID: func(context.Context) (pipeline.TaskID, error) {
			return pipeline.TaskID(1000 + time.Now().UnixMilli()%90000), nil
		},
	}
	client := slacklist.New(slacklist.Options{Dir: o.Dir, URL: o.URL, ListID: o.List, Token: o.Token, OpenAssignees: true, Now: o.now})
	sink := &Sink{
		Store: s, Agents: agents, Times: pipeline.DefaultTimes, By: core.Component("otm-injector"), Log: log, Now: o.now,
		Look: func(ctx context.Context, b pipeline.Batch) error {
			_, err := d.Run(ctx, b)
			return err
		},
	}
	runner := &outbox.Runner{Outbox: s, Now: o.now, Sinks: map[core.Sink]outbox.Deliverer{
		core.SinkRender: &outbox.Render{Dir: o.Dir, Store: s}, core.SinkEntry: noFiles{}, core.SinkBoard: runs{&world{client: client, sink: sink}},
	}}
	return runner.Run(ctx)
}

// noFiles is a sink of dispatch files that writes none.
type noFiles struct{}

func (noFiles) Deliver(_ context.Context, effects []core.Pending) []outbox.Result {
	return make([]outbox.Result, len(effects))
}

func victimMain(text string) int {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return 2
	}
	ctx := context.Background()
	s, err := store.Open(ctx, o.Dir, store.Options{BusyTimeout: time.Minute})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	o.kill()
	if _, err := o.deliver(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestKilledAtEachPoint: wherever a delivery is killed, the next ones come to the same:
// each row is there once, and shows its task.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, at := range []string{
		"outbox.leased:1", "outbox.leased:2", "outbox.delivered:2", "sqlite.commit:1", "sqlite.commit:2", "sqlite.committed:3", "store.done:1", "differ.done:1", "board.noted:1", "board.noted:2",
		"board.made:1", "board.made:2", "board.stepped:1", "board.stepped:3", "board.updated:1", "board.deleted:1", "create.before:1", "create.after:1",
		"create.before:2", "create.after:3", "update.before:1", "update.after:1", "delete.before:1", "delete.after:1", "snapshot.before:1", "snapshot.after:1",
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := storetest.OpenIn(t, w.dir)
			o := &order{Dir: w.dir, URL: w.URL, List: w.ListID, Token: w.Token}
			do := func(id pipeline.TaskID, by core.Actor, what core.Action) {
				t.Helper()
				outcomes, err := s.Do(t.Context(), core.Command{At: o.now(), By: by, Task: id, Do: what})
				if err == nil {
					err = outcomes[0].Err
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			request := func(id pipeline.TaskID, steps ...string) {
				do(id, core.Component("otm-injector"), core.Request{CreatedAt: o.now(), Task: pipeline.Task{
					ID: id, Title: titleOf(id), Agent: "devdas", Priority: pipeline.Normal, Type: pipeline.Action, Steps: steps,
				}})
			}
			request(1, "a", "b")
			request(2, "a")
			if left, err := o.deliver(t.Context(), s); err != nil || len(left) > 0 {
				t.Fatal(left, err)
			}
			do(1, core.Component("otm-dispatcher"), core.HandOut{Agent: "devdas", Workspace: "/w"})
			do(2, core.ByPerson("olga"), core.Edits{Status: new(pipeline.Cancelled)})
			o.Ahead = time.Minute
			if left, err := o.deliver(t.Context(), s); err != nil || len(left) > 0 {
				t.Fatal(left, err)
			}
			do(1, core.ByAgent("devdas"), core.Report{Steps: []string{"a"}, Dropped: o.now()})
			two, err := s.Task(t.Context(), 2)
			if err != nil {
				t.Fatal(err)
			}
			do(2, core.Component("otm"), core.Archive{Row: pipeline.Row{ID: two.RowID}})
			request(3, "a", "b", "a")
			request(4, "a")
			one, err := s.Task(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			w.person(one.RowID, w.text("Reason", "look here"))

			o.Ahead, o.At = 2*time.Minute, at
			o.dies(t)
			for range 3 {
				o.Ahead += 20 * time.Second
				if _, err := o.deliver(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			if left, err := s.Pending(t.Context(), ""); err != nil || len(left) > 0 {
				t.Errorf("left %+v, %v", left, err)
			}
			var shown []string
			for _, r := range w.rows() {
				shown = append(shown, strings.TrimSpace(fmt.Sprint(r.Title, " ", r.CurrentStatus(), " ", r.Reason)))
			}
			slices.Sort(shown)
			want := []string{"Task 1 in_progress look here", "Task 3 new", "Task 4 new", "a done", "a new", "a new", "a new", "b new", "b new"}
			if !slices.Equal(shown, want) {
				t.Errorf("the board shows\n%q\nwant\n%q", shown, want)
			}
		})
	}
}

// dies runs a victim, which must die.
func (o *order) dies(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), victimEnv+"="+string(text))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Fatalf("the point %s was not reached: %v\n%s", o.At, err, out)
	}
}
