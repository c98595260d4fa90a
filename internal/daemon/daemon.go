// Package daemon has what a resident process needs: signals, and loops that run
// side by side.
package daemon

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// ErrStop is the cause with which a context ends on SIGINT or SIGTERM.
var ErrStop = errors.New("told to stop")

// Signals returns a context that ends at the first SIGINT or SIGTERM. At the
// second, the process exits at once, which is safe at any point.
func Signals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-ch:
				if ctx.Err() != nil {
					os.Exit(130)
				}
				cancel(ErrStop)
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(ch)
		close(done)
		cancel(ErrStop)
	})
}

// Group runs loops side by side. When one returns, the others are stopped.
type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu  sync.Mutex // guards err
	err error
}

// NewGroup returns a group whose loops end with ctx.
func NewGroup(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// Go starts a loop. It must return soon after its context ends.
func (g *Group) Go(loop func(context.Context) error) {
	g.wg.Go(func() {
		err := loop(g.ctx)
		g.mu.Lock()
		if g.err == nil && err != nil && !errors.Is(err, ErrStop) && !errors.Is(err, context.Canceled) {
			g.err = err
		}
		g.mu.Unlock()
		g.cancel(ErrStop)
	})
}

// Wait waits for all loops and returns the first error other than a stop.
func (g *Group) Wait() error {
	g.wg.Wait()
	return g.err
}
