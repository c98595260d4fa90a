package outbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/core/store"
	"otm/core/store/storetest"
	"otm/internal/crash"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// The environment of a process that requests tasks in the store of a directory, and
// delivers their effects. Its clock shows startEnv. At the nth passage of the point it
// kills itself.
const (
	dirEnv   = "OUTBOX_TEST_DIR"
	startEnv = "OUTBOX_TEST_START"
	killEnv  = "OUTBOX_TEST_KILL_AT" // point:n
)

const processTasks = 6

func runProcess(dir string) error {
	if point, n, ok := strings.Cut(os.Getenv(killEnv), ":"); ok {
		passed := 0
		crash.Hook = func(p string) {
			if p == point {
				if passed++; fmt.Sprint(passed) == n {
					syscall.Kill(os.Getpid(), syscall.SIGKILL)
					select {}
				}
			}
		}
	}
	ctx := context.Background()
	start, err := time.Parse(time.RFC3339, os.Getenv(startEnv))
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, dir, store.Options{BusyTimeout: time.Minute})
	if err != nil {
		return err
	}
	defer s.Close()
	board := &fileBoard{dir: filepath.Join(dir, "board"), store: s}
	if err := os.MkdirAll(board.dir, 0o700); err != nil {
		return err
	}
	r := &Runner{
		Outbox: s, Now: func() time.Time { return start }, Wait: time.Minute,
		Sinks: map[core.Sink]Deliverer{core.SinkRender: &Render{Dir: dir, Store: s}, core.SinkBoard: board},
	}
	for id := pipeline.TaskID(1); id <= processTasks; id++ {
		_, err := s.Do(ctx, core.Command{ID: id.String(), Task: id, At: start, By: core.Component("otm-injector"), Do: core.Request{
			Task:      pipeline.Task{ID: id, Title: "build", Agent: "devdas", Priority: pipeline.Normal, Type: pipeline.Action, Steps: []string{"one"}},
			CreatedAt: start,
		}})
		if err != nil {
			return err
		}
		if left, err := r.Run(ctx, id); err != nil || len(left) > 0 {
			return fmt.Errorf("left: %v, %w", left, err)
		}
	}
	return nil
}

// fileBoard is a board whose rows are files. A row that is made twice has two.
type fileBoard struct {
	dir   string
	store *store.Store
}

func (b *fileBoard) Deliver(ctx context.Context, effects []core.Pending) []Result {
	results := make([]Result, len(effects))
	for i, p := range effects {
		results[i].Err = b.write(ctx, p)
	}
	return results
}

func (b *fileBoard) write(ctx context.Context, p core.Pending) error {
	t, err := b.store.Task(ctx, p.Task)
	if err != nil {
		return err
	}
	row := t.RowID
	if row == "" && !p.AskedAt.IsZero() { // it may have been made
		found, err := filepath.Glob(filepath.Join(b.dir, p.Task.String()+".*"))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			row = filepath.Base(found[0])
		}
	}
	if row == "" {
		f, err := os.CreateTemp(b.dir, p.Task.String()+".*")
		if err != nil {
			return err
		}
		row = filepath.Base(f.Name())
		f.Close()
	}
	crash.Point("test.made")
	written := core.Written{Row: row, Shown: t.View()}
	for _, s := range t.Steps {
		written.Steps = append(written.Steps, core.WrittenStep{Step: s.ID, Row: row + s.Title, Shown: core.StepShown{Title: s.Title, Done: s.Done}})
	}
	_, err = b.store.Do(ctx, core.Command{Task: p.Task, At: t0, By: core.Component("otm-injector"), Do: written})
	return err
}

// A process is killed at each point of a delivery. The next one delivers what is left,
// and makes no row twice.
func TestKilled(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "is a walk")
	dir := t.TempDir()
	start := t0
	for _, point := range []string{"outbox.leased", "test.made", "sqlite.commit", "sqlite.committed", "store.done", "outbox.delivered"} {
		for n := 1; n <= 4; n++ {
			kill := fmt.Sprint(point, ":", n)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), dirEnv+"="+dir, killEnv+"="+kill, startEnv+"="+start.Format(time.RFC3339))
			cmd.Stderr = os.Stderr
			err := cmd.Run()
			var ended *exec.ExitError
			killed := errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
			if err != nil && !killed {
				t.Fatalf("%s: the process ended with %v", kill, err)
			}
			start = start.Add(time.Minute) // the leases of the dead have lapsed
			if !killed {
				checkDelivered(t, dir)
				dir = t.TempDir()
			}
		}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), dirEnv+"="+dir, startEnv+"="+start.Format(time.RFC3339))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the last process: %v: %s", err, out)
	}
	checkDelivered(t, dir)
}

func checkDelivered(t *testing.T, dir string) {
	t.Helper()
	s := storetest.OpenIn(t, dir)
	rows, err := os.ReadDir(filepath.Join(dir, "board"))
	if err != nil || len(rows) != processTasks {
		t.Errorf("%d rows were made for %d tasks: %v, %v", len(rows), processTasks, rows, err)
	}
	w := &world{T: t, store: s, dir: dir}
	for id := pipeline.TaskID(1); id <= processTasks; id++ {
		w.checkTitle(id, "build")
	}
	if left, err := s.Pending(context.Background(), ""); err != nil || len(left) > 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
	if found, err := store.Check(context.Background(), s); err != nil || len(found) > 0 {
		t.Errorf("the states differ from the events: %v, %v", found, err)
	}
}
