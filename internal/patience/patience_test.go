package patience

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"otm/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// long is a deadline that no test reaches on a busy machine.
const long = time.Minute

// TestC46OneHangs: many callers ask for a directory that does not answer. One
// operation hangs, the others do not start, and another directory answers. Once the
// first operation returns, the directory answers again.
func TestC46OneHangs(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	hang, late := make(chan struct{}), make(chan struct{}, 1)
	var begun, refused atomic.Int32
	stuck := func() error { begun.Add(1); <-hang; return nil }
	if err := Do(path, time.Millisecond, func() { late <- struct{}{} }, stuck); !IsSilent(err) {
		t.Fatalf("the first: %v", err)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := Do(path+"/", time.Millisecond, func() { refused.Add(1) }, stuck); !IsSilent(err) {
				t.Errorf("a later one: %v", err)
			}
		})
	}
	all.Wait()
	if begun.Load() != 1 || refused.Load() != 50 {
		t.Errorf("%d operations hang, late was called for %d", begun.Load(), refused.Load())
	}
	if err := Do(t.TempDir(), long, nil, func() error { return nil }); err != nil {
		t.Errorf("another directory: %v", err)
	}
	close(hang)
	<-late
	if n, err := Read(path, long, nil, func() (int, error) { return 5, nil }); n != 5 || err != nil {
		t.Errorf("it answers again: %d, %v", n, err)
	}
}

// TestC46DeadlineOfTheNext: an operation that waits behind a short one gets its turn,
// and the value and the error of an operation reach its caller.
func TestC46DeadlineOfTheNext(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	running, end := make(chan struct{}), make(chan struct{})
	go Do(path, long, nil, func() error { close(running); <-end; return nil })
	<-running
	bad := errors.New("bad disk")
	got := make(chan error, 1)
	go func() {
		n, err := Read(path, long, nil, func() (int, error) { return 7, bad })
		if n != 7 {
			t.Errorf("read %d", n)
		}
		got <- err
	}()
	close(end)
	if err := <-got; !errors.Is(err, bad) {
		t.Error(err)
	}
}

// TestEnds: an operation that ends its goroutine ends its caller's, and the directory
// answers again.
func TestEnds(t *testing.T) {
	t.Parallel()
	path, done := t.TempDir(), make(chan struct{})
	go func() {
		defer close(done)
		Do(path, long, nil, func() error { runtime.Goexit(); return nil })
		t.Error("it went on")
	}()
	<-done
	if err := Do(path, long, nil, func() error { return nil }); err != nil {
		t.Error(err)
	}
}
