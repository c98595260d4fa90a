package durable

import (
	"os"

	"otm/internal/crash"
)

// File is an open file of ours. Nothing that is written to it is durable.
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

// Write is os.File.Write.
func (f *File) Write(p []byte) (int, error) {
	if err := crash.Failed("write", f.Name()); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

// WriteAt is os.File.WriteAt.
func (f *File) WriteAt(p []byte, at int64) (int, error) {
	if err := crash.Failed("write", f.Name()); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, at)
}
