//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package board

import (
	"os"

	"otm/internal/durable"
)

// lockDir cannot lock here; running two boards on one directory is on the user.
func lockDir(dir string) (*durable.File, error) { return durable.OpenFile(dir, os.O_RDONLY) }

func unlockDir(d *durable.File) error { return d.Close() }
