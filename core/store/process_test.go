package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/internal/crash"
	"otm/pipeline"
)

// The environment of a process that carries commands out on a store, and prints the ids
// of those that were acknowledged. At the nth passage of the point it kills itself.
const (
	placeEnv = "STORE_TEST_PLACE"   // a directory
	killEnv  = "STORE_TEST_KILL_AT" // point:n; without a point, the nth of all
	soakEnv  = "STORE_TEST_SOAK"    // a number that no other process has: it goes on until it is killed; or archives
)

// archives has the process archive what is due.
const archives = "archives"

const processTasks = 30

func runProcess() error {
	if point, n, ok := strings.Cut(os.Getenv(killEnv), ":"); ok {
		passed := 0
		crash.Hook = func(p string) {
			if p == point || point == "" {
				if passed++; fmt.Sprint(passed) == n {
					syscall.Kill(os.Getpid(), syscall.SIGKILL)
					select {}
				}
			}
		}
	}
	ctx := context.Background()
	s, err := openPlace(ctx, os.Getenv(placeEnv))
	if err != nil {
		return err
	}
	switch soak := os.Getenv(soakEnv); soak {
	case "":
	case archives:
		_, err := Archive(ctx, s, t0.Add(testKeep+2*aDay), testKeep, testProducer)
		return errors.Join(err, s.Close())
	default:
		return runSoak(ctx, s, soak)
	}
	for id := pipeline.TaskID(1); id <= processTasks; id++ {
		if err := carryOut(ctx, s, request(id, fmt.Sprint("d", int(id)))); err != nil {
			return err
		}
	}
	return s.Close()
}

// carryOut carries a command out, prints its id if it was not refused, and settles an
// effect.
func carryOut(ctx context.Context, s *Store, c core.Command) error {
	o, err := s.Do(ctx, c)
	if err != nil {
		return err
	}
	if o[0].Err == nil {
		fmt.Println(c.ID)
	}
	leased, err := s.Lease(ctx, core.SinkRender, strconv.Itoa(os.Getpid()), t0, time.Minute, 1)
	if err != nil {
		return err
	}
	return s.Delivered(ctx, leased...)
}

// runSoak carries out random commands, of which some are refused, without end.
func runSoak(ctx context.Context, s *Store, soak string) error {
	for n := 0; ; n++ {
		id := pipeline.TaskID(1 + rand.IntN(20))
		c := request(id, "")
		switch rand.IntN(6) {
		case 0:
			status := pipeline.Statuses[rand.IntN(len(pipeline.Statuses))]
			c = core.Command{Task: id, At: t0, By: ada, Do: core.Edits{Seen: true, Status: &status}}
		case 1:
			c = retitle(id, fmt.Sprint("title ", n))
		case 2:
			c = handOut(id)
		case 3:
			c = core.Command{Task: id, At: t0, By: core.ByAgent("Dev Das"), Do: core.Report{Drop: "u.json", Dropped: t0, Steps: []string{"1"}, Result: fmt.Sprint(n)}}
		case 4:
			if t, err := s.Task(ctx, id); err == nil {
				c = written(t)
			}
		}
		c.ID = fmt.Sprint("soak-", soak, "-", n)
		if err := carryOut(ctx, s, c); err != nil {
			return err
		}
	}
}

// process runs a process on a store until it ends or is killed, by itself or after some
// time, and returns the ids of the commands that were acknowledged.
func process(t testing.TB, place, kill, soak string, after time.Duration) []string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), placeEnv+"="+place, killEnv+"="+kill, soakEnv+"="+soak)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	var acknowledged []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		acknowledged = append(acknowledged, lines.Text())
		if soak != "" && len(acknowledged) == 1 {
			time.AfterFunc(after, func() { cmd.Process.Kill() })
		}
	}
	err = cmd.Wait()
	var ended *exec.ExitError
	killed := errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if soak == archives && err == nil {
		return []string{archives} // it came to its end
	}
	if killed != (kill != "" || soak != "") || err != nil && !killed {
		t.Errorf("%s: the process ended with %v", kill, err)
	}
	return acknowledged
}

// onEachPlace runs a test on the place of a store in SQLite, and on one in PostgreSQL.
func onEachPlace(t *testing.T, test func(t *testing.T, place string)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, t.TempDir())
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, postgresDir(t))
	})
}

// A process that is killed has lost no command that was acknowledged, and half of none
// is there. The next one sends the same commands, and goes on.
func TestKilled(t *testing.T) {
	onEachPlace(t, func(t *testing.T, place string) {
		commit, committed := "sqlite.commit", "sqlite.committed"
		if _, err := os.Stat(filepath.Join(place, urlFile)); err == nil {
			commit, committed = "store.commit", "store.done"
		}
		for _, kill := range []string{commit + ":3", commit + ":4", committed + ":5", "store.done:1", commit + ":9", committed + ":20", "store.done:30", ""} {
			acknowledged := process(t, place, kill, "", 0)
			s, err := openPlace(t.Context(), place)
			if err != nil {
				t.Fatal(err)
			}
			tasks, err := s.Tasks(t.Context(), core.Filter{})
			if err != nil || len(tasks) < len(acknowledged) {
				t.Errorf("%s: %d tasks of %d are there, %v", kill, len(tasks), len(acknowledged), err)
			}
			check(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Two processes send the same commands to one new store: each is carried out once.
func TestProcesses(t *testing.T) {
	onEachPlace(t, func(t *testing.T, place string) {
		done := make(chan int)
		for range 2 {
			go func() { done <- len(process(t, place, "", "", 0)) }()
		}
		for range 2 {
			if n := <-done; n != processTasks {
				t.Errorf("%d commands were acknowledged", n)
			}
		}
		s := opened(t)(openPlace(t.Context(), place))
		events, err := s.Events(t.Context(), core.EventFilter{})
		if err != nil || len(events) != processTasks {
			t.Errorf("%d events, %v", len(events), err)
		}
		check(t, s)
	})
}

// Two processes at a time carry out random commands and are killed, OTM_SOAK_KILLS
// times. No command that was acknowledged is forgotten, and the states follow from the
// events.
func TestSoakStore(t *testing.T) {
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("OTM_SOAK_KILLS")); err == nil {
		kills = n
	}
	onEachPlace(t, func(t *testing.T, place string) {
		acknowledged := make(chan []string)
		for i := range kills {
			go func() {
				acknowledged <- process(t, place, "", strconv.Itoa(i), time.Duration(rand.IntN(200))*time.Millisecond)
			}()
			if i == 0 {
				continue // the first one has no other beside it
			}
			checkAcknowledged(t, place, <-acknowledged)
		}
		checkAcknowledged(t, place, <-acknowledged)
		s := opened(t)(openPlace(t.Context(), place))
		check(t, s)
		do(t, s, request(999, "after"))
	})
}

func checkAcknowledged(t *testing.T, place string, ids []string) {
	t.Helper()
	s, err := openPlace(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, id := range ids {
		if _, ok, err := s.Did(t.Context(), id); !ok || err != nil {
			t.Errorf("command %s was acknowledged, and is forgotten: %v", id, err)
		}
	}
}
