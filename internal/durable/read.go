package durable

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"otm/internal/crash"
)

// ErrNoFile says that something other than a file has the name of a file.
var ErrNoFile = errors.New("is no regular file")

// ReadFile reads a whole file of ours, also through links. The error matches
// ErrNoFile if it is not a regular file, and fs.ErrNotExist if there is none. It
// does not wait for a pipe.
func ReadFile(path string) ([]byte, error) {
	data, _, err := readAtMost(path, math.MaxInt64, 0)
	return data, err
}

// ReadAtMost is ReadFile for files that others may have made. It reads at most
// limit bytes, follows no link (the error matches ErrNoFile), and returns the
// state of the file when it was read.
func ReadAtMost(path string, limit int64) ([]byte, fs.FileInfo, error) {
	return readAtMost(path, limit, syscall.O_NOFOLLOW)
}

func readAtMost(path string, limit int64, flag int) ([]byte, fs.FileInfo, error) {
	if err := crash.Failed("read", path); err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|flag, 0)
	if errors.Is(err, syscall.ENXIO) || flag != 0 && errors.Is(err, syscall.ELOOP) { // a socket, a link
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: ErrNoFile}
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &fs.PathError{Op: "read", Path: path, Err: ErrNoFile}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, info, err
}

// Stat is os.Stat for files and directories of ours.
func Stat(path string) (fs.FileInfo, error) { return look("stat", path, os.Stat) }

// Lstat is os.Lstat for directories of ours and what they hold.
func Lstat(path string) (fs.FileInfo, error) { return look("lstat", path, os.Lstat) }

// EvalSymlinks is filepath.EvalSymlinks for directories of ours.
func EvalSymlinks(path string) (string, error) {
	return look("resolve", path, filepath.EvalSymlinks)
}

// ReadDir is os.ReadDir for directories of ours.
func ReadDir(dir string) ([]fs.DirEntry, error) { return look("read directory", dir, os.ReadDir) }

func look[T any](step, path string, by func(string) (T, error)) (found T, err error) {
	if err := crash.Failed(step, path); err != nil {
		return found, err
	}
	return by(path)
}
