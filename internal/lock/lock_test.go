package lock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"otm/internal/leak"
)

// hold is set in the environment of this binary where it is to hold the lock
// of that path until its input ends, instead of running tests.
const hold = "OTM_TEST_HOLD"

func TestMain(m *testing.M) {
	path := os.Getenv(hold)
	if path == "" {
		os.Exit(leak.Main(m))
	}
	l, err := Acquire(context.Background(), path, 0)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin)
	l.Release()
}

// patience is how long a lock is waited for that must come free.
const patience = 30 * time.Second

// holding starts a process that holds a lock.
func holding(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hold+"="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the holder said %q, %v", line, err)
	}
	return cmd
}

func acquire(t *testing.T, path string, wait time.Duration) *Lock {
	t.Helper()
	l, err := Acquire(t.Context(), path, wait)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Release() })
	return l
}

// held holds an error against what a lock that is held by a process gives.
func held(t *testing.T, err error, pid int) {
	t.Helper()
	var e *HeldError
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a *HeldError", err)
	}
	if e.PID != pid {
		t.Errorf("the error names process %d, want %d: %v", e.PID, pid, err)
	}
	if pid != 0 && !strings.Contains(err.Error(), fmt.Sprintf("process %d", pid)) {
		t.Errorf("the error says %q, want it to name process %d", err, pid)
	}
}

func TestAcquireMakesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks dir", "a")
	acquire(t, path, 0)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	if dir, err := os.Stat(filepath.Dir(path)); err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", dir.Mode(), err)
	}
	if pid, is := Holder(path); pid != os.Getpid() || !is {
		t.Errorf("Holder = %d, %v; want this process", pid, is)
	}
}

// TestAcquireMakesNoDataDirectory locks in a data directory that has gone.
func TestAcquireMakesNoDataDirectory(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	data := filepath.Join(base, "data")
	_, plain := Acquire(t.Context(), filepath.Join(data, "locks", "a"), time.Second)
	_, in := AcquireIn(t.Context(), data, filepath.Join(data, "locks", "a"), time.Second)
	for _, err := range []error{plain, in} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Acquire: %v, want fs.ErrNotExist", err)
		}
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the data directory was made")
	}
}

func TestReleaseKeepsTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	for range 3 {
		l, err := Acquire(t.Context(), path, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(); err != nil {
			t.Errorf("Release: %v", err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("after Release: %v", err)
		}
	}
	if pid, is := Holder(path); is {
		t.Errorf("Holder = %d, %v; want nobody", pid, is)
	}
	if _, is := Holder(path + ".missing"); is {
		t.Error("Holder of a missing file says that it is held")
	}
	if _, err := os.Stat(path + ".missing"); err == nil {
		t.Error("Holder made the file")
	}
}

func TestHeldWithinOneProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	acquire(t, path, 0)
	_, err := Acquire(t.Context(), path, 0)
	held(t, err, os.Getpid())
	_, err = Acquire(t.Context(), path, 20*time.Millisecond)
	held(t, err, os.Getpid())
	if !strings.Contains(err.Error(), "for more than 20ms") {
		t.Errorf("the error says %q, want it to say how long was waited", err)
	}
}

func TestOneHolderAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	var inside, rounds atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 5 {
				l, err := Acquire(t.Context(), path, patience)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lock at once", n)
				}
				rounds.Add(1)
				inside.Add(-1)
				l.Release()
			}
		})
	}
	wg.Wait()
	if n := rounds.Load(); n != 80 {
		t.Errorf("the lock was held %d times, want 80", n)
	}
}

func TestHeldByAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	holder := holding(t, path)
	_, err := Acquire(t.Context(), path, 0)
	held(t, err, holder.Process.Pid)
	if pid, is := Holder(path); pid != holder.Process.Pid || !is {
		t.Errorf("Holder = %d, %v; want %d", pid, is, holder.Process.Pid)
	}
}

// TestCaseB88KilledHolder kills a holder: its lock is free as soon as it is dead.
func TestCaseB88KilledHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	for range 5 {
		holder := holding(t, path)
		if err := holder.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		holder.Wait()
		l, err := Acquire(t.Context(), path, 0)
		if err != nil {
			t.Fatalf("the lock of a process that was killed: %v", err)
		}
		l.Release()
	}
}

// TestCaseB70StoppedHolder stops a holder: a waiting process learns its pid,
// after the time that it wanted to wait.
func TestCaseB70StoppedHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	holder := holding(t, path)
	if err := holder.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, err := Acquire(t.Context(), path, 50*time.Millisecond)
	held(t, err, holder.Process.Pid)
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	acquire(t, path, patience)
}

// TestCaseB67PIDOfAStranger writes the pid of a living process into a lock
// file that nobody holds: the kernel knows better.
func TestCaseB67PIDOfAStranger(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		fmt.Sprintf("%14d\n", os.Getppid()), fmt.Sprintf("%d\n", os.Getpid()), "1", "no pid\n", "\x00\x00\x00\x00", strings.Repeat("9", 1000), "",
	} {
		path := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, is := Holder(path); is {
			t.Errorf("Holder of a file with %.20q says that it is held", content)
		}
		acquire(t, path, 0)
		if pid, is := Holder(path); pid != os.Getpid() || !is {
			t.Errorf("after a file with %.20q: Holder = %d, %v; want this process", content, pid, is)
		}
	}
}

// TestHolderWithoutPID is about a holder that has not written who it is.
func TestHolderWithoutPID(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	_, err = Acquire(t.Context(), path, 0)
	held(t, err, 0)
	if !strings.Contains(err.Error(), "another process") {
		t.Errorf("the error says %q", err)
	}
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	acquire(t, path, 0)
	stop := errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := Acquire(ctx, path, patience); !errors.Is(err, stop) {
		t.Errorf("Acquire under an ended context: %v, want its cause", err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	go cancel(stop)
	if _, err := Acquire(ctx, path, patience); !errors.Is(err, stop) {
		t.Errorf("Acquire while its context ends: %v, want its cause", err)
	}
	dir := t.TempDir()
	l, err := AcquireIn(t.Context(), dir, filepath.Join(dir, "b"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if err := os.Remove(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := AcquireIn(ctx, dir, filepath.Join(dir, "b"), patience); !errors.Is(err, stop) {
		t.Errorf("AcquireIn under an ended context: %v, want its cause", err)
	}
}

func TestNote(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	l := acquire(t, path, 0)
	if got, err := Note(path); len(got) != 0 || err != nil {
		t.Errorf("the note of a new lock is %q", got)
	}
	for _, note := range []string{`{"next":36}`, "", strings.Repeat("x", 127), `{"next":1000000000}`} {
		if err := l.SetNote([]byte(note)); err != nil {
			t.Fatal(err)
		}
		if got, err := Note(path); string(got) != note || err != nil {
			t.Errorf("Note = %q, want %q", got, note)
		}
		l.Release()
		l = acquire(t, path, 0)
		if got, err := Note(path); string(got) != note || err != nil {
			t.Errorf("the next holder reads the note %q, want %q", got, note)
		}
	}
	if err := l.SetNote(make([]byte, 128)); err == nil {
		t.Error("SetNote of 128 bytes gave no error")
	}
	// Torn: the file ends in the middle of it, or holds NUL bytes.
	if err := os.Truncate(path, 20); err != nil {
		t.Fatal(err)
	}
	if got, err := Note(path); string(got) != `{"nex` || err != nil {
		t.Errorf("the torn note reads %q", got)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if got, err := Note(path); len(got) != 0 || err != nil {
		t.Errorf("the note of NUL bytes reads %q", got)
	}
}

// TestDeletedWhileHeld deletes the file under a holder, and sees that a
// newcomer makes it anew rather than lock a file without a name.
func TestDeletedWhileHeld(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	acquire(t, path, 0)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l := acquire(t, path, 0)
	named, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	locked, err := l.file.Stat()
	if err != nil || !os.SameFile(named, locked) {
		t.Errorf("the newcomer locked a file that the name does not lead to: %v", err)
	}
}

// TestCaseB68DeletedAgainAndAgain deletes the file all the time: AcquireIn has
// one holder nevertheless.
func TestCaseB68DeletedAgainAndAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "locks", "a")
	stop := make(chan struct{})
	var deleter sync.WaitGroup
	deleter.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				os.Remove(path)
			}
		}
	})
	var inside atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 10 {
				l, err := AcquireIn(t.Context(), dir, path, patience)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lock at once", n)
				}
				os.ReadDir(dir) // takes a moment
				inside.Add(-1)
				l.Release()
			}
		})
	}
	wg.Wait()
	close(stop)
	deleter.Wait()
}

func TestAcquireInWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	l, err := AcquireIn(t.Context(), dir, path, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = AcquireIn(t.Context(), dir, path, 0)
	held(t, err, os.Getpid())
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = AcquireIn(t.Context(), dir, path, 20*time.Millisecond)
	held(t, err, 0) // the file that told who was deleted
	if _, is := Holder(path); is {
		t.Error("who did not get the directory kept the file")
	}
	l.Release()
	again, err := AcquireIn(t.Context(), dir, path, 0)
	if err != nil {
		t.Fatalf("after Release: %v", err)
	}
	again.Release()
	if _, err := AcquireIn(t.Context(), filepath.Join(dir, "missing"), path, 0); err == nil {
		t.Error("AcquireIn of a missing directory gave no error")
	}
}

// TestCaseB71Unsupported has the file system refuse locks. It must not be
// parallel: it replaces what all use.
func TestCaseB71Unsupported(t *testing.T) {
	real := flock
	t.Cleanup(func() { flock = real })
	dir := t.TempDir()
	for _, errno := range []syscall.Errno{syscall.ENOLCK, syscall.EBADF, syscall.ENOTSUP, syscall.ENOSYS, syscall.EINVAL, syscall.EOPNOTSUPP} {
		flock = func(int, int) error { return errno }
		l, err := Acquire(t.Context(), filepath.Join(dir, "a"), patience)
		var e *UnsupportedError
		if !errors.As(err, &e) || !errors.Is(err, errno) || l != nil {
			t.Errorf("%v: Acquire = %v, %v; want an *UnsupportedError", errno, l, err)
		}
		// The file may be locked, and the directory not.
		calls := 0
		flock = func(fd, how int) error {
			if calls++; calls == 2 {
				return errno
			}
			return real(fd, how)
		}
		l, err = AcquireIn(t.Context(), dir, filepath.Join(dir, "a"), patience)
		if !errors.As(err, &e) || l != nil {
			t.Errorf("%v: AcquireIn = %v, %v; want an *UnsupportedError", errno, l, err)
		}
		flock = real
		if _, is := Holder(filepath.Join(dir, "a")); is {
			t.Errorf("%v: the file's lock was kept", errno)
		}
	}
	flock = func(int, int) error { return syscall.EIO }
	if _, err := Acquire(t.Context(), filepath.Join(dir, "a"), patience); !errors.Is(err, syscall.EIO) || errors.As(err, new(*UnsupportedError)) {
		t.Errorf("EIO: %v, want the error as it is", err)
	}
}

// TestC17HeldInTurn: if over a hundred processes have the lock in turn, the one
// that has it in the end is not to blame, and the error says so.
func TestC17HeldInTurn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	acquire(t, path, 0)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for pid := 100_001; ; pid++ {
			select {
			case <-done:
				return
			default:
				os.WriteFile(path, fmt.Appendf(nil, "%*d\n", pidWidth-1, pid), 0o600)
			}
		}
	}()
	_, err := Acquire(t.Context(), path, 3*time.Second)
	close(done)
	<-ended
	var e *HeldError
	if !errors.As(err, &e) || e.Holders < 3 || !strings.Contains(err.Error(), fmt.Sprintf("many processes wait for it in turn: at least %d had it in the last 3s", e.Holders)) {
		t.Errorf("it says %v", err)
	}
}

// TestInherited: a lock that was left is held until the child that inherited it has
// ended; one that was released is free at once.
func TestInherited(t *testing.T) {
	t.Parallel()
	for _, leave := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "a")
		l, err := Acquire(t.Context(), path, 0)
		if err != nil {
			t.Fatal(err)
		}
		child := exec.Command("cat")
		child.ExtraFiles = []*os.File{l.File()}
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		if leave {
			err = l.Leave()
		} else {
			err = l.Release()
		}
		if _, is := Holder(path); err != nil || is != leave {
			t.Errorf("left %t: held %t, %v", leave, is, err)
		}
		in.Close()
		if err := child.Wait(); err != nil {
			t.Error(err)
		}
		if _, is := Holder(path); is {
			t.Error("the child has ended, and the lock is held")
		}
	}
}

// TestDeletedWhileWaiting deletes the file, or all lock files, under a holder
// and one that waits: that one gets the lock of the file that has the name then.
// With the data directory, the wait ends.
func TestDeletedWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, doomed := range []string{"data/locks/a", "data/locks", "data"} {
		base := t.TempDir()
		path := filepath.Join(base, "data/locks/a")
		if err := os.Mkdir(filepath.Join(base, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		acquire(t, path, 0)
		got := make(chan *Lock, 1)
		go func() {
			next, err := Acquire(t.Context(), path, patience)
			if doomed == "data" && !errors.Is(err, fs.ErrNotExist) || doomed != "data" && err != nil {
				t.Errorf("%s was deleted: %v", doomed, err)
			}
			got <- next
		}()
		// In one step: a removal file by file could take the new holder's file as well.
		if err := os.Rename(filepath.Join(base, doomed), filepath.Join(base, "deleted")); err != nil {
			t.Fatal(err)
		}
		next := <-got
		if next == nil {
			if _, err := os.Stat(filepath.Join(base, "data")); err == nil {
				t.Error("the data directory was made")
			}
			continue
		}
		if _, err := Acquire(t.Context(), path, 0); !errors.As(err, new(*HeldError)) {
			t.Errorf("%s was deleted: another got the lock as well: %v", doomed, err)
		}
		next.Release()
	}
}

// Several may share a lock; who wants it alone waits for all of them.
func TestShared(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks", "shared")
	var held *HeldError
	one, err := AcquireShared(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	two, err := AcquireShared(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Release(); err != nil {
		t.Error(err)
	}
	if _, err := Acquire(t.Context(), path, 0); !errors.As(err, &held) {
		t.Errorf("a lock that is shared was taken alone: %v", err)
	}
	if err := two.Release(); err != nil {
		t.Error(err)
	}
	alone, err := Acquire(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := AcquireShared(t.Context(), path, 0); !errors.As(err, &held) {
		t.Errorf("a lock that is held alone was shared: %v", err)
	}
	if err := alone.Release(); err != nil {
		t.Error(err)
	}
}
