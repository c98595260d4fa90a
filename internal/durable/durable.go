// Package durable writes files so that they are whole and still there after
// the power fails.
//
// A function that returns nil has made its effect durable, but for those that
// say that they have not: the bytes are synced to
// the file before the file gets its name, and the directory is synced after.
// What is promised is what fsync(2) promises; Go's File.Sync issues
// F_FULLFSYNC on macOS.
//
// Temporary files begin with ".otm-tmp-" and live in the directory of their
// target, so that no reader takes them for data and a rename never crosses
// file systems. A crash leaves those of the call behind that it ended: one, of
// WriteAllNew one a file. RemoveLeftovers deletes those that are old.
//
// The writers differ in what they do to a name that is taken, and are named
// for it: WriteNew, WriteAllNew and Move refuse, Replace, ReplacePublic and
// ReplaceVolatile overwrite.
//
// BUG: after a failed fsync the kernel may drop the dirty pages and report
// success on the next call. An error of this package therefore means "state
// unknown": callers must not retry with the same handle, and none does, as
// each call opens its own.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"otm/internal/crash"
)

// Modes of everything OTM makes: readable by its owner alone.
const (
	FileMode fs.FileMode = 0o600
	DirMode  fs.FileMode = 0o700
)

// publicMode is that of the files of ReplacePublic.
const publicMode fs.FileMode = 0o644

// TempPrefix begins the name of every temporary file of this package.
const TempPrefix = ".otm-tmp-"

// WriteNew writes data to a file that must not exist yet. If the name is
// taken, the error matches fs.ErrExist and nothing has changed.
//
//	open(temp, O_EXCL) write fsync close renameat2(NOREPLACE) fsync(dir)
func WriteNew(path string, data []byte) error {
	return withTemp(path, data, FileMode, func(temp string) error { return rename(temp, path, renameNoReplace) })
}

// NewFile is a file for WriteAllNew.
type NewFile struct {
	Name string
	Data []byte
}

// WriteAllNew is WriteNew for many files of one directory, with one sync of
// it. Until all are written, none has its name; if a name is taken, the error
// matches fs.ErrExist and those before it have theirs.
func WriteAllNew(dir string, files []NewFile) error {
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	temps := make([]string, 0, len(files))
	named := 0
	defer func() {
		for _, temp := range temps[named:] {
			os.Remove(temp)
		}
	}()
	for _, f := range files {
		temp, err := writeTemp(filepath.Join(dir, f.Name), f.Data, FileMode, true)
		if err != nil {
			return err
		}
		temps = append(temps, temp)
	}
	for _, f := range files {
		// If we crash here, the files before this one have their names, and
		// only temporary files are left of the others.
		crash.Point("durable.named")
		if err := rename(temps[named], filepath.Join(dir, f.Name), renameNoReplace); err != nil {
			return err
		}
		named++
	}
	if err := syncDir(d); err != nil {
		return fmt.Errorf("sync directory %q: %w", dir, err)
	}
	return nil
}

// Replace writes data to path, replacing what was there in one step: a reader
// sees the old bytes or the new ones, never a mixture and never nothing.
//
//	open(temp, O_EXCL) write fsync close rename fsync(dir)
func Replace(path string, data []byte) error {
	return withTemp(path, data, FileMode, func(temp string) error { return RenameVolatile(temp, path) })
}

// ReplacePublic is Replace for a file that everybody may read.
func ReplacePublic(path string, data []byte) error {
	return withTemp(path, data, publicMode, func(temp string) error { return RenameVolatile(temp, path) })
}

// ReplaceVolatile is Replace without the two fsyncs: atomic for other
// processes, but not durable. It is for files that are rebuilt when lost.
func ReplaceVolatile(path string, data []byte) error {
	temp, err := writeTemp(path, data, FileMode, false)
	if err != nil {
		return err
	}
	if err := RenameVolatile(temp, path); err != nil {
		os.Remove(temp)
		return err
	}
	return nil
}

// Move gives a file another name in the same file system; the new name must
// be free, else the error matches fs.ErrExist. Both directories are synced,
// the target's first: if we crash between the two, the file may show under
// both names, never under none.
func Move(from, to string) error {
	if err := rename(from, to, renameNoReplace); err != nil {
		return err
	}
	if err := SyncDir(filepath.Dir(to)); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(from))
}

// RenameVolatile gives a file another name in the same file system, in place of
// what has it, and is not durable.
func RenameVolatile(from, to string) error { return rename(from, to, os.Rename) }

// Remove deletes a file. It is not durable: after a power failure the file may
// be back.
func Remove(path string) error {
	if err := crash.Failed("remove", path); err != nil {
		return err
	}
	return os.Remove(path)
}

// withTemp brackets the naming of a synced temporary file between opening the
// directory and syncing it. The directory is opened first, so that an error on
// its inode cannot be reported to somebody else before we look.
func withTemp(path string, data []byte, mode fs.FileMode, name func(temp string) error) error {
	dir, err := openDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	temp, err := writeTemp(path, data, mode, true)
	if err != nil {
		return err
	}
	// If we crash here, only the temporary file is left.
	crash.Point("durable.named")
	if err := name(temp); err != nil {
		os.Remove(temp)
		return err
	}
	// If we crash here, the file has its name, but a power failure may still
	// take the name away: whoever called has not been told of success yet.
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("sync directory of %q: %w", path, err)
	}
	return nil
}

func writeTemp(path string, data []byte, mode fs.FileMode, sync bool) (string, error) {
	if err := crash.Failed("create", path); err != nil {
		return "", err
	}
	f, err := createTemp(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	temp := f.Name()
	if err = crash.Failed("write", path); err == nil {
		_, err = f.Write(data)
	}
	if err == nil && mode != FileMode {
		err = f.Chmod(mode)
	}
	if err == nil && sync {
		if err = crash.Failed("sync", path); err == nil {
			err = f.Sync()
		}
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(temp)
		return "", err
	}
	return temp, nil
}

// createTemp opens a new temporary file with mode FileMode, less what the umask
// takes.
func createTemp(dir string) (*os.File, error) {
	return os.CreateTemp(dir, TempPrefix+"*")
}

// SyncDir makes the names in dir durable: those added, and those removed.
func SyncDir(dir string) error {
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return syncDir(d)
}

func openDir(dir string) (*File, error) { return OpenFile(dir, os.O_RDONLY) }

// syncDir syncs an open directory. Some file systems, many of FUSE among them,
// cannot sync a directory and answer EINVAL or ENOTSUP (fsync(2)): there the
// name is as durable as they make it, and that is no reason to stop.
func syncDir(d *File) error {
	err := crash.Failed("sync directory", d.Name())
	if err == nil {
		err = d.File.Sync()
	}
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// rename gives a file its name by the function, which may refuse one that is
// taken.
func rename(from, to string, by func(from, to string) error) error {
	if err := crash.Failed("rename", to); err != nil {
		return err
	}
	if err := by(from, to); err != nil {
		return err
	}
	return crash.Failed("renamed", to)
}

// MkdirAll is Mkdir for dir and its missing parents. It is for what lies
// outside of the data directory, and for making that one: what works inside
// uses Mkdir, so that a data directory that has gone stays gone.
func MkdirAll(dir string) error {
	if err := Mkdir(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := MkdirAll(filepath.Dir(dir)); err != nil {
		return err
	}
	return Mkdir(dir)
}

// MkdirBelow is MkdirAll for a directory that may lie in root, the data
// directory: it never makes root itself, so that a data directory that was
// moved away does not come back. If root is gone, the error matches
// fs.ErrNotExist.
func MkdirBelow(root, dir string) error {
	below, err := filepath.Rel(root, dir)
	if err != nil || !filepath.IsLocal(below) {
		return MkdirAll(dir)
	}
	path := root
	for part := range strings.SplitSeq(below, string(filepath.Separator)) {
		path = filepath.Join(path, part)
		if err := Mkdir(path); err != nil {
			return err
		}
	}
	return nil
}

// Mkdir makes the directory dir with mode DirMode unless it is there, and
// syncs its parent, which must be there: else the error matches
// fs.ErrNotExist. What is in the way and is no directory is ENOTDIR, also a
// link that leads nowhere.
func Mkdir(dir string) error {
	switch info, err := Stat(dir); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := crash.Failed("make directory", dir); err != nil {
		return err
	}
	err := os.Mkdir(dir, DirMode)
	if errors.Is(err, fs.ErrExist) {
		// Somebody else made it just now, or a link that leads nowhere is in
		// the way.
		if info, err := Stat(dir); err != nil || !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
	} else if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(dir))
}

// RemoveLeftovers deletes the temporary files of this package in dir that
// have not changed for the given age, and says how many. Those of a writer
// that still runs are younger. What it deletes may be back after a power
// failure, to be deleted again.
func RemoveLeftovers(dir string, olderThan time.Duration, now time.Time) (int, error) {
	entries, err := ReadDir(dir)
	if err != nil {
		return 0, err
	}
	removed := 0
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), TempPrefix) {
			continue
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || now.Sub(info.ModTime()) < olderThan {
			continue
		}
		if Remove(filepath.Join(dir, e.Name())) == nil {
			removed++
		}
	}
	return removed, nil
}
