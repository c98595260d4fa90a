// Package logx writes the logs of the daemons: one file for each component, one
// line for each event, facts as keys.
//
// Only the resident component writes and rotates its log file.
//
// A log is opened for appending. On rotation the file is renamed first and the
// next line goes into a new one, so that a reader that follows the name
// (tail -F) loses no line. If somebody else renames or removes the file, the
// next line makes it anew.
package logx

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"otm/internal/durable"
)

// Bounds of a log.
const (
	MaxSize  = 10 << 20 // bytes; a larger log is rotated
	MaxFiles = 5        // rotated files that are kept: .1 is the newest
)

// File is a log file that rotates itself. It is safe for use by several
// goroutines of one process.
type File struct {
	path string
	max  int64 // bytes

	mu   sync.Mutex // guards file and size
	file *durable.File
	size int64
}

// OpenFile opens the log at path. It makes the directory of the log if that is
// missing, but no other: a data directory that was moved away stays away.
func OpenFile(path string) (*File, error) {
	f := &File{path: path, max: MaxSize}
	return f, f.open()
}

func (f *File) open() error {
	if err := durable.Mkdir(filepath.Dir(f.path)); err != nil {
		return err
	}
	file, err := durable.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	f.file, f.size = file, info.Size()
	return nil
}

// Write appends one line.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.ready(len(p)); err != nil {
		return 0, err
	}
	n, err := f.file.Write(p)
	f.size += int64(n)
	return n, err
}

// ready makes sure that the open file still has the log's name and has room for
// n bytes.
func (f *File) ready(n int) error {
	if f.file == nil {
		return f.open()
	}
	current := f.isCurrent()
	full := f.size > 0 && f.size+int64(n) > f.max
	if current && !full {
		return nil
	}
	f.file.Close()
	f.file = nil
	if current {
		rotate(f.path)
	}
	return f.open()
}

func (f *File) isCurrent() bool {
	named, err := os.Stat(f.path)
	if err != nil {
		return false
	}
	open, err := f.file.Stat()
	return err == nil && os.SameFile(named, open)
}

// rotate renames the log and makes room for a new one. If a rename fails, the
// log grows on, and no rotated file is overwritten or pushed out by the retries.
func rotate(path string) {
	free := 1
	for free < MaxFiles && stands(numbered(path, free)) {
		free++
	}
	for n := free - 1; n >= 0; n-- {
		if err := durable.RenameVolatile(numbered(path, n), numbered(path, n+1)); err != nil {
			return
		}
	}
}

func stands(path string) bool {
	_, err := durable.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// numbered is the name of the n-th rotated file; 0 is the log itself.
func numbered(path string, n int) string {
	if n == 0 {
		return path
	}
	return path + "." + string(rune('0'+n))
}

// Close closes the file; the next Write opens it again.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// New returns a logger that writes lines of key=value to w. It quotes text that
// could disturb a terminal.
func New(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: utc}))
}

// utc writes times in the form that our files use. A zero time says nothing, and is left
// out.
func utc(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		a.Value = slog.StringValue(a.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	if a.Value.Kind() == slog.KindTime && a.Key != slog.TimeKey {
		if a.Value.Time().IsZero() {
			return slog.Attr{}
		}
		a.Value = slog.StringValue(a.Value.Time().UTC().Format(time.RFC3339))
	}
	return a
}
