// Package durable writes files so that they are whole and still there after
// the power fails.
//
// Functions are durable on return unless their comment says otherwise: a file is
// synced before it gets its name, and its directory after. The promise is that of
// fsync(2); Go's File.Sync issues F_FULLFSYNC on macOS.
//
// Temporary files begin with ".otm-tmp-" and stand in the directory of their
// target, so that no reader takes them for data and a rename never crosses file
// systems. A crash leaves the temporary files of one call behind; RemoveLeftovers
// deletes old ones.
//
// If a name is taken, the functions with New in their names and Move fail, and Replace,
// ReplacePublic and ReplaceVolatile overwrite the file.
//
// BUG: after a failed fsync the kernel may drop the dirty pages and report
// success on the next call. So an error of this package means "state unknown":
// nobody may retry with the same handle. Each call opens its own.
package durable

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"otm/internal/crash"
)

// Modes of everything that OTM makes: for its owner alone.
const (
	FileMode fs.FileMode = 0o600
	DirMode  fs.FileMode = 0o700
)

// publicMode is the mode of the files of ReplacePublic.
const publicMode fs.FileMode = 0o644

// TempPrefix begins the name of every temporary file of this package.
const TempPrefix = ".otm-tmp-"

// WriteNew writes data to a file that must not exist yet. If the name is
// taken, the error matches fs.ErrExist and nothing has changed.
//
//	open(temp, O_EXCL) write fsync close renameat2(NOREPLACE) fsync(dir)
func WriteNew(path string, data []byte) error {
	return writeOne(path, data, FileMode, renameNoReplace)
}

// NewFile is a file for WriteEachNew and WriteAllNew.
type NewFile struct {
	Name string
	Data []byte
}

// WriteEachNew is WriteNew for many files of one directory, with one sync of the
// directory. It returns what came of each.
func WriteEachNew(dir string, files []NewFile) []error {
	return writeEach(dir, files, FileMode, renameNoReplace, false)
}

// WriteAllNew is WriteEachNew where no file has its name until all are written. If a
// name is taken, the error matches fs.ErrExist, and the files before it have their
// names.
func WriteAllNew(dir string, files []NewFile) error {
	return cmp.Or(writeEach(dir, files, FileMode, renameNoReplace, true)...)
}

// Replace writes data to path and replaces a file there in one step: a reader sees
// the old bytes or the new ones, never a mixture and never nothing.
//
//	open(temp, O_EXCL) write fsync close rename fsync(dir)
func Replace(path string, data []byte) error {
	return writeOne(path, data, FileMode, os.Rename)
}

// ReplacePublic is Replace for a file that everybody may read.
func ReplacePublic(path string, data []byte) error {
	return writeOne(path, data, publicMode, os.Rename)
}

// ReplaceVolatile is Replace without the two fsyncs: atomic for other processes,
// but not durable. It is for files that are rebuilt when lost.
func ReplaceVolatile(path string, data []byte) error {
	temp, err := writeTemp(path, data, FileMode, false)
	if err != nil {
		return err
	}
	if err := rename(temp, path, os.Rename); err != nil {
		os.Remove(temp)
		return err
	}
	return nil
}

func writeOne(path string, data []byte, mode fs.FileMode, by func(from, to string) error) error {
	return writeEach(filepath.Dir(path), []NewFile{{filepath.Base(path), data}}, mode, by, true)[0]
}

// writeEach writes files and gives them their names. Together, none has its name until
// all are written, and an error ends all that follow. It opens the directory first, so
// that the kernel cannot report an error on its inode to somebody else before us.
func writeEach(dir string, files []NewFile, mode fs.FileMode, by func(from, to string) error, together bool) []error {
	if len(files) == 0 {
		return nil
	}
	d, err := openDir(dir)
	if err != nil {
		return slices.Repeat([]error{err}, len(files))
	}
	defer d.Close()
	temps, errs := writeTemps(dir, files, mode)
	if together {
		err = cmp.Or(errs...)
	}
	for i, f := range files {
		if errs[i] = cmp.Or(errs[i], err); errs[i] == nil {
			// If we crash here, the files before this one have their names, and the
			// others are temporary files.
			crash.Point("durable.named")
			errs[i] = rename(temps[i], filepath.Join(dir, f.Name), by)
		}
		if errs[i] != nil && temps[i] != "" { // a crash leaves it
			os.Remove(temps[i])
		}
		if together {
			err = errs[i]
		}
	}
	// If we crash here, the files have their names, but a power failure may still
	// take the names away. The caller has not seen a success yet.
	if !slices.Contains(errs, nil) {
		return errs
	}
	if err := syncDir(d); err != nil {
		for i := range errs {
			errs[i] = cmp.Or(errs[i], fmt.Errorf("sync directory %q: %w", dir, err))
		}
	}
	return errs
}

// syncsAtOnce is how many files are synced at a time. The file system commits them
// together.
const syncsAtOnce = 16

// writeTemps writes temporary files and syncs them. It returns their paths, "" where there
// is an error.
func writeTemps(dir string, files []NewFile, mode fs.FileMode) (temps []string, errs []error) {
	temps, errs = make([]string, len(files)), make([]error, len(files))
	write := func(i int) {
		temps[i], errs[i] = writeTemp(filepath.Join(dir, files[i].Name), files[i].Data, mode, true)
	}
	if len(files) == 1 {
		write(0)
		return temps, errs
	}
	var next atomic.Int32
	var writers sync.WaitGroup
	for range min(syncsAtOnce, len(files)) {
		writers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(files); i = int(next.Add(1)) - 1 {
				write(i)
			}
		})
	}
	writers.Wait()
	return temps, errs
}

// Move renames a file within a file system. If the new name is taken, the error
// matches fs.ErrExist. Both directories are synced, the target's first: after a
// crash between the two, the file may have both names, never none.
func Move(from, to string) error {
	if err := rename(from, to, renameNoReplace); err != nil {
		return err
	}
	if err := SyncDir(filepath.Dir(to)); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(from))
}

// RenameVolatile renames a file within a file system and replaces a file of that
// name. It is not durable.
func RenameVolatile(from, to string) error { return rename(from, to, os.Rename) }

// Remove deletes a file. It is not durable: after a power failure the file may be
// back.
func Remove(path string) error {
	if err := crash.Failed("remove", path); err != nil {
		return err
	}
	return os.Remove(path)
}

func writeTemp(path string, data []byte, mode fs.FileMode, sync bool) (string, error) {
	if err := crash.Failed("create", path); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(path), TempPrefix+"*") // with FileMode less the umask
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

// SyncDir makes added and removed names in dir durable.
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
		err = d.Sync()
	}
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// rename renames a file by the given function.
func rename(from, to string, by func(from, to string) error) error {
	if err := crash.Failed("rename", to); err != nil {
		return err
	}
	if err := by(from, to); err != nil {
		return err
	}
	return crash.Failed("renamed", to)
}

// linkNoReplace renames a file by link(2), which never replaces, and unlink(2). If
// we crash between the two, the file has both names; the old one is a temporary
// or an inbox name and is handled again.
func linkNoReplace(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}

// MkdirAll is Mkdir for dir and its missing parents. It is for directories outside
// the data directory and for otm init: other callers use Mkdir, so that a data
// directory that is gone stays gone.
func MkdirAll(dir string) error {
	if err := Mkdir(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := MkdirAll(filepath.Dir(dir)); err != nil {
		return err
	}
	return Mkdir(dir)
}

// Mkdir makes the directory dir with mode DirMode, unless it exists, and syncs its
// parent. If the parent is missing, the error matches fs.ErrNotExist; if something
// else has the name, also a dangling link, it is ENOTDIR.
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
		// Somebody else made it just now, or it is a dangling link.
		if info, err := Stat(dir); err != nil || !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
	} else if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(dir))
}

// Leftovers returns the paths of the temporary files of this package in dir that have
// not changed for the given age. Files of a running writer are younger.
func Leftovers(dir string, olderThan time.Duration, now time.Time) (paths []string, err error) {
	entries, err := ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), TempPrefix) {
			continue
		}
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) >= olderThan {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

// RemoveLeftovers deletes the Leftovers in dir, and returns how many. It is not durable.
func RemoveLeftovers(dir string, olderThan time.Duration, now time.Time) (removed int, err error) {
	paths, err := Leftovers(dir, olderThan, now)
	for _, path := range paths {
		if Remove(path) == nil {
			removed++
		}
	}
	return removed, err
}

// keptAside is how many copies of one damaged file are kept, the newest.
const keptAside = 5

// SetAside moves a damaged file out of the way and returns its new path: its own
// with .corrupt- and stamp, or stamp-2 and so on if that is taken. Stamps sort by their
// time. It is durable on return. Equal bytes are kept once: if a copy has those of the
// file, the file is removed, and that copy's path is returned. Only the newest few copies
// are kept.
func SetAside(path, stamp string) (string, error) {
	dir, prefix := filepath.Dir(path), filepath.Base(path)+".corrupt-"
	entries, err := ReadDir(dir) // in the order of names
	if err != nil {
		return "", err
	}
	var copies []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !e.Type().IsRegular() {
			continue
		}
		copies = append(copies, filepath.Join(dir, e.Name()))
		if c := copies[len(copies)-1]; SameContent(path, c) {
			return c, Remove(path)
		}
	}
	aside := filepath.Join(dir, prefix+stamp)
	err = Move(path, aside)
	for n := 2; errors.Is(err, fs.ErrExist); n++ {
		aside = filepath.Join(dir, fmt.Sprintf("%s%s-%d", prefix, stamp, n))
		err = Move(path, aside)
	}
	if err != nil {
		return "", err
	}
	for _, c := range copies[:max(0, len(copies)+1-keptAside)] {
		if err := Remove(c); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return aside, err
		}
	}
	return aside, nil
}

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
