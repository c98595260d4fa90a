package board

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"otm/internal/crash"
	"otm/internal/leak"
)

// The environment of the process that gets killed: it opens the board in
// killDir, adds rows from several goroutines, and prints what was answered.
// With killAt it kills itself when it passes that point for the nth time.
const (
	killDirEnv = "BOARD_TEST_KILL_DIR"
	killAtEnv  = "BOARD_TEST_KILL_AT" // point:n
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDirEnv); dir != "" {
		if err := runVictim(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(leak.Main(m))
}

func runVictim(dir string) error {
	if at := os.Getenv(killAtEnv); at != "" {
		point, n, _ := strings.Cut(at, ":")
		var passed atomic.Int64
		crash.Hook = func(p string) {
			if p == point && fmt.Sprint(passed.Add(1)) == n {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // nothing more happens, also in the other goroutines' eyes
			}
		}
	}
	s, err := Open(Options{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	fmt.Println("opened")
	if _, err := s.Listen(); err != nil {
		return err
	}
	columns := s.columns()
	var out sync.Mutex // whole lines only
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 400 {
				id, err := s.add("", textCell(columns[0].ID, fmt.Sprint("row ", w, " ", i)))
				if err != nil {
					continue
				}
				out.Lock()
				fmt.Println("row", id)
				out.Unlock()
			}
		})
	}
	wg.Wait()
	return nil
}

// killVictim runs a victim until it has printed so many rows, or kills itself,
// and returns the rows it printed.
func killVictim(t *testing.T, dir, at string, rows int) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), killDirEnv+"="+dir, killAtEnv+"="+at)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var acknowledged []string
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "row "); ok {
			acknowledged = append(acknowledged, id)
		}
		if at == "" && len(acknowledged) == rows {
			if err := cmd.Process.Kill(); err != nil { // SIGKILL
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("victim ended with %v: %s", err, stderr.String())
	}
	return acknowledged
}

// checkAfterKill opens the board and looks for every acknowledged row.
func checkAfterKill(t *testing.T, dir string, acknowledged []string) {
	t.Helper()
	s := mustOpen(t, dir)
	err := s.View(func(tx *Tx) error {
		for _, id := range acknowledged {
			if tx.Row(s.ListID(), id) == nil {
				t.Errorf("row %s was answered for and is gone", id)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadEndpoint(dir); err == nil {
		t.Error("the endpoint of the killed process is still there")
	}
	mustAdd(t, s, "after the kill")
	mustClose(t, s)
}

func TestKillWhileWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all []string
	for _, rows := range []int{1, 50, 130, 333} { // the same store is killed again and again
		all = append(all, killVictim(t, dir, "", rows)...)
		checkAfterKill(t, dir, all)
	}
}

// Killed at each point, first and later, the board loses no acknowledged row.
func TestKillAtPoints(t *testing.T) {
	t.Parallel()
	for _, at := range []string{
		"board.listening:1",
		"sqlite.commit:1", "sqlite.commit:2", "sqlite.commit:7",
		"sqlite.committed:1", "sqlite.committed:2", "sqlite.committed:7",
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			checkAfterKill(t, dir, killVictim(t, dir, at, 0))
		})
	}
}

// The same for the import of a former version's rows.
func TestKillWhileImporting(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"sqlite.commit:1", "sqlite.committed:1", "board.imported:1"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			dir := formerDir(t, formerRows(t))
			killVictim(t, dir, at, 0)
			checkAfterKill(t, dir, nil)
			checkImported(t, dir, "after the kill", "step", "task")
		})
	}
}
