package durable

import (
	"bytes"
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
	f, info, err := openRegular(path, flag)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, info, err
}

// ReadTail returns the end of a regular file below a root, at most limit bytes. It
// follows no link that leads out of the root, and does not wait for a pipe.
func ReadTail(root, name string, limit int64) ([]byte, error) {
	path := filepath.Join(root, name)
	if err := crash.Failed("read", path); err != nil {
		return nil, err
	}
	in, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	f, err := in.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: ErrNoFile}
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-limit), limit))
}

// openRegular opens a regular file for reading, and returns its state. It does not
// wait for a pipe.
func openRegular(path string, flag int) (*os.File, fs.FileInfo, error) {
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
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: ErrNoFile}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// maxCompared bounds the files that are compared, in bytes.
const maxCompared = 16 << 20

// SameContent reports whether two files hold the same bytes. What cannot be read, is no
// regular file, or is larger than 16 MiB, is like no other.
func SameContent(a, b string) bool {
	infoA, errA := Lstat(a)
	infoB, errB := Lstat(b)
	if errA != nil || errB != nil || infoA.Size() != infoB.Size() || infoA.Size() > maxCompared {
		return false
	}
	dataA, _, errA := ReadAtMost(a, maxCompared)
	dataB, _, errB := ReadAtMost(b, maxCompared)
	return errA == nil && errB == nil && bytes.Equal(dataA, dataB)
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
