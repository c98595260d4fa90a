package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"otm/internal/crash"
	"otm/internal/leak"
)

// The environment of a process that adds rows to the database of a test, and
// prints each that was acknowledged. Its rows begin with writerEnv. With killEnv it
// kills itself when it passes that point for the nth time.
const (
	pathEnv   = "SQLITE_TEST_PATH"
	writerEnv = "SQLITE_TEST_WRITER"
	killEnv   = "SQLITE_TEST_KILL_AT" // point:n
)

func TestMain(m *testing.M) {
	if path := os.Getenv(pathEnv); path != "" {
		if err := runWriter(path, os.Getenv(writerEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(leak.Main(m))
}

// writerRows is how many rows a writer adds with each of its goroutines.
const writerRows, writerGoroutines = 100, 4

func runWriter(path, writer string) error {
	if point, n, ok := strings.Cut(os.Getenv(killEnv), ":"); ok {
		var passed atomic.Int64
		crash.Hook = func(p string) {
			if p == point && fmt.Sprint(passed.Add(1)) == n {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // nothing more happens, also in the other goroutines' eyes
			}
		}
	}
	d, err := Open(context.Background(), path, Options{BusyTimeout: time.Minute})
	if err != nil {
		return err
	}
	errs := make(chan error, writerGoroutines)
	var out sync.Mutex // whole lines only
	for g := range writerGoroutines {
		go func() {
			for i := range writerRows {
				id := fmt.Sprintf("%s-%d-%d", writer, g, i)
				if err := add(context.Background(), d, id, ""); err != nil {
					errs <- err
					return
				}
				out.Lock()
				fmt.Println(id)
				out.Unlock()
			}
			errs <- nil
		}()
	}
	for range writerGoroutines {
		if err := <-errs; err != nil {
			return err
		}
	}
	if os.Getenv(killEnv) == untilKilled {
		io.Copy(io.Discard, os.Stdin) // it ends with its parent
	}
	return d.Close()
}

// untilKilled is a kill that a writer waits for.
const untilKilled = "outside"

// start starts a writer, and returns it with what it prints.
func start(t *testing.T, path, writer, kill string) (*exec.Cmd, *bufio.Scanner, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), pathEnv+"="+path, writerEnv+"="+writer, killEnv+"="+kill)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if _, err := cmd.StdinPipe(); err != nil { // open until it has ended
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(stdout), &stderr
}

// TestProcesses: two processes and this one write at once, and another reads the
// files themselves, as a backup program does. Nobody fails, and no row is lost.
// With locks of the process (not of the open file), the reader would drop the
// locks of this process.
func TestProcesses(t *testing.T) {
	t.Parallel()
	path := name(t)
	d := mustOpen(t, path, Options{})
	makeRows(t, d)
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				readFiles(path)
			}
		}
	})
	var wg sync.WaitGroup
	for _, writer := range []string{"one", "two"} {
		cmd, lines, stderr := start(t, path, writer, "")
		wg.Go(func() {
			for lines.Scan() {
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("writer %s: %v: %s", writer, err, stderr)
			}
		})
	}
	for i := range writerRows {
		// The locks of this process are held while it reads the files.
		err := d.Write(t.Context(), func(tx *Tx) error {
			readFiles(path)
			return insert(tx, fmt.Sprint("three-", i), "")
		})
		if err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	close(stop)
	reader.Wait()
	got := strings.Fields(ids(t, d))
	if want := (2*writerGoroutines + 1) * writerRows; len(got) != want {
		t.Errorf("%d rows of %d are there", len(got), want)
	}
}

// readFiles opens, reads and closes the database's files.
func readFiles(path string) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		f, err := os.Open(path + suffix)
		if err != nil {
			continue // no -wal yet
		}
		io.Copy(io.Discard, f)
		f.Close()
	}
}

// killed runs a writer until it has printed so many rows, or kills itself, and
// returns what it has printed.
func killed(t *testing.T, path, writer, kill string, rows int) (acknowledged []string) {
	t.Helper()
	cmd, lines, stderr := start(t, path, writer, kill)
	for lines.Scan() {
		acknowledged = append(acknowledged, lines.Text())
		if kill == untilKilled && len(acknowledged) == rows {
			if err := cmd.Process.Kill(); err != nil { // SIGKILL
				t.Fatal(err)
			}
		}
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the writer ended with %v: %s", err, stderr)
	}
	return acknowledged
}

// TestKill: no acknowledged row is lost when the writer is killed.
func TestKill(t *testing.T) {
	t.Parallel()
	path := name(t)
	d := mustOpen(t, path, Options{})
	makeRows(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	var all []string
	for i, rows := range []int{1, 30, 100, 200} { // the same database is killed again and again
		all = append(all, killed(t, path, fmt.Sprint("n", i), untilKilled, rows)...)
	}
	for _, point := range []string{"sqlite.commit:1", "sqlite.commit:9", "sqlite.committed:1", "sqlite.committed:9"} {
		all = append(all, killed(t, path, point, point, 0)...)
	}
	d = mustOpen(t, path, Options{})
	there := make(map[string]bool)
	for _, id := range strings.Fields(ids(t, d)) {
		there[id] = true
	}
	for _, id := range all {
		if !there[id] {
			t.Errorf("row %s was acknowledged and is gone", id)
		}
	}
	if err := add(t.Context(), d, "after", ""); err != nil {
		t.Error(err)
	}
}
