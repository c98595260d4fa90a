package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"otm/internal/durable"
)

// Group is a lock that the children of its holder inherit: it is held until Release,
// or until the holder and all that inherited its file have ended or closed it.
// Holder tells who took it.
type Group struct{ file *durable.File }

// AcquireGroup takes the lock at path, whose directory must exist. It waits up to wait
// for another holder, and then returns a *HeldError, or ctx's cause if ctx ends first.
func AcquireGroup(ctx context.Context, path string, wait time.Duration) (*Group, error) {
	deadline := time.Now().Add(wait)
	file, err := durable.OpenFile(path, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			file.WriteAt(fmt.Appendf(nil, "%*d\n", pidWidth-1, os.Getpid()), 0) // only for people
			return &Group{file}, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			err = supported(path, err)
		case !time.Now().Before(deadline):
			err = &HeldError{Path: path, PID: LastHolder(path), Holders: 1, Waited: wait}
		default:
			err = pause(ctx)
		}
		if err != nil {
			file.Close()
			return nil, err
		}
	}
}

// File is what a child has to inherit.
func (g *Group) File() *os.File { return g.file.File }

// Release releases the lock, also for those that inherited it.
func (g *Group) Release() error {
	return errors.Join(syscall.Flock(int(g.file.Fd()), syscall.LOCK_UN), g.file.Close())
}

// Leave leaves the lock to those that inherited it. It is free when they have ended.
func (g *Group) Leave() error { return g.file.Close() }
