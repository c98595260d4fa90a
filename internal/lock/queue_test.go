package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// wanting waits until so many goroutines of this process wait for a lock.
func wanting(t *testing.T, path string, n int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		queues.Lock()
		q := queues.of[path]
		have := -1 // nobody waits in the kernel either
		if q != nil {
			have = len(q.wants)
		}
		queues.Unlock()
		if have == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d wait for the lock, want %d", have, n)
		}
	}
}

// TestWaitingDoesNotLook: a waiting caller tries to lock once and is woken when
// it comes free. Sixty-four that looked again and again kept each other from
// their work. It must not be parallel: it replaces what all use.
func TestWaitingDoesNotLook(t *testing.T) {
	real := tryLock
	t.Cleanup(func() { tryLock = real })
	path := filepath.Join(t.TempDir(), "a")
	l := acquire(t, path, 0)
	var looks atomic.Int32
	tryLock = func(fl *flock.Flock) (bool, error) {
		looks.Add(1)
		return real(fl)
	}
	got := make(chan error, 1)
	go func() {
		next, err := Acquire(t.Context(), path, patience)
		if err == nil {
			err = next.Release()
		}
		got <- err
	}()
	_, err := Acquire(t.Context(), path, 100*time.Millisecond) // so long, the other one waits
	held(t, err, os.Getpid())
	l.Release()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if n := looks.Load(); n != 2 {
		t.Errorf("two that waited looked %d times, want once each", n)
	}
}

// TestC17HeldInTurn: if over a hundred processes have the lock in turn, the one
// that has it in the end is not to blame, and the error says so.
func TestC17HeldInTurn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	acquire(t, path, 0)
	turn := func(pid int) {
		if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			fmt.Fprintf(f, "%*d\n", pidWidth-1, pid)
			f.Close()
		}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for pid := 100_001; ; pid++ {
			select {
			case <-done:
				return
			default:
				turn(pid)
			}
		}
	}()
	_, err := Acquire(t.Context(), path, 3*time.Second) // 30 looks, of which one has to come
	close(done)
	<-ended
	var e *HeldError
	if !errors.As(err, &e) || e.Holders < 3 || !strings.Contains(err.Error(), fmt.Sprintf("many processes wait for it in turn: at least %d had it in the last 3s", e.Holders)) {
		t.Errorf("it says %v", err)
	}
}

// TestGivingUp gives up again and again: one wait in the kernel is left behind,
// however often, and it keeps the lock from nobody.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	holder := holding(t, path)
	for range 5 {
		_, err := Acquire(t.Context(), path, time.Millisecond)
		held(t, err, holder.Process.Pid)
	}
	wanting(t, path, 0)
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Either the wait that was left behind gets the lock for us, or we are faster. Then
	// it gets the lock after us and ends.
	acquire(t, path, patience).Release()
	wanting(t, path, -1)
}

// TestLeftBehindServesTheNext: the wait that somebody left behind in the kernel
// gets the lock for the next caller.
func TestLeftBehindServesTheNext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	l := acquire(t, path, 0)
	_, err := Acquire(t.Context(), path, time.Millisecond)
	held(t, err, os.Getpid())
	wanting(t, path, 0)
	order := make(chan int, 3)
	for i := range 3 {
		go func() {
			next, err := Acquire(t.Context(), path, patience)
			order <- i
			if err != nil {
				t.Error(err)
				return
			}
			next.Release()
		}()
		wanting(t, path, i+1)
	}
	l.Release()
	for want := range 3 {
		if got := <-order; got != want {
			t.Errorf("number %d got the lock, want number %d: they asked in turn", got, want)
		}
	}
}

// TestDeletedWhileWaiting deletes the file, or all lock files, under a holder
// and one that waits: that one gets the lock of the file that has the name then.
func TestDeletedWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"the file", "its directory"} {
		dir := filepath.Join(t.TempDir(), "locks")
		path := filepath.Join(dir, "a")
		l := acquire(t, path, 0)
		got := make(chan *Lock, 1)
		go func() {
			next, err := Acquire(t.Context(), path, patience)
			if err != nil {
				t.Error(err)
			}
			got <- next
		}()
		wanting(t, path, 1)
		doomed := path
		if what == "its directory" {
			doomed = dir
		}
		if err := os.RemoveAll(doomed); err != nil {
			t.Fatal(err)
		}
		l.Release()
		next := <-got
		if next == nil {
			t.Fatalf("%s was deleted: no lock", what)
		}
		if _, err := Acquire(t.Context(), path, 0); !errors.As(err, new(*HeldError)) {
			t.Errorf("%s was deleted: another got the lock as well: %v", what, err)
		}
		next.Release()
	}
}

// TestDataDirectoryGoneWhileWaiting: with the data directory, a wait ends.
func TestDataDirectoryGoneWhileWaiting(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(data, "locks", "a")
	l := acquire(t, path, 0)
	got := make(chan error, 1)
	go func() {
		_, err := Acquire(t.Context(), path, patience)
		got <- err
	}()
	wanting(t, path, 1)
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	l.Release()
	if err := <-got; !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Acquire: %v, want fs.ErrNotExist", err)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the data directory was made")
	}
}

// answering is a context that ends in the very moment in which a wait is answered.
type answering struct {
	context.Context
	answer func()
}

func (a answering) Done() <-chan struct{} {
	a.answer()
	done := make(chan struct{})
	close(done)
	return done
}

func (answering) Err() error { return context.Canceled }

// TestAnsweredWhileGivingUp: a lock that comes in the moment in which somebody gives
// up is his. Which of the two he sees first is a matter of luck.
func TestAnsweredWhileGivingUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	for range 30 {
		q := &queue{path: path} // which nobody serves but the test
		queues.Lock()
		queues.of[path] = q
		queues.Unlock()
		ctx := answering{t.Context(), func() {
			l, err := try(path)
			if err != nil || l == nil {
				t.Errorf("try = %v, %v", l, err)
			}
			q.answer(l, err)
			q.wanted() // and it is over
		}}
		l, err := await(ctx, path, patience)
		if err != nil || l == nil {
			t.Fatalf("await = %v, %v", l, err)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	}
	// He was answered, and others wait still; then they have given up as well.
	q := &queue{path: path}
	queues.Lock()
	queues.of[path] = q
	queues.Unlock()
	if leave(path, make(chan acquired)) {
		t.Error("it left a queue in which it was not")
	}
	l, err := try(path)
	if err != nil || l == nil {
		t.Fatalf("try = %v, %v", l, err)
	}
	q.answer(l, nil)
	if q.wanted() {
		t.Error("it is wanted")
	}
	if _, held := Holder(path); held {
		t.Error("nobody wanted it, and it was kept")
	}
}

// TestWaitFails: what keeps the kernel from waiting is told.
func TestWaitFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	if err := os.Symlink(path, path); err != nil {
		t.Fatal(err)
	}
	if l, err := await(t.Context(), path, patience); !errors.Is(err, syscall.ELOOP) || l != nil {
		t.Errorf("await = %v, %v", l, err)
	}
	if l, err := block(path + ".gone"); l != nil || err != nil { // it is made anew
		t.Errorf("block = %v, %v", l, err)
	}
}
