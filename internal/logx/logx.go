// Package logx is where the daemons log: one file a component, one line an
// event, facts as keys.
//
// A log file is written and rotated by the resident component alone; what a
// supervisor has written into one, by whoever is started with it. It is
// opened for appending, so that a reader that follows it by name (tail -F)
// loses no line: on rotation the file is renamed first, and the next line goes
// into a new one. Where somebody else renames or removes it, the next line
// makes it anew.
package logx

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"otm/internal/durable"
)

// Bounds of a log.
const (
	MaxSize  = 10 << 20 // bytes, then it is rotated
	MaxFiles = 5        // rotated ones that are kept: .1 is the newest
)

// File is a log file that rotates itself. It is safe for use by several
// goroutines of one process.
type File struct {
	path string
	max  int64

	mu   sync.Mutex // guards file and size
	file *durable.File
	size int64
}

// OpenFile returns the log at path; its directory is made if it is missing.
func OpenFile(path string) (*File, error) {
	f := &File{path: path, max: MaxSize}
	return f, f.open()
}

func (f *File) open() error {
	if err := durable.MkdirAll(filepath.Dir(f.path)); err != nil {
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

// ready makes sure that the open file is the one of that name, and has room.
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

// rotate makes room for a new file. Where that fails, the file grows on, and no
// other is written over or, as it is tried again and again, pushed out.
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

// Bound is for what a process prints into a file of dir that a supervisor
// opened, and that nobody else rotates, as launchd does. If it is full, it is
// rotated, and Bound returns the one to go on in; otherwise stderr itself. What
// the runtime prints of a crash goes there as well.
func Bound(stderr *os.File, dir string) *os.File {
	info, err := stderr.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() <= MaxSize {
		return stderr
	}
	entries, err := durable.ReadDir(dir)
	if err != nil {
		return stderr // it is no log of ours
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if named, err := os.Lstat(path); filepath.Ext(path) != ".log" || err != nil || !os.SameFile(named, info) {
			continue
		}
		rotate(path)
		next, err := durable.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND)
		if err != nil {
			return stderr // which goes on under its new name
		}
		debug.SetCrashOutput(next.File, debug.CrashOptions{}) // where it fails, a crash is told in the rotated one alone
		return next.File
	}
	return stderr
}

// numbered is the name of a rotated file; 0 is the one that is written.
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

// New returns a logger that writes lines of key=value to w. Text that could
// disturb a terminal is quoted.
func New(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: utc}))
}

// utc writes times the way the files do.
func utc(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		a.Value = slog.StringValue(a.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	if a.Value.Kind() == slog.KindTime && a.Key != slog.TimeKey {
		a.Value = slog.StringValue(a.Value.Time().UTC().Format(time.RFC3339))
	}
	return a
}

// Tee returns a logger that writes each line to all of the given ones.
func Tee(loggers ...*slog.Logger) *slog.Logger {
	t := tee{}
	for _, l := range loggers {
		t = append(t, l.Handler())
	}
	return slog.New(t)
}

type tee []slog.Handler

func (t tee) Enabled(ctx context.Context, level slog.Level) bool {
	for _, h := range t {
		if h.Enabled(ctx, level) {
			return true
		}
	}
	return false
}

func (t tee) Handle(ctx context.Context, r slog.Record) error {
	var first error
	for _, h := range t {
		if !h.Enabled(ctx, r.Level) {
			continue
		}
		if err := h.Handle(ctx, r.Clone()); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (t tee) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := make(tee, len(t))
	for i, h := range t {
		out[i] = h.WithAttrs(attrs)
	}
	return out
}

func (t tee) WithGroup(name string) slog.Handler {
	out := make(tee, len(t))
	for i, h := range t {
		out[i] = h.WithGroup(name)
	}
	return out
}
