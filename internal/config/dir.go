package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"otm/internal/durable"
)

// Format is the format of data directories that this program writes. It takes
// directories of format 1 over.
const Format = 2

// Folders are the folders of a data directory.
var Folders = []string{"new-tasks", "task-updates", "processed", "failed", "tasks", "keys", "board", "locks", "logs", "secrets"}

// ErrNotInitialised says that a directory is not a data directory.
var ErrNotInitialised = errors.New("not initialised")

// DirError says that a data directory cannot be used.
type DirError struct {
	Dir    string // "": not known
	Reason string
	Hint   string
}

func (e *DirError) Error() string {
	if e.Dir == "" {
		return "data directory: " + e.Reason
	}
	return fmt.Sprintf("data directory %q: %s", e.Dir, e.Reason)
}

// FindDir returns the absolute path of the data directory, which need not exist.
// It is the first that is set of the flag's value, OTM_DIR, OPENCLAW_DATA_DIR/otm,
// and the platform's default. A leading ~/ that no shell has expanded is the home
// directory.
func FindDir(flag string, getenv func(string) string) (string, error) {
	switch {
	case flag != "":
		return filepath.Abs(expand(flag, getenv("HOME")))
	case getenv("OTM_DIR") != "":
		return filepath.Abs(expand(getenv("OTM_DIR"), getenv("HOME")))
	}
	return DefaultDir(getenv)
}

// errNoHome says that there is no default directory.
var errNoHome = &DirError{Reason: "HOME is not set", Hint: "export OTM_DIR=/where/the/data/is"}

// DefaultDir is FindDir without the flag and OTM_DIR.
func DefaultDir(getenv func(string) string) (string, error) {
	if base := getenv("OPENCLAW_DATA_DIR"); base != "" {
		return filepath.Abs(filepath.Join(expand(base, getenv("HOME")), "otm"))
	}
	home := getenv("HOME")
	if runtime.GOOS == "darwin" {
		if home == "" {
			return "", errNoHome
		}
		return filepath.Join(home, "Library", "Application Support", "OpenClaw", "otm"), nil
	}
	base := getenv("XDG_DATA_HOME")
	if base == "" || !filepath.IsAbs(base) { // the XDG specification: a relative path is ignored
		if home == "" {
			return "", errNoHome
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "openclaw", "otm"), nil
}

// CheckDir checks that dir is a data directory of a format that we know, and that
// nobody else can write to it. The error matches ErrNotInitialised if dir is not a
// data directory, else it is a *DirError. warning is "" or one sentence.
func CheckDir(dir string) (warning string, err error) {
	format, err := FormatOf(dir)
	if err != nil {
		return "", err
	}
	if format > Format {
		return "", &DirError{Dir: dir, Reason: fmt.Sprintf("has format %d, this program knows %d", format, Format),
			Hint: fmt.Sprintf("use a version of otm that knows format %d: the one that last ran here", format)}
	}
	return CheckMode(dir)
}

// FormatOf returns the format of a data directory. The error is that of CheckDir.
func FormatOf(dir string) (int, error) {
	data, err := durable.ReadFile(filepath.Join(dir, "format"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return 0, fmt.Errorf("data directory %q: %w", dir, ErrNotInitialised)
	}
	path := shellPath(filepath.Join(dir, "format"))
	if errors.Is(err, durable.ErrNoFile) {
		return 0, &DirError{Dir: dir, Reason: "its file format is no regular file",
			Hint: fmt.Sprintf("mv %s %s.aside && printf '%d\\n' > %s", path, path, formatBy(dir), path)}
	}
	if err != nil {
		return 0, err
	}
	format, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || format < 1 {
		return 0, &DirError{Dir: dir, Reason: fmt.Sprintf("its file format holds %.20q", data),
			Hint: fmt.Sprintf("printf '%d\\n' > %s", formatBy(dir), path)}
	}
	return format, nil
}

// formatBy is the format that the files of a directory show: the engine's database
// came with format 2.
func formatBy(dir string) int {
	if _, err := durable.Stat(filepath.Join(dir, "otm.db")); err != nil {
		return 1
	}
	return Format
}

// CheckMode checks that nobody else can write to dir, which may be missing. If
// somebody can, the error is a *DirError. warning is "" or one sentence.
func CheckMode(dir string) (warning string, err error) {
	for _, path := range []string{dir, filepath.Join(dir, "secrets")} {
		info, err := durable.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if !info.IsDir() {
			continue // who reads it says so
		}
		mode := info.Mode().Perm()
		if mode&0o022 != 0 {
			return "", &DirError{Dir: dir, Reason: fmt.Sprintf("others can write to %q (mode %04o)", path, mode), Hint: "chmod go-w " + shellPath(path)}
		}
		if mode != durable.DirMode && warning == "" {
			warning = fmt.Sprintf("%q has mode %04o, not 0700; chmod 700 %s", path, mode, shellPath(path))
		}
	}
	return warning, nil
}

func shellPath(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }
