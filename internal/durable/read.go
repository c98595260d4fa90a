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

// SameContent reports whether two files hold the same bytes. It compares their sizes
// first, and holds little of them in memory. What is no regular file, may not be
// read, has gone, or is larger than limit bytes, is like no other.
func SameContent(a, b string, limit int64) (bool, error) {
	var files [2]*os.File
	var sizes [2]int64
	for i, path := range []string{a, b} {
		f, info, err := openRegular(path, syscall.O_NOFOLLOW)
		if errors.Is(err, ErrNoFile) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		defer f.Close()
		files[i], sizes[i] = f, info.Size()
	}
	if sizes[0] != sizes[1] || sizes[0] > limit {
		return false, nil
	}
	return sameBytes(io.LimitReader(files[0], limit), io.LimitReader(files[1], limit))
}

func sameBytes(a, b io.Reader) (bool, error) {
	var chunks [2][32 << 10]byte
	for {
		n, errA := io.ReadFull(a, chunks[0][:])
		m, errB := io.ReadFull(b, chunks[1][:])
		for _, err := range []error{errA, errB} {
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				return false, err
			}
		}
		if !bytes.Equal(chunks[0][:n], chunks[1][:m]) {
			return false, nil
		}
		if errA != nil || errB != nil {
			return errA == errB, nil
		}
	}
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
