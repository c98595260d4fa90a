package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"otm/internal/crash"
)

// ErrNoFile says that something else stands where a file of ours should be.
var ErrNoFile = errors.New("is no regular file")

// ReadFile reads a whole file of ours. Whoever put a pipe in its place is not
// waited for: the error matches ErrNoFile there, as for all that is no regular
// file, at the end of links, and fs.ErrNotExist where there is nothing.
func ReadFile(path string) ([]byte, error) {
	if err := crash.Failed("read", path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrNoFile}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrNoFile}
	}
	return io.ReadAll(f)
}
