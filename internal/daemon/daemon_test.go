package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"otm/internal/leak"
)

// act is set in the environment of this binary where it is to be a daemon that
// does not stop when told to, instead of running tests.
const act = "OTM_TEST_DAEMON"

func TestMain(m *testing.M) {
	if os.Getenv(act) == "" {
		os.Exit(leak.Main(m))
	}
	ctx, stop := Signals(context.Background())
	defer stop()
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println(context.Cause(ctx))
	io.Copy(io.Discard, os.Stdin) // until the test ends
	os.Exit(1)
}

// TestSignals tells a daemon to stop, once, and once more.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), act+"=1")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for _, want := range []string{"ready", "told to stop"} {
			if !lines.Scan() || lines.Text() != want {
				t.Fatalf("%v: the daemon said %q, want %q", sig, lines.Text(), want)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
		err = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("%v twice: exit code %d, %v; want 130", sig, code, err)
		}
	}
}

func TestSignalsStop(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancel(t.Context())
	ctx, stop := Signals(parent)
	stop()
	stop() // harmless
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), ErrStop) {
		t.Errorf("the cause is %v, want ErrStop", context.Cause(ctx))
	}
	ctx, stop = Signals(parent)
	defer stop()
	cancel()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Errorf("the cause is %v, want the parent's", context.Cause(ctx))
	}
}

func TestGroup(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	untilStopped := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	tests := []struct {
		name  string
		loops []func(context.Context) error
		want  error
	}{
		{"none", nil, nil},
		{"one that ends", []func(context.Context) error{func(context.Context) error { return nil }}, nil},
		{"one that ends stops the others", []func(context.Context) error{untilStopped, func(context.Context) error { return nil }, untilStopped}, nil},
		{"one that breaks", []func(context.Context) error{untilStopped, func(context.Context) error { return broken }}, broken},
		{"being stopped is no error", []func(context.Context) error{func(context.Context) error { return fmt.Errorf("sweep: %w", ErrStop) }}, nil},
		{"nor is being cancelled", []func(context.Context) error{func(context.Context) error { return fmt.Errorf("sweep: %w", context.Canceled) }}, nil},
		{"one that breaks while it is stopped", []func(context.Context) error{
			func(context.Context) error { return nil },
			func(ctx context.Context) error { <-ctx.Done(); return broken },
		}, broken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := NewGroup(t.Context())
			for _, loop := range tt.loops {
				g.Go(loop)
			}
			if err := g.Wait(); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
				t.Errorf("Wait = %v, want %v", err, tt.want)
			}
		})
	}
}

// TestGroupEndsWithItsContext gives every loop the cause of the end.
func TestGroupEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	g := NewGroup(ctx)
	causes := make(chan error, 2)
	for range 2 {
		g.Go(func(ctx context.Context) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		})
	}
	cancel(ErrStop)
	if err := g.Wait(); err != nil {
		t.Errorf("Wait = %v, want nil", err)
	}
	for range 2 {
		if err := <-causes; !errors.Is(err, ErrStop) {
			t.Errorf("a loop saw the cause %v, want ErrStop", err)
		}
	}
}

// TestGroupKeepsTheFirstError has a second one come later.
func TestGroupKeepsTheFirstError(t *testing.T) {
	t.Parallel()
	first, second := errors.New("first"), errors.New("second")
	g := NewGroup(t.Context())
	g.Go(func(context.Context) error { return first })
	g.Go(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Error("the group was not stopped")
		}
		return second
	})
	if err := g.Wait(); !errors.Is(err, first) {
		t.Errorf("Wait = %v, want the first error", err)
	}
}
