package inject

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"otm/core/store"
	"otm/internal/crash"
	"otm/internal/crash/crashtest"
	"otm/internal/leak"
	"otm/internal/lock"
	"otm/pipeline"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

// The environment of another injector's process. It sweeps once, or, where
// asked to drain, again and again until the file "enough" stands in the
// directory, taking the work lock for each sweep. With a point it kills itself
// there, the nth time that it comes there.
const (
	processDirEnv   = "INJECT_TEST_DIR"
	processBoardEnv = "INJECT_TEST_BOARD" // URL, list and token
	processDrainEnv = "INJECT_TEST_DRAIN"
	processKillEnv  = "INJECT_TEST_KILL" // point:n
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(processDirEnv); dir != "" {
		if err := runProcess(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(leak.Main(m))
}

func runProcess(dir string) error {
	if point, n, ok := strings.Cut(os.Getenv(processKillEnv), ":"); ok {
		var passed atomic.Int64
		crash.Hook = func(p string) {
			if p == point && strconv.FormatInt(passed.Add(1), 10) == n {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // nothing more happens
			}
		}
	}
	where := strings.Fields(os.Getenv(processBoardEnv))
	st, err := store.Open(context.Background(), dir, store.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	board := slacklist.New(slacklist.Options{Dir: dir, URL: where[0], ListID: where[1], Token: where[2], OpenAssignees: true})
	log := slog.New(slog.DiscardHandler)
	in := &Injector{
		Box: inbox.Open(dir), Agents: agents, Times: pipeline.DefaultTimes, Log: log, Now: time.Now,
		Engine: newEngine(dir, st, board, pipeline.DefaultTimes, log, time.Now),
	}
	if os.Getenv(processDrainEnv) == "" {
		_, err := in.Sweep(context.Background())
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "enough")); err == nil {
			return nil
		}
		if _, err := sweepInTurn(context.Background(), dir, in); err != nil {
			return err
		}
	}
}

// sweepInTurn sweeps when nobody else does, and says how many drops it took.
func sweepInTurn(ctx context.Context, dir string, in *Injector) (int, error) {
	l, err := lock.Acquire(ctx, filepath.Join(dir, "locks", Who), time.Minute)
	if err != nil {
		return 0, err
	}
	defer l.Release()
	r, err := in.Sweep(ctx)
	if err == nil && (len(r.Failed) > 0 || r.Trouble != nil) {
		err = fmt.Errorf("swept to %+v", r)
	}
	return r.Did[0].N, err
}

// process is another injector's process on the world's directory and board.
func (w *world) process(env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), processDirEnv+"="+w.dir, processBoardEnv+"="+strings.Join([]string{w.URL, w.ListID, w.Token}, " "))
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// TestKilledAtEachPoint kills an injector at each point of its work, the first
// and a later time that it comes there. The next one finishes what was begun:
// one row a task, all steps once and in order, every drop settled once, the
// counter above every id.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, at := range crashtest.Part(t, []string{
		"counter.before:1", "counter.after:1", // raised by the foreign id
		"sqlite.commit:1", "sqlite.commit:3", "sqlite.commit:5", "sqlite.committed:1", "sqlite.committed:2", "sqlite.committed:4",
		"store.done:1", "store.done:2", "store.done:3", "inject.done:1", "inject.done:2", "inject.delivered:1", "inject.delivered:2",
		"outbox.leased:1", "outbox.leased:3", "outbox.leased:5", "outbox.delivered:1", "outbox.delivered:3", "outbox.delivered:5",
		"durable.named:1", "durable.named:3",
		"board.made:1", "board.made:3", "board.stepped:1", "board.stepped:4", "board.noted:1", "board.noted:2", "board.updated:1",
		"create.before:1", "create.before:3", "create.after:1", "create.after:3", "update.before:1", "update.after:1",
		"snapshot.before:1", "snapshot.after:1",
		"settle.copied:1", "settle.copied:3", "settle.unlinked:1", "settle.unlinked:3", "settle.explained:1",
	}) {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			names := w.dropAll()
			var stderr bytes.Buffer
			cmd := w.process(processKillEnv + "=" + at)
			cmd.Stderr = &stderr
			if err := cmd.Run(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("the process ended with %v: %s", err, stderr.String())
			}
			w.checkAll(names)
		})
	}
}

// dropAll delivers drops of all sorts, and returns the names of those that are
// good.
func (w *world) dropAll() []string {
	w.t.Helper()
	names := []string{
		w.createFor("olga", 1, "First", "a", "b", "a"),
		w.create(2, "Second", "x"),
		w.put(inbox.NewTasks, "foreign.json", w.drop("devdas", 70, "Foreign", "m", "n").Encode()),
		w.update(1, report{steps: []string{"a"}, result: "r1"}),
		w.update(1, report{status: pipeline.AgentDone, steps: []string{"a"}, result: "r2"}),
	}
	w.put(inbox.NewTasks, "bad.json", []byte("not JSON"))
	w.age(inbox.NewTasks, "bad.json", time.Minute)
	return names
}

// checkAll lets other injectors finish what was begun with those drops, and holds
// what came of it against what must be.
func (w *world) checkAll(names []string) {
	t := w.t
	t.Helper()
	for tries := 0; len(w.waiting()) > 0; tries++ {
		if tries == 5 {
			t.Fatalf("left in the inbox: %v; log:\n%s", w.waiting(), w.log)
		}
		w.clock.Advance(20 * time.Second)
		w.restart()
		w.sweep()
	}
	w.checkTask(1, "First", "a", "b", "a")
	w.checkTask(2, "Second", "x")
	w.checkTask(70, "Foreign", "m", "n")
	if n := len(w.rows()); n != 9 {
		t.Errorf("%d rows, want 9", n)
	}
	slices.Sort(names)
	if got := w.settled(inbox.ProcessedDir); !slices.Equal(got, names) {
		t.Errorf("processed %v, want %v", got, names)
	}
	if got := w.settled(inbox.FailedDir); !slices.Equal(got, []string{"bad.json"}) {
		t.Errorf("failed %v", got)
	}
	for _, name := range names {
		if r := w.processed(name); r.SkippedDuplicate || r.SlackItemID == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	row, steps := w.row(1), w.steps(1)
	if row.Status != pipeline.AgentDone || row.Result != "r2" || row.Derived[pipeline.FieldRemaining] != "1" || !steps[0].StepDone() || steps[1].StepDone() || !steps[2].StepDone() {
		t.Errorf("row %+v, steps %+v", row, steps)
	}
	if task := w.task(1); len(w.reports(1)) != 2 || task.Status != pipeline.AgentDone || task.StepsDone() != 2 {
		t.Errorf("task %+v", task)
	}
	if left, err := w.store.Pending(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("undelivered: %+v, %v", left, err)
	}
	if next := w.counter(); next != 71 {
		t.Errorf("next id %v, want T-00071", next)
	}
}

// TestCaseB13TwoInjectors lets two processes drain one inbox into which hundreds
// of files come, each waiting its turn for the work lock: each file has one row,
// and neither has anything to say about the other.
func TestCaseB13TwoInjectors(t *testing.T) {
	t.Parallel()
	const atOnce = 50
	files := crashtest.Fewer(300) / atOnce * atOnce
	if crashtest.Whole() {
		files = 1000
	}
	w := newWorld(t)
	w.sweep() // makes the inboxes
	other := w.process(processDrainEnv + "=1")
	var stderr bytes.Buffer
	other.Stderr = &stderr
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	in, _ := w.newInjector(time.Now)
	mine := 0
	for id := pipeline.TaskID(1); int(id) <= files; {
		for range atOnce {
			c := w.drop("devdas", id, titleOf(id))
			c.ID = pipeline.NewDropID()
			w.put(inbox.NewTasks, c.ID+".json", c.Encode())
			id++
		}
		for len(w.waiting()) > 0 && !t.Failed() {
			n, err := sweepInTurn(t.Context(), w.dir, in)
			if err != nil {
				t.Error(err)
			}
			mine += n
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "enough"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := other.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("the other process: %v, %s", err, stderr.String())
	}
	t.Logf("took %d of %d", mine, files)
	rows := map[pipeline.TaskID]int{}
	steps := map[string]int{}
	all := w.rows()
	for _, r := range all {
		if r.Parent == "" {
			rows[r.Task()]++
		} else {
			steps[r.Parent]++
		}
	}
	if len(rows) != files || len(steps) != files || len(all) != 2*files {
		t.Errorf("%d tasks, %d with steps, %d rows", len(rows), len(steps), len(all))
	}
	if n := len(w.settled(inbox.ProcessedDir)); n != files || len(w.settled(inbox.FailedDir)) != 0 {
		t.Errorf("%d processed, failed %v", n, w.settled(inbox.FailedDir))
	}
}
