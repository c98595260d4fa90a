package durable

import (
	"os"

	"otm/internal/crash"
)

// File is an open file of ours. Written bytes are durable once Sync has returned
// nil.
type File struct{ *os.File }

// OpenFile is os.OpenFile for files and directories of ours. A new file has
// FileMode, and its name is not durable.
func OpenFile(path string, flag int) (*File, error) {
	if err := crash.Failed("open", path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, flag, FileMode)
	if err != nil {
		return nil, err
	}
	return &File{f}, nil
}

// Read is os.File.Read.
func (f *File) Read(p []byte) (int, error) { return transfer(f, "read", p, f.File.Read) }

// Write is os.File.Write.
func (f *File) Write(p []byte) (int, error) { return transfer(f, "write", p, f.File.Write) }

// ReadAt is os.File.ReadAt.
func (f *File) ReadAt(p []byte, at int64) (int, error) {
	return transfer(f, "read", p, func(p []byte) (int, error) { return f.File.ReadAt(p, at) })
}

// WriteAt is os.File.WriteAt.
func (f *File) WriteAt(p []byte, at int64) (int, error) {
	return transfer(f, "write", p, func(p []byte) (int, error) { return f.File.WriteAt(p, at) })
}

// Truncate is os.File.Truncate.
func (f *File) Truncate(size int64) error {
	if err := crash.Failed("truncate", f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Sync is os.File.Sync.
func (f *File) Sync() error {
	if err := crash.Failed("sync", f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

func transfer(f *File, step string, p []byte, by func([]byte) (int, error)) (int, error) {
	if err := crash.Failed(step, f.Name()); err != nil {
		return 0, err
	}
	return by(p)
}
