package board

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"otm/internal/durable"
)

// lockDir takes an exclusive flock(2) on the directory, so that no two
// committers append to one log. The lock ends with unlockDir or the process.
func lockDir(dir string) (*durable.File, error) {
	d, err := durable.OpenFile(dir, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	err = flock(d, syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return d, nil
	}
	d.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %q", ErrInUse, dir)
	}
	return nil, fmt.Errorf("lock %q: %w", dir, err)
}

// unlockDir gives the lock back. Closing alone is not enough: a child between
// fork and exec still shares the lock.
func unlockDir(d *durable.File) error {
	return errors.Join(flock(d, syscall.LOCK_UN), d.Close())
}

func flock(d *durable.File, how int) error {
	for {
		if err := syscall.Flock(int(d.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
